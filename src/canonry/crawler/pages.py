"""What a crawl gives: pages, their links with a verdict each, and what came of it all."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from canonry.core.scope import Verdict
from canonry.errors import CanonryError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from canonry.crawler.crawl_store import Counts, Crawl, StoredPage

_EXTERNALS = 1_000_000  # URLs of other sites that are told apart


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link as a browser resolves it (`href`), normalized (`url`, None where it has no such form), and its verdict."""

    href: str
    url: str | None
    text: str
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a crawl; `external` are those of its links that lead to other sites."""

    url: str
    requested_url: str
    final_url: str
    status: int
    title: str
    depth: int
    engine: str
    links: tuple[PageLink, ...]
    external: tuple[PageLink, ...]
    error: str


class StartMoved(CanonryError):
    """The start page redirects to another host: is that the site that was meant?"""

    def __init__(self, seed: str, target: str) -> None:
        super().__init__(seed, target)
        self.seed = seed
        self.target = target

    def __str__(self) -> str:
        return f"{self.seed} redirects to another host, {self.target}"


@dataclass(slots=True)
class Summary:
    """What a crawl found, page by page; `skipped` counts links by reason."""

    pages: int = 0
    failed: int = 0
    skipped: Counter[str] = field(default_factory=Counter[str])
    externals: int = 0
    is_seed_failed: bool = False
    _external: set[int] = field(default_factory=set[int], repr=False)

    def add(self, page: Page) -> None:
        self.pages += 1
        is_failed = page.error != "" and (not page.status or page.status == 429 or page.status >= 500)
        self.failed += is_failed
        self.is_seed_failed |= page.depth == 0 and (is_failed or page.status >= 400)
        for link in page.links:
            if link.verdict is Verdict.SKIP:
                self.skipped[link.reason] += 1
            elif link.verdict is Verdict.EXTERNAL and len(self._external) < _EXTERNALS:
                self._external.add(hash(link.url))
        self.externals = len(self._external)


_MOVED = "redirects to "  # how the failure of such a crawl begins


def moved(target: str) -> str:
    """The failure of a crawl whose start page leads to another host."""
    return f"{_MOVED}{target}"


def moved_to(crawl: Crawl) -> str:
    """Where the start page of a crawl leads; empty where it is the site's own."""
    return crawl.failure.removeprefix(_MOVED) if crawl.failure.startswith(_MOVED) else ""


def duplicates_avoided(counts: Counts) -> int:
    """Links to pages that were known already: each of them would have been a page of its own."""
    skipped_twins = counts.skipped.get("redirects to a page of its own", 0)
    return max(0, counts.followed - (counts.known - 1)) + skipped_twins


def make_page(stored: StoredPage) -> Page:
    """A page as it was stored."""
    links = tuple(PageLink(href, url, text, Verdict(verdict), why) for href, url, text, verdict, why in stored.links)
    return Page(
        stored.url,
        stored.requested_url,
        stored.final_url,
        stored.status,
        stored.title,
        stored.depth,
        stored.engine,
        links,
        externals_of(links),
        stored.error,
    )


def externals_of(links: Sequence[PageLink]) -> tuple[PageLink, ...]:
    return tuple([link for link in links if link.verdict is Verdict.EXTERNAL])


def page_record(page: Page) -> Mapping[str, Any]:
    """A page as it is written out."""
    record: dict[str, Any] = {name: getattr(page, name) for name in Page.__dataclass_fields__}
    record["links"] = [_link_record(link) for link in page.links]
    record["external"] = [_link_record(link) for link in page.external]
    return record


def _link_record(link: PageLink) -> dict[str, str | None]:
    return {"href": link.href, "url": link.url, "text": link.text, "verdict": link.verdict, "reason": link.reason}
