"""Normalize without the C code: one regular expression finds plain URLs, the reference does the others."""

from __future__ import annotations

import re

from canonry.core import normalize as reference
from canonry.core.configured_overrides import TAKES_OVERRIDES
from canonry.core.native.policy_tables import list_special_hosts
from canonry.core.rules import strip_trailing_slashes, strip_www
from canonry.core.url import PATH_CHARACTERS, PLAIN_HOST
from canonry.url_errors import InvalidUrl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from canonry.core.policy import Policy

# A URL in lower case without port, query, fragment or escape: only www. and slashes are left to change.
_PLAIN_LOWER_CASE = re.compile(rf"https?://({PLAIN_HOST})(/[{PATH_CHARACTERS}]*+)")
# Most hosts differ from special ones in their last characters. A host of 8 or more characters is recognised by
# the last 8, a shorter one by the last 5.
_ENDING_CHARACTERS, _SHORT_ENDING_CHARACTERS = 8, 5


class Shortcut:
    """The rules of a policy that can change a plain URL, and the endings of hosts that need the reference."""

    __slots__ = (
        "collapse_slashes",
        "endings",
        "hosts",
        "keep_embedded",
        "short_endings",
        "strip_trailing_slash",
        "strip_www",
    )

    def __init__(self, policy: Policy) -> None:
        hosts = [host.decode() for host, _, _ in list_special_hosts(policy)]
        self.hosts = frozenset(hosts)
        self.endings = frozenset(host[-_ENDING_CHARACTERS:] for host in hosts)
        short = [host for host in hosts if len(host) < _ENDING_CHARACTERS]
        self.short_endings = frozenset(
            each[-_SHORT_ENDING_CHARACTERS:] for host in short for each in (host, f"www.{host}")
        )
        self.strip_www = policy.strip_www
        self.collapse_slashes = policy.collapse_slashes
        self.keep_embedded = policy.keep_embedded
        self.strip_trailing_slash = policy.strip_trailing_slash


_BY_NAME: dict[str, Shortcut] = {}


def normalize(url: str, policy: Policy | str = "bookmark") -> str:
    """Normalize a URL under a policy; InvalidUrl if it is not an http(s) URL."""
    shortcut = _BY_NAME.get(policy) if type(policy) is str else None
    if shortcut is None:
        shortcut = _get_shortcut(policy)
    plain = _PLAIN_LOWER_CASE.fullmatch(url) if type(url) is str else None
    if plain is None or "/." in url:
        return reference.normalize(url, policy)
    host, path = plain.groups()
    is_known = (
        host[-_ENDING_CHARACTERS:] in shortcut.endings or host[-_SHORT_ENDING_CHARACTERS:] in shortcut.short_endings
    ) and _is_special(host, shortcut.hosts)
    has_address = shortcut.keep_embedded and ":/" in path
    if is_known or has_address or "xn--" in host or (shortcut.collapse_slashes and "//" in path):
        return reference.normalize(url, policy)
    if shortcut.strip_www and host.startswith("www."):
        url = f"{url[: plain.start(1)]}{strip_www(host)}{path}"
    if shortcut.strip_trailing_slash and path[-1] == "/":
        url = f"{url[: -len(path)]}{strip_trailing_slashes(path)}"
    return url


def _is_special(host: str, hosts: frozenset[str]) -> bool:
    """Return whether a rule names a host: itself, without `www.`, or what follows its first label."""
    bare = strip_www(host)
    return host in hosts or bare in hosts or bare.partition(".")[2] in hosts


def normalize_many(urls: Iterable[str], policy: Policy | str = "bookmark") -> list[str | None]:
    """Normalize each URL; None for one that is not valid."""
    chosen = reference.resolve_policy(policy)
    return [_normalize_or_none(url, chosen) for url in urls]


def normalize_and_hash_many(urls: Iterable[str], policy: Policy | str = "bookmark") -> list[tuple[str, str] | None]:
    """Return (normalized URL, hex sha256) for each URL; None for one that is not valid."""
    return [url if url is None else (url, reference.sha256(url)) for url in normalize_many(urls, policy)]


def canonical_hash(url: str, policy: Policy | str = "article@0") -> str:
    """Return the hex sha256 of the normalized URL (contract N6)."""
    return reference.sha256(normalize(url, policy))


def _normalize_or_none(url: str, policy: Policy) -> str | None:
    try:
        return normalize(url, policy)
    except InvalidUrl:
        return None


def _get_shortcut(policy: Policy | str) -> Shortcut:
    chosen = reference.resolve_policy(policy)
    shortcut = chosen.native
    if not isinstance(shortcut, Shortcut):
        shortcut = Shortcut(chosen)
        object.__setattr__(chosen, "native", shortcut)
    if type(policy) is str and chosen.overrides is None and policy not in TAKES_OVERRIDES:
        _BY_NAME[policy] = shortcut
    return shortcut
