"""Make Scrapy fetch each page once, even if its URL is written in several ways.

    REQUEST_FINGERPRINTER_CLASS = "canonry.integrations.scrapy.Fingerprinter"
    CANONRY_POLICY = "conservative"    # or "aggressive", or a policy
    CANONRY_HEADERS = []               # headers that are part of the fingerprint

Scrapy still fetches the URL as it was found; the policy only decides whether the page was seen before.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, cast

from scrapy.exceptions import NotConfigured
from scrapy.utils.request import fingerprint as make_scrapy_fingerprint

import canonry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.link import Link

CONSERVATIVE = canonry.policy("crawl@1").without_rules("strip_trailing_slash").with_name("scrapy-conservative", 1)
"""Merges URLs that servers do not distinguish: case of the host, default port, dot segments, escapes, fragment."""
AGGRESSIVE = (
    canonry.policy("feed-aggressive@1").without_sites("blogger", "feedburner").with_name("scrapy-aggressive", 1)
)
"""Also merges URLs that rarely are different pages: www., slashes, order of parameters, tracking, the scheme."""


@dataclass(frozen=True, slots=True)
class PageIdentity:
    """Decide whether two URLs are the same page: they are if `identify` returns the same text."""

    policy: canonry.Policy
    includes_scheme: bool = True

    @classmethod
    def from_name(cls, name: str | canonry.Policy) -> Self:
        """Return the identity for `conservative`, `aggressive`, the name or id of a shipped policy, or a policy."""
        if name == "conservative":
            return cls(CONSERVATIVE)
        if name == "aggressive":
            return cls(AGGRESSIVE, includes_scheme=False)
        return cls(canonry.policy(name) if isinstance(name, str) else name)

    def identify(self, url: str) -> str | None:
        """Return the text that identifies the page; None if the URL is not an http(s) URL."""
        normalized = canonry.normalize_many([url], self.policy)[0]
        return normalized if normalized is None or self.includes_scheme else normalized.partition(":")[2]


class Fingerprinter:
    """Fingerprint a request by its method, its body, the page of its URL, and the configured headers."""

    def __init__(self, identity: PageIdentity, headers: Iterable[str] = ()) -> None:
        self._identity = identity
        self._headers = sorted({header.lower() for header in headers})

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create the fingerprinter from the settings `CANONRY_POLICY` and `CANONRY_HEADERS`."""
        policy = crawler.settings.get("CANONRY_POLICY", "conservative")
        try:
            return cls(PageIdentity.from_name(policy), crawler.settings.getlist("CANONRY_HEADERS"))
        except canonry.PolicyError as error:
            raise NotConfigured(f"CANONRY_POLICY: {error}. Also possible: conservative, aggressive") from error

    def fingerprint(self, request: Request) -> bytes:
        """Return the fingerprint; Scrapy drops a request whose fingerprint it has seen."""
        page = None if request.meta.get("verbatim_url") else self._identity.identify(request.url)
        if page is None:  # data:, ftp:, s3: …, or the request asks for a verbatim URL
            return make_scrapy_fingerprint(request, include_headers=self._headers)
        headers = {name: [value.hex() for value in request.headers.getlist(name)] for name in self._headers}
        parts = [request.method, page, request.body.hex(), headers, self._count_same_page_redirects(request, page)]
        return hashlib.sha256(json.dumps(parts).encode()).digest()

    def _count_same_page_redirects(self, request: Request, page: str) -> int:
        """Count redirects from one URL of the page to another, such as /a to /a/: Scrapy must follow those."""
        return sum(
            self._identity.identify(url) == page for url in cast("list[str]", request.meta.get("redirect_urls", []))
        )


def link_filter(policy: str | canonry.Policy = "conservative") -> Callable[[list[Link]], list[Link]]:
    """Return a filter that keeps the first link to each page: `Rule(LinkExtractor(), process_links=link_filter())`.

    Links that are not http(s) URLs are dropped. The links that are kept are not changed.
    """
    identity = PageIdentity.from_name(policy)

    def keep_first_links(links: list[Link]) -> list[Link]:
        first_links: dict[str, Link] = {}
        for link in links:
            page = identity.identify(link.url)
            if page is not None:
                first_links.setdefault(page, link)
        return list(first_links.values())

    return keep_first_links
