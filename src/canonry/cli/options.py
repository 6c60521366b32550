"""Options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from canonry.core.tables import POLICIES
from canonry.policy_files import DEFAULT_OVERRIDES, choose_policy

if TYPE_CHECKING:
    from canonry.core.policy import Policy


def complete_policy(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
    """Names and ids of shipped policies, for the shell."""
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
    help="A shipped policy (see `canonry policies`), name or name@version, or a TOML file of your own.",
)
overrides_option = click.option(
    "--overrides",
    metavar="FILE",
    type=click.Path(),
    help=f"Overrides file (JSON); for article, {DEFAULT_OVERRIDES} is used if it exists.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object a line (the default when piped).")


def _default_database_url() -> str:
    from canonry.settings import load_settings

    return load_settings().database_url


db_option = click.option(
    "--db",
    "database_url",
    metavar="URL",
    envvar="CANONRY_DATABASE_URL",
    default=_default_database_url,
    show_default="~/.local/share/canonry/canonry.db",
    help="The store: sqlite:///FILE or postgresql://…; also CANONRY_DATABASE_URL, or database_url in canonry.toml.",
)


def chosen(policy_name: str, overrides: str | None = None) -> Policy:
    """The policy these options name; says so when the overrides file was found by itself."""
    policy = choose_policy(policy_name, overrides)
    if policy.overrides is not None and overrides is None:
        click.echo(f"canonry: using {DEFAULT_OVERRIDES}: {policy.id}", err=True)
    return policy
