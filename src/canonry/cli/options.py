"""Options shared by several commands."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from canonry.core.configured_overrides import DEFAULT_OVERRIDES, OVERRIDES_VARIABLE
from canonry.core.tables import POLICIES
from canonry.overrides_setting import NO_FILE
from canonry.policy_files import choose_policy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from canonry.core.policy import Policy


_File = TypeVar("_File", bound=str | Path | None)

ROW_ID = click.IntRange(1, 2**63 - 1)  # no database has a larger one


def require_folder(_context: click.Context, _parameter: click.Parameter, file: _File) -> _File:
    """Refuse a file to write whose folder does not exist, before the work; a mistyped path makes no folders."""
    if file is not None and not (folder := Path(file).parent).exists():
        raise click.BadParameter(f"{folder}: the folder does not exist")
    return file


def require_files(names: Iterable[str], hint: str) -> None:
    """Refuse files to read that do not exist, before the work; a name that is a pattern is looked up later."""
    for name in names:
        if not (os.path.lexists(name) or glob.has_magic(name)):
            raise click.BadParameter(f"{name!r}: the file does not exist", param_hint=hint)


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


def _configure_overrides(_context: click.Context, _parameter: click.Parameter, file: str | None) -> None:
    if file is not None:
        if file != NO_FILE:
            require_files([file], "--overrides")
        # In the environment, so that every process of the command has the same setting.
        os.environ[OVERRIDES_VARIABLE] = file if file == NO_FILE else os.path.abspath(file)


def _choose_overrides(context: click.Context, parameter: click.Parameter, file: str | None) -> str | None:
    if file == NO_FILE:
        _configure_overrides(context, parameter, file)
        return None
    require_files([] if file is None else [file], "--overrides")
    return file


overrides_option = click.option(
    "--overrides",
    metavar="FILE",
    type=click.Path(),
    callback=_choose_overrides,
    help="Overrides file (JSON) for the policy. Without it, article uses the configured file: CANONRY_OVERRIDES,"
    f" overrides in canonry.toml, or {DEFAULT_OVERRIDES} if it exists; none for no file.",
)


overrides_setting_option = click.option(
    "--overrides",
    metavar="FILE",
    type=click.Path(),
    expose_value=False,
    callback=_configure_overrides,
    is_eager=True,
    help="Overrides file (JSON) for article; also CANONRY_OVERRIDES, or overrides in canonry.toml. By default"
    f" {DEFAULT_OVERRIDES} if it exists; none for no file.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on each line (the default in a pipe)."
)
json_only_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on each line.")


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
    """Load the policy that the options name; print a note if the configured overrides file is used."""
    policy = choose_policy(policy_name, overrides)
    if policy.overrides is not None and overrides is None:
        click.echo(f"canonry: using {policy.overrides.file}: {policy.id}", err=True)
    return policy
