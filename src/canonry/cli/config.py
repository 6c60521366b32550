"""`canonry config`: the settings in force, and where each was set."""

from __future__ import annotations

import click

from canonry.cli import render
from canonry.cli.options import json_option
from canonry.settings import find_mistyped_variables
from canonry.settings_report import report_settings


@click.command()
@json_option
def config(*, as_json: bool) -> None:
    """Show the settings in force, where each was set, and its purpose.

    A command-line flag wins over a variable, a variable over canonry.toml in the current folder.

    \b
    canonry config
    CANONRY_ALLOW_NETWORKS=10.0.0.0/8 canonry config --json
    """
    for message in find_mistyped_variables():
        click.echo(f"canonry: {message}", err=True)
    reports = report_settings()
    if not render.is_for_terminal(as_json=as_json):
        for report in reports:
            render.print_json(report)
        return
    rows = [tuple(text or "–" for text in (each.setting, each.value, each.source, each.meaning)) for each in reports]
    render.print_table(("setting", "value", "set by", "purpose"), rows)
