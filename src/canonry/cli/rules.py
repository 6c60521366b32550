"""`canonry rules`: every rule, site and tracking parameter."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from canonry.cli import render
from canonry.cli.options import json_option
from canonry.core.catalog import RULE_DESCRIPTIONS

if TYPE_CHECKING:
    from canonry.site_files import SiteDescription


@click.command()
@click.option("--sites", "only_sites", is_flag=True, help="Show the known sites with their hosts, pages and examples.")
@json_option
def rules(*, only_sites: bool, as_json: bool) -> None:
    """List the rules in the order they run, the known sites and the tracking parameters; --json adds the sources.

    \b
    canonry rules
    canonry rules --sites
    canonry rules --json | grep '"kind": "param"'
    """
    from canonry.site_files import describe_sites, list_tracking_parameters, read_data

    described = describe_sites()
    if only_sites:
        _print_sites(described, as_json=as_json)
        return
    code_sites, parameters = read_data("sites.toml"), list_tracking_parameters()
    if not render.is_for_terminal(as_json=as_json):
        for note in RULE_DESCRIPTIONS:
            render.print_json({"kind": "rule", **dataclasses.asdict(note)})
        for site, table in code_sites.items():
            render.print_json({"kind": "site", "site": site, **table})
        for each in described:
            render.print_json({"kind": "site", **dataclasses.asdict(each)})
        for parameter in parameters:
            render.print_json({"kind": "param", **dataclasses.asdict(parameter), "name": parameter.label})
        return
    for number, note in enumerate(RULE_DESCRIPTIONS, 1):
        click.echo(f"{number:2} {render.style_rule(note.rule)}  {note.what}")
        click.echo(f"     {render.format_diff(note.before, note.after)}")
    click.echo()
    abouts = {site: table["about"] for site, table in code_sites.items()} | {
        each.site: each.about for each in described
    }
    render.print_table(("site", "what the rule does"), sorted(abouts.items()))
    click.echo()
    rows = [(each.label, each.owner, each.what) for each in parameters]
    render.print_table(("parameter", "owner", "meaning"), rows)


def _print_sites(described: tuple[SiteDescription, ...], *, as_json: bool) -> None:
    if not render.is_for_terminal(as_json=as_json):
        for each in described:
            render.print_json({"kind": "site", **dataclasses.asdict(each)})
        return
    for each in described:
        click.echo(f"{render.style_rule(each.site)}  {each.about}")
        click.echo(f"     hosts: {', '.join(each.hosts)}")
        for page in each.pages:
            leads_to = page.write or page.target or "stays as it is"
            click.echo(f"     {page.about or 'page'}: {', '.join(page.paths)} → {leads_to}")
        for example in each.examples:
            click.echo(f"     {render.format_diff(example.before, example.after)}")
