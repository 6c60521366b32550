"""Write the reason for each step that `explain` returns, from the URL before and after it."""

from __future__ import annotations

import re
from collections import Counter

from canonry.core.rules import get_param_name
from canonry.core.url import C0_AND_SPACE, Parts, parse

# Splits a text as the parser would: scheme, authority, path, query, fragment.
_UNPARSED_URL = re.compile(r"([^:/\\?#]*):[/\\]*([^/\\?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_PORT = re.compile(r":[0-9]*\Z")
_TABS_AND_LINE_BREAKS = re.compile(r"[\t\n\r]")
_ENCODED_CHARACTER = re.compile(r"[^\x21-\x7e]|[\"<>`]")
_DOT_SEGMENT = re.compile(r"[/\\](?:\.|%2e){1,2}(?:[/\\]|\Z)", re.IGNORECASE)


def describe_step(rule: str, before: str, after: str) -> str:
    """Return, as a sentence, why the rule changed the URL."""
    if rule == "parse":
        return _describe_parse(before, parse(after))
    old, new = parse(before), parse(after)
    if rule == "site_host":
        return _describe_move(old, new)
    if rule == "strip_www":
        return f"this policy treats {old.host} and {new.host} as one host"
    if rule == "site_path":
        return f"{new.host} has several URLs for this page; this is the main one"
    if rule == "strip_params":
        return f"dropped parameters that do not select content: {', '.join(_find_dropped_params(old, new))}"
    if rule == "fragment" and ":~:" in (old.fragment or ""):
        return "a text directive (:~:) only marks words on the page"
    if rule == "overrides":
        return f"the overrides file has rules for {old.host}"
    return _SENTENCES[rule]


def _describe_move(old: Parts, new: Parts) -> str:
    if old.host == new.host:
        return f"{new.host} shows the same pages over https"
    if new.host in f"{old.path}?{old.query}".lower():
        return f"{old.host} only redirects; the address it leads to is in the URL"
    return f"{old.host} is a mirror of {new.host}"


_SENTENCES = {
    "strip_auth": "user name and password do not select content",
    "normalize_escapes": "percent escapes get one spelling: upper-case hex; letters, digits and -._~ are decoded",
    "collapse_slashes": "repeated slashes in the path become one",
    "strip_trailing_slash": "this policy ignores slashes at the end of the path",
    "sort_params": "the order of parameters does not matter: sorted by name, then value",
    "fragment": "the fragment is not sent to the server",
}


def _find_dropped_params(old: Parts, new: Parts) -> list[str]:
    kept = Counter((new.query or "").split("&"))
    kept.subtract((old.query or "").split("&"))
    return [get_param_name(param) for param, left in kept.items() if left < 0]


def _describe_parse(text: str, url: Parts) -> str:
    found = [sentence for sentence, is_true in _list_parse_changes(text, url) if is_true]
    return f"parsed as browsers do: {', '.join(found)}" if found else "parsed as browsers do"


def _list_parse_changes(text: str, url: Parts) -> list[tuple[str, bool]]:
    stripped = text.strip(C0_AND_SPACE)
    joined = _TABS_AND_LINE_BREAKS.sub("", stripped)
    match = _UNPARSED_URL.fullmatch(joined)
    scheme, authority, path, query, fragment = match.groups("") if match else ("", "", "", "", "")
    host = _PORT.sub("", authority.rpartition("@")[2])
    is_encoded = _ENCODED_CHARACTER.search(path + query + fragment) is not None or bool(set("{}^") & set(path))
    return [
        ("surrounding spaces removed", stripped != text),
        ("tabs and line breaks removed", joined != stripped),
        ("scheme in lower case", scheme != scheme.lower()),
        ("host in lower case", host != url.host and host.lower() == url.host),
        ("host in its ASCII form", host.lower() != url.host),
        ("default port dropped", _PORT.search(authority) is not None and url.port is None),
        ("backslashes read as slashes", "\\" in path),
        ("dot segments resolved", _DOT_SEGMENT.search(path) is not None),
        ("empty path set to /", not path),
        ("characters percent-encoded", is_encoded),
        ("empty query dropped", query == "?"),
        ("empty fragment dropped", fragment == "#"),
    ]
