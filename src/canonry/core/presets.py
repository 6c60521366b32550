"""Find the policies that canonry ships, by name or id."""

from __future__ import annotations

from canonry.core.policy import Policy, get_shipped
from canonry.core.tables import POLICIES
from canonry.url_errors import PolicyError


def policy(name: str) -> Policy:
    """Return a shipped policy: the newest version for `bookmark`, that version for `bookmark@1`."""
    return get_shipped(name if name in POLICIES else _find_newest(name))


def policies() -> list[Policy]:
    """Return every shipped policy, old versions included."""
    return [get_shipped(policy_id) for policy_id in POLICIES]


def _find_newest(name: str) -> str:
    newest = _NEWEST.get(name)
    if newest is None:
        raise PolicyError(f"no policy {name!r}; the shipped policies are {', '.join(POLICIES)}")
    return newest


# The tables list the versions of a name in ascending order, so the last one wins.
_NEWEST = {policy_id.partition("@")[0]: policy_id for policy_id in POLICIES}
