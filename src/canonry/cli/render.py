"""How answers look: tables and colours on a terminal, JSON lines when piped."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from canonry.core.url_diff import diff_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from canonry.core.explain import Step

    Look = dict[str, Any]

_DIM: Look = {"dim": True}
_BOLD: Look = {"bold": True}
_RULE: Look = {"fg": "cyan", "bold": True}
_GONE: Look = {"fg": "red", "strikethrough": True}
_CAME: Look = {"fg": "green", "bold": True}


def on_terminal(*, as_json: bool) -> bool:
    """Print for eyes? Not when piped, and not when JSON is asked for."""
    return not as_json and sys.stdout is not None and sys.stdout.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def print_json(record: object) -> None:
    """One JSON object on one line; dataclasses by their fields."""
    click.echo(json_line(record))


def json_line(record: object) -> str:
    """A record as one line of JSON; dataclasses by their fields."""
    return json.dumps(record, default=_fields)


def _fields(value: object) -> dict[str, object]:
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"no JSON for {value!r}")
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, err: bool = False) -> None:
    """Columns as wide as they must be; the last one runs on."""
    table = [tuple(headers), *(tuple(map(visible, row)) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(headers) - 1)]
    for number, row in enumerate(table):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        line = "  ".join([*cells, row[-1]]).rstrip()
        click.echo(style(line, _BOLD) if number == 0 else line, err=err)


class Bar:
    """How far a long job is, on one line of a terminal's standard error; nothing where there is none."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._is_watched = sys.stderr.isatty()
        self._next = 0.0

    def resize(self, total: int) -> None:
        """There is more to do than was known."""
        self._total = total

    def show(self, done: int, told: str) -> None:
        """Draw it, at most ten times a second."""
        now = time.monotonic()
        if not self._is_watched or (now < self._next and done < self._total):
            return
        self._next = now + 0.1
        filled = 20 * done // max(self._total, 1)
        line = f"[{'#' * filled}{'.' * (20 - filled)}] {done}/{self._total} {told}"
        click.echo(f"\r\033[K{line[: shutil.get_terminal_size().columns - 1]}", nl=False, err=True)

    def clear(self) -> None:
        """Leave the line to others."""
        if self._is_watched and self._next:
            self._next = 0.0
            click.echo("\r\033[K", nl=False, err=True)


def visible(text: str) -> str:
    """Text from outside, which may not steer the terminal."""
    return text if text.isprintable() else ascii(text)[1:-1]


def style(text: str, look: Look) -> str:
    """Coloured, unless the reader said NO_COLOR."""
    return text if "NO_COLOR" in os.environ else click.style(text, **look)


def bold(text: str) -> str:
    """What matters most."""
    return style(text, _BOLD)


def rule_label(rule: str) -> str:
    """A rule id as a reader finds it again everywhere."""
    return style(rule, _RULE)


def step_lines(step: Step) -> list[str]:
    """A step as two lines: rule and reason, then what changed in the URL."""
    return [f"{rule_label(step.rule)}  {style(step.reason, _DIM)}", f"  {token_diff(step.before, step.after)}"]


def token_diff(before: str, after: str) -> str:
    """The URL after the step with what went and what came marked, token by token."""
    shown = [
        change.removed
        if change.is_same
        else _marked(change.removed, "[-", "-]", _GONE) + _marked(change.added, "{+", "+}", _CAME)
        for change in diff_tokens(before, after)
    ]
    return "".join(shown)


def _marked(text: str, opening: str, closing: str, look: Look) -> str:
    if not text:
        return ""
    shown = visible(text)
    return f"{opening}{shown}{closing}" if "NO_COLOR" in os.environ else style(shown, look)
