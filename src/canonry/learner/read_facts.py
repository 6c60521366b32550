"""Read what the store knows about pages, and what people decided about duplicates, as rows to learn from (L1)."""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
from sqlalchemy import Connection, select

from canonry.bookmarks.duplicates import MergeReason
from canonry.learner.choose_contents import DECISION_PREFIX
from canonry.learner.duckdb_engine import SCHEMA
from canonry.learner.values import Pair
from canonry.store.schema import bookmark_merges, page_facts, refused_aliases

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from canonry.store.database import Database

pa: Any = pyarrow  # pyarrow has no type stubs
_BATCH_ROWS = 10_000
_SUCCESS = 200


def read_fact_rows(database: Database) -> Iterator[Any]:
    """Yield the pages that were read for bookmarks and other URLs."""
    after = ""
    while rows := database.read_now(partial(_read_facts, after=after)):
        after = rows[-1].url_key
        yield _make_batch(
            [
                (
                    row.url,
                    row.text_hash,
                    int(row.simhash, 16) if row.simhash else None,
                    row.canonical_url or None,
                    datetime.fromisoformat(row.fetched_at).timestamp(),
                )
                for row in rows
            ]
        )


def _read_facts(connection: Connection, after: str) -> list[Any]:
    columns = page_facts.c
    query = (
        select(
            columns.url_key, columns.url, columns.text_hash, columns.simhash, columns.canonical_url, columns.fetched_at
        )
        .where(columns.url_key > after, columns.status == _SUCCESS, columns.text_hash != "")
        .order_by(columns.url_key)
        .limit(_BATCH_ROWS)
    )
    return list(connection.execute(query))


def read_decision_rows(database: Database) -> Iterator[Any]:
    """Yield the URLs of bookmarks that people merged, each merge as one content; private bookmarks are left out."""
    after = 0
    while rows := database.read_now(partial(_read_merges, after=after)):
        after = rows[-1].id
        found = [
            (bookmark["url"], f"{DECISION_PREFIX}{row.id}", None, None, None)
            for row in rows
            for bookmark in json.loads(row.rows)
            if not bookmark.get("private")
        ]
        if found:
            yield _make_batch(found)


def _read_merges(connection: Connection, after: int) -> list[Any]:
    columns = bookmark_merges.c
    query = (
        select(columns.id, columns.rows)
        .where(columns.id > after, columns.undone_at.is_(None), columns.why == MergeReason.REVIEW)
        .order_by(columns.id)
        .limit(_BATCH_ROWS)
    )
    return list(connection.execute(query))


def read_vetoes(database: Database) -> list[Pair]:
    """Return the pairs of URLs that people said are not the same."""
    columns = refused_aliases.c
    query = select(columns.first_url, columns.second_url).distinct().order_by(columns.first_url, columns.second_url)
    return database.read_now(lambda connection: [Pair(*row) for row in connection.execute(query)])


def _make_batch(rows: Sequence[tuple[object, ...]]) -> Any:
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(list(c), f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
