"""Keep bookmarks: from what was given to where it leads, each link once (contract B1–B5).

The network is never asked inside a transaction, and never holds a request: what takes longer than
`PATIENCE` is kept as it is, and a job finishes it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from canonry.bookmarks.bookmark import Address, AlreadyKept, ExpansionState, NoBookmark, OnDuplicate, PutOutcome
from canonry.bookmarks.bookmark_rows import TEXTS
from canonry.bookmarks.bookmark_store import BookmarkStore, get_to_change, move_now, require_free, write_texts
from canonry.bookmarks.draft import Draft, clean_tags
from canonry.bookmarks.duplicates import merge_now
from canonry.bookmarks.expand import ExpansionOutcome, is_short
from canonry.bookmarks.pending_imports import ImportRow, ImportStore
from canonry.bookmarks.statistics import Statistics
from canonry.core.explain import explain
from canonry.core.keys import replace_unstorable
from canonry.core.native import normalize
from canonry.core.url import read_url
from canonry.errors import CanonryError, FetchFailed, InvalidUrl, UnsafeUrl
from canonry.store.pinned_policies import BOOKMARK, pinned_or_first
from canonry.store.schema import stamp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sqlalchemy import Connection

    from canonry.bookmarks.bookmark import Bookmark, Put
    from canonry.bookmarks.expand import Expansion
    from canonry.bookmarks.pending_imports import Import
    from canonry.core.explain import Explanation
    from canonry.net.response import Fetch
    from canonry.store.database import Database

    Expand = Callable[[str], Awaitable[Expansion]]
    # Queue a background job: its kind and its key.
    Enqueue = Callable[[str, str], Awaitable[object]]

EXPAND, TITLE, IMPORT = "expand", "title", "import"
PATIENCE = 0.3  # seconds a request waits for a short link
LONGEST = 65_536  # characters of a URL
_POLICY_FOR = 2.0  # seconds the policy of the store is remembered
_BATCH = 100  # rows of a file in one transaction
# Microseconds; a normalization that took at most so long counts in the first that fits.
LATENCIES = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)


class WrongFields(CanonryError):
    """Fields that cannot be kept, by name, each with the reason."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {reason}" for field, reason in reasons.items()))
        self.reasons = dict(reasons)


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be kept, and why; nothing was asked and nothing is stored."""

    url: str
    original_url: str | None
    policy: str
    steps: tuple[Any, ...]
    is_short: bool


class Bookmarks:
    """The use-cases of bookmarks over one database."""

    def __init__(
        self,
        database: Database,
        expand: Expand,
        *,
        enqueue: Enqueue,
        fetch: Fetch | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        patience: float = PATIENCE,
    ) -> None:
        """`fetch` is given where missing titles are to be looked up."""
        self.store = BookmarkStore(database)
        self.imports = ImportStore(database)
        self.statistics = Statistics(database)
        self.clock = clock
        self._database = database
        self._expand = expand
        self.enqueue = enqueue
        self._fetch = fetch
        self._patience = patience
        self._policy = ("", 0.0)

    async def put(
        self,
        owner: int,
        draft: Draft,
        *,
        exact_url: bool = False,
        on_duplicate: OnDuplicate = OnDuplicate.RETURN,
        texts: Mapping[str, Any] | None = None,
    ) -> Put:
        """Keep a bookmark; `texts` are those of its fields that were given, where that matters for an update."""
        texts = await self._checked(_texts(draft) if texts is None else texts, draft.url, exact_url=exact_url)
        address = await self._address(draft.url, exact_url=exact_url, patience=self._patience)
        put = await self.store.put(
            owner, address, texts, self.clock(), on_duplicate=on_duplicate, created_at=draft.created_at
        )
        self._count(f"put:{put.outcome}")
        if put.outcome is PutOutcome.CREATED:
            await self._have_finished(put.bookmark)
        return put

    async def edit(
        self,
        owner: int,
        bookmark_id: int,
        texts: Mapping[str, Any],
        *,
        url: str | None = None,
        exact_url: bool = False,
        etag: str | None = None,
    ) -> Bookmark:
        """Change a bookmark: only what is given."""
        await self.store.get(owner, bookmark_id)  # before anything is asked for somebody who has none
        texts = await self._checked(texts, url, exact_url=exact_url)
        address = None if url is None else await self._address(url, exact_url=exact_url, patience=self._patience)
        edited = await self.store.edit(owner, bookmark_id, texts, self.clock(), address=address, etag=etag)
        if address is not None and edited.expansion is ExpansionState.PENDING:
            await self.enqueue(EXPAND, str(bookmark_id))
        return edited

    async def find(self, owner: int, text: str, *, exact_url: bool = False) -> list[Bookmark]:
        """The bookmarks a URL leads to, without asking the network."""
        given = read_http_url(text)
        # A short link whose expansion failed, or waits, is kept under its own normal form.
        return await self.store.find(owner, given if exact_url else normalize(given, await self.policy()))

    async def preview(self, text: str, *, exact_url: bool = False) -> Preview:
        """What `put` would keep."""
        given = read_http_url(text)
        told: Explanation | None = None if exact_url else explain(given, await self.policy())
        url = given if told is None else told.url
        return Preview(
            url,
            original_if_different(text, url),
            await self.policy(),
            () if told is None else told.steps,
            not exact_url and is_short(given),
        )

    async def policy(self) -> str:
        """The id of the policy bookmarks are under."""
        policy, until = self._policy
        if time.monotonic() >= until:
            policy = await self._database.read(lambda connection: pinned_or_first(connection, BOOKMARK))
            self._policy = policy, time.monotonic() + _POLICY_FOR
        return policy

    def forget_policy(self) -> None:
        """Read the policy from the store again: a rekey has changed it."""
        self._policy = ("", 0.0)

    # In the background. Each may be called again after a crash, and then does what is left.

    async def finish_expansion(self, bookmark_id: int) -> None:
        """Follow the short link of a bookmark; one that leads where another is kept becomes one with it."""
        found = await self.store.with_owner(bookmark_id)
        if found is None or found[1].expansion is not ExpansionState.PENDING:
            return
        owner, kept = found
        address = await self._address(kept.original_url or kept.url, exact_url=False, patience=None)
        await self._database.write(partial(_settle, owner=owner, kept=kept, address=address, now=stamp(self.clock())))

    async def finish_title(self, bookmark_id: int) -> None:
        """Give a bookmark without a title the one of its page."""
        from canonry.net.html import read_page_title

        found = await self.store.with_owner(bookmark_id)
        if found is None or found[1].title or self._fetch is None:
            return
        owner, kept = found
        try:
            response = await self._fetch(kept.url, max_bytes=1_000_000)
        except (FetchFailed, UnsafeUrl) as error:
            self._count("title:failed")
            raise error from None
        title = await asyncio.to_thread(read_page_title, response.body, response.header("content-type"))
        if response.is_ok and title:
            self._count("title:found")
            await self._database.write(partial(_give_title, owner=owner, kept=kept, title=title, now=self.clock()))

    async def take_file(
        self, owner: int, data: bytes, *, form: Any = None, file_name: str = "", exact_url: bool = False
    ) -> Import:
        """Take a file of bookmarks in, and have it imported; CanonryError where it is none."""
        from canonry.bookmarks.exchange import guess_format, read_bookmarks

        form = form or guess_format(data, file_name)
        parsed = await asyncio.to_thread(read_bookmarks, data, form, file_name)
        taken = await self.imports.start(owner, str(form), data, len(parsed.drafts), self.clock(), exact_url=exact_url)
        await self.enqueue(IMPORT, str(taken.id))
        return taken

    async def finish_import(self, import_id: int) -> None:
        """Keep what is left of a file, some rows at a time; short links are followed later."""
        from canonry.bookmarks.exchange import Format, read_bookmarks

        found = await self.imports.content(import_id)
        if found is None:
            return
        owner, taken, data = found
        try:
            parsed = await asyncio.to_thread(read_bookmarks, data, Format(taken.format))
        except CanonryError as error:  # it could be read when it was taken, by another version of canonry
            await self.imports.finish(import_id, [], self.clock(), failure=str(error))
            return
        refused = [asdict(row) for row in parsed.refused]
        done = taken.done
        while done < len(parsed.drafts):
            batch = parsed.drafts[done : done + _BATCH]
            rows: list[ImportRow] = []
            for draft in batch:
                address = await self._address(draft.url, exact_url=taken.exact_url or draft.exact_url, patience=0)
                if draft.original_url:
                    address = replace(address, original_url=draft.original_url)
                rows.append(ImportRow(address, _texts(draft), draft.created_at))
            await self.imports.keep(import_id, owner, done, rows, self.clock())
            done += len(batch)
            await asyncio.sleep(0)
        await self.imports.finish(import_id, refused, self.clock())
        for bookmark_id in await self.store.pending(self.clock()):
            await self.enqueue(EXPAND, str(bookmark_id))

    async def enqueue_unfinished(self) -> None:
        """Have everything finished that a crash, or a job that was never queued, has left."""
        for bookmark_id in await self.store.pending(self.clock()):
            await self.enqueue(EXPAND, str(bookmark_id))
        for import_id in await self.imports.unfinished():
            await self.enqueue(IMPORT, str(import_id))

    async def _address(self, text: str, *, exact_url: bool, patience: float | None) -> Address:
        """Where a text leads. A short link is followed for so many seconds, None: to the end; after that it waits."""
        given = read_http_url(text)
        policy = await self.policy()
        if exact_url:
            return Address(
                given, original_if_different(text, given), normalize(given, policy), exact_url=True, policy=policy
            )
        state, reason, target = ExpansionState.NONE, "", given
        if is_short(given):
            state, reason, target = await self._expanded(given, patience)
        started = time.perf_counter()
        try:
            told = explain(target, policy)
        except InvalidUrl:  # of what a short link led to
            state, reason = ExpansionState.FAILED, "leads to a URL that cannot be used"
            told = explain(given, policy)
        self._count_normalization(time.perf_counter() - started, told)
        return Address(told.url, original_if_different(text, told.url), told.url, False, policy, state, reason)  # noqa: FBT003

    async def _expanded(self, url: str, patience: float | None) -> tuple[ExpansionState, str, str]:
        if patience == 0:
            return ExpansionState.PENDING, "", url
        try:
            async with asyncio.timeout(patience):
                found = await self._expand(url)
        except TimeoutError:
            self._count("expansion:pending")
            return ExpansionState.PENDING, "", url
        self._count("cache:hit" if found.is_cached else "cache:miss")
        self._count(f"expansion:{found.outcome}")
        if found.outcome is ExpansionOutcome.FAILED:
            return ExpansionState.FAILED, found.reason, url
        return ExpansionState.EXPANDED, "", found.url

    async def _have_finished(self, kept: Bookmark) -> None:
        if kept.expansion is ExpansionState.PENDING:
            await self.enqueue(EXPAND, str(kept.id))
        elif not kept.title and self._fetch is not None:
            await self.enqueue(TITLE, str(kept.id))

    async def _checked(self, texts: Mapping[str, Any], url: str | None, *, exact_url: bool) -> dict[str, Any]:
        """The texts with their lists of URLs in the form they are kept; WrongFields names each that is none.

        And the URL of the bookmark, if that is none as well.
        """
        wrong: dict[str, str] = {}
        checked = dict(texts)
        if "tags" in checked:
            checked["tags"] = clean_tags(checked["tags"])
        for name in ("archive_urls", "episode_urls"):
            urls: list[str] = []
            for index, text in enumerate(checked.get(name, ())):
                try:
                    given = read_http_url(text)
                    urls.append(given if exact_url else normalize(given, await self.policy()))
                except InvalidUrl as error:
                    wrong[f"{name}[{index}]"] = error.reason
            if name in checked:
                checked[name] = tuple(dict.fromkeys(urls))
        if wrong:
            try:
                read_http_url("https://example.com/" if url is None else url)
            except InvalidUrl as error:
                wrong = {"url": error.reason, **wrong}
            raise WrongFields(wrong)
        return checked

    def _count(self, name: str) -> None:
        self.statistics.count(name, self.clock())

    def _count_normalization(self, seconds: float, told: Explanation) -> None:
        fitting = next((str(least) for least in LATENCIES if seconds * 1e6 <= least), "more")
        self._count(f"latency:{fitting}")
        for rule in {step.rule for step in told.steps}:
            self._count(f"rule:{rule}")


def read_http_url(text: str) -> str:
    """The http(s) URL in what was given, not touched otherwise; InvalidUrl where there is none."""
    if len(text) > LONGEST:
        raise InvalidUrl(text, f"longer than {LONGEST} characters")
    url = read_url(text)
    if replace_unstorable(url) != url:
        raise InvalidUrl(text, "has halves of characters, which no database keeps")
    return url


def original_if_different(text: str, url: str) -> str | None:
    """What was given, where that is not what is kept."""
    given = replace_unstorable(text.strip())
    return given if given != url else None


def _texts(draft: Draft) -> dict[str, Any]:
    return {name: getattr(draft, name) for name in TEXTS}


def _give_title(connection: Connection, owner: int, kept: Bookmark, title: str, now: datetime) -> None:
    """The title of its page for a bookmark, unless it has got one, or another URL, or is gone meanwhile."""
    try:
        current = get_to_change(connection, owner, kept.id)
    except NoBookmark:
        return
    if not current.title and current.url == kept.url and current.deleted_at is None:
        write_texts(connection, owner, current, {"title": title}, stamp(now))


def _settle(connection: Connection, owner: int, kept: Bookmark, address: Address, now: str) -> None:
    """Move a bookmark to where its short link leads, or make it one with the bookmark that is there.

    `kept` is what was followed: one that was moved, deleted or settled meanwhile stays as it is.
    """
    try:
        current = get_to_change(connection, owner, kept.id)
    except NoBookmark:
        return
    is_same = (current.url, current.original_url) == (kept.url, kept.original_url)
    if not is_same or current.expansion is not ExpansionState.PENDING or current.deleted_at is not None:
        return
    try:
        require_free(connection, owner, kept.id, address.url)
    except AlreadyKept as error:
        merge_now(connection, owner, error.bookmark_id, [kept.id], now=now, why="expansion")
    else:
        move_now(connection, owner, current, address, now)
