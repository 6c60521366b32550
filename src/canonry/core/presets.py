"""The policies canonry ships, found by name or id."""

from __future__ import annotations

from canonry.core.policy import Policy, get_shipped
from canonry.core.tables import POLICIES
from canonry.errors import PolicyError


def policy(name: str) -> Policy:
    """A shipped policy: `bookmark` is the newest version, `bookmark@1` that one for good."""
    return get_shipped(name if name in POLICIES else _find_newest(name))


def policies() -> list[Policy]:
    """Every shipped policy, old versions included."""
    return [get_shipped(policy_id) for policy_id in POLICIES]


def _find_newest(name: str) -> str:
    newest = _NEWEST.get(name)
    if newest is None:
        raise PolicyError(f"no policy {name!r}; shipped are {', '.join(POLICIES)}")
    return newest


# The tables list versions of a name in rising order.
_NEWEST = {policy_id.partition("@")[0]: policy_id for policy_id in POLICIES}
