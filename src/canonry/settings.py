"""Settings for every command, from `CANONRY_*` variables and the file `canonry.toml`.

A flag of a command overrides the variable, and the variable overrides the file.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, field, fields
from functools import partial
from ipaddress import ip_network
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import canonry
from canonry.core.configured_overrides import SETTINGS_FILE
from canonry.core.suggest import suggest
from canonry.errors import CanonryError, mask_credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

LOG_FORMATS = ("auto", "json", "text")
LOG_LEVELS = ("debug", "info", "warning", "error")
DEFAULT_POOL = 8
UNIX_SOCKET = "unix"  # names the peers of a Unix socket, which have no address
# Settings that name a program: a file in the current folder, which may come from others, must not choose what runs.
VARIABLES_ONLY = frozenset({"chrome"})
_SWITCH_WORDS = dict.fromkeys(("yes", "true", "on", "1"), True) | dict.fromkeys(("no", "false", "off", "0"), False)


def get_data_folder() -> Path:
    """Return the folder for the default store: `canonry` in the XDG data folder."""
    named = os.environ.get("XDG_DATA_HOME", "")
    # A relative path must be ignored: https://specifications.freedesktop.org/basedir-spec/latest/
    return (Path(named) if os.path.isabs(named) else Path("~/.local/share").expanduser()) / "canonry"


def get_default_database_url() -> str:
    """Return the URL of the store that is used if no setting names one."""
    return f"sqlite:///{get_data_folder() / 'canonry.db'}"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in force; each field is a key of the file and, with the prefix `CANONRY_`, a variable."""

    allow_networks: tuple[str, ...] = ()
    allow_names: tuple[str, ...] = ()
    allow_ports: Collection[int] | None = None
    user_agent: str = f"canonry/{canonry.__version__}"
    proxy: str = ""
    ca_file: str = ""
    database_url: str = field(default_factory=get_default_database_url)
    redis_url: str = ""
    chrome: str = ""
    overrides: str = ""
    trusted_proxies: tuple[str, ...] = ()
    log_format: str = "auto"
    log_level: str = "info"
    database_pool: int = DEFAULT_POOL
    requests_per_minute: int = 1200
    sign_ins_per_minute: int = 10
    public_url: str = ""
    fetch_pages: bool = True
    fetch_private_pages: bool = True
    fetch_item_links: bool = False
    fetch_icons: bool = True


SETTING_DESCRIPTIONS = {
    "allow_networks": "networks that requests may reach besides the public internet: `10.0.0.0/8, fd00::/8`",
    "allow_names": "names of a local network that requests may reach through the proxy: `wiki.corp, *.internal`",
    "allow_ports": "ports that requests may use, instead of 80, 443 and 8000-8999: `80, 443, 3000-3999`",
    "user_agent": "the User-Agent header of requests; its first word selects the rules in robots.txt",
    "proxy": "the proxy for all requests: `http://proxy.example.com:3128`",
    "ca_file": "a file with the CA certificates to trust instead of the system's; Chrome trusts them besides its own",
    "database_url": "the store: `sqlite:///FILE` or `postgresql://…`",
    "redis_url": "the Redis to use as the cache: `redis://host:6379/0`; by default the cache is a table of the store",
    "chrome": (
        "the Chrome program that opens pages; by default the first one that is installed. Only the variable can set it,"
        " because a file in the current folder must not name programs"
    ),
    "overrides": (
        "the overrides file of the policy `article`, for every command, the service and Python; by default"
        " `config/url_normalization_overrides.v0.json` if it exists; `none` for no file"
    ),
    "trusted_proxies": (
        "proxies in front of the service whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted:"
        " `127.0.0.1, 10.0.0.0/8`, or `unix` for a proxy on a Unix socket"
    ),
    "public_url": (
        "the address at which other servers reach the service, such as `https://feeds.example.com`: hubs then push"
        " changes of feeds to it (WebSub); by default feeds are only polled"
    ),
    "log_format": "the log of `serve` and `worker`: `json`, `text`, or `auto`: text on a terminal, else JSON",
    "log_level": (
        "what `serve` and `worker` log: `debug`, `info`, `warning` or `error`; requests are `info`. Only `--debug` logs"
        " whole URLs"
    ),
    "database_pool": (
        "connections to PostgreSQL that the service and each worker keep open for the store, half of them to write, and"
        " as many for jobs; up to 10 more of each in peaks"
    ),
    "requests_per_minute": "requests of one token in a minute and process; more get status 429",
    "sign_ins_per_minute": "sign-in attempts from one address in a minute, over all processes; more get status 429",
    "fetch_pages": (
        "`no`: the pages of new bookmarks are not fetched; otherwise they are, once, in the background, for their"
        " title, their description and to find bookmarks of the same page"
    ),
    "fetch_private_pages": "`no`: the pages of private bookmarks are not fetched, even if `fetch_pages` is on",
    "fetch_item_links": (
        "`yes`: the links of new feed items are fetched, once, in the background, to know an item also under the URL"
        " that its link redirects to or that its page declares; off by default, because it is a request for each item"
    ),
    "fetch_icons": "`no`: the icons of the sites of bookmarks are not fetched; they never are if `fetch_pages` is off",
}


