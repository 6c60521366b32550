"""A worker for webhooks in a separate process, which looks for changes often: `webhook_worker.py URL FOLDER JSON`.

It appends `open ID PID TIME` to FOLDER/log, as `process.py` does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from canonry.feeds import webhooks
from canonry.jobs.queues import Jobs
from canonry.jobs.webhook_jobs import make_webhook_kinds, make_webhook_schedules
from canonry.jobs.worker import Worker, WorkerTimes
from canonry.net.fetch import Client
from canonry.net.guard import Guard
from canonry.settings import Settings
from canonry.store.database import Database

TIMES = WorkerTimes(heartbeat=0.2, silent=2.0, poll=0.05, drain=1.0)


async def main(url: str, folder: Path) -> None:
    webhooks.MAX_BATCH_CHANGES = 3  # many requests, so that kills hit all moments
    with Database(url) as database, Jobs(database) as jobs:
        async with Client(Guard(["127.0.0.0/8"], range(1, 65536)), settings=Settings()) as client:
            kinds = make_webhook_kinds(jobs, client.fetch, lambda: datetime.now(UTC))
            schedules = make_webhook_schedules(interval=0.3)
            async with Worker(jobs, kinds, schedules=schedules, times=TIMES) as worker:
                with (folder / "log").open("a") as log:
                    log.write(f"open {worker.executor_id} {os.getpid()} {time.monotonic()}\n")
                await asyncio.Event().wait()


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
