"""Check after a chaos run that nothing was lost, stored twice or leaked.

Every check is a plain function that compares what the service acknowledged with what is stored in the end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_MAX_SHOWN_PROBLEMS = 5
_MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check: its name, what was checked, and the problems that were found."""

    name: str
    checked: str
    problems: tuple[str, ...] = ()

    @property
    def is_ok(self) -> bool:
        return not self.problems

    @property
    def summary(self) -> str:
        """The first problems in one line."""
        more = len(self.problems) - _MAX_SHOWN_PROBLEMS
        return "; ".join([*self.problems[:_MAX_SHOWN_PROBLEMS], *([f"and {more} more"] if more > 0 else [])])


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A PUT of a bookmark that was answered with success; `id`, `url` and `original_url` are from the response."""

    sent_url: str
    target_url: str  # the normal form in the end: for a short link that of the page it leads to
    normal_url: str  # the normal form of `sent_url`
    status: int
    id: int
    url: str
    original_url: str | None
    revision: int = 0  # the number sent as description, 0 if none was sent


@dataclass(frozen=True, slots=True)
class StoredBookmark:
    """A bookmark in the database at the end of the run."""

    id: int
    url: str
    original_url: str | None
    description: str = ""
    expansion: str = "none"


class CrawledPage(NamedTuple):
    """A page in the output of a crawl; its status is 0 if it has an error."""

    url: str
    status: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class SiteCrawl:
    """A finished crawl: the status that each URL must have, and the pages that were recorded."""

    wanted: Mapping[str, int]
    pages: Sequence[CrawledPage]


def check_bookmarks(
    acknowledged: Sequence[Acknowledgement], stored: Iterable[StoredBookmark], merged: Mapping[int, int]
) -> Check:
    """Check that each acknowledged bookmark is stored under its id, or under the id of the row it was merged into.

    `merged` maps the id of each merged row to the id of the row that replaced it.
    """
    by_id = {row.id: row for row in stored}
    problems: list[str] = []
    for sent in acknowledged:
        final_id = sent.id
        while final_id in merged:
            final_id = merged[final_id]
        row = by_id.get(final_id)
        is_same_row = final_id == sent.id
        if row is None:
            problems.append(f"{sent.sent_url} (bookmark {sent.id}) is lost")
        elif row.url != sent.target_url and not (row.expansion == "failed" and row.url == sent.normal_url):
            problems.append(f"{sent.sent_url} has the URL {row.url}, not {sent.target_url}")
        elif is_same_row and sent.url == row.url and row.original_url != sent.original_url:
            problems.append(f"{sent.sent_url}: the original URL is {row.original_url}, not {sent.original_url}")
        elif is_same_row and sent.url != row.url and row.original_url != (sent.original_url or sent.url):
            problems.append(f"{sent.sent_url}: expanded, and the original URL is {row.original_url}")
    return Check("acknowledged bookmarks are stored as sent", f"{len(acknowledged)} responses", tuple(problems))


def check_descriptions(acknowledged: Iterable[Acknowledgement], stored: Iterable[StoredBookmark]) -> Check:
    """Check that each description is the last acknowledged one, or one that was sent after it."""
    latest: dict[int, int] = defaultdict(int)
    for sent in acknowledged:
        latest[sent.id] = max(latest[sent.id], sent.revision)
    descriptions = {row.id: row.description for row in stored}
    wanted = {bookmark: revision for bookmark, revision in latest.items() if revision}
    problems = [
        f"bookmark {bookmark} has the description {descriptions.get(bookmark)!r}, not {revision} or later"
        for bookmark, revision in wanted.items()
        if int(descriptions.get(bookmark) or 0) < revision
    ]
    return Check("acknowledged changes are stored", f"{len(wanted)} bookmarks", tuple(problems))


def check_unique(
    acknowledged: Iterable[Acknowledgement], stored: Sequence[StoredBookmark], normal: Mapping[str, str]
) -> Check:
    """Check that each normal form has one row, which was created once. `normal` maps the URL of a row to its form."""
    urls = Counter(normal[row.url] for row in stored)
    problems = [f"{url} is stored {count} times" for url, count in urls.items() if count > 1]
    created = Counter(sent.id for sent in acknowledged if sent.status == 201)
    problems += [f"bookmark {each} was created {count} times" for each, count in created.items() if count > 1]
    return Check("one bookmark for each normal form", f"{len(stored)} rows", tuple(problems))


def check_items(wanted: Iterable[str], stored: Iterable[str]) -> Check:
    """Check that each feed item is stored exactly once, and nothing else is."""
    want, have = Counter(wanted), Counter(stored)
    problems = [f"{item} is lost" for item in want if item not in have]
    problems += [f"{item} is stored {count} times" for item, count in have.items() if count > 1]
    problems += [f"{item} was never served" for item in have if item not in want]
    return Check("feed items are stored exactly once", f"{len(want)} items", tuple(problems))


def check_changes(wanted: Iterable[str], new: Iterable[str], numbers: Sequence[int]) -> Check:
    """Check that each feed item is new exactly once in the change feed, and that no number is missing in it.

    `new` are the titles of its new items.
    """
    want, have = Counter(wanted), Counter(new)
    problems = [f"{item} is not in the change feed" for item in want if item not in have]
    problems += [f"{item} is new {count} times" for item, count in have.items() if count > 1]
    missing = sorted(set(range(1, max(numbers, default=0) + 1)) - set(numbers))
    problems += [f"no change has the number {number}" for number in missing]
    return Check("feed items are in the change feed", f"{len(numbers)} changes", tuple(problems))


def check_failing_feeds(wanted: Sequence[str], failing: Iterable[str]) -> Check:
    """Check that the feeds at forbidden addresses fail, and no other feed does."""
    want, have = set(wanted), set(failing)
    problems = [f"{url} does not fail" for url in sorted(want - have)]
    problems += [f"{url} fails" for url in sorted(have - want)]
    return Check("only feeds at forbidden addresses fail", f"{len(want)} feeds", tuple(problems))


def check_pages(crawls: Mapping[str, SiteCrawl]) -> Check:
    """Check that each page of each site is recorded once, with its status. `crawls` has the start URLs as keys."""
    problems: list[str] = []
    for seed, crawl in crawls.items():
        counts = Counter(page.url for page in crawl.pages)
        problems += [f"{url} is lost" for url in crawl.wanted if url not in counts]
        problems += [f"{url} is recorded {count} times" for url, count in counts.items() if count > 1]
        problems += [f"{url} is no page of {seed}" for url in counts if url not in crawl.wanted]
        problems += [
            f"{page.url} has the status {page.status}, not {crawl.wanted[page.url]}: {page.error}"
            for page in crawl.pages
            if page.status != crawl.wanted.get(page.url, page.status)
        ]
    count = sum(len(crawl.wanted) for crawl in crawls.values())
    return Check("crawled pages are recorded exactly once", f"{count} pages of {len(crawls)} crawls", tuple(problems))


def check_traps(hits: Sequence[str], *, are_counting: bool) -> Check:
    """Check that no request reached a forbidden address. Traps that do not count prove nothing and fail the check."""
    problems = tuple(hits) if are_counting else ("the traps do not count connections", *hits)
    return Check("no forbidden address was reached", "TCP and UDP traps", problems)


def check_memory(peaks: Mapping[str, int], limits: Mapping[str, int]) -> Check:
    """Check that no process used more memory than the limit for its kind, and that each kind was measured."""
    missing = [f"no {kind} process was measured" for kind in limits if kind not in peaks]
    over = [
        f"a {kind} process used {peaks[kind] / _MEBIBYTE:.0f} MiB, more than {limit / _MEBIBYTE:.0f} MiB"
        for kind, limit in limits.items()
        if peaks.get(kind, 0) > limit
    ]
    return Check("memory is bounded", f"{len(limits)} kinds of process", (*missing, *over))


def check_responses(unexpected: Mapping[str, int]) -> Check:
    """Check that every response was a success, 429 or 503. `unexpected` counts the others."""
    problems = tuple(f"{count} times {response}" for response, count in unexpected.items())
    return Check("every response is a success, 429 or 503", "all requests", problems)


def check_exit_codes(codes: Mapping[str, int | None]) -> Check:
    """Check that each process ended with 0 after SIGTERM; None is a process that did not end in time."""
    problems = [
        f"{name} did not end in time" if code is None else f"{name} ended with {code}"
        for name, code in codes.items()
        if code != 0
    ]
    return Check("processes end cleanly on SIGTERM", f"{len(codes)} processes", tuple(problems))


def check_no_processes(commands: Iterable[str]) -> Check:
    """Check that no process is left running."""
    return Check("no process is left running", "all that were started", tuple(commands))
