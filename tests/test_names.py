"""One name has one meaning: classes and modules have different names, functions are verbs, errors have one place."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

from canonry import errors

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


def test_module_names_are_unique() -> None:
    """A module of a command, of the API or of the pages may have the name of the capability that it shows."""
    surfaces = {"cli", "server"}
    names = Counter(Path(module).stem for module in MODULES if Path(module).parts[0] not in surfaces)
    assert {name for name, count in names.items() if count > 1} == {"__init__"}


def test_errors_says_where_every_error_is() -> None:
    """Errors that callers can meet are in errors.py, or its docstring names their place."""
    internal = {"jobs.worker.JobFailed", "server.problems.RequestRefused"}
    named = set(re.findall(r"`([a-z_.]+\.[A-Z]\w+)`", errors.__doc__ or ""))
    elsewhere = {place for place in find_errors() if place.rpartition(".")[0] not in {"errors", "url_errors"}}
    assert elsewhere == named | internal


def find_errors() -> set[str]:
    """Return every class that has CanonryError among its bases, as `module.Class`; class names are unique."""
    bases: dict[str, list[str]] = {}
    places: dict[str, str] = {}
    for module, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = [each.id for each in node.bases if isinstance(each, ast.Name)]
                places[node.name] = f"{module.removesuffix('.py').replace('/', '.')}.{node.name}"

    def is_error(name: str) -> bool:
        return name == "CanonryError" or any(map(is_error, bases.get(name, [])))

    return {place for name, place in places.items() if is_error(name)}


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
