"""Imports are stored with their refused rows, also those of earlier versions."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import update

from canonry.bookmarks.import_problems import RefusedRow, RowProblem
from canonry.bookmarks.import_store import ImportStore
from canonry.store.database import Database
from canonry.store.schema import imports

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)


def test_refused_rows_are_stored_with_their_kind(tmp_path: Path) -> None:
    row = RefusedRow(2, "javascript:1", "url: scheme javascript: is not http or https", RowProblem.INVALID_URL)
    with Database(f"sqlite:///{tmp_path}/x.db") as database:
        store = ImportStore(database)
        started = asyncio.run(store.start(1, "json", b"[]", 0, NOW, exact_url=False))
        asyncio.run(store.finish(started.id, [row], NOW))
        assert asyncio.run(store.get(1, started.id)).refused == (row,)
        assert asyncio.run(store.get_pending(started.id)) is None


def test_refused_rows_of_earlier_versions_have_no_kind(tmp_path: Path) -> None:
    with Database(f"sqlite:///{tmp_path}/x.db") as database:
        store = ImportStore(database)
        started = asyncio.run(store.start(1, "json", b"[]", 0, NOW, exact_url=False))
        stored = json.dumps([{"row": 2, "text": "x", "reason": "not an object"}])
        database.write_now(lambda connection: connection.execute(update(imports).values(refused=stored)))
        expected = RefusedRow(2, "x", "not an object", RowProblem.OTHER)
        assert asyncio.run(store.get(1, started.id)).refused == (expected,)
