"""Rule 12: parse a user's overrides from JSON text and apply them to a URL (contract N4, N5).

{"overrides": [{"match": {"host": "example.com"},
                "drop_query_params": ["src"],
                "rewrite_rules": [{"from_prefix": "https://example.com/amp/",
                                   "to_prefix": "https://example.com/"}]}]}
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from canonry.core.rules import drop_params, is_param_name, make_name_matcher
from canonry.core.url import Parts, parse
from canonry.url_errors import InvalidUrl, PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

_SCHEME_AND_HOST = re.compile(r"https?://[^/?#\\]+/", re.IGNORECASE)
_TOP_LEVEL = "top level"
_INCOMPLETE_ESCAPE_AT_END = re.compile(r"%[0-9A-Fa-f]?\Z")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A prefix and its replacement; `place` is the position of the rule in the file."""

    from_prefix: str
    to_prefix: str
    place: str


@dataclass(frozen=True, slots=True)
class Override:
    """The extra rules for one host."""

    host: str
    drop_query_params: tuple[str, ...]
    rewrites: tuple[Rewrite, ...]
    is_dropped: Callable[[str], bool] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Overrides:
    """All overrides of a file, by host; `digest` is the sha256 of its text."""

    digest: str
    text: str = field(compare=False, repr=False)
    file: str = field(compare=False)
    by_host: dict[str, Override] = field(compare=False, repr=False)

    def __reduce__(self) -> tuple[Callable[[str, str], Overrides], tuple[str, str]]:
        return parse_overrides, (self.text, self.file)

    def apply(self, text: str, parts: Parts) -> str:
        """Return the URL after one pass of the override for its host; `parts` are the parts of `text`."""
        override = self.by_host.get(parts.host)
        if override is None:
            return text
        query = drop_params(parts.query, override.is_dropped)
        if query != parts.query:
            parts.query = query
            text = str(parts)
        return _rewrite_prefix(text, override.rewrites)


def _rewrite_prefix(text: str, rewrites: tuple[Rewrite, ...]) -> str:
    """Apply the first rewrite whose prefix matches, and repeat until none does: `/amp/amp/x` → `/x`.

    The URL is held as `head + text[at:]`, so that a megabyte of `/amp/amp/…` takes one pass.
    """
    head, at = "", 0
    longest = max((len(rewrite.from_prefix) for rewrite in rewrites), default=0)
    while True:
        start = head + text[at : at + longest]
        match = next((rewrite for rewrite in rewrites if start.startswith(rewrite.from_prefix)), None)
        if match is None:
            return head + text[at:]
        at += max(0, len(match.from_prefix) - len(head))
        head = match.to_prefix + head[len(match.from_prefix) :]


def parse_overrides(text: str, file: str) -> Overrides:
    """Parse the overrides in a JSON text; PolicyError with file, place and reason on any mistake."""
    try:
        digest = hashlib.sha256(text.encode()).hexdigest()
    except (UnicodeEncodeError, AttributeError):
        raise PolicyError("must be text", file, _TOP_LEVEL) from None
    document = _Node(_parse_json(text, file), "", file)
    overrides: dict[str, Override] = {}
    for node in document.require_object("overrides")["overrides"].require_list():
        override = _parse_override(node)
        overrides.setdefault(override.host, override)  # the first override of a host wins
    return Overrides(digest, text, file, overrides)


def _parse_json(text: str, file: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_refuse_duplicate_keys)
    except json.JSONDecodeError as error:
        raise PolicyError(error.msg, file, f"line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise PolicyError("nested too deeply", file, _TOP_LEVEL) from None
    except ValueError as error:
        raise PolicyError(str(error), file, _TOP_LEVEL) from None


def _refuse_duplicate_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):
        repeated = sorted({key for key, _ in pairs if [name for name, _ in pairs].count(key) > 1})
        raise ValueError(f"duplicate key {repeated[0]!r} in an object")
    return values


@dataclass(frozen=True, slots=True)
class _Node:
    """A value of the file with its position, for the error messages."""

    value: object
    place: str
    file: str

    def make_error(self, reason: str) -> PolicyError:
        return PolicyError(reason, self.file, self.place or _TOP_LEVEL)

    def require_object(self, *required: str, optional: tuple[str, ...] = ()) -> dict[str, _Node]:
        if not isinstance(self.value, dict):
            raise self.make_error("must be an object")
        value = cast("dict[str, object]", self.value)  # pyright: ignore[reportUnknownMemberType]
        for key in required:
            if key not in value:
                raise self.make_error(f"key {key!r} is missing")
        for key in value:
            if key not in (*required, *optional):
                raise self.make_error(f"unknown key {key!r}")
        return {key: _Node(item, f"{self.place}.{key}".lstrip("."), self.file) for key, item in value.items()}

    def require_list(self) -> list[_Node]:
        if not isinstance(self.value, list):
            raise self.make_error("must be a list")
        items = cast("list[object]", self.value)  # pyright: ignore[reportUnknownMemberType]
        return [_Node(item, f"{self.place}[{index}]", self.file) for index, item in enumerate(items)]

    def require_text(self) -> str:
        if not isinstance(self.value, str) or not self.value:
            raise self.make_error("must be a string that is not empty")
        return self.value


def _parse_override(node: _Node) -> Override:
    keys = node.require_object("match", optional=("drop_query_params", "rewrite_rules"))
    host = _parse_host(keys["match"].require_object("host")["host"])
    params = keys["drop_query_params"].require_list() if "drop_query_params" in keys else []
    rules = keys["rewrite_rules"].require_list() if "rewrite_rules" in keys else []
    names, rewrites = tuple(map(_parse_param, params)), list(map(_parse_rewrite, rules))
    # A URL of this host never starts with a prefix on another host.
    usable = tuple(rewrite for rewrite in rewrites if parse(rewrite.from_prefix).host == host)
    return Override(host, names, usable, make_name_matcher(names))


def _parse_host(node: _Node) -> str:
    host = node.require_text()
    try:
        parts = parse(f"https://{host}/")
    except InvalidUrl as error:
        raise node.make_error(f"{host!r} is not a host: {error.reason}") from None
    has_port = ":" in host.rpartition("]")[2]
    if has_port or parts.userinfo is not None or parts.path != "/" or parts.query or parts.fragment:
        raise node.make_error(f"{host!r} must be a host without user, port, path or query")
    return parts.host


def _parse_param(node: _Node) -> str:
    name = node.require_text()
    if not is_param_name(name):
        raise node.make_error(f"{name!r} is not a parameter name; a * may only follow the start of a name, as in utm_*")
    return name


def _parse_rewrite(node: _Node) -> Rewrite:
    keys = node.require_object("from_prefix", "to_prefix")
    return Rewrite(_parse_prefix(keys["from_prefix"]), _parse_prefix(keys["to_prefix"]), node.place)


def _parse_prefix(node: _Node) -> str:
    text = node.require_text()
    try:
        # Parsed with one more character, because the parser would drop a `?`, `#` or `/.` at the end of a URL.
        prefix = str(parse(f"{text}x"))[:-1]
    except InvalidUrl as error:
        raise node.make_error(f"{text!r} is not an http(s) URL: {error.reason}") from None
    if not _SCHEME_AND_HOST.match(text):
        raise node.make_error(
            f"{text!r} must include the / after the host; without the / the prefix would match other hosts too"
        )
    if _INCOMPLETE_ESCAPE_AT_END.search(text):
        raise node.make_error(f"{text!r} ends inside a percent escape")
    return prefix
