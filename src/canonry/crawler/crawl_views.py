"""Queries for what shows crawls (commands, API, web pages): bounded, and fast also for crawls with many pages."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, bindparam, func, select, text

from canonry.core.scope import Verdict
from canonry.crawler.crawl_store import StoredPage
from canonry.crawler.pages import Page, mask_url
from canonry.crawler.reasons import SkipReason
from canonry.crawler.results import RECORDED, REFUSED_REASONS, PageChange, PageOutcome, PageState, judge_outcome
from canonry.errors import FailureKind
from canonry.store.schema import crawl_pages

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from canonry.store.database import Database

_MAX_LINKS_CHARACTERS = 200_000  # longer lists of links are not parsed


@dataclass(frozen=True, slots=True)
class Node:
    """A page of the link graph: `referrer` is the page it was found on, `targets` are pages of the site it links to.

    `targets` is None if the page has too many links to be parsed.
    """

    url: str
    title: str
    status: int
    depth: int
    state: PageState
    error: str
    referrer: str
    targets: tuple[str, ...] | None
    outcome: PageOutcome = PageOutcome.READ

    @property
    def is_failed(self) -> bool:
        """Whether the page was not read."""
        return self.outcome is not PageOutcome.READ


@dataclass(frozen=True, slots=True)
class CrawlActivity:
    """The requested URLs of pages that are open now, and the pages that were recorded last."""

    open: tuple[str, ...]
    latest: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ChangedPage:
    """A page that differs from the earlier crawl; `moved_to` is where it redirects, if it is gone because of that."""

    change: PageChange
    url: str
    title: str
    status: int
    moved_to: str


# The index has this order; sorting would read all pages with their links.
_SELECT_FIRST = text(
    "SELECT id, depth FROM crawl_pages WHERE crawl_id = :crawl_id AND state = :state ORDER BY depth, id LIMIT :count"
)
_SELECT_LAST = text(
    "SELECT id, depth FROM crawl_pages WHERE crawl_id = :crawl_id AND state = :state"
    " ORDER BY depth DESC, id DESC LIMIT :count"
)
_SELECT_OPEN_URLS = text(
    "SELECT requested_url FROM crawl_pages WHERE crawl_id = :crawl_id AND state = 'fetching'"
    " ORDER BY depth, id LIMIT 20"
)
_SELECT_NODES = text(
    "SELECT id, url, title, status, depth, state, error, failure, referrer,"  # noqa: S608
    f" CASE WHEN LENGTH(links) <= {_MAX_LINKS_CHARACTERS} THEN links END FROM crawl_pages WHERE id IN :ids"
).bindparams(bindparam("ids", expanding=True))
_SELECT_NODES_WITHOUT_LINKS = text(
    "SELECT id, url, title, status, depth, state, error, failure, referrer, '[]' FROM crawl_pages WHERE id IN :ids"
).bindparams(bindparam("ids", expanding=True))
_SELECT_REFUSED = text(
    "SELECT id, url, requested_url, final_url, depth, engine, skip_reason, referrer FROM crawl_pages"
    " WHERE crawl_id = :crawl_id AND state = 'skipped' AND skip_reason IN :reasons AND id > :after"
    " ORDER BY id LIMIT :count"
).bindparams(bindparam("reasons", expanding=True))
_COUNT_TEXTS = text(
    "SELECT COUNT(*), COUNT(DISTINCT text_hash) FROM crawl_pages"
    " WHERE crawl_id = :crawl_id AND state = 'done' AND status < 400 AND text_hash <> ''"
)
_SELECT_CHANGES = text(
    "SELECT change, url, title, status, final_url, state FROM crawl_pages"
    " WHERE crawl_id = :crawl_id AND change IN ('new', 'changed', 'gone') ORDER BY id LIMIT :count"
)


class CrawlViews:
    """The crawls of a database, as commands and the service show them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def count_states(self, crawl_ids: Collection[int]) -> Mapping[int, Counter[str]]:
        """Return how many pages of these crawls are in each state."""
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

    async def list_nodes(self, crawl_id: int, limit: int) -> list[Node]:
        """Return recorded pages, the nearest to the start page first."""

        def work(connection: Connection) -> list[Node]:
            places = _list_places(connection, crawl_id, limit)
            return _load_nodes(connection, sorted(places)[:limit], with_links=True)

        return await self._database.read(work)

    async def list_refused(self, crawl_id: int, *, after: int = 0, limit: int = 200) -> list[StoredPage]:
        """Return pages with an id above `after` that were not requested because of robots.txt.

        A crawl does not yield them. A start page that robots.txt disallows is a recorded page, which failed.
        """
        values = {"crawl_id": crawl_id, "after": after, "count": limit, "reasons": list(REFUSED_REASONS)}
        return await self._database.read(
            lambda connection: [_make_refused(*row) for row in connection.execute(_SELECT_REFUSED, values)]
        )

    async def list_changes(self, crawl_id: int, limit: int) -> list[ChangedPage]:
        """Return pages that are new, changed or gone since the earlier crawl, in the order in which they were found."""

        def work(connection: Connection) -> list[ChangedPage]:
            rows = connection.execute(_SELECT_CHANGES, {"crawl_id": crawl_id, "count": limit})
            return [
                ChangedPage(
                    PageChange(row.change),
                    mask_url(row.url),
                    row.title,
                    row.status,
                    mask_url(row.final_url) if row.state == PageState.SKIPPED else "",
                )
                for row in rows
            ]

        return await self._database.read(work)

    async def count_different_pages(self, crawl_id: int) -> tuple[int, int]:
        """Return how many URLs of a crawl showed a text, and how many different texts they showed."""
        row = await self._database.read(
            lambda connection: connection.execute(_COUNT_TEXTS, {"crawl_id": crawl_id}).one()
        )
        return row[0], row[1]

    async def get_activity(self, crawl_id: int, limit: int = 10) -> CrawlActivity:
        """Return the open pages and the latest recorded ones, which are the deepest: pages are opened by depth."""

        def work(connection: Connection) -> CrawlActivity:
            places = sorted(_list_places(connection, crawl_id, limit, from_end=True), reverse=True)
            urls = connection.execute(_SELECT_OPEN_URLS, {"crawl_id": crawl_id}).scalars()
            return CrawlActivity(
                tuple(map(mask_url, urls)), tuple(_load_nodes(connection, places[:limit], with_links=False))
            )

        return await self._database.read(work)


