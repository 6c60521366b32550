"""`canonry ingest`: poll feeds, store each item once, and print the new and updated items."""

from __future__ import annotations

import asyncio
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from canonry.cli import render
from canonry.cli.event_loop import run_on_fast_loop
from canonry.cli.ingest_output import ItemOutput, print_round, print_summary
from canonry.cli.options import db_option, json_option, require_folder
from canonry.cli.signals import run_until_stopped
from canonry.cli.stores import open_feeds
from canonry.errors import InvalidStoreUrl, NewerStore, StoreError

if TYPE_CHECKING:
    from canonry.feeds.feed_store import FeedStore
    from canonry.feeds.given_feeds import GivenFeeds
    from canonry.feeds.ingest_report import FeedOutcome, IngestedItem, Report
    from canonry.feeds.opml import OpmlFeed
    from canonry.store.database import Database


@click.command()
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option(
    "--opml", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="Poll the feeds of an OPML file."
)
@db_option
@click.option(
    "--jsonl",
    metavar="FILE",
    callback=require_folder,
    help="Append new and updated items to FILE, one JSON object per line, each at least once; - is standard output.",
)
@json_option
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="Feeds polled at once.",
)
@click.option(
    "--per-host",
    metavar="N",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Feeds of one host polled at once.",
)
@click.option(
    "--delay",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Pause between requests to one host.",
)
@click.option(
    "--seen-ttl-days",
    metavar="N",
    type=click.IntRange(min=0),
    default=30,
    show_default=True,
    help="Days after which an item that its feed no longer lists is deleted.",
)
@click.option("--force", is_flag=True, help="Ask for whole documents, also where nothing has changed (no validators).")
@click.option(
    "--fetch-links/--no-fetch-links",
    default=None,
    help="Also fetch links of new items, politely, to know an item under the URL of its page. Default: the setting"
    " fetch_item_links, which is off.",
)
@click.option("--watch", is_flag=True, help="Keep running, and poll each feed of the store when it is due.")
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    help="With --watch: how often to look for feeds that are due.",
)
def ingest(
    urls: tuple[str, ...],
    *,
    opml: str | None,
    database_url: str,
    jsonl: str | None,
    as_json: bool,
    watch: bool,
    every: float,
    concurrency: int,
    per_host: int,
    delay: float,
    seen_ttl_days: int,
    force: bool,
    fetch_links: bool | None,
) -> None:
    """Poll feeds and store each item once.

    Polls the given URLs and the feeds of an OPML file, or without either all active feeds of the store.
    When piped, new and updated items are printed as JSON lines. Feeds that fail are listed and do not stop
    the others; the exit code is then 1. A run can be interrupted at any time: stored items stay stored, and
    what FILE lacks is appended by the next run. FILE.position stores the number of its last change.

    \b
    canonry ingest https://example.com/feed
    canonry ingest --opml feeds.opml --jsonl new.jsonl
    canonry ingest --watch --every 300
    """
    given = _Given(urls, _read_opml(opml) if opml else []) if urls or opml else None
    from canonry.settings import load_settings

    fetch_links = load_settings().fetch_item_links if fetch_links is None else fetch_links
    options = _IngestOptions(concurrency, per_host, delay, seen_ttl_days, force, fetch_links)
    with ItemOutput(jsonl, as_json=as_json) as output:
        session = _IngestSession(database_url, output, options)
        if watch:
            run_until_stopped(session.watch(given, every), session.report_stop, run_loop=run_on_fast_loop)
        else:
            sys.exit(run_until_stopped(session.run_once(given), session.report_stop, run_loop=run_on_fast_loop))


def _read_opml(file: str) -> list[OpmlFeed]:
    from canonry.feeds.opml import read_opml

    return read_opml(Path(file).read_bytes(), file=file)


class _Given(NamedTuple):
    """The feeds that the command line names."""

    urls: tuple[str, ...]
    rows: list[OpmlFeed]


@dataclass(frozen=True, slots=True)
class _IngestOptions:
    concurrency: int
    per_host: int
    delay: float
    seen_ttl_days: int
    force: bool
    fetch_links: bool


@dataclass(slots=True)
class _Totals:
    """The counts of all runs of a session so far."""

    feeds: int = 0
    new: int = 0
    updated: int = 0
    failed: int = 0

    def add(self, outcome: FeedOutcome) -> None:
        self.feeds += 1
        self.new += outcome.new
        self.updated += outcome.updated
        self.failed += outcome.result.is_failure

    def describe_items(self) -> str:
        return f"feeds, {self.new} new, {self.updated} updated, {self.failed} failed"


