"""Measure pages per second of `canonry.crawl` with the http engine, beside Scrapy and crawlee, and its memory.

    python -m benchmarks.crawl [--pages N] [--rounds N] [--memory N …] [--json FILE]

The site is generated and served on loopback by another process, whose time does not count. Each page has 40 links: to
new pages, to pages that all pages link to, to other sites and to files. Eight requests run at the same time, and
robots.txt is read. Each library runs in a separate process and returns every page with all its links. canonry writes
its frontier and every record to a new SQLite file; the peers keep theirs in memory, as they do by default. The best of
the rounds counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin

from benchmarks.machine import describe_machine, find_versions, format_table, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ADDRESS, HOST = "127.0.0.1", "localhost"  # a name, because sites have names
PORTS = range(8000, 9000)
PEERS = ("scrapy", "crawlee")
MIN_SPEED_RATIO = 1.5  # to the pages per second of each peer
MAX_MEMORY_RATIO = 1.5  # of the largest site to the smallest
DEFAULT_PAGES, DEFAULT_ROUNDS, PARALLEL_REQUESTS = 2000, 3, 8
MEMORY_PAGES = (2000, 20_000)
FILES = re.compile(r".*\.(?:pdf|jpe?g|png|gif|svg|webp|css|js|ico|zip|tar|gz|mp4|mov|avi|mp3|wav)(?:[?#]|$)")
TEXT = "<p>The harbour was quiet that morning; only the pilot boat went out, twice, and came back empty.</p>\n" * 12


@dataclass(frozen=True, slots=True)
class CrawlMeasurement:
    """One crawl: its pages and links, its time, and its peak memory."""

    library: str
    pages: int
    links: int
    cpu_seconds: float
    wall_seconds: float
    peak_mib: float

    @property
    def pages_per_second(self) -> float:
        return self.pages / self.wall_seconds

    @property
    def pages_per_cpu_second(self) -> float:
        return self.pages / self.cpu_seconds


class CrawlClaim(NamedTuple):
    """A claim, its measured value, the bar, and whether the claim holds."""

    claim: str
    measured: float
    bar: float
    holds: bool


def main(arguments: list[str]) -> None:
    """Measure, print the tables, and write JSON on request."""
    if arguments[:1] == ["serve"]:
        asyncio.run(serve(int(arguments[1])))
        return
    if arguments[:1] == ["run"]:
        with redirect_stdout(sys.stderr):
            result = run_here(arguments[1], arguments[2], *arguments[3:])
        print(json.dumps(result))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crawl", description=__doc__)
    parser.add_argument("--pages", type=int, default=DEFAULT_PAGES, help=f"pages of the site ({DEFAULT_PAGES})")
    parser.add_argument("--rounds", type=int, default=DEFAULT_ROUNDS, help=f"rounds of each library ({DEFAULT_ROUNDS})")
    parser.add_argument(
        "--memory", type=int, nargs="*", default=MEMORY_PAGES, help="sizes of sites to measure memory for"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the result to FILE")
    options = parser.parse_args(arguments)

    here = [name for name in ("canonry", *PEERS) if find_versions([name])[name] is not None]
    with run_server(options.pages) as port:
        rounds = [measure(name, port) for _ in range(options.rounds) for name in here]
    best = {
        name: min((each for each in rounds if each.library == name), key=lambda each: each.wall_seconds)
        for name in here
    }
    memory: list[CrawlMeasurement] = []
    for pages in sorted(options.memory):
        with run_server(pages) as port:
            memory.append(measure("canonry", port))
    print(format_result(best, memory, options.pages))
    if options.json:
        write_json(options.json, make_json(best, memory))


def measure(library: str, port: int) -> CrawlMeasurement:
    """Crawl in a separate process."""
    command = [sys.executable, "-m", "benchmarks.crawl", "run", library, f"http://{HOST}:{port}/page/0"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=1800)
    return CrawlMeasurement(library, **json.loads(done.stdout.splitlines()[-1]))


def check_claims(best: dict[str, CrawlMeasurement], memory: list[CrawlMeasurement]) -> list[CrawlClaim]:
    """Compare the measurements with what the documentation claims."""
    ours = best["canonry"]
    found: list[CrawlClaim] = []
    for name in PEERS:
        if name in best:
            ratio = ours.pages_per_second / best[name].pages_per_second
            found.append(CrawlClaim(f"pages/s: times {name}", ratio, MIN_SPEED_RATIO, ratio >= MIN_SPEED_RATIO))
    if len(memory) > 1:
        growth = memory[-1].peak_mib / memory[0].peak_mib
        name = f"memory of {memory[-1].pages:,} over {memory[0].pages:,} pages"
        found.append(CrawlClaim(name, growth, MAX_MEMORY_RATIO, growth <= MAX_MEMORY_RATIO))
    return found


def format_result(best: dict[str, CrawlMeasurement], memory: list[CrawlMeasurement], pages: int) -> str:
    """Return the result as Markdown."""
    rows = [
        (
            name,
            *(
                (
                    f"{best[name].pages_per_second:,.0f}",
                    f"{best[name].pages_per_cpu_second:,.0f}",
                    f"{best[name].peak_mib:,.0f}",
                    f"{best[name].links:,}",
                )
                if name in best
                else ("", "", "", "")
            ),
        )
        for name in ("canonry", *PEERS)
    ]
    blocks = [
        f"{pages:,} pages, {PARALLEL_REQUESTS} requests at the same time",
        format_table(("library", "pages/s", "pages/CPU-s", "peak MiB", "links"), rows),
    ]
    if memory:
        blocks.append(
            format_table(
                ("pages", "peak MiB", "pages/s"),
                [(f"{each.pages:,}", f"{each.peak_mib:,.0f}", f"{each.pages_per_second:,.0f}") for each in memory],
            )
        )
    blocks.append(
        format_table(
            CrawlClaim._fields,
            [
                (each.claim, f"{each.measured:.2f}", f"{each.bar:.1f}", "yes" if each.holds else "NO")
                for each in check_claims(best, memory)
            ],
        )
    )
    return "\n\n".join(blocks)


def make_json(best: dict[str, CrawlMeasurement], memory: list[CrawlMeasurement]) -> dict[str, Any]:
    return {
        "machine": describe_machine(),
        "versions": find_versions(["canonry", *PEERS]),
        "crawls": [asdict(each) for each in best.values()],
        "memory": [asdict(each) for each in memory],
        "claims": [claim._asdict() for claim in check_claims(best, memory)],
    }


def make_page(number: int, pages: int) -> bytes:
    """Return a page with links to ten children, ten common pages, ten other sites and ten files."""
    children = [
        f'<a href="/page/{child}">Page {child}</a>'
        for child in range(number * 10 + 1, number * 10 + 11)
        if child < pages
    ]
    common = [f'<a class="nav" href="/page/{common}?">Section {common}</a>' for common in range(10)]
    others = [f'<a href="https://other{other}.example.org/{number}">Elsewhere {other}</a>' for other in range(10)]
    files = [f'<a href="/files/{number}-{file}.pdf#top">File {file}</a>' for file in range(10)]
    lists = "\n".join(f"<li>{link}</li>" for link in (*children, *common, *others, *files))
    head = f"<!doctype html><html><head><title>Page {number}</title></head>"
    return f"{head}<body>{TEXT}<ul>{lists}</ul></body></html>".encode()


async def serve(pages: int) -> None:
    """Serve the site until standard input is closed; print the port."""
    made: dict[bytes, bytes] = {}

    def make_response(target: bytes) -> bytes:
        name = target.partition(b"?")[0]
        if name == b"/robots.txt":
            return (
                b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 25\r\n\r\nUser-agent: *\nDisallow: \n"
            )
        number = 0 if name == b"/" else int(name.rpartition(b"/")[2])
        if name not in made:
            body = make_page(number, pages)
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"
            made[name] = head.encode() + body
        return made[name]

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport: Any = transport
            self.waiting = b""

        def data_received(self, data: bytes) -> None:
            *requests, self.waiting = (self.waiting + data).split(b"\r\n\r\n")
            for request in requests:
                self.transport.write(make_response(request.split(b" ", 2)[1]))

    loop = asyncio.get_running_loop()
    for port in PORTS:
        with suppress(OSError):
            await loop.create_server(Protocol, ADDRESS, port, backlog=1000)
            print(port, flush=True)
            break
    await loop.run_in_executor(None, sys.stdin.read)


@contextmanager
def run_server(pages: int) -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.crawl", "serve", str(pages)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


def run_here(library: str, seed: str, policy: str = "") -> dict[str, Any]:
    """Crawl in this process, and measure from the first request to the last record."""
    crawls: dict[str, Callable[[str, Path], tuple[int, int]]] = {
        "canonry": partial(crawl_canonry, policy=policy),
        "scrapy": crawl_scrapy,
        "crawlee": crawl_crawlee,
    }
    with tempfile.TemporaryDirectory() as folder:
        cpu, wall = time.process_time(), time.perf_counter()
        pages, links = crawls[library](seed, Path(folder))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"pages": pages, "links": links, "cpu_seconds": cpu, "wall_seconds": wall, "peak_mib": peak}


def crawl_canonry(seed: str, folder: Path, policy: str = "") -> tuple[int, int]:
    from canonry.crawler.crawl import crawl
    from canonry.net.fetch import Client
    from canonry.net.guard import Guard

    async def lookup(_: str, port: int) -> list[tuple[str, int]]:
        return [(ADDRESS, port)]

    async def run() -> tuple[int, int]:
        pages = links = 0
        async with Client(Guard([f"{ADDRESS}/32"]), lookup=lookup) as client:
            options: dict[str, Any] = {
                "per_host": PARALLEL_REQUESTS,
                "client": client,
                "store": f"sqlite:///{folder}/crawl.db",
            }
            if policy:
                options["policy"] = policy
            async for each in crawl(seed, engine="http", **options):
                pages += 1
                links += len(each.links)
        return pages, links

    return asyncio.run(run())


def crawl_scrapy(seed: str, _: Path) -> tuple[int, int]:
    import scrapy
    from scrapy.crawler import CrawlerProcess
    from scrapy.linkextractors import LinkExtractor

    counts, site = {"pages": 0, "links": 0}, urljoin(seed, "/")
    extractor = LinkExtractor(deny_extensions=(), unique=False)

    class Site(scrapy.Spider):
        name = "site"
        start_urls = (seed,)

        def parse(self, response: Any) -> Any:
            links = [{"href": link.url, "text": link.text.strip()[:50]} for link in extractor.extract_links(response)]
            counts["pages"] += 1
            counts["links"] += len(links)
            yield {
                "url": response.url,
                "status": response.status,
                "title": response.css("title::text").get(),
                "links": links,
            }
            for link in links:
                if link["href"].startswith(site) and not FILES.search(link["href"]):
                    yield scrapy.Request(link["href"], self.parse)

    process = CrawlerProcess(
        {
            "ROBOTSTXT_OBEY": True,
            "CONCURRENT_REQUESTS": PARALLEL_REQUESTS,
            "CONCURRENT_REQUESTS_PER_DOMAIN": PARALLEL_REQUESTS,
            "DOWNLOAD_DELAY": 0,
            "LOG_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
        }
    )
    process.crawl(Site)
    process.start()
    return counts["pages"], counts["links"]


def crawl_crawlee(seed: str, folder: Path) -> tuple[int, int]:
    import logging
    import os

    os.environ["CRAWLEE_STORAGE_DIR"] = str(folder)
    from crawlee import ConcurrencySettings
    from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
    from crawlee.storage_clients import MemoryStorageClient

    counts = {"pages": 0, "links": 0}

    async def run() -> None:
        crawler = ParselCrawler(
            concurrency_settings=ConcurrencySettings(
                min_concurrency=PARALLEL_REQUESTS,
                desired_concurrency=PARALLEL_REQUESTS,
                max_concurrency=PARALLEL_REQUESTS,
            ),
            respect_robots_txt_file=True,
            storage_client=MemoryStorageClient(),
            configure_logging=False,
        )

        @crawler.router.default_handler
        async def record_page(context: ParselCrawlingContext) -> None:
            anchors = context.selector.css("a[href]")
            links = [
                {"href": link.attrib["href"], "text": (link.xpath("string()").get() or "").strip()[:50]}
                for link in anchors
            ]
            counts["pages"] += 1
            counts["links"] += len(links)
            await context.push_data(
                {"url": context.request.url, "title": context.selector.css("title::text").get(), "links": links}
            )
            await context.enqueue_links(strategy="same-hostname", exclude=[FILES])

        await crawler.run([seed])

    logging.disable(logging.ERROR)  # it logs a traceback for every missing page
    asyncio.run(run())
    return counts["pages"], counts["links"]


if __name__ == "__main__":
    main(sys.argv[1:])
