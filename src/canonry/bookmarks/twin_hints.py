"""Which of the bookmarks on a page probably have duplicates: a cheap look for lists (contract E5, U3).

`DuplicateStore.list_groups` compares all bookmarks; this reads only what is indexed for the few that are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, or_, select

from canonry.bookmarks.bookmark_rows import make_key
from canonry.bookmarks.twins import has_route
from canonry.evidence.fact_store import load_refused_pairs
from canonry.evidence.facts import hash_url
from canonry.net.search_fetcher import strip_fragment
from canonry.store.schema import bookmarks, page_aliases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.bookmarks.bookmark import Bookmark


def find_hinted_ids(connection: Connection, owner: int, shown: Sequence[Bookmark]) -> frozenset[int]:
    """Return the ids of bookmarks that have another one with the same normal form, or with a proven alias."""
    return _find_same_keys(connection, owner, shown) | _find_aliases(connection, owner, shown)


def _find_same_keys(connection: Connection, owner: int, shown: Sequence[Bookmark]) -> frozenset[int]:
    table = bookmarks.c
    is_saved = (table.owner_id == owner) & table.deleted_at.is_(None)
    own_keys = select(table.same_key).where(is_saved, table.id.in_([each.id for each in shown]))
    repeated = (
        select(table.same_key)
        .where(is_saved, table.same_key.in_(own_keys))
        .group_by(table.same_key)
        .having(func.count() > 1)
    )
    query = select(table.id).where(is_saved, table.same_key.in_(repeated))
    return frozenset(connection.execute(query).scalars()) & {each.id for each in shown}


def _find_aliases(connection: Connection, owner: int, shown: Sequence[Bookmark]) -> frozenset[int]:
    shown_by_page: dict[str, list[Bookmark]] = {}  # bookmarks with different fragments may have one page
    for each in shown:
        if not has_route(each.url):
            shown_by_page.setdefault(hash_url(strip_fragment(each.url)), []).append(each)
    table = page_aliases.c
    query = select(table.url_key, table.url, table.target_key, table.target_url)
    pages = list(shown_by_page)
    pairs = connection.execute(query.where(or_(table.url_key.in_(pages), table.target_key.in_(pages)))).all()
    if not pairs:
        return frozenset()
    refused = load_refused_pairs(connection, owner)
    candidates: dict[str, list[Bookmark]] = {}  # shown bookmarks by the key of the other one
    for pair in pairs:
        if tuple(sorted((pair.url_key, pair.target_key))) not in refused:
            on_page = [*shown_by_page.get(pair.url_key, ()), *shown_by_page.get(pair.target_key, ())]
            for url in (pair.url, pair.target_url):
                candidates.setdefault(make_key(url), []).extend(on_page)
    saved = select(bookmarks.c.id, bookmarks.c.key).where(
        bookmarks.c.owner_id == owner, bookmarks.c.key.in_(list(candidates)), bookmarks.c.deleted_at.is_(None)
    )
    return frozenset(
        each.id
        for other_id, key in connection.execute(saved)
        for each in candidates[key]
        # The URL with a fragment is an alias of its page: without this, its bookmark would be its own duplicate.
        if each.id != other_id and tuple(sorted((hash_url(each.url), key))) not in refused
    )
