"""How many items a second `canonry.feeds.ingest` keeps, beside `reader`, and how its memory grows with the feeds.

    python -m benchmarks.ingest [--feeds N] [--items N] [--rounds N] [--memory N …] [--json FILE]

Every feed has a host of its own, all of them served on loopback by one process whose time does not
count. Each library runs in a process of its own with a new SQLite file, three times over: all items
new, nothing changed (304), one new item in each feed. CPU time of that process, threads and
children included; the best of three rounds, of one for `reader`, whose adding of feeds is not timed.
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
from benchmarks.machine import machine, table, versions, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ADDRESS = "127.0.0.2"
PEER = "reader"
BAR = 10.0  # times the items of reader for the same CPU time
FLAT = 1.5  # times the memory of the fewest feeds that the most may take
FEEDS, ITEMS, ROUNDS = 1000, 20, 3
MEMORY = (1000, 5000, 20_000)
MEMORY_ITEMS = 3
PHASES = ("first run", "unchanged (304)", "one new item each")
TEXT = "The harbour was quiet that morning; only the pilot boat went out, twice, and came back empty. " * 3


@dataclass(frozen=True, slots=True)
class Phase:
    """One run over all feeds: what it cost, and how many items it found new."""

    name: str
    cpu_seconds: float
    wall_seconds: float
    new: int


@dataclass(frozen=True, slots=True)
class Rate:
    """What both libraries did in one phase, in items (of all documents) for a second of CPU time."""

    phase: str
    canonry: float
    reader: float | None
    ratio: float | None


@dataclass(frozen=True, slots=True)
class Memory:
    """The most memory a process took that ingested so many feeds."""

    feeds: int
    peak_mib: float
    cpu_seconds: float


def main(arguments: list[str]) -> None:
    """Measure, print the tables, write the JSON if asked."""
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
    parser.add_argument("--memory", type=int, nargs="*", default=MEMORY, help="numbers of feeds to take the memory of")
    parser.add_argument("--json", metavar="FILE", help="write the result there, too")
    options = parser.parse_args(arguments)

    is_peer_here = versions([PEER])[PEER] is not None
    with server(options.items) as port:
        rounds = [measure("canonry", port, options.feeds) for _ in range(options.rounds)]
        peer = measure(PEER, port, options.feeds) if is_peer_here else None
    rates = [_rate(number, options.feeds * options.items, rounds, peer) for number in range(len(PHASES))]
    memory: list[Memory] = []
    if options.memory:
        with server(MEMORY_ITEMS) as port:
            memory = [memory_of(port, feeds) for feeds in sorted(options.memory)]

    print(text(rates, memory, options.feeds, options.items))
    if options.json:
        write_json(options.json, as_json(rates, memory, options))


def measure(library: str, port: int, feeds: int) -> list[Phase]:
    """The three phases of one library, in a process of its own."""
    return [Phase(**phase) for phase in _run(library, port, feeds, phases=len(PHASES))["phases"]]


def memory_of(port: int, feeds: int) -> Memory:
    """The peak of a process that ingests so many feeds for the first time."""
    result = _run("canonry", port, feeds, phases=1)
    return Memory(feeds, result["peak_kib"] / 1024, result["phases"][0]["cpu_seconds"])


def claims(rates: list[Rate], memory: list[Memory]) -> list[tuple[str, float, float, bool]]:
    """What is claimed, what was measured, the bar, and whether it holds."""
    judged = [
        (f"{rate.phase}: times {PEER}", rate.ratio, BAR, rate.ratio >= BAR) for rate in rates if rate.ratio is not None
    ]
    if len(memory) > 1:
        growth = memory[-1].peak_mib / memory[0].peak_mib
        judged.append((f"memory of {memory[-1].feeds:,} over {memory[0].feeds:,} feeds", growth, FLAT, growth <= FLAT))
    return judged


def text(rates: list[Rate], memory: list[Memory], feeds: int, items: int) -> str:
    """The result as Markdown."""
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
        f"{feeds:,} feeds of {items} items, items for a second of CPU time",
        table(("run", "canonry", PEER, "ratio"), rows),
    ]
    if memory:
        peaks = [(f"{each.feeds:,}", f"{each.peak_mib:.0f}", f"{each.cpu_seconds:.1f}") for each in memory]
        blocks.append(f"Peak memory of a first run, {MEMORY_ITEMS} items in each feed")
        blocks.append(table(("feeds", "MiB", "CPU s"), peaks))
    blocks += [
        f"Claim: {name}: {found:.1f}, bar {bar:g}: {'holds' if holds else 'does not hold'}"
        for name, found, bar, holds in claims(rates, memory)
    ]
    if any(rate.reader is None for rate in rates):
        blocks.append(f"- missing: {PEER} (pip install {PEER})")
    return "\n\n".join(blocks)


def as_json(rates: list[Rate], memory: list[Memory], options: argparse.Namespace) -> dict[str, object]:
    """The result for other programs."""
    return {
        "machine": machine(),
        "versions": {"canonry": canonry.__version__, **versions((PEER, "sqlalchemy", "aiohttp"))},
        "feeds": options.feeds,
        "items": options.items,
        "rounds": options.rounds,
        "rates": [asdict(rate) for rate in rates],
        "memory": [asdict(each) for each in memory],
        "claims": [
            {"claim": name, "measured": found, "bar": bar, "holds": holds}
            for name, found, bar, holds in claims(rates, memory)
        ],
    }


def _rate(number: int, items: int, rounds: list[list[Phase]], peer: list[Phase] | None) -> Rate:
    ours = items / min(phases[number].cpu_seconds for phases in rounds)
    theirs = items / peer[number].cpu_seconds if peer else None
    return Rate(PHASES[number], ours, theirs, ours / theirs if theirs else None)


def _run(library: str, port: int, feeds: int, *, phases: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="canonry-ingest-") as folder:
        command = [sys.executable, "-m", "benchmarks.ingest", "run", library, str(port), str(feeds)]
        command += [str(Path(folder, "store.db")), str(phases)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


# In the process of a library.


def run_here(library: str, port: int, feeds: int, *, store: str, phases: int) -> None:
    """Run the phases and print what they cost."""
    urls = [f"http://blog{number}.example.com/feed" for number in range(feeds)]
    library_of = _canonry if library == "canonry" else _reader
    library_of(urls[:1], f"{store}-warm", port)()  # imports happen where they are used
    update = library_of(urls, store, port)
    spent: list[Phase] = []
    for number, name in enumerate(PHASES[:phases]):
        _publish(port, max(0, number - 1))
        wall, cpu = time.perf_counter(), _cpu_seconds()
        new = update()
        spent.append(Phase(name, _cpu_seconds() - cpu, time.perf_counter() - wall, new))
    print(json.dumps({"phases": [asdict(phase) for phase in spent], "peak_kib": _peak_kib()}))


def _canonry(urls: list[str], store: str, port: int) -> Callable[[], int]:
    from canonry.feeds.ingest import ingest
    from canonry.net.fetch import Client
    from canonry.net.guard import Guard
    from canonry.settings import Settings

    async def lookup(_: str, __: int) -> list[tuple[str, int]]:
        return [(ADDRESS, port)]

    async def once() -> int:
        async with Client(Guard([f"{ADDRESS}/32"], [80, port]), settings=Settings(), lookup=lookup) as client:
            report = await ingest(urls, f"sqlite:///{store}", fetch=client.fetch, on_item=lambda _: None)
        assert not report.failed, [feed for feed in report.feeds if feed.reason][:3]
        assert not report.warnings, report.warnings
        return report.new

    return lambda: asyncio.run(once())


def _reader(urls: list[str], store: str, port: int) -> Callable[[], int]:
    from importlib import import_module

    def only_loopback(*_: object, **__: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (ADDRESS, port))]

    socket.getaddrinfo = only_loopback
    # reader brings a feedparser that wants sgmllib3k; what today's feedparser depends on is a fork of it.
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


def _cpu_seconds() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def _peak_kib() -> int:
    """The high-water mark of this process; `ru_maxrss` would count the parent's, from before exec."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


