"""Settings: what an operator sets for every command, from `CANONRY_*` and `canonry.toml`.

A flag of a command goes before a variable, a variable before the file.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field, fields
from ipaddress import ip_network
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

import canonry
from canonry.errors import CanonryError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

FILE = "canonry.toml"


def get_data_folder() -> Path:
    """Where what canonry remembers is kept: the XDG data folder."""
    named = os.environ.get("XDG_DATA_HOME", "")
    # A relative one is to be ignored: https://specifications.freedesktop.org/basedir-spec/latest/
    return (Path(named) if os.path.isabs(named) else Path("~/.local/share").expanduser()) / "canonry"


def get_default_database_url() -> str:
    """The store of a user who named none."""
    return f"sqlite:///{get_data_folder() / 'canonry.db'}"


@dataclass(frozen=True, slots=True)
class Settings:
    """How canonry reaches the web, and where it remembers; each is a key of the file and, in capitals, a variable."""

    allow_networks: tuple[str, ...] = ()
    allow_ports: Collection[int] | None = None
    user_agent: str = f"canonry/{canonry.__version__}"
    proxy: str = ""
    ca_file: str = ""
    database_url: str = field(default_factory=get_default_database_url)
    redis_url: str = ""
    chrome: str = ""


# What each is, for those who set it.
MEANINGS = {
    "allow_networks": "ranges that may be reached too: `10.0.0.0/8, fd00::/8`",
    "allow_ports": "ports instead of the usual: `80, 443, 3000-3999`",
    "user_agent": "how requests introduce themselves; its first word is what robots.txt is asked about",
    "proxy": "a proxy for all requests: `http://proxy.example.com:3128`",
    "ca_file": "the CA certificates to trust instead of the system's; Chrome trusts them beside its own",
    "database_url": "the store: `sqlite:///FILE` or `postgresql://…`",
    "redis_url": "a Redis for the cache: `redis://host:6379/0`; without it, a table of the store",
    "chrome": "the Chrome that opens pages; without it, the first one that is installed",
}


def load_settings(environ: Mapping[str, str] | None = None, file: str | Path = FILE) -> Settings:
    """The settings in force; CanonryError names the variable or key that cannot be used."""
    values = {name: value for name, (value, _) in read_given_settings(environ, file).items()}
    return Settings(**values)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def read_given_settings(
    environ: Mapping[str, str] | None = None, file: str | Path = FILE
) -> dict[str, tuple[object, str]]:
    """Those that somebody has set, each with its value and where: the file, or the variable."""
    environ = os.environ if environ is None else environ
    values: dict[str, tuple[object, str]] = {}
    for name, value in _from_file(Path(file)).items():
        if name not in _READ:
            raise CanonryError(f"{file}: unknown setting {name!r}; known: {', '.join(_READ)}")
        values[name] = _read(name, value, f"{file}: {name}"), str(file)
    for name in _READ:
        if value := environ.get(variable := name_variable(name)):
            values[name] = _read(name, value, variable), variable
    return values


def name_variable(name: str) -> str:
    """The name of a setting in the environment."""
    return f"CANONRY_{name.upper()}"


def _from_file(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CanonryError(f"{file}: {error}") from None


def _read(name: str, value: object, place: str) -> object:
    try:
        return _READ[name](value)
    except (TypeError, ValueError) as error:
        raise CanonryError(f"{place}: {error}") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text expected, not {value!r}")
    return value


def _listed(value: object) -> list[str]:
    """`a, b` of a variable or `["a", "b"]` of the file."""
    found = value.split(",") if isinstance(value, str) else cast("list[object]", value)
    return [str(one).strip() for one in found if str(one).strip()]


def _networks(value: object) -> tuple[str, ...]:
    return tuple(str(ip_network(network)) for network in _listed(value))


def _ports(value: object) -> Collection[int]:
    """`80, 443, 8000-8999`."""
    ranges: list[range] = []
    for text in _listed([value] if isinstance(value, int) else value):
        first, _, last = text.partition("-")
        is_number = first.strip().isdecimal() and (last or first).strip().isdecimal()
        ports = range(int(first), int(last or first) + 1) if is_number else range(0)
        if not ports or ports[0] < 1 or ports[-1] > 65535:
            raise ValueError(f"{text!r} is not a port or a range of ports between 1 and 65535")
        ranges.append(ports)
    return ranges[0] if len(ranges) == 1 else frozenset(chain.from_iterable(ranges))


_READ: dict[str, Callable[[object], object]] = {
    "allow_networks": _networks,
    "allow_ports": _ports,
    "user_agent": _text,
    "proxy": _text,
    "ca_file": _text,
    "database_url": _text,
    "redis_url": _text,
    "chrome": _text,
}
assert set(_READ) == set(MEANINGS) == {each.name for each in fields(Settings)}
