"""Crawls in processes of their own: `crawl_process.py`, one JSON order a line, one fork for each.

A line each on standard output: the id of the process, and how it ended. Forked, because starting Python
takes longer than the crawl.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback

from canonry.crawler.crawl import crawl
from canonry.net.fetch import Client
from canonry.net.guard import Guard
from canonry.settings import Settings


def main() -> None:
    for line in sys.stdin:
        database_url, seed = json.loads(line)
        process = os.fork()
        if not process:
            try:
                asyncio.run(_crawl(database_url, seed))
                os._exit(0)
            except BaseException:  # nothing of this process may go on in the loop above
                traceback.print_exc()
            finally:
                os._exit(1)
        os.write(1, f"{process}\n".encode())
        os.write(1, f"{os.waitpid(process, 0)[1]}\n".encode())


async def _crawl(database_url: str, seed: str) -> None:
    guard = Guard(["127.0.0.2/32"], range(1, 65536))
    async with Client(guard, settings=Settings()) as client:
        async for _ in crawl(seed, engine="http", store=database_url, client=client, resume=True, per_host=8):
            pass


if __name__ == "__main__":
    main()
