"""The feed store of a run of ingest, with one in memory to fall back on when the database fails (contract I6)."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import create_engine, make_url
from sqlalchemy.exc import SQLAlchemyError

from canonry.errors import InvalidStoreUrl, NewerStore, RekeyUnfinished, StoreError
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.unwritable_store import UnwritableFeedStore, is_readable
from canonry.store.database import Database, find_store_file
from canonry.store.schema_versions import VERSIONS, read_version

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")
_MEMORY_URL = "sqlite://"
_CONNECT_SECONDS = 10  # to a server that may be down


class FallbackStore:
    """Holds the feed store of a run, and replaces it by one in memory, with a warning, when the database fails.

    A database that can still be read is asked what is known.
    """

    def __init__(self, store: str | Database, warnings: list[str]) -> None:
        """`store` is a database URL, an open database, or empty for the database of the settings."""
        self._warnings = warnings
        self._opened: list[Database] = []
        self.is_persistent = True
        self.knows_feeds = True  # false once only the memory is used: there is nothing left to fall back on
        if isinstance(store, Database):
            self.store = FeedStore(store)
            return
        url = store or _load_default_url()
        try:
            self.store = FeedStore(self._open(url))
        except (InvalidStoreUrl, NewerStore):
            raise  # a mistake; a database that can be used, by a newer canonry
        except StoreError as error:
            if _is_unmigrated(url):
                raise  # its items cannot be asked for, and in memory all of them would be new
            self._use_memory(error)

    def close(self) -> None:
        """Close the databases that this object has opened."""
        for database in self._opened:
            database.close()

    async def run(self, work: Callable[[FeedStore], Awaitable[T]]) -> T:
        """Run the work with the store; if the database fails, run it again with a store in memory."""
        while True:
            store = self.store
            try:
                return await work(store)
            except RekeyUnfinished:
                raise  # the database can be used, once the rekey is finished
            except StoreError as error:
                if store is self.store and not self.knows_feeds:
                    raise
                await self._fall_back(store, error)

    async def _fall_back(self, store: FeedStore, error: StoreError) -> None:
        """Replace a store that has failed, unless another task has done so already."""
        is_asked = self.is_persistent and await is_readable(store.database)
        if store is not self.store:
            return
        if not is_asked:
            self._use_memory(error)
            return
        try:
            self.store = UnwritableFeedStore(store.database, self._open(_MEMORY_URL))
        except StoreError:
            self._use_memory(error)
            return
        self.is_persistent = False
        self._warnings.append(f"{error}; known items are recognised, but this run stores new ones in memory only")

    def _use_memory(self, error: StoreError) -> None:
        self.is_persistent = False
        self.knows_feeds = False
        self._warnings.append(f"{error}; this run stores items in memory only")
        self.store = FeedStore(self._open(_MEMORY_URL))

    def _open(self, url: str) -> Database:
        database = Database(url, say=self._warnings.append)
        self._opened.append(database)
        return database


def _is_unmigrated(url: str) -> bool:
    """Return whether a database can be read and has the tables of an older canonry."""
    file = find_store_file(url)
    if file is None:
        options = {"connect_timeout": _CONNECT_SECONDS}
        engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), connect_args=options)
    else:
        read_only = f"{file.resolve().as_uri()}?immutable=1"  # also without files beside it
        engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(read_only, uri=True))
    try:
        with engine.connect() as connection:
            return read_version(connection) in VERSIONS[:-1]
    except SQLAlchemyError:
        return False
    finally:
        engine.dispose()


def _load_default_url() -> str:
    from canonry.settings import load_settings

    return load_settings().database_url
