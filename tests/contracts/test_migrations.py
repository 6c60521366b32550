"""The schema of a store: created, migrated or refused, on both databases."""

from __future__ import annotations

import multiprocessing
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, text

from canonry.errors import InvalidStoreUrl, StoreError
from canonry.store.backup import read_header
from canonry.store.database import Database, _make_engine
from canonry.store.migrations import migrate
from canonry.store.schema import metadata
from canonry.store.schema_versions import VERSIONS, read_version


@pytest.fixture(autouse=True)
def _data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def make_old(url: str, *, with_feed: bool = True) -> None:
    """Make a store as the first version made it."""
    engine = _make_engine(url)
    with engine.begin() as connection:
        migrate.upgrade(connection, "0001")
        if with_feed:
            connection.execute(text("INSERT INTO feeds (key_url, url, created_at) VALUES ('k', 'u', 'now')"))
    engine.dispose()


def describe_tables(connection: Connection) -> dict[str, Any]:
    """Return all that SQLAlchemy finds out about the tables."""
    inspector = inspect(connection)
    return {
        table: {
            "columns": [
                {name: str(value) for name, value in column.items()} for column in inspector.get_columns(table)
            ],
            "key": inspector.get_pk_constraint(table),
            "unique": inspector.get_unique_constraints(table),
            "indexes": sorted(
                str({**index, "dialect_options": {name: str(of) for name, of in index["dialect_options"].items()}})
                for index in inspector.get_indexes(table)
            ),
            "foreign": sorted(map(str, inspector.get_foreign_keys(table))),
        }
        for table in sorted(inspector.get_table_names())
    }


def compare(connection: Connection) -> list[Any]:
    """Return the differences to the metadata, which cannot describe the full-text index; `describe_tables` compares that."""

    def is_described(_thing: Any, name: str | None, *_: Any) -> bool:
        return name != "words" and not (name or "").startswith("bookmark_words")

    return list(
        compare_metadata(MigrationContext.configure(connection, opts={"include_object": is_described}), metadata)
    )


def test_a_migrated_store_equals_a_new_one(empty_url: str) -> None:
    make_old(empty_url, with_feed=False)
    with Database(empty_url) as database:
        migrated = database.read_now(describe_tables)
        assert database.read_now(compare) == []

        def start_over(connection: Connection) -> None:
            metadata.drop_all(connection)
            connection.execute(text("DROP TABLE alembic_version"))

        database.write_now(start_over)
    with Database(empty_url) as database:
        assert database.read_now(describe_tables) == migrated
        assert database.read_now(compare) == []


def list_id_tables() -> list[str]:
    return sorted(table.name for table in metadata.tables.values() if table.autoincrement_column is not None)


