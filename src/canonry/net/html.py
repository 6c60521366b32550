"""Web pages: the feeds they name, and where they send their readers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser

from canonry.core.url import join, read_url
from canonry.errors import InvalidUrl
from canonry.net.charset import decode
from canonry.net.links import cut_deep_nesting, read_title

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
_MAX_PAGE = 1_000_000  # bytes of a page that are looked at; links to feeds stand in its head
# Seconds, then the URL: https://html.spec.whatwg.org/multipage/semantics.html#attr-meta-http-equiv-refresh
_REFRESH = re.compile(
    r"\s*[\d.]+(?>\s*[;,]|\s)\s*+(?>url\s*=\s*)?+(?:'([^']*)|\"([^\"]*)|(.+))", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class FeedLink:
    """A feed a page names: where it is, how it is called, and the format it claims to have."""

    url: str
    title: str
    format: str


def find_feed_links(body: bytes, *, url: str, content_type: str = "") -> list[FeedLink]:
    """The feeds a web page names in `<link rel=alternate>` (or `rel=feed`), in its order, each once."""
    page = LexborHTMLParser(cut_deep_nesting(_text(body[:_MAX_PAGE], content_type)))
    base = _base(page, url)
    found: dict[str, FeedLink] = {}
    for link in page.css("link[rel][href]"):
        attributes = link.attributes
        relations = (attributes.get("rel") or "").lower().split()
        kind = (attributes.get("type") or "").partition(";")[0].strip().lower()
        href = (attributes.get("href") or "").strip()
        is_alternate = "alternate" in relations and "stylesheet" not in relations and kind in _FEED_TYPES
        is_api = kind == "application/json" and "wp-json" in href  # of WordPress, no feed
        if not href or is_api or not (is_alternate or "feed" in relations):
            continue
        target = _resolved(base, href)
        if target and target not in found:
            found[target] = FeedLink(
                target, " ".join((attributes.get("title") or "").split()), _FEED_TYPES.get(kind, "")
            )
        if len(found) == _MAX_LINKS:
            break
    return list(found.values())


def parse_refresh(content: str) -> str:
    """The reference in a `Refresh` header or its twin in a page: `0; url=/next` → `/next`; empty where none is."""
    match = _REFRESH.match(content)
    return next(filter(None, match.groups()), "").strip() if match else ""


def find_meta_refresh(body: bytes, *, url: str, content_type: str = "") -> str:
    """Where a page sends its readers by `<meta http-equiv=refresh>`, of any scheme; empty where it does not."""
    page = LexborHTMLParser(cut_deep_nesting(_text(body[:_MAX_PAGE], content_type)))
    for meta in page.css("meta[http-equiv][content]"):
        is_refresh = (meta.attributes.get("http-equiv") or "").strip().lower() == "refresh"
        if is_refresh and (target := parse_refresh(meta.attributes.get("content") or "")):
            try:
                return join(_base(page, url), target)
            except InvalidUrl:
                return target  # for whoever asks to refuse
    return ""


def read_page_title(body: bytes, content_type: str = "") -> str:
    """The title of a web page, of other documents none; at most a thousand characters."""
    if not is_html(content_type):
        return ""
    page = LexborHTMLParser(cut_deep_nesting(_text(body[:_MAX_PAGE], content_type)))
    return read_title(page)


def is_html(content_type: str) -> bool:
    """Does a server say so, or nothing?"""
    return content_type.partition(";")[0].strip().lower() in {"", "text/html", "application/xhtml+xml"}


def _base(page: LexborHTMLParser, url: str) -> str:
    base = page.css_first("base[href]")
    return _resolved(url, (base.attributes.get("href") or "") if base else "") or url


def _resolved(base: str, href: str) -> str:
    """The http(s) URL a reference leads to; empty where it leads elsewhere."""
    try:
        target = join(base, href.strip())
        if target.startswith(("feed:", "rss:")):
            target = read_url(target)
    except InvalidUrl:
        return ""
    return target if target.startswith(("http://", "https://")) else ""


def _text(body: bytes, content_type: str) -> str:
    """The page as text; `<meta charset>` counts where the server names none."""
    stated = re.search(r"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w.:-]+)", body[:4096].decode("latin-1"), re.IGNORECASE)
    if stated and "charset" not in content_type.lower():
        content_type = f"text/html; charset={stated[1]}"
    return decode(body, content_type)
