"""One sentence for every step that `explain` shows, from the URL before and after it."""

from __future__ import annotations

import re
from collections import Counter

from canonry.core.rules import get_param_name
from canonry.core.url import Parts, parse

_CONTROLS = "".join(map(chr, range(33)))
_LOOSE = re.compile(r"([^:/\\?#]*):[/\\]*([^/\\?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_PORT = re.compile(r":[0-9]*\Z")
_BREAKS = re.compile(r"[\t\n\r]")
_ENCODED = re.compile(r"[^\x21-\x7e]|[\"<>`]")
_DOTS = re.compile(r"[/\\](?:\.|%2e){1,2}(?:[/\\]|\Z)", re.IGNORECASE)


def describe_step(rule: str, before: str, after: str) -> str:
    """Why `rule` turned `before` into `after`."""
    if rule == "parse":
        return _describe_parse(before, parse(after))
    old, new = parse(before), parse(after)
    if rule == "site_host":
        return f"{old.host} is another address of {new.host}"
    if rule == "strip_www":
        return f"this policy takes {old.host} and {new.host} for one host"
    if rule == "site_path":
        return f"one spelling for this page of {new.host}"
    if rule == "strip_params":
        return f"dropped because they do not select content: {', '.join(_find_dropped_params(old, new))}"
    if rule == "overrides":
        return f"the overrides file says so for {old.host}"
    return _SENTENCES[rule]


_SENTENCES = {
    "strip_auth": "user name and password are not part of what the URL names",
    "normalize_escapes": "escapes have one spelling: upper-case hex, and none for letters, digits and -._~",
    "collapse_slashes": "repeated slashes in the path count as one",
    "strip_trailing_slash": "a slash at the end of the path counts as nothing",
    "sort_params": "the order of parameters counts as nothing: by name, then value",
    "fragment": "the fragment does not select what the server sends",
}


def _find_dropped_params(old: Parts, new: Parts) -> list[str]:
    kept = Counter((new.query or "").split("&"))
    kept.subtract((old.query or "").split("&"))
    return [get_param_name(param) for param, left in kept.items() if left < 0]


def _describe_parse(text: str, url: Parts) -> str:
    found = [sentence for sentence, held in _list_parse_changes(text, url) if held]
    return f"read as browsers do: {', '.join(found)}" if found else "read as browsers do"


def _list_parse_changes(text: str, url: Parts) -> list[tuple[str, bool]]:
    stripped = text.strip(_CONTROLS)
    joined = _BREAKS.sub("", stripped)
    match = _LOOSE.fullmatch(joined)
    scheme, authority, path, query, fragment = match.groups("") if match else ("", "", "", "", "")
    host = _PORT.sub("", authority.rpartition("@")[2])
    return [
        ("spaces around it trimmed", stripped != text),
        ("tabs and line breaks removed", joined != stripped),
        ("scheme in lower case", scheme != scheme.lower()),
        ("host in lower case", host != url.host and host.lower() == url.host),
        ("host in its ASCII form", host.lower() != url.host),
        ("default port dropped", _PORT.search(authority) is not None and url.port is None),
        ("backslashes read as slashes", "\\" in path),
        ("dot segments resolved", _DOTS.search(path) is not None),
        ("an empty path is /", not path),
        ("characters encoded", _ENCODED.search(path + query + fragment) is not None or bool(set("{}^") & set(path))),
        ("empty query dropped", query == "?"),
        ("empty fragment dropped", fragment == "#"),
    ]
