"""Pages and links as a crawl returns them, and the summary of a crawl."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from canonry.core.scope import Verdict
from canonry.crawler.decide import is_unusable
from canonry.crawler.reasons import SkipReason  # noqa: TC001 (FastAPI reads the annotations of Page)
from canonry.crawler.results import PageChange, PageOutcome
from canonry.errors import FailureKind, mask_credentials
from canonry.net.engine import LinkSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from canonry.net.page_facts import PageFacts

_MAX_UNREAD_PAGES = 100_000  # that a summary keeps
_MAX_TEXTS = 1_000_000
_MAX_EXTERNAL_URLS = 1_000_000  # external URLs that a summary counts


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link of a page: absolute (`href`), normalized (`url`, None for a link without such a form), and its verdict.

    `source` says where the link was found.
    """

    href: str
    url: str | None
    text: str
    verdict: Verdict
    reason: str
    source: LinkSource = LinkSource.ANCHOR

    def to_row(self) -> list[str | None]:
        """Return the link as it is stored; the usual source is left out."""
        values = [self.href, self.url, self.text, self.verdict, self.reason]
        return values if self.source is LinkSource.ANCHOR else [*values, self.source]

    @classmethod
    def from_row(
        cls, href: str, url: str | None, text: str, verdict: str, reason: str, source: str = LinkSource.ANCHOR
    ) -> PageLink:
        """Return a stored link."""
        return cls(href, url, text, Verdict(verdict), reason, LinkSource(source))


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a crawl. `external` are the links to other sites.

    `error` is the message for people and `failure` its kind; records that are written out have `error` only. `outcome`
    says in one word what became of the page. `referrer` is the page or sitemap on which the page was found first.
    `size` is the number of bytes of the body, None if it is not known. `robots_directives`, `hreflangs` (pairs of
    language and URL) and `canonical_url` are what the page declares. `is_still_changing` says that scripts had not
    finished when the links were read. `change` is the difference to the crawl before, if this one repeats another.
    `hops` are the redirects on the way: status and URL. `text_hash`, `simhash` (16 hexadecimal digits) and `words` are
    the fingerprint of the visible text. `skip_reason` says why a page was left out, `repeats_url` which page with the
    same path, title and text was read before.
    """

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
    failure: FailureKind | None = None
    outcome: PageOutcome = PageOutcome.READ
    content_type: str = ""
    size: int | None = None
    robots_directives: tuple[str, ...] = ()
    hreflangs: tuple[tuple[str, str], ...] = ()
    canonical_url: str = ""
    is_still_changing: bool = False
    referrer: str = ""
    fetched_at: str = ""
    change: PageChange | None = None
    text_hash: str = ""
    simhash: str = ""
    words: int = 0
    skip_reason: SkipReason | None = None
    repeats_url: str = ""
    hops: tuple[tuple[int, str], ...] = ()

    def add_facts(self, facts: PageFacts) -> Page:
        """Return the page with what it says about itself."""
        return replace(
            self,
            content_type=facts.content_type,
            size=facts.size,
            robots_directives=facts.robots_directives,
            hreflangs=facts.hreflangs,
            canonical_url=facts.canonical_url,
            is_still_changing=facts.is_still_changing,
            hops=facts.hops,
        )


RECORD_FIELDS = tuple(name for name in Page.__dataclass_fields__ if name != "failure")
_URL_FIELDS = ("url", "requested_url", "final_url", "error", "canonical_url", "referrer", "repeats_url")


@dataclass(slots=True)
class Summary:
    """The totals of a crawl; `skipped` counts links by reason, `externals` different URLs of other sites, `texts`
    different visible texts, `repeats` pages that repeat another one under the same path.

    A page that is added twice, because another spelling of its URL was found later, counts with its last result.
    `failed` counts pages without a usable answer, also those that were refused before a request.
    """

    pages: int = 0
    failed: int = 0
    outcomes: Counter[PageOutcome] = field(default_factory=Counter[PageOutcome])
    skipped: Counter[str] = field(default_factory=Counter[str])
    externals: int = 0
    texts: int = 0
    repeats: int = 0
    is_seed_failed: bool = False
    _unread: dict[str, Page] = field(default_factory=dict[str, "Page"], repr=False)
    _external: set[int] = field(default_factory=set[int], repr=False)
    _texts: set[int] = field(default_factory=set[int], repr=False)

    def add(self, page: Page) -> None:
        """Count a page and its links."""
        if (before := self._unread.pop(page.url, None)) is not None:
            self._count(before, -1)
        self._count(page, 1)
        is_failed = _is_failed(page)
        if page.outcome is not PageOutcome.READ and len(self._unread) < _MAX_UNREAD_PAGES:
            self._unread[page.url] = page
        self.is_seed_failed |= page.depth == 0 and (is_failed or page.status >= 400)
        for link in page.links:
            if link.verdict is Verdict.SKIP:
                self.skipped[link.reason] += 1
            elif link.verdict is Verdict.EXTERNAL and len(self._external) < _MAX_EXTERNAL_URLS:
                self._external.add(hash(link.url))
        self.externals = len(self._external)
        if page.text_hash and len(self._texts) < _MAX_TEXTS:
            self._texts.add(hash(page.text_hash))
            self.texts = len(self._texts)
        self.repeats += bool(page.repeats_url)

    @property
    def problems(self) -> list[Page]:
        """The pages that were not read."""
        return list(self._unread.values())

    def _count(self, page: Page, number: int) -> None:
        self.pages += number
        self.failed += number * _is_failed(page)
        self.outcomes[page.outcome] += number


def _is_failed(page: Page) -> bool:
    return page.failure is not None and is_unusable(page.status)


def select_external(links: Iterable[PageLink]) -> tuple[PageLink, ...]:
    """Return the links that lead to other sites."""
    return tuple([link for link in links if link.verdict is Verdict.EXTERNAL])


def mask_url(url: str) -> str:
    """Return a URL as files, pages and the API show it: without user names and passwords.

    The address of a `mailto:` link is not a credential.
    """
    is_plain = "@" not in url and "%40" not in url
    return url if is_plain or url[:7].lower() == "mailto:" else mask_credentials(url)


def make_record(page: Page) -> Mapping[str, Any]:
    """Return a page as files and responses of the API have it; user names and passwords in URLs are masked."""
    record: dict[str, Any] = {name: getattr(page, name) for name in RECORD_FIELDS}
    record |= {name: mask_url(getattr(page, name)) for name in _URL_FIELDS}
    record["robots_directives"] = list(page.robots_directives)
    record["hreflangs"] = [[language, mask_url(url)] for language, url in page.hreflangs]
    record["hops"] = [{"status": status, "url": mask_url(url)} for status, url in page.hops]
    record["links"] = [_make_link_record(link) for link in page.links]
    record["external"] = [_make_link_record(link) for link in page.external]
    return record


def _make_link_record(link: PageLink) -> dict[str, str | None]:
    record: dict[str, str | None] = {
        "href": mask_url(link.href),
        "url": None if link.url is None else mask_url(link.url),
        "text": link.text,
        "verdict": link.verdict,
        "reason": mask_url(link.reason),
    }
    return record if link.source is LinkSource.ANCHOR else record | {"source": link.source}
