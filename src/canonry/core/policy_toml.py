"""A user's own policy, from TOML text (contract N5).

name = "my-reader"
version = 1
base = "feed-moderate@1"        # optional: start from a shipped policy
strip_www = true
with_params = ["ref"]           # drop these too
without_params = ["mc_eid"]     # do not drop these
"""

from __future__ import annotations

import re
import tomllib
from typing import Any, cast

from canonry.core.policy import OPTIONS, Policy, refuse_shipped_name
from canonry.core.presets import policy
from canonry.errors import PolicyError

_KEYS = ("name", "version", "about", "base", "with_params", "without_params", *OPTIONS)
_POSITION = re.compile(r"(.*) \(at (.*)\)")


def parse_policy(text: str, *, file: str = "policy") -> Policy:
    """The policy in a TOML text; PolicyError with file, place and reason if anything is wrong."""
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
    except ValueError as error:  # a number too long to read
        raise PolicyError(str(error), place="top level") from None


def _make_policy(table: dict[str, Any]) -> Policy:
    for key in table:
        if key not in _KEYS:
            raise PolicyError(f"unknown key; known are {', '.join(_KEYS)}", place=key)
    for key in ("name", "version"):
        if key not in table:
            raise PolicyError("is missing", place=key)
    refuse_shipped_name(table["name"])
    with_params, without_params, base = (table.pop(key, None) for key in ("with_params", "without_params", "base"))
    made = Policy(**{**_get_base_options(base), **table})
    if with_params is not None:
        made = made.with_params(*_check_texts(with_params, "with_params"))
    if without_params is not None:
        made = made.without_params(*_check_texts(without_params, "without_params"))
    return made.with_name(made.name, made.version)


def _get_base_options(base: object) -> dict[str, Any]:
    if base is None:
        return {}
    if not isinstance(base, str):
        raise PolicyError("must be the name of a shipped policy", place="base")
    try:
        return policy(base).options()
    except PolicyError as error:
        raise PolicyError(error.reason, place="base") from None


def _check_texts(value: object, place: str) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(item, str) for item in items):
        raise PolicyError("must be a list of texts", place=place)
    return cast("list[str]", items)
