"""Requests per second, latency and CPU time of `canonry serve` for saving and finding bookmarks.

    python -m benchmarks.service [--seconds N] [--connections N] [--json FILE]

The service runs in a process of its own with a new SQLite file. Another process sends requests over
loopback on `--connections` persistent connections; each waits for its response before it sends the next
request. It first PUTs new bookmarks for `--seconds` seconds, then GETs random ones for as long, by a
messy form of their URLs. Errors are any status but 200 and 201, a bookmark that is not found, and a
broken connection.

The CPU time of a PUT includes all threads and processes of the service. The lower bound is shown next to
it: inserting the same rows into the same table and indexes with Python's `sqlite3`, one commit each
(WAL, synchronous=NORMAL).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import uvloop  # so that the client adds as little latency as possible

import canonry
from benchmarks.machine import describe_machine, find_versions, format_table, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ADDRESS = "127.0.0.1"
SERVE = [sys.executable, "-m", "canonry", "serve"]
SECONDS, CONNECTIONS = 30, 32
MAX_CPU_RATIO = 3.0  # CPU of a PUT, relative to a bare insert
MAX_P99_MS = 50.0
MAX_INSERTS = 20_000
TIMEOUT_SECONDS = 60  # for the service to start or stop
PEER = "linkding"


@dataclass(frozen=True, slots=True)
class Load:
    """The result for one method; `cpu_ms` is the CPU time of the service per request."""

    method: str
    requests: int
    per_second: float
    p50_ms: float
    p99_ms: float
    errors: int
    first_error: str
    cpu_ms: float


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim: the measured value must not exceed the bar."""

    name: str
    measured: float
    bar: float

    @property
    def holds(self) -> bool:
        return self.measured <= self.bar


def main(arguments: list[str]) -> None:
    """Measure, print the table, and write the JSON file if one is given."""
    if arguments[:1] == ["drive"]:
        port, connections, seconds, known = map(int, arguments[2:])
        print(json.dumps(uvloop.run(drive(arguments[1], port, connections, seconds=seconds, known=known))))
        return
    if arguments[:1] == ["insert"]:
        print(insert_rows(Path(arguments[1])))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("--seconds", type=int, default=SECONDS, help=f"of each kind of request ({SECONDS})")
    parser.add_argument(
        "--connections", type=int, default=CONNECTIONS, help=f"connections of the client ({CONNECTIONS})"
    )
    parser.add_argument("--json", metavar="FILE", help="write the result there, too")
    options = parser.parse_args(arguments)

    with tempfile.TemporaryDirectory(prefix="canonry-service-") as folder:
        store = Path(folder, "store.db")
        with run_service(store) as (process, port):
            put = measure_load("PUT", process, port, options, known=0)
            get = measure_load("GET", process, port, options, known=put.requests)
        bare_ms = measure_bare_insert(store)

    print(format_result([put, get], bare_ms, options))
    if options.json:
        write_json(options.json, make_json([put, get], bare_ms, options))


def measure_load(method: str, process: int, port: int, options: argparse.Namespace, *, known: int) -> Load:
    """Send one kind of request from another process; `known` is the number of saved bookmarks."""
    command = [sys.executable, "-m", "benchmarks.service", "drive", method]
    command += map(str, (port, options.connections, options.seconds, known))
    before = get_cpu_seconds(process)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    spent = get_cpu_seconds(process) - before
    result: dict[str, Any] = json.loads(done.stdout)
    return Load(method=method, cpu_ms=1000 * spent / max(1, result["requests"]), **result)


def make_claims(loads: list[Load], bare_ms: float) -> list[Claim]:
    """Return the claims that should hold."""
    return [
        Claim("CPU of a PUT, times a bare insert", loads[0].cpu_ms / bare_ms, MAX_CPU_RATIO),
        *(Claim(f"{load.method}: p99, ms", load.p99_ms, MAX_P99_MS) for load in loads),
        Claim("errors", sum(load.errors for load in loads), 0),
    ]


