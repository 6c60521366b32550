"""What DBOS says, for people who run canonry: a line each, and nothing again and again."""

from __future__ import annotations

import logging
import re

_SAID_BY_US = ("Exception encountered in asynchronous workflow", "Asyncio task cancelled")
_AGAIN_AFTER = 60.0  # seconds


def calm_dbos() -> None:
    """DBOS takes over its logger and the console unless somebody was there first."""
    logger = logging.getLogger("dbos")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
        logger.addFilter(_Calm())
        logger.setLevel(logging.WARNING)


class _Calm(logging.Filter):
    """Without what we say ourselves; while its database is away, DBOS tells in many lines every second."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if text.startswith(_SAID_BY_US):
            return False
        record.msg, record.args = _line(text), ()
        self._said = {line: when for line, when in self._said.items() if record.created < when + _AGAIN_AFTER}
        if record.msg in self._said:
            return False
        self._said[record.msg] = record.created
        return True


def _line(text: str) -> str:
    """The first line; of a traceback in a text, what was raised."""
    first, _, rest = text.strip().partition("\n")
    head, is_traceback, _ = first.partition("Traceback (most recent call last)")
    raised = re.findall(r"^[\w.]+: .*", rest, re.MULTILINE)
    return f"{head}{raised[-1]}" if is_traceback and raised else first
