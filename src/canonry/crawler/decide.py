"""Decisions of a crawl that need no I/O: retries, depth, how many pages to take, what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from canonry.core.url import parse
from canonry.crawler.reasons import SkipReason
from canonry.crawler.results import PageResult, PageState
from canonry.errors import FailureKind
from canonry.net.engine import PageFailure
from canonry.net.response import is_unavailable_status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.crawler.crawl_options import CrawlOptions
    from canonry.crawler.results import LeasedPage
    from canonry.net.engine import OpenedPage

_MAX_RETRY_AFTER_SECONDS = 120.0
_DISALLOWED = PageFailure(FailureKind.ROBOTS, "disallowed by robots.txt")


def is_unusable(status: int) -> bool:
    """Return whether there was no answer (status 0), or one that is not the page."""
    return not status or is_unavailable_status(status)


def may_follow(depth: int, max_depth: int | None) -> bool:
    """Return whether pages found on a page at this depth are crawled."""
    return max_depth is None or depth < max_depth


@dataclass(frozen=True, slots=True)
class Retry:
    """Open a page again after `seconds`; with `pauses_site`, the server asked for this pause for all its pages.

    `is_last`: the last retry waits until all other pages are done, because a short outage may be over by then.
    """

    seconds: float
    pauses_site: bool = False
    is_last: bool = False


def decide_retry(opened: OpenedPage, *, attempts: int, options: CrawlOptions, jitter: float) -> Retry | None:
    """Return when to open a page again, or None if this result is final.

    `jitter` is a random number from 0 to 1: delays vary by a quarter, so that retries do not come all at once.
    """
    is_transient = is_unavailable_status(opened.status) or (opened.failure is not None and opened.failure.is_transient)
    if not is_transient or attempts >= options.retries:
        return None
    seconds = options.backoff * 2**attempts * (0.75 + jitter / 2)
    is_last = attempts == options.retries - 1
    if opened.retry_after is None:
        return Retry(seconds, is_last=is_last)
    return Retry(limit_retry_after(opened, seconds), pauses_site=True, is_last=is_last)


def limit_retry_after(opened: OpenedPage, seconds: float) -> float:
    """Return the pause that the server asks for, within our limit, and no less than `seconds`."""
    return max(seconds, min(opened.retry_after or 0.0, _MAX_RETRY_AFTER_SECONDS))


def refuse_page(page: LeasedPage, *, engine: str) -> PageResult:
    """Return the result for a page that robots.txt disallows.

    A start page is never skipped: without it there is no crawl, so it fails.
    """
    if page.depth:
        return PageResult(page, PageState.SKIPPED, page.url, engine=engine, skip_reason=SkipReason.ROBOTS_DISALLOWED)
    return PageResult(page, PageState.FAILED, page.url, engine=engine, failure=_DISALLOWED)


class StartDecision(Enum):
    """The effect of the start page's result on the crawl."""

    STAY = auto()  # the crawl stays on its host
    FOLLOW = auto()  # the crawl moves to the host that the start page redirects to
    FAIL = auto()  # the start page redirects to another host, which was not asked for


def decide_start(start: PageResult, *, host: str, follow_start: bool) -> StartDecision:
    """Decide which host is crawled, once the start page was opened (contract C2)."""
    if start.skip_reason is not SkipReason.OTHER_HOST or parse(start.final_url).host == host:
        return StartDecision.STAY
    return StartDecision.FOLLOW if follow_start else StartDecision.FAIL


def find_start(results: Sequence[PageResult]) -> PageResult | None:
    """Return the final result of the start page, if it is among these."""
    return next((each for each in results if not each.page.depth and each.state is not PageState.QUEUED), None)


def count_to_lease(options: CrawlOptions, *, busy: int, is_paused: bool) -> int:
    """Return how many pages to lease: two for each slot, or one with a delay, during which leases could expire."""
    if is_paused:
        return 0
    return options.slots * (1 if options.delay else 2) - busy


class NextStep(Enum):
    """The next action of a crawl after a batch was stored."""

    AFTER_START = auto()  # store the host, then take pages
    TAKE = auto()  # results are waiting: store them and take more pages
    WAIT = auto()
    STOP = auto()


def decide_next(*, is_start: bool, is_over: bool, is_late: bool, has_results: bool, busy: int) -> NextStep:
    """Decide how the crawl continues after a batch.

    `is_over` says that the frontier gives no more pages, `is_late` that this process has used up its time, `busy` how
    many pages it has open. Pages still open when a crawl is over were stopped, or are leased to another process.
    """
    if is_start and not is_over:
        return NextStep.AFTER_START
    if has_results:
        return NextStep.TAKE
    if is_over or (is_late and not busy):
        return NextStep.STOP
    return NextStep.WAIT


class Levels(NamedTuple):
    """The progress of a frontier: the lowest depth of fresh (never opened) and of open pages, and the first retries.

    `retry_at` is a timestamp of the database, empty for a page that was released and may be opened at once.
    `last_retry_at` is the same for retries that wait until all other pages are done.
    """

    fresh_depth: int | None
    open_depth: int | None
    retry_at: str | None
    last_retry_at: str | None = None


def count_fresh(levels: Levels, *, want: int, taken: int, max_pages: int | None) -> int:
    """Return how many pages that were never opened may be taken.

    They do not wait for pages of a lower depth: one slow page would stop the crawl. If a shorter way to a page is found
    after it was opened, its depth and that of the pages behind it are corrected.
    """
    room = want if max_pages is None else min(want, max_pages - taken)
    return 0 if levels.fresh_depth is None else max(room, 0)


def is_exhausted(levels: Levels, *, taken: int, max_pages: int | None) -> bool:
    """Return whether a crawl is over: nothing is open, nothing is to be retried, and no page is left to take."""
    return may_retry_last(levels, taken=taken, max_pages=max_pages) and levels.last_retry_at is None


def may_retry_last(levels: Levels, *, taken: int, max_pages: int | None) -> bool:
    """Return whether all pages are done except the last retries, which may begin."""
    has_fresh = levels.fresh_depth is not None and (max_pages is None or taken < max_pages)
    return levels.open_depth is None and levels.retry_at is None and not has_fresh


class RedirectDecision(Enum):
    """The record for a page that redirects to another page of the site."""

    RECORD_PAGE = auto()  # the page gets the record, under its own URL
    RECORD_PAGE_AND_RESERVE_TARGET = auto()  # and a link to the target that is found later makes no second page
    RECORD_TARGET = auto()  # the target, which has no record of its own, gets this one; the page is skipped
    SKIP_PAGE = auto()  # the target has or gets a record from its own request


def decide_redirect(
    target_state: PageState | None, *, is_target_read: bool, has_queued_url: bool, did_target_redirect: bool = False
) -> RedirectDecision:
    """Decide which of the two pages is recorded: the one that redirects, or its target.

    `target_state` is None if the target is not in the frontier. `is_target_read` says that the redirect was followed,
    `has_queued_url` that the URL of the page is still the one that was queued, and `did_target_redirect` that the
    target was skipped because it redirected when it was opened itself: two pages can lead to each other in turn.
    """
    if target_state is None and has_queued_url:
        return RedirectDecision.RECORD_PAGE_AND_RESERVE_TARGET
    if target_state is None or (target_state is PageState.FAILED and is_target_read):
        return RedirectDecision.RECORD_PAGE
    if is_target_read and (target_state is PageState.QUEUED or did_target_redirect):
        return RedirectDecision.RECORD_TARGET
    return RedirectDecision.SKIP_PAGE
