"""Subscriptions: follow each feed once, whichever of its URLs is given (contract F16)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, cast

from canonry.core.url import parse, read_url
from canonry.errors import FetchFailed, InvalidUrl, NotAFeed, UnsafeUrl, mask_credentials
from canonry.feeds.canonicalize import canonicalize
from canonry.feeds.canonicalize.result import Existing, Reason, Source
from canonry.feeds.feed_values import NO_DESCRIPTION, FeedDescription, FeedState, FeedStatus
from canonry.feeds.host_slots import HostSlots
from canonry.net.concurrency import run_together
from canonry.net.moved_urls import strip_cosmetics
from canonry.net.origin import Origin
from canonry.net.search_fetcher import strip_fragment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from canonry.feeds.canonicalize.result import Canonical
    from canonry.feeds.feed_store import FeedStore
    from canonry.feeds.opml import OpmlFeed
    from canonry.net.response import Fetch

_CONCURRENCY = 16
_MAX_REQUESTS_PER_HOST = 2


class AddResult(StrEnum):
    """The outcome of adding a feed."""

    NEW = "new"
    KNOWN = "known"  # followed already
    TWIN = "twin"  # the same feed as an earlier one of the same list
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class AddOutcome:
    """The result of adding a feed; `url` is the subscription, `reason` a sentence for people or empty."""

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
    description: FeedDescription = NO_DESCRIPTION,
    fetch: Fetch | None = None,
    feeds_by_form: Mapping[str, FeedState] | None = None,
    on_found: Callable[[Canonical], object] = lambda _: None,
) -> AddOutcome:
    """Follow the feed at a URL, or the first feed that a web page links to.

    A feed that is followed already costs no request. `description` is what a person says about the feed.
    `feeds_by_form` is the result of `load_feeds_by_form`, for callers that add many feeds. `on_found` gets the
    evidence: every URL that was tested. Raises what `canonicalize` raises if there is no feed.
    """

    async def exists(urls: list[str]) -> Existing | None:
        known = await store.find_all(urls)
        return next((Existing(each, known[each]) for each in urls if each in known), None)

    origins: list[Origin] = []
    found = await canonicalize(
        url, fetch=fetch, exists=exists, check_before_fetch=True, discover=True, on_origin=origins.append
    )
    if found.reason is Reason.EXISTS_IN_DB and found.source is Source.SELF:
        # Templates copy the self link of one feed into others: that both are one feed must be proven by requests.
        found = await canonicalize(url, fetch=fetch, discover=True, on_origin=origins.append)
    if found.reason is Reason.EXISTS_IN_DB:
        known = cast("FeedState", found.data)  # `found.url` may be an alias of it
        found = replace(found, url=known.url, aliases=tuple(each for each in found.aliases if each != known.url))
        on_found(found)
        known, _ = await store.add(known.url, now, found.aliases, description=description)
        return await _resume_known(url, known, store, found.aliases)
    on_found(found)
    # The page that links to the feed becomes an alias: the next time it is added, it is known.
    page = (found.input_url,) if found.discovered else ()
    aliases = tuple(dict.fromkeys((*found.aliases, *page)))
    if feeds_by_form is None:
        feeds_by_form = await load_feeds_by_form(store)
    similar = feeds_by_form.get(strip_cosmetics(found.url))
    if similar and await _is_same_feed(similar, found.url, fetch):
        similar, _ = await store.add(similar.url, now, (found.url, *aliases), description=description)
        return await _resume_known(url, similar, store, aliases)
    title = found.feed.title if found.feed else ""
    feed, is_new = await store.add(found.url, now, aliases, title=title, description=description, origin=origins[-1])
    if not is_new:
        return await _resume_known(url, feed, store, aliases)
    return AddOutcome(AddResult.NEW, url, feed.url, feed.shown_title, aliases, feed_id=feed.id)


async def load_feeds_by_form(store: FeedStore) -> dict[str, FeedState]:
    """Return all feeds by their URLs without cosmetic differences (`strip_cosmetics`)."""
    return {strip_cosmetics(url): feed for feed in await store.list_all() for url in (feed.key_url, feed.url)}


async def import_feeds(
    rows: Sequence[OpmlFeed],
    store: FeedStore,
    *,
    now: datetime,
    fetch: Fetch | None = None,
    concurrency: int = _CONCURRENCY,
    per_host: int = _MAX_REQUESTS_PER_HOST,
    on_added: Callable[[AddOutcome], object] = lambda _: None,
) -> list[AddOutcome]:
    """Follow these feeds, each verified by requests; returns the outcome of every row, in order."""
    feeds_by_form = await load_feeds_by_form(store)
    limit = asyncio.Semaphore(concurrency)
    hosts = HostSlots(per_host)
    outcomes: dict[int, AddOutcome] = {}
    # Rows with the same form are added one after the other: the store then knows the second without a request.
    positions_by_form: defaultdict[str, list[int]] = defaultdict(list)
    for position, row in enumerate(rows):
        positions_by_form[make_form(row.url)].append(position)

    async def work(positions: list[int]) -> None:
        for position in positions:
            row = rows[position]
            try:
                async with hosts.acquire(parse(read_url(row.url)).host), limit:
                    outcome = await add_feed(
                        row.url,
                        store,
                        now=now,
                        description=row.description,
                        fetch=fetch,
                        feeds_by_form=feeds_by_form,
                    )
            except (FetchFailed, InvalidUrl, NotAFeed, UnsafeUrl) as error:
                advice = f". {error.advice}" if isinstance(error, UnsafeUrl) and error.advice else ""
                outcome = AddOutcome(AddResult.REFUSED, row.url, title=row.title, reason=f"{error.reason}{advice}")
            outcomes[position] = outcome
            on_added(outcome)

    await run_together(map(work, positions_by_form.values()))
    return _mark_twins([outcomes[position] for position in range(len(rows))])


async def import_unfetched(rows: Sequence[OpmlFeed], store: FeedStore, *, now: datetime) -> list[AddOutcome]:
    """Follow the feeds at these URLs without a request; URLs that differ only cosmetically are one feed."""
    feeds_by_form = await load_feeds_by_form(store)
    outcomes: list[AddOutcome] = []
    for row in rows:
        try:
            url = strip_fragment(read_url(row.url))
        except InvalidUrl as error:
            outcomes.append(AddOutcome(AddResult.REFUSED, row.url, title=row.title, reason=error.reason))
            continue
        form = strip_cosmetics(url)
        known = feeds_by_form.get(form)
        feed, is_new = await store.add(
            known.url if known else url, now, description=row.description, origin=Origin.PERSON
        )
        feeds_by_form.setdefault(form, feed)
        if is_new:
            outcomes.append(AddOutcome(AddResult.NEW, row.url, feed.url, feed.shown_title, feed_id=feed.id))
        else:
            outcomes.append(await _resume_known(row.url, feed, store))
    return _mark_twins(outcomes)


async def _is_same_feed(known: FeedState, url: str, fetch: Fetch | None) -> bool:
    """Return whether a feed that was added without a request, under a similar URL, proves to be the one at `url`."""
    try:
        found = await canonicalize(known.url, fetch=fetch, origin=known.origin)
    except (FetchFailed, NotAFeed, UnsafeUrl):
        return False
    return url in {found.url, *found.aliases}


async def _resume_known(url: str, feed: FeedState, store: FeedStore, aliases: tuple[str, ...] = ()) -> AddOutcome:
    """Return the outcome for a feed that is followed already; a stopped feed becomes active again."""
    reason = ""
    if feed.origin is not Origin.PERSON and _is_same_url(url, feed.url):
        await store.set_origin(feed.id, Origin.PERSON)  # from now on a person has named it too
    if feed.status is FeedStatus.STOPPED:
        await store.set_status(feed.id, FeedStatus.ACTIVE)
        reason = "it was stopped and is polled again"
    elif feed.status is FeedStatus.PAUSED:
        reason = "it is paused"
    return AddOutcome(AddResult.KNOWN, url, feed.url, feed.shown_title, aliases, reason, feed.id)


def _mark_twins(outcomes: list[AddOutcome]) -> list[AddOutcome]:
    """Return the outcomes with TWIN for every row but the first of a feed.

    Rows run concurrently: the first row of a feed is NEW if any of them added it.
    """
    first: dict[int, int] = {}
    new_ids = {outcome.feed_id for outcome in outcomes if outcome.result is AddResult.NEW}
    marked = list(outcomes)
    for position, outcome in enumerate(outcomes):
        if outcome.feed_id is None:
            continue
        if (earlier := first.setdefault(outcome.feed_id, position)) != position:
            reason = f"the same feed as {mask_credentials(outcomes[earlier].input_url)}"
            marked[position] = replace(outcome, result=AddResult.TWIN, reason=reason)
        elif outcome.feed_id in new_ids:
            marked[position] = replace(outcome, result=AddResult.NEW)
    return marked


def _is_same_url(text: str, url: str) -> bool:
    try:
        return strip_fragment(read_url(text)) == url
    except InvalidUrl:
        return False


def make_form(text: str) -> str:
    """Return the URL in a text without cosmetic differences; a text that is not a URL as it is."""
    try:
        return strip_cosmetics(read_url(text))
    except InvalidUrl:
        return text
