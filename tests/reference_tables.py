"""The tables of docs/reference.md that are made from the code: routes, metrics, settings."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from canonry.server.service import Options
from canonry.settings import MEANINGS, variable_of
from service import serving

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE = Path(__file__).parent.parent / "docs" / "reference.md"
_TABLE = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def tables() -> dict[str, str]:
    """Each table by its name, as Markdown."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(f"sqlite:///{folder}/x.db", Options(runs_jobs=False)) as running,
    ):
        paths = json.loads(running.get("/api/openapi.json").body)["paths"]
        metrics = running.get("/metrics").body.decode()
    routes = [
        (f"`{method.upper()} {path}`", operation.get("summary", ""))
        for path, operations in paths.items()
        for method, operation in operations.items()
    ]
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)", metrics, re.MULTILINE))
    helps = re.findall(r"^# HELP (\S+) (.*)", metrics, re.MULTILINE)
    return {
        "routes": _table(("route", "what it does"), routes),
        "metrics": _table(
            ("metric", "kind", "what it says"), [(f"`{name}`", kinds[name], said) for name, said in helps]
        ),
        "settings": _table(
            ("variable", "in `canonry.toml`", "what it is"),
            [(f"`{variable_of(name)}`", f"`{name}`", meaning) for name, meaning in MEANINGS.items()],
        ),
    }


def filled(text: str) -> str:
    """The page with its tables as they are today."""
    found = tables()
    return _TABLE.sub(lambda place: f"{place[1]}\n{found[place[2]]}\n{place[3]}", text)


def _table(headers: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [headers, ("---",) * len(headers), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