class GivenSetting(NamedTuple):
    """The value of a setting and the file or variable that set it."""

    value: object
    source: str


def load_settings(environ: Mapping[str, str] | None = None, file: str | Path = SETTINGS_FILE) -> Settings:
    """Return the settings in force; raise CanonryError that names the variable or key with an invalid value."""
    values = {name: given.value for name, given in read_given_settings(environ, file).items()}
    return Settings(**values)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def read_given_settings(
    environ: Mapping[str, str] | None = None, file: str | Path = SETTINGS_FILE
) -> dict[str, GivenSetting]:
    """Return the settings that a file or variable sets, by name."""
    environ = os.environ if environ is None else environ
    settings: dict[str, GivenSetting] = {}
    for name, value in _read_file(Path(file)).items():
        if name not in _PARSERS:
            near = suggest(name, _PARSERS)
            raise CanonryError(f"{file}: unknown setting {name!r}{near}; known settings: {', '.join(_PARSERS)}")
        if name in VARIABLES_ONLY:
            raise CanonryError(
                f"{file}: {name} names a program, which a file in the current folder must not do. Nothing was run."
                f" Remove it from the file and set the variable {name_variable(name)} instead."
            )
        settings[name] = GivenSetting(_parse(name, value, f"{file}: {name}"), str(file))
    for name in _PARSERS:
        if value := environ.get(variable := name_variable(name)):
            settings[name] = GivenSetting(_parse(name, value, variable), variable)
    return settings


def find_mistyped_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return a message for each variable whose name is near that of a setting."""
    environ = os.environ if environ is None else environ
    prefix = name_variable("")
    given = [name.removeprefix(prefix).lower() for name in sorted(environ) if name.startswith(prefix)]
    # Other programs may have variables of this prefix, which are no mistakes: only names with a slip are.
    near = {name: suggest(name, _PARSERS, likeness=0.85) for name in given if name not in _PARSERS}
    return [f"{name_variable(name)}: unknown setting {name!r}{text}" for name, text in near.items() if text]


def name_variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"CANONRY_{name.upper()}"


def _read_file(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CanonryError(f"{file}: {error}") from None


def _parse(name: str, value: object, place: str) -> object:
    try:
        return _PARSERS[name](value)
    except (TypeError, ValueError) as error:
        raise CanonryError(f"{place}: {error}") from None


def _parse_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"must be a string in quotes, not {value!r}")
    if re.search(r"[\x00-\x1f\x7f]", value):
        raise ValueError(f"must be one line without control characters, not {value!r}")
    return value


def _parse_switch(value: object) -> bool:
    """Parse `yes` or `no` of a variable, true or false of the file."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in _SWITCH_WORDS:
        raise ValueError(f"must be yes or no, not {value!r}")
    return _SWITCH_WORDS[word]


def _parse_list(value: object) -> list[str]:
    """Parse `a, b` of a variable or `["a", "b"]` of the file."""
    if not isinstance(value, str | list):
        raise TypeError(f"must be a list or a string with commas, not {value!r}")
    items = value.split(",") if isinstance(value, str) else cast("list[object]", value)
    return [text for item in items if (text := str(item).strip())]


