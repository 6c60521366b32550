"""Save items as bookmarks, for the reading list and for apps (contract U2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canonry.bookmarks.bookmark import PutOutcome
from canonry.bookmarks.draft import Draft
from canonry.errors import BookmarkNotFound, InvalidUrl
from canonry.feeds.item_states import ItemStateStore
from canonry.feeds.stored_items import ItemSearch, search_items

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.server.service import Service


async def save_items(service: Service, owner: int, ids: Sequence[int]) -> None:
    """Mark items as saved, and save a bookmark of each that has a link; ids of unknown items are ignored."""
    states = ItemStateStore(service.database)
    page = await search_items(service.database, ItemSearch(entry_ids=tuple(ids)), limit=max(1, len(ids)))
    known = await states.get_states(owner, [item.entry_id for item in page.items])
    for item in page.items:
        if known[item.entry_id].is_saved:
            continue  # its state remembers the bookmark that was made
        made = None
        try:
            saved = await service.bookmarks.put(owner, Draft(item.url, title=item.title))
            made = saved.bookmark.id if saved.outcome is PutOutcome.CREATED else None
        except InvalidUrl:
            pass  # an item without a link is saved without a bookmark
        await states.set_saved(owner, [item.entry_id], is_saved=True, bookmark_id=made)


async def unsave_items(service: Service, owner: int, ids: Sequence[int]) -> None:
    """Mark items as not saved; a bookmark that saving made moves to the trash, an older one stays."""
    states = ItemStateStore(service.database)
    for entry_id, state in (await states.get_states(owner, ids)).items():
        await states.set_saved(owner, [entry_id], is_saved=False)
        if state.bookmark_id is not None:
            try:
                await service.bookmarks.store.trash(owner, state.bookmark_id, service.clock())
            except BookmarkNotFound:
                continue  # deleted or merged meanwhile
