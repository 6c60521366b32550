"""canonry feeds: what is followed, and what was kept of it."""

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
    from canonry.feeds.subscriptions import Added

no_fetch_option = click.option("--no-fetch", is_flag=True, help="Add them as they are, without a request.")


@click.group()
def feeds() -> None:
    """The feeds you follow, and their items."""


@feeds.command("list")
@db_option
@json_option
def list_feeds(*, database_url: str, as_json: bool) -> None:
    """The feeds you follow, and how they are.

    \b
    canonry feeds list
    canonry feeds list --json | grep '"status": "stopped"'
    """
    with open_feeds(database_url) as store:
        found = asyncio.run(store.all())
    if not render.on_terminal(as_json=as_json):
        for feed in found:
            render.print_json(_record(feed))
    elif found:
        render.print_table(
            ("url", "title", "status", "last check", "failures", "next check", "failure"),
            [
                (
                    mask_credentials(feed.url),
                    feed.title[:40],
                    feed.status,
                    _minute(feed.last_checked_at),
                    str(feed.failures),
                    _minute(feed.next_check_at),
                    feed.failure,
                )
                for feed in found
            ],
        )
    else:
        click.echo("canonry: no feeds yet; `canonry feeds add URL` adds one", err=True)


@feeds.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@no_fetch_option
@db_option
@json_option
def add(urls: tuple[str, ...], *, no_fetch: bool, database_url: str, as_json: bool) -> None:
    """Follow the feed at each URL, or the first that its page names.

    A feed you follow already, under whatever URL, is not added again: you are told which it is.

    \b
    canonry feeds add https://example.com/feed
    canonry feeds add --no-fetch feed://example.com/posts.xml
    """
    from canonry.feeds.opml import OpmlFeed

    with open_feeds(database_url) as store:
        added = asyncio.run(_add([OpmlFeed(url) for url in urls], store, no_fetch=no_fetch))
    _print_added(added, as_json=as_json)
    sys.exit(_exit_code(added))


@feeds.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@db_option
def remove(urls: tuple[str, ...], *, database_url: str) -> None:
    """Forget feeds, and the items that no other feed has shown.

    \b
    canonry feeds remove https://example.com/feed
    """
    with open_feeds(database_url) as store:
        left = asyncio.run(_remove(urls, store))
    sys.exit(1 if left else 0)


@feeds.command("import")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--legacy",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Items that another program has seen (SQLite): they are not new here.",
)
@no_fetch_option
@click.option(
    "--concurrency", metavar="N", type=click.IntRange(min=1), default=16, show_default=True, help="Feeds at once."
)
@db_option
@json_option
def import_feeds(
    file: str | None, *, legacy: str | None, no_fetch: bool, concurrency: int, database_url: str, as_json: bool
) -> None:
    """Follow the feeds of an OPML FILE.

    Each feed is added once: twins in the file, feeds you follow already and rows that are refused
    are listed. Exit 1 if some were refused.

    \b
    canonry feeds import feeds.opml
    canonry feeds import --no-fetch feeds.opml
    """
    if file is None and legacy is None:
        raise click.UsageError("give an OPML file, or --legacy FILE")
    code = 0
    with open_feeds(database_url) as store:
        if legacy is not None:
            _import_legacy(legacy, store)
        if file is not None:
            from canonry.feeds.opml import read_opml

            rows = read_opml(Path(file).read_bytes(), file=file)
            added = asyncio.run(_add(rows, store, no_fetch=no_fetch, concurrency=concurrency))
            _print_added(added, as_json=as_json)
            counts = Counter(str(each.result) for each in added)
            told = ", ".join(f"{counts[name]} {name}" for name in ("new", "known", "twin", "refused"))
            click.echo(f"canonry: {len(added)} feeds in {file}: {told}", err=True)
            code = _exit_code(added)
    sys.exit(code)


@feeds.command()
@click.argument("file", default="-", type=click.File("w", encoding="utf-8", atomic=True))
@db_option
def export(file: TextIO, *, database_url: str) -> None:
    """Write the feeds you follow as OPML, with their user names and passwords.

    \b
    canonry feeds export feeds.opml
    """
    from canonry.feeds.opml import OpmlFeed, write_opml

    with open_feeds(database_url) as store:
        found = asyncio.run(store.all())
    file.write(write_opml([OpmlFeed(feed.url, feed.title, feed.folder) for feed in found], datetime.now(UTC)))


