"""Users, their tokens and their sessions; only digests of tokens and sessions are stored (contract B6, U4)."""

from __future__ import annotations

import hashlib
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, insert, select, text, update

from canonry.core.keys import replace_unstorable
from canonry.errors import StoreError, TokenNotFound
from canonry.store.schema import (
    bookmark_merges,
    bookmarks,
    import_rows,
    imports,
    metadata,
    rekeyed_bookmarks,
    sessions,
    stamp,
    tokens,
    users,
)
from canonry.store.statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy import Table, Update

    from canonry.store.database import Database

PERSONAL_OWNER_ID = 0  # owns all rows while a store has no users
SESSION_LIFETIME = timedelta(days=14)
OWNED_TABLES = tuple(table for table in metadata.sorted_tables if "owner_id" in table.columns)
MAX_TOKEN_NAME_CHARS = 100
_USE_PRECISION = timedelta(hours=1)
_MAX_USER_AGENT_CHARS = 300
_TOKEN_ID_CHARS = 16  # of the digest: enough to tell the tokens of one owner apart
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class AccountProblem(StrEnum):
    """Why a change of users or tokens was refused."""

    INVALID_NAME = "invalid_name"
    NAME_TAKEN = "name_taken"
    NO_SUCH_USER = "no_such_user"
    LAST_USER = "last_user"
    NAME_REQUIRED = "name_required"


_SENTENCES = {
    AccountProblem.INVALID_NAME: (
        "{name!r} is not a valid user name. Use 1 to 64 letters, digits, dots, dashes or underscores,"
        " with a letter or digit first."
    ),
    AccountProblem.NAME_TAKEN: (
        "There is already a user {name!r}. To make another token, run `canonry user token {name}`."
    ),
    AccountProblem.NO_SUCH_USER: "There is no user {name!r}. `canonry user list` shows all users.",
    AccountProblem.LAST_USER: (
        "{name!r} is the last user and cannot be removed: without users, every request from this machine acts as the"
        " owner. Add another user first."
    ),
    AccountProblem.NAME_REQUIRED: (
        "This store has users. Name the user whose token to make: `canonry user token NAME`."
    ),
}


class AccountError(StoreError):
    """A change of users or tokens that was refused."""

    def __init__(self, kind: AccountProblem, name: str = "") -> None:
        super().__init__(_SENTENCES[kind].format(name=name))
        self.kind = kind
        self.name = name


@dataclass(frozen=True, slots=True)
class User:
    """A user of the service. In a store without users, the owner is a user with an empty name."""

    id: int
    name: str
    is_admin: bool
    created_at: str = ""


PERSONAL_OWNER = User(PERSONAL_OWNER_ID, "", is_admin=True)
_USER_COLUMNS = (users.c.id, users.c.name, users.c.is_admin, users.c.created_at)
_USER_BY_TOKEN = Prepared(
    lambda _: (
        select(tokens.c.last_used_at, tokens.c.owner_id, *_USER_COLUMNS)
        .select_from(tokens.outerjoin(users, users.c.id == tokens.c.owner_id))
        .where(tokens.c.digest == bindparam("digest"))
    )
)
_USER_BY_SESSION = Prepared(
    lambda _: (
        select(sessions.c.last_used_at, sessions.c.owner_id, *_USER_COLUMNS)
        .select_from(sessions.outerjoin(users, users.c.id == sessions.c.owner_id))
        .where(sessions.c.digest == bindparam("digest"), sessions.c.expires_at > bindparam("now"))
    )
)
_COUNT_USERS = Prepared(lambda _: select(func.count()).select_from(users))


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A token without its secret; `last_used_at` may be an hour old, and is None if it was never used."""

    id: str
    name: str
    created_at: str
    last_used_at: str | None


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A browser that is signed in."""

    user_agent: str
    created_at: str
    last_used_at: str | None
    expires_at: str
    is_current: bool


class NewUser(NamedTuple):
    """A user that was just added, and their token, of which the store has only the digest."""

    user: User
    token: str


