"""Print results: tables and colours on a terminal, JSON lines in a pipe."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any

import click

from canonry.core.url_diff import diff_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from canonry.core.explain import Step

    Look = dict[str, Any]

_MIN_WRAPPED_COLUMNS = 20  # narrower columns are left to the terminal
_DIM: Look = {"dim": True}
_BOLD: Look = {"bold": True}
_RULE: Look = {"fg": "cyan", "bold": True}
_REMOVED: Look = {"fg": "red", "strikethrough": True}
_ADDED: Look = {"fg": "green", "bold": True}


def is_for_terminal(*, as_json: bool) -> bool:
    """Whether to print for people: not in a pipe, and not with --json."""
    return not as_json and sys.stdout is not None and sys.stdout.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def print_json(record: object) -> None:
    """Print a record as one line of JSON; dataclasses by their fields."""
    click.echo(format_json(record))


def format_json(record: object) -> str:
    """Return a record as one line of JSON; dataclasses by their fields."""
    return json.dumps(record, default=_read_fields)


def _read_fields(value: object) -> dict[str, object]:
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"cannot convert {value!r} to JSON")
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, err: bool = False) -> None:
    """Print aligned columns; the last one is not padded, and on a terminal it is wrapped between words."""
    table = [tuple(headers), *(tuple(map(escape_control, row)) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(headers) - 1)]
    indent = sum(widths) + 2 * len(widths)
    stream = sys.stderr if err else sys.stdout
    room = shutil.get_terminal_size().columns - indent if stream.isatty() else 0
    for number, row in enumerate(table):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        for part, text in enumerate(_wrap(row[-1], room)):
            line = ("  ".join([*cells, text]) if part == 0 else " " * indent + text).rstrip()
            click.echo(style(line, _BOLD) if number == 0 else line, err=err)


def _wrap(text: str, width: int) -> list[str]:
    """Return a text as lines, broken between words only: a URL stays whole, so that it can be copied."""
    if width < _MIN_WRAPPED_COLUMNS or len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


class ProgressBar:
    """A progress bar on standard error; prints nothing where that is not a terminal."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._is_terminal = sys.stderr.isatty()
        self._next = 0.0

    def resize(self, total: int) -> None:
        """Change the total."""
        self._total = total

    def show(self, done: int, text: str) -> None:
        """Draw the bar, at most ten times a second."""
        now = time.monotonic()
        if not self._is_terminal or (now < self._next and done < self._total):
            return
        self._next = now + 0.1
        filled = 20 * done // max(self._total, 1)
        line = f"[{'#' * filled}{'.' * (20 - filled)}] {done}/{self._total} {text}"
        click.echo(f"\r\033[K{line[: shutil.get_terminal_size().columns - 1]}", nl=False, err=True)

    def clear(self) -> None:
        """Remove the bar."""
        if self._is_terminal and self._next:
            self._next = 0.0
            click.echo("\r\033[K", nl=False, err=True)


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 row`, `1,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def escape_control(text: str) -> str:
    """Return text with control characters escaped, so that it cannot control the terminal."""
    return text if text.isprintable() else ascii(text)[1:-1]


def style(text: str, look: Look) -> str:
    """Return styled text, or plain text if NO_COLOR is set."""
    return text if "NO_COLOR" in os.environ else click.style(text, **look)


def make_bold(text: str) -> str:
    """Return bold text."""
    return style(text, _BOLD)


def style_rule(rule: str) -> str:
    """Return a rule id in the style that all commands use."""
    return style(rule, _RULE)


def format_step(step: Step) -> list[str]:
    """Return a step as two lines: rule and reason, then the change of the URL."""
    return [f"{style_rule(step.rule)}  {style(step.reason, _DIM)}", f"  {format_diff(step.before, step.after)}"]


def format_diff(before: str, after: str) -> str:
    """Return the URL after a step with removed and added tokens marked."""
    shown = [
        change.removed
        if change.is_same
        else _mark(change.removed, "[-", "-]", _REMOVED) + _mark(change.added, "{+", "+}", _ADDED)
        for change in diff_tokens(before, after)
    ]
    return "".join(shown)


def _mark(text: str, opening: str, closing: str, look: Look) -> str:
    if not text:
        return ""
    shown = escape_control(text)
    return f"{opening}{shown}{closing}" if "NO_COLOR" in os.environ else style(shown, look)
