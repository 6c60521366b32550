"""Measure pages per second of the chrome engine with 4 tabs, compared with Playwright and the same Chrome.

    python -m benchmarks.chrome [--pages N] [--rounds N] [--tabs N] [--json FILE]
    python -m benchmarks.chrome --memory N     # memory of canonry and of Chrome during a crawl of N pages

A separate process serves a site on loopback: each page has 50 links, a stylesheet, a script and an image. Both tools
open every page in tabs that they keep, wait for its load event, and read the same links. They take turns, and the best
round of each counts; starting Chrome is not timed. `memory` is the memory of the Python process, and for Playwright
also of its driver, without Chrome.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.machine import describe_machine, find_versions, format_table, write_json
from canonry.errors import CanonryError
from canonry.net.chrome.process import find_chrome
from canonry.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS = "127.0.0.2"
MIN_RATIO = 1.5  # pages/s compared with Playwright
TABS = 4
PAGES, ROUNDS, WARM_UP = 300, 3, 40
LINKS = 50
TOOLS = ("canonry", "playwright")
TEXT = "The harbour was quiet that morning; only the pilot boat went out, twice, and came back empty. " * 3
SCRIPT = """() => [document.title, Array.from(document.querySelectorAll('a[href]'), a => [
  a.getAttribute('href'), typeof a.href === 'string' ? a.href : new URL(a.getAttribute('href'), document.baseURI).href,
  a.textContent.trim().slice(0, 50)])]"""


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one tool in one round."""

    tool: str
    pages: int
    links: int
    seconds: float
    memory_mb: float

    @property
    def rate(self) -> float:
        return self.pages / self.seconds


def main(arguments: list[str]) -> None:
    """Measure, print the table, and write the JSON file if one is given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chrome", description=__doc__)
    parser.add_argument("--pages", type=int, default=PAGES, help=f"pages to open ({PAGES})")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of each tool ({ROUNDS})")
    parser.add_argument("--tabs", type=int, default=TABS, help=f"tabs that are open at the same time ({TABS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result to this file")
    parser.add_argument("--memory", type=int, metavar="PAGES", help="instead, measure memory in a crawl of PAGES")
    parser.add_argument("--run", choices=TOOLS, help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.memory:
        asyncio.run(_measure_memory(options.memory, options.tabs))
    elif options.serve:
        asyncio.run(_serve())
    elif options.run:
        crawl = _run_canonry if options.run == "canonry" else _run_playwright
        print(json.dumps(asdict(asyncio.run(crawl(options.port, options.pages, options.tabs)))))
    else:
        _compare(options.pages, options.rounds, options.tabs, options.json)


def _compare(pages: int, rounds: int, tabs: int, file: Path | None) -> None:
    try:
        program = find_chrome(Settings())
    except CanonryError as error:
        print(error)
        return
    with _start_site() as port:
        results = [_run_round(tool, port, pages, tabs) for _ in range(rounds) for tool in TOOLS]
    best = {tool: max((each for each in results if each.tool == tool), key=lambda each: each.rate) for tool in TOOLS}
    ratio = best["canonry"].rate / best["playwright"].rate
    rows = [
        [tool, f"{one.rate:.1f}", f"{one.links / one.pages:.0f}", f"{one.memory_mb:.0f} MB"]
        for tool, one in best.items()
    ]
    chrome = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    print(format_table(["tool", "pages/s", "links/page", "memory"], rows))
    verdict = "held" if ratio >= MIN_RATIO else "missed"
    print(f"\n{tabs} tabs, {pages} pages, {chrome}: {ratio:.2f}× Playwright (bar {MIN_RATIO}: {verdict})")
    if file:
        write_json(
            file,
            {
                "machine": describe_machine(),
                "versions": find_versions(["playwright"]) | {"chrome": chrome},
                "rounds": [asdict(each) | {"rate": each.rate} for each in results],
                "tabs": tabs,
                "ratio": ratio,
                "bar": MIN_RATIO,
            },
        )


def _run_round(tool: str, port: int, pages: int, tabs: int) -> Round:
    numbers = ["--port", str(port), "--pages", str(pages), "--tabs", str(tabs)]
    command = [sys.executable, "-m", "benchmarks.chrome", "--run", tool, *numbers]
    done = subprocess.run(command, cwd=Path(__file__).parent.parent, stdout=subprocess.PIPE, text=True, check=True)
    print(f"{tool}: {done.stdout.strip()}", file=sys.stderr, flush=True)
    return Round(**json.loads(done.stdout))


def _make_urls(port: int, pages: int) -> list[str]:
    return [f"http://{ADDRESS}:{port}/page/{number}" for number in range(pages)]


async def _run_canonry(port: int, pages: int, tabs: int) -> Round:
    from canonry.net.chrome.chrome_engine import ChromeEngine
    from canonry.net.engine import WAIT_LOAD, ReadOptions
    from canonry.net.guard import Guard
    from canonry.net.origin import Origin

    guard, options = Guard([f"{ADDRESS}/32"], range(1, 65536)), ReadOptions(wait=WAIT_LOAD, load_images=True)
    async with ChromeEngine(Settings(), guard, tabs=tabs, options=options) as engine:
        open_page = partial(engine.open, origin=Origin.PERSON)
        await asyncio.gather(*(open_page(url) for url in _make_urls(port, WARM_UP)))
        started = time.perf_counter()
        opened = await asyncio.gather(*(open_page(url) for url in _make_urls(port, pages)))
        seconds = time.perf_counter() - started
        assert not any(one.error for one in opened)
        links = sum(len(one.links) for one in opened)
        return Round("canonry", pages, links, seconds, _get_memory(os.getpid()))


async def _measure_memory(pages: int, tabs: int) -> None:
    """Crawl, and print pages, pages/s and the memory of this process and of Chrome twenty times."""
    from canonry.crawler.crawl import crawl
    from canonry.net.chrome.chrome_engine import ChromeEngine
    from canonry.net.guard import Guard

    guard = Guard([f"{ADDRESS}/32"], range(1, 65536))
    with _start_site() as port, tempfile.TemporaryDirectory() as folder:
        async with ChromeEngine(Settings(), guard, tabs=tabs) as engine:
            started, count = time.perf_counter(), 0
            found = crawl(
                f"http://{ADDRESS}:{port}/page/1",
                engine=engine,
                store=f"sqlite:///{folder}/crawl.db",
                robots=False,
                max_pages=pages,
                per_host=tabs,
            )
            async for page in found:
                assert not page.error, page
                count += 1
                if count % max(pages // 20, 1) == 0:
                    rate = count / (time.perf_counter() - started)
                    chrome = _get_group_memory(engine.process_group or 0)
                    print(
                        f"{count} pages, {rate:.1f} pages/s, {_get_memory(os.getpid()):.0f} MB, Chrome {chrome:.0f} MB",
                        flush=True,
                    )


async def _run_playwright(port: int, pages: int, tabs: int) -> Round:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = await playwright.chromium.launch(executable_path=find_chrome(Settings()), args=root)
        opened = [await (await browser.new_context()).new_page() for _ in range(tabs)]
        await _open_in_tabs(opened, _make_urls(port, WARM_UP))
        started = time.perf_counter()
        links = await _open_in_tabs(opened, _make_urls(port, pages))
        seconds = time.perf_counter() - started
        memory = sum(_get_memory(pid) for pid in (os.getpid(), *_find_drivers(os.getpid())))
        await browser.close()
        return Round("playwright", pages, links, seconds, memory)


async def _open_in_tabs(tabs: list[Any], urls: list[str]) -> int:
    left, found = iter(urls), 0

    async def work(tab: Any) -> None:
        nonlocal found
        for url in left:
            answer = await tab.goto(url, wait_until="load")
            assert answer.status == 200
            _, links = await tab.evaluate(SCRIPT)
            found += len(links)

    await asyncio.gather(*map(work, tabs))
    return found


def _get_memory(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS"))


def _get_group_memory(group: int) -> float:
    """Return the memory of all living processes of a group in MB."""
    total = 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, StopIteration):
            total += _get_memory(int(folder.name)) if os.getpgid(int(folder.name)) == group else 0.0
    return total


def _find_drivers(pid: int) -> list[int]:
    """Return the Node processes that Playwright has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if "node" in Path(f"/proc/{child}/cmdline").read_text()]


