"""The data behind the rules: TOML that people edit, and the Python tables that canonry loads.

    python tools/tables.py write          core/data/*.toml → core/tables.py (make tables)
    python tools/tables.py bump bookmark  the next version of a policy, with params.toml as it is now

Reading TOML costs more than `canonry normalize` may take in all, so the tables are generated once
and a test compares them with the data (docs/decisions/0002-policies-as-data.md).
"""

from __future__ import annotations

import json
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any, cast

CORE = Path(__file__).parent.parent / "src" / "canonry" / "core"
DATA = CORE / "data"
TABLES = CORE / "tables.py"
# Which list of params.toml a policy drops; the other policies have a list of their own.
LISTS = {"feed-aggressive": "feed", "feed-moderate": "feed", "feed-conservative": "feed", "bookmark": "tracking"}


def policy_files() -> list[Path]:
    """Every shipped policy, by name and then version."""

    def order(path: Path) -> tuple[str, int]:
        name, _, version = path.stem.partition("@")
        return name, int(version)

    return sorted((DATA / "policies").glob("*.toml"), key=order)


def listed_params(which: str) -> tuple[list[str], dict[str, list[str]]]:
    """The names on a list of params.toml: everywhere, and by host."""
    params: dict[str, Any] = tomllib.loads((DATA / "params.toml").read_text())
    by_host: dict[str, dict[str, Any]] = params.pop("on", {})
    hosts = {host: sorted(name for name in names if which in names[name]["lists"]) for host, names in by_host.items()}
    return sorted(name for name in params if which in params[name]["lists"]), {h: n for h, n in hosts.items() if n}


def tables_text() -> str:
    """The source of core/tables.py."""
    policies = {path.stem: tomllib.loads(path.read_text()) for path in policy_files()}
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
            f"POLICIES: dict[str, dict[str, Any]] = {_python(policies)}",
            "",
            f"SITE_TABLES: dict[str, dict[str, str | tuple[str, ...]]] = {_python(tables)}",
            "",
            f"SKIPPED_EXTENSIONS = frozenset({_python(extensions)})",
            "",
            f"SHORTENERS = frozenset({_python(sorted(shorteners))})",
            "",
        ]
    )


def _python(value: Any, indent: str = "") -> str:
    """A literal; lists of texts become tuples."""
    inner = indent + "    "
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        rows = [f"{inner}{_python(key)}: {_python(item, inner)},\n" for key, item in table.items()]
        return "{\n" + "".join(rows) + indent + "}" if rows else "{}"
    if isinstance(value, list):
        items = cast("list[str]", value)
        words = "".join(f"{_python(item)}, " for item in items)
        lines = textwrap.wrap(words, 110, initial_indent=inner, subsequent_indent=inner, break_on_hyphens=False)
        return "(\n" + "\n".join(lines) + "\n" + indent + ")"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def bump(name: str) -> Path:
    """Write the next version of a shipped policy with the parameters that params.toml lists now."""
    newest = [path for path in policy_files() if path.stem.partition("@")[0] == name][-1]
    policy = tomllib.loads(newest.read_text())
    policy["version"] += 1
    if name in LISTS:
        policy["strip_params"], policy["strip_params_on"] = listed_params(LISTS[name])
    target = DATA / "policies" / f"{name}@{policy['version']}.toml"
    target.write_text(policy_text(policy))
    return target


def policy_text(policy: dict[str, Any]) -> str:
    """A policy as TOML."""
    by_host: dict[str, list[str]] = policy.get("strip_params_on", {})
    lines = [f"{key} = {_toml(value)}" for key, value in policy.items() if key != "strip_params_on"]
    if by_host:
        lines += ["", "[strip_params_on]", *(f"{_toml(host)} = {_toml(names)}" for host, names in by_host.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, list) and len(items := cast("list[str]", value)) > 6:
        return "[\n" + "".join(f"  {_toml(item)},\n" for item in items) + "]"
    return json.dumps(value, ensure_ascii=False)


def main(arguments: list[str]) -> None:
    match arguments:
        case ["write"]:
            TABLES.write_text(tables_text())
        case ["bump", name]:
            print(f"wrote {bump(name).name}; now run: make tables law")
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
