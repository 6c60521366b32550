"""Register the `canonry` namespace with polars and pandas, whichever are installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

_SUPPORTED_LIBRARIES = ("polars", "pandas")
LIBRARIES = tuple(library for library in _SUPPORTED_LIBRARIES if find_spec(library) is not None)
"""The libraries that were found and registered."""

if not LIBRARIES:
    raise ImportError("No data frame library is installed. Run: pip install polars, or: pip install pandas")
for library in LIBRARIES:
    import_module(f"canonry.bulk.{library}")
