"""The feeds of a run that a person names, by URL or in an OPML file: each once, under the URL that is followed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from canonry.core.url import read_url
from canonry.errors import InvalidUrl
from canonry.feeds.due import is_polled
from canonry.feeds.feed_values import NO_DESCRIPTION
from canonry.feeds.subscriptions import load_feeds_by_form, make_form
from canonry.net.search_fetcher import strip_fragment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from canonry.feeds.feed_store import FeedStore
    from canonry.feeds.feed_values import FeedDescription, FeedState
    from canonry.feeds.opml import OpmlFeed
    from canonry.net.origin import Origin

_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class GivenFeeds:
    """The URLs to poll, what the OPML file says about each, and how many of its feeds are not polled.

    `origins` says who named the URLs of stored feeds; a person named the others. With `only_stored`, no person named
    any: all were listed from the store.
    """

    urls: tuple[str, ...]
    descriptions: Mapping[str, FeedDescription]
    origins: Mapping[str, Origin]
    skipped: int = 0  # paused, or stopped and not due
    only_stored: bool = False


async def choose_feeds(
    urls: Sequence[str], rows: Sequence[OpmlFeed], store: FeedStore | None, *, now: datetime
) -> GivenFeeds:
    """Return the feeds to poll: those at the URLs, and those of an OPML file that are neither paused nor stopped.

    `store` is None if it cannot be used; then only twins among the given feeds are joined.
    """
    texts = [*urls, *(row.url for row in rows)]
    known: dict[str, FeedState] = {}
    by_form: dict[str, FeedState] = {}
    if store is not None:
        known = await store.find_all([url for text in texts if (url := _read(text)) is not None])
        by_form = await load_feeds_by_form(store)
    chosen = join_twins(texts, known, by_form)
    states = {feed.url: feed for feed in (*by_form.values(), *known.values())}
    polled = dict.fromkeys(chosen[text] for text in urls)
    skipped: set[str] = set()
    descriptions: dict[str, FeedDescription] = {}
    for row in rows:
        url = chosen[row.url]
        if row.description != NO_DESCRIPTION:
            descriptions.setdefault(url, row.description)
        if (state := states.get(url)) is None or is_polled(state, now):
            polled[url] = None
        elif url not in polled:
            skipped.add(url)
    origins = {url: states[url].origin for url in polled if url in states}
    return GivenFeeds(tuple(polled), descriptions, origins, len(skipped))


def join_twins(
    texts: Sequence[str], known: Mapping[str, FeedState], by_form: Mapping[str, FeedState]
) -> dict[str, str]:
    """Return the URL to poll for each text; URLs that differ only cosmetically are one feed (`strip_cosmetics`).

    A URL that is known as it is leads to its feed, another to the feed of the same form, or to the first such text.
    """
    chosen: dict[str, str] = {}
    first_of_form: dict[str, str] = {}
    for text in texts:
        if text in chosen:
            continue
        url = _read(text)
        if url is None:
            chosen[text] = text  # the run reports it
            continue
        form = make_form(text)
        feed = known.get(url) or by_form.get(form)
        chosen[text] = feed.url if feed is not None else first_of_form.setdefault(form, url)
    return chosen


def leave_out_recent(urls: Sequence[str], polled_at: Mapping[str, datetime], now: datetime) -> tuple[str, ...]:
    """Return the URLs without those polled within the last hour, also if the clock was set back since.

    For polls that no store remembers, because it cannot be written: the feeds stay due.
    """
    return tuple(url for url in urls if not timedelta(0) <= now - polled_at.get(url, now - _HOUR) < _HOUR)


async def describe_feeds(descriptions: Mapping[str, FeedDescription], store: FeedStore) -> None:
    """Store what an OPML file says about the feeds at these URLs."""
    known = await store.find_all(list(descriptions))
    await store.describe({feed.id: descriptions[url] for url, feed in known.items() if url in descriptions})


def _read(text: str) -> str | None:
    try:
        return strip_fragment(read_url(text))
    except InvalidUrl:
        return None
