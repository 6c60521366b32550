"""What one response shows and declares: title, description, canonical URLs, fingerprint (contract E1, E3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from selectolax.lexbor import LexborHTMLParser

from canonry.core.native import normalize
from canonry.core.url import join, parse
from canonry.errors import InvalidUrl
from canonry.evidence.fingerprint import Fingerprint, fingerprint, fingerprint_text
from canonry.net.charset import detect_charset
from canonry.net.deep_nesting import cut_deep_nesting
from canonry.net.html import is_html
from canonry.net.links import find_base, read_title, resolve_href
from canonry.net.moved_urls import find_adoptable_url
from canonry.net.page_facts import MAX_HEAD_ELEMENTS, parse_link_header
from canonry.net.search_fetcher import strip_fragment
from canonry.net.visible_text import extract_visible_text

if TYPE_CHECKING:
    from canonry.net.response import Response

_MAX_URL_CHARACTERS = 2_000
_MAX_CANONICALS = 10
_MAX_DESCRIPTION_CHARACTERS = 2_000
_DESCRIPTIONS = ("description", "og:description", "twitter:description")


@dataclass(frozen=True, slots=True)
class Declared:
    """The URLs that a page declares for itself. A declaration may be wrong, so each URL is only a candidate.

    `canonical_urls` are those of the `Link` header and of the head, each once; a page should have one.
    """

    canonical_urls: tuple[str, ...] = ()
    og_url: str = ""
    amp_url: str = ""
    no_vary_search: str = ""


@dataclass(frozen=True, slots=True)
class PageView:
    """The content and declarations of a response. `url` is the end of the permanent redirects."""

    response: Response = field(repr=False)
    url: str
    title: str
    description: str
    declared: Declared
    fingerprint: Fingerprint
    body_hash: str  # hex sha256 of the bytes


def read_page_view(response: Response) -> PageView:
    """Return what a response shows and declares."""
    content_type = response.header("content-type")
    body_hash = sha256(response.body).hexdigest()
    url = find_adoptable_url(response)
    links = parse_link_header(response.header("link"), response.url)
    canonicals = [link.url for link in links if "canonical" in link.rel.lower().split()]
    no_vary_search = response.header("no-vary-search")[:_MAX_URL_CHARACTERS]
    if not is_html(content_type):
        declared = Declared(_clean(canonicals), no_vary_search=no_vary_search)
        return PageView(response, url, "", "", declared, fingerprint(response.body, content_type), body_hash)
    charset = detect_charset(response.body, content_type)
    text = response.body.decode(charset, "replace").removeprefix("\ufeff")
    page = LexborHTMLParser(cut_deep_nesting(text), scripting=True)
    base = find_base(page, response.url, charset)
    found: dict[str, str] = {}
    for link in page.css("head link[rel][href]")[:MAX_HEAD_ELEMENTS]:
        attributes = link.attributes
        href = (attributes.get("href") or "").strip()
        relations = (attributes.get("rel") or "").lower().split()
        if not href or "alternate" in relations:
            continue
        if "canonical" in relations:
            canonicals.append(resolve_href(base, href, charset))
        elif "amphtml" in relations:
            found.setdefault("amphtml", resolve_href(base, href, charset))
    for meta in page.css("head meta[content]")[:MAX_HEAD_ELEMENTS]:
        attributes = meta.attributes
        name = (attributes.get("property") or attributes.get("name") or "").strip().lower()
        found.setdefault(name, (attributes.get("content") or "").strip())
    og_url = resolve_href(base, found["og:url"], charset) if found.get("og:url") else ""
    declared = Declared(
        _clean(canonicals),
        og_url=next(iter(_clean([og_url])), ""),
        amp_url=next(iter(_clean([found.get("amphtml", "")])), ""),
        no_vary_search=no_vary_search,
    )
    description = next((found[name] for name in _DESCRIPTIONS if found.get(name)), "")
    title = read_title(page)
    return PageView(
        response,
        url,
        title,
        " ".join(description.split())[:_MAX_DESCRIPTION_CHARACTERS],
        declared,
        fingerprint_text(extract_visible_text(page)),
        body_hash,
    )


def is_root(url: str) -> bool:
    """Return whether a URL is the root of its site, without a query."""
    parts = parse(url)
    return parts.path in ("", "/") and not parts.query


def _clean(urls: list[str]) -> tuple[str, ...]:
    """Return the http(s) URLs without fragments and credentials, each once; URLs of equal spelling count once."""
    found: dict[str, str] = {}
    for url in urls:
        try:
            parts = parse(strip_fragment(join(url, "")))
            parts.userinfo = None
        except InvalidUrl:
            continue
        if url.startswith(("http://", "https://")) and len(url) <= _MAX_URL_CHARACTERS:
            found.setdefault(normalize(str(parts), "crawl@1"), str(parts))
    return tuple(found.values())[:_MAX_CANONICALS]
