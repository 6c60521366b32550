"""Find the groups of an owner's bookmarks that are the same, by their URLs or by facts about their pages (E5).

Most bookmarks share nothing with another one, so one narrow query for all of them shows which are worth comparing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sqlalchemy import Connection, bindparam, select

from canonry.bookmarks.duplicate_groups import group_duplicates
from canonry.bookmarks.page_reading import ReadingState
from canonry.bookmarks.twins import PageClue, PageOutline, find_twins, list_compared, outline_page
from canonry.evidence.fact_store import load_facts, load_refused_pairs
from canonry.net.search_fetcher import strip_fragment
from canonry.store.schema import bookmarks, page_facts
from canonry.store.statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.bookmarks.duplicate_groups import IdGroup

_SELECT_PAGES = Prepared(
    lambda _: (
        select(
            *(bookmarks.c[name] for name in ("id", "key", "same_key", "url")),
            (bookmarks.c.page_state == ReadingState.READ.value).label("is_read"),
            *(page_facts.c[name] for name in ("form_key", "permanent_url", "canonical_url", "text_hash", "words")),
        )
        # The key of a bookmark is that of the fact about its page, unless the URL has a fragment.
        .outerjoin_from(bookmarks, page_facts, page_facts.c.url_key == bookmarks.c.key)
        .where(bookmarks.c.owner_id == bindparam("owner"), bookmarks.c.deleted_at.is_(None))
        .order_by(bookmarks.c.created_at, bookmarks.c.id)
    )
)


def find_groups(connection: Connection, owner: int) -> list[IdGroup]:
    """Return the groups of bookmarks with equal URLs or equal pages, the largest first."""
    refused = load_refused_pairs(connection, owner)
    refused_keys = {key for pair in refused for key in pair}
    refused_ids: dict[str, int] = {}  # by the key of the URL
    keys: dict[int, str] = {}  # in the order of the bookmarks
    outlines: list[PageOutline] = []
    others: list[PageClue] = []  # whose fact, if there is one, has another key
    rows = _SELECT_PAGES.fetch_all(connection, owner=owner)
    for bookmark_id, key, same_key, url, is_read, form_key, *parts in rows:
        keys[bookmark_id] = same_key
        if key in refused_keys:
            refused_ids[key] = bookmark_id
        if not is_read:
            continue
        if form_key is None or "#" in url:
            others.append(PageClue(bookmark_id, url))
        else:
            outlines.append(PageOutline(bookmark_id, url, form_key, url, *parts))
    outlines += _load_outlines(connection, others)
    compared = list_compared(outlines)
    if others:
        positions = {each: position for position, each in enumerate(keys)}
        compared.sort(key=lambda clue: positions[clue.bookmark_id])
    facts = load_facts(connection, list({strip_fragment(clue.url) for clue in compared}))
    twins = find_twins(compared, facts, refused)
    counts = Counter(keys.values())
    paired = {each for twin in twins for each in (twin.bookmark_id, twin.other_id)}
    shared = {each: key for each, key in keys.items() if counts[key] > 1 or each in paired}
    apart = [(refused_ids[one], refused_ids[other]) for one, other in refused if {one, other} <= refused_ids.keys()]
    return group_duplicates(shared, twins, [pair for pair in apart if shared.keys() >= set(pair)])


def _load_outlines(connection: Connection, clues: Sequence[PageClue]) -> list[PageOutline]:
    pages = {clue: strip_fragment(clue.url) for clue in clues}
    facts = load_facts(connection, list(set(pages.values())))
    return [outline_page(clue, facts[url]) for clue, url in pages.items() if url in facts]
