"""Rule 12: the overrides file of a user, read in its exact JSON format (contract N4, N5).

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

from canonry.core.rules import is_param_name, name_matcher, without_params
from canonry.core.url import Parts, parse
from canonry.errors import InvalidUrl, PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

_PREFIX = re.compile(r"https?://[^/?#\\]+/", re.IGNORECASE)
_WHOLE = "top level"
_CUT_ESCAPE = re.compile(r"%[0-9A-Fa-f]?\Z")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A prefix and what takes its place; `place` is where the file says so."""

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
    """A whole overrides file; `digest` is the sha256 of its bytes."""

    digest: str
    text: str = field(compare=False, repr=False)
    file: str = field(compare=False)
    by_host: dict[str, Override] = field(compare=False, repr=False)

    def __reduce__(self) -> tuple[Callable[[str, str], Overrides], tuple[str, str]]:
        return read_overrides, (self.text, self.file)

    def applied(self, text: str, parts: Parts) -> str:
        """The URL after the override for its host, once; `parts` are those of `text`."""
        override = self.by_host.get(parts.host)
        if override is None:
            return text
        query = without_params(parts.query, override.is_dropped)
        if query != parts.query:
            parts.query = query
            text = str(parts)
        return _rewritten(text, override.rewrites)


def _rewritten(text: str, rewrites: tuple[Rewrite, ...]) -> str:
    """The first rewrite that fits, again and again: `/amp/amp/x` → `/x`.

    The URL is held as `head + text[at:]`, so that a megabyte of `/amp/amp/…` costs one pass.
    """
    head, at = "", 0
    longest = max((len(rewrite.from_prefix) for rewrite in rewrites), default=0)
    while True:
        start = head + text[at : at + longest]
        fit = next((rewrite for rewrite in rewrites if start.startswith(rewrite.from_prefix)), None)
        if fit is None:
            return head + text[at:]
        at += max(0, len(fit.from_prefix) - len(head))
        head = fit.to_prefix + head[len(fit.from_prefix) :]


def read_overrides(text: str, file: str) -> Overrides:
    """The overrides in a JSON text; PolicyError with file, place and reason if anything is wrong."""
    try:
        digest = hashlib.sha256(text.encode()).hexdigest()
    except (UnicodeEncodeError, AttributeError):
        raise PolicyError("is not text", file, _WHOLE) from None
    document = _Node(_json(text, file), "", file)
    overrides: dict[str, Override] = {}
    for node in document.keys("overrides")["overrides"].items():
        override = _override(node)
        overrides.setdefault(override.host, override)  # the first match decides
    return Overrides(digest, text, file, overrides)


def _json(text: str, file: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_without_twins)
    except json.JSONDecodeError as error:
        raise PolicyError(error.msg, file, f"line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise PolicyError("nested too deeply", file, _WHOLE) from None
    except ValueError as error:
        raise PolicyError(str(error), file, _WHOLE) from None


def _without_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):
        twins = sorted({key for key, _ in pairs if [name for name, _ in pairs].count(key) > 1})
        raise ValueError(f"key {twins[0]!r} stands twice in one object")
    return values


@dataclass(frozen=True, slots=True)
class _Node:
    """A value of the file and where it stands, so that every refusal can say so."""

    value: object
    place: str
    file: str

    def refusal(self, reason: str) -> PolicyError:
        return PolicyError(reason, self.file, self.place or _WHOLE)

    def keys(self, *required: str, optional: tuple[str, ...] = ()) -> dict[str, _Node]:
        if not isinstance(self.value, dict):
            raise self.refusal("must be an object")
        value = cast("dict[str, object]", self.value)  # pyright: ignore[reportUnknownMemberType]
        for key in required:
            if key not in value:
                raise self.refusal(f"lacks {key!r}")
        for key in value:
            if key not in (*required, *optional):
                raise self.refusal(f"has the unknown key {key!r}")
        return {key: _Node(item, f"{self.place}.{key}".lstrip("."), self.file) for key, item in value.items()}

    def items(self) -> list[_Node]:
        if not isinstance(self.value, list):
            raise self.refusal("must be a list")
        items = cast("list[object]", self.value)  # pyright: ignore[reportUnknownMemberType]
        return [_Node(item, f"{self.place}[{index}]", self.file) for index, item in enumerate(items)]

    def text(self) -> str:
        if not isinstance(self.value, str) or not self.value:
            raise self.refusal("must be a text that is not empty")
        return self.value


def _override(node: _Node) -> Override:
    keys = node.keys("match", optional=("drop_query_params", "rewrite_rules"))
    host = _match_host(keys["match"].keys("host")["host"])
    names = tuple(_param(name) for name in keys["drop_query_params"].items()) if "drop_query_params" in keys else ()
    rewrites = [_rewrite(rule) for rule in keys["rewrite_rules"].items()] if "rewrite_rules" in keys else []
    # A prefix on another host can never fit a URL of this one.
    usable = tuple(rewrite for rewrite in rewrites if parse(rewrite.from_prefix).host == host)
    return Override(host, names, usable, name_matcher(names))


def _match_host(node: _Node) -> str:
    host = node.text()
    try:
        parts = parse(f"https://{host}/")
    except InvalidUrl as error:
        raise node.refusal(f"{host!r} is not a host: {error.reason}") from None
    has_port = ":" in host.rpartition("]")[2]
    if has_port or parts.userinfo is not None or parts.path != "/" or parts.query or parts.fragment:
        raise node.refusal(f"{host!r} must be a host alone")
    return parts.host


def _param(node: _Node) -> str:
    name = node.text()
    if not is_param_name(name):
        raise node.refusal(f"{name!r} is not a parameter name (a * may only end it, and never stand alone)")
    return name


def _rewrite(node: _Node) -> Rewrite:
    keys = node.keys("from_prefix", "to_prefix")
    return Rewrite(_prefix(keys["from_prefix"]), _prefix(keys["to_prefix"]), node.place)


def _prefix(node: _Node) -> str:
    text = node.text()
    try:
        # With one more character, so that an end like `?`, `#` or `/.` is not read as the end of a URL.
        prefix = str(parse(f"{text}x"))[:-1]
    except InvalidUrl as error:
        raise node.refusal(f"{text!r} is not an http(s) URL: {error.reason}") from None
    if not _PREFIX.match(text):
        raise node.refusal(f"{text!r} must go on to the / after the host, or it would fit other hosts too")
    if _CUT_ESCAPE.search(text):
        raise node.refusal(f"{text!r} ends inside a percent escape")
    return prefix
