"""Scrapy: each page once, however it is spelled.

    REQUEST_FINGERPRINTER_CLASS = "canonry.integrations.scrapy.Fingerprinter"
    CANONRY_POLICY = "conservative"    # or "aggressive", or a policy
    CANONRY_HEADERS = []               # headers that make a request another one

What is fetched is the URL as it was found: only the decision whether it was seen goes by the policy.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, cast

from scrapy.exceptions import NotConfigured
from scrapy.utils.request import fingerprint as own_fingerprint

import canonry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.link import Link

CONSERVATIVE = canonry.policy("crawl@1").without_rules("strip_trailing_slash").with_name("scrapy-conservative", 1)
"""Spellings that no server can tell apart, or none should: case of the host, default port, dots, escapes, fragment."""
AGGRESSIVE = (
    canonry.policy("feed-aggressive@1").without_sites("blogger", "feedburner").with_name("scrapy-aggressive", 1)
)
"""And what rarely means another page: www., slashes, the order of parameters, tracking; the scheme does not count."""


@dataclass(frozen=True, slots=True)
class Identity:
    """When two URLs are one page."""

    policy: canonry.Policy
    has_scheme: bool = True

    @classmethod
    def named(cls, name: str | canonry.Policy) -> Self:
        """`conservative`, `aggressive`, or a policy: shipped, by name or id, or one of your own."""
        if name == "conservative":
            return cls(CONSERVATIVE)
        if name == "aggressive":
            return cls(AGGRESSIVE, has_scheme=False)
        return cls(canonry.policy(name) if isinstance(name, str) else name)

    def of(self, url: str) -> str | None:
        """What is equal for spellings of one page; None where it is no http(s) URL."""
        found = canonry.normalize_many([url], self.policy)[0]
        return found if found is None or self.has_scheme else found.partition(":")[2]


class Fingerprinter:
    """A request is its method, its body, the page its URL names, and the headers that are listed."""

    def __init__(self, identity: Identity, headers: Iterable[str] = ()) -> None:
        self._identity = identity
        self._headers = sorted({header.lower() for header in headers})

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """As `CANONRY_POLICY` and `CANONRY_HEADERS` say."""
        chosen = crawler.settings.get("CANONRY_POLICY", "conservative")
        try:
            return cls(Identity.named(chosen), crawler.settings.getlist("CANONRY_HEADERS"))
        except canonry.PolicyError as error:
            raise NotConfigured(f"CANONRY_POLICY: {error}; or conservative, aggressive") from error

    def fingerprint(self, request: Request) -> bytes:
        """Equal for requests of which one is enough."""
        page = None if request.meta.get("verbatim_url") else self._identity.of(request.url)
        if page is None:  # data:, ftp:, s3: … or a URL that is to stay as it is
            return own_fingerprint(request, include_headers=self._headers)
        headers = {name: [value.hex() for value in request.headers.getlist(name)] for name in self._headers}
        said = [request.method, page, request.body.hex(), headers, self._hops_in_place(request, page)]
        return hashlib.sha256(json.dumps(said).encode()).digest()

    def _hops_in_place(self, request: Request, page: str) -> int:
        """How many redirects led from a spelling of the page to another, /a to /a/: these are steps, no repetition."""
        return sum(self._identity.of(url) == page for url in cast("list[str]", request.meta.get("redirect_urls", [])))


def link_filter(policy: str | canonry.Policy = "conservative") -> Callable[[list[Link]], list[Link]]:
    """Of the links of a page, the first to each other page: `Rule(LinkExtractor(), process_links=link_filter())`.

    Links that are no http(s) URLs go. The links themselves stay as they were found.
    """
    identity = Identity.named(policy)

    def filtered(links: list[Link]) -> list[Link]:
        found: dict[str, Link] = {}
        for link in links:
            page = identity.of(link.url)
            if page is not None:
                found.setdefault(page, link)
        return list(found.values())

    return filtered
