"""Parse the rules of an overrides file of the format overrides.v1; refuse those that would not end (contract L4)."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from canonry.core.override_rules import PLACES, HostRules, QueryToPath, Slug, SlugKind
from canonry.core.rules import is_param_name, lower_ascii, make_name_matcher
from canonry.core.url import parse
from canonry.url_errors import InvalidUrl, PolicyError

if TYPE_CHECKING:
    from canonry.core.json_nodes import JsonNode
    from canonry.core.overrides import Override

FORMAT = "overrides.v1"
RULE_KEYS = (
    "drop_query_params_below", "drop_query_params_at", "drop_query_values", "drop_path_params", "drop_segments",
    "drop_segment_shapes", "drop_extensions", "drop_slugs", "query_to_path", "lower_case", "strip_trailing_slash",
    "sort_query_params", "scheme", "host",
)  # fmt: skip
# A path as the parser writes it, without dot segments, escapes or `;`.
_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9!$&'()*,\-.:=@_~#]*)*")
_SEGMENT = re.compile(r"(?!\.{1,2}\Z)[^/?#;\\\x00-\x20]+")


def parse_params(node: JsonNode) -> tuple[str, ...]:
    """Return a list of parameter names."""
    return tuple(map(_parse_param, node.require_list()))


def parse_host_rules(keys: dict[str, JsonNode], host: str) -> HostRules:
    """Return the rules of overrides.v1 for one host; PolicyError with the position on any mistake."""

    def read(key: str) -> list[JsonNode]:
        return keys[key].require_list() if key in keys else []

    below = tuple(map(_parse_below, read("drop_query_params_below")))
    at_paths = tuple(map(_parse_at, read("drop_query_params_at")))
    target = parse_host(keys["host"]) if "host" in keys else None
    if target == host:
        raise keys["host"].make_error(f"{host} is the host that the rules are for")
    return HostRules(
        drop_below=below,
        drop_at=at_paths,
        drop_values=frozenset(map(_parse_value, read("drop_query_values"))),
        drop_path_params=frozenset(lower_ascii(name) for name in map(_parse_param, read("drop_path_params"))),
        drop_segments=frozenset(_parse_placed(node, "segment") for node in read("drop_segments")),
        drop_shapes=frozenset(_parse_placed(node, "shape") for node in read("drop_segment_shapes")),
        drop_extensions=frozenset(node.require_text().lower() for node in read("drop_extensions")),
        slugs=frozenset(map(_parse_slug, read("drop_slugs"))),
        query_to_path=tuple(map(_parse_move, read("query_to_path"))),
        lower_case=frozenset(node.require_choice(*PLACES) for node in read("lower_case")),
        strip_trailing_slash="strip_trailing_slash" in keys and keys["strip_trailing_slash"].require_flag(),
        sort_params="sort_query_params" in keys and keys["sort_query_params"].require_flag(),
        scheme=keys["scheme"].require_choice("http", "https") if "scheme" in keys else None,
        host=target,
        matchers=tuple((folder, make_name_matcher(names)) for folder, names in below),
        path_matchers=tuple((path, make_name_matcher(names)) for path, names in at_paths),
    )


def parse_host(node: JsonNode) -> str:
    """Return the host as the parser writes it."""
    host = node.require_text()
    try:
        parts = parse(f"https://{host}/")
    except InvalidUrl as error:
        raise node.make_error(f"{host!r} is not a host: {error.reason}") from None
    has_port = ":" in host.rpartition("]")[2]
    if has_port or parts.userinfo is not None or parts.path != "/" or parts.query or parts.fragment:
        raise node.make_error(f"{host!r} must be a host without user, port, path or query")
    return parts.host


def _parse_param(node: JsonNode) -> str:
    name = node.require_text()
    if not is_param_name(name):
        raise node.make_error(f"{name!r} is not a parameter name; a * may only follow the start of a name, as in utm_*")
    return name


def _parse_below(node: JsonNode) -> tuple[str, tuple[str, ...]]:
    keys = node.require_object("folder", "params")
    folder = _parse_path(keys["folder"])
    if not folder.endswith("/"):
        raise keys["folder"].make_error(f"{folder!r} must end with /; without it, other names would match too")
    return folder, parse_params(keys["params"])


def _parse_at(node: JsonNode) -> tuple[str, tuple[str, ...]]:
    keys = node.require_object("path", "params")
    return _parse_path(keys["path"]), parse_params(keys["params"])


def _parse_value(node: JsonNode) -> str:
    text = node.require_text()
    if not is_param_name(text.partition("=")[0]) or re.search(r"[&#\x00-\x20]", text):
        raise node.make_error(f"{text!r} must be one name=value as it is written in a URL")
    return text


def _parse_placed(node: JsonNode, key: str) -> tuple[str, str]:
    keys = node.require_object("place", key)
    text = keys[key].require_text()
    if key == "segment" and not _SEGMENT.fullmatch(text):
        raise keys[key].make_error(f"{text!r} is not one segment of a path")
    if key == "shape" and not re.search("[#0]", text):
        raise keys[key].make_error(f"{text!r} must contain # (letters and digits) or 0 (digits)")
    return keys["place"].require_choice(*PLACES), text


def _parse_slug(node: JsonNode) -> Slug:
    keys = node.require_object("kind", "path")
    return Slug(SlugKind(keys["kind"].require_choice(*SlugKind)), _parse_path(keys["path"]))


def _parse_move(node: JsonNode) -> QueryToPath:
    keys = node.require_object("path", "param", "to")
    to = _parse_path(keys["to"])
    if not to.endswith("/"):
        raise keys["to"].make_error(f"{to!r} must end with /")
    return QueryToPath(_parse_path(keys["path"]), lower_ascii(_parse_param(keys["param"])), to)


def _parse_path(node: JsonNode) -> str:
    text = node.require_text()
    if not _PATH.fullmatch(text):
        raise node.make_error(f"{text!r} must be a path such as /a/b")
    return text


def refuse_growing_rules(overrides: dict[str, Override], file: str) -> None:
    """Raise a PolicyError if rules of overrides.v1, with rewrites, could change a URL without end."""
    _refuse_host_cycle(overrides, file)
    for override in overrides.values():
        if override.rules is None:
            continue
        for rewrite in override.rewrites:
            before, after = parse(rewrite.from_prefix + "x"), parse(rewrite.to_prefix + "x")
            if before.host != after.host:
                continue
            has_query = "?" in rewrite.from_prefix + rewrite.to_prefix
            is_shorter = len(after.path) < len(before.path)
            is_https = (before.path, after.scheme) == (after.path, "https") and override.rules.scheme != "http"
            if has_query or not (is_shorter or is_https):
                reason = "beside rules of overrides.v1, a rewrite must make the path shorter, or only http to https"
                raise PolicyError(f"{reason}: {rewrite.from_prefix} → {rewrite.to_prefix}", file, rewrite.place)


def _refuse_host_cycle(overrides: dict[str, Override], file: str) -> None:
    if not any(override.rules and override.rules.host for override in overrides.values()):
        return  # rewrites alone are checked as prefixes: rewrite_cycles.py
    try:
        TopologicalSorter({host: sorted(_list_targets(each)) for host, each in overrides.items()}).prepare()
    except CycleError as error:
        cycle = " → ".join(reversed(error.args[1]))
        raise PolicyError(f"hosts that lead to each other: {cycle}", file, "overrides") from None


def _list_targets(override: Override) -> set[str]:
    hosts = {parse(rewrite.to_prefix + "x").host for rewrite in override.rewrites} - {override.host}
    return hosts | ({override.rules.host} if override.rules and override.rules.host else set())
