"""One name has one meaning: classes of canonry have different names, and functions are verbs."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "canonry"
# Words that look like participles of a verb and are not, or are verbs themselves.
_NO_PARTICIPLES = {"read", "put", "feed", "feeds", "seed", "need", "embed"}
_PARTICIPLES = {
    "told",
    "said",
    "kept",
    "known",
    "shown",
    "made",
    "found",
    "given",
    "taken",
    "gone",
    "held",
    "left",
    "sent",
}


def parse_modules() -> dict[str, ast.Module]:
    """Parse every module of canonry, except the schema history."""
    files = [file for file in SOURCE.rglob("*.py") if "versions" not in file.parts]
    return {str(file.relative_to(SOURCE)): ast.parse(file.read_text(encoding="utf-8")) for file in files}


MODULES = parse_modules()


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "property" for each in function.decorator_list)


def is_participle(name: str) -> bool:
    """Whether a function is named by what was done (`merged`) instead of what it does (`merge`)."""
    first = name.strip("_").partition("_")[0]
    return first in _PARTICIPLES or (first.endswith("ed") and first not in _NO_PARTICIPLES)


def test_class_names_are_unique() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{module}:{node.lineno}")
    assert len(places) > 200
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_functions_are_verbs() -> None:
    participles = [
        f"{module}:{node.lineno} {node.name}"
        for module, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not is_property(node)
        and is_participle(node.name)
    ]
    assert participles == []


def test_participles_are_recognised() -> None:
    assert [
        name for name in ("merged", "_told", "kept_rows", "merge", "read_url", "put", "feed_url") if is_participle(name)
    ] == [
        "merged",
        "_told",
        "kept_rows",
    ]