@feeds.command()
@click.option(
    "--since", metavar="DATE", help="First seen at or after this date or time (UTC unless it says otherwise)."
)
@click.option("--duplicates", is_flag=True, help="Only those that several feeds have shown, or that share a URL.")
@db_option
@json_option
def items(*, since: str | None, duplicates: bool, database_url: str, as_json: bool) -> None:
    """The items that were kept, the newest first.

    \b
    canonry feeds items --since 2026-01-31
    canonry feeds items --duplicates
    """
    from canonry.core.keys import normalize_link
    from canonry.feeds.ingest_report import mask_key

    after = None if since is None else _stamp(since)
    with open_feeds(database_url) as store:
        found = asyncio.run(store.items(after, only_duplicates=duplicates))
    if duplicates:
        found.sort(key=lambda item: (normalize_link(item.url), item.entry_id))
    if not render.on_terminal(as_json=as_json):
        for item in found:
            render.print_json(
                replace(item, feed_url=mask_credentials(item.feed_url), dedupe_key=mask_key(item.dedupe_key))
            )
    else:
        render.print_table(
            ("first seen", "title", "url", "feed"),
            [
                (_minute(item.first_seen_at), item.title[:60], item.url, mask_credentials(item.feed_url))
                for item in found
            ],
        )


async def _add(rows: list[OpmlFeed], store: FeedStore, *, no_fetch: bool, concurrency: int = 16) -> list[Added]:
    from canonry.feeds.subscriptions import import_feeds as fetched
    from canonry.feeds.subscriptions import import_unfetched

    if no_fetch:
        return await import_unfetched(rows, store, now=datetime.now(UTC))
    bar, counts = render.Bar(len(rows)), Counter[str]()

    def on_added(added: Added) -> None:
        counts[added.result] += 1
        bar.show(counts.total(), f"feeds, {counts['new']} new, {counts['refused']} refused")

    try:
        return await fetched(rows, store, now=datetime.now(UTC), concurrency=concurrency, on_added=on_added)
    finally:
        bar.clear()


def _print_added(added: list[Added], *, as_json: bool) -> None:
    shown = [
        replace(
            each,
            input_url=mask_credentials(each.input_url),
            url=mask_credentials(each.url),
            aliases=tuple(map(mask_credentials, each.aliases)),
        )
        for each in added
    ]
    if not render.on_terminal(as_json=as_json):
        for each in shown:
            render.print_json({name: getattr(each, name) for name in _ADDED})
        return
    for each in shown:
        click.echo(f"{render.bold(each.result)}  {render.visible(_sentence(each))}")
        for alias in each.aliases:
            click.echo(f"  the same feed: {render.visible(alias)}")


_ADDED = ("result", "input_url", "url", "title", "aliases", "reason")


def _sentence(added: Added) -> str:
    if added.result == "refused":
        return f"{added.input_url or 'no URL'}: {added.reason}"
    titled = f"{added.url} ({added.title})" if added.title else added.url
    if added.result == "new":
        return titled
    told = f": {added.reason}" if added.reason else ""
    return f"{added.input_url} is followed as {titled}{told}"


def _exit_code(added: list[Added]) -> int:
    refused = sum(each.result == "refused" for each in added)
    return 1 if refused else 0


async def _remove(urls: tuple[str, ...], store: FeedStore) -> int:
    """Remove those that are followed; how many are not."""
    from canonry.core.url import read_url
    from canonry.feeds.canonicalize.fetcher import strip_fragment

    left = 0
    for text in urls:
        try:
            feed = await store.find([strip_fragment(read_url(text))])
        except InvalidUrl:
            feed = None
        if feed is None:
            click.echo(f"canonry: not followed: {mask_credentials(text)}; `canonry feeds list` shows what is", err=True)
            left += 1
        else:
            await store.remove(feed.id)
            click.echo(f"removed {mask_credentials(feed.url)}")
    return left


def _import_legacy(file: str, store: FeedStore) -> None:
    from canonry.feeds.legacy_entries import import_legacy

    click.echo(f"canonry: {import_legacy(store.database, file)} items of {file} are known now", err=True)


def _record(feed: FeedState) -> dict[str, object]:
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
    }


def _minute(time: str | None) -> str:
    return time[:16].replace("T", " ") if time else "never"


def _stamp(text: str) -> str:
    from canonry.store.schema import stamp

    try:
        when = datetime.fromisoformat(text)
        return stamp(when if when.tzinfo else when.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is no date such as 2026-01-31 or 2026-01-31T10:00") from None
