"""Options shared by several commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from canonry.core.tables import POLICIES
from canonry.policy_files import DEFAULT_OVERRIDES, choose_policy

if TYPE_CHECKING:
    from canonry.core.policy import Policy


def complete_policy(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
    """Return names and ids of shipped policies for shell completion."""
    names = sorted({policy_id.partition("@")[0] for policy_id in POLICIES})
    return [name for name in (*names, *POLICIES) if name.startswith(typed)]


policy_option = click.option(
    "--policy",
    "-p",
    "policy_name",
    metavar="POLICY",
    default="bookmark",
    show_default=True,
    shell_complete=complete_policy,
    help="A shipped policy (see `canonry policies`), as name or name@version, or a TOML file.",
)
overrides_option = click.option(
    "--overrides",
    metavar="FILE",
    type=click.Path(),
    help=f"Overrides file (JSON); for article, {DEFAULT_OVERRIDES} is used if it exists.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on each line (the default in a pipe)."
)


def _get_default_database_url() -> str:
    from canonry.settings import load_settings

    return load_settings().database_url


db_option = click.option(
    "--db",
    "database_url",
    metavar="URL",
    envvar="CANONRY_DATABASE_URL",
    default=_get_default_database_url,
    show_default="~/.local/share/canonry/canonry.db",
    help="The store: sqlite:///FILE or postgresql://…; also CANONRY_DATABASE_URL, or database_url in canonry.toml.",
)
debug_option = click.option(
    "--debug", is_flag=True, help="Log whole URLs, without passwords, and more events; by default only their hosts."
)


def load_chosen_policy(policy_name: str, overrides: str | None = None) -> Policy:
    """Load the policy that the options name; print a note if the default overrides file is used."""
    policy = choose_policy(policy_name, overrides)
    if policy.overrides is not None and overrides is None:
        click.echo(f"canonry: using {DEFAULT_OVERRIDES}: {policy.id}", err=True)
    return policy
