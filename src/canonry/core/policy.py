"""Policy: what counts as the same URL, as a value with an id `name@version` and a digest (contract N5).

Written without dataclasses: their import alone would cost `canonry normalize` a third of its time.
"""

from __future__ import annotations

import re

from canonry.core.rules import is_param_name
from canonry.core.sites import SITES
from canonry.core.tables import POLICIES, SITE_TABLES
from canonry.errors import PolicyError

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
)
FRAGMENTS = ("drop", "keep", "routes")
OPTIONS = (*SWITCHES, "fragment", "sites", "strip_params", "strip_params_on")
_NAME = re.compile("[a-z][a-z0-9-]{0,63}")
_HOST = re.compile(r"[a-z0-9_.-]+|\[[0-9a-f:]+\]")


class Policy:
    """Frozen options that decide what a URL becomes; equal options and id make equal policies."""

    __slots__ = ("about", "name", "native", "origin", "overrides", "plan", "version", *OPTIONS)

    name: str
    version: int
    about: str
    parse: bool  # False: the text itself, if it is an http(s) URL
    strip_www: bool
    strip_auth: bool
    normalize_escapes: bool
    collapse_slashes: bool
    strip_trailing_slash: bool
    sort_params: bool
    fragment: str
    sites: tuple[str, ...]
    strip_params: tuple[str, ...]
    strip_params_on: tuple[tuple[str, tuple[str, ...]], ...]
    overrides: Overrides | None
    origin: Policy | None  # what it was before with_…/without_… changed it
    plan: Plan | None  # what normalize.py makes of the options at their first use
    native: object  # what the C core makes of them

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
        fragment: str = "keep",
        sites: Iterable[str] = (),
        strip_params: Iterable[str] = (),
        strip_params_on: Mapping[str, Iterable[str]] | None = None,
        overrides: Overrides | None = None,
    ) -> None:
        switches = (
            parse,
            strip_www,
            strip_auth,
            normalize_escapes,
            collapse_slashes,
            strip_trailing_slash,
            sort_params,
        )
        for switch, value in zip(SWITCHES, switches, strict=True):
            _require(_is(value, bool), switch, "must be true or false")
            self._set(switch, value)
        _require(_is(name, str) and _NAME.fullmatch(name), "name", "must be a-z, 0-9 and -, such as my-policy")
        _require(
            _is(version, int) and not _is(version, bool) and version >= 0, "version", "must be a whole number from 0"
        )
        if f"{name}@{version}" not in POLICIES:
            refuse_shipped_name(name)
        _require(_is(about, str), "about", "must be a text")
        _require(fragment in FRAGMENTS, "fragment", f"must be one of {', '.join(FRAGMENTS)}")
        _require(_is(strip_params_on or {}, dict), "strip_params_on", "must be a table of hosts")
        by_host = {
            _check_host(host): _check_params(names, f"strip_params_on.{host}")
            for host, names in (strip_params_on or {}).items()
        }
        self._set("name", name)
        self._set("version", version)
        self._set("about", about)
        self._set("fragment", fragment)
        self._set("sites", tuple(sorted({_find_site(site) for site in _check_list(sites, "sites")})))
        self._set("strip_params", _check_params(strip_params, "strip_params"))
        self._set("strip_params_on", tuple(sorted(by_host.items())))
        self._set("overrides", overrides)
        self._set("origin", None)
        self._set("plan", None)
        self._set("native", None)
        others = (*switches[1:], fragment != "keep", self.sites, self.strip_params, by_host, overrides)
        _require(
            parse or not any(others), "parse", "false hands the text back as it is, so every other rule must be off"
        )
        if overrides is not None:
            from canonry.core.overrides import Overrides as Kind
            from canonry.core.rewrite_cycles import refuse_cycles

            _require(_is(overrides, Kind), "overrides", "must come from with_overrides")
            refuse_cycles(overrides, self)

    @property
    def id(self) -> str:
        """`name@version`; `~hex` marks changed options, `+hex` the overrides file."""
        changed = f"~{self._options_digest()[:8]}" if self.is_changed else ""
        overrides = f"+{self.overrides.digest[:8]}" if self.overrides else ""
        return f"{self.name}@{self.version}{changed}{overrides}"

    @property
    def is_changed(self) -> bool:
        """Has it other options than the policy whose name it still carries?"""
        own_id = f"{self.name}@{self.version}"
        origin = self.origin or (get_shipped(own_id) if own_id in POLICIES else self)
        return self._options() != origin._options()  # noqa: SLF001

    @property
    def digest(self) -> str:
        """Hex sha256 over everything that decides an answer: options, tables, overrides."""
        overrides = self.overrides.digest if self.overrides else ""
        return _sha256(f"{self._options_digest()}+{overrides}")

    def options(self) -> dict[str, object]:
        """Every option by value, as JSON and TOML know values."""
        values = {option: getattr(self, option) for option in OPTIONS}
        return {
            **values,
            "sites": list(self.sites),
            "strip_params": list(self.strip_params),
            "strip_params_on": {host: list(names) for host, names in self.strip_params_on},
        }

    def with_rules(self, *switches: str) -> Policy:
        """With these rules on: `with_rules("strip_www", "sort_params")`."""
        return self._changed({_check_switch(switch): True for switch in switches})

    def without_rules(self, *switches: str) -> Policy:
        """With these rules off."""
        return self._changed({_check_switch(switch): False for switch in switches})

    def with_fragment(self, fragment: str) -> Policy:
        """With `drop`, `keep` or `routes` as the rule for fragments."""
        return self._changed({"fragment": fragment})

    def with_params(self, *names: str, host: str | None = None) -> Policy:
        """Dropping these query parameters too, everywhere or on one host; `utm_*` is a prefix."""
        if host is None:
            return self._changed({"strip_params": (*self.strip_params, *names)})
        by_host = dict(self.strip_params_on)
        return self._changed({"strip_params_on": {**by_host, host: (*by_host.get(_check_host(host), ()), *names)}})

    def without_params(self, *names: str, host: str | None = None) -> Policy:
        """No longer dropping these query parameters, which must be listed as written here."""
        listed = self.strip_params if host is None else dict(self.strip_params_on).get(host, ())
        unlisted = sorted(set(names) - set(listed))
        _require(not unlisted, "strip_params", f"does not list {', '.join(unlisted)}")
        kept = [name for name in listed if name not in names]
        if host is None:
            return self._changed({"strip_params": kept})
        by_host = {**dict(self.strip_params_on), host: kept}
        return self._changed({"strip_params_on": {each: params for each, params in by_host.items() if params}})

    def with_sites(self, *sites: str) -> Policy:
        """With these site rules too."""
        return self._changed({"sites": (*self.sites, *sites)})

    def without_sites(self, *sites: str) -> Policy:
        """Without these site rules."""
        dropped = {_find_site(site) for site in sites}
        return self._changed({"sites": [site for site in self.sites if site not in dropped]})

    def with_name(self, name: str, version: int = 1) -> Policy:
        """The same options under an id of your own."""
        refuse_shipped_name(name)
        return self._copy({"name": name, "version": version})

    def with_overrides(self, text: str, *, file: str = "overrides") -> Policy:
        """With the overrides in this JSON text (contract N4 rule 12); refused as a whole if anything is wrong."""
        from canonry.core.overrides import parse_overrides

        return self._changed({"overrides": parse_overrides(text, file)})

    def without_overrides(self) -> Policy:
        """Without an overrides file."""
        return self._changed({"overrides": None})

    def _changed(self, changes: dict[str, Any]) -> Policy:
        changed = self._copy(changes)
        object.__setattr__(changed, "origin", self.origin or self)
        return changed

    def _copy(self, changes: dict[str, Any]) -> Policy:
        fields: dict[str, Any] = {field: getattr(self, field) for field in ("name", "version", "about", *OPTIONS)}
        fields |= {"strip_params_on": dict(self.strip_params_on), "overrides": self.overrides}
        return Policy(**{**fields, **changes})

    def _options(self) -> tuple[object, ...]:
        return tuple(getattr(self, option) for option in OPTIONS)

    def _options_digest(self) -> str:
        import json

        tables = {site: SITE_TABLES[site] for site in self.sites}
        return _sha256(json.dumps([self.options(), tables], sort_keys=True))

    def _set(self, field: str, value: object) -> None:
        object.__setattr__(self, field, value)

    def __setattr__(self, field: str, value: object) -> None:
        raise AttributeError(f"a policy is frozen: use with_… to derive one instead of setting {field}")

    def __delattr__(self, field: str) -> None:
        raise AttributeError(f"a policy is frozen: {field} stays")

    def _key(self) -> tuple[object, ...]:
        return (self.name, self.version, self.is_changed, self.overrides, self._options())

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Policy) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"<Policy {self.id}>"

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickle, ({field: getattr(self, field) for field in self.__slots__ if field not in _DERIVED_FIELDS},)


