"""canonry serve: bookmarks and all the rest, as a service with pages."""

from __future__ import annotations

import asyncio
import os

import click

from canonry.cli.options import db_option
from canonry.cli.stores import open_users
from canonry.errors import CanonryError, mask_credentials


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen; elsewhere needs a user first.")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True, help="At which port.")
@click.option("--socket", "socket_path", metavar="PATH", default="", help="Listen at a Unix socket (0600) instead.")
@db_option
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes that answer.")
@click.option("--require-token", is_flag=True, help="Want a token also without users: `canonry user token`.")
@click.option("--allow-host", "allowed_hosts", metavar="NAME", multiple=True, help="Another name the service has.")
@click.option("--fetch-titles", is_flag=True, help="Look up the titles of bookmarks that have none.")
def serve(
    host: str,
    port: int,
    socket_path: str,
    database_url: str,
    workers: int,
    require_token: bool,  # noqa: FBT001
    allowed_hosts: tuple[str, ...],
    fetch_titles: bool,  # noqa: FBT001
) -> None:
    """Keep bookmarks, and answer what canonry knows, over HTTP and on pages.

    Without a user (`canonry user add`) it is yours alone: it answers on this machine only, and every
    request acts as you. With users, each sees their own bookmarks, by token or signed in.

    \b
    canonry serve
    canonry serve --socket ~/.canonry.sock --require-token
    canonry user add ada && canonry serve --host 0.0.0.0 --workers 2
    """
    from canonry.server.run import is_loopback, serve
    from canonry.server.service import Options

    os.environ["CANONRY_DATABASE_URL"] = database_url  # for every process of it
    with open_users(database_url) as users:
        has_users = asyncio.run(users.has_users())
    if not has_users and not socket_path and not is_loopback(host):
        raise CanonryError(f"{host}: others could reach it, and there is no user yet; first `canonry user add NAME`")
    where = socket_path or f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    whose = "for its users" if has_users else "for you alone: no user yet"
    click.echo(f"canonry: serving {where} {whose}; {mask_credentials(database_url)}; Ctrl-C ends it", err=True)
    options = Options(
        host=host, port=port, require_token=require_token, allowed_hosts=allowed_hosts, fetch_titles=fetch_titles
    )
    serve(options, socket_path=socket_path, workers=workers)
