"""Open stores for commands; messages go to standard error."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from canonry.errors import CanonryError, InvalidUrl, mask_credentials

if TYPE_CHECKING:
    from collections.abc import Generator

    from canonry.accounts import UserStore
    from canonry.feeds.feed_store import FeedStore
    from canonry.feeds.feed_values import FeedState
    from canonry.store.database import Database


def open_store(database_url: str, *, must_exist: bool = True) -> Database:
    """Open a store; only commands that add something pass `must_exist=False`, so that a mistyped URL creates none."""
    from canonry.wiring import open_database

    return open_database(
        database_url, must_exist=must_exist, warn=lambda line: click.echo(f"canonry: {line}", err=True)
    )


@contextmanager
def open_feeds(database_url: str, *, must_exist: bool = True) -> Generator[FeedStore]:
    """Open the feeds of a store."""
    from canonry.feeds.feed_store import FeedStore

    with open_store(database_url, must_exist=must_exist) as database:
        yield FeedStore(database)


async def get_feed(text: str, store: FeedStore) -> FeedState:
    """Return the feed that is followed under this URL; CanonryError if there is none."""
    feed = await find_feed(text, store)
    if feed is None:
        raise CanonryError(f"you do not follow {mask_credentials(text)}. See `canonry feeds list`.")
    return feed


async def find_feed(text: str, store: FeedStore) -> FeedState | None:
    """Return the feed that is followed under this URL, if there is one; also as lists show it, `https://***@…`."""
    from canonry.core.url import read_url
    from canonry.net.search_fetcher import strip_fragment

    try:
        url = strip_fragment(read_url(text))
    except InvalidUrl:
        return None
    if (found := await store.find([url])) is not None or "***@" not in url:
        return found
    shown = [feed for feed in await store.list_all() if mask_credentials(feed.url) == url]
    return shown[0] if len(shown) == 1 else None


@contextmanager
def open_users(database_url: str, *, must_exist: bool = True) -> Generator[UserStore]:
    """Open the users of a store."""
    from canonry.accounts import UserStore

    with open_store(database_url, must_exist=must_exist) as database:
        yield UserStore(database)
