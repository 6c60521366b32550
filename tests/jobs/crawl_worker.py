"""A worker for crawl jobs in a separate process, which notices dead workers soon: `crawl_worker.py URL FOLDER JSON`.

It appends `open ID PID TIME` to FOLDER/log, as `process.py` does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from pathlib import Path

from canonry.jobs.crawl_jobs import make_crawl_kinds, make_crawl_schedules
from canonry.jobs.queues import Jobs
from canonry.jobs.worker import Worker, WorkerTimes
from canonry.settings import Settings
from canonry.store.database import Database

sys.path.insert(0, str(Path(__file__).parents[1]))
from crawl_server import client

TIMES = WorkerTimes(heartbeat=0.2, silent=2.0, poll=0.05, drain=1.0)


async def main(url: str, folder: Path) -> None:
    with Database(url) as database, Jobs(database) as jobs:
        async with client() as http_client:
            kinds = make_crawl_kinds(jobs, Settings(), http_client, seconds=1.0)
            async with Worker(jobs, kinds, schedules=make_crawl_schedules(), times=TIMES) as worker:
                with (folder / "log").open("a") as log:
                    log.write(f"open {worker.executor_id} {os.getpid()} {time.monotonic()}\n")
                await asyncio.Event().wait()


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
