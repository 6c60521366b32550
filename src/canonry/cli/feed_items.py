"""`canonry feeds items`: list the stored items, each once, or write them as a feed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from canonry.cli import render
from canonry.cli.options import db_option, json_option
from canonry.cli.stores import get_feed, open_feeds

if TYPE_CHECKING:
    from canonry.feeds.feed_store import FeedStore
    from canonry.feeds.feed_values import StoredItem
    from canonry.feeds.stored_items import ItemSearch

_MAX_FEED_ITEMS = 100  # in a document for feed readers, unless --limit says otherwise
_FORMATS = ("atom", "json-feed")


@click.command()
@click.option(
    "--since", metavar="DATE", help="Only items first seen at or after this date or time (UTC unless it has an offset)."
)
@click.option("--until", metavar="DATE", help="Only items first seen before this date or time.")
@click.option("--feed", "feed_url", metavar="URL", help="Only items that this feed carried.")
@click.option("--folder", metavar="FOLDER", default="", help="Only items of the feeds in this folder.")
@click.option(
    "--search", metavar="WORDS", default="", help="Only items with all these words (at most 50) in title or URL."
)
@click.option(
    "--duplicates", is_flag=True, help="Only items that several feeds have, and different items at the same URL."
)
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most N items.")
@click.option(
    "--format",
    "document_format",
    type=click.Choice(_FORMATS),
    help="Write a document for feed readers, with the newest 100 items unless --limit says otherwise.",
)
@db_option
@json_option
def items(
    *,
    since: str | None,
    until: str | None,
    feed_url: str | None,
    folder: str,
    search: str,
    duplicates: bool,
    limit: int | None,
    document_format: str | None,
    database_url: str,
    as_json: bool,
) -> None:
    """List the stored items, the newest first, each once with the feeds that carried it.

    \b
    canonry feeds items --since 2026-01-31
    canonry feeds items --feed https://example.com/feed --search python
    canonry feeds items --format atom > items.xml
    """
    from canonry.feeds.stored_items import ItemSearch

    first, last = _parse_time(since, "--since"), _parse_time(until, "--until")
    with open_feeds(database_url) as store:

        async def run() -> None:
            feed_id = None if feed_url is None else (await get_feed(feed_url, store)).id
            wanted = ItemSearch(first, last, feed_id, folder, search, duplicates)
            if document_format is not None:
                await _print_document(store, wanted, limit or _MAX_FEED_ITEMS, document_format)
            else:
                await _print_items(store, wanted, limit, as_json=as_json)

        asyncio.run(run())


def format_minute(time: str | None) -> str:
    """Return a stored time to the minute, for tables."""
    return time[:16].replace("T", " ") if time else "never"


async def _print_items(store: FeedStore, wanted: ItemSearch, limit: int | None, *, as_json: bool) -> None:
    from canonry.core.keys import normalize_link
    from canonry.feeds.ingest_report import mask_item
    from canonry.feeds.stored_items import ItemSearch, iterate_items

    found = iterate_items(store.database, wanted, limit=limit)
    is_table = render.is_for_terminal(as_json=as_json)
    if not is_table and not wanted.only_duplicates:
        async for item in found:  # a store may have more items than fit into memory
            render.print_json(mask_item(item))
        return
    shown = [mask_item(item) async for item in found]
    if wanted.only_duplicates:
        shown.sort(key=lambda item: (normalize_link(item.url), item.entry_id))
    if is_table:
        if shown:
            render.print_table(("first seen", "title", "url", "feed"), [_make_row(item) for item in shown])
        else:
            hint = "no items yet. Poll your feeds with `canonry ingest`." if wanted == ItemSearch() else "no matches."
            click.echo(f"canonry: {hint}", err=True)
        return
    for item in shown:
        render.print_json(item)


def _make_row(item: StoredItem) -> tuple[str, str, str, str]:
    others = len(item.feeds) - 1
    feed = f"{item.feed_url} and {others} more" if others > 0 else item.feed_url
    return format_minute(item.first_seen_at), item.title[:60], item.url, feed


async def _print_document(store: FeedStore, wanted: ItemSearch, limit: int, document_format: str) -> None:
    from canonry.feeds.stored_items import iterate_items
    from canonry.feeds.write_feed import FeedHead, write_atom, write_json_feed

    found = [item async for item in iterate_items(store.database, wanted, limit=limit)]
    title = ": ".join(filter(None, ("canonry", wanted.folder, wanted.words)))
    head = FeedHead(title, name=f"{wanted.feed_id} {wanted.folder} {wanted.words} {wanted.only_duplicates}")
    write = write_atom if document_format == "atom" else write_json_feed
    click.echo(write(found, head), nl=False)


def _parse_time(text: str | None, option: str) -> str:
    from canonry.store.schema import stamp

    if text is None:
        return ""
    try:
        when = datetime.fromisoformat(text)
        return stamp(when if when.tzinfo else when.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        message = f"{text!r} is not a date such as 2026-01-31 or 2026-01-31T10:00"
        raise click.BadParameter(message, param_hint=option) from None
