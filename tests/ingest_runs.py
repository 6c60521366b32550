"""Runs of ingest over a web on loopback and a store of their own, for tests."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

import canonry
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedState, FeedStatus
from canonry.feeds.ingest_report import CheckName, FeedResult, Report
from canonry.store.database import Database
from loopback import LoopbackWeb

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from canonry.errors import FailureKind
    from canonry.net.fetch import Client

START = datetime(2026, 1, 31, 10, tzinfo=UTC)
URL = "https://example.com/feed"


@dataclass
class Runs:
    """Runs over one web and one store, at a time that the test sets."""

    web: LoopbackWeb
    client: Client
    store: FeedStore
    now: datetime = START

    async def run(self, *urls: str, **options: Any) -> Report:
        """Run once; without URLs, over the feed at `URL`."""
        options = {"fetch": self.client.fetch, "clock": lambda: self.now, **options}
        report = await canonry.ingest(urls or [URL], self.store.database, **options)
        assert [line.name for line in report.checklist] == list(CheckName)
        return report

    async def later(self, *urls: str, days: float = 0, hours: float = 2, **options: Any) -> Report:
        self.now += timedelta(days=days, hours=hours)
        return await self.run(*urls, **options)

    async def feed(self, url: str = URL) -> FeedState:
        found = await self.store.find([url])
        assert found is not None
        return found

    async def rows(self, table: Any) -> list[dict[str, Any]]:
        return await self.store.database.read(
            lambda connection: [dict(row._mapping) for row in connection.execute(select(table))]
        )


@asynccontextmanager
async def running(pages: Mapping[str, Mapping[str, Any]], folder: Path) -> AsyncIterator[Runs]:
    with Database(f"sqlite:///{folder}/feeds.db") as database:
        async with LoopbackWeb(pages) as web, web.client() as client:
            yield Runs(web, client, FeedStore(database))


def counts(report: Report) -> tuple[int, int, int]:
    return report.new, report.updated, report.duplicate


def result(report: Report) -> tuple[FeedResult, FailureKind | None]:
    """Return how polling the only feed of a run ended."""
    (outcome,) = report.feeds
    return outcome.result, outcome.failure


def unmet(report: Report) -> list[CheckName]:
    return [line.name for line in report.checklist if not line.is_met]


def all_met(report: Report) -> bool:
    return not unmet(report)


def turns(*answers: dict[str, Any]) -> dict[str, Any]:
    return {"sequence": list(answers)}


def item(title: str = "", link: str = "", guid: str = "", text: str = "") -> str:
    parts = {"title": title, "link": link, "guid": guid, "description": text}
    return f"<item>{''.join(f'<{name}>{value}</{name}>' for name, value in parts.items() if value)}</item>"


def feed_of(*items: str, extra: str = "") -> str:
    return f'<rss version="2.0"><channel><title>Blog</title>{extra}{"".join(items)}</channel></rss>'


def make_feed_state(**changes: Any) -> FeedState:
    """Return the state of a feed that was polled once."""
    values: dict[str, Any] = {
        "id": 1,
        "url": URL,
        "key_url": URL,
        "title": "Blog",
        "format": "rss",
        "status": FeedStatus.ACTIVE,
        "etag": "",
        "last_modified": "",
        "hubs": "",
        "failures": 0,
        "failure": "",
        "last_checked_at": None,
        "next_check_at": "2026-01-31T10:00:00.000000Z",
        "retry_at": None,
        "moved_to": "",
        "moved_sightings": 0,
        "ttl": None,
        "folder": "",
    }
    return FeedState(**{**values, **changes})
