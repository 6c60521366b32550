"""canonry for data frames: the namespaces of `canonry.bulk.polars` and `canonry.bulk.pandas`, of each that is here."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

_LIBRARIES = ("polars", "pandas")
LIBRARIES = tuple(library for library in _LIBRARIES if find_spec(library) is not None)
"""Those that were found and know `canonry` now."""

if not LIBRARIES:
    raise ImportError(f"no data frames here: pip install {' or '.join(_LIBRARIES)}")
for library in LIBRARIES:
    import_module(f"canonry.bulk.{library}")
