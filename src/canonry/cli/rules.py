"""`canonry rules`: every rule, site and tracking parameter."""

from __future__ import annotations

import dataclasses
import tomllib
from importlib.resources import files
from typing import Any

import click

from canonry.cli import render
from canonry.cli.options import json_option
from canonry.core.catalog import RULE_DESCRIPTIONS


@click.command()
@json_option
def rules(*, as_json: bool) -> None:
    """List the rules in the order they run, the sites and the tracking parameters; --json adds the sources.

    \b
    canonry rules
    canonry rules --json | grep '"kind": "param"'
    """
    sites, params = _read_data("sites.toml"), _read_data("params.toml")
    by_host: dict[str, dict[str, Any]] = params.pop("on")
    hosted = {f"{name} (on {host})": note for host, names in by_host.items() for name, note in names.items()}
    if not render.is_for_terminal(as_json=as_json):
        for note in RULE_DESCRIPTIONS:
            render.print_json({"kind": "rule", **dataclasses.asdict(note)})
        for site, table in sites.items():
            render.print_json({"kind": "site", "site": site, **table})
        for name, table in {**params, **hosted}.items():
            render.print_json({"kind": "param", "name": name, **table})
        return
    for number, note in enumerate(RULE_DESCRIPTIONS, 1):
        click.echo(f"{number:2} {render.style_rule(note.rule)}  {note.what}")
        click.echo(f"     {render.format_diff(note.before, note.after)}")
    click.echo()
    render.print_table(("site", "what the rule does"), [(site, table["about"]) for site, table in sites.items()])
    click.echo()
    rows = [(name, table["owner"], table["what"]) for name, table in {**params, **hosted}.items()]
    render.print_table(("parameter", "owner", "meaning"), rows)


def _read_data(name: str) -> dict[str, Any]:
    return tomllib.loads((files("canonry.core") / "data" / name).read_text(encoding="utf-8"))
