"""Migration 0014: a store with rows and without a pin stays under the first policies; an empty one gets the newest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Connection, text

from canonry.store.database import Database, _make_engine
from canonry.store.migrations import migrate
from canonry.store.pinned_policies import BOOKMARK, ENTRY, get_policy

if TYPE_CHECKING:
    from pathlib import Path

_BOOKMARK = (
    "INSERT INTO bookmarks (owner_id, key, same_key, url, policy, created_at, updated_at)"
    " VALUES (1, 'k', 'k', 'https://a.com/', 'bookmark@1', '2026', '2026')"
)


@pytest.fixture(autouse=True)
def _data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.mark.parametrize(
    ("statements", "wanted"),
    [
        ([], ("bookmark@2", "entry@2")),
        ([_BOOKMARK], ("bookmark@1", "entry@2")),
        ([_BOOKMARK, "INSERT INTO pinned_policies VALUES ('bookmark', 'exact@1')"], ("exact@1", "entry@2")),
        (["INSERT INTO pinned_policies VALUES ('entry', 'entry@1')"], ("bookmark@2", "entry@1")),
    ],
    ids=["empty", "bookmarks", "pinned bookmarks", "pinned entries"],
)
def test_a_store_with_rows_keeps_its_policies(empty_url: str, statements: list[str], wanted: tuple[str, str]) -> None:
    engine = _make_engine(empty_url)
    with engine.begin() as connection:
        migrate.upgrade(connection, "0006")
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()

    def read(connection: Connection) -> tuple[str, str]:
        return get_policy(connection, BOOKMARK), get_policy(connection, ENTRY)

    with Database(empty_url) as database:
        assert database.read_now(read) == wanted
