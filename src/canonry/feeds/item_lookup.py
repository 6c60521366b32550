"""Find the item of a URL: in any spelling, or of a proven alias (contract U1)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, exists, select

from canonry.core.keys import loosen_place, make_link_key, strip_scheme_and_www
from canonry.evidence.fact_store import find_alias_urls
from canonry.feeds.stored_items import ItemSearch, search_items
from canonry.net.search_fetcher import strip_fragment
from canonry.store.pinned_policies import ENTRY, get_policy
from canonry.store.schema import entries, sightings

if TYPE_CHECKING:
    from canonry.feeds.feed_values import StoredItem
    from canonry.store.database import Database

_MAX_PLACES = 400


async def find_item(database: Database, owner: int, url: str) -> StoredItem | None:
    """Return the newest item at an http(s) URL, with the feeds that carried it; sends no request."""
    entry_id = await database.read(partial(_find_entry, owner=owner, url=url))
    if entry_id is None:
        return None
    page = await search_items(database, ItemSearch(entry_ids=(entry_id,)), limit=1)
    return next(iter(page.items), None)


def _find_entry(connection: Connection, owner: int, url: str) -> int | None:
    policy = get_policy(connection, ENTRY)
    urls = [url, *find_alias_urls(connection, strip_fragment(url), owner)]
    places = list(dict.fromkeys(place for each in urls if (place := _make_place(each, policy))))[:_MAX_PLACES]
    is_in_feed = exists().where(sightings.c.entry_id == entries.c.id)
    query = select(entries.c.id).where(entries.c.place.in_(places), is_in_feed).order_by(entries.c.id.desc()).limit(1)
    return connection.execute(query).scalar()


def _make_place(url: str, policy: str) -> str:
    """Return the place of an entry with this link, as feeds compare links."""
    return loosen_place(strip_scheme_and_www(make_link_key(url, policy=policy)))
