"""The log of the service on standard error, one line per event: readable on a terminal, else JSON (contract B9)."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from io import StringIO
from typing import TYPE_CHECKING, TextIO

import structlog

from canonry.errors import mask_credentials
from canonry.server.request_log import REQUEST_FIELDS, REQUEST_LOGGER

if TYPE_CHECKING:
    from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger


def configure_logging(*, as_json: bool) -> None:
    """Send every logger through structlog to standard error; calling it again changes the format."""
    shared: list[Processor] = [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso"),
        _drop_color_message,
        _mask_secrets,
    ]
    last: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if as_json:
        last += [structlog.processors.format_exc_info, _mask_secrets, structlog.processors.JSONRenderer()]
    else:
        last += [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_write_traceback)]
    handler = logging.StreamHandler(sys.stderr)
    formatter = _JsonFormatter if as_json else structlog.stdlib.ProcessorFormatter
    handler.setFormatter(formatter(processors=last, foreign_pre_chain=shared))
    handler.set_name(__name__)
    root = logging.getLogger()
    for old in [each for each in root.handlers if each.get_name() == __name__]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    for name in ("uvicorn", "uvicorn.error"):  # they log through the root logger
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
    access = logging.getLogger("uvicorn.access")  # logs whole URLs; request_log.py logs without them
    access.handlers.clear()
    access.propagate = False


class _JsonFormatter(structlog.stdlib.ProcessorFormatter):
    """Formats request records, which are nearly all there are, without structlog: they contain no secrets."""

    def format(self, record: logging.LogRecord) -> str:
        if record.name != REQUEST_LOGGER:
            return super().format(record)
        event = {name: getattr(record, name) for name in REQUEST_FIELDS}
        timestamp = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        event |= {"logger": REQUEST_LOGGER, "level": "info", "event": record.msg, "timestamp": timestamp}
        return json.dumps(event)


def _drop_color_message(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Drop uvicorn's second copy of its message, the one with color codes."""
    event.pop("color_message", None)
    return event


def _mask_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Mask user names and passwords of URLs."""
    for name, value in event.items():
        if isinstance(value, str) and "@" in value:
            event[name] = mask_credentials(value)
    return event


def _write_traceback(line: TextIO, error: ExcInfo) -> None:
    text = StringIO()
    structlog.dev.plain_traceback(text, error)
    line.write(mask_credentials(text.getvalue()))
