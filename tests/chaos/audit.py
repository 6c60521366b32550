"""The audit: was every promise kept? Plain functions over what was promised and what is there."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_SHOWN = 5  # problems of one check that are told


@dataclass(frozen=True, slots=True)
class Check:
    """A question with its answer: how much was looked at, and what is wrong."""

    name: str
    looked_at: str
    problems: tuple[str, ...] = ()

    @property
    def is_ok(self) -> bool:
        return not self.problems

    @property
    def told(self) -> str:
        """The first problems in one line."""
        more = [f"and {len(self.problems) - _SHOWN} more"] if len(self.problems) > _SHOWN else []
        return "; ".join([*self.problems[:_SHOWN], *more])


@dataclass(frozen=True, slots=True)
class Promise:
    """A PUT that was acknowledged: `wanted` is where it leads in the end, `own` what it is until then."""

    given: str
    wanted: str
    own: str
    status: int
    id: int
    url: str
    original_url: str | None
    text: int = 0  # the number in the description, where one was sent


@dataclass(frozen=True, slots=True)
class Row:
    """A bookmark as it is in the end."""

    id: int
    url: str
    original_url: str | None
    description: str = ""
    expansion: str = "none"


def check_kept(promises: Sequence[Promise], rows: Iterable[Row], merged: Mapping[int, int]) -> Check:
    """Nothing acknowledged is lost: each is there, at its id or the one it was merged into, with what was given.

    `merged` has the ids of rows that became one with another, and that other.
    """
    by_id = {row.id: row for row in rows}
    problems: list[str] = []
    for promise in promises:
        final = promise.id
        while final in merged:
            final = merged[final]
        row = by_id.get(final)
        if row is None:
            problems.append(f"{promise.given} (bookmark {promise.id}) is lost")
        elif row.url not in {promise.wanted, *((promise.own,) if row.expansion == "failed" else ())}:
            problems.append(f"{promise.given} is at {row.url}, not {promise.wanted}")
        elif final == promise.id and promise.url == row.url and row.original_url != promise.original_url:
            problems.append(f"{promise.given}: the original URL is {row.original_url}, not {promise.original_url}")
        elif (
            final == promise.id and promise.url != row.url and row.original_url != (promise.original_url or promise.url)
        ):
            problems.append(f"{promise.given}: moved, and the original URL is {row.original_url}")
    return Check("acknowledged bookmarks are there, as they were given", f"{len(promises)} answers", tuple(problems))


def check_texts(promises: Iterable[Promise], rows: Iterable[Row]) -> Check:
    """Of texts that were acknowledged the last is there, or one that was sent after it."""
    latest: dict[int, int] = defaultdict(int)
    for promise in promises:
        latest[promise.id] = max(latest[promise.id], promise.text)
    texts = {row.id: row.description for row in rows}
    wanted = {bookmark: text for bookmark, text in latest.items() if text}
    problems = [
        f"bookmark {bookmark} says {texts.get(bookmark)!r}, not {text} or later"
        for bookmark, text in wanted.items()
        if int(texts.get(bookmark) or 0) < text
    ]
    return Check("acknowledged changes are there", f"{len(wanted)} bookmarks", tuple(problems))


def check_once(promises: Iterable[Promise], rows: Sequence[Row], normal: Mapping[str, str]) -> Check:
    """Nothing is there twice: one row for each normal form, created once. `normal` has that of each row's URL."""
    urls = Counter(normal[row.url] for row in rows)
    problems = [f"{url} is there {count} times" for url, count in urls.items() if count > 1]
    created = Counter(promise.id for promise in promises if promise.status == 201)
    problems += [f"bookmark {each} was created {count} times" for each, count in created.items() if count > 1]
    return Check("one bookmark for each normal form", f"{len(rows)} rows", tuple(problems))


def check_items(wanted: Iterable[str], found: Iterable[str], *, what: str = "feed items") -> Check:
    """Each is there exactly once, and nothing else."""
    want, have = Counter(wanted), Counter(found)
    problems = [f"{item} is lost" for item in want if item not in have]
    problems += [f"{item} is there {count} times" for item, count in have.items() if count > 1]
    problems += [f"{item} was never served" for item in have if item not in want]
    return Check(f"{what} are there exactly once", f"{len(want)}", tuple(problems))


def check_pages(sites: Mapping[str, tuple[Mapping[str, int], Sequence[tuple[str, int, str]]]]) -> Check:
    """Each page of each site is recorded once, with its status; `sites` has what is wanted, and what is there and why."""
    problems: list[str] = []
    for seed, (wanted, found) in sites.items():
        counts = Counter(url for url, _, _ in found)
        problems += [f"{url} is lost" for url in wanted if url not in counts]
        problems += [f"{url} is recorded {count} times" for url, count in counts.items() if count > 1]
        problems += [f"{url} is no page of {seed}" for url in counts if url not in wanted]
        problems += [
            f"{url} answered {status}, not {wanted[url]}: {error}"
            for url, status, error in found
            if status != wanted.get(url, status)
        ]
    pages = sum(len(wanted) for wanted, _ in sites.values())
    return Check("crawled pages are recorded exactly once", f"{pages} of {len(sites)} crawls", tuple(problems))


def check_reached(hits: Sequence[str], *, is_counting: bool) -> Check:
    """Nobody came to an address that is not allowed; traps that count nothing prove nothing."""
    problems = tuple(hits) if is_counting else ("the traps count nothing", *hits)
    return Check("no private address was reached", "TCP and UDP traps", problems)


def check_memory(peaks: Mapping[str, int], bounds: Mapping[str, int]) -> Check:
    """No process of a kind had more memory than its bound."""
    missing = [f"no {kind} was ever seen" for kind in bounds if kind not in peaks]
    over = [
        f"a {kind} had {peaks[kind] / 2**20:.0f} MiB, more than {bound / 2**20:.0f}"
        for kind, bound in bounds.items()
        if peaks.get(kind, 0) > bound
    ]
    return Check("memory is bounded", f"{len(bounds)} kinds of process", (*missing, *over))


def check_left(commands: Iterable[str]) -> Check:
    """No process is left."""
    return Check("no process is left", "all that were started", tuple(commands))


def check_answers(refusals: Mapping[str, int]) -> Check:
    """A service whose parts are down says so: what it answered besides is wrong."""
    problems = tuple(f"{count} times {what}" for what, count in refusals.items())
    return Check("no answer but success, busy or not available", "all requests", problems)
