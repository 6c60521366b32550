"""Convert the options of a policy to the tuples from which policy_rules.c builds its tables."""

from __future__ import annotations

from canonry.core.rules import strip_www
from canonry.core.site_tables import SITE_PAGES
from canonry.core.sites import SITES
from canonry.core.tables import SITE_TABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from canonry.core.policy import Policy

    Names = tuple[bytes, ...]
    Switches = tuple[bool, ...]
    Tables = tuple[Switches, int, tuple[Names, ...], tuple[tuple[bytes, int, int], ...]]

# Flags of a special host, equal to the HOST_… constants in rules.h.
_IS_SITE, _IS_DOMAIN, _HAS_OVERRIDE, _HAS_NAMES = 1, 2, 4, 8
_FRAGMENTS = ("drop", "keep", "routes")
_MAX_NAME_BYTES, _MAX_LIST_BYTES, _MAX_LISTS = 255, 60_000, 1_000


def make_tables(policy: Policy) -> Tables | None:
    """Make the tables of a policy; None if they are too large, so that the reference answers for every URL."""
    lists = [policy.strip_params, *((*policy.strip_params, *names) for _, names in policy.strip_params_on)]
    names = tuple(tuple(name.encode().lower() for name in listed) for listed in lists)
    # TODO: keep_embedded and clean in C
    if policy.keep_embedded or policy.fragment == "clean":
        return None
    if len(names) > _MAX_LISTS or not all(map(_fits, names)):
        return None
    # Longer hosts need no entry: the C code leaves their URLs to the reference without a lookup.
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


def _fits(names: Names) -> bool:
    lengths = [len(name) for name in names]
    return sum(lengths) <= _MAX_LIST_BYTES and max(lengths, default=0) <= _MAX_NAME_BYTES


def list_special_hosts(policy: Policy) -> list[tuple[bytes, int, int]]:
    """List every host that a rule treats specially: its name, its flags, the index of its list of parameters."""
    kinds: dict[str, int] = {}
    for site in (SITES[site](SITE_TABLES[site]) for site in policy.sites if site in SITES):
        for host in (*site.hosts, site.target):
            kinds[host] = kinds[strip_www(host)] = _IS_SITE
        for domain in site.domains:
            kinds[domain] = _IS_DOMAIN | _IS_SITE
    # TODO: run the tables in C
    for table in (SITE_PAGES[site] for site in policy.sites if site in SITE_PAGES):
        for host, *_ in (host for block in table["blocks"] for host in block["hosts"]):
            is_wild = host.startswith("*.")
            kinds[host.removeprefix("*.")] = kinds.get(host, 0) | (_IS_DOMAIN | _IS_SITE if is_wild else _IS_SITE)
    for host in policy.overrides.by_host if policy.overrides else ():
        kinds[host] = kinds.get(host, 0) | _HAS_OVERRIDE
    places = {host: place for place, (host, _) in enumerate(policy.strip_params_on, 1)}
    for host in places:
        kinds[host] = kinds.get(host, 0) | _HAS_NAMES
    return [(host.encode(), kind, places.get(host, 0)) for host, kind in kinds.items()]
