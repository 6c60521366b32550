"""Parse the lines of index files of web archives: CDX (a header names the columns) and CDXJ (key, time, JSON)."""

from __future__ import annotations

import json
from typing import cast

# The letters of a CDX header: https://iipc.github.io/warc-specifications/specifications/cdx-format/
_COLUMNS = {
    "N": "urlkey", "b": "timestamp", "a": "url", "m": "mime", "s": "status", "k": "digest", "r": "redirect",
    "M": "meta", "S": "length", "V": "offset", "g": "filename",
}  # fmt: skip
# Without a header, files have 6 to 11 columns, of which these are the same in all.
_COMMON_HEADER, _MAX_COLUMNS = "N b a m s k", 11
_OTHER_NAMES = {"uri": "url", "sha": "digest"}


class CdxParser:
    """Parse the lines of one file; its header says what the columns of the lines after it are."""

    def __init__(self) -> None:
        self._columns = _read_header(_COMMON_HEADER)
        self._max_columns = _MAX_COLUMNS

    def parse(self, line: str) -> dict[str, str | None] | None:
        """Return the columns of a line, `-` as None; an empty dictionary for a header, None if it is no such line."""
        text = line.strip()
        if not text or text.startswith("!"):  # `!OpenWayback-CDXJ 1.0`
            return {}
        if text.startswith("CDX "):
            self._columns = _read_header(text[4:])
            self._max_columns = len(self._columns)
            return {}
        if text.endswith("}"):
            return _parse_json_line(text)
        fields = text.split(" ")
        if not len(self._columns) <= len(fields) <= self._max_columns:
            return None
        return {name: None if field == "-" else field for name, field in zip(self._columns, fields, strict=False)}


def _read_header(letters: str) -> list[str]:
    return [_COLUMNS.get(letter, letter) for letter in letters.split()]


def _parse_json_line(text: str) -> dict[str, str | None] | None:
    start = text.find("{")
    head = dict(zip(("urlkey", "timestamp"), text[:start].split(), strict=False))
    try:
        parsed: object = json.loads(text[start:])
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict):
        return None
    columns: dict[str, str | None] = {**head}
    for name, value in cast("dict[str, object]", parsed).items():
        shown = value if isinstance(value, str) else None if value is None else json.dumps(value)
        columns[_OTHER_NAMES.get(name, name)] = None if shown == "-" else shown
    return columns if columns.get("url") else None
