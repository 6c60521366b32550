"""Parse a user's policy from TOML text (contract N5); `policy_files.py` reads the file.

name = "my-reader"
version = 1
base = "feed-moderate@1"        # optional: the shipped policy to start from
strip_www = true
with_params = ["ref"]           # drop these too
without_params = ["mc_eid"]     # keep these
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from canonry.core.policy import OPTIONS, Policy, get_shipped
from canonry.core.policy_checks import check_strings, refuse_shipped_name
from canonry.core.presets import get_newest
from canonry.core.suggest import suggest
from canonry.core.tables import POLICIES
from canonry.url_errors import PolicyError

_KEYS = ("name", "version", "about", "base", "with_params", "without_params", *OPTIONS)
# tomllib has the position of an error only in its message (Python 3.14 adds `lineno` and `colno`).
_POSITION = re.compile(r"(.*) \(at (.*)\)")


def parse_policy(text: str, *, file: str = "policy") -> Policy:
    """Make the policy that a TOML text describes; PolicyError with file, place and reason on any mistake."""
    try:
        return _make_policy(_parse_toml(text))
    except PolicyError as error:
        raise PolicyError(error.reason, file, error.place) from None


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        position = _POSITION.fullmatch(str(error))
        reason, place = position.groups() if position else (str(error), "")
        raise PolicyError(reason, place=place) from None
    except RecursionError:
        raise PolicyError("nested too deeply", place="top level") from None
    except ValueError as error:  # a number with too many digits
        raise PolicyError(str(error), place="top level") from None


def _make_policy(table: dict[str, Any]) -> Policy:
    for key in table:
        if key not in _KEYS:
            raise PolicyError(f"unknown key{suggest(key, _KEYS)}; the known keys are {', '.join(_KEYS)}", place=key)
    for key in ("name", "version"):
        if key not in table:
            raise PolicyError("is missing", place=key)
    refuse_shipped_name(table["name"])
    with_params, without_params, base = (table.pop(key, None) for key in ("with_params", "without_params", "base"))
    made = Policy(**{**_get_base_options(base), **table})
    if with_params is not None:
        made = made.with_params(*check_strings(with_params, "with_params"))
    if without_params is not None:
        made = made.without_params(*check_strings(without_params, "without_params"))
    return made.with_name(made.name, made.version)


def _get_base_options(base: object) -> dict[str, Any]:
    if base is None:
        return {}
    if not isinstance(base, str):
        raise PolicyError("must be the name of a shipped policy, such as bookmark or bookmark@1", place="base")
    try:
        return (get_shipped(base) if base in POLICIES else get_newest(base)).options()
    except PolicyError as error:
        raise PolicyError(error.reason, place="base") from None
