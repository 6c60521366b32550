"""Sitemaps: the pages a site names itself (https://www.sitemaps.org/protocol.html), read within limits."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lxml import etree

from canonry.errors import FetchFailed, InvalidUrl, UnsafeUrl

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from canonry.net.response import Fetch

MAX_BYTES = 50 * 1024 * 1024  # of one file, unpacked, as the protocol has it
MAX_URLS = 50_000  # of one file
MAX_FILES = 50  # of a site
_LONGEST = 8_000  # characters of a URL


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
    pages: list[str] = []
    sitemaps: list[str] = []
    parser = etree.XMLPullParser(
        ("end",), recover=True, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    try:
        for start in range(0, len(body), 65536):
            parser.feed(body[start : start + 65536])
            for _, element in parser.read_events():
                _take(element, pages, sitemaps)
            if len(pages) >= MAX_URLS or len(sitemaps) >= MAX_URLS:
                break
    except (etree.XMLSyntaxError, ValueError):
        pass  # what came before it counts
    return Sitemap(tuple(pages[:MAX_URLS]), tuple(sitemaps[:MAX_URLS]))


async def sitemap_pages(
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
            yield FetchFailed(url, getattr(error, "reason", type(error).__name__))
            continue
        if not response.is_ok:
            yield FetchFailed(url, f"the server answered {response.status}", status=response.status)
            continue
        found = read_sitemap(response.body)
        waiting.extend(found.sitemaps[:MAX_FILES])
        for page in found.pages:
            yield page


def _take(element: etree._Element, pages: list[str], sitemaps: list[str]) -> None:
    name = etree.QName(element).localname if isinstance(element.tag, str) else ""
    parent = element.getparent()
    if name == "loc" and parent is not None and isinstance(parent.tag, str):
        text = (element.text or "").strip()
        into = {"url": pages, "sitemap": sitemaps}.get(etree.QName(parent).localname)
        if into is not None and 0 < len(text) <= _LONGEST:
            into.append(text)
    elif name in {"url", "sitemap"}:
        element.clear()
        while element.getprevious() is not None and parent is not None:
            del parent[0]


def _unpacked(body: bytes) -> bytes:
    """The content of a gzip file, up to the limit."""
    unpacker = zlib.decompressobj(31)
    try:
        return unpacker.decompress(body, MAX_BYTES)
    except zlib.error:
        return b""
