"""A policy's options as the C core takes them (c/rules.h): plain tables of bytes."""

from __future__ import annotations

from canonry.core.rules import strip_www
from canonry.core.sites import SITES
from canonry.core.tables import SITE_TABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from canonry.core.policy import Policy

    Names = tuple[bytes, ...]
    Switches = tuple[bool, ...]
    Tables = tuple[Switches, int, tuple[Names, ...], tuple[tuple[bytes, int, int], ...]]

# What is special about a host: the C core hands it back, or drops other parameters there.
_IS_SITE, _IS_DOMAIN, _HAS_OVERRIDE, _HAS_NAMES = 1, 2, 4, 8
_FRAGMENTS = ("drop", "keep", "routes")
_MAX_NAME_BYTES, _MAX_LIST_BYTES, _MAX_LISTS = 255, 60_000, 1_000


def make_tables(policy: Policy) -> Tables | None:
    """The tables; None where they would not fit, and the reference answers everything."""
    lists = [policy.strip_params, *((*policy.strip_params, *names) for _, names in policy.strip_params_on)]
    names = tuple(tuple(name.encode().lower() for name in some) for some in lists)
    if len(names) > _MAX_LISTS or not all(map(_fits, names)):
        return None
    # A longer host is handed back before it is looked up.
    hosts = tuple(known for known in list_special_hosts(policy) if len(known[0]) <= _MAX_NAME_BYTES)
    switches = (
        policy.parse,
        policy.strip_www,
        policy.normalize_escapes,
        policy.collapse_slashes,
        policy.strip_trailing_slash,
        policy.sort_params,
    )
    return switches, _FRAGMENTS.index(policy.fragment), names, hosts


tables_of = make_tables  # the name that the C core looks up


def _fits(names: Names) -> bool:
    lengths = [len(name) for name in names]
    return sum(lengths) <= _MAX_LIST_BYTES and max(lengths, default=0) <= _MAX_NAME_BYTES


def list_special_hosts(policy: Policy) -> list[tuple[bytes, int, int]]:
    """Every host that a rule treats in its own way: its name, what it is, which list of parameters holds there."""
    kinds: dict[str, int] = {}
    for site in (SITES[site](SITE_TABLES[site]) for site in policy.sites):
        for host in (*site.hosts, site.target):
            kinds[host] = kinds[strip_www(host)] = _IS_SITE
        for domain in site.domains:
            kinds[domain] = _IS_DOMAIN | _IS_SITE
    for host in policy.overrides.by_host if policy.overrides else ():
        kinds[host] = kinds.get(host, 0) | _HAS_OVERRIDE
    places = {host: place for place, (host, _) in enumerate(policy.strip_params_on, 1)}
    for host in places:
        kinds[host] = kinds.get(host, 0) | _HAS_NAMES
    return [(host.encode(), kind, places.get(host, 0)) for host, kind in kinds.items()]
