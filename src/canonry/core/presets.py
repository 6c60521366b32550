"""The policies canonry ships, found by name or id."""

from __future__ import annotations

from canonry.core.policy import Policy
from canonry.core.tables import POLICIES
from canonry.errors import PolicyError

_made: dict[str, Policy] = {}


def policy(name: str) -> Policy:
    """A shipped policy: `bookmark` is the newest version, `bookmark@1` that one for good."""
    found = _made.get(name)
    if found is None:
        found = _made[name] = Policy(**POLICIES[_id(name)])
    return found


def policies() -> list[Policy]:
    """Every shipped policy, old versions included."""
    return [policy(policy_id) for policy_id in POLICIES]


def _id(name: str) -> str:
    if name in POLICIES:
        return name
    versions = [policy_id for policy_id in POLICIES if policy_id.partition("@")[0] == name]
    if not versions:
        raise PolicyError(f"no policy {name!r}; shipped are {', '.join(POLICIES)}")
    return max(versions, key=lambda policy_id: int(policy_id.partition("@")[2]))
