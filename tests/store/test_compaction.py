"""A SQLite file is compacted if there is something to gain, and stays whole when that is interrupted."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from canonry.store.compaction import compact
from canonry.store.database import Database

if TYPE_CHECKING:
    from pathlib import Path

ROWS, TEXT = 2000, "x" * 2000
COMPACT = "import sys; from canonry.store.compaction import compact; from canonry.store.database import Database\n"
COMPACT += "with Database(sys.argv[1]) as database: print('ready', flush=True); compact(database)"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store of which most pages are free."""
    file = tmp_path / "canonry.db"
    with Database(f"sqlite:///{file}"):
        pass
    with closing(sqlite3.connect(file)) as connection, connection:
        values = [(f"n{n}", TEXT.encode(), "9999") for n in range(ROWS)]
        connection.executemany("INSERT INTO cache (name, value, expires_at) VALUES (?, ?, ?)", values)
        connection.execute("DELETE FROM cache WHERE rowid > 100")
    return file


def _count_rows(file: Path) -> tuple[str, int]:
    with closing(sqlite3.connect(file)) as connection:
        [check] = connection.execute("PRAGMA integrity_check").fetchone()
        return check, connection.execute("SELECT count(*) FROM cache").fetchone()[0]


def test_free_pages_go_back_to_the_disk_once(file: Path) -> None:
    before = file.stat().st_size
    with Database(f"sqlite:///{file}") as database:
        compacted = compact(database)
        assert compacted is not None
        assert (compacted.before, compacted.after) == (before, file.stat().st_size)
        assert compacted.after < before / 2
        assert file.with_name("canonry.db-wal").stat().st_size == 0
        assert compact(database) is None
    assert _count_rows(file) == ("ok", 100)


def test_a_store_in_memory_or_on_a_server_has_no_file(postgres_url: str) -> None:
    for url in ("sqlite://", postgres_url):
        with Database(url) as database:
            assert compact(database) is None


def test_a_killed_compaction_leaves_the_store_whole(file: Path) -> None:
    command = [sys.executable, "-c", COMPACT, f"sqlite:///{file}"]
    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            os.kill(process.pid, signal.SIGKILL)
        assert _count_rows(file) == ("ok", 100)
    with Database(f"sqlite:///{file}") as database:
        compact(database)
    assert _count_rows(file) == ("ok", 100)
