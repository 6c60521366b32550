"""Columns that are not pyarrow objects, but have the Arrow C data interface."""

from __future__ import annotations

from typing import Any


class ArrowStream:
    """A chunked column, as polars and DuckDB export it."""

    def __init__(self, array: Any) -> None:
        import pyarrow as pa

        self._column = pa.chunked_array([array])

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._column.__arrow_c_stream__(requested_schema)


class ArrowArray:
    """A column in one chunk."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._array.__arrow_c_array__(requested_schema)
