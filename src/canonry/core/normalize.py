"""Normalize URLs under a policy: the reference in Python that the C code must agree with (contract N4).

At its first use a policy becomes a plan: the rules that are on, in order, each a function that edits
the parts of a URL in place. `explain` (explain.py) runs the same plan and records what each rule changed.
"""

from __future__ import annotations

from canonry.core import rules
from canonry.core.policy import Policy
from canonry.core.presets import policy as shipped_policy
from canonry.core.sites import SITES, SiteRules
from canonry.core.tables import SITE_TABLES
from canonry.core.url import Parts, parse
from canonry.url_errors import InvalidUrl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from canonry.core.site_pages import SiteTables

    Matcher = Callable[[str], bool]
    Edit = Callable[[Parts], bool | None]  # True: the rules after it do not apply

RULES = (
    "parse",
    "site_host",
    "strip_www",
    "strip_auth",
    "normalize_escapes",
    "collapse_slashes",
    "strip_trailing_slash",
    "site_path",
    "strip_params",
    "sort_params",
    "fragment",
    "overrides",
)
# Overrides are applied again until nothing changes. To bound the cost, a long URL gets fewer rounds: all
# rounds together read at most _MAX_CHARACTERS, but there are never fewer than _MIN_ROUNDS.
_MAX_ROUNDS, _MIN_ROUNDS = 5_000, 100
_MAX_CHARACTERS = 20_000_000


class Plan:
    """The rules 2 to 11 that are on in a policy, in order, as functions that edit the parts of a URL."""

    __slots__ = ("edits", "final_steps", "steps", "tables")

    def __init__(self, policy: Policy) -> None:
        # Large, and not needed for what the C core answers itself.
        from canonry.core.site_pages import SiteTables
        from canonry.core.site_tables import SITE_PAGES

        get_dropped = _make_get_dropped(policy)
        self.tables = SiteTables(
            [SITE_PAGES[site] for site in policy.sites if site in SITE_PAGES],
            get_dropped,
            keep_embedded=policy.keep_embedded,
        )
        edits = _make_edits(policy, self.tables, get_dropped)
        self.steps = tuple((rule, edits[rule]) for rule in RULES if rule in edits)
        self.edits = tuple(edit for _, edit in self.steps)
        # What still applies to an address that is kept whole: a fragment that the policy drops everywhere.
        self.final_steps = tuple(step for step in self.steps if step[0] == "fragment" and policy.fragment == "drop")


def normalize(url: str, policy: Policy | str = "bookmark") -> str:
    """Normalize a URL under a policy; InvalidUrl if it is not an http(s) URL."""
    policy = resolve_policy(policy)
    parts = parse(url)
    return normalize_parts(url, parts, policy) if policy.parse else url


def normalize_parts(url: str, parts: Parts, policy: Policy) -> str:
    """Normalize a URL that was parsed into these parts."""
    apply_edits(policy.plan or get_plan(policy), parts)
    text = str(parts)
    return text if policy.overrides is None else _apply_overrides(url, text, parts, policy)


def apply_edits(plan: Plan, parts: Parts) -> None:
    """Apply rules 2 to 11 in order, up to one that says that the URL is to be kept as it is now."""
    for edit in plan.edits:
        if edit(parts):
            for _, last in plan.final_steps:
                last(parts)
            return


def _apply_overrides(url: str, text: str, parts: Parts, policy: Policy) -> str:
    """Apply rule 12, then all rules again, until nothing changes."""
    for _ in limit_rounds(url, policy):
        changed = apply_override_once(text, parts, policy)
        if changed is None:
            return text
        parts, text = changed, str(changed)
    raise make_endless_error(url)


def apply_override_once(text: str, parts: Parts, policy: Policy) -> Parts | None:
    """Apply rule 12 and then all other rules to a normalized URL; None if no override changes it."""
    assert policy.overrides is not None
    after = policy.overrides.apply(text, parts)
    if after == text:
        return None
    parts = parse(after)
    apply_edits(get_plan(policy), parts)
    return parts


def normalize_many(urls: Iterable[str], policy: Policy | str = "bookmark") -> list[str | None]:
    """Normalize each URL; None for one that is not valid."""
    policy = resolve_policy(policy)
    return [normalize_or_none(url, policy) for url in urls]


def normalize_or_none(url: str, policy: Policy | str) -> str | None:
    """Normalize a URL; None if it is not valid."""
    try:
        return normalize(url, policy)
    except InvalidUrl:
        return None


def canonical_hash(url: str, policy: Policy | str = "article@0") -> str:
    """Return the hex sha256 of the normalized URL (contract N6)."""
    return sha256(normalize(url, policy))


def sha256(text: str) -> str:
    """Return the hex sha256 of the text in UTF-8."""
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


def resolve_policy(policy: Policy | str) -> Policy:
    """Return the policy itself, or the shipped one of that name or id."""
    return policy if isinstance(policy, Policy) else shipped_policy(policy)


def get_plan(policy: Policy) -> Plan:
    """Return the plan of a policy; it is made at the first use."""
    plan = policy.plan
    if plan is None:
        plan = Plan(policy)
        object.__setattr__(policy, "plan", plan)
    return plan