def format_result(loads: list[Load], bare_ms: float, options: argparse.Namespace) -> str:
    """Return the result as Markdown."""
    rows = [
        (
            load.method,
            f"{load.per_second:,.0f}",
            f"{load.p50_ms:.1f}",
            f"{load.p99_ms:.1f}",
            f"{load.errors:,}",
            f"{load.cpu_ms:.3f}",
            "",
        )
        for load in loads
    ]
    rows.append(("bare insert", "", "", "", "", f"{bare_ms:.3f}", ""))
    header = ("request", "per second", "p50 ms", "p99 ms", "errors", "CPU ms", f"{PEER}, per second")
    blocks = [
        f"{options.connections} connections, {options.seconds} s per method; one server process",
        format_table(header, rows),
        *(
            f"Claim: {claim.name}: {claim.measured:.1f}, bar {claim.bar:g}: "
            f"{'holds' if claim.holds else 'does not hold'}"
            for claim in make_claims(loads, bare_ms)
        ),
        *(f"- first error of {load.method}: {load.first_error}" for load in loads if load.errors),
        f"- not measured: {PEER}, which has to be deployed as a site",
    ]
    return "\n\n".join(blocks)


def make_json(loads: list[Load], bare_ms: float, options: argparse.Namespace) -> dict[str, object]:
    """Return the result as JSON values."""
    return {
        "machine": describe_machine(),
        "versions": {
            "canonry": canonry.__version__,
            "sqlite": sqlite3.sqlite_version,
            **find_versions(("fastapi", "uvicorn", "uvloop", "httptools", "sqlalchemy")),
        },
        "connections": options.connections,
        "seconds": options.seconds,
        "loads": [asdict(load) for load in loads],
        "bare_insert_cpu_ms": bare_ms,
        PEER: None,
        "claims": [
            {"claim": claim.name, "measured": claim.measured, "bar": claim.bar, "holds": claim.holds}
            for claim in make_claims(loads, bare_ms)
        ],
    }


# The service process.


