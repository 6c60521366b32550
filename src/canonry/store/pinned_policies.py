"""The policies that a store is pinned to: its keys are made under them until a rekey (contract N10)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection, bindparam, insert, or_, select, update

from canonry.core.configured_overrides import get_remembered_overrides, remember_overrides
from canonry.core.overrides import parse_overrides
from canonry.core.presets import policy
from canonry.errors import PolicyError, PolicyRepinned, RekeyUnfinished
from canonry.store.schema import overrides_texts, pinned_policies, rekeys
from canonry.store.statements import Prepared

ENTRY, BOOKMARK = "entry", "bookmark"
# A new store starts with the newest version of these.
_POLICY_NAMES = {ENTRY: "entry", BOOKMARK: "bookmark"}
_SELECT_PINNED = Prepared(
    lambda _: (
        select(pinned_policies.c.policy)
        .where(pinned_policies.c.purpose == bindparam("purpose"))
        .with_for_update(read=True, key_share=True)
    )
)
_SELECT_UNFINISHED = Prepared(
    lambda _: select(rekeys.c.from_policy, rekeys.c.to_policy, rekeys.c.status).where(
        or_(rekeys.c.status == RekeyStatus.RUNNING, rekeys.c.status == RekeyStatus.UNDOING)
    )
)


class RekeyStatus(StrEnum):
    """The statuses of a rekey of feed entries; the database holds the values."""

    RUNNING = "running"
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"
    FORGOTTEN = "forgotten"  # done, and its journal is deleted


@dataclass(frozen=True, slots=True)
class UnfinishedRekey:
    """A rekey, or the undo of one, that was started and not finished."""

    from_policy: str
    to_policy: str
    status: RekeyStatus

    def __str__(self) -> str:
        command = f"canonry rekey {self.from_policy} {self.to_policy}"
        if self.status is RekeyStatus.UNDOING:
            return f"The undo of a rekey is unfinished. Run `{command} --undo` to finish it."
        return f"A rekey is unfinished. Run `{command}` to finish it, or add --undo to revert it."


@dataclass(frozen=True, slots=True)
class NewerPolicy:
    """A pinned policy, the newest version of it, and the version that the user was told about before."""

    purpose: str
    pinned: str
    newest: str
    announced: str

    def __str__(self) -> str:
        rows = "Bookmarks" if self.purpose == BOOKMARK else "Feed entries"
        return (
            f"{rows} of this store stay under {self.pinned}; {self.newest} is newer. To see what it would change, run "
            f"`canonry rekey {self.pinned} {self.newest} --dry-run`; the same without --dry-run moves them."
        )


def get_or_pin_policy(connection: Connection, purpose: str) -> str:
    """Return the id of the policy for new keys, pinning it at the first use; RekeyUnfinished during a rekey."""
    # Lock first, then look: on PostgreSQL a rekey then starts and ends only between writers of keys.
    found = _SELECT_PINNED.fetch_all(connection, purpose=purpose)
    if found:
        remember_stored_overrides(connection, found[0][0])
    if (rekey := find_unfinished_rekey(connection)) is not None:
        raise RekeyUnfinished(str(rekey))
    return str(found[0][0]) if found else pin_policy(connection, purpose)


def require_pinned(connection: Connection, purpose: str, policy_id: str) -> None:
    """Raise PolicyRepinned if the store has another policy; on PostgreSQL a rekey waits for this transaction."""
    for (pinned,) in _SELECT_PINNED.fetch_all(connection, purpose=purpose):
        if pinned != policy_id:
            raise PolicyRepinned(f"The policy is {pinned} now, no longer {policy_id}. Try again.")


def pin_policy(connection: Connection, purpose: str) -> str:
    """Pin the store to the newest policy of a purpose unless it is pinned; return the pinned id."""
    found = find_pinned(connection, purpose)
    if found is None:
        found = _get_first_policy(purpose)
        connection.execute(insert(pinned_policies).values(purpose=purpose, policy=found))
    return found


def lock_policy(connection: Connection, purpose: str) -> str:
    """Return the pinned policy and lock it: running merges end first, new ones wait for this transaction."""
    pin_policy(connection, purpose)
    query = select(pinned_policies.c.policy).where(pinned_policies.c.purpose == purpose)
    return str(connection.execute(query.with_for_update()).scalar_one())


def repin_policy(connection: Connection, purpose: str, policy_id: str) -> None:
    """Make new keys under another policy; the caller must move the old ones."""
    pin_policy(connection, purpose)
    store_overrides(connection, policy_id)
    # No announcement: a user who chooses a version knows that there are others.
    values = {"policy": policy_id, "announced": find_newest(policy_id)}
    connection.execute(update(pinned_policies).where(pinned_policies.c.purpose == purpose).values(values))


def get_policy(connection: Connection, purpose: str) -> str:
    """Return the id of the pinned policy, or the one that would be pinned; never writes."""
    return find_pinned(connection, purpose) or _get_first_policy(purpose)


def find_pinned(connection: Connection, purpose: str) -> str | None:
    """Return the id of the pinned policy, which this process can use then; None if no key was made yet."""
    query = select(pinned_policies.c.policy).where(pinned_policies.c.purpose == purpose)
    found = connection.execute(query).scalar()
    if found is not None:
        remember_stored_overrides(connection, found)
    return found


def store_overrides(connection: Connection, *policy_ids: str) -> None:
    """Store the overrides that these policies use: every process of the store then makes the same keys.

    PolicyError if the overrides of an id are neither stored nor configured.
    """
    remember_stored_overrides(connection, *policy_ids)
    for policy_id in policy_ids:
        overrides = policy(policy_id).overrides
        if overrides is not None and _find_text(connection, overrides.digest) is None:
            connection.execute(insert(overrides_texts).values(digest=overrides.digest, text=overrides.text))


def remember_stored_overrides(connection: Connection, *policy_ids: str) -> None:
    """Make the overrides that the store has for these policies known to this process."""
    for policy_id in policy_ids:
        digest = policy_id.partition("+")[2]
        if digest and get_remembered_overrides(digest) is None:
            text = _find_text(connection, digest)
            if text is not None:
                remember_overrides(parse_overrides(text, f"overrides +{digest} of the store"))


def _find_text(connection: Connection, digest: str) -> str | None:
    query = select(overrides_texts.c.text).where(overrides_texts.c.digest.startswith(digest, autoescape=True))
    return connection.execute(query).scalar()


def list_newer(connection: Connection) -> list[NewerPolicy]:
    """Return the pinned policies of which canonry has a newer version."""
    columns = (pinned_policies.c.purpose, pinned_policies.c.policy, pinned_policies.c.announced)
    found = [
        NewerPolicy(purpose, pinned, find_newest(pinned), announced)
        for purpose, pinned, announced in connection.execute(select(*columns).order_by(pinned_policies.c.purpose))
    ]
    return [each for each in found if each.newest != each.pinned]


def list_unannounced(connection: Connection) -> list[NewerPolicy]:
    """Return the pinned policies of which canonry has a newer version that the user was not told about."""
    return [each for each in list_newer(connection) if each.newest != each.announced]


def announce_newer(connection: Connection) -> list[NewerPolicy]:
    """Return what `list_unannounced` returns, once in the life of a store."""
    found = list_unannounced(connection)
    for each in found:
        condition = pinned_policies.c.purpose == each.purpose
        connection.execute(update(pinned_policies).where(condition).values(announced=each.newest))
    return found


def _get_first_policy(purpose: str) -> str:
    return policy(_POLICY_NAMES[purpose]).id


def find_newest(policy_id: str) -> str:
    """Return the newest version of a policy; the id itself if canonry does not ship it or overrides belong to it."""
    try:
        return policy_id if "+" in policy_id else policy(policy_id.partition("@")[0]).id
    except PolicyError:
        return policy_id


def find_unfinished_rekey(connection: Connection) -> UnfinishedRekey | None:
    """Return the rekey that is not finished, if there is one."""
    found = _SELECT_UNFINISHED.fetch_all(connection)
    if not found:
        return None
    from_policy, to_policy, status = found[0]
    return UnfinishedRekey(from_policy, to_policy, RekeyStatus(status))


def check_pinnable(name: str) -> str:
    """Return the id of a shipped policy; PolicyError for a file, because its rules may change while the id stays."""
    if name.endswith(".toml"):
        raise PolicyError("a store can be pinned to shipped policies only; list them with `canonry policies`", name)
    return policy(name).id
