"""What gives access to an account: its tokens and sessions, with when each was last used (contract U4)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, select

from canonry.accounts import insert_token, make_digest
from canonry.errors import TokenNotFound
from canonry.store.schema import sessions, stamp, tokens

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from canonry.store.database import Database

MAX_TOKEN_NAME_CHARS = 100
_ID_CHARS = 16  # of the digest: enough to tell the tokens of one owner apart


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


class AccountAccess:
    """The tokens and sessions of a database; every method is one transaction and sees one owner's only."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def list_tokens(self, owner: int) -> list[TokenInfo]:
        """Return the tokens, the newest first."""
        table = tokens.c
        query = select(table.digest, table.name, table.created_at, table.last_used_at).where(table.owner_id == owner)
        newest_first = query.order_by(table.created_at.desc(), table.digest)
        return await self.database.read(
            lambda connection: [
                TokenInfo(row.digest[:_ID_CHARS], row.name, row.created_at, row.last_used_at)
                for row in connection.execute(newest_first)
            ]
        )

    async def create_token(self, owner: int, name: str, now: datetime) -> str:
        """Return a new token; only its digest is stored."""
        return await self.database.write(partial(insert_token, owner=owner, now=stamp(now), name=name))

    async def revoke_token(self, owner: int, token_id: str) -> None:
        """Delete a token; TokenNotFound if there is none."""
        await self.database.write(partial(_revoke, owner=owner, token_id=token_id))

    async def list_sessions(self, owner: int, now: datetime, *, current: str) -> list[SessionInfo]:
        """Return the sessions, the newest first; `current` is the secret of the one that asks."""
        table, digest = sessions.c, make_digest(current)
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
        """Delete all sessions but the one that asks; return how many."""
        table = sessions.c
        change = delete(sessions).where(table.owner_id == owner, table.digest != make_digest(current))
        return await self.database.write(lambda connection: connection.execute(change).rowcount)


def _revoke(connection: Connection, owner: int, token_id: str) -> None:
    query = select(tokens.c.digest).where(tokens.c.owner_id == owner)
    digests: Sequence[str] = connection.execute(query).scalars().all()
    found = [digest for digest in digests if digest[:_ID_CHARS] == token_id]
    if not found:
        raise TokenNotFound(token_id)
    connection.execute(delete(tokens).where(tokens.c.owner_id == owner, tokens.c.digest.in_(found)))