# In the process of the server.


@contextmanager
def server(items: int) -> Iterator[int]:
    """The port at which feeds of so many items are served."""
    command = [sys.executable, "-m", "benchmarks.ingest", "serve", str(items)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


async def serve(items: int) -> None:
    """Serve feeds until killed; the port is printed."""
    made = await asyncio.get_running_loop().create_server(lambda: _Feeds(items), ADDRESS, 0, backlog=1000)
    print(made.sockets[0].getsockname()[1], flush=True)
    await made.serve_forever()


class _Feeds(asyncio.Protocol):
    """A connection: `/feed` of any host is its feed, `/publish/N` says how many new items all of them have."""

    published = 0  # of the server: all connections see it

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
            _Feeds.published = int(target.removeprefix("/publish/"))
            return b"HTTP/1.1 204 No Content\r\n\r\n"
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        etag = f'"{self.published}"'
        if headers.get("if-none-match") == etag:
            return f"HTTP/1.1 304 Not Modified\r\nETag: {etag}\r\n\r\n".encode()
        body = _document(headers["host"].partition(":")[0], self.published, self._items).encode()
        kind = "Content-Type: application/rss+xml; charset=utf-8"
        return f"HTTP/1.1 200 OK\r\n{kind}\r\nETag: {etag}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _document(host: str, published: int, items: int) -> str:
    """The latest items, the newest first."""
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
