"""The rules on single pieces of a URL, as functions from text to text (contract N4).

Each function is idempotent and changes nothing but what its docstring names. normalize.py puts them
in order; sites.py and overrides.py hold the rules that need tables.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.core.url import Parts

_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# One escape, or a stray `%` with what could complete it. An escaped hex digit (%30-%39, %41-%46,
# %61-%66) after a stray `%` or `%h` is not decoded: it would become part of a new escape.
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})(?:[0-9A-Fa-f]|%3[0-9]|%[46][1-6])?(?:%3[0-9]|%[46][1-6])?|%[0-9A-Fa-f]{2}")
# An escape to rewrite: one with lower-case hex, or of an unreserved character.
_ODD_ESCAPE = re.compile(r"%(?:[a-f][0-9A-Fa-f]|[0-9A-F][a-f]|2[DE]|3[0-9]|[46][1-9A-F]|[57][0-9A]|5F|7E)")
_SLASHES = re.compile("//+")


class _Spellings(dict[str, str]):
    """A cache: the normalized form of each match of `_ESCAPE`."""

    def __missing__(self, match: str) -> str:
        self[match] = normalized = match
        if len(match) == 3:  # a whole escape; any other match starts with a stray `%`
            char = chr(int(match[1:], 16))
            self[match] = normalized = char if char in _UNRESERVED else match.upper()
        return normalized


_SPELLINGS = _Spellings()


def strip_www(host: str) -> str:
    """`www.www.example.com` → `example.com`; a `www.` stays if no dot would be left: `www.com`."""
    if not host.startswith("www."):
        return host
    rest = host[4:]
    if rest.startswith("www."):  # rare; a loop would take quadratic time for a megabyte of `www.`
        rest = re.sub(r"\A(?:www\.)+", "", rest)
    return rest if "." in rest else f"www.{rest}"


def normalize_escapes(text: str) -> str:
    """Write hex in upper case and decode escapes of unreserved characters: `%7efoo%2f` → `~foo%2F`.

    No new dot segment appears, because the parser has already resolved `%2e` segments.
    """
    return _ESCAPE.sub(_normalize_escape, text) if _ODD_ESCAPE.search(text) else text


def _normalize_escape(match: re.Match[str]) -> str:
    return _SPELLINGS[match[0]]


def collapse_slashes(path: str) -> str:
    """`/a//b` → `/a/b`."""
    return _SLASHES.sub("/", path)


def strip_trailing_slashes(path: str) -> str:
    """`/a//` → `/a`; the root keeps its slash."""
    return path.rstrip("/") or "/"


def clean_path(path: str) -> str:
    """Return the path as rules 5 to 7 would leave it; site rules match against this."""
    if "%" in path or "//" in path:
        path = collapse_slashes(normalize_escapes(path))
    return path.rstrip("/") or "/"


def get_param_name(param: str) -> str:
    """Return the name in `name=value`, percent-decoded once; the case is kept."""
    name = param.partition("=")[0]
    # Decoded byte by byte (latin-1), so that names that are not UTF-8 can be compared.
    return re.sub("%([0-9A-Fa-f]{2})", _decode_byte, name) if "%" in name else name


def _decode_byte(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))


def lower_ascii(name: str) -> str:
    """Lower-case ASCII letters only: the case tables for other letters change with the Python version."""
    return name.encode("latin-1").lower().decode("latin-1")


def lower_unescaped(text: str) -> str:
    """`/A%2FB` → `/a%2Fb`: lower-case the letters of a parsed URL, but not the hex digits of escapes."""
    return re.sub("%[0-9A-Fa-f]{2}|[A-Z]+", _lower_unless_escape, text) if "%" in text else text.lower()


def _lower_unless_escape(match: re.Match[str]) -> str:
    return match[0] if match[0][0] == "%" else match[0].lower()


def is_param_name(name: str) -> bool:
    """Return whether a policy can list this name: decoded, with a `*` only at its end and never alone."""
    return re.fullmatch(r"[^\x00-\x20&=#*%\ud800-\udfff]+\*?", name) is not None


def make_name_matcher(names: tuple[str, ...]) -> Callable[[str], bool]:
    """Make a function that returns whether a `name=value` has one of these names; `utm_*` is a prefix."""
    listed = [lower_ascii(name.encode().decode("latin-1")) for name in names]
    exact = frozenset(name for name in listed if not name.endswith("*"))
    prefixes = tuple(name[:-1] for name in listed if name.endswith("*"))

    def matches(param: str) -> bool:
        name = param.partition("=")[0]
        name = lower_ascii(get_param_name(name)) if "%" in name else name.lower()
        return name in exact or name.startswith(prefixes)

    return matches


def drop_params(query: str | None, matches: Callable[[str], bool]) -> str | None:
    """Drop matching parameters: `utm_source=x&id=1` → `id=1`; None if nothing is left."""
    if query is None:
        return None
    params = query.split("&")
    kept = [param for param in params if not matches(param)]
    if len(kept) == len(params):
        return query
    return "&".join(kept) or None


def sort_params(query: str | None) -> str | None:
    """Sort parameters by name, then value, as they are written: `b=2&a=1` → `a=1&b=2`; duplicates stay."""
    if query is None or "&" not in query:
        return query
    return "&".join(sorted(query.split("&"), key=_split_param))


def _split_param(param: str) -> tuple[str, str]:
    name, _, value = param.partition("=")
    return name, value


def keep_route(fragment: str | None) -> str | None:
    """Keep a fragment that selects content, `!/inbox` or `/inbox`, cut at `:~:`; None for any other."""
    if fragment is None:
        return None
    route = fragment.partition(":~:")[0]
    return route if route.startswith(("!", "/")) else None


def clean_fragment(fragment: str, matches: Callable[[str], bool]) -> str | None:
    """Cut a text directive (`:~:text=…`), and drop a fragment of tracking parameters alone: `utm_source=x`."""
    kept = fragment.partition(":~:")[0]
    if not kept or ("=" in kept and all("=" in param and matches(param) for param in kept.split("&"))):
        return None
    return kept


def embeds_address(parts: Parts) -> bool:
    """Return whether another address follows the host: `/web/2020/https://a.com/`, `?https://a.com/`."""
    return (":" in parts.path or "%3" in parts.path or (parts.query is not None and ":" in parts.query)) and (
        re.search("/https?(?::|%3a)(?:/|%2f)", parts.path, re.IGNORECASE) is not None
        or (parts.query is not None and re.match("https?:/", parts.query, re.IGNORECASE) is not None)
    )
