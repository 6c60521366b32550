"""Opening a store; what that has to say goes to standard error."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from canonry.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Generator

    from canonry.accounts import UserStore
    from canonry.feeds.feed_store import FeedStore
    from canonry.store.database import Database


def open_store(database_url: str, *, must_exist: bool = True) -> Database:
    """A store; a mistyped name makes none where it must be there."""
    from canonry.store.database import Database, find_store_file

    file = find_store_file(database_url)
    if must_exist and file is not None and not file.exists():
        raise StoreError(f"{file}: there is no store yet")
    return Database(database_url, say=lambda line: click.echo(f"canonry: {line}", err=True))


@contextmanager
def open_feeds(database_url: str) -> Generator[FeedStore]:
    """The feeds of a store, made where there is none."""
    from canonry.feeds.feed_store import FeedStore

    with open_store(database_url, must_exist=False) as database:
        yield FeedStore(database)


@contextmanager
def open_users(database_url: str) -> Generator[UserStore]:
    """The users of a store, made where there is none."""
    from canonry.accounts import UserStore

    with open_store(database_url, must_exist=False) as database:
        yield UserStore(database)
