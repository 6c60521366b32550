"""Users, their tokens and their sessions; of both only digests are kept (contract B6)."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from canonry.errors import StoreError
from canonry.store.schema import bookmark_merges, bookmarks, imports, sessions, stamp, tokens, users
from canonry.store.statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from canonry.store.database import Database

PERSONAL = 0  # the owner id of all rows while a store has no users
SESSION = timedelta(days=14)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who keeps bookmarks; the owner of a store without users is one without a name."""

    id: int
    name: str
    is_admin: bool
    created_at: str = ""


OWNER = User(PERSONAL, "", is_admin=True)
_USER = (users.c.id, users.c.name, users.c.is_admin, users.c.created_at)
_BY_TOKEN = Prepared(
    lambda _: (
        select(tokens.c.owner_id, *_USER)
        .select_from(tokens.outerjoin(users, users.c.id == tokens.c.owner_id))
        .where(tokens.c.digest == bindparam("digest"))
    )
)
_BY_SESSION = Prepared(
    lambda _: (
        select(sessions.c.owner_id, *_USER)
        .select_from(sessions.outerjoin(users, users.c.id == sessions.c.owner_id))
        .where(sessions.c.digest == bindparam("digest"), sessions.c.expires_at > bindparam("now"))
    )
)
_COUNT = Prepared(lambda _: select(func.count()).select_from(users))


class UserStore:
    """The users of a database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def has_users(self) -> bool:
        return await self.database.read(lambda connection: _COUNT.rows(connection)[0][0] > 0)

    async def add(self, name: str, now: datetime, *, is_admin: bool = False) -> tuple[User, str]:
        """A new user and a token; the first one is an admin, and gets what the owner without a name has kept."""
        if not _NAME.fullmatch(name):
            raise StoreError(f"{name!r}: a name is 1 to 64 letters, digits, dots, dashes or underscores")
        return await self.database.write(partial(_add, name=name, now=stamp(now), is_admin=is_admin))

    async def all(self) -> list[User]:
        query = select(*_USER).order_by(users.c.name)
        return await self.database.read(lambda connection: [_user(row) for row in connection.execute(query)])

    async def remove(self, name: str) -> int:
        """Forget a user with all bookmarks; how many those were."""
        return await self.database.write(partial(_remove, name=name))

    async def new_token(self, name: str, now: datetime, *, revokes: bool = False) -> str:
        """Another token, for the owner without a name where that is empty; in place of the old ones if asked."""
        return await self.database.write(partial(_new_token, name=name, now=stamp(now), revokes=revokes))

    async def by_token(self, token: str) -> User | None:
        """Whose token this is."""
        found = await self.database.read(partial(_BY_TOKEN.rows, digest=_digest(token)))
        return _known(found)

    async def open_session(self, owner: int, now: datetime) -> str:
        """The secret of a new session; sessions that have expired are forgotten."""
        secret = secrets.token_urlsafe(32)
        values = {"digest": _digest(secret), "owner_id": owner, "expires_at": stamp(now + SESSION)}

        def work(connection: Connection) -> None:
            connection.execute(delete(sessions).where(sessions.c.expires_at <= stamp(now)))
            connection.execute(insert(sessions).values(values))

        await self.database.write(work)
        return secret

    async def by_session(self, secret: str, now: datetime) -> User | None:
        """Whose session this is, unless it has expired."""
        found = await self.database.read(partial(_BY_SESSION.rows, digest=_digest(secret), now=stamp(now)))
        return _known(found)

    async def close_session(self, secret: str) -> None:
        gone = delete(sessions).where(sessions.c.digest == _digest(secret))
        await self.database.write(lambda connection: connection.execute(gone))


def _known(found: list[tuple[Any, ...]]) -> User | None:
    """The user of a row; an owner whose user is gone is nobody."""
    for owner, *row in found:
        if row[0] is not None:
            return _user(row)
        if owner == PERSONAL:
            return OWNER
    return None


def _user(row: Sequence[Any]) -> User:
    user_id, name, is_admin, created_at = row
    return User(user_id, name, bool(is_admin), created_at)


def _add(connection: Connection, name: str, now: str, *, is_admin: bool) -> tuple[User, str]:
    if connection.execute(select(users.c.id).where(users.c.name == name)).first() is not None:
        raise StoreError(f"{name!r}: there is a user of this name; `canonry user token {name}` makes another token")
    is_first = connection.execute(select(users.c.id).limit(1)).first() is None
    row = {"name": name, "is_admin": int(is_admin or is_first), "created_at": now}
    user_id = connection.execute(insert(users).values(row).returning(users.c.id)).scalar_one()
    if is_first:
        for table in (bookmarks, bookmark_merges, imports, tokens):
            connection.execute(update(table).where(table.c.owner_id == PERSONAL).values(owner_id=user_id))
        connection.execute(delete(sessions))
    return User(user_id, name, is_admin or is_first, now), _issue(connection, user_id, now)


def _remove(connection: Connection, name: str) -> int:
    user_id = _id_of(connection, name)
    is_last = connection.execute(select(func.count()).select_from(users)).scalar_one() == 1
    if is_last:
        raise StoreError(f"{name!r} is the last user: without one, everybody at this machine would be the owner")
    kept = 0
    for table in (tokens, sessions, imports, bookmark_merges, bookmarks):
        kept = connection.execute(delete(table).where(table.c.owner_id == user_id)).rowcount
    connection.execute(delete(users).where(users.c.id == user_id))
    return kept


def _new_token(connection: Connection, name: str, now: str, *, revokes: bool) -> str:
    if name:
        owner = _id_of(connection, name)
    elif connection.execute(select(users.c.id).limit(1)).first() is not None:
        raise StoreError("say whose token: there are users")
    else:
        owner = PERSONAL
    if revokes:
        connection.execute(delete(tokens).where(tokens.c.owner_id == owner))
        connection.execute(delete(sessions).where(sessions.c.owner_id == owner))
    return _issue(connection, owner, now)


def _id_of(connection: Connection, name: str) -> int:
    found: int | None = connection.execute(select(users.c.id).where(users.c.name == name)).scalar()
    if found is None:
        raise StoreError(f"{name!r}: no such user; `canonry user list` shows them")
    return found


def _issue(connection: Connection, owner: int, now: str) -> str:
    token = secrets.token_urlsafe(32)
    connection.execute(insert(tokens).values(digest=_digest(token), owner_id=owner, created_at=now))
    return token


def _digest(secret: str) -> str:
    """Of 256 random bits: no salt and no slow hash can make that harder to guess."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