_DERIVED_FIELDS = ("native", "plan")
_SHIPPED: dict[str, Policy] = {}


def get_shipped(policy_id: str) -> Policy:
    """The policy of that id in the tables."""
    policy = _SHIPPED.get(policy_id)
    if policy is None:
        policy = _SHIPPED[policy_id] = Policy(**POLICIES[policy_id])
    return policy


def refuse_shipped_name(name: str) -> None:
    """A name of ours under other options would give other answers for the same id."""
    names = {policy_id.partition("@")[0] for policy_id in POLICIES}
    _require(name not in names, "name", f"{name!r} is the name of a shipped policy; choose another")


def _unpickle(fields: dict[str, object]) -> Policy:
    """A pickled policy; what is made of it is made anew."""
    policy = object.__new__(Policy)
    for field, value in {**fields, **dict.fromkeys(_DERIVED_FIELDS)}.items():
        object.__setattr__(policy, field, value)
    return policy


def _is(value: object, kind: type) -> bool:
    """A question the types answer for our code, but not for a value from a file."""
    return isinstance(value, kind)


def _require(held: object, place: str, reason: str) -> None:
    if not held:
        raise PolicyError(reason, place=place)


def _check_list(values: Iterable[str], place: str) -> list[str]:
    _require(isinstance(values, list | tuple | set | frozenset), place, "must be a list of texts")
    listed = list(values)
    _require(all(_is(value, str) for value in listed), place, "must be a list of texts")
    return listed


def _check_params(names: Iterable[str], place: str) -> tuple[str, ...]:
    listed = _check_list(names, place)
    for name in listed:
        _require(
            is_param_name(name),
            place,
            f"cannot hold {name!r}: a parameter name, with a * only at its end (all parameters are never dropped)",
        )
    return tuple(sorted({name.lower() if name.isascii() else name for name in listed}))


def _check_host(host: str) -> str:
    _require(_HOST.fullmatch(host), "strip_params_on", f"cannot hold {host!r}: a host in lower case, without port")
    return host


def _find_site(site: str) -> str:
    versions = [known for known in SITES if site in (known, known.partition("@")[0])]
    _require(versions, "sites", f"cannot hold {site!r}: known are {', '.join(SITES)}")
    return versions[-1]


def _check_switch(switch: str) -> str:
    _require(switch in SWITCHES, switch, f"is not a rule to switch; these are: {', '.join(SWITCHES)}")
    return switch


def _sha256(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()
