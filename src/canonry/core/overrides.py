"""Rule 12: parse a user's overrides from JSON text and apply them to a URL (contract N4, N5).

{"overrides": [{"match": {"host": "example.com"},
                "drop_query_params": ["src"],
                "rewrite_rules": [{"from_prefix": "https://example.com/amp/",
                                   "to_prefix": "https://example.com/"}]}]}

A file with `"format": "overrides.v1"` may also have the rules of override_rules.py.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from canonry.core.json_nodes import TOP_LEVEL, JsonNode, parse_json
from canonry.core.override_file import (
    FORMAT,
    RULE_KEYS,
    parse_host,
    parse_host_rules,
    parse_params,
    refuse_growing_rules,
)
from canonry.core.rules import drop_params, make_name_matcher
from canonry.core.url import Parts, parse
from canonry.url_errors import InvalidUrl, PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.core.override_rules import HostRules

_SCHEME_AND_HOST = re.compile(r"https?://[^/?#\\]+/", re.IGNORECASE)
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
    rules: HostRules | None = None  # of overrides.v1


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
        if override.rules is not None:
            override.rules.apply(parts)
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
        raise PolicyError("must be text", file, TOP_LEVEL) from None
    document = JsonNode(parse_json(text, file), "", file)
    overrides: dict[str, Override] = {}
    keys = document.require_object("overrides", optional=("format",))
    rule_keys = RULE_KEYS if "format" in keys and keys["format"].require_choice(FORMAT) else ()
    for node in keys["overrides"].require_list():
        override = _parse_override(node, rule_keys)
        overrides.setdefault(override.host, override)  # the first override of a host wins
    refuse_growing_rules(overrides, file)
    return Overrides(digest, text, file, overrides)


def _parse_override(node: JsonNode, rule_keys: tuple[str, ...]) -> Override:
    keys = node.require_object("match", optional=("drop_query_params", "rewrite_rules", *rule_keys))
    host = parse_host(keys["match"].require_object("host")["host"])
    names = parse_params(keys["drop_query_params"]) if "drop_query_params" in keys else ()
    rules = keys["rewrite_rules"].require_list() if "rewrite_rules" in keys else []
    rewrites = list(map(_parse_rewrite, rules))
    # A URL of this host never starts with a prefix on another host.
    usable = tuple(rewrite for rewrite in rewrites if parse(rewrite.from_prefix).host == host)
    has_rules = any(key in keys for key in rule_keys)
    host_rules = parse_host_rules(keys, host) if has_rules else None
    return Override(host, names, usable, make_name_matcher(names), host_rules)


def _parse_rewrite(node: JsonNode) -> Rewrite:
    keys = node.require_object("from_prefix", "to_prefix")
    return Rewrite(_parse_prefix(keys["from_prefix"]), _parse_prefix(keys["to_prefix"]), node.place)


def _parse_prefix(node: JsonNode) -> str:
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
