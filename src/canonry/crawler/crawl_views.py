"""What people are shown of crawls while they go on: bounded, and quick also where a crawl has many pages."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, bindparam, func, select, text

from canonry.crawler.frontier import RECORDED, PageState
from canonry.store.schema import crawl_pages

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from canonry.store.database import Database

_MAX_LINKS = 200_000  # characters of a page's links that are looked at


@dataclass(frozen=True, slots=True)
class Node:
    """A page of the link graph: `referrer` is where it was found, `targets` the pages of the site that it leads to.

    `targets` is None where a page has so many links that they are not looked at.
    """

    url: str
    title: str
    status: int
    depth: int
    state: PageState
    error: str
    referrer: str
    targets: tuple[str, ...] | None

    @property
    def is_failed(self) -> bool:
        """Was there no answer, or one that is no page?"""
        return self.state is PageState.FAILED or self.status >= 400


@dataclass(frozen=True, slots=True)
class CrawlActivity:
    """What goes on in a crawl: pages that are open, and those that were kept last."""

    open: tuple[str, ...]
    latest: tuple[Node, ...]


# The index has the order; a sort would take all pages with their links along.
_FIRST = text(
    "SELECT id, depth FROM crawl_pages WHERE crawl_id = :crawl_id AND state = :state ORDER BY depth, id LIMIT :count"
)
_LAST = text(
    "SELECT id, depth FROM crawl_pages WHERE crawl_id = :crawl_id AND state = :state"
    " ORDER BY depth DESC, id DESC LIMIT :count"
)
_OPEN = text(
    "SELECT requested_url FROM crawl_pages WHERE crawl_id = :crawl_id AND state = 'fetching'"
    " ORDER BY depth, id LIMIT 20"
)
_NODES = text(
    "SELECT id, url, title, status, depth, state, error, referrer,"  # noqa: S608
    f" CASE WHEN LENGTH(links) <= {_MAX_LINKS} THEN links END FROM crawl_pages WHERE id IN :ids"
).bindparams(bindparam("ids", expanding=True))
_BRIEFLY = text(
    "SELECT id, url, title, status, depth, state, error, referrer, '[]' FROM crawl_pages WHERE id IN :ids"
).bindparams(bindparam("ids", expanding=True))


class CrawlViews:
    """The crawls of a database, to look at."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def count_states(self, crawl_ids: Collection[int]) -> Mapping[int, Counter[str]]:
        """How many pages of these crawls are in which state."""
        query = (
            select(crawl_pages.c.crawl_id, crawl_pages.c.state, func.count())
            .where(crawl_pages.c.crawl_id.in_(crawl_ids))
            .group_by(crawl_pages.c.crawl_id, crawl_pages.c.state)
        )

        def work(connection: Connection) -> Mapping[int, Counter[str]]:
            found: defaultdict[int, Counter[str]] = defaultdict(Counter)
            for crawl_id, state, count in connection.execute(query):
                found[crawl_id][state] = count
            return found

        return await self._database.read(work)

    async def graph(self, crawl_id: int, limit: int) -> list[Node]:
        """The pages that were kept, the nearest to the start page first."""

        def work(connection: Connection) -> list[Node]:
            found = _ids(connection, crawl_id, limit)
            return _nodes(connection, sorted(found)[:limit], whole=True)

        return await self._database.read(work)

    async def get_activity(self, crawl_id: int, limit: int = 10) -> CrawlActivity:
        """What is open, and what was kept last: pages are taken in the order of their depth."""

        def work(connection: Connection) -> CrawlActivity:
            found = sorted(_ids(connection, crawl_id, limit, from_end=True), reverse=True)
            urls = connection.execute(_OPEN, {"crawl_id": crawl_id}).scalars()
            return CrawlActivity(tuple(urls), tuple(_nodes(connection, found[:limit], whole=False)))

        return await self._database.read(work)


def _ids(connection: Connection, crawl_id: int, limit: int, *, from_end: bool = False) -> list[tuple[int, int]]:
    """Depth and id of the first pages that were kept, or of the last."""
    asked = partial(connection.execute, _LAST if from_end else _FIRST)
    return [
        (row.depth, row.id)
        for state in RECORDED
        for row in asked({"crawl_id": crawl_id, "state": state, "count": limit})
    ]


def _nodes(connection: Connection, places: list[tuple[int, int]], *, whole: bool) -> list[Node]:
    if not places:
        return []
    rows = connection.execute(_NODES if whole else _BRIEFLY, {"ids": [page_id for _, page_id in places]})
    found = {row[0]: _node(*row[1:]) for row in rows}
    return [found[page_id] for _, page_id in places]


def _node(
    url: str, title: str, status: int, depth: int, state: str, error: str, referrer: str, links: str | None
) -> Node:
    targets = None if links is None else tuple(dict.fromkeys(row[1] for row in json.loads(links) if row[3] == "crawl"))
    return Node(url, title, status, depth, PageState(state), error, referrer, targets)
