"""Check the options of a policy that a user wrote; each mistake is a PolicyError that names the option.

Loaded only for such a policy: the shipped ones are checked by the tests.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from canonry.core.policy import FRAGMENTS, SWITCHES
from canonry.core.rules import is_param_name
from canonry.core.site_tables import SITE_PAGES
from canonry.core.sites import SITES
from canonry.core.suggest import suggest
from canonry.core.tables import POLICIES
from canonry.url_errors import PolicyError

if TYPE_CHECKING:
    from canonry.core.policy import Policy

_NAME = re.compile("[a-z][a-z0-9-]{0,63}")
_HOST = re.compile(r"[a-z0-9_.-]+|\[[0-9a-f:]+\]")


def require(condition: object, option: str, reason: str) -> None:
    """Raise a PolicyError about the option unless the condition holds."""
    if not condition:
        raise PolicyError(reason, place=option)


def check_identity(name: object, version: object, about: object) -> None:
    """Check the two halves of an id `name@version`, and the description."""
    is_name = isinstance(name, str) and _NAME.fullmatch(name)
    require(is_name, "name", "must start with a letter and hold only a-z, 0-9 and -, at most 64 characters")
    is_version = isinstance(version, int) and not isinstance(version, bool) and version >= 0
    require(is_version, "version", "must be a whole number, 0 or more")
    if f"{name}@{version}" not in POLICIES:
        refuse_shipped_name(name)
    require(isinstance(about, str), "about", "must be a string")


def refuse_shipped_name(name: object) -> None:
    """Refuse a shipped name: with other options, the same id would stand for other answers."""
    names = {policy_id.partition("@")[0] for policy_id in POLICIES}
    require(name not in names, "name", f"{name!r} is the name of a shipped policy; choose another name")


def check_switches_and_fragment(options: dict[str, object]) -> None:
    """Check the options that are true or false, and the one for fragments."""
    for switch in SWITCHES:
        require(isinstance(options[switch], bool), switch, "must be true or false")
    require(options["fragment"] in FRAGMENTS, "fragment", f"must be one of {', '.join(FRAGMENTS)}")


def check_switch(switch: str) -> str:
    """Return the name of a rule that is either on or off."""
    require(switch in SWITCHES, switch, f"is not a rule that is on or off; these are: {', '.join(SWITCHES)}")
    return switch


def check_sites(sites: object) -> tuple[str, ...]:
    """Return the versioned names of sites, sorted, each once."""
    found = tuple(sorted({find_site(site) for site in check_strings(sites, "sites")}))
    names = [site.partition("@")[0] for site in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    require(not twice, "sites", f"two versions of {', '.join(twice)}: name one")
    return found


def find_site(site: str) -> str:
    """Return the newest version of a site, or the version that is named."""
    known_sites = sorted((*SITES, *SITE_PAGES))
    versions = [known for known in known_sites if site in (known, known.partition("@")[0])]
    if not versions:
        near = suggest(site, known_sites)
        raise PolicyError(f"unknown site {site!r}{near}; known are {', '.join(known_sites)}", place="sites")
    return versions[-1]


def check_params(names: object, option: str) -> tuple[str, ...]:
    """Return parameter names in lower case, sorted, each once."""
    listed = check_strings(names, option)
    for name in listed:
        reason = f"{name!r} is not a parameter name; a * may only follow the start of a name, as in utm_*"
        require(is_param_name(name), option, reason)
    return tuple(sorted({name.lower() if name.isascii() else name for name in listed}))


def check_params_by_host(by_host: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the parameter names for each host, sorted by host."""
    require(isinstance(by_host, dict), "strip_params_on", "must be a table of hosts")
    checked: dict[str, tuple[str, ...]] = {}
    for host, names in cast("dict[str, object]", by_host).items():
        require(_HOST.fullmatch(host), "strip_params_on", f"{host!r} is not a host in lower case, without port")
        checked[host] = check_params(names, f"strip_params_on.{host}")
    return tuple(sorted(checked.items()))


def check_strings(value: object, option: str) -> list[str]:
    """Return a list of strings."""
    reason = "must be a list of strings"
    require(isinstance(value, list | tuple | set | frozenset), option, reason)
    items = list(cast("list[object]", value))
    require(all(isinstance(item, str) for item in items), option, reason)
    return cast("list[str]", items)


def check_overrides(policy: Policy) -> None:
    """Check that rewriting always ends."""
    from canonry.core.overrides import Overrides
    from canonry.core.rewrite_cycles import refuse_cycles

    overrides: object = policy.overrides
    if not isinstance(overrides, Overrides):
        raise PolicyError("must be made with Policy.with_overrides", place="overrides")
    refuse_cycles(overrides, policy)
