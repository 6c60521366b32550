"""`canonry feeds`: list, add, remove, import and export feeds, list their items, and follow changes."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from canonry.cli import render
from canonry.cli.changes import changes
from canonry.cli.feed_items import format_minute, items
from canonry.cli.feed_settings import make_settings_record, pause, resume, set_feed
from canonry.cli.options import db_option, json_option, require_folder
from canonry.cli.stores import find_feed, open_feeds
from canonry.cli.webhooks import webhook
from canonry.cli.websub import websub
from canonry.errors import mask_credentials

if TYPE_CHECKING:
    from canonry.feeds.feed_store import FeedStore
    from canonry.feeds.feed_values import FeedState
    from canonry.feeds.opml import OpmlFeed
    from canonry.feeds.subscriptions import AddOutcome

no_fetch_option = click.option("--no-fetch", is_flag=True, help="Add the URLs as they are, without a request.")


@click.group()
def feeds() -> None:
    """Manage the feeds you follow, list their items, and pass on changes."""


feeds.add_command(items)
feeds.add_command(set_feed)
feeds.add_command(pause)
feeds.add_command(resume)
feeds.add_command(changes)
feeds.add_command(webhook)
feeds.add_command(websub)


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
                    feed.shown_title[:40],
                    feed.status,
                    format_minute(feed.last_checked_at),
                    str(feed.failures),
                    format_minute(feed.next_check_at),
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

    with open_feeds(database_url, must_exist=False) as store:
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
    from canonry.feeds.opml import read_opml

    rows = [] if file is None else read_opml(Path(file).read_bytes(), file=file)  # a damaged file creates no store
    code = 0
    with open_feeds(database_url, must_exist=False) as store:
        if legacy is not None:
            _import_legacy(legacy, store)
        if file is not None:
            from canonry.feeds.subscriptions import AddResult

            outcomes = asyncio.run(_add(rows, store, no_fetch=no_fetch, concurrency=concurrency))
            _print_outcomes(outcomes, as_json=as_json)
            counts = Counter(outcome.result for outcome in outcomes)
            summary = ", ".join(f"{counts[result]:,} {result}" for result in AddResult)
            click.echo(f"canonry: {render.count(len(outcomes), 'feed')} in {file}: {summary}", err=True)
            code = _choose_exit_code(outcomes)
    sys.exit(code)


@feeds.command()
@click.argument("file", default="-", type=click.Path(dir_okay=False, allow_dash=True), callback=require_folder)
@db_option
def export(file: str, *, database_url: str) -> None:
    """Write the feeds you follow as OPML, including user names and passwords in their URLs.

    Only you can read the file if it contains any.

    \b
    canonry feeds export feeds.opml
    """
    from canonry.atomic_files import replace_file
    from canonry.feeds.opml import OpmlFeed, write_opml

    with open_feeds(database_url) as store:
        found = asyncio.run(store.list_all())
    text = write_opml(
        [OpmlFeed(feed.url, feed.shown_title, feed.folder, site_url=feed.site_url) for feed in found], datetime.now(UTC)
    )
    with_secrets = sum(mask_credentials(feed.url) != feed.url for feed in found)
    if file == "-":
        click.echo(text.encode(), nl=False)
    else:
        with replace_file(Path(file), is_private=with_secrets > 0) as part:
            part.write_text(text, encoding="utf-8")
    if with_secrets:
        place = "the output" if file == "-" else file
        feeds_with_secrets = render.count(with_secrets, "feed")
        click.echo(f"canonry: {place} contains the user names and passwords of {feeds_with_secrets}", err=True)


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
    unknown = 0
    for text in urls:
        feed = await find_feed(text, store)
        if feed is None:
            shown = mask_credentials(text)
            click.echo(f"canonry: you do not follow {shown}. See `canonry feeds list`.", err=True)
            unknown += 1
        else:
            await store.remove(feed.id, datetime.now(UTC))
            click.echo(f"removed {mask_credentials(feed.url)}")
    return unknown


def _import_legacy(file: str, store: FeedStore) -> None:
    from canonry.feeds.legacy_entries import import_legacy

    count = import_legacy(store.database, file)
    click.echo(f"canonry: imported {render.count(count, 'item')} from {file}", err=True)


def _make_record(feed: FeedState) -> dict[str, object]:
    return {
        "url": mask_credentials(feed.url),
        "title": feed.shown_title,
        "folder": feed.folder,
        "status": feed.status,
        "last_checked_at": feed.last_checked_at,
        "failures": feed.failures,
        "failure": feed.failure,
        "next_check_at": feed.next_check_at,
        "format": feed.format,
        "hubs": [mask_credentials(hub) for hub in feed.hubs.split()],
        "note": feed.note,
        **make_settings_record(feed),
    }
