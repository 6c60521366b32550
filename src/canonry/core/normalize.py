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

    Edit = Callable[[Parts], None]

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

    __slots__ = ("edits", "steps")

    def __init__(self, policy: Policy) -> None:
        edits = _make_edits(policy)
        self.steps = tuple((rule, edits[rule]) for rule in RULES if rule in edits)
        self.edits = tuple(edit for _, edit in self.steps)


def normalize(url: str, policy: Policy | str = "bookmark") -> str:
    """Normalize a URL under a policy; InvalidUrl if it is not an http(s) URL."""
    policy = resolve_policy(policy)
    plan = policy.plan or get_plan(policy)
    parts = parse(url)
    if not policy.parse:
        return url
    for edit in plan.edits:
        edit(parts)
    text = str(parts)
    return text if policy.overrides is None else _apply_overrides(url, text, parts, policy)


def _apply_overrides(url: str, text: str, parts: Parts, policy: Policy) -> str:
    """Apply rule 12, then all rules again, until nothing changes."""
    assert policy.overrides is not None
    for _ in limit_rounds(url, policy):
        after = policy.overrides.apply(text, parts)
        if after == text:
            return text
        parts = parse(after)
        for edit in get_plan(policy).edits:
            edit(parts)
        text = str(parts)
    raise make_endless_error(url)


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


def _make_edits(policy: Policy) -> dict[str, Edit]:
    edits: dict[str, Edit] = {}
    sites = SiteRules([SITES[site](SITE_TABLES[site]) for site in policy.sites])
    if policy.sites:
        edits["site_host"] = sites.move_host
        edits["site_path"] = sites.rewrite_path
    if policy.strip_www:
        edits["strip_www"] = _make_strip_www(sites.targets)
    if policy.strip_auth:
        edits["strip_auth"] = _strip_auth
    if policy.normalize_escapes:
        edits["normalize_escapes"] = _normalize_escapes
    if policy.collapse_slashes:
        edits["collapse_slashes"] = _collapse_slashes
    if policy.strip_trailing_slash:
        edits["strip_trailing_slash"] = _strip_trailing_slash
    if policy.strip_params or policy.strip_params_on:
        edits["strip_params"] = _make_strip_params(policy)
    if policy.sort_params:
        edits["sort_params"] = _sort_params
    if policy.fragment != "keep":
        edits["fragment"] = _drop_fragment if policy.fragment == "drop" else _keep_route
    return edits


def _make_strip_www(targets: frozenset[str]) -> Edit:
    """Make rule 3, which leaves the main hosts of sites alone."""

    def strip_www(parts: Parts) -> None:
        if parts.host.startswith("www.") and parts.host not in targets:
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
    parts.path = rules.strip_trailing_slashes(parts.path)


def _make_strip_params(policy: Policy) -> Edit:
    """Make rule 9 with the parameter names of the policy."""
    everywhere = rules.make_name_matcher(policy.strip_params)
    by_host = {host: rules.make_name_matcher((*policy.strip_params, *names)) for host, names in policy.strip_params_on}

    def strip_params(parts: Parts) -> None:
        if parts.query is not None:
            parts.query = rules.drop_params(parts.query, by_host.get(parts.host, everywhere))

    return strip_params


def _sort_params(parts: Parts) -> None:
    parts.query = rules.sort_params(parts.query)


def _drop_fragment(parts: Parts) -> None:
    parts.fragment = None


def _keep_route(parts: Parts) -> None:
    parts.fragment = rules.keep_route(parts.fragment)
