"""canonry ingest: poll feeds, keep each item once, write out what is new."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from canonry.cli import render
from canonry.cli.options import db_option, json_option
from canonry.cli.signals import until_stopped
from canonry.cli.stores import open_feeds
from canonry.errors import StoreError, mask_credentials

if TYPE_CHECKING:
    from io import FileIO

    from canonry.feeds.ingest_report import FeedOutcome, ItemRecord, Report

_SHOWN = 20  # items that a terminal shows
_FAILED = ("failed", "stopped")


@click.command()
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option(
    "--opml", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="Poll the feeds of an OPML file."
)
@db_option
@click.option(
    "--jsonl", metavar="FILE", help="Append new and updated items to FILE, one JSON object a line; - is stdout."
)
@json_option
@click.option(
    "--concurrency", metavar="N", type=click.IntRange(min=1), default=64, show_default=True, help="Feeds at once."
)
@click.option(
    "--per-host",
    metavar="N",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Feeds of one host at once.",
)
@click.option(
    "--delay",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Pause between two requests to one host.",
)
@click.option(
    "--seen-ttl-days",
    metavar="N",
    type=click.IntRange(min=0),
    default=30,
    show_default=True,
    help="How long an item is remembered after its feed has dropped it.",
)
@click.option("--watch", is_flag=True, help="Go on: poll the feeds of the store whenever they are due.")
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    help="With --watch: how often to look which are due.",
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
    **options: Any,
) -> None:
    """Poll feeds and keep each item once.

    Polls the URLs, those of an OPML file, or without either all active feeds of the store. New and
    updated items are written as JSON lines when piped, and to --jsonl. Feeds that fail are listed,
    the rest goes on. Exit 1 if some failed. What is kept when it is interrupted stays kept.

    \b
    canonry ingest https://example.com/feed
    canonry ingest --opml feeds.opml --jsonl new.jsonl
    canonry ingest --watch --every 300
    """
    asked = [*urls, *(_listed(opml) if opml else ())]
    with _Items(jsonl, as_json=as_json) as items:
        session = _Session(database_url, items, options)
        if watch:
            until_stopped(session.watch(asked, every), session.stopped)
        else:
            sys.exit(until_stopped(session.once(asked), session.stopped))


def _listed(file: str) -> list[str]:
    from canonry.feeds.opml import read_opml

    return [feed.url for feed in read_opml(Path(file).read_bytes(), file=file)]


class _Session:
    """One run, or many of them while it watches; what happened so far, and the line that says so."""

    def __init__(self, database_url: str, items: _Items, options: dict[str, Any]) -> None:
        self.database_url = database_url
        self.items = items
        self.options = options
        self.bar = render.Bar(0)
        self.counts: Counter[str] = Counter()

    def stopped(self) -> None:
        self.bar.clear()
        click.echo(f"canonry: stopped after {self.told()}; what was kept stays", err=True)

    async def once(self, asked: list[str]) -> int:
        """Poll what was asked for, or all there is, and tell everything about it."""
        if asked:
            report = await self._run(asked, self.database_url)
        else:
            with open_feeds(self.database_url) as store:
                active = [feed.url for feed in await store.all() if feed.status == "active"]
                if not active:
                    click.echo("canonry: no feeds to poll; `canonry feeds add URL` adds one", err=True)
                    return 1
                report = await self._run(active, store.database)
        self.items.print_shown()
        _print_talk(report)
        return 0 if not report.failed and all(check.is_met for check in report.checklist) else 1

    async def watch(self, asked: list[str], every: float) -> int:
        """Poll what was asked for, then whatever is due, until somebody stops it."""
        with open_feeds(self.database_url) as store:
            while True:
                try:
                    urls = asked or [feed.url for feed in await store.due(datetime.now(UTC))]
                    if urls:
                        _print_round(await self._run(urls, store.database))
                except StoreError as error:  # it may come back
                    click.echo(f"canonry: {error}", err=True)
                asked = []
                await asyncio.sleep(every)

    def told(self) -> str:
        """How far it is, in a few words."""
        counts = self.counts
        return f"{counts['feeds']} feeds, {counts['new']} new, {counts['updated']} updated, {counts['failed']} failed"

    async def _run(self, urls: list[str], store: Any) -> Report:
        from canonry.feeds.ingest import ingest as poll

        self.bar, before = render.Bar(len(dict.fromkeys(urls))), self.counts["feeds"]

        def on_feed(outcome: FeedOutcome) -> None:
            self.counts.update(feeds=1, new=outcome.new, updated=outcome.updated, failed=int(outcome.result in _FAILED))
            self.bar.show(self.counts["feeds"] - before, self.told().partition(" ")[2])

        def on_item(record: ItemRecord) -> None:
            if self.items.is_on_terminal:
                self.bar.clear()
            self.items.write(record)

        report = await poll(urls, store, on_feed=on_feed, on_item=on_item, **self.options)
        self.bar.clear()
        return report


class _Items:
    """Where new and updated items go: JSON lines to a file and to standard output, the last few to a terminal."""

    def __init__(self, file: str | None, *, as_json: bool) -> None:
        is_piped = not render.on_terminal(as_json=as_json)
        self._is_printed = is_piped or file == "-"
        self._file = None if file is None or file == "-" else _appending(file)
        self._shown: list[ItemRecord] = []
        self._count = 0
        self.is_on_terminal = self._is_printed and sys.stdout.isatty()

    def __enter__(self) -> _Items:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, record: ItemRecord) -> None:
        if self._file is not None:
            self._file.write(f"{render.json_line(record)}\n".encode())
        if self._is_printed:
            render.print_json(record)
        else:
            self._count += 1
            if len(self._shown) < _SHOWN:
                self._shown.append(record)

    def print_shown(self) -> None:
        """The first few, for eyes."""
        if self._shown:
            rows = [(each.outcome, each.title[:60] or "untitled", each.url) for each in self._shown]
            render.print_table(("outcome", "title", "url"), rows)
        if self._count > len(self._shown):
            click.echo(f"and {self._count - len(self._shown)} more")


def _print_talk(report: Report) -> None:
    """What went wrong, what came of it all, and the checklist."""
    _print_problems(report)
    feeds = Counter(outcome.result for outcome in report.feeds)
    rows = [
        ("new", report.new, "items"),
        ("updated", report.updated, "items"),
        ("duplicate", report.duplicate, "items"),
    ]
    rows += [("conflict", count, "items") for count in (sum(each.conflicts for each in report.feeds),) if count]
    rows += [(str(result), count, "feeds") for result, count in sorted(feeds.items())]
    render.print_table(("outcome", "count", "of"), [(name, str(count), of) for name, count, of in rows], err=True)
    for check in report.checklist:
        click.echo(f"[{'x' if check.is_met else ' '}] {check.name} ({check.detail})", err=True)


def _print_round(report: Report) -> None:
    _print_problems(report)
    counts = ", ".join(f"{count} {name}" for name, count in report.counts.items() if count)
    click.echo(f"{datetime.now():%H:%M:%S} {len(report.feeds)} feeds: {counts or 'nothing'}", err=True)
    for check in report.checklist:
        if not check.is_met:
            click.echo(f"[ ] {check.name} ({check.detail})", err=True)


def _print_problems(report: Report) -> None:
    for warning in report.warnings:
        click.echo(f"canonry: {warning}", err=True)
    for outcome in sorted(report.feeds, key=lambda outcome: outcome.feed_url):
        if outcome.result in _FAILED:
            place = render.visible(mask_credentials(outcome.feed_url))
            click.echo(f"{outcome.result}: {place}: {render.visible(outcome.reason)}", err=True)


def _appending(file: str) -> FileIO:
    """The file, at its end; a line that a killed run left unfinished is closed. One line is one write."""
    stream = open(file, "ab+", buffering=0)  # noqa: SIM115 – _Items closes it
    if stream.seek(0, os.SEEK_END):
        stream.seek(-1, os.SEEK_END)
        if stream.read(1) != b"\n":
            stream.write(b"\n")
    return stream
