"""Why a bookmark file, or a row of one, cannot be imported: kinds for code, sentences for people (contract B8)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from canonry.errors import CanonryError


class FileProblem(StrEnum):
    """Why a file cannot be read as bookmarks."""

    TOO_LARGE = "too_large"
    EMPTY = "empty"
    TOO_MANY_ROWS = "too_many_rows"
    TOO_MANY_REFUSED = "too_many_refused"
    TOO_COMPLEX = "too_complex"  # more tags, lists or nested folders than a bookmark file needs
    OPML = "opml"  # a list of feeds
    NOT_NETSCAPE = "not_netscape"
    NOT_JSON = "not_json"
    NOT_A_LIST = "not_a_list"
    NO_URL_COLUMN = "no_url_column"
    LINE_TOO_LONG = "line_too_long"


class BadBookmarkFile(CanonryError):
    """A file that cannot be read as bookmarks; nothing of it is imported."""

    def __init__(self, kind: FileProblem, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


class RowProblem(StrEnum):
    """Why a row of a file is not a bookmark."""

    NOT_AN_OBJECT = "not_an_object"
    EMPTY = "empty"
    EXTRA_CELLS = "extra_cells"
    BAD_CSV = "bad_csv"
    INVALID_URL = "invalid_url"
    NOT_TEXT = "not_text"
    LONE_SURROGATE = "lone_surrogate"
    NOT_A_LIST = "not_a_list"
    NOT_A_BOOLEAN = "not_a_boolean"
    NOT_A_TIME = "not_a_time"
    TOO_LONG = "too_long"
    TOO_MANY = "too_many"
    OTHER = "other"  # stored by an earlier version, which had no kinds


_SENTENCES = {
    RowProblem.NOT_AN_OBJECT: "not a JSON object",
    RowProblem.EMPTY: "an empty object",
    RowProblem.EXTRA_CELLS: "more cells than the header has columns",
    RowProblem.BAD_CSV: "not valid CSV: {detail}",
    RowProblem.INVALID_URL: "{field}: {detail}",
    RowProblem.NOT_TEXT: "{field} is not text",
    RowProblem.LONE_SURROGATE: "{field} contains a lone surrogate, which is not text",
    RowProblem.NOT_A_LIST: "{field} is not a list of texts",
    RowProblem.NOT_A_BOOLEAN: "{field} is neither yes nor no",
    RowProblem.NOT_A_TIME: "{field} is not a time from the year 1000 on: {detail}",
    RowProblem.TOO_LONG: "{field} is longer than {limit:,} characters",
    RowProblem.TOO_MANY: "{field} has more than {limit:,} values",
}


class RowRefused(Exception):
    """A row, or a field of it, that cannot be imported."""

    def __init__(self, kind: RowProblem, field: str = "", *, detail: str = "", limit: int = 0) -> None:
        super().__init__(kind, field, detail, limit)
        self.kind = kind
        self.field = field
        self.detail = detail
        self.limit = limit

    def __str__(self) -> str:
        return _SENTENCES[self.kind].format(field=self.field, detail=self.detail, limit=self.limit)


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that was not imported: its number (in CSV that of the row, else of the link or object) and its text."""

    row: int
    text: str
    reason: str
    kind: RowProblem
