"""Columns that are no pyarrow objects and can only be had through the Arrow C data interface."""

from __future__ import annotations

from typing import Any


class Stream:
    """A column as polars and DuckDB hand it out."""

    def __init__(self, array: Any) -> None:
        import pyarrow as pa

        self._column = pa.chunked_array([array])

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._column.__arrow_c_stream__(requested_schema)


class Array:
    """A column in one piece."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._array.__arrow_c_array__(requested_schema)
