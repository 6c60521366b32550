"""Values that pass between a crawl and its frontier: pages to open, and the results of opening them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from canonry.crawler.reasons import SkipReason
from canonry.errors import FailureKind
from canonry.evidence.fingerprint import EMPTY_TEXT, Fingerprint
from canonry.net.origin import Origin
from canonry.net.page_facts import NO_FACTS, PageFacts

if TYPE_CHECKING:
    from datetime import datetime

    from canonry.crawler.control_fetches import ControlledPage
    from canonry.crawler.pages import PageLink
    from canonry.crawler.traps import TextDigest
    from canonry.evidence.facts import PageFact
    from canonry.net.engine import PageFailure


class PageState(StrEnum):
    """The state of a page in the frontier."""

    QUEUED = "queued"
    FETCHING = "fetching"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


class PageOutcome(StrEnum):
    """The outcome of a page, as all outputs name it."""

    READ = "read"
    MISSING = "missing"  # the server has no such page: status 4xx
    FAILED = "failed"  # no usable answer
    REFUSED = "refused"  # by robots.txt, by the guard, or by the server: status 401, 403 or 451
    SKIPPED = "skipped"  # another page shows the same


class PageChange(StrEnum):
    """How a page differs from what an earlier crawl of the site read."""

    NEW = "new"  # the earlier crawl did not read it
    CHANGED = "changed"  # text or title differ
    GONE = "gone"  # it is missing now, or redirects to another page
    SAME = "same"


RECORDED = (PageState.DONE, PageState.FAILED)  # the states of pages that a crawl returns


_REFUSED_STATUSES = frozenset({401, 403, 451})
_REFUSED_FAILURES = frozenset({FailureKind.ROBOTS, FailureKind.REFUSED})
REFUSED_REASONS = frozenset({SkipReason.ROBOTS_DISALLOWED, SkipReason.REDIRECT_DISALLOWED})


def read_fingerprint(text_hash: str, simhash: str, words: int) -> Fingerprint:
    """Return the fingerprint that a page has in the database; of a page without text, that of an empty one."""
    return Fingerprint(text_hash, int(simhash, 16), words) if text_hash else EMPTY_TEXT


def judge_outcome(state: PageState, status: int, *, failure: str | None, skip_reason: str | None = None) -> PageOutcome:
    """Return what became of a page that is done, failed or skipped."""
    if failure in _REFUSED_FAILURES or skip_reason in REFUSED_REASONS or status in _REFUSED_STATUSES:
        return PageOutcome.REFUSED
    if state is PageState.SKIPPED:
        return PageOutcome.SKIPPED
    if state is PageState.FAILED:
        return PageOutcome.FAILED
    return PageOutcome.MISSING if status >= 400 else PageOutcome.READ


@dataclass(frozen=True, slots=True)
class PageUrl:
    """The URL of a page: normalized (`url`), as a link has it (`requested_url`), and who named it (`origin`)."""

    url: str
    requested_url: str
    origin: Origin = Origin.UNKNOWN


@dataclass(frozen=True, slots=True)
class LeasedPage:
    """A page that one owner may open until its lease expires; `attempts` counts earlier attempts, which failed."""

    id: int
    url: str
    requested_url: str
    depth: int
    attempts: int
    origin: Origin = Origin.UNKNOWN
    referrer: str = ""  # the page, or the sitemap, on which it was found first


@dataclass(frozen=True, slots=True)
class Skip:
    """A page that is not read, the rule that says so, and the page read in its place, if there is one."""

    page_id: int
    reason: SkipReason
    rule_key: str
    target_url: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """A page is not read yet: another URL of the same page is open, or is read first."""


@dataclass(frozen=True, slots=True)
class PageResult:
    """The result of opening a page. The state QUEUED asks for another attempt at `retry_at`.

    That attempt is free if the site was down, so that it says nothing about the page (`is_free_retry`), and waits until
    all other pages are done if it is the last one (`is_last_retry`).

    `url` is the page's own URL, `redirects_to` the normalized URL of another page of the site. `is_target_read` is
    False if the redirect was not followed, so that its target has to be opened separately. `origin` is the origin of
    the URLs that the page names.
    """

    page: LeasedPage
    state: PageState
    url: str
    status: int = 0
    final_url: str = ""
    title: str = ""
    engine: str = ""
    failure: PageFailure | None = None
    skip_reason: SkipReason | None = None
    links: tuple[PageLink, ...] = ()
    followed: int = 0  # links to pages of the site
    found: tuple[PageUrl, ...] = ()  # pages to queue
    redirects_to: str = ""
    is_target_read: bool = True
    retry_at: datetime | None = None
    is_free_retry: bool = False
    is_last_retry: bool = False
    origin: Origin = Origin.UNKNOWN
    facts: PageFacts = NO_FACTS
    fingerprint: Fingerprint = EMPTY_TEXT
    digest: TextDigest | None = None  # the text as the pattern of the URL compares it
    skipped_by: str = ""  # the key of the rule that skips the page
    repeats_url: str = ""  # the page with the same path, title and text that was read before
    fact: PageFact | None = None  # for the table that bookmarks share
    control: ControlledPage | None = None  # what a control fetch for the page showed

    @property
    def text_hash(self) -> str:
        """The hash of the visible text; empty for a page without text."""
        return self.fingerprint.text_hash if self.fingerprint.words else ""

    @property
    def simhash(self) -> str:
        """The simhash of the visible text as 16 hexadecimal digits; empty for a page without text."""
        return f"{self.fingerprint.simhash:016x}" if self.fingerprint.words else ""


@dataclass(frozen=True, slots=True)
class RecordedPage:
    """A page that was stored, under the URL and depth that the frontier gave it."""

    result: PageResult
    url: str
    depth: int
    referrer: str
    fetched_at: str
    change: PageChange | None = None


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which the site does not answer: since when, and until when no page is opened."""

    since: datetime
    paused_until: datetime


@dataclass(frozen=True, slots=True)
class FrontierBatch:
    """The pages recorded and leased by one transaction; without leases, `wait` is the delay in seconds before the next.

    `outage` is set while the site does not answer. `taken_to_learn` is the number of pages taken, when rules
    are to be learned. `sitemaps_of` is the start page when this process is to read the sitemaps of its site.
    """

    recorded: tuple[RecordedPage, ...] = ()
    leased: tuple[LeasedPage, ...] = ()
    is_over: bool = False
    wait: float = 0.0
    host: str = ""
    outage: Outage | None = None
    taken_to_learn: int | None = None
    sitemaps_of: PageUrl | None = None