@contextmanager
def _start_site() -> Iterator[int]:
    command = [sys.executable, "-m", "benchmarks.chrome", "--serve"]
    server = subprocess.Popen(command, cwd=Path(__file__).parent.parent, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield int(server.stdout.readline())
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


async def _serve() -> None:
    made = await asyncio.get_running_loop().create_server(_Site, ADDRESS, 0)
    print(made.sockets[0].getsockname()[1], flush=True)
    await made.serve_forever()


class _Site(asyncio.Protocol):
    def __init__(self) -> None:
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            kind, body = _make_response(head.split(b" ")[1].decode())
            cache = "" if kind == "text/html" else "Cache-Control: max-age=3600\r\n"
            lines = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{cache}Content-Length: {len(body)}\r\n\r\n"
            self._transport.write(lines.encode() + body)
            if b"connection: close" in head.lower():
                self._transport.close()


def _make_response(target: str) -> tuple[str, bytes]:
    if target.startswith("/style"):
        return "text/css", b"body { font: 16px/1.5 serif; max-width: 40em } a { color: #123 }"
    if target.startswith("/script"):
        return "text/javascript", b"document.documentElement.className = 'ready';"
    if target.startswith(("/image", "/favicon")):
        return (
            "image/svg+xml",
            b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><path d="M0 0h9v9z"/></svg>',
        )
    number = int(target.partition("?")[0].rpartition("/")[2])
    links = "".join(
        f'<li><a href="/page/{number * 7 + n}?utm_source=list">Notes from the harbour, part {n}</a> {TEXT[:100]}</li>'
        for n in range(LINKS)
    )
    page = f"<title>Page {number}</title><link rel=stylesheet href=/style.css><script src=/script.js></script>"
    return "text/html", f"<!doctype html>{page}<h1>{number}</h1><img src=/image.svg><p>{TEXT}<ul>{links}</ul>".encode()


if __name__ == "__main__":
    main(sys.argv[1:])
