"""Measure how well feed items are recognised over time, beside `reader` and feedparser with a set of guids.

    python -m benchmarks.identity [--feeds N] [--days N] [--seed N] [--no-peers] [--json FILE]

Simulated feeds (identity_feeds.py) are polled twice a day. Their truth is known, so that errors can be counted:
articles that are announced as new again, articles that are never announced, and edits that are not reported.
A program that reports nothing at a 304 or an outage is right.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import tempfile
import warnings
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import canonry
from benchmarks.identity_feeds import POLL_INTERVAL, START, Answer, Kind, ShownItem, SimulatedFeed, make_feeds
from benchmarks.machine import describe_machine, find_versions, format_table, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FEEDS, DAYS = 80, 75
GOAL = 10.0  # times fewer errors than the peers


class Program(Protocol):
    """A program that polls feeds and says what is new."""

    def poll(self, feed: SimulatedFeed, poll: int) -> tuple[set[int], set[int]]:
        """Poll a feed, and return the numbers of the articles that it announces as new and as updated."""
        ...

    def close(self) -> None:
        """Close what was opened."""
        ...


@dataclass(slots=True)
class Errors:
    """The errors of one program, by kind of feed."""

    name: str
    false_new: Counter[Kind] = field(default_factory=Counter[Kind])
    missed_new: Counter[Kind] = field(default_factory=Counter[Kind])
    lost_updates: Counter[Kind] = field(default_factory=Counter[Kind])
    false_updates: Counter[Kind] = field(default_factory=Counter[Kind])


@dataclass(slots=True)
class Scorer:
    """Compares what a program announces with the truth."""

    errors: Errors
    announced: set[int] = field(default_factory=set[int])
    visible: dict[int, Kind] = field(default_factory=dict[int, Kind])
    versions: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict[tuple[str, int], tuple[int, str]])

    def add(self, feed: SimulatedFeed, new: Iterable[int], updated: Iterable[int]) -> None:
        """Count the errors of one poll."""
        new_numbers, updated_numbers = set(new), set(updated)
        for number in new_numbers:
            self.errors.false_new[feed.kind] += number in self.announced
            self.announced.add(number)
        for item in feed.answer.shown:
            number, version = item.article.number, item.article.version
            self.visible.setdefault(number, feed.kind)
            seen = self.versions.get((feed.url, number))
            self.versions[feed.url, number] = (version, item.link)
            if seen is None:
                continue
            is_reported = number in updated_numbers or number in new_numbers
            self.errors.lost_updates[feed.kind] += version != seen[0] and not is_reported
            # Another spelling of the link may count as an update.
            is_excused = version != seen[0] or item.link != seen[1]
            self.errors.false_updates[feed.kind] += number in updated_numbers and not is_excused

    def finish(self) -> Errors:
        """Count the articles that were never announced, and return all errors."""
        for number, kind in self.visible.items():
            self.errors.missed_new[kind] += number not in self.announced
        return self.errors


class CanonryProgram:
    """canonry with a real store in a file; the fetch function serves the simulated documents."""

    def __init__(self, folder: Path) -> None:
        from canonry.feeds.feed_store import FeedStore
        from canonry.store.database import Database

        self._database = Database(f"sqlite:///{folder}/canonry.db")
        self._store = FeedStore(self._database)
        self._runner = asyncio.Runner()

    def poll(self, feed: SimulatedFeed, poll: int) -> tuple[set[int], set[int]]:
        return self._runner.run(self._poll(feed, poll))

    async def _poll(self, feed: SimulatedFeed, poll: int) -> tuple[set[int], set[int]]:
        from canonry.feeds.item_matching import ItemOutcome
        from canonry.feeds.polling import Polling, poll_feed
        from canonry.net.response import Response

        now = START + poll * POLL_INTERVAL

        async def fetch(url: str, **_: Any) -> Response:
            match feed.answer.answer:
                case Answer.OUTAGE:
                    return Response(503, url)
                case Answer.NOT_MODIFIED:
                    return Response(304, url)
                case Answer.DOCUMENT:
                    return Response(200, url, {"etag": f'"{poll}"'}, feed.answer.body)

        state, _ = await self._store.add(feed.url, now)
        outcome, merged = await poll_feed(state, self._store, Polling(fetch, clock=lambda: now))
        assert feed.answer.answer is Answer.OUTAGE or not outcome.result.is_failure, outcome
        found: dict[str, set[int]] = {outcome: set() for outcome in ItemOutcome}
        by_place = len(merged.items) == len(feed.answer.shown)
        for place, item in enumerate(merged.items):
            shown = feed.answer.shown[place] if by_place else find_shown(feed, item.title, item.url, item.text_start)
            found[item.outcome].add(shown.article.number if shown else -poll)
        return found[ItemOutcome.NEW], found[ItemOutcome.UPDATED]

    def close(self) -> None:
        self._runner.close()
        self._database.close()


class ReaderProgram:
    """`reader`, which reads the documents from files."""

    def __init__(self, folder: Path) -> None:
        # reader contains a feedparser that imports sgmllib3k; today's feedparser depends on a fork of that module.
        sys.modules.setdefault("sgmllib", import_module("feedparser_sgmllib"))
        self._folder = folder / "documents"
        self._folder.mkdir()
        self._reader = import_module("reader").make_reader(str(folder / "reader.db"), feed_root=str(self._folder))
        self._said: list[tuple[Any, str]] = []
        self._known: set[str] = set()
        self._reader.after_entry_update_hooks.append(lambda _, entry, status: self._said.append((entry, status.value)))

    def poll(self, feed: SimulatedFeed, poll: int) -> tuple[set[int], set[int]]:
        name = feed.url.removeprefix("https://").replace("/", "-")
        if feed.answer.answer is not Answer.DOCUMENT:
            return set(), set()
        (self._folder / name).write_bytes(feed.answer.body)
        if name not in self._known:
            self._known.add(name)
            self._reader.add_feed(name)
        self._said.clear()
        try:
            with warnings.catch_warnings(action="ignore"):  # about each entry that it cannot identify
                self._reader.update_feed(name)
        except import_module("reader").ParseError:
            return set(), set()
        found: dict[str, set[int]] = {"new": set(), "modified": set()}
        for entry, status in self._said:
            text = entry.summary or (entry.content[0].value if entry.content else "")
            enclosure = entry.enclosures[0].href if entry.enclosures else ""
            shown = find_shown(feed, entry.title or "", entry.link or "", text, enclosure)
            found[status].add(shown.article.number if shown else -poll)
        return found["new"], found["modified"]

    def close(self) -> None:
        self._reader.close()


class GuidSetProgram:
    """feedparser, a set of ids (or links), and a hash of the content of each."""

    def __init__(self, _: Path) -> None:
        self._seen: dict[tuple[str, str], str] = {}
        self._feedparser = import_module("feedparser")

    def poll(self, feed: SimulatedFeed, poll: int) -> tuple[set[int], set[int]]:
        new: set[int] = set()
        updated: set[int] = set()
        if feed.answer.answer is not Answer.DOCUMENT:
            return new, updated
        for entry in self._feedparser.parse(feed.answer.body).entries:
            text = entry.get("summary", "") or (entry.content[0].value if entry.get("content") else "")
            enclosure = entry.enclosures[0].href if entry.get("enclosures") else ""
            shown = find_shown(feed, entry.get("title", ""), entry.get("link", ""), text, enclosure)
            number = shown.article.number if shown else -poll
            name = (feed.url, entry.get("id") or entry.get("link") or entry.get("title", ""))
            content = repr((entry.get("title"), entry.get("link"), text, entry.get("published"), enclosure))
            if name not in self._seen:
                new.add(number)
            elif self._seen[name] != content:
                updated.add(number)
            self._seen[name] = content
        return new, updated

    def close(self) -> None:
        pass


PROGRAMS: dict[str, Callable[[Path], Program]] = {
    "canonry": CanonryProgram,
    "reader": ReaderProgram,
    "feedparser + guids": GuidSetProgram,
}


def find_shown(feed: SimulatedFeed, title: str, link: str, text: str, enclosure: str = "") -> ShownItem | None:
    """Return the shown item that a program speaks of: the one with most in common."""

    def rate(item: ShownItem) -> int:
        has_text = bool(text) and item.text[:60].strip() == text[:60].strip()
        return (
            4 * has_text
            + 4 * (bool(enclosure) and item.enclosure == enclosure)
            + 2 * (item.link == link)
            + (item.title == title)
        )

    best = max(feed.answer.shown, key=rate, default=None)
    return best if best is not None and rate(best) > 1 else None


def measure(names: Iterable[str], feeds: list[SimulatedFeed], days: int) -> list[Errors]:
    """Poll all feeds twice a day and return the errors of each program."""
    with ExitStack() as stack:
        programs: dict[str, Program] = {}
        for name in names:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="canonry-identity-")))
            programs[name] = PROGRAMS[name](folder)
            stack.callback(programs[name].close)
        scorers = {name: Scorer(Errors(name)) for name in programs}
        numbers = itertools.count(1)
        for poll in range(2 * days):
            for feed in feeds:
                feed.poll(poll, numbers)
                for name, program in programs.items():
                    scorers[name].add(feed, *program.poll(feed, poll))
        return [scorer.finish() for scorer in scorers.values()]


def check_claims(found: list[Errors]) -> list[tuple[str, float, float, bool]]:
    """Return each claim with what was measured, the goal, and whether it holds."""
    ours, *peers = found
    checked = [("lost updates", float(ours.lost_updates.total()), 0.0, not ours.lost_updates.total())]
    for peer in peers:
        for name in ("false_new", "missed_new"):
            have, theirs = getattr(ours, name).total(), getattr(peer, name).total()
            ratio = theirs / max(1, have)
            checked.append((f"{name.replace('_', ' ')}, times fewer than {peer.name}", ratio, GOAL, ratio >= GOAL))
    return checked


def format_text(found: list[Errors], feeds: int, days: int) -> str:
    """Format the result as Markdown."""
    columns = ("program", "false new", "missed new", "lost updates", "false updates")
    rows = [
        (each.name, *(f"{getattr(each, name.replace(' ', '_')).total():,}" for name in columns[1:])) for each in found
    ]
    kinds = [
        (kind.value, *(_describe(each, kind) for each in found)) for kind in Kind if any(_count(e, kind) for e in found)
    ]
    blocks = [
        f"{feeds} feeds, {days} days, two polls a day",
        format_table(columns, rows),
        "By kind of feed: false new / missed new / lost updates",
        format_table(("feeds", *(each.name for each in found)), kinds),
    ]
    blocks += [
        f"Claim: {name}: {value:.1f}, goal {goal:g}: {'holds' if holds else 'does not hold'}"
        for name, value, goal, holds in check_claims(found)
    ]
    return "\n\n".join(blocks)


def _count(errors: Errors, kind: Kind) -> int:
    return errors.false_new[kind] + errors.missed_new[kind] + errors.lost_updates[kind]


def _describe(errors: Errors, kind: Kind) -> str:
    return f"{errors.false_new[kind]} / {errors.missed_new[kind]} / {errors.lost_updates[kind]}"


def main(arguments: list[str]) -> None:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.identity", description=__doc__)
    parser.add_argument("--feeds", type=int, default=FEEDS)
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    names = list(PROGRAMS)[: 1 if options.no_peers else None]
    found = measure(names, make_feeds(options.feeds, options.seed), options.days)
    print(format_text(found, options.feeds, options.days))
    if options.json:
        result = {
            "machine": describe_machine(),
            "versions": {"canonry": canonry.__version__, **find_versions(("reader", "feedparser"))},
            "feeds": options.feeds,
            "days": options.days,
            "errors": [asdict(each) for each in found],
            "claims": [
                {"claim": name, "measured": value, "bar": goal, "holds": holds}
                for name, value, goal, holds in check_claims(found)
            ],
        }
        write_json(options.json, result)


if __name__ == "__main__":
    main(sys.argv[1:])
