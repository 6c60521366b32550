"""Sitemaps: the pages that a site lists itself (https://www.sitemaps.org/protocol.html), read within limits."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from xml.parsers import expat

from canonry.core.url import join
from canonry.errors import FailureKind, FetchFailed, InvalidUrl, UnsafeUrl
from canonry.net.content_encoding import DecodeError, make_decoder
from canonry.net.response import drop_userinfo

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
_ROOTS = frozenset({"urlset", "sitemapindex"})
_CHUNK_BYTES = 65_536
_BEFORE_XML = b"\xef\xbb\xbf \t\r\n"
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_NOT_A_SITEMAP = "the file is not a sitemap"
_TOO_MANY_URLS = f"only its first {MAX_FILE_URLS} URLs were read"


@dataclass(frozen=True, slots=True)
class Sitemap:
    """The pages and the other sitemaps that a file lists; `error` says why it was not read to its end."""

    pages: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()
    error: str = ""


def read_sitemap(body: bytes) -> Sitemap:
    """Parse a sitemap file up to its first error: XML, or text with one URL per line; either may be gzipped."""
    error = ""
    if body.startswith(b"\x1f\x8b"):
        body, error = _decompress(body)
    body = body.lstrip(_BEFORE_XML)  # which XML forbids before its declaration, but scripts write
    if body.startswith((b"<", *_UTF_16_MARKS)):
        parser = _SitemapParser()
        parser.parse(body)
        return Sitemap(tuple(parser.lists["url"]), tuple(parser.lists["sitemap"]), error or parser.error)
    lines = (line.strip() for line in body.decode("utf-8", "replace").splitlines())
    pages = [line for line in lines if _is_absolute(line)]
    error = error or (_TOO_MANY_URLS if len(pages) > MAX_FILE_URLS else "")
    return Sitemap(tuple(pages[:MAX_FILE_URLS]), error=error if pages else error or _NOT_A_SITEMAP)


class NamedUrl(NamedTuple):
    """A URL and who named it."""

    url: str
    origin: Origin


async def iter_sitemap_pages(starts: Iterable[NamedUrl], fetch: Fetch) -> AsyncGenerator[NamedUrl | FetchFailed]:
    """Yield the pages of sitemaps and of the sitemaps they list; FetchFailed for a file that is not read to its end.

    The origin of a page, or of a sitemap that another one lists, is the server that sent the file which lists it.
    """
    queue, seen = deque(starts), set[str]()
    unread = 0  # that are not in the queue
    while queue:
        url, origin = queue.popleft()
        if url in seen:
            continue
        if len(seen) >= MAX_FILES:
            unread += len({url, *(each.url for each in queue)} - seen)
            detail = f"not read: a crawl reads at most {MAX_FILES} sitemaps, and the site has {unread} more"
            yield FetchFailed(url, detail, kind=FailureKind.TRUNCATED)
            return
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
        found = await asyncio.to_thread(read_sitemap, response.body)
        base = drop_userinfo(response.url)
        listed = [each for each in _resolve_urls(base, found.sitemaps) if each not in seen]
        queue.extend(NamedUrl(each, response.origin) for each in listed[:MAX_FILES])
        unread += len(listed[MAX_FILES:])
        for page in _resolve_urls(base, filter(_is_absolute, found.pages)):
            yield NamedUrl(page, response.origin)
        if found.error:
            yield FetchFailed(url, found.error, kind=FailureKind.TRUNCATED)


def _is_absolute(url: str) -> bool:
    return url[:8].lower().startswith(("http://", "https://"))


def _resolve_urls(sitemap: str, urls: Iterable[str]) -> list[str]:
    """Return the URLs of a sitemap in the spelling that links of pages have, each once."""
    resolved: dict[str, None] = {}
    for url in urls:
        with suppress(InvalidUrl):
            resolved[join(sitemap, url)] = None
    return list(resolved)


class _SitemapParser:
    """Collects `<loc>` of `<url>` and `<sitemap>`; stops at a document type, because it may define entities."""

    def __init__(self) -> None:
        self.lists: dict[str, list[str]] = {"url": [], "sitemap": []}
        self.error = ""
        self._root = ""
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
            self._parser.Parse(b"", True)  # noqa: FBT003 - it takes no keywords
        except _StopParsing as error:
            self.error = str(error)
        except (expat.ExpatError, ValueError, LookupError) as error:  # LookupError: an unknown encoding
            self.error = f"the file is not valid XML: {error}"  # URLs before the error count
        if self._root not in _ROOTS and not any(self.lists.values()):
            self.error = self.error or _NOT_A_SITEMAP

    def _start(self, name: str, _: dict[str, str]) -> None:
        self._path.append(name.rpartition(":")[2])
        self._root = self._root or self._path[0]
        self._text.clear()
        if len(self._path) > _MAX_DEPTH:
            raise _StopParsing("its elements are nested too deeply")

    def _end(self, _: str) -> None:
        name, parent = self._path.pop(), self._path[-1] if self._path else ""
        if name == "loc" and parent in self.lists:
            text = "".join(self._text).strip()
            if len(self.lists[parent]) >= MAX_FILE_URLS:
                raise _StopParsing(_TOO_MANY_URLS)
            if 0 < len(text) <= _MAX_URL_CHARACTERS:
                self.lists[parent].append(text)
        self._text.clear()

    def _stop(self, *_: object) -> None:
        raise _StopParsing("the file has a document type, which sitemaps do not have")


class _StopParsing(Exception):
    """The rest of the file is not parsed; the message says why."""


def _decompress(body: bytes) -> tuple[bytes, str]:
    """Return the content of a gzip file, up to its first error and to the limit, and why the rest is missing."""
    content, error = bytearray(), ""
    decoder = make_decoder("gzip")
    assert decoder is not None
    try:
        for piece in decoder.decode(body):
            content += piece
            if len(content) > MAX_FILE_BYTES:
                error = f"only its first {MAX_FILE_BYTES} bytes were read"
                break
    except DecodeError as failure:
        error = f"the compressed file is damaged: {failure}"
    return bytes(content[:MAX_FILE_BYTES]), error
