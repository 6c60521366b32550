"""Policy: the options that decide what counts as the same URL, with an id `name@version` (contract N5).

The class is written without dataclasses: importing them would add a third to the time of `canonry normalize`.
"""

from __future__ import annotations

from canonry.core.configured_overrides import DIGEST_DIGITS
from canonry.core.tables import POLICIES, SITE_TABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from canonry.core.normalize import Plan
    from canonry.core.overrides import Overrides

SWITCHES = (
    "parse",
    "strip_www",
    "strip_auth",
    "normalize_escapes",
    "collapse_slashes",
    "strip_trailing_slash",
    "sort_params",
    "keep_embedded",
)
FRAGMENTS = ("drop", "keep", "routes", "clean")
OPTIONS = (*SWITCHES, "fragment", "sites", "strip_params", "strip_params_on")


class Policy:
    """The options that decide what a URL becomes. Frozen; policies with equal options and ids are equal."""

    __slots__ = ("about", "name", "native", "origin", "overrides", "plan", "version", *OPTIONS)

    name: str
    version: int
    about: str
    parse: bool  # False: an http(s) URL is returned as it was written
    strip_www: bool
    strip_auth: bool
    normalize_escapes: bool
    collapse_slashes: bool
    strip_trailing_slash: bool
    sort_params: bool
    keep_embedded: bool  # an address with another one in its path is kept as it is
    fragment: str
    sites: tuple[str, ...]
    strip_params: tuple[str, ...]
    strip_params_on: tuple[tuple[str, tuple[str, ...]], ...]
    overrides: Overrides | None
    origin: Policy | None  # the policy from which with_… and without_… derived this one
    plan: Plan | None  # the functions that normalize.py makes from the options at the first use
    native: object  # the tables that the C core, or shortcut.py without it, makes from the options at the first use

    def __init__(
        self,
        name: str,
        version: int,
        *,
        about: str = "",
        parse: bool = True,
        strip_www: bool = False,
        strip_auth: bool = False,
        normalize_escapes: bool = False,
        collapse_slashes: bool = False,
        strip_trailing_slash: bool = False,
        sort_params: bool = False,
        keep_embedded: bool = False,
        fragment: str = "keep",
        sites: Iterable[str] = (),
        strip_params: Iterable[str] = (),
        strip_params_on: Mapping[str, Iterable[str]] | None = None,
        overrides: Overrides | None = None,
    ) -> None:
        from canonry.core import policy_checks as checks

        checks.check_identity(name, version, about)
        options: dict[str, Any] = {
            "parse": parse,
            "strip_www": strip_www,
            "strip_auth": strip_auth,
            "normalize_escapes": normalize_escapes,
            "collapse_slashes": collapse_slashes,
            "strip_trailing_slash": strip_trailing_slash,
            "sort_params": sort_params,
            "keep_embedded": keep_embedded,
            "fragment": fragment,
            "sites": checks.check_sites(sites),
            "strip_params": checks.check_params(strip_params, "strip_params"),
            "strip_params_on": checks.check_params_by_host(strip_params_on or {}),
        }
        checks.check_switches_and_fragment(options)
        checks.require(
            parse or (overrides is None and options == {**_DEFAULTS, "parse": False}),
            "parse",
            "must be true if any other rule is on: parse = false returns the text unchanged",
        )
        _set_fields(self, {"name": name, "version": version, "about": about, **options, "overrides": overrides})
        if overrides is not None:
            checks.check_overrides(self)

    @property
    def id(self) -> str:
        """`name@version`, then `~hex` if the options were changed, then `+hex` if there is an overrides file."""
        changed = f"~{self._digest_options()[:DIGEST_DIGITS]}" if self.is_changed else ""
        overrides = f"+{self.overrides.digest[:DIGEST_DIGITS]}" if self.overrides else ""
        return f"{self.name}@{self.version}{changed}{overrides}"

    @property
    def is_changed(self) -> bool:
        """Whether the options differ from those of the policy that first had this name and version."""
        own_id = f"{self.name}@{self.version}"
        origin = self.origin or (get_shipped(own_id) if own_id in POLICIES else self)
        return self._list_options() != origin._list_options()  # noqa: SLF001

    @property
    def digest(self) -> str:
        """Hex sha256 of everything that decides an answer: options, site tables, overrides."""
        overrides = self.overrides.digest if self.overrides else ""
        return _sha256(f"{self._digest_options()}+{overrides}")

    def options(self) -> dict[str, object]:
        """Return every option by name, as values that JSON and TOML can write."""
        values = {option: getattr(self, option) for option in OPTIONS}
        return {
            **values,
            "sites": list(self.sites),
            "strip_params": list(self.strip_params),
            "strip_params_on": {host: list(names) for host, names in self.strip_params_on},
        }

    def with_rules(self, *switches: str) -> Policy:
        """Return a policy with these rules on: `with_rules("strip_www", "sort_params")`."""
        return self._switch(switches, is_on=True)

    def without_rules(self, *switches: str) -> Policy:
        """Return a policy with these rules off."""
        return self._switch(switches, is_on=False)

    def with_fragment(self, fragment: str) -> Policy:
        """Return a policy that treats fragments this way: `drop`, `keep`, `routes` or `clean`."""
        return self._derive({"fragment": fragment})

    def with_params(self, *names: str, host: str | None = None) -> Policy:
        """Return a policy that drops these parameters too, everywhere or on one host; `utm_*` is a prefix."""
        if host is None:
            return self._derive({"strip_params": (*self.strip_params, *names)})
        by_host = dict(self.strip_params_on)
        return self._derive({"strip_params_on": {**by_host, host: (*by_host.get(host, ()), *names)}})

    def without_params(self, *names: str, host: str | None = None) -> Policy:
        """Return a policy that keeps these parameters; each must be listed exactly as written here."""
        from canonry.core import policy_checks as checks

        listed = self.strip_params if host is None else dict(self.strip_params_on).get(host, ())
        unlisted = sorted(set(names) - set(listed))
        checks.require(not unlisted, "strip_params", f"does not list {', '.join(unlisted)}")
        kept = [name for name in listed if name not in names]
        if host is None:
            return self._derive({"strip_params": kept})
        by_host = {**dict(self.strip_params_on), host: kept}
        return self._derive({"strip_params_on": {each: params for each, params in by_host.items() if params}})

    def with_sites(self, *sites: str) -> Policy:
        """Return a policy with these site rules too."""
        return self._derive({"sites": (*self.sites, *sites)})

    def without_sites(self, *sites: str) -> Policy:
        """Return a policy without these site rules."""
        from canonry.core import policy_checks as checks

        for site in sites:
            checks.find_site(site)
        kept = [site for site in self.sites if site not in sites and site.partition("@")[0] not in sites]
        return self._derive({"sites": kept})

    def with_name(self, name: str, version: int = 1) -> Policy:
        """Return a policy with the same options under another name and version."""
        from canonry.core import policy_checks as checks

        checks.refuse_shipped_name(name)
        return self._copy({"name": name, "version": version})

    def with_overrides(self, text: str, *, file: str = "overrides") -> Policy:
        """Return a policy with the overrides in this JSON text (contract N4 rule 12); PolicyError on any mistake."""
        from canonry.core.overrides import parse_overrides

        return self._derive({"overrides": parse_overrides(text, file)})

    def without_overrides(self) -> Policy:
        """Return a policy without overrides."""
        return self._derive({"overrides": None})

    def _switch(self, switches: Iterable[str], *, is_on: bool) -> Policy:
        from canonry.core import policy_checks as checks

        return self._derive({checks.check_switch(switch): is_on for switch in switches})

    def _derive(self, changes: dict[str, Any]) -> Policy:
        derived = self._copy(changes)
        object.__setattr__(derived, "origin", self.origin or self)
        return derived

    def _copy(self, changes: dict[str, Any]) -> Policy:
        fields: dict[str, Any] = {field: getattr(self, field) for field in ("name", "version", "about", *OPTIONS)}
        fields |= {"strip_params_on": dict(self.strip_params_on), "overrides": self.overrides}
        return Policy(**{**fields, **changes})

    def _list_options(self) -> tuple[object, ...]:
        return tuple(getattr(self, option) for option in OPTIONS)

    def _digest_options(self) -> str:
        import json

        tables = {site: get_site_table(site) for site in self.sites}
        options = {option: value for option, value in self.options().items() if option not in _LATER_OPTIONS or value}
        return _sha256(json.dumps([options, tables], sort_keys=True))

    def __setattr__(self, field: str, value: object) -> None:
        raise AttributeError(f"cannot set {field}: a policy is frozen; derive another with with_… or without_…")

    def __delattr__(self, field: str) -> None:
        raise AttributeError(f"cannot delete {field}: a policy is frozen")

    def _make_key(self) -> tuple[object, ...]:
        return (self.name, self.version, self.is_changed, self.overrides, self._list_options())

    def __eq__(self, other: object) -> bool:
        return self._make_key() == other._make_key() if isinstance(other, Policy) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._make_key())

    def __repr__(self) -> str:
        return f"<Policy {self.id}>"

    def __reduce__(self) -> tuple[object, ...]:
        return _make_unchecked, (
            {field: getattr(self, field) for field in self.__slots__ if field not in _DERIVED_FIELDS},
        )


