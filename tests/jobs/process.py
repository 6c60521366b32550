"""A worker in a separate process, whose jobs write a log: `process.py URL FOLDER JSON`.

A job appends `start KEY PID TIME` and `end KEY PID TIME` to FOLDER/log, and makes the file FOLDER/KEY, once.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from canonry.errors import CanonryError
from canonry.jobs.queues import POLL_JOB, JobKind, Jobs
from canonry.jobs.schedules import Schedule
from canonry.jobs.worker import Worker, WorkerTimes
from canonry.store.database import Database

DEFAULTS = {
    "heartbeat": 0.2,
    "silent": 10.0,  # a busy machine delays the heartbeats of a living worker
    "poll": 0.05,
    "drain": 5.0,
    "seconds": 0.05,
    "concurrency": 8,
    "every": 0.0,
}


async def main(url: str, folder: Path, options: dict[str, float]) -> None:
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(event: str, key: str) -> None:
        os.write(log, f"{event} {key} {os.getpid()} {time.monotonic()}\n".encode())

    async def job(key: str) -> None:
        write("start", key)
        await asyncio.sleep(options["seconds"])
        with suppress(FileExistsError):
            os.close(os.open(folder / key, os.O_CREAT | os.O_EXCL))
        write("end", key)

    async def tick(_: str) -> None:
        await job("tick")

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    kinds = [JobKind(POLL_JOB, job, is_per_host=True), JobKind("tick", tick)]
    with Database(url) as database, Jobs(database) as jobs:
        worker = Worker(
            jobs,
            kinds,
            schedules=[Schedule("tick", options["every"])] if options["every"] else [],
            concurrency=int(options["concurrency"]),
            times=WorkerTimes(*(options[name] for name in ("heartbeat", "silent", "poll", "drain"))),
        )
        async with worker:
            write("open", worker.executor_id)
            await stop.wait()
            write("stopping", worker.executor_id)
    write("closed", worker.executor_id)


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    try:
        asyncio.run(main(sys.argv[1], Path(sys.argv[2]), DEFAULTS | json.loads(sys.argv[3])))
    except CanonryError as error:
        sys.exit(f"refused: {error}")