class UserStore:
    """The users of a database; every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def has_users(self) -> bool:
        """Return whether the store has users; without any it is in personal mode."""
        return await self.database.read(lambda connection: _COUNT_USERS.fetch_all(connection)[0][0] > 0)

    async def add(self, name: str, now: datetime, *, is_admin: bool = False) -> NewUser:
        """Add a user with a token; the first user is an admin and takes over everything of personal mode."""
        if not _NAME.fullmatch(name):
            raise AccountError(AccountProblem.INVALID_NAME, name)
        return await self.database.write(partial(_add, name=name, now=stamp(now), is_admin=is_admin))

    async def list_users(self) -> list[User]:
        """Return all users by name."""
        query = select(*_USER_COLUMNS).order_by(users.c.name)
        return await self.database.read(lambda connection: [_parse_user(row) for row in connection.execute(query)])

    async def remove(self, name: str) -> int:
        """Delete a user and all their data; return the number of their bookmarks."""
        return await self.database.write(partial(_remove, name=name))

    async def create_token(self, name: str, now: datetime, *, revokes: bool = False) -> str:
        """Return a new token, for the personal owner if `name` is empty; `revokes` deletes old tokens and sessions."""
        return await self.database.write(partial(_create_token, name=name, now=stamp(now), revokes=revokes))

    async def find_by_token(self, token: str, now: datetime | None = None) -> User | None:
        """Return the user of a token, None if there is none; with `now`, the time of use is stored."""
        digest = _make_digest(token)
        found = await self.database.read(partial(_USER_BY_TOKEN.fetch_all, digest=digest))
        await self._note_use(tokens, digest, found, now)
        return _find_user(found)

    async def open_session(self, owner: int, now: datetime, *, user_agent: str = "") -> str:
        """Start a session and return its secret; delete all sessions that have expired."""
        secret = secrets.token_urlsafe(32)
        values = {"digest": _make_digest(secret), "owner_id": owner, "expires_at": stamp(now + SESSION_LIFETIME)}
        values |= {"created_at": stamp(now), "user_agent": replace_unstorable(user_agent[:_MAX_USER_AGENT_CHARS])}

        def work(connection: Connection) -> None:
            connection.execute(delete(sessions).where(sessions.c.expires_at <= stamp(now)))
            connection.execute(insert(sessions).values(values))

        await self.database.write(work)
        return secret

    async def find_by_session(self, secret: str, now: datetime) -> User | None:
        """Return the user of a session, None if there is none or it has expired."""
        digest = _make_digest(secret)
        found = await self.database.read(partial(_USER_BY_SESSION.fetch_all, digest=digest, now=stamp(now)))
        await self._note_use(sessions, digest, found, now)
        return _find_user(found)

    async def _note_use(self, table: Table, digest: str, found: list[tuple[Any, ...]], now: datetime | None) -> None:
        """Note when a token or session was used, at most once an hour: reading must not become writing."""
        for last_used_at, *_ in found:
            if now is not None and (last_used_at is None or last_used_at < stamp(now - _USE_PRECISION)):
                change = update(table).where(table.c.digest == digest).values(last_used_at=stamp(now))
                with suppress(StoreError):  # a store that cannot be written can still be read
                    await self.database.write(partial(_execute, change=change))

    async def close_session(self, secret: str) -> None:
        """Delete a session."""
        change = delete(sessions).where(sessions.c.digest == _make_digest(secret))
        await self.database.write(lambda connection: connection.execute(change))


class AccountAccess:
    """The tokens and sessions that one owner sees on the account page; every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def list_tokens(self, owner: int) -> list[TokenInfo]:
        """Return the tokens, the newest first."""
        table = tokens.c
        query = select(table.digest, table.name, table.created_at, table.last_used_at).where(table.owner_id == owner)
        newest_first = query.order_by(table.created_at.desc(), table.digest)
        return await self.database.read(
            lambda connection: [
                TokenInfo(row.digest[:_TOKEN_ID_CHARS], row.name, row.created_at, row.last_used_at)
                for row in connection.execute(newest_first)
            ]
        )

    async def create_token(self, owner: int, name: str, now: datetime) -> str:
        """Return a new token; only its digest is stored."""
        return await self.database.write(partial(_insert_token, owner=owner, now=stamp(now), name=name))

    async def revoke_token(self, owner: int, token_id: str) -> None:
        """Delete a token; TokenNotFound if there is none."""
        await self.database.write(partial(_revoke, owner=owner, token_id=token_id))

    async def list_sessions(self, owner: int, now: datetime, *, current: str) -> list[SessionInfo]:
        """Return the sessions, the newest first; `current` is the secret of the session of this request."""
        table, digest = sessions.c, _make_digest(current)
        columns = (table.digest, table.user_agent, table.created_at, table.last_used_at, table.expires_at)
        query = select(*columns).where(table.owner_id == owner, table.expires_at > stamp(now))
        newest_first = query.order_by(table.expires_at.desc(), table.digest)
        return await self.database.read(
            lambda connection: [
                SessionInfo(row.user_agent, row.created_at, row.last_used_at, row.expires_at, row.digest == digest)
                for row in connection.execute(newest_first)
            ]
        )

    async def close_other_sessions(self, owner: int, *, current: str) -> int:
        """Delete all sessions but that of this request; return how many."""
        table = sessions.c
        change = delete(sessions).where(table.owner_id == owner, table.digest != _make_digest(current))
        return await self.database.write(lambda connection: connection.execute(change).rowcount)


