"""Sitemaps: the pages that a site lists itself (https://www.sitemaps.org/protocol.html), read within limits."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from xml.parsers import expat

from canonry.errors import FailureKind, FetchFailed, InvalidUrl, UnsafeUrl
from canonry.net.content_encoding import DecodeError, make_decoder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from canonry.net.origin import Origin
    from canonry.net.response import Fetch

# The limits of the protocol for one file.
MAX_FILE_BYTES = 50 * 1024 * 1024  # decompressed
MAX_FILE_URLS = 50_000
MAX_FILES = 50  # of a site
_MAX_URL_CHARACTERS = 8_000
_MAX_DEPTH = 20
_CHUNK_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Sitemap:
    """The pages and the other sitemaps that a file lists."""

    pages: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()


def read_sitemap(body: bytes) -> Sitemap:
    """Parse a sitemap file up to its first error: XML, or text with one URL per line; either may be gzipped."""
    if body.startswith(b"\x1f\x8b"):
        body = _decompress(body)
    if not body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        lines = (line.strip() for line in body.decode("utf-8-sig", "replace").splitlines())
        return Sitemap(tuple([line for line in lines if line.startswith(("http://", "https://"))][:MAX_FILE_URLS]))
    parser = _SitemapParser()
    parser.parse(body)
    return Sitemap(tuple(parser.lists["url"]), tuple(parser.lists["sitemap"]))


class NamedUrl(NamedTuple):
    """A URL and who named it."""

    url: str
    origin: Origin


async def iter_sitemap_pages(starts: Iterable[NamedUrl], fetch: Fetch) -> AsyncGenerator[NamedUrl | FetchFailed]:
    """Yield the pages of sitemaps and of the sitemaps they list; FetchFailed for a file that cannot be read.

    The origin of a page, or of a sitemap that another one lists, is the server that sent the file which lists it.
    """
    queue, seen = deque(starts), set[str]()
    while queue and len(seen) < MAX_FILES:
        url, origin = queue.popleft()
        if url in seen:
            continue
        seen.add(url)
        try:
            response = await fetch(url, origin=origin)
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
        queue.extend(NamedUrl(each, response.origin) for each in found.sitemaps[:MAX_FILES])
        for page in found.pages:
            yield NamedUrl(page, response.origin)


class _SitemapParser:
    """Collects `<loc>` of `<url>` and `<sitemap>`; stops at a document type, because it may define entities."""

    def __init__(self) -> None:
        self.lists: dict[str, list[str]] = {"url": [], "sitemap": []}
        self._path: list[str] = []
        self._text: list[str] = []
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text.append
        self._parser.StartDoctypeDeclHandler = self._stop

    def parse(self, body: bytes) -> None:
        try:
            for start in range(0, len(body), _CHUNK_BYTES):
                self._parser.Parse(body[start : start + _CHUNK_BYTES])
        except (expat.ExpatError, ValueError, LookupError, _StopParsing):  # LookupError: an unknown encoding
            pass  # URLs before the error count

    def _start(self, name: str, _: dict[str, str]) -> None:
        self._path.append(name.rpartition(":")[2])
        self._text.clear()
        if len(self._path) > _MAX_DEPTH:
            raise _StopParsing

    def _end(self, _: str) -> None:
        name, parent = self._path.pop(), self._path[-1] if self._path else ""
        if name == "loc" and parent in self.lists:
            text = "".join(self._text).strip()
            if 0 < len(text) <= _MAX_URL_CHARACTERS:
                self.lists[parent].append(text)
            if len(self.lists[parent]) >= MAX_FILE_URLS:
                raise _StopParsing
        self._text.clear()

    def _stop(self, *_: object) -> None:
        raise _StopParsing


class _StopParsing(Exception):
    """The rest of the file is not parsed."""


def _decompress(body: bytes) -> bytes:
    """Return the content of a gzip file, up to its first error and to the limit."""
    content = bytearray()
    decoder = make_decoder("gzip")
    assert decoder is not None
    with suppress(DecodeError):
        for piece in decoder.decode(body):
            content += piece
            if len(content) >= MAX_FILE_BYTES:
                break
    return bytes(content[:MAX_FILE_BYTES])
