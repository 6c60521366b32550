"""A pytest plugin that replaces every message of canonry by random words: `pytest -p reworded`.

Messages are the texts in calls of exceptions and failures, in log calls, in tables from an enum to sentences, and in
functions that describe something. A test that fails then shows code that decides by a sentence, or checks one itself.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import importlib.util
import random
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

    import pytest

SOURCE = Path(__file__).parents[1] / "src" / "canonry"
_WORDS = ("zebra", "teapot", "lantern", "gravel", "walnut", "ribbon", "copper", "meadow", "anchor", "violet")
_DESCRIBES = re.compile(
    r"_?(describe|explain|format|make)_\w*(reason|failure|error|text|message|problem)\w*|_?describe\w*"
)
_PLACEHOLDER = re.compile(r"(%[sdr]|%\.\d+f|\{[^{}]*\})")
_LOG_METHODS = {"debug", "info", "warning", "error", "exception"}
_random = random.Random(7)


def find_message_classes() -> set[str]:
    """Names of the classes whose arguments are messages: exceptions and failures of canonry."""
    names = {"PageFailure"}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and any(
                "Error" in base or base in names for base in map(_name, node.bases)
            ):
                names.add(node.name)
    errors = ast.parse((SOURCE / "errors.py").read_text(encoding="utf-8"))
    exceptions = {node.name for node in errors.body if isinstance(node, ast.ClassDef) and "Enum" not in _bases(node)}
    return names | exceptions


def _bases(node: ast.ClassDef) -> str:
    return " ".join(map(_name, node.bases))


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


class _Reword(ast.NodeTransformer):
    """Replace the words of messages; placeholders and formatted values stay."""

    def __init__(self, classes: set[str]) -> None:
        self._classes = classes
        self.count = 0

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        is_log = (
            isinstance(node.func, ast.Attribute) and _name(node.func.value) == "_log" and node.func.attr in _LOG_METHODS
        )
        if is_log or _name(node.func) in self._classes:
            node.args = [self._reword(each) for each in node.args]
            for keyword in node.keywords:
                if keyword.arg in {"reason", "detail"}:
                    keyword.value = self._reword(keyword.value)
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        if node.keys and all(isinstance(key, ast.Attribute) for key in node.keys):
            node.values = [self._reword(each) for each in node.values]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        if node.name == "__str__" or _DESCRIBES.fullmatch(node.name):
            for each in ast.walk(node):
                if isinstance(each, ast.Return) and each.value is not None:
                    each.value = self._reword(each.value)
        return node

    def _reword(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return ast.copy_location(ast.Constant(self._make_words(node.value)), node)
        if isinstance(node, ast.JoinedStr):
            node.values = [self._reword(each) if isinstance(each, ast.Constant) else each for each in node.values]
        elif isinstance(node, ast.IfExp):
            node.body, node.orelse = self._reword(node.body), self._reword(node.orelse)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            node.left, node.right = self._reword(node.left), self._reword(node.right)
        return node

    def _make_words(self, text: str) -> str:
        if not re.search(r"[a-z]{2}", text) or (" " not in text.strip() and not text.endswith(("%s", ": "))):
            return text
        self.count += 1
        parts = _PLACEHOLDER.split(text)
        return "".join(part if _PLACEHOLDER.fullmatch(part) else f" {_random.choice(_WORDS)} " for part in parts)


class _Loader(importlib.machinery.SourceFileLoader):
    """Compile a module with other words."""

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(Path(self.path).read_text(encoding="utf-8"), self.path)
        reword = _Reword(_CLASSES)
        tree = ast.fix_missing_locations(reword.visit(tree))
        REWORDED[fullname] = reword.count
        return builtins.compile(tree, self.path, "exec", dont_inherit=True)


class _Finder:
    """Find modules of canonry in the source folder."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if fullname.partition(".")[0] != "canonry":
            return None
        file = SOURCE.joinpath(*fullname.split(".")[1:])
        if (file / "__init__.py").is_file():
            file /= "__init__.py"
            return importlib.util.spec_from_file_location(
                fullname, file, loader=_Loader(fullname, str(file)), submodule_search_locations=[str(file.parent)]
            )
        file = file.with_suffix(".py")
        return (
            importlib.util.spec_from_file_location(fullname, file, loader=_Loader(fullname, str(file)))
            if file.is_file()
            else None
        )


_CLASSES = find_message_classes()
REWORDED: dict[str, int] = {}
for _module in [name for name in sys.modules if name.partition(".")[0] == "canonry"]:
    del sys.modules[_module]
sys.meta_path.insert(0, _Finder)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Print how many messages were replaced, so that a run without any is noticed."""
    del session
    print(f"\nreworded {sum(REWORDED.values())} messages of {len(REWORDED)} modules", file=sys.stderr)
