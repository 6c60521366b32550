"""canonry user: the users of the service and their tokens."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import click

from canonry.cli import render
from canonry.cli.options import db_option, json_option
from canonry.cli.stores import open_users


@click.group()
def user() -> None:
    """Manage the users of the service and their tokens."""


@user.command()
@click.argument("name")
@click.option(
    "--admin", is_flag=True, help="Let the user manage feeds, crawls and rekeys, and see statistics and settings."
)
@db_option
def add(name: str, *, admin: bool, database_url: str) -> None:
    """Add a user and print a token. The token is shown only this once.

    The first user is an admin and takes over the bookmarks of the store.

    \b
    canonry user add ada
    """
    with open_users(database_url, must_exist=False) as users:
        added, token = asyncio.run(users.add(name, datetime.now(UTC), is_admin=admin))
    click.echo(f"canonry: added {'admin' if added.is_admin else 'user'} {added.name}, with this token:", err=True)
    click.echo(token)


@user.command("list")
@db_option
@json_option
def list_users(*, database_url: str, as_json: bool) -> None:
    """List the users.

    \b
    canonry user list
    """
    with open_users(database_url) as users:
        found = asyncio.run(users.list_users())
    if not render.is_for_terminal(as_json=as_json):
        for each in found:
            render.print_json(each)
    elif found:
        rows = [(each.name, "admin" if each.is_admin else "", each.created_at[:16].replace("T", " ")) for each in found]
        render.print_table(("name", "role", "since"), rows)
    else:
        click.echo("canonry: no users (personal mode). `canonry user add NAME` adds one.", err=True)


@user.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Remove without asking.")
@db_option
def remove(name: str, *, yes: bool, database_url: str) -> None:
    """Remove a user with all their bookmarks, tokens and sessions.

    \b
    canonry user remove ada
    """
    if not yes:
        click.confirm(f"Remove {name} and all bookmarks of {name}?", abort=True, err=True)
    with open_users(database_url) as users:
        count = asyncio.run(users.remove(name))
    click.echo(f"Removed {name} and {render.count(count, 'bookmark')}.")


@user.command()
@click.argument("name", default="")
@click.option("--revoke", is_flag=True, help="Revoke all older tokens and sessions.")
@db_option
def token(name: str, *, revoke: bool, database_url: str) -> None:
    """Print a new token for a user, or for yourself if the store has no users.

    \b
    canonry user token ada --revoke
    """
    with open_users(database_url, must_exist=False) as users:
        click.echo(asyncio.run(users.create_token(name, datetime.now(UTC), revokes=revoke)))
