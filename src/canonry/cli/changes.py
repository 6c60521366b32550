"""`canonry feeds changes`: print new and updated items in the order of their numbers, and wait for more."""

from __future__ import annotations

import asyncio
import select
import sys
from typing import TYPE_CHECKING

import click

from canonry.cli import render
from canonry.cli.options import db_option, json_option
from canonry.cli.signals import run_until_stopped
from canonry.cli.stores import open_store
from canonry.errors import StoreError

if TYPE_CHECKING:
    from canonry.feeds.changes import ChangeFeed
    from canonry.feeds.ingest_report import ItemRecord

_PAGE_CHANGES = 500
_POLL_SECONDS = 1.0  # between two looks for changes
_MAX_RETRY_SECONDS = 30.0  # between two attempts to reach a store that is not available
_LAST = "last"


def _parse_after(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | str | None:
    """Return the number of a change, or `last`."""
    if text is None or text == _LAST:
        return text
    if text.isascii() and text.isdecimal() and len(text) < 19:
        return int(text)
    raise click.BadParameter(f"{text!r} is neither the number of a change nor `{_LAST}`")


@click.command()
@click.option(
    "--after",
    metavar="N",
    callback=_parse_after,
    help="Only changes after number N, or `last` for those to come. Default: all that are stored.",
)
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Stop after N changes.")
@click.option("--follow", "-f", is_flag=True, help="Wait for more changes, and print them when they are stored.")
@db_option
@json_option
def changes(*, after: int | str | None, limit: int | None, follow: bool, database_url: str, as_json: bool) -> None:
    """Print new and updated items in the order in which they were stored, each with a number.

    A reader that continues after the last number printed misses nothing, also with many writers. Changes are stored
    for 365 days. Exits with 1 if changes after N are no longer stored.

    \b
    canonry feeds changes --after 120
    canonry feeds changes --after last --follow
    """
    output = _ChangeOutput(as_json=as_json)
    sys.exit(run_until_stopped(_print_changes(database_url, after, limit, output, follow=follow), lambda: None))


class _ChangeOutput:
    """Prints changes: JSON lines in a pipe, rows on a terminal."""

    def __init__(self, *, as_json: bool) -> None:
        self._is_table = render.is_for_terminal(as_json=as_json)
        self.count = 0

    def print(self, found: tuple[ItemRecord, ...]) -> None:
        self.count += len(found)
        if not self._is_table:
            for record in found:
                render.print_json(record)
        elif found:
            rows = [
                (str(record.number), record.outcome.value, record.title[:60] or "untitled", record.url, record.feed_url)
                for record in found
            ]
            render.print_table(("number", "outcome", "title", "url", "feed"), rows)

    @staticmethod
    def check_reader() -> None:
        """Raise BrokenPipeError if the program that reads the output has ended."""
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        if any(events & (select.POLLERR | select.POLLNVAL) for _, events in poll.poll(0)):
            raise BrokenPipeError


async def _print_changes(
    database_url: str, after: int | str | None, limit: int | None, output: _ChangeOutput, *, follow: bool
) -> int:
    from canonry.feeds.changes import ChangeFeed

    with open_store(database_url) as database:
        feed = ChangeFeed(database)
        position = (await feed.get_bounds()).last if isinstance(after, str) else after
        wait = _POLL_SECONDS
        while True:
            try:
                position = await _print_available(feed, position, limit, output)
                wait = _POLL_SECONDS
            except StoreError as error:
                if not follow:
                    raise
                if wait == _POLL_SECONDS:  # once for each outage
                    click.echo(f"canonry: {error}; will retry", err=True)
                wait = min(2 * wait, _MAX_RETRY_SECONDS)
            if not follow or output.count == limit:
                return 0
            output.check_reader()
            await asyncio.sleep(wait)


async def _print_available(feed: ChangeFeed, after: int | None, limit: int | None, output: _ChangeOutput) -> int:
    """Print the changes that are stored now, up to the limit, and return the position after them."""
    while True:
        size = _PAGE_CHANGES if limit is None else min(_PAGE_CHANGES, limit - output.count)
        page = await feed.read(after, limit=size)
        output.print(page.changes)
        after = page.next
        if after >= page.last or output.count == limit:
            return after
