"""Generate the Python tables that canonry loads from the TOML files that people edit.

    python tools/tables.py write          core/data/*.toml → core/tables.py, core/site_tables.py (make tables);
                                          policies that were not released yet get the parameters and sites of now
    python tools/tables.py bump bookmark  write the next version of a policy, with the parameters and sites of now

Parsing TOML would take longer than all of `canonry normalize`, so the tables are generated once, and a
test compares them with the data (docs/decisions/0002-policies-as-data.md).
"""

from __future__ import annotations

import json
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any, cast

from site_format import read_site_files
from site_programs import compile_site

CORE = Path(__file__).parent.parent / "src" / "canonry" / "core"
DATA = CORE / "data"
TABLES = CORE / "tables.py"
SITE_TABLES = CORE / "site_tables.py"
SITE_PROGRAMS = CORE / "native" / "site_programs.py"
LAW = Path(__file__).parent.parent / "tests" / "cases" / "law.json"
# The list in params.toml that each policy drops, and the names that it drops besides.
LISTS = {
    "article": "tracking",
    "bookmark": "tracking",
    "crawl": "tracking",
    "entry": "tracking",
    "feed-aggressive": "feed",
    "feed-conservative": "feed",
    "feed-moderate": "feed",
}
OWN_PARAMS = {"article": ("ref", "ref_src"), "entry": ("ref", "source")}
# Sites with rules for feeds alone, and the one with exceptions alone, which every policy with a list needs.
FEED_SITES = ("blogger", "feedburner")
EXCEPTIONS = "exceptions"


def find_policy_files() -> list[Path]:
    """Return the file of every shipped policy, by name, then version."""

    def order(path: Path) -> tuple[str, int]:
        name, _, version = path.stem.partition("@")
        return name, int(version)

    return sorted((DATA / "policies").glob("*.toml"), key=order)


