"""Write learned rules as an overrides file (contract L4)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from canonry.core.override_file import FORMAT, RULE_KEYS
from canonry.core.override_rules import SlugKind
from canonry.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Iterable

Entry = tuple[str, str, Any]  # host, key of the override, value to add to it
_FLAGS = ("strip_trailing_slash", "sort_query_params", "scheme", "host")
_SLUGS = {
    "slug": SlugKind.AFTER_ID, "slug-head": SlugKind.BEFORE_ID, "id-end": SlugKind.ENDS_WITH_ID,
    "id-start": SlugKind.STARTS_WITH_ID,
}  # fmt: skip


def _list_params(key: str, value: Any) -> list[str]:
    """Return the names of parameters that an entry drops whatever their values."""
    if key == "drop_query_params":
        return [value]
    return value["params"] if key in ("drop_query_params_below", "drop_query_params_at") else []


def make_entries(feature: str, hosts: tuple[str, ...], target: str, *, has_ports: bool) -> tuple[Entry, ...]:
    """Return what the rule that drops a feature, given by its name, adds to the overrides of its hosts.

    `target` is the host that an alias is written as.
    """
    kind, _, rest = feature.partition(":")
    if kind == "host":
        if not has_ports:
            return tuple(
                (rest, "rewrite_rules", {"from_prefix": f"{scheme}://{rest}/", "to_prefix": f"{scheme}://{target}/"})
                for scheme in ("https", "http")
            )
        return ((rest, "host", target),)
    if kind == "scheme":
        return tuple(
            (host, "rewrite_rules", {"from_prefix": f"http://{host}/", "to_prefix": f"https://{host}/"})
            for host in hosts
        )
    key, value = _make_entry(kind, rest)
    return tuple((host, key, value) for host in hosts)


def _make_entry(kind: str, rest: str) -> tuple[str, Any]:
    first, _, second = rest.partition("|")
    place, _, text = rest.partition(":")
    if kind in _SLUGS:
        return "drop_slugs", {"kind": str(_SLUGS[kind]), "path": rest}
    if kind == "path-query":
        name, _, start = second.partition("|")
        return "query_to_path", {"path": first, "param": name, "to": start}
    simple: dict[str, tuple[str, Any]] = {
        "param": ("drop_query_params", rest),
        "folder": ("drop_query_params_below", {"folder": first, "params": [second]})
        if first.endswith("/") and first != "/"
        else ("drop_query_params_at", {"path": first, "params": [second]}),
        "value": ("drop_query_values", rest),
        "sem": ("drop_path_params", rest),
        "seg": ("drop_segments", {"place": place, "segment": text}),
        "shape": ("drop_segment_shapes", {"place": place, "shape": text}),
        "ext": ("drop_extensions", rest),
        "case": ("lower_case", rest),
        "slash": ("strip_trailing_slash", True),
        "order": ("sort_query_params", True),
    }
    return simple[kind]


def make_overrides(rules: Iterable[Iterable[Entry]], base: str | None = None, *, indent: int | None = 2) -> str:
    """Return the text of an overrides file with these rules, added to those of the file `base`.

    Without an indent it is written in C: ten times as fast, for texts that nobody reads. Raises PolicyError for a
    parameter whose name ends in `*`: in an overrides file that is a prefix, which also drops other parameters.
    """
    document: dict[str, Any] = json.loads(base) if base else {"overrides": []}
    by_host: dict[str, dict[str, Any]] = {}
    for override in document["overrides"]:
        by_host.setdefault(override["match"]["host"], override)
    for host, key, value in sorted((entry for rule in rules for entry in rule), key=repr):
        if name := next((name for name in _list_params(key, value) if name.endswith("*")), ""):
            raise PolicyError(f"{name!r} is a prefix in an overrides file, not the name of one parameter")
        override = by_host.setdefault(host, {"match": {"host": host}})
        if key in _FLAGS:
            override[key] = value
        elif value not in override.setdefault(key, []):
            override[key].append(value)
    known = {override["match"]["host"] for override in document["overrides"]}
    added = [by_host[host] for host in sorted(by_host) if host not in known]
    overrides = [*document["overrides"], *added]
    needs_rules = any(key in override for override in overrides for key in RULE_KEYS)
    head = {"format": FORMAT} if needs_rules or "format" in document else {}
    return json.dumps({**head, "overrides": overrides}, indent=indent, ensure_ascii=False) + "\n"
