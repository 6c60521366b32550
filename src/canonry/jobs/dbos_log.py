"""Shorten the log of DBOS: one line for each event, and no line repeated within a minute."""

from __future__ import annotations

import logging
import re

# Messages of DBOS about events that the worker logs itself.
_LOGGED_BY_WORKER = ("Exception encountered in asynchronous workflow", "Asyncio task cancelled")
_REPEAT_SECONDS = 60.0


def install_log_filter() -> None:
    """Install our filter before DBOS configures its logger and the console for itself."""
    logger = logging.getLogger("dbos")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
        logger.addFilter(_RepeatFilter())
        logger.setLevel(logging.WARNING)


class _RepeatFilter(logging.Filter):
    """Drop repeated lines: while its database is unreachable, DBOS logs many lines every second."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if text.startswith(_LOGGED_BY_WORKER):
            return False
        record.msg, record.args = _shorten(text), ()
        self._logged_at = {
            line: when for line, when in self._logged_at.items() if record.created < when + _REPEAT_SECONDS
        }
        if record.msg in self._logged_at:
            return False
        self._logged_at[record.msg] = record.created
        return True


def _shorten(text: str) -> str:
    """Return the first line; for a text that contains a traceback, the exception at its end."""
    first, _, rest = text.strip().partition("\n")
    head, is_traceback, _ = first.partition("Traceback (most recent call last)")
    raised = re.findall(r"^[\w.]+: .*", rest, re.MULTILINE)
    return f"{head}{raised[-1]}" if is_traceback and raised else first