@contextmanager
def run_service(store: Path) -> Iterator[tuple[int, int]]:
    """Run a service with a new store; yield its process id and port."""
    with closing(socket.create_server((ADDRESS, 0))) as free:
        port = free.getsockname()[1]
    command = [*SERVE, "--host", ADDRESS, "--port", str(port), "--db", f"sqlite:///{store}"]
    environment = {**os.environ, "HOME": str(store.parent)}  # without the settings of the user
    log = store.with_suffix(".log")
    with log.open("wb") as output, subprocess.Popen(command, env=environment, stdout=output, stderr=output) as process:
        try:
            _wait_until_ready(process, port, log)
            yield process.pid, port
        finally:
            process.terminate()
            try:
                process.wait(TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait until the service answers; exit with the end of its log if it does not."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        connection = HTTPConnection(ADDRESS, port, timeout=TIMEOUT_SECONDS)
        with closing(connection):
            try:
                connection.request("GET", _make_target(0))
                if connection.getresponse().status == 200:
                    return
            except (OSError, HTTPException):
                pass
        time.sleep(0.1)
    raise SystemExit(f"cannot measure: the service does not answer. Its log: {log.read_text()[-2000:]}")


def get_cpu_seconds(process: int) -> float:
    """Return the CPU time of a process and its living descendants."""
    fields = {int(path.parent.name): _read_stat(path) for path in Path("/proc").glob("[0-9]*/stat")}
    family = {process}
    while grown := {child for child, stat in fields.items() if stat and int(stat[1]) in family} - family:
        family |= grown
    ticks = sum(int(tick) for member in family for tick in fields[member][11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def _read_stat(path: Path) -> list[str]:
    """Return the fields after the name in Linux's `stat`: state, parent, …; nothing if the process is gone."""
    try:
        return path.read_text().rpartition(")")[2].split()
    except OSError:
        return []


# The client process.


async def drive(method: str, port: int, connections: int, *, seconds: int, known: int) -> dict[str, object]:
    """Send requests on all connections until the time is over; return the fields of a Load."""
    numbers = count()
    chance = random.Random(7)
    next_request = _make_puts(numbers) if method == "PUT" else _make_gets(known, chance)
    waits: list[float] = []
    errors: list[str] = []
    start = time.perf_counter()
    end = start + seconds
    await asyncio.gather(*(_send_requests(port, next_request, waits, errors, end) for _ in range(connections)))
    took = time.perf_counter() - start
    waits.sort()
    return {
        "requests": len(waits),
        "per_second": len(waits) / took,
        "p50_ms": _calculate_percentile(waits, 50),
        "p99_ms": _calculate_percentile(waits, 99),
        "errors": len(errors),
        "first_error": errors[0] if errors else "",
    }


async def _send_requests(
    port: int, next_request: Callable[[], tuple[bytes, bytes]], waits: list[float], errors: list[str], end: float
) -> None:
    """Use one connection; a broken one counts as an error and is opened again."""
    while time.perf_counter() < end:
        try:
            reader, writer = await asyncio.open_connection(ADDRESS, port)
            while (start := time.perf_counter()) < end:
                request, wanted = next_request()
                writer.write(request)
                status, body = await _read_response(reader)
                waits.append(time.perf_counter() - start)
                if status not in {200, 201} or wanted not in body:
                    errors.append(f"{status}: {body[:200].decode(errors='replace')}")
            writer.close()
        except (OSError, EOFError, ValueError) as error:  # asyncio.IncompleteReadError is an EOFError
            errors.append(f"{type(error).__name__}: {error}")
            await asyncio.sleep(0.1)


async def _read_response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    return int(head[9:12]), await reader.readexactly(length)


def _make_puts(numbers: Iterator[int]) -> Callable[[], tuple[bytes, bytes]]:
    def put() -> tuple[bytes, bytes]:
        number = next(numbers)
        body = json.dumps({"url": _make_messy_url(number), "title": f"Notes from the harbour, part {number}"}).encode()
        head = f"PUT /api/bookmarks HTTP/1.1\r\nHost: {ADDRESS}\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body, f"/notes/{number}".encode()

    return put


def _make_gets(known: int, chance: random.Random) -> Callable[[], tuple[bytes, bytes]]:
    def get() -> tuple[bytes, bytes]:
        number = chance.randrange(max(1, known))
        return f"GET {_make_target(number)} HTTP/1.1\r\nHost: {ADDRESS}\r\n\r\n".encode(), f"/notes/{number}".encode()

    return get


def _make_target(number: int) -> str:
    return f"/api/bookmarks?url={quote(_make_messy_url(number), safe='')}"


def _make_messy_url(number: int) -> str:
    return f"http://www.Site{number % 1000}.example.com/notes/{number}/?utm_source=feed&b=2&a=1"


def _calculate_percentile(ordered: list[float], percent: int) -> float:
    """Return a percentile in milliseconds; without any response, a value that fails every claim."""
    return 1000 * ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] if ordered else float(10**9)


# The process of the bare inserts.


def measure_bare_insert(store: Path) -> float:
    """Return the CPU milliseconds of one insert with commit, for the rows that the service saved."""
    command = [sys.executable, "-m", "benchmarks.service", "insert", str(store)]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def insert_rows(store: Path) -> float:
    """Copy rows into a new file with the same table, one commit each; return CPU milliseconds per row."""
    with closing(sqlite3.connect(store)) as saved:
        definitions = saved.execute("SELECT sql FROM sqlite_master WHERE tbl_name = 'bookmarks' AND type != 'trigger'")
        statements = [row[0] for row in definitions if row[0]]
        rows = saved.execute("SELECT * FROM bookmarks ORDER BY id LIMIT ?", (MAX_INSERTS,)).fetchall()
    assert rows, "the service saved nothing"
    with closing(sqlite3.connect(store.with_name("bare.db"), isolation_level=None)) as bare:
        bare.execute("PRAGMA journal_mode=WAL")
        bare.execute("PRAGMA synchronous=NORMAL")
        for statement in statements:
            bare.execute(statement)
        insert = f"INSERT INTO bookmarks VALUES ({', '.join('?' * len(rows[0]))})"
        before = _get_own_cpu_seconds()
        for row in rows:
            bare.execute("BEGIN IMMEDIATE")
            bare.execute(insert, row)
            bare.execute("COMMIT")
        return 1000 * (_get_own_cpu_seconds() - before) / len(rows)


def _get_own_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main(sys.argv[1:])
