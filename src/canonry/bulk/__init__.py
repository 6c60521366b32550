"""Columns and files of URLs instead of single ones: `run` for files, `arrow.normalize` for columns."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from canonry.bulk.job import Mode as Mode
    from canonry.bulk.job import Progress as Progress
    from canonry.bulk.job import Report as Report
    from canonry.bulk.running import run as run
    from canonry.errors import BulkError as BulkError


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "run":
        return import_module("canonry.bulk.running").run
    if name == "BulkError":
        return import_module("canonry.errors").BulkError
    if name in {"Mode", "Progress", "Report"}:
        return getattr(import_module("canonry.bulk.job"), name)
    raise AttributeError(f"module 'canonry.bulk' has no attribute {name!r}")
