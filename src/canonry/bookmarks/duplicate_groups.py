"""Find the groups of an owner's bookmarks that are the same, by their URLs or by facts about their pages (E5).

Most bookmarks share nothing with another one, so one narrow query for all of them shows which are worth comparing.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, bindparam, select

from canonry.bookmarks.page_reading import ReadingState
from canonry.bookmarks.twins import PageClue, PageOutline, Twin, find_twins, list_compared, outline_page
from canonry.evidence.fact_store import load_facts, load_refused_pairs
from canonry.net.search_fetcher import strip_fragment
from canonry.store.schema import bookmarks, page_facts
from canonry.store.statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SELECT_PAGES = Prepared(
    lambda _: (
        select(
            *(bookmarks.c[name] for name in ("id", "same_key", "url")),
            (bookmarks.c.page_state == ReadingState.READ.value).label("is_read"),
            *(page_facts.c[name] for name in ("form_key", "permanent_url", "canonical_url", "text_hash", "words")),
        )
        # The key of a bookmark is that of the fact about its page, unless the URL has a fragment.
        .outerjoin_from(bookmarks, page_facts, page_facts.c.url_key == bookmarks.c.key)
        .where(bookmarks.c.owner_id == bindparam("owner"), bookmarks.c.deleted_at.is_(None))
        .order_by(bookmarks.c.created_at, bookmarks.c.id)
    )
)


@dataclass(frozen=True, slots=True)
class IdGroup:
    """A group of duplicates by the ids of its bookmarks, oldest first."""

    id: str
    ids: tuple[int, ...]
    twins: tuple[Twin, ...]
    is_proven: bool


def find_groups(connection: Connection, owner: int) -> list[IdGroup]:
    """Return the groups of bookmarks with equal URLs or equal pages, the largest first."""
    keys: dict[int, str] = {}  # in the order of the bookmarks
    outlines: list[PageOutline] = []
    others: list[PageClue] = []  # whose fact, if there is one, has another key
    for bookmark_id, same_key, url, is_read, form_key, *parts in _SELECT_PAGES.fetch_all(connection, owner=owner):
        keys[bookmark_id] = same_key
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
    twins = find_twins(compared, facts, load_refused_pairs(connection, owner))
    counts = Counter(keys.values())
    paired = {each for twin in twins for each in (twin.bookmark_id, twin.other_id)}
    return _group_duplicates({each: key for each, key in keys.items() if counts[key] > 1 or each in paired}, twins)


def _load_outlines(connection: Connection, clues: Sequence[PageClue]) -> list[PageOutline]:
    pages = {clue: strip_fragment(clue.url) for clue in clues}
    facts = load_facts(connection, list(set(pages.values())))
    return [outline_page(clue, facts[url]) for clue, url in pages.items() if url in facts]


def _group_duplicates(keys: Mapping[int, str], twins: Sequence[Twin]) -> list[IdGroup]:
    """Group bookmarks, given by id and key in their order, by equal keys and by twins; the largest group first.

    Proven twins join groups, and a group lists those that joined it. Two bookmarks that only show the same text are a
    group of their own; of two groups that do, one pair is shown.
    """
    firsts: dict[str, int] = {}
    leader = {each: firsts.setdefault(key, each) for each, key in keys.items()}

    def find(each: int) -> int:
        while leader[each] != each:
            leader[each] = leader[leader[each]]
            each = leader[each]
        return each

    joining: list[Twin] = []
    for twin in twins:
        if twin.is_proven and find(twin.bookmark_id) != find(twin.other_id):
            leader[find(twin.bookmark_id)] = find(twin.other_id)
            joining.append(twin)
    members: dict[int, list[int]] = {}
    for each in keys:
        members.setdefault(find(each), []).append(each)
    joined: dict[int, list[Twin]] = {}
    for twin in joining:
        joined.setdefault(find(twin.bookmark_id), []).append(twin)
    groups = [
        IdGroup(keys[ids[0]], tuple(ids), tuple(joined.get(root, ())), is_proven=True)
        for root, ids in members.items()
        if len(ids) > 1
    ]
    positions = {each: position for position, each in enumerate(keys)}
    guessed: set[frozenset[int]] = set()
    for twin in twins:
        roots = frozenset((find(twin.bookmark_id), find(twin.other_id)))
        if not twin.is_proven and len(roots) == 2 and roots not in guessed:
            guessed.add(roots)
            pair = sorted((twin.bookmark_id, twin.other_id), key=positions.__getitem__)
            digest = hashlib.sha256(" ".join(keys[each] for each in pair).encode()).hexdigest()
            groups.append(IdGroup(digest, tuple(pair), (twin,), is_proven=False))
    return sorted(groups, key=lambda group: (not group.is_proven, -len(group.ids), group.id))