@pytest.mark.parametrize("is_migrated", [False, True])
def test_no_table_of_sqlite_gives_an_id_twice(tmp_path: Path, *, is_migrated: bool) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    if is_migrated:
        make_old(url)
    Database(url).close()
    with closing(sqlite3.connect(tmp_path / "store.db")) as store:
        tables = dict(store.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
        assert [name for name in list_id_tables() if "AUTOINCREMENT" not in tables[name]] == []
        assert store.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_ids_that_a_migrated_store_remembers_are_not_given_again(tmp_path: Path) -> None:
    """A merge deleted bookmark 9, the one with the largest id, before AUTOINCREMENT."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    engine = _make_engine(url)
    with engine.begin() as connection:
        migrate.upgrade(connection, "0006")
        connection.exec_driver_sql(
            "INSERT INTO bookmark_merges (owner_id, same_key, kept_id, rows, why, created_at)"
            """ VALUES (1, 'k', 8, '[{"id": 8}, {"id": 9}]', 'review', 'now')"""
        )
        connection.exec_driver_sql("INSERT INTO feeds (id, key_url, url, created_at) VALUES (3, 'k', 'u', 'now')")
        connection.exec_driver_sql("INSERT INTO feed_aliases VALUES ('alias', 3)")
    engine.dispose()
    Database(url).close()
    with closing(sqlite3.connect(tmp_path / "store.db")) as store:
        last = dict(store.execute("SELECT name, seq FROM sqlite_sequence"))
        assert (last["bookmarks"], last["feeds"]) == (9, 3)
        assert store.execute("SELECT * FROM feed_aliases").fetchall() == [("alias", 3)]


def test_every_version_has_a_migration() -> None:
    """In the order of the chain, which need not be that of the numbers."""
    files = list((migrate.MIGRATIONS / "versions").glob("0*.py"))
    texts = {file.name[:4]: file.read_text() for file in files}
    assert sorted(texts) == sorted(VERSIONS)
    for before, version in pairwise(VERSIONS):
        assert f'\ndown_revision = "{before}"\n' in texts[version]
    for file in files:
        assert "canonry" not in file.read_text().partition('"""')[2].partition('"""')[2], "imports live code"


def test_an_old_store_is_backed_up_and_migrated(empty_url: str, tmp_path: Path) -> None:
    make_old(empty_url)
    messages: list[str] = []
    with Database(empty_url, say=messages.append) as database:
        assert database.read_now(read_version) == VERSIONS[-1]
        assert database.read_now(lambda on: on.execute(text("SELECT key_url FROM feeds")).scalar()) == "k"
    (message,) = messages
    named = re.search(rf"\S+\.before-{VERSIONS[-1]}-[^\s;]+", message)
    assert named is not None
    file = Path(named[0])
    if database.is_sqlite:
        assert file.parent == tmp_path
        with closing(sqlite3.connect(file)) as backup:
            assert backup.execute("SELECT version_num FROM alembic_version").fetchall() == [("0001",)]
            assert backup.execute("SELECT key_url FROM feeds").fetchall() == [("k",)]
    else:
        assert file.parent == tmp_path / "data" / "canonry"
        assert read_header(file).tables == "0001"
    with Database(empty_url, say=messages.append):
        assert len(messages) == 1


def test_a_failed_migration_leaves_the_store_as_it_was(
    empty_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old(empty_url)
    shutil.copytree(migrate.MIGRATIONS, tmp_path / "broken", ignore=shutil.ignore_patterns("__pycache__"))
    migration = tmp_path / "broken" / "versions" / "0002_cache_and_rekeys.py"
    migration.write_text(migration.read_text() + "    op.execute('INSERT INTO nowhere VALUES (1)')\n")
    monkeypatch.setattr(migrate, "MIGRATIONS", tmp_path / "broken")
    with pytest.raises(StoreError, match="nowhere.*was deleted"):
        Database(empty_url)
    assert list(tmp_path.rglob("*.before-*")) == [], "every further attempt would leave another copy"
    engine = _make_engine(empty_url)
    with engine.begin() as connection:
        assert read_version(connection) == "0001"
        assert "cache" not in inspect(connection).get_table_names()
        assert connection.execute(text("SELECT key_url FROM feeds")).scalar() == "k"
    engine.dispose()
    monkeypatch.undo()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with Database(empty_url) as database:
        assert database.read_now(read_version) == VERSIONS[-1]


def test_a_migration_that_makes_something_else_is_undone(
    empty_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old(empty_url)
    shutil.copytree(migrate.MIGRATIONS, tmp_path / "broken", ignore=shutil.ignore_patterns("__pycache__"))
    migration = tmp_path / "broken" / "versions" / "0002_cache_and_rekeys.py"
    migration.write_text(migration.read_text().replace('"expires_at"', '"expires"'))
    monkeypatch.setattr(migrate, "MIGRATIONS", tmp_path / "broken")
    with pytest.raises(StoreError, match="table cache"):
        Database(empty_url)
    engine = _make_engine(empty_url)
    with engine.begin() as connection:
        assert read_version(connection) == "0001"
    engine.dispose()


def test_a_store_that_cannot_be_backed_up_is_not_migrated(
    empty_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old(empty_url)
    monkeypatch.setattr(migrate, "_choose_backup_file", lambda _: Path("/dev/null/backup"))
    with pytest.raises(StoreError, match="/dev/null/backup"):
        Database(empty_url)
    engine = _make_engine(empty_url)
    with engine.begin() as connection:
        assert read_version(connection) == "0001"
    engine.dispose()


def test_a_backup_for_which_the_disk_has_no_space_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    make_old(f"sqlite:///{file}")
    with closing(sqlite3.connect(file)) as store, store:
        store.executemany(
            "INSERT INTO feeds (key_url, url, created_at) VALUES (?, 'u', 'now')", ((f"{n}",) for n in range(9999))
        )
    before = {each.name for each in tmp_path.iterdir()}
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size // 2, limit[1]))
    try:
        with pytest.raises(StoreError, match="not migrated"):
            Database(f"sqlite:///{file}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert {each.name for each in tmp_path.iterdir()} - {"store.db-wal", "store.db-shm"} == before
    Database(f"sqlite:///{file}").close()


def test_a_process_killed_during_the_backup_leaves_no_half_backup(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    make_old(f"sqlite:///{file}")
    code = (
        "import os, signal, sqlite3, sys\n"
        "from pathlib import Path\n"
        "from canonry.store.migrations import migrate\n"
        "class Killing(sqlite3.Connection):\n"
        "    def backup(self, target, **_):\n"
        "        super().backup(target, pages=1, progress=lambda *_: os.kill(os.getpid(), signal.SIGKILL))\n"
        "connect = sqlite3.connect\n"
        "sqlite3.connect = lambda file: connect(file, factory=Killing)\n"
        "migrate._copy(sys.argv[1], Path(sys.argv[1] + '.before-0032'))\n"
    )
    process = subprocess.run([sys.executable, "-c", code, str(file)], check=False)
    assert process.returncode == -signal.SIGKILL
    assert list(tmp_path.glob("*.before-*")) == []


def test_a_newer_store_is_refused_and_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "canonry.db"
    Database(f"sqlite:///{file}").close()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0999'")
    before = file.read_bytes()
    with pytest.raises(StoreError, match="0999"):
        Database(f"sqlite:///{file}")
    assert file.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["canonry.db"]


def test_a_newer_store_on_a_server_is_refused(postgres_url: str, empty_url: str) -> None:
    Database(empty_url).close()
    engine = _make_engine(empty_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0999'"))
    with pytest.raises(StoreError, match="newer canonry"):
        Database(empty_url)
    with engine.begin() as connection:
        assert read_version(connection) == "0999"
    engine.dispose()


def test_tables_of_something_else_are_left_alone(empty_url: str) -> None:
    engine = _make_engine(empty_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE entries (dedupe_key TEXT)"))
    with pytest.raises(StoreError, match="entries"):
        Database(empty_url)
    with engine.begin() as connection:
        assert inspect(connection).get_table_names() == ["entries"]
    engine.dispose()


@pytest.mark.parametrize(
    "url", ["", "nonsense", "sqlite://x.db", "postgresql://db:port/x", "postgresql://db:65536/x", "mysql://db/x"]
)
def test_a_text_that_is_no_url_of_a_database(url: str) -> None:
    with pytest.raises(InvalidStoreUrl) as caught:
        Database(url)
    assert str(caught.value).startswith(f"{url!r}: ")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("no database, but a text that is long enough to be taken for one" * 100)
    with pytest.raises(StoreError, match="not a database"):
        Database(f"sqlite:///{tmp_path / 'x.db'}")


def test_a_tilde_in_the_database_url_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    Database("sqlite:///~/deep/in/canonry.db").close()
    assert (tmp_path / "deep/in/canonry.db").exists()


def _open(url: str) -> list[str]:
    messages: list[str] = []
    with Database(url, say=messages.append) as database:
        assert database.read_now(read_version) == VERSIONS[-1]
    return messages


def test_processes_that_open_an_old_store_at_once_migrate_it_once(empty_url: str) -> None:
    make_old(empty_url)
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(abs, range(2)))  # both processes have started
        found = list(pool.map(_open, [empty_url] * 4))
    assert sorted(map(len, found)) == [0, 0, 0, 1]