def _make_refused(
    page_id: int, url: str, requested_url: str, final_url: str, depth: int, engine: str, reason: str, referrer: str
) -> StoredPage:
    page = Page(
        url,
        requested_url,
        final_url,
        status=0,
        title="",
        depth=depth,
        engine=engine,
        links=(),
        external=(),
        error=SkipReason(reason).sentence,
        failure=FailureKind.ROBOTS,
        outcome=PageOutcome.REFUSED,
        referrer=referrer,
    )
    return StoredPage(page_id, page)


def _list_places(connection: Connection, crawl_id: int, limit: int, *, from_end: bool = False) -> list[tuple[int, int]]:
    """Return depth and id of the first or last recorded pages."""
    execute = partial(connection.execute, _SELECT_LAST if from_end else _SELECT_FIRST)
    return [
        (row.depth, row.id)
        for state in RECORDED
        for row in execute({"crawl_id": crawl_id, "state": state, "count": limit})
    ]


def _load_nodes(connection: Connection, places: list[tuple[int, int]], *, with_links: bool) -> list[Node]:
    if not places:
        return []
    query = _SELECT_NODES if with_links else _SELECT_NODES_WITHOUT_LINKS
    rows = connection.execute(query, {"ids": [page_id for _, page_id in places]})
    found = {page_id: _make_node(*values) for page_id, *values in rows}
    return [found[page_id] for _, page_id in places]


def _make_node(
    url: str,
    title: str,
    status: int,
    depth: int,
    state: str,
    error: str,
    failure: str,
    referrer: str,
    links: str | None,
) -> Node:
    shown, found_on = mask_url(url), mask_url(referrer)
    outcome = judge_outcome(PageState(state), status, failure=failure)
    return Node(shown, title, status, depth, PageState(state), mask_url(error), found_on, _find_targets(links), outcome)


def _find_targets(links: str | None) -> tuple[str, ...] | None:
    """Return the URLs of links to pages of the site, each once."""
    if links is None:
        return None
    rows: list[list[str]] = json.loads(links)
    return tuple(dict.fromkeys(mask_url(url) for _, url, _, verdict, *_ in rows if verdict == Verdict.CRAWL))
