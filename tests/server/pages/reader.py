"""Feeds with items in the store of a running service, without polling."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from canonry.core.keys import Item
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDescription, FeedDocument
from server.pages.visitor import run_elsewhere

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service import Running


def show_feed(
    running: Running, name: str, items: Sequence[Item], *, folder: str = "", title: str = "", days_ago: float = 0.1
) -> int:
    """Follow `https://NAME.test/feed` if it is not followed yet, and store a document with these items."""

    async def work() -> int:
        store, when = FeedStore(running.service.database), datetime.now(UTC) - timedelta(days=days_ago)
        feed, _ = await store.add(f"https://{name}.test/feed", when, description=FeedDescription(folder=folder))
        document = FeedDocument(title or name.title(), "rss", (), tuple(items))
        await store.merge(feed.id, document, when, seen_ttl_days=365)
        return feed.id

    return run_elsewhere(work())


def make_posts(name: str, *numbers: int) -> list[Item]:
    """Items with titles such as `Post 3 of news`."""
    return [Item(f"{name}-{each}", f"https://{name}.test/{each}", f"Post {each} of {name}") for each in numbers]
