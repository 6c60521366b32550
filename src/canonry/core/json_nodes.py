"""Values of a JSON document with their positions, so that an error can say where a mistake is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import cast

from canonry.url_errors import PolicyError

TOP_LEVEL = "top level"


def parse_json(text: str, file: str) -> object:
    """Parse a JSON text; PolicyError with line and column on any mistake."""
    try:
        return json.loads(text, object_pairs_hook=_refuse_duplicate_keys)
    except json.JSONDecodeError as error:
        raise PolicyError(error.msg, file, f"line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise PolicyError("nested too deeply", file, TOP_LEVEL) from None
    except ValueError as error:
        raise PolicyError(str(error), file, TOP_LEVEL) from None


def _refuse_duplicate_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):
        repeated = sorted({key for key, _ in pairs if [name for name, _ in pairs].count(key) > 1})
        raise ValueError(f"duplicate key {repeated[0]!r} in an object")
    return values


@dataclass(frozen=True, slots=True)
class JsonNode:
    """A value of the file with its position, for the error messages."""

    value: object
    place: str
    file: str

    def make_error(self, reason: str) -> PolicyError:
        """Make an error that names the position."""
        return PolicyError(reason, self.file, self.place or TOP_LEVEL)

    def require_object(self, *required: str, optional: tuple[str, ...] = ()) -> dict[str, JsonNode]:
        """Return the values of an object by key; each required key must be there, and no unknown one."""
        if not isinstance(self.value, dict):
            raise self.make_error("must be an object")
        value = cast("dict[str, object]", self.value)  # pyright: ignore[reportUnknownMemberType]
        for key in required:
            if key not in value:
                raise self.make_error(f"key {key!r} is missing")
        for key in value:
            if key not in (*required, *optional):
                raise self.make_error(f"unknown key {key!r}")
        return {key: JsonNode(item, f"{self.place}.{key}".lstrip("."), self.file) for key, item in value.items()}

    def require_list(self) -> list[JsonNode]:
        """Return the items of a list."""
        if not isinstance(self.value, list):
            raise self.make_error("must be a list")
        items = cast("list[object]", self.value)  # pyright: ignore[reportUnknownMemberType]
        return [JsonNode(item, f"{self.place}[{index}]", self.file) for index, item in enumerate(items)]

    def require_text(self) -> str:
        """Return a string that is not empty."""
        if not isinstance(self.value, str) or not self.value:
            raise self.make_error("must be a string that is not empty")
        return self.value

    def require_flag(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            raise self.make_error("must be true or false")
        return self.value

    def require_choice(self, *choices: str) -> str:
        """Return a string that is one of these."""
        text = self.require_text()
        if text not in choices:
            raise self.make_error(f"{text!r} must be one of {', '.join(choices)}")
        return text