def _parse_networks(value: object) -> tuple[str, ...]:
    networks: list[str] = []
    for text in _parse_list(value):
        try:
            networks.append(str(ip_network(text)))
        except ValueError as error:
            raise ValueError(f"{text!r} is not a network such as 10.0.0.0/8 or fd00::/8: {error}") from None
    return tuple(networks)


def _parse_names(value: object) -> tuple[str, ...]:
    """Parse host names; `*.corp` stands for all names that end in `.corp`."""
    names = tuple(text.lower().rstrip(".") for text in _parse_list(value))
    for name in names:
        if not re.fullmatch(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*", name):
            raise ValueError(f"{name!r} is not a host name such as wiki.corp or *.corp")
    return names


def _parse_proxies(value: object) -> tuple[str, ...]:
    return tuple(
        name for text in _parse_list(value) for name in ([text] if text == UNIX_SOCKET else _parse_networks(text))
    )


def _parse_log_format(value: object) -> str:
    if value not in LOG_FORMATS:
        raise ValueError(f"must be one of {', '.join(LOG_FORMATS)}, not {value!r}")
    return str(value)


def _parse_log_level(value: object) -> str:
    level = str(value).lower()
    if level not in LOG_LEVELS:
        raise ValueError(f"must be one of {', '.join(LOG_LEVELS)}, not {value!r}")
    return level


def _parse_number(value: object, least: int) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not text.isascii() or not text.isdecimal() or int(text) < least:
        raise ValueError(f"must be a whole number of at least {least}, not {value!r}")
    return int(text)


def _parse_proxy_url(value: object) -> str:
    text = _parse_text(value).strip()
    if text and not re.fullmatch(r"https?://[^\s/?#]+/?", text, re.IGNORECASE):
        raise ValueError(f"{mask_credentials(text)!r} is not the URL of a proxy such as http://proxy.example.com:3128")
    return text


def _parse_public_url(value: object) -> str:
    """Parse the beginning of URLs: scheme, host and perhaps a path."""
    text = _parse_text(value).strip()
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", text, re.IGNORECASE):
        raise ValueError(f"{text!r} is not a URL such as https://feeds.example.com, without user, query and fragment")
    return text.rstrip("/")


def _parse_ports(value: object) -> Collection[int]:
    """Parse ports and ranges: `80, 443, 8000-8999`."""
    ranges: list[range] = []
    for text in _parse_list([value] if isinstance(value, int) else value):
        found = re.fullmatch(r"([0-9]{1,5})(?: *- *([0-9]{1,5}))?", text)
        ports = range(int(found[1]), int(found[2] or found[1]) + 1) if found else range(0)
        if not ports or ports[0] < 1 or ports[-1] > 65535:
            raise ValueError(f"{text[:50]!r} is not a port or a range of ports between 1 and 65535")
        ranges.append(ports)
    return ranges[0] if len(ranges) == 1 else frozenset(chain.from_iterable(ranges))


_PARSERS: dict[str, Callable[[object], object]] = {
    "allow_networks": _parse_networks,
    "allow_names": _parse_names,
    "allow_ports": _parse_ports,
    "user_agent": _parse_text,
    "proxy": _parse_proxy_url,
    "ca_file": _parse_text,
    "database_url": _parse_text,
    "redis_url": _parse_text,
    "chrome": _parse_text,
    "overrides": _parse_text,
    "trusted_proxies": _parse_proxies,
    "log_format": _parse_log_format,
    "log_level": _parse_log_level,
    "database_pool": partial(_parse_number, least=2),
    "requests_per_minute": partial(_parse_number, least=1),
    "sign_ins_per_minute": partial(_parse_number, least=1),
    "public_url": _parse_public_url,
    "fetch_pages": _parse_switch,
    "fetch_private_pages": _parse_switch,
    "fetch_item_links": _parse_switch,
    "fetch_icons": _parse_switch,
}
assert set(_PARSERS) == set(SETTING_DESCRIPTIONS) == {each.name for each in fields(Settings)}
