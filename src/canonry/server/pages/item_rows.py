"""Items as lists show them: with the state of the user, the bookmark, the feeds and a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from canonry.feeds.ingest_report import mask_item
from canonry.feeds.item_states import ItemState, ItemStateStore
from canonry.feeds.published import choose_published
from canonry.feeds.stored_items import ItemSearch, search_items
from canonry.server.problems import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.feeds.feed_values import ItemFeed, StoredItem
    from canonry.server.service import Service

ITEMS_PER_PAGE = 50


@dataclass(frozen=True, slots=True)
class ItemRow:
    """An item in a list; `shown_at` is when it was published, or first seen if that is not certain."""

    id: int
    title: str
    url: str
    feeds: tuple[ItemFeed, ...]  # the one to name first
    shown_at: str
    state: ItemState
    bookmark_id: int | None


@dataclass(frozen=True, slots=True)
class ItemRows:
    """A page of a list."""

    rows: tuple[ItemRow, ...]
    next_cursor: str | None


async def load_item_rows(
    service: Service, owner: int, search: ItemSearch, *, cursor: str = "", feed_id: int | None = None
) -> ItemRows:
    """Return a page of items; the feed with `feed_id` is named first."""
    try:
        page = await search_items(service.database, search, cursor=cursor or None, limit=ITEMS_PER_PAGE)
    except ValueError:
        raise RequestRefused(400, "Invalid page of the list. Start again from the first page.") from None
    return ItemRows(await _make_rows(service, owner, page.items, feed_id), page.next_cursor)


async def load_item_row(service: Service, owner: int, item_id: int) -> ItemRow:
    """Return one item; RequestRefused (404) if it does not exist."""
    page = await search_items(service.database, ItemSearch(entry_ids=(item_id,)), limit=1)
    if not page.items:
        raise RequestRefused(404, f"There is no item {item_id}. It may have been deleted with its feed.")
    [row] = await _make_rows(service, owner, page.items, None)
    return row


async def _make_rows(
    service: Service, owner: int, items: Sequence[StoredItem], feed_id: int | None
) -> tuple[ItemRow, ...]:
    states = await ItemStateStore(service.database).get_states(owner, [item.entry_id for item in items])
    bookmark_ids = await service.bookmarks.find_ids(owner, {item.url for item in items if item.url})
    return tuple(
        ItemRow(
            item.entry_id,
            item.title,
            mask_item(item).url,
            tuple(sorted(mask_item(item).feeds, key=lambda feed: feed.id != feed_id)),
            choose_published(item.published, item.first_seen_at),
            states[item.entry_id],
            bookmark_ids.get(item.url),
        )
        for item in items
    )