class _IngestSession:
    """One run, or with `watch` many; shows progress and counts."""

    def __init__(self, database_url: str, output: ItemOutput, options: _IngestOptions) -> None:
        self.database_url = database_url
        self.output = output
        self.options = options
        self.bar = render.ProgressBar(0)
        self.totals = _Totals()

    def report_stop(self) -> None:
        self.bar.clear()
        feeds = render.count(self.totals.feeds, "feed")
        done = f"{feeds}, {self.totals.new} new, {self.totals.updated} updated, {self.totals.failed} failed"
        click.echo(f"canonry: stopped after {done}; stored items stay stored", err=True)

    async def run_once(self, given: _Given | None) -> int:
        """Poll the given feeds, or all active ones; print the items and the summary, and return the exit code."""
        with ExitStack() as stack:
            store: FeedStore | None = None
            try:
                store = stack.enter_context(open_feeds(self.database_url, must_exist=given is None))
            except (InvalidStoreUrl, NewerStore):
                raise
            except StoreError:
                if given is None:
                    raise
            chosen = await self._choose(given, store)
            if not chosen.urls:
                if not chosen.skipped:
                    click.echo("canonry: no feeds to poll. Add one with `canonry feeds add URL`.", err=True)
                return 0 if chosen.skipped else 1
            if store is not None:
                with suppress(StoreError):  # the run warns about it, and writes the items itself
                    await self.output.start(store, None if given is None else chosen)
            report = await self._run(chosen, store)
        self.output.print_first_items()
        print_summary(report)
        return 0 if not report.failed and all(line.is_met for line in report.checklist) else 1

    async def watch(self, given: _Given | None, every: float) -> int:
        """Poll the given feeds, then every feed when it is due, until a signal ends the process."""
        from canonry.feeds.given_feeds import leave_out_recent

        unstored: dict[str, datetime] = {}  # when feeds were polled while the store could not be written
        with open_feeds(self.database_url, must_exist=given is None) as store:
            await self.output.start(store)
            while True:
                try:
                    chosen = await self._choose(given, store, only_due=True)
                    now = datetime.now(UTC)
                    chosen = replace(chosen, urls=leave_out_recent(chosen.urls, unstored, now))
                    if chosen.urls:
                        report = await self._run(chosen, store)
                        unstored = {} if report.is_stored else {**unstored, **dict.fromkeys(chosen.urls, now)}
                        print_round(report)
                except StoreError as error:  # the database may come back
                    click.echo(f"canonry: {error}", err=True)
                given = None
                await asyncio.sleep(every)

    async def _choose(self, given: _Given | None, store: FeedStore | None, *, only_due: bool = False) -> GivenFeeds:
        """Return the given feeds, or those of the store; without a store, or one that fails, the given ones."""
        from canonry.feeds.given_feeds import GivenFeeds, choose_feeds

        now = datetime.now(UTC)
        if given is None:
            from canonry.feeds.due import is_polled

            assert store is not None
            found = await (store.list_due(now) if only_due else store.list_all())
            polled = [feed for feed in found if is_polled(feed, now)]
            origins = {feed.url: feed.origin for feed in polled}
            return GivenFeeds(tuple(origins), {}, origins, only_stored=True)
        try:
            chosen = await choose_feeds(given.urls, given.rows, store, now=now)
        except StoreError:  # the run warns about it
            chosen = await choose_feeds(given.urls, given.rows, None, now=now)
        if chosen.skipped:
            click.echo(f"canonry: not polled: {render.count(chosen.skipped, 'feed')} paused or stopped", err=True)
        return chosen

    async def _run(self, chosen: GivenFeeds, store: FeedStore | None) -> Report:
        from canonry.feeds.given_feeds import describe_feeds

        report = await self._poll(chosen, self.database_url if store is None else store.database)
        if store is not None and chosen.descriptions:
            try:
                await describe_feeds(chosen.descriptions, store)
            except StoreError as error:
                report.warnings.append(f"{error}; titles and folders of the OPML file are not stored")
        return report

    async def _poll(self, chosen: GivenFeeds, store: str | Database) -> Report:
        from canonry.feeds.ingest import ingest as run_ingest
        from canonry.feeds.ingest_report import get_record

        self.bar, feeds_before = render.ProgressBar(len(chosen.urls)), self.totals.feeds

        def on_feed(outcome: FeedOutcome) -> None:
            self.totals.add(outcome)
            self.bar.show(self.totals.feeds - feeds_before, self.totals.describe_items())

        def on_item(found: IngestedItem) -> None:
            if self.output.is_on_terminal:
                self.bar.clear()
            self.output.write(get_record(found))

        work = run_ingest(
            chosen.urls,
            store,
            concurrency=self.options.concurrency,
            per_host=self.options.per_host,
            delay=self.options.delay,
            seen_ttl_days=self.options.seen_ttl_days,
            origins=chosen.origins,
            force=self.options.force,
            only_stored=chosen.only_stored,
            fetch_links=self.options.fetch_links,
            on_feed=on_feed,
            on_item=on_item,
        )
        report = await self.output.write_while(work)
        self.bar.clear()
        return report
