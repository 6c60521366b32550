"""Save, change and find bookmarks, each URL once per owner (contract B1–B5).

No request is sent inside a transaction, and none holds up a caller: a short link that takes longer than
`EXPANSION_WAIT_SECONDS` is saved as it is, and a background job expands it.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from canonry.bookmarks.bookmark import (
    BookmarkFields,
    BookmarkPage,
    BookmarkSearch,
    ExpansionState,
    OnDuplicate,
    PutOutcome,
)
from canonry.bookmarks.bookmark_store import BookmarkStore
from canonry.bookmarks.draft import Draft, clean_tags
from canonry.bookmarks.imports import Imports
from canonry.bookmarks.page_reading import PAUSE_SECONDS, READ_PAGES_JOB, PageReading
from canonry.bookmarks.pending_expansions import EXPAND_JOB, PendingExpansions
from canonry.bookmarks.statistics import Statistics
from canonry.bookmarks.url_pipeline import UrlPipeline, read_http_url
from canonry.errors import InvalidFields, InvalidUrl
from canonry.evidence.fact_store import FactStore
from canonry.net.search_fetcher import strip_fragment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from canonry.bookmarks.bookmark import Bookmark, PutResult
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
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        expansion_wait: float = EXPANSION_WAIT_SECONDS,
        page_pause: float = PAUSE_SECONDS,
    ) -> None:
        """Without `fetch`, the pages of bookmarks are not read."""
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
        self._enqueueing: asyncio.Task[None] | None = None
        self.imports = Imports(
            database, self.pipeline, self.expansions, statistics=self.statistics, enqueue=enqueue, clock=clock
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
    ) -> PutResult:
        """Save a bookmark; `fields` are those that an update changes, all fields of the draft if None."""
        fields = await self._check_fields(
            draft.get_fields() if fields is None else fields, draft.url, exact_url=exact_url
        )
        url = await self.pipeline.run(draft.url, exact_url=exact_url, wait=self.expansion_wait)
        put = await self.store.put(
            owner, url, fields, self.clock(), on_duplicate=on_duplicate, created_at=draft.created_at
        )
        self.statistics.count(f"put:{put.outcome}", self.clock())
        if put.outcome is PutOutcome.CREATED:
            await self._enqueue_unfinished_parts(put.bookmark)
        return put

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
        new_url = None if url is None else await self.pipeline.run(url, exact_url=exact_url, wait=self.expansion_wait)
        edited = await self.store.edit(owner, bookmark_id, fields, self.clock(), url=new_url, etag=etag)
        if new_url is not None and edited.expansion is ExpansionState.PENDING:
            await self.enqueue(EXPAND_JOB, str(bookmark_id))
        return edited

    async def find(self, owner: int, text: str, *, exact_url: bool = False, by_alias: bool = True) -> list[Bookmark]:
        """Return the bookmark of a URL in any spelling, or of a proven alias, if there is one, without a request."""
        # A short link whose expansion failed or is pending is saved under its own normal form.
        url = await self.pipeline.normalize(text, exact_url=exact_url)
        found = await self.store.find(owner, url)
        if found or exact_url or not by_alias:
            return found
        for given in dict.fromkeys((url, strip_fragment(read_http_url(text)), strip_fragment(url))):
            for alias in await self.facts.list_aliases(given, owner=owner):
                for spelling in dict.fromkeys((alias, await self.pipeline.normalize(alias, exact_url=False))):
                    if found := await self.store.find(owner, spelling):
                        return found
        return []

    async def search(
        self, owner: int, search: BookmarkSearch, *, cursor: str | None = None, limit: int = 50
    ) -> BookmarkPage:
        """Return a page of bookmarks, newest first; a URL that no text contains finds the bookmark of its page."""
        page = await self.store.search(owner, search, cursor=cursor, limit=limit)
        text = search.words.strip()
        is_url = "." in text and len(text.split()) == 1 and search == BookmarkSearch(search.words)
        if page.bookmarks or cursor or not is_url:
            return page
        try:
            return BookmarkPage(tuple(await self.find(owner, text)), None)
        except InvalidUrl:
            return page

    async def enqueue_unfinished(self) -> None:
        """Queue a job for everything that a crash interrupted or that was never queued."""
        await self.expansions.enqueue_all()
        await self.imports.enqueue_unfinished()
        if await self.pages.count_pending():
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
