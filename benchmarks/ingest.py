"""Measure how many items a second `canonry.ingest` stores, beside `reader`, and how its memory grows with the feeds.

    python -m benchmarks.ingest [--feeds N] [--items N] [--rounds N] [--memory N …] [--json FILE]

Every feed has its own host; all are served on loopback by one process whose time does not count. Each
library runs in its own process with a new SQLite file, in three phases: all items new, nothing changed
(304), one new item in each feed. Measured is the CPU time of that process with threads and children: the
best of three rounds, and one round of `reader`, whose adding of feeds is not timed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import canonry
from benchmarks.machine import describe_machine, find_versions, format_table, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ADDRESS = "127.0.0.2"
PEER = "reader"
GOAL = 5.0  # times the items of reader for the same CPU time
MAX_MEMORY_GROWTH = 1.5  # from the fewest to the most feeds
FEEDS, ITEMS, ROUNDS = 1000, 20, 3
MEMORY = (1000, 5000, 20_000)
MEMORY_ITEMS = 3
PHASES = ("first run", "unchanged (304)", "one new item each")
TEXT = "The harbour was quiet that morning; only the pilot boat went out, twice, and came back empty. " * 3


@dataclass(frozen=True, slots=True)
class Phase:
    """One run over all feeds: its cost and the number of new items."""

    name: str
    cpu_seconds: float
    wall_seconds: float
    new: int


@dataclass(frozen=True, slots=True)
class IngestRate:
    """The items (of all documents) that both libraries ingest in one second of CPU time, in one phase."""

    phase: str
    canonry: float
    reader: float | None
    ratio: float | None


@dataclass(frozen=True, slots=True)
class Memory:
    """The peak memory of a process that ingests so many feeds."""

    feeds: int
    peak_mib: float
    cpu_seconds: float


def main(arguments: list[str]) -> None:
    """Measure, print the tables, and write the JSON file if one is given."""
    if arguments[:1] == ["serve"]:
        asyncio.run(serve(int(arguments[1])))
        return
    if arguments[:1] == ["run"]:
        run_here(arguments[1], int(arguments[2]), int(arguments[3]), store=arguments[4], phases=int(arguments[5]))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest", description=__doc__)
    parser.add_argument("--feeds", type=int, default=FEEDS, help=f"feeds ({FEEDS})")
    parser.add_argument("--items", type=int, default=ITEMS, help=f"items of each ({ITEMS})")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of canonry ({ROUNDS}); reader has one")
    parser.add_argument(
        "--memory", type=int, nargs="*", default=MEMORY, help="numbers of feeds to measure the memory for"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the result to this file")
    options = parser.parse_args(arguments)

    is_peer_installed = find_versions([PEER])[PEER] is not None
    with run_server(options.items) as port:
        rounds = [measure("canonry", port, options.feeds) for _ in range(options.rounds)]
        peer = measure(PEER, port, options.feeds) if is_peer_installed else None
    rates = [_make_rate(number, options.feeds * options.items, rounds, peer) for number in range(len(PHASES))]
    memory: list[Memory] = []
    if options.memory:
        with run_server(MEMORY_ITEMS) as port:
            memory = [measure_memory(port, feeds) for feeds in sorted(options.memory)]

    print(format_text(rates, memory, options.feeds, options.items))
    if options.json:
        write_json(options.json, make_json(rates, memory, options))


def measure(library: str, port: int, feeds: int) -> list[Phase]:
    """Run the three phases of one library in its own process."""
    return [Phase(**phase) for phase in _run(library, port, feeds, phases=len(PHASES))["phases"]]


def measure_memory(port: int, feeds: int) -> Memory:
    """Measure the peak memory of a process that ingests so many feeds for the first time."""
    result = _run("canonry", port, feeds, phases=1)
    return Memory(feeds, result["peak_kib"] / 1024, result["phases"][0]["cpu_seconds"])


def check_claims(rates: list[IngestRate], memory: list[Memory]) -> list[tuple[str, float, float, bool]]:
    """Return each claim with its measured value, its limit, and whether it holds."""
    checked = [
        (f"{rate.phase}: times {PEER}", rate.ratio, GOAL, rate.ratio >= GOAL)
        for rate in rates
        if rate.ratio is not None
    ]
    if len(memory) > 1:
        growth = memory[-1].peak_mib / memory[0].peak_mib
        checked.append(
            (
                f"memory of {memory[-1].feeds:,} over {memory[0].feeds:,} feeds",
                growth,
                MAX_MEMORY_GROWTH,
                growth <= MAX_MEMORY_GROWTH,
            )
        )
    return checked


def format_text(rates: list[IngestRate], memory: list[Memory], feeds: int, items: int) -> str:
    """Format the result as Markdown."""
    rows = [
        (
            rate.phase,
            f"{rate.canonry:,.0f}",
            "" if rate.reader is None else f"{rate.reader:,.0f}",
            "" if rate.ratio is None else f"{rate.ratio:.1f}",
        )
        for rate in rates
    ]
    blocks = [
        f"{feeds:,} feeds of {items} items, items per second of CPU time",
        format_table(("run", "canonry", PEER, "ratio"), rows),
    ]
    if memory:
        peaks = [(f"{each.feeds:,}", f"{each.peak_mib:.0f}", f"{each.cpu_seconds:.1f}") for each in memory]
        blocks.append(f"Peak memory of a first run, {MEMORY_ITEMS} items in each feed")
        blocks.append(format_table(("feeds", "MiB", "CPU s"), peaks))
    blocks += [
        f"Claim: {name}: {found:.1f}, goal {bar:g}: {'holds' if holds else 'does not hold'}"
        for name, found, bar, holds in check_claims(rates, memory)
    ]
    if any(rate.reader is None for rate in rates):
        blocks.append(f"- missing: {PEER} (pip install {PEER})")
    return "\n\n".join(blocks)


def make_json(rates: list[IngestRate], memory: list[Memory], options: argparse.Namespace) -> dict[str, object]:
    """Return the result for other programs."""
    return {
        "machine": describe_machine(),
        "versions": {"canonry": canonry.__version__, **find_versions((PEER, "sqlalchemy", "aiohttp"))},
        "feeds": options.feeds,
        "items": options.items,
        "rounds": options.rounds,
        "rates": [asdict(rate) for rate in rates],
        "memory": [asdict(each) for each in memory],
        "claims": [
            {"claim": name, "measured": found, "bar": bar, "holds": holds}
            for name, found, bar, holds in check_claims(rates, memory)
        ],
    }


def _make_rate(number: int, items: int, rounds: list[list[Phase]], peer: list[Phase] | None) -> IngestRate:
    ours = items / min(phases[number].cpu_seconds for phases in rounds)
    theirs = items / peer[number].cpu_seconds if peer else None
    return IngestRate(PHASES[number], ours, theirs, ours / theirs if theirs else None)


def _run(library: str, port: int, feeds: int, *, phases: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="canonry-ingest-") as folder:
        command = [sys.executable, "-m", "benchmarks.ingest", "run", library, str(port), str(feeds)]
        command += [str(Path(folder, "store.db")), str(phases)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


# The process of a library


def run_here(library: str, port: int, feeds: int, *, store: str, phases: int) -> None:
    """Run the phases and print their cost."""
    urls = [f"http://blog{number}.example.com/feed" for number in range(feeds)]
    prepare = _prepare_canonry if library == "canonry" else _prepare_reader
    prepare(urls[:1], f"{store}-warm", port)()  # some modules are imported on first use
    update = prepare(urls, store, port)
    spent: list[Phase] = []
    for number, name in enumerate(PHASES[:phases]):
        _publish(port, max(0, number - 1))
        wall, cpu = time.perf_counter(), _measure_cpu_seconds()
        new = update()
        spent.append(Phase(name, _measure_cpu_seconds() - cpu, time.perf_counter() - wall, new))
    print(json.dumps({"phases": [asdict(phase) for phase in spent], "peak_kib": _measure_peak_kib()}))


def _prepare_canonry(urls: list[str], store: str, port: int) -> Callable[[], int]:
    from canonry.cli.event_loop import run_on_fast_loop
    from canonry.feeds.ingest import ingest
    from canonry.net.fetch import Client
    from canonry.net.guard import Guard
    from canonry.settings import Settings

    async def lookup(_: str, __: int) -> list[tuple[str, int]]:
        return [(ADDRESS, port)]

    async def run_once() -> int:
        async with Client(Guard([f"{ADDRESS}/32"], [80, port]), settings=Settings(), lookup=lookup) as client:
            report = await ingest(urls, f"sqlite:///{store}", fetch=client.fetch, on_item=lambda _: None)
        assert not report.failed, [feed for feed in report.feeds if feed.reason][:3]
        assert not report.warnings, report.warnings
        return report.new

    return lambda: run_on_fast_loop(run_once())  # as `canonry ingest` does


def _prepare_reader(urls: list[str], store: str, port: int) -> Callable[[], int]:
    from importlib import import_module

    def resolve_to_loopback(*_: object, **__: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (ADDRESS, port))]

    socket.getaddrinfo = resolve_to_loopback
    # reader contains a feedparser that imports sgmllib3k; today's feedparser depends on a fork of that module.
    sys.modules.setdefault("sgmllib", import_module("feedparser_sgmllib"))
    reader = import_module(PEER).make_reader(store)
    for url in urls:
        reader.add_feed(url)

    def update() -> int:
        before = reader.get_entry_counts().total
        reader.update_feeds(scheduled=False)
        failed = reader.get_feed_counts(broken=True).total
        assert not failed, f"{failed} feeds failed"
        return int(reader.get_entry_counts().total) - int(before)

    return update


def _measure_cpu_seconds() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def _measure_peak_kib() -> int:
    """Return the peak memory of this process; `ru_maxrss` would include that of the parent before exec."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


