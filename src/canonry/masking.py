"""Shorten the URLs in a text for logs and job tables: no path, no query, no user name (contract O)."""

from __future__ import annotations

import re

from canonry.errors import mask_credentials

_HIDDEN = "…"
# Stores and files: the operator chose their names, and their passwords are masked.
_STORE_SCHEMES = frozenset({"sqlite", "postgresql", "postgres", "redis", "rediss", "unix", "file"})
# Web schemes with any number of slashes, because broken URLs have secrets too; others only with "//".
_START = r"(?:(?:https?|wss?|ftps?|feed)(?::|%3a)|[a-z][a-z0-9+.-]{1,30}:(?=//))"
# A quoted URL ends at its quote, since it may contain spaces; any other at the next space. Bounded repetitions keep the
# time linear in the length of the text.
_URL = re.compile(
    rf"""'{_START}(?:\\.|[^'\\\n])*|"{_START}(?:\\.|[^"\\\n])*|{_START}\S*""",
    re.IGNORECASE,
)
_PARTS = re.compile(
    r"(?P<scheme>[^:%]*)(?::|%3a)(?P<slashes>[/\\]*)(?P<authority>[^/\\?#\s]*)(?P<rest>.*)", re.IGNORECASE | re.DOTALL
)
_HOST = re.compile(r"(?:\[[0-9a-f:.%]+\]|[^:@\[\]'\"<>(){}|^`,;=&$!*+]+)(?::\d{1,5})?", re.IGNORECASE)


def mask_urls(text: str) -> str:
    """Replace each web address in a text by its scheme and host: `https://e.com/a?token=1` → `https://e.com/…`."""
    return mask_credentials(_URL.sub(_mask_url, text))


def _mask_url(match: re.Match[str]) -> str:
    text = match[0]
    quote = text[0] if text[0] in "'\"" else ""
    parts = _PARTS.match(text.removeprefix(quote))
    if parts is None or parts["scheme"].partition("+")[0].lower() in _STORE_SCHEMES:
        return text
    start = f"{quote}{parts['scheme']}:{parts['slashes']}"
    userinfo, at, host = parts["authority"].rpartition("@")
    rest = parts["rest"]
    if not host and not userinfo and not rest:
        return text  # a word with a colon
    # A password with a slash looks like a port, and its end like a path.
    is_clear = parts["slashes"] and _HOST.fullmatch(host) and not (":" in host and "@" in rest)
    if not is_clear:
        return f"{start}{_HIDDEN}"
    return f"{start}{'***@' if at else ''}{host}{rest if rest in {'', '/'} else f'/{_HIDDEN}'}"
