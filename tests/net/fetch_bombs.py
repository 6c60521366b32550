"""Fetch compressed bombs in a separate process; print by how many KiB its memory grew, then each failure kind.

Usage: fetch_bombs.py URL ENCODING...
"""

from __future__ import annotations

import asyncio
import resource
import sys

from canonry import FetchFailed
from canonry.net.fetch import Client
from canonry.net.guard import Guard
from canonry.net.origin import Origin
from canonry.settings import Settings


async def main(url: str, *encodings: str) -> None:
    async with Client(Guard(["127.0.0.2/32"], range(1, 65536)), settings=Settings()) as client:
        assert (await client.fetch(url, origin=Origin.PERSON)).body == b"small"
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        kinds: list[str] = []
        for encoding in encodings:
            try:
                await client.fetch(url + encoding, origin=Origin.PERSON)
            except FetchFailed as error:
                kinds.append(error.kind)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, *kinds, sep="\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
