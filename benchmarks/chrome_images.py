"""Measure what blocking pictures, media and fonts in Chrome saves: pages per second, requests, megabytes and CPU.

    python -m benchmarks.chrome_images [--pages N] [--rounds N] [--json FILE]

The site is served on loopback. Each page has 12 pictures of its own of 40 KB, a font, a video and 20 links. Rounds with
and without pictures take turns in separate processes; the best round of each counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import struct
import subprocess
import sys
import time
import zlib
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from benchmarks.machine import describe_machine, format_table, write_json

ADDRESS = "127.0.0.2"
PICTURES, SIDE = 12, 115  # pixels, which do not compress: about 40 KB
TABS = 4


@dataclass(frozen=True, slots=True)
class ImageRound:
    """One crawl in Chrome."""

    load_images: bool
    pages: int
    links: int
    requests: int
    megabytes: float
    seconds: float
    cpu_seconds: float  # of this process and of the children that it waited for, not of all processes of Chrome


def main(arguments: list[str]) -> None:
    """Measure, print the table, and write the JSON file if one is given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chrome_images", description=__doc__)
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--run", choices=["with", "without"], help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        print(json.dumps(asdict(asyncio.run(_crawl(options.pages, load_images=options.run == "with")))))
        return
    rounds = [_run_round(kind, options.pages) for _ in range(options.rounds) for kind in ("with", "without")]
    best = [
        min((one for one in rounds if one.load_images is kind), key=lambda one: one.seconds) for kind in (True, False)
    ]
    rows = [
        (
            "loaded (--load-images)" if one.load_images else "blocked (the default)",
            *(f"{number:,}" for number in (one.pages, one.links, one.requests)),
            *(f"{number:.1f}" for number in (one.megabytes, one.pages / one.seconds, one.cpu_seconds)),
        )
        for one in best
    ]
    print(format_table(("pictures, media, fonts", "pages", "links", "requests", "MB", "pages/s", "CPU s"), rows))
    if options.json:
        load = os.getloadavg()[0]
        write_json(
            options.json, {"machine": describe_machine(), "load": load, "rounds": [asdict(one) for one in rounds]}
        )


def _run_round(kind: str, pages: int) -> ImageRound:
    command = [sys.executable, "-m", "benchmarks.chrome_images", "--run", kind, "--pages", str(pages)]
    root = Path(__file__).parent.parent
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True, timeout=900)
    return ImageRound(**json.loads(done.stdout.splitlines()[-1]))


async def _crawl(pages: int, *, load_images: bool) -> ImageRound:
    from canonry.net.chrome.chrome_engine import ChromeEngine
    from canonry.net.engine import ReadOptions
    from canonry.net.guard import Guard
    from canonry.net.origin import Origin
    from canonry.settings import Settings

    sent: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.readline():
            while (await reader.readline()).strip():
                pass
            kind, body = _make_response(request.split(b" ")[1].decode())
            sent.append(len(body))
            writer.write(
                f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
            )
        writer.close()

    server = await asyncio.start_server(answer, ADDRESS, 0)
    site = f"http://{ADDRESS}:{server.sockets[0].getsockname()[1]}"
    options = ReadOptions(load_images=load_images)
    guard = Guard([f"{ADDRESS}/32"], range(1, 65536))
    async with ChromeEngine(Settings(), guard, tabs=TABS, options=options) as engine:
        await engine.open(f"{site}/page/0", origin=Origin.PERSON)
        sent.clear()
        started = time.perf_counter()
        urls = [f"{site}/page/{number}" for number in range(1, pages + 1)]
        opened = await asyncio.gather(*(engine.open(url, origin=Origin.PERSON) for url in urls))
        seconds = time.perf_counter() - started
    assert not any(one.error for one in opened)
    times = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(usage.ru_utime + usage.ru_stime for usage in times)
    links = sum(len(one.links) for one in opened)
    return ImageRound(load_images, pages, links, len(sent), sum(sent) / 1e6, seconds, cpu)


def _make_response(target: str) -> tuple[str, bytes]:
    if target.startswith("/picture"):
        return "image/png", _make_picture()
    if target.startswith(("/font", "/video")):
        return ("font/woff2" if "font" in target else "video/mp4"), random.Random(1).randbytes(60_000)
    if target.startswith("/page"):
        number = int(target.rpartition("/")[2])
        pictures = "".join(f"<img src=/picture/{number}/{place}.png>" for place in range(PICTURES))
        links = "".join(f"<li><a href=/page/{number * 20 + place}>Page {place}</a>" for place in range(20))
        style = f"<style>@font-face {{ font-family: x; src: url(/font/{number}.woff2) }} p {{ font-family: x }}</style>"
        return (
            "text/html",
            f"<!doctype html>{style}<p>Text</p>{pictures}<video src=/video/{number}></video>{links}".encode(),
        )
    return "text/plain", b""


@cache
def _make_picture() -> bytes:
    """Return a PNG of random pixels."""
    rows = b"".join(b"\0" + random.Random(row).randbytes(SIDE * 3) for row in range(SIDE))
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    parts = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


if __name__ == "__main__":
    main(sys.argv[1:])
