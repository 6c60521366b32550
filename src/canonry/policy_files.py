"""Load policies and overrides from files. Parsing is in `core/policy_toml.py` and `core/overrides.py`."""

from __future__ import annotations

import os

from canonry.core.presets import get_newest, policy
from canonry.url_errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from canonry.core.policy import Policy


def load_policy(path: str | os.PathLike[str], *, overrides: str | os.PathLike[str] | None = None) -> Policy:
    """Load a policy from a TOML file, with the overrides in a JSON file if one is given."""
    from canonry.core.policy_toml import parse_policy

    loaded = parse_policy(read_text(path), file=os.fspath(path))
    return loaded if overrides is None else load_overrides(loaded, overrides)


def load_overrides(base: Policy, path: str | os.PathLike[str]) -> Policy:
    """Return the policy with the overrides in a JSON file."""
    return base.with_overrides(read_text(path), file=os.fspath(path))


def choose_policy(name: str, overrides: str | None = None) -> Policy:
    """Find the policy that a user names: a shipped one or a TOML file, with an overrides file if given.

    Without one, `article` uses the configured overrides file and an id without digest, such as `article@0`, none. An
    id with a digest that another file has is a PolicyError.
    """
    if name.endswith(".toml"):
        return load_policy(name, overrides=overrides)
    if overrides is None:
        return policy(name)
    base, plus, _ = name.partition("+")
    chosen = load_overrides(policy(base) if "@" in base else get_newest(base), overrides)
    if plus and chosen.id != name:
        raise PolicyError(
            f"{name} needs other overrides. With this file, name it {chosen.id} or {chosen.name}.", overrides
        )
    return chosen


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a file; PolicyError if it cannot be read or is not UTF-8."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise PolicyError(f"cannot be read: {error.strerror}", os.fspath(path)) from None
    except UnicodeDecodeError as error:
        raise PolicyError("is not UTF-8", os.fspath(path), f"byte {error.start}") from None
