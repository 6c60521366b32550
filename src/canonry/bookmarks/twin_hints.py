"""Which of the bookmarks on a page probably have duplicates: a cheap look for lists (contract E5, U3).

`DuplicateStore.list_groups` compares all bookmarks; this reads only what is indexed for the few that are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, or_, select

from canonry.bookmarks.bookmark_rows import make_key
from canonry.evidence.fact_store import load_refused_pairs
from canonry.evidence.facts import make_url_key
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
    ids_by_page = {make_url_key(strip_fragment(each.url)): each.id for each in shown}
    table = page_aliases.c
    query = select(table.url_key, table.url, table.target_key, table.target_url)
    pages = list(ids_by_page)
    pairs = connection.execute(query.where(or_(table.url_key.in_(pages), table.target_key.in_(pages)))).all()
    if not pairs:
        return frozenset()
    refused = load_refused_pairs(connection, owner)
    others: dict[str, set[int]] = {}  # ids of shown bookmarks by the key of the other one
    for pair in pairs:
        if tuple(sorted((pair.url_key, pair.target_key))) in refused:
            continue
        for page, other_url in ((pair.url_key, pair.target_url), (pair.target_key, pair.url)):
            if page in ids_by_page:
                others.setdefault(make_key(other_url), set()).add(ids_by_page[page])
    saved = select(bookmarks.c.key).where(
        bookmarks.c.owner_id == owner, bookmarks.c.key.in_(list(others)), bookmarks.c.deleted_at.is_(None)
    )
    return frozenset(each for key in connection.execute(saved).scalars() for each in others[key])
