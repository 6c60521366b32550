"""The policies a store is pinned to: its keys are their answers until a rekey moves them (contract N10)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, insert, or_, select, update

from canonry.core.keys import ENTRY_POLICY
from canonry.core.presets import policy
from canonry.errors import PolicyError, RekeyUnfinished
from canonry.store.schema import pinned_policies, rekeys
from canonry.store.statements import Prepared

ENTRY, BOOKMARK = "entry", "bookmark"
RUNNING, DONE, UNDOING, UNDONE = "running", "done", "undoing", "undone"
_FIRST = {ENTRY: ENTRY_POLICY, BOOKMARK: "bookmark@1"}
_PINNED = Prepared(
    lambda _: (
        select(pinned_policies.c.policy)
        .where(pinned_policies.c.purpose == bindparam("purpose"))
        .with_for_update(read=True, key_share=True)
    )
)
_UNFINISHED = Prepared(
    lambda _: select(rekeys.c.from_policy, rekeys.c.to_policy, rekeys.c.status).where(
        or_(rekeys.c.status == RUNNING, rekeys.c.status == UNDOING)
    )
)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A rekey that was begun, or its undo."""

    from_policy: str
    to_policy: str
    status: str

    def __str__(self) -> str:
        command = f"canonry rekey {self.from_policy} {self.to_policy}"
        if self.status == UNDOING:
            return f"the undo of a rekey is unfinished: run `{command} --undo` to finish it"
        return f"a rekey is unfinished: run `{command}` to finish it, or with --undo to take it back"


def pinned(connection: Connection, purpose: str) -> str:
    """The id of the policy for new keys, pinned at the first use; RekeyUnfinished while a rekey is under way."""
    # The lock first, then the question: on PostgreSQL a rekey begins and ends only between writers of keys.
    found = _PINNED.rows(connection, purpose=purpose)
    if (rekey := unfinished(connection)) is not None:
        raise RekeyUnfinished(str(rekey))
    return str(found[0][0]) if found else pin(connection, purpose)


def pin(connection: Connection, purpose: str) -> str:
    """Pin a store that is not pinned yet; the id it is pinned to."""
    found = connection.execute(select(pinned_policies.c.policy).where(pinned_policies.c.purpose == purpose)).scalar()
    if found is None:
        connection.execute(insert(pinned_policies).values(purpose=purpose, policy=_FIRST[purpose]))
    return found or _FIRST[purpose]


def repin(connection: Connection, purpose: str, policy_id: str) -> None:
    """Have new keys under another policy; moving the old ones is the caller's."""
    pin(connection, purpose)
    connection.execute(update(pinned_policies).where(pinned_policies.c.purpose == purpose).values(policy=policy_id))


def pinned_or_first(connection: Connection, purpose: str) -> str:
    """The id of the policy for a purpose, or the one it would be pinned to: for readers, who pin nothing."""
    query = select(pinned_policies.c.policy).where(pinned_policies.c.purpose == purpose)
    return connection.execute(query).scalar() or _FIRST[purpose]


def unfinished(connection: Connection) -> Unfinished | None:
    """The rekey that is under way, if there is one."""
    found = _UNFINISHED.rows(connection)
    return Unfinished(*found[0]) if found else None


def pinnable(name: str) -> str:
    """The id of a policy a store can be pinned to; a file may say something else tomorrow, a shipped policy never."""
    if name.endswith(".toml"):
        raise PolicyError("a store can be pinned to shipped policies only, see `canonry policies`", name)
    return policy(name).id
