"""Opening a store that must be there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from canonry.errors import StoreError

if TYPE_CHECKING:
    from canonry.store.database import Database


def open_store(database_url: str) -> Database:
    """A store that exists: a mistyped name makes none."""
    from canonry.store.database import Database, store_file

    file = store_file(database_url)
    if file is not None and not file.exists():
        raise StoreError(f"{file}: there is no store yet")
    return Database(database_url, say=lambda line: click.echo(f"canonry: {line}", err=True))
