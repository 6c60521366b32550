"""Decisions of a crawl, as tables: retries, robots.txt, the start page, leases, the end, and what a page means."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from canonry.core.scope import Verdict
from canonry.crawler.crawl_options import CrawlOptions
from canonry.crawler.decide import (
    Levels,
    NextStep,
    RedirectDecision,
    Retry,
    StartDecision,
    count_fresh,
    count_to_lease,
    decide_next,
    decide_redirect,
    decide_retry,
    decide_start,
    find_start,
    is_exhausted,
    may_follow,
    refuse_page,
)
from canonry.crawler.judge import Judge
from canonry.crawler.reasons import SkipReason
from canonry.crawler.results import LeasedPage, PageResult, PageState, PageUrl, judge_outcome
from canonry.errors import TRANSIENT_FAILURES, FailureKind
from canonry.net.engine import Link, OpenedPage, PageFailure
from canonry.net.origin import Origin
from canonry.net.response import Hop

SITE = "http://a.example"
HOST = "a.example"
OPTIONS = CrawlOptions(retries=2, backoff=1.0)
START = LeasedPage(1, f"{SITE}/", f"{SITE}/", 0, 0)
PAGE = LeasedPage(2, f"{SITE}/page", f"{SITE}/page/", 1, 0)


def fail(kind: FailureKind, status: int = 0, **values: Any) -> OpenedPage:
    return OpenedPage(f"{SITE}/page/", f"{SITE}/page/", status, failure=PageFailure(kind, "why"), **values)


RETRIES = [
    # why                              opened                                            attempts  wanted
    ("a page that was read",           OpenedPage(SITE, SITE, 200),                             0, None),
    ("an error of the client",         fail(FailureKind.STATUS, 404),                           0, None),
    ("a redirect loop",                fail(FailureKind.REDIRECT_LOOP),                         0, None),
    ("refused by the guard",           fail(FailureKind.REFUSED),                               0, None),
    ("a page that was cut",            fail(FailureKind.TRUNCATED, 200),                        0, None),
    ("no connection",                  fail(FailureKind.CONNECT),                               0, Retry(1.0)),
    ("again, twice as long",           fail(FailureKind.CONNECT),                               1, Retry(2.0, is_last=True)),
    ("no more attempts",               fail(FailureKind.CONNECT),                               2, None),
    ("status 500",                     fail(FailureKind.UNAVAILABLE, 500),                      0, Retry(1.0)),
    ("status 429 without a failure",   OpenedPage(SITE, SITE, 429),                             0, Retry(1.0)),
    ("Retry-After pauses the site",    OpenedPage(SITE, SITE, 503, retry_after=30.0),           0, Retry(30.0, True)),
    ("a short one does not shorten",   OpenedPage(SITE, SITE, 503, retry_after=0.1),            1, Retry(2.0, True, is_last=True)),
    ("a long one is limited",          OpenedPage(SITE, SITE, 503, retry_after=86_400.0),       0, Retry(120.0, True)),
    ("Retry-After of a page read",     OpenedPage(SITE, SITE, 200, retry_after=30.0),           0, None),
]  # fmt: skip


@pytest.mark.parametrize(("why", "opened", "attempts", "wanted"), RETRIES, ids=[row[0] for row in RETRIES])
def test_transient_failures_are_retried_with_backoff(
    why: str, opened: OpenedPage, attempts: int, wanted: Retry | None
) -> None:
    assert decide_retry(opened, attempts=attempts, options=OPTIONS, jitter=0.5) == wanted


@pytest.mark.parametrize(("jitter", "seconds"), [(0.0, 0.75), (1.0, 1.25)])
def test_retries_vary_by_a_quarter(jitter: float, seconds: float) -> None:
    opened = fail(FailureKind.TIMEOUT)
    assert decide_retry(opened, attempts=0, options=OPTIONS, jitter=jitter) == Retry(seconds)


@pytest.mark.parametrize("kind", FailureKind)
def test_exactly_transient_failures_are_retried(kind: FailureKind) -> None:
    retry = decide_retry(fail(kind), attempts=0, options=OPTIONS, jitter=0.5)
    assert (retry is not None) == (kind in TRANSIENT_FAILURES)


@pytest.mark.parametrize(
    ("depth", "max_depth", "wanted"), [(0, None, True), (99, None, True), (0, 0, False), (0, 1, True), (1, 1, False)]
)
def test_links_are_followed_down_to_the_maximum_depth(depth: int, max_depth: int | None, wanted: bool) -> None:
    assert may_follow(depth, max_depth) is wanted


ROBOTS = [
    # why                      page   state              kind                reason
    ("disallowed",             PAGE,  PageState.SKIPPED, None,               "robots_disallowed"),
    ("a disallowed start",     START, PageState.FAILED,  FailureKind.ROBOTS, None),
]  # fmt: skip


@pytest.mark.parametrize(("why", "page", "state", "kind", "reason"), ROBOTS, ids=[row[0] for row in ROBOTS])
def test_pages_that_robots_txt_refuses(
    why: str, page: LeasedPage, state: PageState, kind: FailureKind | None, reason: SkipReason | None
) -> None:
    result = refuse_page(page, engine="http")
    assert (result.state, result.failure and result.failure.kind, result.skip_reason) == (state, kind, reason)


MOVED = PageResult(START, PageState.SKIPPED, START.url, 301, "http://b.example/x", skip_reason=SkipReason.OTHER_HOST)
STARTS = [
    # why                              start                                               host         follow  wanted
    ("on the host",                    PageResult(START, PageState.DONE, START.url),       HOST,        False, "STAY"),
    ("failed",                         PageResult(START, PageState.FAILED, START.url),     HOST,        True,  "STAY"),
    ("on another host",                MOVED,                                              HOST,        False, "FAIL"),
    ("on another host, allowed",       MOVED,                                              HOST,        True,  "FOLLOW"),
    ("another process followed it",    MOVED,                                              "b.example", False, "STAY"),
    ("skipped for another reason",     replace(MOVED, skip_reason=SkipReason.DUPLICATE),  HOST,        False, "STAY"),
]  # fmt: skip


@pytest.mark.parametrize(("why", "start", "host", "follow", "wanted"), STARTS, ids=[row[0] for row in STARTS])
def test_the_start_page_decides_which_host_is_crawled(
    why: str, start: PageResult, host: str, follow: bool, wanted: str
) -> None:
    assert decide_start(start, host=host, follow_start=follow) is StartDecision[wanted]


def test_the_start_page_is_found_among_results_unless_it_is_retried() -> None:
    start, page = PageResult(START, PageState.DONE, START.url), PageResult(PAGE, PageState.DONE, PAGE.url)
    assert find_start([page, start]) is start
    assert find_start([page, replace(start, state=PageState.QUEUED)]) is None
    assert find_start([]) is None


TO_LEASE = [
    # why                                        options                                       busy  paused  wanted
    ("two for each slot",                        CrawlOptions(per_host=4),                        0, False,       8),
    ("fewer while pages are open",               CrawlOptions(per_host=4),                        3, False,       5),
    ("none in advance with a delay",             CrawlOptions(per_host=4, delay=1.0),             3, False,       1),
    ("concurrency limits a host, too",           CrawlOptions(per_host=4, concurrency=1),         0, False,       2),
    ("none at the end of the time",              CrawlOptions(per_host=4),                        0, True,        0),
]  # fmt: skip


@pytest.mark.parametrize(("why", "options", "busy", "paused", "wanted"), TO_LEASE, ids=[row[0] for row in TO_LEASE])
def test_how_many_pages_are_leased(why: str, options: CrawlOptions, busy: int, paused: bool, wanted: int) -> None:
    assert count_to_lease(options, busy=busy, is_paused=paused) == wanted


STEPS = [
    # why                                             start  over   late   results busy  wanted
    ("the start page was read",                       True,  False, False, False,  0,    NextStep.AFTER_START),
    ("even at the end of the time",                   True,  False, True,  True,   1,    NextStep.AFTER_START),
    ("the crawl was stopped at its start page",       True,  True,  False, False,  0,    NextStep.STOP),
    ("results are waiting",                           False, False, False, True,   1,    NextStep.TAKE),
    ("results are recorded before the end",           False, True,  False, True,   0,    NextStep.TAKE),
    ("pages are open",                                False, False, False, False,  3,    NextStep.WAIT),
    ("others have pages open",                        False, False, False, False,  0,    NextStep.WAIT),
    ("the frontier is empty",                         False, True,  False, False,  0,    NextStep.STOP),
    ("pages still open belong to others by now",      False, True,  False, False,  2,    NextStep.STOP),
    ("the time is up, pages are open",                False, False, True,  False,  1,    NextStep.WAIT),
    ("the time is up",                                False, False, True,  False,  0,    NextStep.STOP),
]  # fmt: skip


@pytest.mark.parametrize(
    ("why", "start", "over", "late", "results", "busy", "wanted"), STEPS, ids=[row[0] for row in STEPS]
)
def test_the_next_step_of_a_crawl(
    why: str, start: bool, over: bool, late: bool, results: bool, busy: int, wanted: NextStep
) -> None:
    step = decide_next(is_start=start, is_over=over, is_late=late, has_results=results, busy=busy)
    assert step is wanted


FRESH = [
    # why                                 levels               want  taken  max_pages  wanted
    ("no page is left",                   Levels(None, None, None), 5,    1, None,       0),
    ("as many as wanted",                 Levels(1, None, None),    5,    1, None,       5),
    ("a lower depth is still open",       Levels(2, 1, None),       5,    1, None,       5),
    ("up to the page limit",              Levels(1, None, None),    5,    8, 10,         2),
    ("at the page limit",                 Levels(1, None, None),    5,   10, 10,         0),
    ("beyond a lowered page limit",       Levels(1, None, None),    5,   10, 3,          0),
    ("none are wanted",                   Levels(1, None, None),    0,    1, None,       0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("why", "levels", "want", "taken", "max_pages", "wanted"), FRESH, ids=[row[0] for row in FRESH]
)
def test_how_many_new_pages_may_be_leased(
    why: str, levels: Levels, want: int, taken: int, max_pages: int | None, wanted: int
) -> None:
    assert count_fresh(levels, want=want, taken=taken, max_pages=max_pages) == wanted


ENDS = [
    # why                          levels                                  taken  max_pages  wanted
    ("nothing is left",            Levels(None, None, None),                   5, None,      True),
    ("pages are queued",           Levels(1, None, None),                      5, None,      False),
    ("the page limit is reached",  Levels(1, None, None),                      5, 5,         True),
    ("pages are open",             Levels(None, 1, None),                      5, None,      False),
    ("open at the page limit",     Levels(1, 1, None),                         5, 5,         False),
    ("a retry is waiting",         Levels(None, None, "2026-01-31T10:00:00Z"), 5, None,      False),
    ("a released page is waiting", Levels(None, None, ""),                     5, 5,         False),
    ("a last retry is waiting",    Levels(None, None, None, ""),               5, 5,         False),
]  # fmt: skip


@pytest.mark.parametrize(("why", "levels", "taken", "max_pages", "wanted"), ENDS, ids=[row[0] for row in ENDS])
def test_when_a_crawl_is_over(why: str, levels: Levels, taken: int, max_pages: int | None, wanted: bool) -> None:
    assert is_exhausted(levels, taken=taken, max_pages=max_pages) is wanted


def judge(
    opened: OpenedPage, page: LeasedPage = PAGE, *, disallowed: str = "", max_depth: int | None = None
) -> PageResult:
    judge = Judge(HOST, max_depth)
    return judge.judge_page(page, opened, engine="http", is_disallowed=lambda url: url == disallowed)


def redirect(target: str) -> OpenedPage:
    """A redirect that the client did not follow."""
    return OpenedPage(PAGE.requested_url, target, 301, hops=(Hop(301, PAGE.requested_url, target),))


PAGES = [
    # why                              opened                                          page   state     kind           reason
    ("read",                           OpenedPage(SITE, f"{SITE}/page/", 200),         PAGE,  "done",    None,          None),
    ("not found",                      fail(FailureKind.STATUS, 404),                  PAGE,  "done",    "status",      None),
    ("cut",                            fail(FailureKind.TRUNCATED, 200),               PAGE,  "done",    "truncated",   None),
    ("no answer",                      fail(FailureKind.TIMEOUT),                      PAGE,  "failed",  "timeout",     None),
    ("server error",                   fail(FailureKind.UNAVAILABLE, 500),             PAGE,  "failed",  "unavailable", None),
    ("redirects to no URL",            OpenedPage(SITE, "http://a.test:99999/", 200),  PAGE,  "failed",  "invalid_url", None),
    ("redirects to another host",      redirect("http://b.example/"),                  PAGE,  "done",    None,          None),
    ("start page on another host",     redirect("http://b.example/"),                  START, "skipped", None,          "other_host"),
    ("redirect on the site",           redirect(f"{SITE}/new"),                        PAGE,  "done",    None,          None),
    ("redirect to a disallowed page",  redirect(f"{SITE}/private"),                    PAGE,  "skipped", None,          "redirect_disallowed"),
    ("which Chrome has followed",      OpenedPage(SITE, f"{SITE}/private", 200),       PAGE,  "skipped", None,          "redirect_disallowed"),
]  # fmt: skip


@pytest.mark.parametrize(("why", "opened", "page", "state", "kind", "reason"), PAGES, ids=[row[0] for row in PAGES])
def test_what_an_opened_page_means(
    why: str, opened: OpenedPage, page: LeasedPage, state: str, kind: str | None, reason: str | None
) -> None:
    result = judge(opened, page, disallowed=f"{SITE}/private")
    assert (result.state, result.failure and result.failure.kind, result.skip_reason) == (state, kind, reason)


def test_a_redirect_to_another_host_is_an_external_link() -> None:
    [link] = judge(redirect("http://b.example/x/")).links
    assert (link.href, link.url, link.verdict) == ("http://b.example/x/", "http://b.example/x", Verdict.EXTERNAL)


def test_a_redirect_that_was_not_followed_leaves_its_target_to_be_opened() -> None:
    unfollowed = judge(redirect(f"{SITE}/new"))
    assert (unfollowed.redirects_to, unfollowed.is_target_read) == (f"{SITE}/new", False)
    followed = judge(OpenedPage(PAGE.requested_url, f"{SITE}/new", 200))
    assert (followed.redirects_to, followed.is_target_read) == (f"{SITE}/new", True)


def test_a_redirect_to_https_is_the_same_page() -> None:
    result = judge(OpenedPage(PAGE.requested_url, "https://a.example/page", 200))
    assert (result.url, result.redirects_to) == ("https://a.example/page", "")


def test_credentials_are_not_in_the_result() -> None:
    assert judge(OpenedPage(SITE, "http://user:secret@a.example/page/", 200)).final_url == f"{SITE}/page/"


LINKS = (
    Link("/one", f"{SITE}/one", "one"),
    Link("/one/#x", f"{SITE}/one/#x", "the same"),
    Link("/page", f"{SITE}/page", "itself"),
    Link("#top", f"{SITE}/page#top", "top"),
    Link("//b.example/", "http://b.example/", "other"),
)


def test_pages_and_their_other_spellings_are_found_once() -> None:
    opened = OpenedPage(PAGE.requested_url, f"{SITE}/page/", 200, links=LINKS)
    result = judge(opened)
    assert [link.verdict for link in result.links] == ["crawl", "crawl", "skip", "skip", "external"]
    found = [page.requested_url for page in result.found]
    assert (found, result.followed) == ([f"{SITE}/one", f"{SITE}/one/"], 2)


def test_known_pages_are_found_again_only_nearer_to_the_start_page() -> None:
    judge = Judge(HOST, None)
    opened = OpenedPage(PAGE.requested_url, f"{SITE}/page/", 200, links=LINKS)

    def count_found(depth: int) -> int:
        page = replace(PAGE, depth=depth)
        found = judge.judge_page(page, opened, engine="http", is_disallowed=lambda _: False).found
        judge.remember_pages(found, depth=depth + 1)
        return len(found)

    assert [count_found(depth) for depth in (3, 3, 4, 2, 2)] == [2, 0, 0, 2, 0]


@pytest.mark.parametrize(("max_depth", "is_crawled"), [(None, True), (1, True), (0, False)])
def test_pages_of_a_sitemap_have_depth_one(max_depth: int | None, is_crawled: bool) -> None:
    assert (Judge(HOST, max_depth).judge_sitemap_url(f"{SITE}/a#x", Origin.UNKNOWN) is not None) is is_crawled


def test_a_redirect_is_followed_unless_it_leaves_the_site_or_its_target_is_known() -> None:
    judge = Judge(HOST, None)
    known = judge.judge_sitemap_url(f"{SITE}/known", Origin.UNKNOWN)
    assert known is not None
    assert judge.follows_redirect(f"{SITE}/a", known.url), "it is not in the frontier yet"
    judge.remember_pages([known], depth=1)
    assert judge.follows_redirect(f"{SITE}/a", f"{SITE}/unknown")
    assert judge.follows_redirect(f"{SITE}/a", "https://a.example/a/")
    assert not judge.follows_redirect(f"{SITE}/a", "http://b.example/")
    assert not judge.follows_redirect(f"{SITE}/a", "http://a.example:99999/")
    assert not judge.follows_redirect(f"{SITE}/a", known.url)
    judge.remember_pages([PageUrl(f"{SITE}/a", f"{SITE}/a")], depth=1)
    assert judge.follows_redirect(known.url, f"{SITE}/a"), "a circle is followed, so that it is reported"


REDIRECTS: list[tuple[str, PageState | None, bool, bool, RedirectDecision]] = [
    # why, state of the target, is the target read, is the URL the queued one, decision
    ("unknown target", None, True, True, RedirectDecision.RECORD_PAGE_AND_RESERVE_TARGET),
    ("unknown target, https since", None, True, False, RedirectDecision.RECORD_PAGE),
    ("target failed before", PageState.FAILED, True, True, RedirectDecision.RECORD_PAGE),
    ("target failed, not read now", PageState.FAILED, False, True, RedirectDecision.SKIP_PAGE),
    ("target waits and was read", PageState.QUEUED, True, True, RedirectDecision.RECORD_TARGET),
    ("target waits, not read yet", PageState.QUEUED, False, True, RedirectDecision.SKIP_PAGE),
    ("target is being fetched", PageState.FETCHING, True, True, RedirectDecision.SKIP_PAGE),
    ("target is recorded", PageState.DONE, True, True, RedirectDecision.SKIP_PAGE),
    ("target is skipped", PageState.SKIPPED, True, True, RedirectDecision.SKIP_PAGE),
]


@pytest.mark.parametrize(
    ("target", "is_read", "is_queued_url", "decision"),
    [row[1:] for row in REDIRECTS],
    ids=[row[0] for row in REDIRECTS],
)
def test_which_page_of_a_redirect_is_recorded(
    target: PageState | None, is_read: bool, is_queued_url: bool, decision: RedirectDecision
) -> None:
    assert decide_redirect(target, is_target_read=is_read, has_queued_url=is_queued_url) is decision


def test_a_target_that_redirected_itself_gets_the_record() -> None:
    for is_read, decision in ((True, RedirectDecision.RECORD_TARGET), (False, RedirectDecision.SKIP_PAGE)):
        given = {"is_target_read": is_read, "has_queued_url": True, "did_target_redirect": True}
        assert decide_redirect(PageState.SKIPPED, **given) is decision


OUTCOMES = [
    # why                                 state              status  failure                  reason                  wanted
    ("read",                              PageState.DONE,       200, None,                    None,                   "read"),
    ("read in part",                      PageState.DONE,       200, FailureKind.TRUNCATED,   None,                   "read"),
    ("a redirect to another host",        PageState.DONE,       301, None,                    None,                   "read"),
    ("not found",                         PageState.DONE,       404, FailureKind.STATUS,      None,                   "missing"),
    ("gone",                              PageState.DONE,       410, FailureKind.STATUS,      None,                   "missing"),
    ("forbidden",                         PageState.DONE,       403, FailureKind.STATUS,      None,                   "refused"),
    ("sign-in wanted",                    PageState.DONE,       401, FailureKind.STATUS,      None,                   "refused"),
    ("a server error",                    PageState.FAILED,     500, FailureKind.UNAVAILABLE, None,                   "failed"),
    ("no connection",                     PageState.FAILED,       0, FailureKind.CONNECT,     None,                   "failed"),
    ("an address that is not allowed",    PageState.FAILED,       0, FailureKind.REFUSED,     None,                   "refused"),
    ("a disallowed start page",           PageState.FAILED,       0, FailureKind.ROBOTS,      None,                   "refused"),
    ("disallowed by robots.txt",          PageState.SKIPPED,      0, None,           SkipReason.ROBOTS_DISALLOWED,    "refused"),
    ("redirects to a disallowed page",    PageState.SKIPPED,    301, None,           SkipReason.REDIRECT_DISALLOWED,  "refused"),
    ("redirects to a page of the site",   PageState.SKIPPED,    301, None,           SkipReason.REDIRECT_TO_PAGE,     "skipped"),
    ("an alias",                          PageState.SKIPPED,      0, None,           SkipReason.DUPLICATE,            "skipped"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("why", "state", "status", "failure", "reason", "wanted"), OUTCOMES, ids=[row[0] for row in OUTCOMES]
)
def test_what_became_of_a_page_in_one_word(
    why: str, state: PageState, status: int, failure: FailureKind | None, reason: SkipReason | None, wanted: str
) -> None:
    assert judge_outcome(state, status, failure=failure, skip_reason=reason) == wanted
