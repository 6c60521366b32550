"""Normalize files and columns of URLs: `run` for files, `arrow.normalize` for Arrow columns.

The public names are loaded at their first use, because pyarrow and numpy are an extra (`canonry[bulk]`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from canonry.bulk import arrow as arrow
    from canonry.bulk.job import BulkProgress as BulkProgress
    from canonry.bulk.job import BulkReport as BulkReport
    from canonry.bulk.job import Mode as Mode
    from canonry.bulk.run_job import run as run
    from canonry.errors import BulkError as BulkError

_MODULE_OF = {
    "BulkError": "canonry.errors",
    "BulkProgress": "canonry.bulk.job",
    "BulkReport": "canonry.bulk.job",
    "Mode": "canonry.bulk.job",
    "run": "canonry.bulk.run_job",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "arrow":  # reached by `import canonry` alone
        return import_module("canonry.bulk.arrow")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'canonry.bulk' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
