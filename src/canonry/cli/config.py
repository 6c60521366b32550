"""`canonry config`: the settings in force, and where each was set."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

import click

from canonry.cli import render
from canonry.cli.options import json_option
from canonry.errors import mask_credentials
from canonry.overrides_setting import find_overrides_file
from canonry.settings import SETTING_DESCRIPTIONS, Settings, name_variable, read_given_settings

if TYPE_CHECKING:
    from collections.abc import Collection


@click.command()
@json_option
def config(*, as_json: bool) -> None:
    """Show the settings in force, where each was set, and its purpose.

    A command-line flag wins over a variable, a variable over canonry.toml in the current folder.

    \b
    canonry config
    CANONRY_ALLOW_NETWORKS=10.0.0.0/8 canonry config --json
    """
    given, defaults = read_given_settings(), Settings()
    records: list[dict[str, object]] = []
    for each in fields(Settings):
        value, source = given.get(each.name, (getattr(defaults, each.name), "default"))
        if each.name == "overrides" and not value:
            value = find_overrides_file() or ""
        records.append(
            {
                "setting": each.name,
                "value": _format_value(value),
                "source": source,
                "variable": name_variable(each.name),
                "meaning": SETTING_DESCRIPTIONS[each.name],
            }
        )
    if not render.is_for_terminal(as_json=as_json):
        for record in records:
            render.print_json(record)
        return
    rows = [tuple(str(record[name] or "–") for name in ("setting", "value", "source", "meaning")) for record in records]
    render.print_table(("setting", "value", "set by", "purpose"), rows)


def _format_value(value: object) -> str:
    """Return the value as it would be set, with passwords masked."""
    if value is None:
        return ""
    if isinstance(value, range):
        return f"{value[0]}-{value[-1]}"
    if isinstance(value, tuple | frozenset):
        return ", ".join(map(str, sorted(cast("Collection[Any]", value))))
    return mask_credentials(str(value))
