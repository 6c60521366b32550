"""Regular expressions give the same result on every supported Python.

Before Python 3.11.5 a possessive group that fails after its first characters still consumes them: `(?:url\\s*=)?+`
consumes the `url` of `urls`. An atomic group does not, so only those are repeated possessively: `(?>url\\s*=)?+`.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import TYPE_CHECKING, Any

import pytest

import canonry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PARSER: Any = importlib.import_module("re._parser")
_ONE_CHARACTER = {"ANY", "IN", "LITERAL", "NOT_LITERAL"}
# A hot pattern for which an atomic group is too slow; none of its groups can fail after a repetition.
_KNOWN = {"canonry.core.url._PLAIN"}


def find_patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    for found in pkgutil.walk_packages(canonry.__path__, "canonry."):
        if "migrations" not in found.name and not found.name.endswith("__main__"):
            for name, value in vars(importlib.import_module(found.name)).items():
                if isinstance(value, re.Pattern):
                    yield f"{found.name}.{name}", value


def consumes_failed_groups(parsed: Iterable[Any]) -> bool:
    """Whether the pattern repeats a group possessively that is not atomic."""
    for operation, argument in parsed:
        if str(operation) == "POSSESSIVE_REPEAT":
            body = [str(inner) for inner, _ in argument[2]]
            if body != ["ATOMIC_GROUP"] and not (len(body) == 1 and body[0] in _ONE_CHARACTER):
                return True
        if any(consumes_failed_groups(inner) for inner in _find_subpatterns(argument)):
            return True
    return False


def _find_subpatterns(argument: Any) -> Iterator[Any]:
    for part in argument if isinstance(argument, tuple | list) else [argument]:
        if isinstance(part, _PARSER.SubPattern):
            yield part
        elif isinstance(part, list):
            yield from (each for each in part if isinstance(each, _PARSER.SubPattern))


def test_possessive_groups_are_atomic() -> None:
    patterns = dict(find_patterns())
    assert len(patterns) > 40 and patterns.keys() >= _KNOWN
    wrong = {name for name, found in patterns.items() if consumes_failed_groups(_PARSER.parse(found.pattern))}
    assert wrong == _KNOWN


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        (r"(?:url\s*=)?+", True),
        (r"a|b(?:(c(?:dd|e)*+)f)", True),
        (r"(?=(?:ab)++)", True),
        (r"(?>url\s*=)?+", False),
        (r"[a-z]*+a?+\s++.{0,3}+[^b]*+", False),
    ],
)
def test_possessive_groups_are_recognised(pattern: str, wanted: bool) -> None:
    assert consumes_failed_groups(_PARSER.parse(pattern)) is wanted
