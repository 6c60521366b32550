"""contract G4, O: settings from variables and `canonry.toml`, and the messages about invalid ones."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import canonry
from canonry.settings import Settings, find_mistyped_variables, load_settings, name_variable

if TYPE_CHECKING:
    from collections.abc import Collection

EVERY = [
    # key             in the file                      in a variable              read as
    ("allow_networks", '["10.0.0.0/8", "fd00::/8"]', "10.0.0.0/8, fd00::/8", ("10.0.0.0/8", "fd00::/8")),
    ("allow_networks", '"192.168.1.7"', "192.168.1.7", ("192.168.1.7/32",)),
    ("allow_networks", "[]", ",", ()),
    ("allow_names", '["wiki.corp", "*.Internal."]', "wiki.corp, *.Internal.", ("wiki.corp", "*.internal")),
    ("allow_ports", '[80, 443, "8000-8002"]', "80,443, 8000-8002", {80, 443, 8000, 8001, 8002}),
    ("allow_ports", "8080", "8080", {8080}),
    ("allow_ports", '"1-65535"', "1-65535", set(range(1, 65536))),
    ("user_agent", '"feeds/1 (+https://example.org/)"', "feeds/1 (+https://example.org/)", None),
    ("proxy", '"http://proxy.example.org:3128"', "http://proxy.example.org:3128", None),
    ("ca_file", '"/etc/ca.pem"', "/etc/ca.pem", None),
    ("database_url", '"postgresql://db/canonry"', "postgresql://db/canonry", None),
    ("redis_url", '"redis://cache:6379/0"', "redis://cache:6379/0", None),
    ("overrides", '"config/o.json"', "config/o.json", None),
    ("trusted_proxies", '["127.0.0.1", "unix"]', "127.0.0.1, unix", ("127.0.0.1/32", "unix")),
    ("log_format", '"json"', "json", None),
    ("log_level", '"WARNING"', "warning", None),
    ("database_pool", "20", "20", 20),
    ("requests_per_minute", "60", "60", 60),
    ("sign_ins_per_minute", '"3"', "3", 3),
    ("public_url", '"https://feeds.example.org"', "https://feeds.example.org", None),
    ("fetch_pages", '"no"', "no", False),
    ("fetch_private_pages", "false", "off", False),
    ("fetch_item_links", "true", "on", True),
    ("fetch_icons", "false", "off", False),
]
PROGRAMS = [("chrome", "/opt/chrome/chrome")]  # read from their variables only


@pytest.mark.parametrize(("name", "in_file", "in_variable", "value"), EVERY)
def test_every_setting_is_read_from_the_file_and_from_its_variable(
    name: str, in_file: str, in_variable: str, value: Collection[object] | bool | None, tmp_path: Path
) -> None:
    file = tmp_path / "canonry.toml"
    file.write_text(f"{name} = {in_file}")
    from_file = load_settings({}, file)
    from_variable = load_settings({f"CANONRY_{name.upper()}": in_variable}, tmp_path / "none.toml")
    for settings in (from_file, from_variable):
        found = getattr(settings, name)
        assert (set(found) if isinstance(value, set) else found) == (in_variable if value is None else value)
        others = [field.name for field in fields(Settings) if field.name != name]
        assert [getattr(settings, other) for other in others] == [getattr(Settings(), other) for other in others]


def test_every_setting_has_a_case() -> None:
    assert {row[0] for row in (*EVERY, *PROGRAMS)} == {field.name for field in fields(Settings)}


@pytest.mark.parametrize(("name", "program"), PROGRAMS)
def test_a_file_cannot_name_a_program(name: str, program: str, tmp_path: Path) -> None:
    """The current folder may belong to somebody else: an archive, a repository, a shared folder."""
    variable = f"CANONRY_{name.upper()}"
    assert getattr(load_settings({variable: program}, tmp_path / "none.toml"), name) == program
    file = tmp_path / "canonry.toml"
    file.write_text(f'{name} = "{program}"')
    for environ in ({}, {variable: program}):
        with pytest.raises(canonry.CanonryError) as caught:
            load_settings(environ, file)
        assert str(file) in str(caught.value) and variable in str(caught.value)


def test_without_any_setting_the_defaults_hold() -> None:
    settings = load_settings({}, "/nowhere/canonry.toml")
    assert settings == Settings()
    assert settings.user_agent == f"canonry/{canonry.__version__}"
    assert (settings.allow_networks, settings.allow_ports, settings.proxy, settings.ca_file) == ((), None, "", "")


def test_a_variable_overrides_the_file(tmp_path: Path) -> None:
    file = tmp_path / "canonry.toml"
    file.write_text('user_agent = "file"\nproxy = "http://file:1"\nca_file = "file.pem"\n')
    settings = load_settings({"CANONRY_USER_AGENT": "variable", "CANONRY_PROXY": ""}, file)
    assert settings == Settings(user_agent="variable", proxy="http://file:1", ca_file="file.pem")


def test_settings_come_from_the_environment_and_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("canonry.toml").write_text('ca_file = "file.pem"')
    monkeypatch.setenv("CANONRY_USER_AGENT", "variable")
    settings = load_settings()
    assert (settings.user_agent, settings.ca_file) == ("variable", "file.pem")


MISTAKES: list[tuple[str, dict[str, str], str, list[str]]] = [
    # what               variables                                 file                        what the message names
    ("network", {"CANONRY_ALLOW_NETWORKS": "10.0.0.0/8,oops"}, "", ["CANONRY_ALLOW_NETWORKS: ", "oops"]),
    ("network bits", {}, 'allow_networks = ["10.0.0.1/8"]', ["canonry.toml: allow_networks: ", "10.0.0.1/8"]),
    ("network number", {}, "allow_networks = 10", ["canonry.toml: allow_networks: "]),
    ("port zero", {"CANONRY_ALLOW_PORTS": "0"}, "", ["CANONRY_ALLOW_PORTS: ", "'0' is not a port"]),
    ("port too big", {}, "allow_ports = [80, 65536]", ["canonry.toml: allow_ports: ", "'65536'"]),
    ("ports backwards", {}, 'allow_ports = ["90-80"]', ["canonry.toml: allow_ports: ", "'90-80'"]),
    (
        "port of letters",
        {"CANONRY_ALLOW_PORTS": "abc"},
        "",
        ["CANONRY_ALLOW_PORTS: 'abc' is not a port or a range of ports"],
    ),
    ("ports open", {"CANONRY_ALLOW_PORTS": "80-90-100"}, "", ["CANONRY_ALLOW_PORTS: ", "90-100"]),
    ("port word", {"CANONRY_ALLOW_PORTS": "http"}, "", ["CANONRY_ALLOW_PORTS: ", "http"]),
    ("port negative", {}, "allow_ports = [-80]", ["canonry.toml: allow_ports: "]),
    ("ports without an end", {"CANONRY_ALLOW_PORTS": "80-"}, "", ["CANONRY_ALLOW_PORTS: ", "'80-'"]),
    ("port in other digits", {"CANONRY_ALLOW_PORTS": "\u0668\u0660"}, "", ["CANONRY_ALLOW_PORTS: ", "is not a port"]),
    ("port of many digits", {"CANONRY_ALLOW_PORTS": "9" * 5000}, "", ["CANONRY_ALLOW_PORTS: ", "9' is not a port"]),
    ("port true", {}, "allow_ports = true", ["canonry.toml: allow_ports: "]),
    ("agent with a line break", {"CANONRY_USER_AGENT": "a\nb"}, "", ["CANONRY_USER_AGENT: ", "'a\\nb'"]),
    ("agent number", {}, "user_agent = 1", ["canonry.toml: user_agent: must be a string in quotes, not 1"]),
    ("proxy without scheme", {"CANONRY_PROXY": "proxy.test:3128"}, "", ["CANONRY_PROXY: ", "http://"]),
    ("proxy list", {}, "proxy = []", ["canonry.toml: proxy: must be a string in quotes"]),
    ("redis number", {}, "redis_url = 6379", ["canonry.toml: redis_url: must be a string in quotes"]),
    ("database list", {}, "database_url = []", ["canonry.toml: database_url: must be a string in quotes"]),
    ("proxies", {"CANONRY_TRUSTED_PROXIES": "127.0.0.1, proxy"}, "", ["CANONRY_TRUSTED_PROXIES: ", "'proxy'"]),
    ("log format", {"CANONRY_LOG_FORMAT": "xml"}, "", ["CANONRY_LOG_FORMAT: ", "auto, json, text"]),
    ("ca table", {}, "[ca_file]", ["canonry.toml: ca_file: must be a string in quotes"]),
    (
        "unknown",
        {},
        "user_agents = 'x'",
        ["canonry.toml: unknown setting 'user_agents' (did you mean user_agent?)", "known settings: allow_networks, "],
    ),
    ("not TOML", {}, "proxy = ''\nuser agent = 'x'", ["canonry.toml: ", "line 2"]),
    ("public URL", {"CANONRY_PUBLIC_URL": "feeds.example.org"}, "", ["CANONRY_PUBLIC_URL", "feeds.example.org"]),
    ("public URL with a user", {}, 'public_url = "https://me@example.org/"', ["public_url", "me@example.org"]),
]


@pytest.mark.parametrize(("variables", "text", "named"), [pytest.param(*row[1:], id=row[0]) for row in MISTAKES])
def test_an_invalid_setting_is_named_with_its_variable_or_key(
    variables: dict[str, str], text: str, named: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "canonry.toml"
    file.write_text(text)
    with pytest.raises(canonry.CanonryError) as caught:
        load_settings(variables, file)
    assert [part for part in named if part not in str(caught.value)] == []


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'user_agent = "\xe9"')
    for file in (tmp_path, tmp_path / "latin.toml"):
        with pytest.raises(canonry.CanonryError, match=f"^{file}: "):
            load_settings({}, file)


def test_the_file_is_read_as_utf_8_in_every_locale(tmp_path: Path) -> None:
    (tmp_path / "canonry.toml").write_text('overrides = "règles.json"', encoding="utf-8")
    code = "from canonry.settings import load_settings; print(ascii(load_settings({}).overrides))"
    latin = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=latin, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"'r\\xe8gles.json'\n", b"")


def test_an_invalid_setting_in_the_file_is_an_error_even_if_a_variable_overrides_it(tmp_path: Path) -> None:
    (tmp_path / "canonry.toml").write_text("user_agent = 1")
    with pytest.raises(canonry.CanonryError, match="user_agent"):
        load_settings({"CANONRY_USER_AGENT": "fine"}, tmp_path / "canonry.toml")


def test_a_mistyped_variable_is_found() -> None:
    others = {name_variable(each.name): "" for each in fields(Settings)} | dict.fromkeys(
        (
            "CANONRY_PURE",
            "CANONRY_REAL_URLS",
            "CANONRY_CRAWL_AUTH",
            "CANONRY_LINKDING_TOKEN",
            "CANONRY_SERVE_OPTIONS",
            "HOME",
        ),
        "",
    )
    assert find_mistyped_variables(others) == []
    assert find_mistyped_variables({"CANONRY_ALLOW_NETWORK": "10.0.0.0/8"}) == [
        "CANONRY_ALLOW_NETWORK: unknown setting 'allow_network' (did you mean allow_networks?)"
    ]


def test_settings_are_immutable() -> None:
    settings: Any = Settings()
    with pytest.raises(AttributeError):
        settings.proxy = "http://elsewhere"


def test_the_default_store_is_in_the_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    for named, folder in (
        ("/data", "/data"),
        ("", "/home/ann/.local/share"),
        ("relative/ignored", "/home/ann/.local/share"),
    ):
        monkeypatch.setenv("XDG_DATA_HOME", named)
        assert load_settings({}, "/nowhere/canonry.toml").database_url == f"sqlite:///{folder}/canonry/canonry.db"
