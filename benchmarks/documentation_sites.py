"""Crawl documentation from Debian packages, served on loopback: pages, requests, different texts, CPU and memory.

    python -m benchmarks.documentation_sites [--rounds N] [--sites SITE…] [--folder FOLDER] [--json FILE]

The packages are downloaded with `apt-get download` and unpacked, not installed. One process serves a site as it is;
another one serves the Django documentation as real sites link it: with campaign parameters, a new session in each
answer, `index.html` and fragments. Every program runs in a separate process with eight requests at the same time and
robots.txt. Pages are what a program returns; requests and different texts are counted by the server, for all programs
alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import mimetypes
import os
import re
import secrets
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.crawl import ADDRESS, HOST, PEERS, PORTS
from benchmarks.machine import describe_machine, find_versions, format_table, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator

SITES = {
    "python": ("python3.11-doc", "usr/share/doc/python3.11/html"),
    "postgresql": ("postgresql-doc-15", "usr/share/doc/postgresql-doc-15/html"),
    "django": ("python-django-doc", "usr/share/doc/python-django-doc/html"),
}
DECORATED = "django, decorated"
_HREF = re.compile(rb'href="([^"#?:]*\.html|[^"#?:]*/)(#[^"]*)?"')


@dataclass(frozen=True, slots=True)
class SiteMeasurement:
    """One crawl of a site by one program."""

    site: str
    program: str
    pages: int
    links: int
    requests: int
    texts: int
    cpu_seconds: float
    wall_seconds: float
    peak_mib: float


def main(arguments: list[str]) -> None:
    """Measure, print a table, and write JSON on request."""
    if arguments[:1] == ["serve"]:
        asyncio.run(serve(Path(arguments[1]), is_decorated=arguments[2] == "decorated"))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.documentation_sites", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("build/documentation"), help="where packages are unpacked")
    parser.add_argument("--sites", nargs="*", choices=[*SITES, DECORATED], default=[*SITES, DECORATED])
    parser.add_argument("--json", metavar="FILE", help="also write the result to FILE")
    options = parser.parse_args(arguments)
    programs = [name for name in ("canonry", *PEERS) if find_versions([name])[name] is not None]
    measured: list[SiteMeasurement] = []
    for site in options.sites:
        package, folder = SITES["django" if site == DECORATED else site]
        root = unpack(package, options.folder) / folder
        if site == DECORATED:
            measured += [_measure(site, "canonry", root, policy) for policy in ("crawl@1", "crawl@2")]
        else:
            measured += [_measure_best(site, program, root, options.rounds) for program in programs]
    print(format_result(measured))
    if options.json:
        result = {"machine": describe_machine(), "versions": find_versions(programs), "load": os.getloadavg()[0]}
        write_json(options.json, {**result, "crawls": [asdict(each) for each in measured]})


def unpack(package: str, folder: Path) -> Path:
    """Download a Debian package and unpack it, unless that was done; return its folder."""
    target = folder.resolve() / package
    if not target.is_dir():
        target.mkdir(parents=True)
        subprocess.run(["apt-get", "download", package], cwd=target, check=True, capture_output=True)
        [archive] = target.glob("*.deb")
        subprocess.run(["dpkg", "-x", archive.name, "."], cwd=target, check=True)
    return target


def _measure_best(site: str, program: str, root: Path, rounds: int) -> SiteMeasurement:
    return min((_measure(site, program, root) for _ in range(rounds)), key=lambda each: each.cpu_seconds)


def _measure(site: str, program: str, root: Path, policy: str = "") -> SiteMeasurement:
    with _run_server(root, is_decorated=site == DECORATED) as server:
        seed = f"http://{HOST}:{server.port}/index.html"
        command = [sys.executable, "-m", "benchmarks.crawl", "run", program, seed, policy]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=3600)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    name = f"{program} {policy}".strip()
    measured = SiteMeasurement(site, name, requests=server.requests, texts=server.texts, **result)
    print(measured, file=sys.stderr, flush=True)
    return measured


def format_result(measured: list[SiteMeasurement]) -> str:
    """Return the result as Markdown."""
    header = ("site", "program", "requests", "pages", "different texts", "CPU s", "wall s", "peak MiB")
    rows = [
        (
            each.site,
            each.program,
            *(f"{number:,}" for number in (each.requests, each.pages, each.texts)),
            *(f"{number:.1f}" for number in (each.cpu_seconds, each.wall_seconds)),
            f"{each.peak_mib:.0f}",
        )
        for each in measured
    ]
    return format_table(header, rows)


class _Server:
    """A server in a separate process; after its end, what it has counted."""

    port = requests = texts = 0


@contextmanager
def _run_server(root: Path, *, is_decorated: bool) -> Iterator[_Server]:
    command = [sys.executable, "-m", "benchmarks.documentation_sites", "serve", str(root)]
    process = subprocess.Popen(
        [*command, "decorated" if is_decorated else "plain"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    server = _Server()
    try:
        server.port = int(process.stdout.readline())
        yield server
    finally:
        process.stdin.close()
        server.requests, server.texts = json.loads(process.stdout.readline() or b"[0, 0]")
        process.wait(60)
        process.stdout.close()


async def serve(root: Path, *, is_decorated: bool) -> None:
    """Serve a folder until standard input is closed; print the port, and in the end the requests and texts."""
    asked: Counter[Path] = Counter()
    bodies: dict[Path, bytes] = {}

    def make_response(target: str) -> bytes:
        path = target.partition("?")[0].partition(";")[0].partition("#")[0]
        file = (root / path.lstrip("/")).resolve()
        if file.is_dir():
            file /= "index.html"
        if not file.is_file() or not file.is_relative_to(root.resolve()):
            return b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\nnot found"
        body = bodies.setdefault(file, file.read_bytes())
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        if kind == "text/html":
            asked[file] += 1
            if is_decorated:
                body = decorate(body)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport: Any = transport
            self.waiting = b""

        def data_received(self, data: bytes) -> None:
            *requests, self.waiting = (self.waiting + data).split(b"\r\n\r\n")
            for request in requests:
                self.transport.write(make_response(request.split(b" ", 2)[1].decode()))

    loop = asyncio.get_running_loop()
    for port in PORTS:
        with suppress(OSError):
            await loop.create_server(Protocol, ADDRESS, port, backlog=1000)
            print(port, flush=True)
            break
    await loop.run_in_executor(None, sys.stdin.read)
    from canonry.evidence.fingerprint import fingerprint

    texts = {fingerprint(bodies[file], "text/html").text_hash for file in asked}
    print(json.dumps([asked.total(), len(texts)]), flush=True)


def decorate(body: bytes) -> bytes:
    """Return a page whose links are written in everyday ways; each answer has a session of its own."""
    session = secrets.token_hex(16).encode()
    number = iter(range(10**9))

    def change(match: re.Match[bytes]) -> bytes:
        path, fragment = match[1], match[2] or b""
        ways = (
            path,
            path + b"?utm_source=newsletter&utm_medium=email",
            path + b"?PHPSESSID=" + session,
            path + b"?fbclid=" + secrets.token_urlsafe(30).encode(),
            path.removesuffix(b"index.html") or b"./",
            path + b"?utm_campaign=spring&PHPSESSID=" + session,
        )
        return b'href="' + ways[next(number) % len(ways)] + fragment + b'"'

    return _HREF.sub(change, body)


if __name__ == "__main__":
    main(sys.argv[1:])
