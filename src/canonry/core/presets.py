"""Find the policies that canonry ships, by name or id."""

from __future__ import annotations

from canonry.core.configured_overrides import (
    DIGEST_DIGITS,
    TAKES_OVERRIDES,
    find_configured_overrides,
    get_remembered_overrides,
)
from canonry.core.policy import Policy, get_shipped
from canonry.core.suggest import suggest
from canonry.core.tables import POLICIES
from canonry.url_errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from canonry.core.overrides import Overrides


def policy(name: str) -> Policy:
    """Return a shipped policy: the newest version for `bookmark`, that version for `bookmark@1`.

    `article` uses the configured overrides file, if there is one. `article@0` never does, and
    `article@0+1a2b3c4d` raises PolicyError unless the overrides with this digest are known.
    """
    if name in POLICIES:
        return get_shipped(name)
    shipped_id, plus, digest = name.partition("+")
    if plus and shipped_id in POLICIES:
        return _add_overrides(shipped_id, _get_overrides(name, digest))
    overrides = find_configured_overrides() if name in TAKES_OVERRIDES else None
    return get_newest(name) if overrides is None else _add_overrides(_NEWEST[name], overrides)


def policies() -> list[Policy]:
    """Return every shipped policy, old versions included."""
    return [get_shipped(policy_id) for policy_id in POLICIES]


def get_newest(name: str) -> Policy:
    """Return the newest shipped version of a name, without overrides."""
    newest = _NEWEST.get(name)
    if newest is None:
        near = suggest(name, (*_NEWEST, *POLICIES))
        raise PolicyError(f"no policy {name!r}{near}; the shipped policies are {', '.join(POLICIES)}")
    return get_shipped(newest)


def _add_overrides(shipped_id: str, overrides: Overrides) -> Policy:
    """Return a shipped policy with these overrides; the latest results are kept, because checking takes time."""
    key = shipped_id, overrides.digest
    found = _WITH_OVERRIDES.get(key)
    if found is None:
        if len(_WITH_OVERRIDES) >= _MAX_WITH_OVERRIDES:
            _WITH_OVERRIDES.clear()
        found = _WITH_OVERRIDES[key] = get_shipped(shipped_id).with_overrides(overrides.text, file=overrides.file)
    return found


def _get_overrides(policy_id: str, digest: str) -> Overrides:
    """Return the overrides whose digest a policy id names: those that a store has, or the configured file."""
    remembered = get_remembered_overrides(digest)
    if remembered is not None:
        return remembered
    configured = find_configured_overrides()
    if configured is None:
        raise PolicyError(
            f"{policy_id} needs its overrides file, and none is configured."
            " Set --overrides, CANONRY_OVERRIDES, or overrides in canonry.toml."
        )
    if configured.digest[:DIGEST_DIGITS] != digest:
        raise PolicyError(
            f"{policy_id} needs other overrides: the configured file has the digest"
            f" +{configured.digest[:DIGEST_DIGITS]}. Configure the file with the digest +{digest},"
            f" or name the policy {policy_id.partition('+')[0]}+{configured.digest[:DIGEST_DIGITS]}.",
            configured.file,
        )
    return configured


_MAX_WITH_OVERRIDES = 64
_WITH_OVERRIDES: dict[tuple[str, str], Policy] = {}
# The tables list the versions of a name in ascending order, so the last one wins.
_NEWEST = {policy_id.partition("@")[0]: policy_id for policy_id in POLICIES}