def _execute(connection: Connection, change: Update) -> None:
    connection.execute(change)


def _find_user(found: list[tuple[Any, ...]]) -> User | None:
    """Return the user of the first row, None if there is no row or the user was removed."""
    for _, owner, *row in found:
        user_id, *_ = row
        if user_id is not None:
            return _parse_user(row)
        if owner == PERSONAL_OWNER_ID:
            return PERSONAL_OWNER
    return None


def _parse_user(row: Sequence[Any]) -> User:
    user_id, name, is_admin, created_at = row
    return User(user_id, name, bool(is_admin), created_at)


def _lock_users(connection: Connection) -> None:
    """Wait for other transactions that add or remove users: the first and the last user are special."""
    if connection.dialect.name == "postgresql":  # SQLite has one writer
        connection.execute(text("LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE"))


def _add(connection: Connection, name: str, now: str, *, is_admin: bool) -> NewUser:
    _lock_users(connection)
    if connection.execute(select(users.c.id).where(users.c.name == name)).first() is not None:
        raise AccountError(AccountProblem.NAME_TAKEN, name)
    is_first = connection.execute(select(users.c.id).limit(1)).first() is None
    row = {"name": name, "is_admin": int(is_admin or is_first), "created_at": now}
    user_id = connection.execute(insert(users).values(row).returning(users.c.id)).scalar_one()
    if is_first:
        connection.execute(delete(sessions))
        for table in OWNED_TABLES:
            connection.execute(update(table).where(table.c.owner_id == PERSONAL_OWNER_ID).values(owner_id=user_id))
    user = User(user_id, name, is_admin or is_first, now)
    return NewUser(user, _insert_token(connection, user_id, now))


def _remove(connection: Connection, name: str) -> int:
    _lock_users(connection)
    user_id = _get_id(connection, name)
    is_last = connection.execute(select(func.count()).select_from(users)).scalar_one() == 1
    if is_last:
        raise AccountError(AccountProblem.LAST_USER, name)
    # Rows without an owner that belong to a row that has one.
    for column, owned in (
        (import_rows.c.import_id, imports),
        (rekeyed_bookmarks.c.bookmark_id, bookmarks),
        (rekeyed_bookmarks.c.merge_id, bookmark_merges),
    ):
        own_ids = select(owned.c.id).where(owned.c.owner_id == user_id)
        connection.execute(delete(column.table).where(column.in_(own_ids)))
    rows = {
        table.name: connection.execute(delete(table).where(table.c.owner_id == user_id)).rowcount
        for table in OWNED_TABLES
    }
    connection.execute(delete(users).where(users.c.id == user_id))
    return rows[bookmarks.name]


def _create_token(connection: Connection, name: str, now: str, *, revokes: bool) -> str:
    if name:
        owner = _get_id(connection, name)
    elif connection.execute(select(users.c.id).limit(1)).first() is not None:
        raise AccountError(AccountProblem.NAME_REQUIRED)
    else:
        owner = PERSONAL_OWNER_ID
    if revokes:
        connection.execute(delete(tokens).where(tokens.c.owner_id == owner))
        connection.execute(delete(sessions).where(sessions.c.owner_id == owner))
    return _insert_token(connection, owner, now)


def _revoke(connection: Connection, owner: int, token_id: str) -> None:
    query = select(tokens.c.digest).where(tokens.c.owner_id == owner)
    digests: Sequence[str] = connection.execute(query).scalars().all()
    found = [digest for digest in digests if digest[:_TOKEN_ID_CHARS] == token_id]
    if not found:
        raise TokenNotFound(token_id)
    connection.execute(delete(tokens).where(tokens.c.owner_id == owner, tokens.c.digest.in_(found)))


def _get_id(connection: Connection, name: str) -> int:
    found: int | None = connection.execute(select(users.c.id).where(users.c.name == name)).scalar()
    if found is None:
        raise AccountError(AccountProblem.NO_SUCH_USER, name)
    return found


def _insert_token(connection: Connection, owner: int, now: str, name: str = "") -> str:
    """Store the digest of a new token and return the token."""
    token = secrets.token_urlsafe(32)
    values = {"digest": _make_digest(token), "owner_id": owner, "created_at": now, "name": name}
    connection.execute(insert(tokens).values(values))
    return token


def _make_digest(secret: str) -> str:
    """Return a plain digest: a secret of 256 random bits needs no salt and no slow hash."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
