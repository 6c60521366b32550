"""Convert the options of a policy to the tuples from which policy_rules.c builds its tables."""

from __future__ import annotations

from canonry.core.native.site_programs import SITE_PROGRAMS
from canonry.core.policy import FRAGMENTS
from canonry.core.rules import strip_www
from canonry.core.sites import SITES
from canonry.core.tables import SITE_TABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from canonry.core.policy import Policy

    Names = tuple[bytes, ...]
    Switches = tuple[bool, ...]
    Hosts = tuple[tuple[bytes, int, int, int, int, int, int], ...]
    Tables = tuple[Switches, int, tuple[Names, ...], Hosts, bytes, bytes, tuple[bytes, ...]]
    Program = tuple[tuple[tuple[str, int], ...], bytes]

# Flags of a special host, equal to the HOST_… constants in rules.h.
_IS_SITE, _IS_DOMAIN, _HAS_OVERRIDE, _HAS_NAMES, _HAS_TABLE, _HAS_DOMAIN_TABLES = 1, 2, 4, 8, 16, 32
IS_ANY_DOMAIN = _IS_DOMAIN | _HAS_DOMAIN_TABLES  # a host with one label before it is special, too
_NO_PROGRAM: Program = ((), b"")
_MAX_NAME_BYTES, _MAX_LIST_BYTES, _MAX_LISTS = 255, 60_000, 1_000


def make_tables(policy: Policy) -> Tables | None:
    """Make the tables of a policy; None if they are too large, so that the reference answers for every URL."""
    lists = [policy.strip_params, *((*policy.strip_params, *names) for _, names in policy.strip_params_on)]
    names = tuple(tuple(name.encode().lower() for name in listed) for listed in lists)
    if len(names) > _MAX_LISTS or not all(map(_fits, names)):
        return None
    # Longer hosts need no entry: the C code leaves their URLs to the reference without a lookup.
    program, records, by_host = link_programs(policy)
    overrides = _make_overrides(policy)
    if overrides is None:
        return None
    places = {host: place for place, host in enumerate(overrides)}
    hosts = tuple(
        (host, flags, names, places.get(host, 0), *by_host.get(host, (0, 0, 0)))
        for host, flags, names in list_special_hosts(policy)
        if len(host) <= _MAX_NAME_BYTES
    )
    switches = (
        policy.parse,
        policy.strip_www,
        policy.normalize_escapes,
        policy.collapse_slashes,
        policy.strip_trailing_slash,
        policy.sort_params,
        policy.keep_embedded,
    )
    return switches, FRAGMENTS.index(policy.fragment), names, hosts, program, records, tuple(overrides.values())


def _make_overrides(policy: Policy) -> dict[bytes, bytes] | None:
    if policy.overrides is None:
        return {}
    from canonry.core.native.override_programs import make_override_programs  # needed by few, and slow to import

    return make_override_programs(policy.overrides)


def _fits(names: Names) -> bool:
    lengths = [len(name) for name in names]
    return sum(lengths) <= _MAX_LIST_BYTES and max(lengths, default=0) <= _MAX_NAME_BYTES


def list_special_hosts(policy: Policy) -> list[tuple[bytes, int, int]]:
    """List every host that a rule treats specially: its name, its flags, the index of its list of parameters."""
    kinds: dict[str, int] = {}
    for code_site in (SITES[site](SITE_TABLES[site]) for site in policy.sites if site in SITES):
        for host in (*code_site.hosts, code_site.main_host):
            kinds[host] = kinds[strip_www(host)] = _IS_SITE
        for domain in code_site.domains:
            kinds[domain] = _IS_DOMAIN | _IS_SITE
    for site in policy.sites:
        for host, _ in SITE_PROGRAMS.get(site, _NO_PROGRAM)[0]:
            name, kind = (host[2:], _HAS_DOMAIN_TABLES) if host[0] == "*" else (host, _HAS_TABLE)
            kinds[name] = kinds.get(name, 0) | kind
    for host in policy.overrides.by_host if policy.overrides else ():
        kinds[host] = kinds.get(host, 0) | _HAS_OVERRIDE
    places = {host: place for place, (host, _) in enumerate(policy.strip_params_on, 1)}
    for host in places:
        kinds[host] = kinds.get(host, 0) | _HAS_NAMES
    return [(host.encode(), kind, places.get(host, 0)) for host, kind in kinds.items()]


def link_programs(policy: Policy) -> tuple[bytes, bytes, dict[bytes, tuple[int, int, int]]]:
    """Join the programs of the sites; return them, the places of records, and which records each host has.

    A host has the index of its own record, and the index and number of the records for hosts with one more label.
    """
    programs: list[bytes] = []
    tables: dict[str, int] = {}
    domains: dict[str, list[int]] = {}
    start = 0
    for site in policy.sites:
        hosts, program = SITE_PROGRAMS.get(site, _NO_PROGRAM)
        for host, place in hosts:
            if host[0] == "*":
                domains.setdefault(host[2:], []).append(start + place)
            else:
                tables[host] = start + place
        programs.append(program)
        start += len(program)
    indexes: dict[int, int] = {}
    by_host = {host: (indexes.setdefault(place, len(indexes)), 0, 0) for host, place in tables.items()}
    places = list(indexes)
    for domain, listed in domains.items():
        by_host[domain] = (by_host.get(domain, (0, 0, 0))[0], len(places), len(listed))
        places += listed
    records = b"".join(place.to_bytes(4, "little") for place in places)
    return b"".join(programs), records, {host.encode(): found for host, found in by_host.items()}
