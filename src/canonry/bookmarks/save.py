"""Save, change and find bookmarks, each URL once per owner (contract B1–B5).

No request is sent inside a transaction, and none holds up a caller: a short link that takes longer than
`EXPANSION_WAIT_SECONDS` is saved as it is, and a background job expands it.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from canonry.bookmarks.bookmark import (
    BookmarkFields,
    BookmarkPage,
    BookmarkSearch,
    ExpansionState,
    OnDuplicate,
    PutOutcome,
)
from canonry.bookmarks.bookmark_store import BookmarkStore, edit_bookmark, put_bookmark
from canonry.bookmarks.bulk_edits import BulkEditStore
from canonry.bookmarks.draft import Draft, clean_tags
from canonry.bookmarks.identity_lookup import find_by_identity, find_ids_by_identity
from canonry.bookmarks.imports import Imports
from canonry.bookmarks.page_reading import PAUSE_SECONDS, READ_PAGES_JOB, PageReading
from canonry.bookmarks.pending_expansions import EXPAND_JOB, PendingExpansions
from canonry.bookmarks.put_page import put_page
from canonry.bookmarks.site_icons import SiteIcons
from canonry.bookmarks.statistics import Statistics
from canonry.bookmarks.url_pipeline import UrlPipeline, read_http_url
from canonry.errors import InvalidFields, InvalidUrl
from canonry.evidence.fact_store import FactStore
from canonry.store.schema import stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from sqlalchemy import Connection

    from canonry.bookmarks.bookmark import Bookmark, BookmarkUrl, PutResult
    from canonry.bookmarks.identity_lookup import BookmarkMatch
    from canonry.bookmarks.pending_expansions import Enqueue
    from canonry.bookmarks.url_pipeline import Expand
    from canonry.net.response import Fetch
    from canonry.store.database import Database

EXPANSION_WAIT_SECONDS = 0.3
_ENQUEUE_DELAY_SECONDS = 0.5


class Bookmarks:
    """The use-cases of bookmarks over one database.

    `pipeline` makes their URLs; background jobs run the work of `expansions`, `pages` and `imports`.
    """

    def __init__(
        self,
        database: Database,
        expand: Expand,
        *,
        enqueue: Enqueue,
        fetch: Fetch | None = None,
        reads_private_pages: bool = True,
        fetches_icons: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        expansion_wait: float = EXPANSION_WAIT_SECONDS,
        page_pause: float = PAUSE_SECONDS,
    ) -> None:
        """Without `fetch`, neither the pages of bookmarks nor the icons of their sites are requested."""
        self.clock = clock
        self.enqueue = enqueue
        self.store = BookmarkStore(database)
        self.statistics = Statistics(database)
        self.pipeline = UrlPipeline(database, expand, statistics=self.statistics, clock=clock)
        self.expansions = PendingExpansions(self.store, self.pipeline, enqueue=enqueue, clock=clock)
        self.facts = FactStore(database)
        self.pages = PageReading(
            database,
            fetch,
            statistics=self.statistics,
            clock=clock,
            reads_private=reads_private_pages,
            pause=page_pause,
        )
        self.icons = SiteIcons(
            database, fetch if fetches_icons else None, clock=clock, reads_private=reads_private_pages
        )
        self.bulk_edits = BulkEditStore(database)
        self._enqueueing: asyncio.Task[None] | None = None
        self.imports = Imports(
            database,
            self.pipeline,
            self.expansions,
            statistics=self.statistics,
            enqueue=enqueue,
            clock=clock,
            reads_pages=fetch is not None,
        )
        self.expansion_wait = expansion_wait

    async def put(
        self,
        owner: int,
        draft: Draft,
        *,
        exact_url: bool = False,
        on_duplicate: OnDuplicate = OnDuplicate.RETURN,
        fields: BookmarkFields | None = None,
        by_alias: bool = True,
    ) -> PutResult:
        """Save a bookmark; `fields` are those that an update changes, all fields of the draft if None.

        A bookmark of another URL that is proven to show the same page counts as saved already, unless `by_alias` is
        false or the URL is exact.
        """
        fields = await self._check_fields(
            draft.get_fields() if fields is None else fields, draft.url, exact_url=exact_url
        )
        save = put_page if by_alias else put_bookmark
        now, created_at = stamp(self.clock()), draft.created_at

        def work(connection: Connection, url: BookmarkUrl) -> PutResult:
            return save(connection, owner, url, fields, now, on_duplicate, created_at)

        put = await self.pipeline.save(draft.url, work, exact_url=exact_url, wait=self.expansion_wait)
        self.statistics.count(f"put:{put.outcome}", self.clock())
        if put.outcome is PutOutcome.CREATED:
            await self._enqueue_unfinished_parts(put.bookmark)
        return put

    async def add_tags(self, owner: int, bookmark: Bookmark, tags: Sequence[str]) -> Bookmark:
        """Add tags to a bookmark that somebody saved again; it counts as a duplicate that was avoided."""
        all_tags = clean_tags((*bookmark.tags, *tags))
        if all_tags != bookmark.tags:
            bookmark = await self.store.edit(owner, bookmark.id, {"tags": all_tags}, self.clock())
        self.statistics.count(f"put:{PutOutcome.NO_CHANGE}", self.clock())
        return bookmark

    async def edit(
        self,
        owner: int,
        bookmark_id: int,
        fields: BookmarkFields,
        *,
        url: str | None = None,
        exact_url: bool = False,
        etag: str | None = None,
    ) -> Bookmark:
        """Change a bookmark: its URL if one is given, and the fields that are given."""
        await self.store.get(owner, bookmark_id)  # no request is sent for a bookmark that does not exist
        fields = await self._check_fields(fields, url, exact_url=exact_url)
        if url is None:
            return await self.store.edit(owner, bookmark_id, fields, self.clock(), etag=etag)
        now = stamp(self.clock())

        def work(connection: Connection, new_url: BookmarkUrl) -> Bookmark:
            return edit_bookmark(connection, owner, bookmark_id, fields, now, new_url, etag)

        edited = await self.pipeline.save(url, work, exact_url=exact_url, wait=self.expansion_wait)
        if edited.expansion is ExpansionState.PENDING:
            await self.enqueue(EXPAND_JOB, str(bookmark_id))
        return edited

    async def find(self, owner: int, text: str, *, exact_url: bool = False, by_alias: bool = True) -> list[Bookmark]:
        """Return the bookmark of a URL in any spelling, or of a proven alias, if there is one, without a request.

        A bookmark that was saved as given is found with `exact_url` only (contract B3); see `find_by_identity`.
        """
        # A short link whose expansion failed or is pending is saved under its own normal form.
        if exact_url or not by_alias:
            normalized = await self.pipeline.normalize(text)
            url = await self.pipeline.normalize(text, exact_url=True) if exact_url else normalized
            return await self.store.find(owner, url, normalized_url=normalized)
        found = await self._find(owner, text, finds_exact=False)
        return [] if found is None else [found.bookmark]

    async def find_by_identity(self, owner: int, text: str) -> BookmarkMatch | None:
        """Return the bookmark of the page at a URL, with how it was found; InvalidUrl if the text has no URL.

        It is saved under this URL in any spelling, was saved as given and means this URL, or shows the same page as
        is proven. No request is sent.
        """
        return await self._find(owner, text, finds_exact=True)

    async def find_ids(self, owner: int, urls: Collection[str]) -> dict[str, int]:
        """Return the ids of the bookmarks of these URLs, by URL, as `find_by_identity` finds them."""
        policy = await self.pipeline.get_policy()
        return await self.store.database.read(partial(find_ids_by_identity, owner=owner, urls=urls, policy=policy))

    async def _find(self, owner: int, text: str, *, finds_exact: bool) -> BookmarkMatch | None:
        url, policy = read_http_url(text), await self.pipeline.get_policy()
        return await self.store.database.look_up(
            partial(find_by_identity, owner=owner, url=url, policy=policy, finds_exact=finds_exact)
        )

    async def search(
        self, owner: int, search: BookmarkSearch, *, cursor: str | None = None, limit: int = 50
    ) -> BookmarkPage:
        """Return a page of bookmarks; if a URL is pasted, in any spelling, the bookmark of its page comes first."""
        match = None if cursor else await self._find_pasted_url(owner, search)
        if match is None:
            return await self.store.search(owner, search, cursor=cursor, limit=limit)
        if limit == 1:
            return BookmarkPage((match,), None)
        page = await self.store.search(owner, search, limit=limit - 1)
        return BookmarkPage((match, *(each for each in page.bookmarks if each.id != match.id)), page.next_cursor)

    async def _find_pasted_url(self, owner: int, search: BookmarkSearch) -> Bookmark | None:
        if search != BookmarkSearch(search.words, sort=search.sort) or not looks_like_url(search.words):
            return None
        try:
            match = await self.find_by_identity(owner, search.words)
        except InvalidUrl:
            return None
        return None if match is None else match.bookmark

    async def enqueue_unfinished(self) -> None:
        """Queue a job for everything that a crash interrupted or that was never queued."""
        await self.expansions.enqueue_all()
        await self.imports.enqueue_unfinished()
        if await self.pages.has_due():
            await self.enqueue(READ_PAGES_JOB, "")

    async def _enqueue_unfinished_parts(self, bookmark: Bookmark) -> None:
        if bookmark.expansion is ExpansionState.PENDING:
            await self.enqueue(EXPAND_JOB, str(bookmark.id))
        elif self.pages.is_enabled and (self._enqueueing is None or self._enqueueing.done()):
            # One job reads all pages. Bookmarks that are saved in the next moment join it.
            self._enqueueing = asyncio.create_task(self._enqueue_page_reading())

    async def _enqueue_page_reading(self) -> None:
        await asyncio.sleep(_ENQUEUE_DELAY_SECONDS)
        await self.enqueue(READ_PAGES_JOB, "")

    async def _check_fields(self, given: BookmarkFields, url: str | None, *, exact_url: bool) -> BookmarkFields:
        """Return the fields as they are saved; InvalidFields names every invalid URL, also the bookmark's."""
        fields = given.copy()
        invalid: dict[str, str] = {}
        if "tags" in fields:
            fields["tags"] = clean_tags(fields["tags"])
        if "archive_urls" in fields:
            fields["archive_urls"] = await self._check_urls(
                "archive_urls", fields["archive_urls"], invalid, exact_url=exact_url
            )
        if "episode_urls" in fields:
            fields["episode_urls"] = await self._check_urls(
                "episode_urls", fields["episode_urls"], invalid, exact_url=exact_url
            )
        if invalid:
            if url is not None:
                try:
                    read_http_url(url)
                except InvalidUrl as error:
                    invalid = {"url": error.reason, **invalid}
            raise InvalidFields(invalid)
        return fields

    async def _check_urls(
        self, name: str, texts: Sequence[str], invalid: dict[str, str], *, exact_url: bool
    ) -> tuple[str, ...]:
        """Return the URLs of a list, each once; add the invalid ones to `invalid` by their index."""
        urls: list[str] = []
        for index, text in enumerate(texts):
            try:
                urls.append(await self.pipeline.normalize(text, exact_url=exact_url))
            except InvalidUrl as error:
                invalid[f"{name}[{index}]"] = error.reason
        return tuple(dict.fromkeys(urls))


def looks_like_url(text: str) -> bool:
    """Return whether somebody has pasted a URL, rather than typed words or an operator such as `site:example.com`."""
    has_one_word = len(text.split()) == 1
    return has_one_word and ("://" in text or ("." in text and not text.startswith("-") and ":" not in text))
