"""Read HTML pages: the feeds that they name, and where they redirect."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf

from selectolax.lexbor import LexborHTMLParser

from canonry.core.url import join, read_url
from canonry.errors import InvalidUrl
from canonry.net.charset import decode_html
from canonry.net.deep_nesting import cut_deep_nesting
from canonry.net.links import find_base

_FEED_TYPES = {
    "application/rss+xml": "rss",
    "application/atom+xml": "atom",
    "application/feed+json": "json",
    "application/json": "json",
    "application/rdf+xml": "rdf",
    "application/xml": "",
    "text/xml": "",
}
_MAX_LINKS = 100
_MAX_PAGE_BYTES = 1_000_000  # the rest of a page is not read; links to feeds are in its head
# Seconds, then the URL: https://html.spec.whatwg.org/multipage/semantics.html#attr-meta-http-equiv-refresh
_REFRESH = re.compile(
    r"\s*([\d.]+)(?>\s*[;,]|\s)\s*+(?>url\s*=\s*)?+(?:'([^']*)|\"([^\"]*)|(.+))", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class FeedLink:
    """A feed that a page names; `format` is the feed format that the page names, empty if it names only XML."""

    url: str
    title: str
    format: str


def find_feed_links(body: bytes, *, url: str, content_type: str = "") -> list[FeedLink]:
    """Return the feeds a page names in `<link rel=alternate>` or `rel=feed`, in document order, each once."""
    page = LexborHTMLParser(cut_deep_nesting(decode_html(body[:_MAX_PAGE_BYTES], content_type)))
    base = find_base(page, url)
    found: dict[str, FeedLink] = {}
    for link in page.css("link[rel][href]"):
        attributes = link.attributes
        relations = (attributes.get("rel") or "").lower().split()
        kind = (attributes.get("type") or "").partition(";")[0].strip().lower()
        href = (attributes.get("href") or "").strip()
        is_alternate = "alternate" in relations and "stylesheet" not in relations and kind in _FEED_TYPES
        is_api = kind == "application/json" and "wp-json" in href  # the JSON API of WordPress
        if not href or is_api or not (is_alternate or "feed" in relations):
            continue
        target = _resolve(base, href)
        if target and target not in found:
            found[target] = FeedLink(
                target, " ".join((attributes.get("title") or "").split()), _FEED_TYPES.get(kind, "")
            )
        if len(found) == _MAX_LINKS:
            break
    return list(found.values())


def parse_refresh(content: str) -> str:
    """Return the reference of a `Refresh` header or meta element: `0; url=/next` → `/next`; empty if it has none."""
    return _parse_refresh(content)[1]


def _parse_refresh(content: str) -> tuple[float, str]:
    """Return the seconds and the reference of a refresh; the reference is empty if it has none."""
    match = _REFRESH.match(content)
    if match is None:
        return 0.0, ""
    seconds, *references = match.groups()
    whole = seconds.partition(".")[0]
    return float(whole[:9] or 0), next(filter(None, references), "").strip()


def find_meta_refresh(
    body: bytes,
    *,
    url: str,
    content_type: str = "",
    header: str = "",
    max_seconds: float = inf,
    scripting: bool = False,
) -> str:
    """Return the target of `<meta http-equiv=refresh>`, a URL of any scheme; empty if the page has none.

    `header` is the `Refresh` header, which comes first. A refresh after more than `max_seconds` does not count, nor
    does one in `<noscript>` with `scripting`.
    """
    seconds, target = _parse_refresh(header)
    if target and seconds <= max_seconds:
        return _join_refresh(url, target)
    page = LexborHTMLParser(cut_deep_nesting(decode_html(body[:_MAX_PAGE_BYTES], content_type)), scripting=scripting)
    for meta in page.css("meta[http-equiv][content]"):
        if (meta.attributes.get("http-equiv") or "").strip().lower() != "refresh":
            continue
        seconds, target = _parse_refresh(meta.attributes.get("content") or "")
        if target and seconds <= max_seconds:
            return _join_refresh(find_base(page, url), target)
    return ""


def _join_refresh(base: str, target: str) -> str:
    try:
        return join(base, target)
    except InvalidUrl:
        return target  # the caller refuses it


def is_html(content_type: str) -> bool:
    """Return whether a Content-Type is that of HTML, or missing."""
    return content_type.partition(";")[0].strip().lower() in {"", "text/html", "application/xhtml+xml"}


def _resolve(base: str, href: str) -> str:
    """Return the http(s) URL of a reference; empty for any other scheme."""
    try:
        target = join(base, href.strip())
        if target.startswith(("feed:", "rss:")):
            target = read_url(target)
    except InvalidUrl:
        return ""
    return target if target.startswith(("http://", "https://")) else ""
