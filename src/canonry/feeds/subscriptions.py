"""Subscriptions: the feeds somebody follows, each once, whatever the URL it was named by (contract F16)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, cast

from canonry.core.url import parse, read_url
from canonry.errors import FetchFailed, InvalidUrl, NotAFeed, UnsafeUrl, mask_credentials
from canonry.feeds.canonicalize import canonicalize
from canonry.feeds.canonicalize.fetcher import strip_fragment
from canonry.feeds.canonicalize.result import Existing, Reason
from canonry.feeds.canonicalize.same_feed import strip_cosmetics
from canonry.feeds.feed_values import FeedState, FeedStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from canonry.feeds.feed_store import FeedStore
    from canonry.feeds.opml import OpmlFeed
    from canonry.net.response import Fetch

_CONCURRENCY = 16
_PER_HOST = 2


class AddResult(StrEnum):
    """What a feed that somebody brings turns out to be."""

    NEW = "new"
    KNOWN = "known"  # followed already
    TWIN = "twin"  # the same feed as one before it in the same list
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Added:
    """What became of a feed: `url` is the subscription, `reason` a sentence where there is more to say."""

    result: AddResult
    input_url: str
    url: str = ""
    title: str = ""
    aliases: tuple[str, ...] = ()
    reason: str = ""
    feed_id: int | None = None


async def add_feed(
    url: str,
    store: FeedStore,
    *,
    now: datetime,
    title: str = "",
    folder: str = "",
    fetch: Fetch | None = None,
    forms: Mapping[str, FeedState] | None = None,
) -> Added:
    """Follow the feed at a URL, or the first one its page names; a feed that is followed already costs no request.

    `forms` are those of `forms_of`, where the caller has them. Raises what `canonicalize` raises where
    there is no feed.
    """

    async def exists(urls: list[str]) -> Existing | None:
        known = await store.find(urls)
        return None if known is None else Existing(known.url, known)

    found = await canonicalize(url, fetch=fetch, exists=exists, check_before_fetch=True, discover=True)
    if found.reason is Reason.EXISTS_IN_DB:
        known = cast("FeedState", found.data)
        await store.add(known.url, now, found.aliases)
        return await _known(url, known, store, found.aliases)
    # The page that named the feed is another name of it: asked for again, it leads here.
    page = (found.input_url,) if found.discovered else ()
    aliases = tuple(dict.fromkeys((*found.aliases, *page)))
    if forms is None:
        forms = await forms_of(store)
    if (alike := forms.get(strip_cosmetics(found.url))) and await _is_same(alike, found.url, fetch):
        await store.add(alike.url, now, (found.url, *aliases))
        return await _known(url, alike, store, aliases)
    name = (found.feed.title if found.feed else "") or title
    feed, is_new = await store.add(found.url, now, aliases, title=name, folder=folder)
    if not is_new:
        return await _known(url, feed, store, aliases)
    return Added(AddResult.NEW, url, feed.url, name, aliases, feed_id=feed.id)


async def forms_of(store: FeedStore) -> dict[str, FeedState]:
    """The feeds of a store by their URLs without cosmetic differences."""
    return {strip_cosmetics(url): feed for feed in await store.all() for url in (feed.key_url, feed.url)}


async def import_feeds(
    rows: Sequence[OpmlFeed],
    store: FeedStore,
    *,
    now: datetime,
    fetch: Fetch | None = None,
    concurrency: int = _CONCURRENCY,
    per_host: int = _PER_HOST,
    on_added: Callable[[Added], object] = lambda _: None,
) -> list[Added]:
    """Follow these feeds, each proven by requests: what became of every row, in their order."""
    forms = await forms_of(store)
    limit = asyncio.Semaphore(concurrency)
    hosts: defaultdict[str, asyncio.Semaphore] = defaultdict(partial(asyncio.Semaphore, per_host))
    results: dict[int, Added] = {}
    # Rows that look alike wait for one another: the second is then found in the store, without a request.
    alike: defaultdict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        alike[_form(row.url)].append(number)

    async def work(numbers: list[int]) -> None:
        for number in numbers:
            row = rows[number]
            try:
                async with hosts[parse(read_url(row.url)).host], limit:
                    added = await add_feed(
                        row.url, store, now=now, title=row.title, folder=row.folder, fetch=fetch, forms=forms
                    )
            except (FetchFailed, InvalidUrl, NotAFeed, UnsafeUrl) as error:
                added = Added(AddResult.REFUSED, row.url, title=row.title, reason=error.reason)
            results[number] = added
            on_added(added)

    try:
        async with asyncio.TaskGroup() as group:
            for numbers in alike.values():
                group.create_task(work(numbers))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return _with_twins([results[number] for number in range(len(rows))])


async def import_unfetched(rows: Sequence[OpmlFeed], store: FeedStore, *, now: datetime) -> list[Added]:
    """Follow these feeds as they are, without a request; those that differ only cosmetically are one."""
    forms = await forms_of(store)
    results: list[Added] = []
    for row in rows:
        try:
            url = strip_fragment(read_url(row.url))
        except InvalidUrl as error:
            results.append(Added(AddResult.REFUSED, row.url, title=row.title, reason=error.reason))
            continue
        feed, is_new = forms.get(strip_cosmetics(url)) or await store.find([url]), False
        if feed is None:
            feed, is_new = await store.add(url, now, title=row.title, folder=row.folder)
        forms.setdefault(strip_cosmetics(url), feed)
        if is_new:
            results.append(Added(AddResult.NEW, row.url, feed.url, row.title, feed_id=feed.id))
        else:
            results.append(await _known(row.url, feed, store))
    return _with_twins(results)


async def _is_same(known: FeedState, url: str, fetch: Fetch | None) -> bool:
    """Does a feed that was added unseen, under a URL that looks alike, prove to be this one?"""
    try:
        found = await canonicalize(known.url, fetch=fetch)
    except (FetchFailed, NotAFeed, UnsafeUrl):
        return False
    return url in {found.url, *found.aliases}


async def _known(url: str, feed: FeedState, store: FeedStore, aliases: tuple[str, ...] = ()) -> Added:
    reason = ""
    if feed.status is FeedStatus.STOPPED:
        await store.set_status(feed.id, FeedStatus.ACTIVE)
        reason = "it was stopped and is polled again"
    return Added(AddResult.KNOWN, url, feed.url, feed.title, aliases, reason, feed.id)


def _with_twins(results: list[Added]) -> list[Added]:
    """Of several rows that are one feed, the first is what the feed is, the others are its twins."""
    first: dict[int, int] = {}
    is_new = {each.feed_id for each in results if each.result is AddResult.NEW}
    told = list(results)
    for number, each in enumerate(results):
        if each.feed_id is None:
            continue
        if (earlier := first.setdefault(each.feed_id, number)) != number:
            reason = f"the same feed as {mask_credentials(results[earlier].input_url)}"
            told[number] = replace(each, result=AddResult.TWIN, reason=reason)
        elif each.feed_id in is_new:
            told[number] = replace(each, result=AddResult.NEW)
    return told


def _form(text: str) -> str:
    try:
        return strip_cosmetics(read_url(text))
    except InvalidUrl:
        return text
