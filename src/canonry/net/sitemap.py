"""Sitemaps: the pages a site names itself (https://www.sitemaps.org/protocol.html), read within limits."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.parsers import expat

from canonry.errors import FailureKind, FetchFailed, InvalidUrl, UnsafeUrl

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from canonry.net.response import Fetch

MAX_BYTES = 50 * 1024 * 1024  # of one file, unpacked, as the protocol has it
MAX_URLS = 50_000  # of one file
MAX_FILES = 50  # of a site
_LONGEST = 8_000  # characters of a URL
_DEEPEST = 20  # elements


@dataclass(frozen=True, slots=True)
class Sitemap:
    """The pages a file names, and other files."""

    pages: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()


def read_sitemap(body: bytes) -> Sitemap:
    """What a file says as far as it can be read: XML, gzipped or not, or a URL a line."""
    if body.startswith(b"\x1f\x8b"):
        body = _unpacked(body)
    if not body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        lines = (line.strip() for line in body.decode("utf-8-sig", "replace").splitlines())
        return Sitemap(tuple([line for line in lines if line.startswith(("http://", "https://"))][:MAX_URLS]))
    found = _Reader()
    found.read(body)
    return Sitemap(tuple(found.lists["url"]), tuple(found.lists["sitemap"]))


async def iter_sitemap_pages(
    starts: Iterable[str], fetch: Fetch, *, came_from: str | None = None
) -> AsyncGenerator[str | FetchFailed]:
    """The pages of these files and of those they name; a file that cannot be read is an error among them."""
    waiting, seen = list(dict.fromkeys(starts)), set[str]()
    options = {} if came_from is None else {"came_from": came_from}
    while waiting and len(seen) < MAX_FILES:
        url = waiting.pop(0)
        if url in seen:
            continue
        seen.add(url)
        try:
            response = await fetch(url, **options)
        except (FetchFailed, UnsafeUrl, InvalidUrl, OSError) as error:
            kind = error.kind if isinstance(error, FetchFailed) else FailureKind.OTHER
            yield FetchFailed(url, getattr(error, "reason", type(error).__name__), kind=kind)
            continue
        if not response.is_ok:
            detail = f"the server answered {response.status}"
            kind = FailureKind.UNAVAILABLE if response.is_unavailable else FailureKind.STATUS
            yield FetchFailed(url, detail, status=response.status, kind=kind)
            continue
        found = read_sitemap(response.body)
        waiting.extend(found.sitemaps[:MAX_FILES])
        for page in found.pages:
            yield page


class _Reader:
    """`<loc>` of `<url>` and `<sitemap>` as the parser comes upon them; a document type ends it."""

    def __init__(self) -> None:
        self.lists: dict[str, list[str]] = {"url": [], "sitemap": []}
        self._path: list[str] = []
        self._text: list[str] = []
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text.append
        self._parser.StartDoctypeDeclHandler = self._stop

    def read(self, body: bytes) -> None:
        try:
            for start in range(0, len(body), 65536):
                self._parser.Parse(body[start : start + 65536])
        except (expat.ExpatError, ValueError, _Enough):
            pass  # what came before it counts

    def _start(self, name: str, _: dict[str, str]) -> None:
        self._path.append(name.rpartition(":")[2])
        self._text.clear()
        if len(self._path) > _DEEPEST:
            raise _Enough

    def _end(self, _: str) -> None:
        name, parent = self._path.pop(), self._path[-1] if self._path else ""
        if name == "loc" and parent in self.lists:
            text = "".join(self._text).strip()
            if 0 < len(text) <= _LONGEST:
                self.lists[parent].append(text)
            if len(self.lists[parent]) >= MAX_URLS:
                raise _Enough
        self._text.clear()

    def _stop(self, *_: object) -> None:
        raise _Enough


class _Enough(Exception):
    """The rest is not read."""


def _unpacked(body: bytes) -> bytes:
    """The content of a gzip file, up to the limit."""
    unpacker = zlib.decompressobj(31)
    try:
        return unpacker.decompress(body, MAX_BYTES)
    except zlib.error:
        return b""
