"""What `canonry ingest` writes: the new and updated items, and the summary of a run."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from canonry.atomic_files import is_stream
from canonry.cli import render
from canonry.errors import FailureKind, InvalidUrl, StoreError, mask_credentials

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from io import FileIO

    from canonry.feeds.change_file import ChangeFile
    from canonry.feeds.feed_store import FeedStore
    from canonry.feeds.given_feeds import GivenFeeds
    from canonry.feeds.ingest_report import ItemRecord, Report

_MAX_SHOWN_ITEMS = 20  # on a terminal
_WRITE_INTERVAL_SECONDS = 1.0  # between two looks for changes that the file lacks


class ItemOutput:
    """Writes new and updated items: JSON lines to a file and to standard output, or the first few to a terminal.

    A file gets the items from the change feed of the store, so that it has also those of a run that was killed
    before it could write them. Devices and pipes get the items of this run when they are stored.
    """

    def __init__(self, file: str | None, *, as_json: bool) -> None:
        is_piped = not render.is_for_terminal(as_json=as_json)
        self._is_printed = is_piped or file == "-"
        self._file = None if file is None or file == "-" else _open_for_appending(file)
        self.has_file = self._file is not None and not is_stream(Path(self._file.name))
        self._change_file: ChangeFile | None = None
        self._shown: list[ItemRecord] = []
        self._count = 0
        self.is_on_terminal = self._is_printed and sys.stdout.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    async def start(self, store: FeedStore, feeds: GivenFeeds | None = None) -> None:
        """Write the changes of these feeds, or of all, to the file, if there is one."""
        from canonry.feeds.change_file import ChangeFile
        from canonry.feeds.changes import ChangeFeed

        if self._file is None or not self.has_file:
            return
        file = ChangeFile(
            str(self._file.name), ChangeFeed(store.database), format_record=render.format_json, warn=_print_warning
        )
        await file.start(None if feeds is None else await _find_feed_ids(store, feeds))
        self._change_file = file

    async def write_while(self, work: Coroutine[Any, Any, Report]) -> Report:
        """Run the work and append changes to the file while it runs and when it has ended, however it ends."""
        if self._change_file is None:
            return await work
        polling, writing = asyncio.ensure_future(work), asyncio.create_task(self._write_regularly(self._change_file))
        try:
            await asyncio.wait({polling, writing}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                writing.result()  # the file cannot be written
            return await polling
        finally:
            for task in (polling, writing):
                task.cancel()
            await asyncio.gather(polling, writing, return_exceptions=True)
            await self._write_changes(self._change_file)

    async def _write_regularly(self, file: ChangeFile) -> None:
        while True:
            await asyncio.sleep(_WRITE_INTERVAL_SECONDS)
            await self._write_changes(file)

    async def _write_changes(self, file: ChangeFile) -> None:
        try:
            await file.write_new()
        except StoreError as error:
            _print_warning(f"{error}; the next run appends what {file.file} lacks")

    def write(self, record: ItemRecord) -> None:
        if self._file is not None and (not self.has_file or record.number is None):
            self._file.write(f"{render.format_json(record)}\n".encode())
        if self._is_printed:
            render.print_json(record)
        else:
            self._count += 1
            if len(self._shown) < _MAX_SHOWN_ITEMS:
                self._shown.append(record)

    def print_first_items(self) -> None:
        """Print a table of the first items, if they were not printed as JSON lines."""
        if self._shown:
            rows = [(record.outcome, record.title[:60] or "untitled", record.url) for record in self._shown]
            render.print_table(("outcome", "title", "url"), rows)
        if self._count > len(self._shown):
            click.echo(f"and {self._count - len(self._shown)} more")


def print_summary(report: Report) -> None:
    """Print the failures, the counts by outcome and the checklist to standard error."""
    _print_problems(report)
    feeds = Counter(outcome.result for outcome in report.feeds)
    rows = [
        ("new", report.new, "items"),
        ("updated", report.updated, "items"),
        ("duplicate", report.duplicate, "items"),
    ]
    if conflicts := sum(outcome.conflicts for outcome in report.feeds):
        rows.append(("conflict", conflicts, "items"))
    if report.unstored:
        rows.append(("not stored", report.unstored, "of the new and updated items"))
    if report.cut_items:
        rows.append(("left out", report.cut_items, "items"))
    if report.links is not None:
        rows.append(("links read", report.links.read, f"items, {report.links.learned} lead to another URL"))
        rows.append(("links failed", report.links.failed, "items"))
    rows += [(str(result), count, "feeds") for result, count in sorted(feeds.items())]
    render.print_table(("outcome", "count", "of"), [(name, str(count), of) for name, count, of in rows], err=True)
    for line in report.checklist:
        click.echo(f"[{'x' if line.is_met else ' '}] {line.name} ({line.detail})", err=True)


def print_round(report: Report) -> None:
    """Print the failures and the counts of one run of many, in a line, to standard error."""
    _print_problems(report)
    counts = ", ".join(f"{count} {name}" for name, count in report.counts.items() if count)
    if report.unstored:
        counts += f" ({report.unstored} of the new and updated items not stored)"
    click.echo(
        f"{datetime.now():%H:%M:%S} {render.count(len(report.feeds), 'feed')}: {counts or 'no change'}", err=True
    )
    for line in report.checklist:
        if not line.is_met:
            click.echo(f"[ ] {line.name} ({line.detail})", err=True)


def _print_problems(report: Report) -> None:
    from canonry.feeds.read.xml_parser import MAX_ITEMS

    for warning in report.warnings:
        click.echo(f"canonry: {warning}", err=True)
    for outcome in sorted(report.feeds, key=lambda outcome: outcome.feed_url):
        url = render.escape_control(mask_credentials(outcome.feed_url))
        if outcome.cut_items:
            click.echo(
                f"left out: {url}: {outcome.cut_items} items of a document that is cut short or too long"
                f" (at most {MAX_ITEMS:,} items are read)",
                err=True,
            )
        if outcome.result.is_failure:
            click.echo(f"{outcome.result}: {url}: {render.escape_control(outcome.reason)}", err=True)
    if any(outcome.failure is FailureKind.REFUSED for outcome in report.feeds):
        click.echo(
            "canonry: to allow addresses that are refused, set CANONRY_ALLOW_NETWORKS, CANONRY_ALLOW_NAMES or"
            " CANONRY_ALLOW_PORTS (`canonry config` explains them)",
            err=True,
        )


async def _find_feed_ids(store: FeedStore, feeds: GivenFeeds) -> list[int]:
    """Return the ids of these feeds; those that are not known are added, as the run would do."""
    from canonry.core.url import read_url
    from canonry.net.origin import Origin
    from canonry.net.search_fetcher import strip_fragment

    origins: dict[str, Origin] = {}
    for url in feeds.urls:
        with suppress(InvalidUrl):  # the run reports it
            origins[strip_fragment(read_url(url))] = feeds.origins.get(url, Origin.PERSON)
    return [feed.id for feed in await store.add_all(list(origins), datetime.now(UTC), origins=origins)]


def _print_warning(text: str) -> None:
    click.echo(f"canonry: {text}", err=True)


def _open_for_appending(file: str) -> FileIO:
    """Open the file unbuffered at its end; if a killed run left an unfinished line, end that line."""
    if is_stream(Path(file)):
        return open(file, "ab", buffering=0)
    stream = open(file, "ab+", buffering=0)  # noqa: SIM115 – ItemOutput closes it
    if stream.seek(0, os.SEEK_END):
        stream.seek(-1, os.SEEK_END)
        if stream.read(1) != b"\n":
            stream.write(b"\n")
    return stream
