"""Find the bookmark of a URL by spelling, by normal form, or by a proven alias (contract B3, E5)."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from canonry.bookmarks.bookmark import BookmarkUrl
from canonry.bookmarks.bookmark_store import BookmarkStore
from canonry.bookmarks.identity_lookup import BookmarkMatch, MatchKind, find_by_identity, find_ids_by_identity
from canonry.evidence.fact_store import refuse_pair, save_aliases
from canonry.evidence.facts import PageAlias
from canonry.evidence.same_page import Evidence
from canonry.store.database import Database
from loopback import in_a_loop

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)
POLICY = "bookmark@1"
SAVED, EXACT = "https://a.com/saved", "https://A.com/exact?utm_id=1"
ALIASES = [
    PageAlias("http://a.com/old", "https://a.com/older", Evidence.REDIRECT),
    PageAlias("https://a.com/older", SAVED, Evidence.DECLARED),
    PageAlias("https://m.a.com/exact", "https://a.com/exact", Evidence.SAME_TEXT),
]
CASES = [
    # why, given, kind, evidence
    ("normal form", "https://A.com/saved?utm_source=x", MatchKind.URL, None),
    ("saved as given", "https://a.com/exact", MatchKind.IDENTITY, None),
    ("alias", "https://a.com/older", MatchKind.ALIAS, Evidence.DECLARED),
    ("alias of an alias, with tracking", "http://a.com/old?utm_source=x", MatchKind.ALIAS, Evidence.DECLARED),
    ("alias of one that was saved as given", "https://m.a.com/exact", MatchKind.ALIAS, Evidence.SAME_TEXT),
    ("a part of a page", "https://a.com/older#part", MatchKind.ALIAS, Evidence.DECLARED),
    ("a route of a page is another page", "https://a.com/older#/part", None, None),
    ("unknown", "https://a.com/other", None, None),
]


@in_a_loop
async def test_every_way_to_find_a_bookmark(tmp_path: Path) -> None:
    with Database(f"sqlite:///{tmp_path}/x.db") as database:
        store = BookmarkStore(database)
        saved = (await store.put(1, BookmarkUrl(SAVED, None, SAVED, exact_url=False, policy=POLICY), {}, NOW)).bookmark
        exact_url = BookmarkUrl(EXACT, None, "https://a.com/exact", exact_url=True, policy=POLICY)
        exact = (await store.put(1, exact_url, {}, NOW)).bookmark
        await database.write(partial(save_aliases, aliases=ALIASES, now="2026-01-31"))

        async def find(url: str, owner: int = 1, *, finds_exact: bool = True) -> BookmarkMatch | None:
            return await database.look_up(
                partial(find_by_identity, owner=owner, url=url, policy=POLICY, finds_exact=finds_exact)
            )

        for why, url, kind, evidence in CASES:
            found = await find(url)
            wanted = exact if "given" in why else saved
            assert found == (BookmarkMatch(wanted, kind, evidence) if kind else None), why
            assert await find(url, owner=2) is None, why
        assert await find("https://a.com/exact", finds_exact=False) is None

        async def find_ids(owner: int = 1) -> dict[str, int]:
            urls = [*(url for _, url, *_ in CASES), "", "javascript:alert(1)", "mailto:a@a.com"]
            return await database.read(partial(find_ids_by_identity, owner=owner, urls=urls, policy=POLICY))

        found_ids = {url: (exact if "given" in why else saved).id for why, url, kind, _ in CASES if kind}
        assert await find_ids() == found_ids
        assert await find_ids(owner=2) == {}
        await store.trash(1, exact.id, NOW)
        assert await find_ids() == {url: each for url, each in found_ids.items() if each == saved.id}
        await database.write(
            partial(refuse_pair, owner=1, one="https://a.com/older#part", other=SAVED, now="2026-02-01")
        )
        assert await find("https://a.com/older#part") is None
        assert await find("https://a.com/older")
        await database.write(partial(refuse_pair, owner=1, one="https://a.com/older", other=SAVED, now="2026-02-01"))
        assert await find("https://a.com/older") is None
        assert await find("http://a.com/old") is None