def list_params(which: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return the names on a list of params.toml: those for every host, and those by host."""
    params: dict[str, Any] = tomllib.loads((DATA / "params.toml").read_text())
    by_host: dict[str, dict[str, Any]] = params.pop("on", {})
    hosts = {host: sorted(name for name in names if which in names[name]["lists"]) for host, names in by_host.items()}
    return sorted(name for name in params if which in params[name]["lists"]), {h: n for h, n in hosts.items() if n}


def make_tables_text() -> str:
    """Return the source of core/tables.py."""
    policies = {path.stem: tomllib.loads(path.read_text()) for path in find_policy_files()}
    sites = tomllib.loads((DATA / "sites.toml").read_text())
    skips = tomllib.loads((DATA / "skip.toml").read_text())
    shorteners = tomllib.loads((DATA / "shorteners.toml").read_text())
    tables = {
        name: {key: value for key, value in table.items() if key not in ("about", "source")}
        for name, table in sites.items()
    }
    extensions = sorted(extension for skip in skips.values() for extension in skip["extensions"])
    return "\n".join(
        [
            '"""Generated from core/data/ by tools/tables.py (make tables); do not edit."""',
            "",
            "from __future__ import annotations",
            "",
            "TYPE_CHECKING = False",
            "if TYPE_CHECKING:",
            "    from typing import Any",
            "",
            f"POLICIES: dict[str, dict[str, Any]] = {_format_python(policies)}",
            "",
            f"SITE_TABLES: dict[str, dict[str, str | tuple[str, ...]]] = {_format_python(tables)}",
            "",
            f"SKIPPED_EXTENSIONS = frozenset({_format_python(extensions)})",
            "",
            f"SHORTENERS = frozenset({_format_python(sorted(shorteners))})",
            "",
        ]
    )


def make_site_tables_text() -> str:
    """Return the source of core/site_tables.py."""
    tables = {file.id: {"blocks": tuple(file.blocks)} for file in read_site_files(DATA / "sites")}
    return "\n".join(
        [
            '"""Generated from core/data/sites/ by tools/tables.py (make tables); do not edit."""',
            "",
            "from __future__ import annotations",
            "",
            "TYPE_CHECKING = False",
            "if TYPE_CHECKING:",
            "    from typing import Any",
            "",
            f"SITE_PAGES: dict[str, dict[str, Any]] = {_format_nested(tables)}",
            "",
        ]
    )


def make_site_programs_text() -> str:
    """Return the source of core/native/site_programs.py."""
    programs: dict[str, Any] = {}
    for file in read_site_files(DATA / "sites"):
        program = compile_site(file.blocks)
        programs[file.id] = (tuple(program.hosts), bytes(program.data))
    return "\n".join(
        [
            '"""Generated from core/data/sites/ by tools/tables.py (make tables); do not edit."""',
            "",
            "from __future__ import annotations",
            "",
            "# The hosts of each site with the place of their records, and the program (tools/site_programs.py).",
            f"SITE_PROGRAMS: dict[str, tuple[tuple[tuple[str, int], ...], bytes]] = {_format_nested(programs)}",
            "",
        ]
    )


def _format_nested(value: Any, indent: str = "") -> str:
    """Write nested values as a Python literal, one line for each value that fits on it."""
    flat = repr(value)
    if len(indent) + len(flat) <= 110 or not isinstance(value, dict | list | tuple):
        return flat
    inner = indent + " "
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        rows = [f"{inner}{key!r}: {_format_nested(item, inner)},\n" for key, item in table.items()]
        return "{\n" + "".join(rows) + indent + "}"
    items = cast("tuple[Any, ...]", value)
    if all(isinstance(item, str) for item in items):
        words = "".join(f"{item!r}, " for item in items)
        lines = textwrap.wrap(
            words, 110, initial_indent=inner, subsequent_indent=inner, break_on_hyphens=False, break_long_words=False
        )
        return "(\n" + "\n".join(lines) + "\n" + indent + ")"
    return "(\n" + "".join(f"{inner}{_format_nested(item, inner)},\n" for item in items) + indent + ")"


def _format_python(value: Any, indent: str = "") -> str:
    """Write a value as a Python literal; a list becomes a tuple."""
    inner = indent + "    "
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        rows = [f"{inner}{_format_python(key)}: {_format_python(item, inner)},\n" for key, item in table.items()]
        return "{\n" + "".join(rows) + indent + "}" if rows else "{}"
    if isinstance(value, list):
        items = cast("list[str]", value)
        words = "".join(f"{_format_python(item)}, " for item in items)
        lines = textwrap.wrap(words, 110, initial_indent=inner, subsequent_indent=inner, break_on_hyphens=False)
        return "(\n" + "\n".join(lines) + "\n" + indent + ")"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def list_sites(name: str) -> list[str]:
    """Return the versioned names of the sites that are tables and make sense for a policy."""
    ids = {file.name: file.id for file in read_site_files(DATA / "sites")}
    if name == "crawl":
        wanted = [EXCEPTIONS]
    elif name.startswith("feed-"):
        wanted = [EXCEPTIONS, *FEED_SITES]
    else:
        wanted = list(ids)
    return sorted(ids[each] for each in wanted)


def bump(name: str) -> Path:
    """Write the next version of a shipped policy, or the newest again if it is not in the record of the law yet."""
    newest = [path for path in find_policy_files() if path.stem.partition("@")[0] == name][-1]
    policy = tomllib.loads(newest.read_text())
    if newest.stem in json.loads(LAW.read_text(encoding="utf-8")):
        policy["version"] += 1
    return write_policy(policy)


def refresh_new_policies() -> None:
    """Write again every policy that is not in the record of the law: it was not released, so it may still change."""
    record = json.loads(LAW.read_text(encoding="utf-8"))
    for path in find_policy_files():
        if path.stem not in record:
            write_policy(tomllib.loads(path.read_text()))


def write_policy(policy: dict[str, Any]) -> Path:
    """Write a policy with the parameters and the sites that the data lists now."""
    name: str = policy["name"]
    if name in LISTS:
        names, by_host = list_params(LISTS[name])
        policy["strip_params"] = sorted({*names, *OWN_PARAMS.get(name, ())})
        policy["strip_params_on"] = by_host
        policy["sites"] = list_sites(name)
    target = DATA / "policies" / f"{name}@{policy['version']}.toml"
    target.write_text(make_policy_text(policy))
    return target


def make_policy_text(policy: dict[str, Any]) -> str:
    """Write a policy as TOML."""
    by_host: dict[str, list[str]] = policy.get("strip_params_on", {})
    lines = [f"{key} = {_format_toml(value)}" for key, value in policy.items() if key != "strip_params_on"]
    if by_host:
        lines += [
            "",
            "[strip_params_on]",
            *(f"{_format_toml(host)} = {_format_toml(names)}" for host, names in by_host.items()),
        ]
    return "\n".join(lines) + "\n"


def _format_toml(value: Any) -> str:
    if isinstance(value, list) and len(items := cast("list[str]", value)) > 6:
        return "[\n" + "".join(f"  {_format_toml(item)},\n" for item in items) + "]"
    return json.dumps(value, ensure_ascii=False)


def main(arguments: list[str]) -> None:
    match arguments:
        case ["write"]:
            refresh_new_policies()
            TABLES.write_text(make_tables_text())
            SITE_TABLES.write_text(make_site_tables_text())
            SITE_PROGRAMS.write_text(make_site_programs_text())
        case ["bump", name]:
            print(f"wrote {bump(name).name}; now run: make tables law")
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