_DERIVED_FIELDS = ("native", "plan")  # made again from the options after unpickling
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(SWITCHES, False),
    "parse": True,
    "fragment": "keep",
    "sites": (),
    "strip_params": (),
    "strip_params_on": (),
}
# Options that came after the first policies were shipped: left out of a digest where they are off.
_LATER_OPTIONS = frozenset({"keep_embedded"})
_SHIPPED: dict[str, Policy] = {}


def get_site_table(site: str) -> dict[str, Any]:
    """Return the table of a site by its versioned name; those of the first versions are read by code of their own."""
    from canonry.core.site_tables import SITE_PAGES

    return SITE_PAGES.get(site) or dict(SITE_TABLES[site])


def get_shipped(policy_id: str) -> Policy:
    """Return the shipped policy of that id.

    Its options are not checked: they come from generated tables, and checking 110 names takes longer
    than normalizing a thousand URLs. A test checks every shipped policy.
    """
    policy = _SHIPPED.get(policy_id)
    if policy is None:
        fields: dict[str, Any] = {"about": "", "overrides": None, **_DEFAULTS, **POLICIES[policy_id]}
        if fields["strip_params_on"]:
            fields["strip_params_on"] = tuple(fields["strip_params_on"].items())
        policy = _SHIPPED[policy_id] = _make_unchecked(fields)
    return policy


def _make_unchecked(fields: dict[str, Any]) -> Policy:
    """Make a policy from the fields of a policy that was checked before; pickle uses it, too."""
    policy = object.__new__(Policy)
    _set_fields(policy, fields)
    return policy


def _set_fields(policy: Policy, fields: dict[str, Any]) -> None:
    for field, value in {"origin": None, "plan": None, "native": None, **fields}.items():
        object.__setattr__(policy, field, value)


def _sha256(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()