# The process of the server


@contextmanager
def run_server(items: int) -> Iterator[int]:
    """Serve feeds of so many items, and yield the port."""
    command = [sys.executable, "-m", "benchmarks.ingest", "serve", str(items)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


async def serve(items: int) -> None:
    """Print the port and serve feeds until the process is killed."""
    made = await asyncio.get_running_loop().create_server(lambda: _FeedProtocol(items), ADDRESS, 0, backlog=1000)
    print(made.sockets[0].getsockname()[1], flush=True)
    await made.serve_forever()


class _FeedProtocol(asyncio.Protocol):
    """A connection: `/feed` is the feed of its host, `/publish/N` sets how many new items all feeds have."""

    published = 0  # shared by all connections

    def __init__(self, items: int) -> None:
        self._items = items
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            self._transport.write(self._answer(head.decode("latin-1")))

    def _answer(self, head: str) -> bytes:
        first, *lines = head.split("\r\n")
        target = first.split(" ")[1]
        if target.startswith("/publish/"):
            _FeedProtocol.published = int(target.removeprefix("/publish/"))
            return b"HTTP/1.1 204 No Content\r\n\r\n"
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        etag = f'"{self.published}"'
        if headers.get("if-none-match") == etag:
            return f"HTTP/1.1 304 Not Modified\r\nETag: {etag}\r\n\r\n".encode()
        body = _make_document(headers["host"].partition(":")[0], self.published, self._items).encode()
        kind = "Content-Type: application/rss+xml; charset=utf-8"
        return f"HTTP/1.1 200 OK\r\n{kind}\r\nETag: {etag}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _make_document(host: str, published: int, items: int) -> str:
    """Return a document with the latest items, the newest first."""
    listed = "".join(
        f"<item><title>Notes from the harbour, part {n}</title><link>https://{host}/notes/{n}?utm_source=rss</link>"
        f'<guid isPermaLink="false">https://{host}/?p={n}</guid>'
        f"<pubDate>Mon, 06 Jan 2025 10:{n % 60:02}:00 GMT</pubDate><description>{n}: {TEXT}</description></item>"
        for n in range(published + items, published, -1)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?><rss version="2.0"><channel>'
        f"<title>Notes of {host}</title><link>https://{host}/</link><description>d</description>{listed}</channel></rss>"
    )


def _publish(port: int, published: int) -> None:
    connection = HTTPConnection(ADDRESS, port)
    connection.request("GET", f"/publish/{published}")
    connection.getresponse().read()
    connection.close()


if __name__ == "__main__":
    main(sys.argv[1:])
