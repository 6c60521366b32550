"""`canonry feeds`: list, add, remove, import and export feeds, and list their items."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from canonry.cli import render
from canonry.cli.options import db_option, json_option
from canonry.cli.stores import open_feeds
from canonry.errors import InvalidUrl, mask_credentials

if TYPE_CHECKING:
    from canonry.feeds.feed_store import FeedStore
    from canonry.feeds.feed_values import FeedState
    from canonry.feeds.opml import OpmlFeed
    from canonry.feeds.subscriptions import AddOutcome

no_fetch_option = click.option("--no-fetch", is_flag=True, help="Add the URLs as they are, without a request.")


@click.group()
def feeds() -> None:
    """Manage the feeds you follow, and list their items."""


@feeds.command("list")
@db_option
@json_option
def list_feeds(*, database_url: str, as_json: bool) -> None:
    """List the feeds you follow, with their status, last failure and a note about odd behaviour.

    \b
    canonry feeds list
    canonry feeds list --json | grep '"status": "stopped"'
    """
    with open_feeds(database_url) as store:
        found = asyncio.run(store.list_all())
    if not render.is_for_terminal(as_json=as_json):
        for feed in found:
            render.print_json(_make_record(feed))
    elif found:
        render.print_table(
            ("url", "title", "status", "last check", "failures", "next check", "failure", "note"),
            [
                (
                    mask_credentials(feed.url),
                    feed.title[:40],
                    feed.status,
                    _format_minute(feed.last_checked_at),
                    str(feed.failures),
                    _format_minute(feed.next_check_at),
                    feed.failure,
                    feed.note.replace("_", " "),
                )
                for feed in found
            ],
        )
    else:
        click.echo("canonry: you follow no feeds yet. Add one with `canonry feeds add URL`.", err=True)


@feeds.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@no_fetch_option
@db_option
@json_option
def add(urls: tuple[str, ...], *, no_fetch: bool, database_url: str, as_json: bool) -> None:
    """Follow the feed at each URL, or the first feed that a web page links to.

    A feed that you follow already, under any of its URLs, is not added again; its subscription is printed.

    \b
    canonry feeds add https://example.com/feed
    canonry feeds add --no-fetch feed://example.com/posts.xml
    """
    from canonry.feeds.opml import OpmlFeed

    with open_feeds(database_url) as store:
        outcomes = asyncio.run(_add([OpmlFeed(url) for url in urls], store, no_fetch=no_fetch))
    _print_outcomes(outcomes, as_json=as_json)
    sys.exit(_choose_exit_code(outcomes))


@feeds.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@db_option
def remove(urls: tuple[str, ...], *, database_url: str) -> None:
    """Stop following feeds, and delete the items that no other feed has.

    \b
    canonry feeds remove https://example.com/feed
    """
    with open_feeds(database_url) as store:
        unknown = asyncio.run(_remove(urls, store))
    sys.exit(1 if unknown else 0)


@feeds.command("import")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--legacy",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Import the items that another program has seen (a SQLite file), so that they are not new here.",
)
@no_fetch_option
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(min=1),
    default=16,
    show_default=True,
    help="Feeds fetched at once.",
)
@db_option
@json_option
def import_feeds(
    file: str | None, *, legacy: str | None, no_fetch: bool, concurrency: int, database_url: str, as_json: bool
) -> None:
    """Follow the feeds of an OPML FILE.

    Each feed is added once. Rows that are twins of an earlier row, feeds that you follow already and
    rows that are refused are listed. Exits with 1 if a row was refused.

    \b
    canonry feeds import feeds.opml
    canonry feeds import --no-fetch feeds.opml
    """
    if file is None and legacy is None:
        raise click.UsageError("Nothing to import. Give an OPML file or --legacy FILE.")
    code = 0
    with open_feeds(database_url) as store:
        if legacy is not None:
            _import_legacy(legacy, store)
        if file is not None:
            from canonry.feeds.opml import read_opml
            from canonry.feeds.subscriptions import AddResult

            rows = read_opml(Path(file).read_bytes(), file=file)
            outcomes = asyncio.run(_add(rows, store, no_fetch=no_fetch, concurrency=concurrency))
            _print_outcomes(outcomes, as_json=as_json)
            counts = Counter(outcome.result for outcome in outcomes)
            summary = ", ".join(f"{counts[result]} {result}" for result in AddResult)
            click.echo(f"canonry: {len(outcomes)} feeds in {file}: {summary}", err=True)
            code = _choose_exit_code(outcomes)
    sys.exit(code)


@feeds.command()
@click.argument("file", default="-", type=click.File("w", encoding="utf-8", atomic=True))
@db_option
def export(file: TextIO, *, database_url: str) -> None:
    """Write the feeds you follow as OPML, including user names and passwords in their URLs.

    \b
    canonry feeds export feeds.opml
    """
    from canonry.feeds.opml import OpmlFeed, write_opml

    with open_feeds(database_url) as store:
        found = asyncio.run(store.list_all())
    file.write(write_opml([OpmlFeed(feed.url, feed.title, feed.folder) for feed in found], datetime.now(UTC)))


@feeds.command()
@click.option(
    "--since", metavar="DATE", help="Only items first seen at or after this date or time (UTC unless it has an offset)."
)
@click.option(
    "--duplicates", is_flag=True, help="Only items that several feeds have, and different items at the same URL."
)
@db_option
@json_option
def items(*, since: str | None, duplicates: bool, database_url: str, as_json: bool) -> None:
    """List the stored items, the newest first.

    \b
    canonry feeds items --since 2026-01-31
    canonry feeds items --duplicates
    """
    from canonry.core.keys import normalize_link
    from canonry.feeds.ingest_report import mask_key

    after = None if since is None else _parse_since(since)
    with open_feeds(database_url) as store:
        found = asyncio.run(store.list_items(after, only_duplicates=duplicates))
    if duplicates:
        found.sort(key=lambda item: (normalize_link(item.url), item.entry_id))
    if not render.is_for_terminal(as_json=as_json):
        for item in found:
            render.print_json(
                replace(item, feed_url=mask_credentials(item.feed_url), dedupe_key=mask_key(item.dedupe_key))
            )
    else:
        render.print_table(
            ("first seen", "title", "url", "feed"),
            [
                (_format_minute(item.first_seen_at), item.title[:60], item.url, mask_credentials(item.feed_url))
                for item in found
            ],
        )


async def _add(rows: list[OpmlFeed], store: FeedStore, *, no_fetch: bool, concurrency: int = 16) -> list[AddOutcome]:
    from canonry.feeds.subscriptions import AddResult, import_unfetched
    from canonry.feeds.subscriptions import import_feeds as import_fetched

    if no_fetch:
        return await import_unfetched(rows, store, now=datetime.now(UTC))
    bar, counts = render.ProgressBar(len(rows)), Counter[AddResult]()

    def on_added(outcome: AddOutcome) -> None:
        counts[outcome.result] += 1
        bar.show(counts.total(), f"feeds, {counts[AddResult.NEW]} new, {counts[AddResult.REFUSED]} refused")

    try:
        return await import_fetched(rows, store, now=datetime.now(UTC), concurrency=concurrency, on_added=on_added)
    finally:
        bar.clear()


def _print_outcomes(outcomes: list[AddOutcome], *, as_json: bool) -> None:
    shown = [
        replace(
            outcome,
            input_url=mask_credentials(outcome.input_url),
            url=mask_credentials(outcome.url),
            aliases=tuple(map(mask_credentials, outcome.aliases)),
        )
        for outcome in outcomes
    ]
    if not render.is_for_terminal(as_json=as_json):
        for outcome in shown:
            render.print_json({name: getattr(outcome, name) for name in _OUTCOME_FIELDS})
        return
    for outcome in shown:
        click.echo(f"{render.make_bold(outcome.result)}  {render.escape_control(_describe(outcome))}")
        for alias in outcome.aliases:
            click.echo(f"  alias: {render.escape_control(alias)}")


_OUTCOME_FIELDS = ("result", "input_url", "url", "title", "aliases", "reason")


def _describe(outcome: AddOutcome) -> str:
    from canonry.feeds.subscriptions import AddResult

    if outcome.result is AddResult.REFUSED:
        return f"{outcome.input_url or 'empty URL'}: {outcome.reason}"
    feed = f"{outcome.url} ({outcome.title})" if outcome.title else outcome.url
    if outcome.result is AddResult.NEW:
        return feed
    reason = f": {outcome.reason}" if outcome.reason else ""
    return f"{outcome.input_url} is followed as {feed}{reason}"


def _choose_exit_code(outcomes: list[AddOutcome]) -> int:
    from canonry.feeds.subscriptions import AddResult

    return 1 if any(outcome.result is AddResult.REFUSED for outcome in outcomes) else 0


async def _remove(urls: tuple[str, ...], store: FeedStore) -> int:
    """Remove the feeds that are followed, and return how many URLs are not."""
    from canonry.core.url import read_url
    from canonry.feeds.canonicalize.fetcher import strip_fragment

    unknown = 0
    for text in urls:
        try:
            feed = await store.find([strip_fragment(read_url(text))])
        except InvalidUrl:
            feed = None
        if feed is None:
            shown = mask_credentials(text)
            click.echo(f"canonry: you do not follow {shown}. See `canonry feeds list`.", err=True)
            unknown += 1
        else:
            await store.remove(feed.id)
            click.echo(f"removed {mask_credentials(feed.url)}")
    return unknown


def _import_legacy(file: str, store: FeedStore) -> None:
    from canonry.feeds.legacy_entries import import_legacy

    count = import_legacy(store.database, file)
    click.echo(f"canonry: imported {count} items from {file}", err=True)


def _make_record(feed: FeedState) -> dict[str, object]:
    return {
        "url": mask_credentials(feed.url),
        "title": feed.title,
        "folder": feed.folder,
        "status": feed.status,
        "last_checked_at": feed.last_checked_at,
        "failures": feed.failures,
        "failure": feed.failure,
        "next_check_at": feed.next_check_at,
        "format": feed.format,
        "hubs": feed.hubs.split(),
        "note": feed.note,
    }


def _format_minute(time: str | None) -> str:
    return time[:16].replace("T", " ") if time else "never"


def _parse_since(text: str) -> str:
    from canonry.store.schema import stamp

    try:
        when = datetime.fromisoformat(text)
        return stamp(when if when.tzinfo else when.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is not a date such as 2026-01-31 or 2026-01-31T10:00") from None
