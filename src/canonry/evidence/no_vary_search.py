"""Read the `No-Vary-Search` header: which parameters of a query do not matter (contract E1).

https://httpwg.org/http-extensions/draft-ietf-httpbis-no-vary-search.html. A header that is not exactly as defined there
says nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from canonry.core.rules import get_param_name
from canonry.core.url import parse

# A structured dictionary (RFC 9651): `key-order, params=("id" "page")`. Parameters of its values are ignored.
_KEY = r"[a-z*][a-z0-9_\-.*]*"
_STRING = r"\"(?:[ !#-\[\]-~]|\\[\\\"])*\""
_VALUE = rf"(?:{_STRING}|\?[01]|:[A-Za-z0-9+/=]*:|[@%]?-?\d[\d.]*|[A-Za-z*][!#$%&'*+\-.^_`|~\w:/]*)"
_PARAMETERS = rf"(?:; *{_KEY}(?:={_VALUE})?)*"
_LIST = rf"\( *(?:{_VALUE}{_PARAMETERS}(?: +{_VALUE}{_PARAMETERS})*)? *\)"
_MEMBER = re.compile(rf"({_KEY})(?:=({_LIST}|{_VALUE}))?{_PARAMETERS}", re.ASCII)
_SEPARATOR = re.compile(r"[ \t]*,[ \t]*")
_LIST_ITEM = re.compile(rf"({_VALUE}){_PARAMETERS}", re.ASCII)
_ESCAPE = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class NoVarySearch:
    """Parameters of a query that do not matter: all but `kept`, or only `dropped`; and their order, if it `sorts`."""

    drops_all: bool = False
    dropped: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    sorts: bool = False

    def apply(self, url: str) -> str:
        """Return the URL without the parameters that do not matter."""
        parts = parse(url)
        if not parts.query:
            return url
        names = [(get_param_name(param), param) for param in parts.query.split("&")]
        keeps = [param for name, param in names if (name in self.kept if self.drops_all else name not in self.dropped)]
        parts.query = "&".join(sorted(keeps, key=get_param_name) if self.sorts else keeps) or None
        return str(parts)


def parse_no_vary_search(header: str) -> NoVarySearch | None:
    """Return what does not matter in a query; None if the header is missing, invalid, or says that everything does."""
    members = _parse_dictionary(header.strip(" "))
    if members is None:
        return None
    params, exceptions = members.get("params", "?0"), members.get("except")
    dropped = _parse_names(params)
    kept = frozenset[str]() if exceptions is None else _parse_names(exceptions)
    is_known = dropped is not None or params in ("?0", "?1")
    is_exception_allowed = exceptions is None or (params == "?1" and kept is not None)
    order = members.get("key-order", "?0")
    if not is_known or not is_exception_allowed or order not in ("?0", "?1"):
        return None
    if params == "?0" and order == "?0":
        return None
    return NoVarySearch(params == "?1", dropped or frozenset(), kept or frozenset(), order == "?1")


def _parse_dictionary(text: str) -> dict[str, str] | None:
    """Return the members of a structured dictionary, each value as written; None if the text is malformed."""
    members: dict[str, str] = {}
    position = 0
    while match := _MEMBER.match(text, position):
        members[match[1]] = match[2] or "?1"
        if match.end() == len(text):
            return members
        separator = _SEPARATOR.match(text, match.end())
        if separator is None:
            return None
        position = separator.end()
    return None


def _parse_names(value: str) -> frozenset[str] | None:
    """Return the names in a list of strings, or None if the value is something else."""
    if not value.startswith("("):
        return None
    items = _LIST_ITEM.findall(value[1:-1])
    if any(not item.startswith('"') for item in items):
        return None
    return frozenset(get_param_name(_ESCAPE.sub(r"\1", item[1:-1])) for item in items)
