"""What the rules do to pieces of a URL: plain functions from text to text (contract N4).

Each leaves alone what it does not name, and doing it twice changes nothing more. normalize.py
puts them in order; sites.py and overrides.py hold the rules that need tables.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from collections.abc import Callable

_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# A stray `%` with what could complete it, or one escape. An escaped hex digit (%30-%39, %41-%46,
# %61-%66) behind a stray `%` or `%h` stays as it is: decoded, it would become part of a new escape.
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})(?:[0-9A-Fa-f]|%3[0-9]|%[46][1-6])?(?:%3[0-9]|%[46][1-6])?|%[0-9A-Fa-f]{2}")
# An escape that is not in its one spelling: lower-case hex, or an unreserved character.
_ODD_ESCAPE = re.compile(r"%(?:[a-f][0-9A-Fa-f]|[0-9A-F][a-f]|2[DE]|3[0-9]|[46][1-9A-F]|[57][0-9A]|5F|7E)")
_SLASHES = re.compile("//+")


class _Spellings(dict[str, str]):
    """The one spelling of each match of `_ESCAPE`, found out at its first use."""

    def __missing__(self, match: str) -> str:
        self[match] = spelled = match
        if len(match) == 3:  # one whole escape; the others hold a stray `%`
            char = chr(int(match[1:], 16))
            self[match] = spelled = char if char in _UNRESERVED else match.upper()
        return spelled


_SPELLINGS = _Spellings()


def strip_www(host: str) -> str:
    """`www.www.example.com` → `example.com`; a `www.` stays where no dot would be left: `www.com`."""
    if not host.startswith("www."):
        return host
    rest = host[4:]
    if rest.startswith("www."):  # rare, so a loop would only invite a megabyte of them
        rest = re.sub(r"\A(?:www\.)+", "", rest)
    return rest if "." in rest else f"www.{rest}"


def normalize_escapes(text: str) -> str:
    """Hex in upper case, escapes of unreserved characters decoded: `%7efoo%2f` → `~foo%2F`.

    The parser has resolved `%2e` segments before, so this makes no new dot segment.
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
    """The path as rules 5 to 7 would leave it: what site rules look at."""
    return strip_trailing_slashes(collapse_slashes(normalize_escapes(path)))


def get_param_name(param: str) -> str:
    """The name in `name=value`, percent-decoded once; the case stays."""
    name = param.partition("=")[0]
    # Byte by byte (latin-1), so that names which are not UTF-8 compare too.
    return re.sub("%([0-9A-Fa-f]{2})", _decode_byte, name) if "%" in name else name


def _decode_byte(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))


def lower_ascii(name: str) -> str:
    """ASCII letters in lower case, and only those: case tables for the rest change with Python."""
    return name.encode("latin-1").lower().decode("latin-1")


def is_param_name(name: str) -> bool:
    """Can a policy list this name? Decoded, with a `*` only at its end and never alone."""
    return re.fullmatch(r"[^\x00-\x20&=#*%\ud800-\udfff]+\*?", name) is not None


def make_name_matcher(names: tuple[str, ...]) -> Callable[[str], bool]:
    """Does a `name=value` carry one of these names? Case ignored; `utm_*` is a prefix."""
    listed = [lower_ascii(name.encode().decode("latin-1")) for name in names]
    exact = frozenset(name for name in listed if not name.endswith("*"))
    prefixes = tuple(name[:-1] for name in listed if name.endswith("*"))

    def matches(param: str) -> bool:
        name = param.partition("=")[0]
        name = lower_ascii(get_param_name(name)) if "%" in name else name.lower()
        return name in exact or name.startswith(prefixes)

    return matches


def drop_params(query: str | None, matches: Callable[[str], bool]) -> str | None:
    """`utm_source=x&id=1` → `id=1`; None when nothing is left."""
    if query is None:
        return None
    params = query.split("&")
    kept = [param for param in params if not matches(param)]
    if len(kept) == len(params):
        return query
    return "&".join(kept) or None


def sort_params(query: str | None) -> str | None:
    """`b=2&a=1` → `a=1&b=2`: by name, then value, in the bytes they are written in; duplicates stay."""
    if query is None or "&" not in query:
        return query
    return "&".join(sorted(query.split("&"), key=_split_param))


def _split_param(param: str) -> tuple[str, str]:
    name, _, value = param.partition("=")
    return name, value


def keep_route(fragment: str | None) -> str | None:
    """`!/inbox` and `/inbox` select content and stay, cut at `:~:`; any other fragment goes."""
    if fragment is None:
        return None
    route = fragment.partition(":~:")[0]
    return route if route.startswith(("!", "/")) else None
