"""A process that stores documents with new and updated items until it is killed: `change_writer.py URL NAME`."""

from __future__ import annotations

import asyncio
import itertools
import sys
from datetime import UTC, datetime

from canonry.core.keys import Item
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDocument
from canonry.store.database import Database


async def write(database_url: str, name: str) -> None:
    """Store one document after another: each has a new item, one that all writers share, and one that changes."""
    now = datetime.now(UTC)
    with Database(database_url) as database:
        store = FeedStore(database)
        feed, _ = await store.add(f"https://{name}.example/feed", now)
        for number in itertools.count():
            items = (
                Item(f"{name}-{number}", title=f"Post {number} of {name}"),
                Item("shared", "https://news.example/shared", "Shared"),
                Item(f"{name}-first", title="First", text=f"edited {number}"),
            )
            document = FeedDocument(title=name, format="rss", hubs=(), items=items)
            await store.merge(feed.id, document, datetime.now(UTC), seen_ttl_days=30)


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1], sys.argv[2]))
