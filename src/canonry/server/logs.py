"""The log of the service and of workers on standard error: one line per event, as JSON or as text (contract B9, O).

Of a URL it has the scheme and the host, unless the process was started with --debug.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from io import StringIO
from typing import TYPE_CHECKING, Any, TextIO, cast

import structlog

from canonry.errors import mask_credentials
from canonry.masking import mask_urls
from canonry.server.request_log import REQUEST_FIELDS, REQUEST_LOGGER

if TYPE_CHECKING:
    from collections.abc import Callable

    from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger


def wants_json(log_format: str) -> bool:
    """Return whether the setting `log_format` asks for JSON: `auto` does unless standard error is a terminal."""
    return log_format == "json" or (log_format == "auto" and not sys.stderr.isatty())


def configure_logging(*, as_json: bool, level: str = "info", debug: bool = False) -> None:
    """Send every logger through structlog to standard error; calling it again changes the format.

    With `debug`, whole URLs are logged, without user names and passwords, and events of every level.
    """
    mask = mask_credentials if debug else mask_urls
    mask_secrets = _SecretMask(mask)
    shared: list[Processor] = [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso"),
        _drop_color_message,
        mask_secrets,
    ]
    last: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if as_json:
        last += [structlog.processors.format_exc_info, mask_secrets, structlog.processors.JSONRenderer()]
    else:
        last += [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_TracebackWriter(mask))]
    handler = logging.StreamHandler(sys.stderr)
    formatter = _JsonFormatter if as_json else structlog.stdlib.ProcessorFormatter
    handler.setFormatter(formatter(processors=last, foreign_pre_chain=shared))
    handler.set_name(__name__)
    number = logging.DEBUG if debug else logging.getLevelNamesMapping()[level.upper()]
    handler.setLevel(number)
    root = logging.getLogger()
    for old in [each for each in root.handlers if each.get_name() == __name__]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.getLogger("canonry").setLevel(number)  # events of libraries below INFO are never logged
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


class _SecretMask:
    """A processor that masks all texts of an event."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        self._mask = mask

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
        for name, value in event.items():
            event[name] = value if name.startswith("_") else self._mask_value(value)
        return event

    def _mask_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._mask(value) if ":" in value or "%" in value else value
        if isinstance(value, dict):
            return {name: self._mask_value(each) for name, each in cast("dict[object, object]", value).items()}
        if isinstance(value, list | tuple):  # also the tuple of an exception, which stays one
            masked = [self._mask_value(each) for each in cast("list[Any]", value)]
            return tuple(masked) if isinstance(value, tuple) else masked
        return value


class _TracebackWriter:
    """Write a traceback with masked texts."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        self._mask = mask

    def __call__(self, line: TextIO, error: ExcInfo) -> None:
        text = StringIO()
        structlog.dev.plain_traceback(text, error)
        line.write(self._mask(text.getvalue()))
