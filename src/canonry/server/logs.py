"""What the service says of itself, one line an event: for eyes, or as JSON (contract B9)."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from io import StringIO
from typing import TYPE_CHECKING, TextIO

import structlog

from canonry.errors import mask_credentials
from canonry.server.request_log import REQUEST_FIELDS, REQUESTS

if TYPE_CHECKING:
    from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger


def configure_logging(*, as_json: bool) -> None:
    """Have every logger write through structlog to standard error; calling it again changes the form."""
    shared: list[Processor] = [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso"),
        _said_once,
        _without_secrets,
    ]
    ends: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if as_json:
        ends += [structlog.processors.format_exc_info, _without_secrets, structlog.processors.JSONRenderer()]
    else:
        ends += [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_plain_traceback)]
    handler = logging.StreamHandler(sys.stderr)
    formatter = _QuickRequests if as_json else structlog.stdlib.ProcessorFormatter
    handler.setFormatter(formatter(processors=ends, foreign_pre_chain=shared))
    handler.set_name(__name__)
    root = logging.getLogger()
    for other in [each for each in root.handlers if each.get_name() == __name__]:
        root.removeHandler(other)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    for name in ("uvicorn", "uvicorn.error"):  # they speak through the root
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
    access = logging.getLogger("uvicorn.access")  # has whole URLs; ours are in watch.py
    access.handlers.clear()
    access.propagate = False


class _QuickRequests(structlog.stdlib.ProcessorFormatter):
    """Lines of requests, which are nearly all there are, without the many steps of others: they hold no secrets."""

    def format(self, record: logging.LogRecord) -> str:
        if record.name != REQUESTS:
            return super().format(record)
        told = {name: getattr(record, name) for name in REQUEST_FIELDS}
        told |= {"logger": REQUESTS, "level": "info", "event": record.msg, "timestamp": _stamp(record.created)}
        return json.dumps(told)


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _said_once(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """uvicorn hands its message over a second time, with colours."""
    event.pop("color_message", None)
    return event


def _without_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """User names and passwords of URLs are in no line."""
    for name, value in event.items():
        if isinstance(value, str) and "@" in value:
            event[name] = mask_credentials(value)
    return event


def _plain_traceback(line: TextIO, error: ExcInfo) -> None:
    text = StringIO()
    structlog.dev.plain_traceback(text, error)
    line.write(mask_credentials(text.getvalue()))
