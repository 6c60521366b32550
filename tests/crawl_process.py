"""Crawl in forked processes: `crawl_process.py` reads one JSON array (database URL, seed) per line and forks for each.

It prints the process id, and the exit status when the process has ended. Forking is faster than starting Python.
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
            except BaseException:  # the child must not continue the loop of its parent
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
