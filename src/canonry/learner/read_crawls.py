"""Read the pages of crawls in the store as rows to learn from (contract L1)."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
from sqlalchemy import Connection, select

from canonry.errors import LearnError
from canonry.learner.duckdb_engine import SCHEMA
from canonry.store.schema import crawl_controls, crawl_pages, crawls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canonry.store.database import Database

pa: Any = pyarrow  # pyarrow has no type stubs
_BATCH_ROWS = 10_000
_SUCCESS = 200


def read_crawl_rows(database: Database, crawl_id: int | None, *, normalized: bool = False) -> Iterator[Any]:
    """Yield the pages and control fetches of a crawl, or of all crawls; LearnError if there is no such crawl.

    Their URLs are those that were requested, or with `normalized` those of the pages under the policy of the crawl.
    """
    if crawl_id is not None and not database.read_now(lambda connection: _has_crawl(connection, crawl_id)):
        raise LearnError(f"There is no crawl {crawl_id}. List them with `canonry crawls list`.")
    position = 0
    while True:
        read = partial(_read_page, crawl_id=crawl_id, position=position, normalized=normalized)
        rows = database.read_now(read)
        if not rows:
            break
        position = rows[-1][0]
        yield _make_batch(rows)
    position = 0
    while not normalized and (rows := database.read_now(partial(_read_controls, crawl_id=crawl_id, position=position))):
        position = rows[-1][0]
        yield _make_batch(rows)


def _has_crawl(connection: Connection, crawl_id: int) -> bool:
    return connection.execute(select(crawls.c.id).where(crawls.c.id == crawl_id)).first() is not None


def _read_page(connection: Connection, crawl_id: int | None, position: int, *, normalized: bool) -> list[Any]:
    pages = crawl_pages.c
    query = (
        select(
            pages.id,
            pages.url if normalized else pages.requested_url,
            pages.text_hash,
            pages.simhash,
            pages.finished_at,
        )
        .where(pages.id > position, pages.status == _SUCCESS, pages.text_hash != "")
        .order_by(pages.id)
        .limit(_BATCH_ROWS)
    )
    return list(connection.execute(query if crawl_id is None else query.where(pages.crawl_id == crawl_id)))


def _read_controls(connection: Connection, crawl_id: int | None, position: int) -> list[Any]:
    """Return what control fetches showed, as further rows."""
    controls = crawl_controls.c
    query = (
        select(controls.id, controls.url, controls.text_hash, controls.simhash, controls.fetched_at)
        .where(controls.id > position, controls.status == _SUCCESS)
        .order_by(controls.id)
        .limit(_BATCH_ROWS)
    )
    return list(connection.execute(query if crawl_id is None else query.where(controls.crawl_id == crawl_id)))


def _make_batch(rows: list[Any]) -> Any:
    columns: list[list[object]] = [
        [row[1] for row in rows],
        [row[2] for row in rows],
        [int(row[3], 16) if row[3] else None for row in rows],
        [None] * len(rows),
        [datetime.fromisoformat(row[4]).timestamp() if row[4] else None for row in rows],
    ]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
