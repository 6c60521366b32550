"""Normalize without the C code: one regular expression finds plain URLs, the reference does the others."""

from __future__ import annotations

import re

from canonry.core import normalize as reference
from canonry.core.configured_overrides import TAKES_OVERRIDES
from canonry.core.native.policy_tables import IS_ANY_DOMAIN, list_special_hosts
from canonry.core.policy import Policy
from canonry.core.rules import drop_params, make_name_matcher, sort_params, strip_trailing_slashes, strip_www
from canonry.core.sites import SITES
from canonry.core.url import Parts
from canonry.url_errors import InvalidUrl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# A URL that the parser returns unchanged, and in which a rule can only change `www.`, a slash at the end and
# parameters, unless it names the host: no upper case or `xn--` in the host, no port, escape, dot segment, double
# slash, fragment or address inside the URL. The host has a dot, and is captured without `www.`.
_PLAIN_URL = re.compile(
    r"(https?)://(www\.|)((?!xn--|www\.)[a-z0-9_-]++\.((?>(?!xn--)[a-z0-9_-]++\.)*+(?!xn--)[a-z][a-z0-9_-]*+))"
    r"(/(?>[A-Za-z0-9\-_~!$&'()*+,;=@|\[\]][A-Za-z0-9\-._~!$&'()*+,;=@|\[\]]*+/?+)*+)"
    r"(?:\?([A-Za-z0-9\-._~!$&()*+,;=@/?|\[\]\\^`{}]++))?"
)
_match_plain = _PLAIN_URL.fullmatch
_WWW, _HOST, _DOMAIN, _PATH = 2, 3, 4, 5  # the groups; the domain is what follows the first label of the host


class Shortcut:
    """The effect of a policy on a plain URL, and the hosts and domains that its rules name."""

    __slots__ = (
        "domains", "hosts", "is_dropped", "policy", "sort_params", "strip_trailing_slash", "strip_www", "writes_tables",
    )  # fmt: skip

    def __init__(self, policy: Policy) -> None:
        named = [(host.decode(), kind) for host, kind, _ in list_special_hosts(policy)]
        self.hosts = frozenset(strip_www(host) for host, _ in named)
        self.domains = frozenset(host for host, kind in named if kind & IS_ANY_DOMAIN)
        self.policy = policy
        self.is_dropped = make_name_matcher(policy.strip_params)
        self.sort_params = policy.sort_params
        self.strip_trailing_slash = policy.strip_trailing_slash
        self.strip_www = policy.strip_www
        # Whether no other rule can change the address that the table of a site writes.
        has_code = any(site in SITES for site in policy.sites)
        self.writes_tables = not (has_code or policy.strip_www or policy.overrides)


_BY_NAME: dict[str, Shortcut] = {}


def normalize(url: str, policy: Policy | str = "bookmark") -> str:
    """Normalize a URL under a policy; InvalidUrl if it is not an http(s) URL."""
    shortcut = policy.native if type(policy) is Policy else _BY_NAME.get(policy)  # type: ignore[arg-type]
    if type(shortcut) is not Shortcut:
        shortcut = _get_shortcut(policy)
    plain = _match_plain(url) if type(url) is str else None
    if plain is None:
        return reference.normalize(url, policy)
    if plain[_HOST] in shortcut.hosts or plain[_DOMAIN] in shortcut.domains:
        return _normalize_special(plain, shortcut)
    if url[-1] != "/" and plain.lastindex == _PATH and not (shortcut.strip_www and plain[_WWW]):
        return url
    return _rewrite(plain, shortcut)


def _normalize_special(plain: re.Match[str], shortcut: Shortcut) -> str:
    """Normalize a plain URL of a host that a rule names."""
    scheme, www, host, _, path, query = plain.groups()
    if query is None and shortcut.writes_tables:
        plan = reference.get_plan(shortcut.policy)
        kept = strip_trailing_slashes(path) if shortcut.strip_trailing_slash else path
        written = plan.tables.write_plain(www + host, kept)
        if written is not None:
            return written
    parts = Parts(scheme, None, www + host, None, path, query, None)
    return reference.normalize_parts(plain[0], parts, shortcut.policy)


def _rewrite(plain: re.Match[str], shortcut: Shortcut) -> str:
    """Drop `www.`, the last slash and parameters of a plain URL as the policy says; no rule names its host."""
    scheme, www, host, _, path, query = plain.groups()
    start = f"{scheme}://{host}" if shortcut.strip_www else f"{scheme}://{www}{host}"
    if shortcut.strip_trailing_slash:
        path = strip_trailing_slashes(path)
    if query is not None:
        query = drop_params(query, shortcut.is_dropped)
        if shortcut.sort_params:
            query = sort_params(query)
    return f"{start}{path}" if query is None else f"{start}{path}?{query}"


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