def limit_rounds(url: str, policy: Policy) -> range:
    """Return the range of rounds that rule 12 may take: one for each override, and more the shorter the URL is."""
    count = len(policy.overrides.by_host) if policy.overrides else 0
    return range(1 + count + max(_MIN_ROUNDS, min(_MAX_ROUNDS, _MAX_CHARACTERS // len(url))))


def make_endless_error(url: str) -> InvalidUrl:
    """Make the error for a URL that the overrides keep changing."""
    return InvalidUrl(url, "the overrides rewrite it without end")


def _make_edits(policy: Policy, tables: SiteTables, get_dropped: Callable[[str], Matcher]) -> dict[str, Edit]:
    edits: dict[str, Edit] = {}
    sites_in_code = [SITES[site](SITE_TABLES[site]) for site in policy.sites if site in SITES]
    code_sites = SiteRules(sites_in_code)
    if policy.sites:
        edits["site_host"] = _make_site_host(code_sites, tables) if sites_in_code else tables.move_host
        edits["site_path"] = _make_site_path(code_sites, tables) if sites_in_code else tables.rewrite_path
    if policy.keep_embedded:
        move_host = edits.get("site_host")
        edits["site_host"] = lambda parts: bool(move_host and move_host(parts)) or rules.embeds_address(parts)
    if policy.strip_www:
        edits["strip_www"] = _make_strip_www(code_sites.main_hosts | tables.main_hosts)
    if policy.strip_auth:
        edits["strip_auth"] = _strip_auth
    if policy.normalize_escapes:
        edits["normalize_escapes"] = _normalize_escapes
    if policy.collapse_slashes:
        edits["collapse_slashes"] = _collapse_slashes
    if policy.strip_trailing_slash:
        edits["strip_trailing_slash"] = _strip_trailing_slash
    if policy.strip_params or policy.strip_params_on:
        edits["strip_params"] = _make_strip_params(get_dropped, tables)
    if policy.sort_params:
        edits["sort_params"] = _sort_params
    if policy.fragment != "keep":
        edits["fragment"] = {
            "drop": _drop_fragment,
            "routes": _keep_route,
            "clean": _make_clean_fragment(get_dropped, tables),
        }[policy.fragment]
    return edits


def _make_site_host(code_sites: SiteRules, tables: SiteTables) -> Edit:
    """Make rule 2 for the sites of a policy."""

    def move_host(parts: Parts) -> bool:
        code_sites.move_host(parts)
        is_kept_whole = tables.move_host(parts)
        if not is_kept_whole:
            code_sites.move_host(parts)  # a redirect page of a table may lead to a mirror host
        return is_kept_whole

    return move_host


def _make_site_path(code_sites: SiteRules, tables: SiteTables) -> Edit:
    """Make rule 8 for the sites of a policy."""

    def rewrite_path(parts: Parts) -> None:
        code_sites.rewrite_path(parts)
        tables.rewrite_path(parts)

    return rewrite_path


def _make_strip_www(main_hosts: frozenset[str]) -> Edit:
    """Make rule 3, which leaves the main hosts of sites alone."""

    def strip_www(parts: Parts) -> None:
        if parts.host.startswith("www.") and parts.host not in main_hosts:
            parts.host = rules.strip_www(parts.host)

    return strip_www


def _strip_auth(parts: Parts) -> None:
    parts.userinfo = None


def _normalize_escapes(parts: Parts) -> None:
    if "%" in parts.path:
        parts.path = rules.normalize_escapes(parts.path)
    if parts.query is not None:
        parts.query = rules.normalize_escapes(parts.query)


def _collapse_slashes(parts: Parts) -> None:
    if "//" in parts.path:
        parts.path = rules.collapse_slashes(parts.path)


def _strip_trailing_slash(parts: Parts) -> None:
    if parts.path[-1] == "/":
        parts.path = rules.strip_trailing_slashes(parts.path)


def _make_get_dropped(policy: Policy) -> Callable[[str], Matcher]:
    """Make a function that returns, for a host, whether the policy drops a parameter there."""
    everywhere = rules.make_name_matcher(policy.strip_params)
    by_host = {host: rules.make_name_matcher((*policy.strip_params, *names)) for host, names in policy.strip_params_on}
    return lambda host: by_host.get(host, everywhere)


def _make_strip_params(get_dropped: Callable[[str], Matcher], tables: SiteTables) -> Edit:
    """Make rule 9 with the parameter names of the policy, except those that a site needs."""

    def strip_params(parts: Parts) -> None:
        if parts.query is None:
            return
        parts.query = rules.drop_params(parts.query, _get_matcher(parts.host, get_dropped, tables))

    return strip_params


def _get_matcher(host: str, get_dropped: Callable[[str], Matcher], tables: SiteTables) -> Matcher:
    """Return what decides whether a parameter is dropped on a host: the policy, but not what the site needs."""
    dropped, is_needed = get_dropped(host), tables.find_needed(host)
    return dropped if is_needed is None else lambda param: dropped(param) and not is_needed(param)


def _make_clean_fragment(get_dropped: Callable[[str], Matcher], tables: SiteTables) -> Edit:
    """Make rule 11 for `clean`: without text directives and fragments of tracking parameters alone."""

    def clean_fragment(parts: Parts) -> None:
        if parts.fragment is not None:
            parts.fragment = rules.clean_fragment(parts.fragment, _get_matcher(parts.host, get_dropped, tables))

    return clean_fragment


def _sort_params(parts: Parts) -> None:
    if parts.query is not None:
        parts.query = rules.sort_params(parts.query)


def _drop_fragment(parts: Parts) -> None:
    parts.fragment = None


def _keep_route(parts: Parts) -> None:
    parts.fragment = rules.keep_route(parts.fragment)
