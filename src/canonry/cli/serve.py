"""canonry serve: run the service with its API and web pages."""

from __future__ import annotations

import asyncio
import os

import click

from canonry.cli.options import db_option, debug_option, overrides_setting_option
from canonry.cli.stores import open_users
from canonry.errors import CanonryError, mask_credentials
from canonry.overrides_setting import find_overrides
from canonry.settings import load_settings


@click.command()
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; any but loopback needs a user first.",
)
@click.option(
    "--port", metavar="N", type=click.IntRange(1, 65535), default=8000, show_default=True, help="Port to listen on."
)
@click.option(
    "--socket", "socket_path", metavar="PATH", default="", help="Listen on a Unix socket (mode 0600) instead."
)
@click.option(
    "--root-path",
    metavar="PATH",
    default="",
    help="The path below which a reverse proxy shows the service; the proxy removes it.",
)
@db_option
@overrides_setting_option
@click.option(
    "--workers", metavar="N", type=click.IntRange(1, 64), default=1, show_default=True, help="Number of processes."
)
@click.option(
    "--require-token", is_flag=True, help="Require a token even without users; create one with `canonry user token`."
)
@click.option(
    "--allow-host",
    "allowed_hosts",
    metavar="NAME",
    multiple=True,
    help="Another host name of the service; can be repeated.",
)
@click.option(
    "--fetch-pages/--no-fetch-pages",
    default=None,
    help="Read the pages of new bookmarks in the background, for titles and to find twins (default: the settings).",
)
@debug_option
def serve(
    host: str,
    port: int,
    socket_path: str,
    root_path: str,
    database_url: str,
    workers: int,
    require_token: bool,  # noqa: FBT001
    allowed_hosts: tuple[str, ...],
    fetch_pages: bool | None,  # noqa: FBT001
    debug: bool,  # noqa: FBT001
) -> None:
    """Run the bookmark service: web pages, a JSON API, and background jobs.

    Without users the service is in personal mode: it listens on this machine only, and every request
    acts as you. Once there are users (`canonry user add`), each sees their own bookmarks, with a token
    for the API and a session for the pages.

    \b
    canonry serve
    canonry serve --socket ~/.canonry.sock --require-token
    canonry user add ada && canonry serve --host 0.0.0.0 --workers 2
    """
    from canonry.server.root_path import check_root_path
    from canonry.server.run import is_loopback, serve
    from canonry.server.service import ServiceOptions

    find_overrides()  # a malformed file is refused now, not by the first request that needs it
    os.environ["CANONRY_DATABASE_URL"] = database_url  # for all processes of the service
    with open_users(database_url, must_exist=False) as users:
        has_users = asyncio.run(users.has_users())
    if not has_users and not socket_path and not is_loopback(host):
        raise CanonryError(
            f"refused to listen on {host}: other machines could reach it, and there are no users yet."
            " Add one first: canonry user add NAME"
        )
    where = socket_path or f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    mode = "with users" if has_users else "in personal mode (no users yet)"
    message = f"canonry: serving {where} {mode}; store {mask_credentials(database_url)}; Ctrl-C to stop"
    settings = load_settings()
    options = ServiceOptions(
        host=host,
        port=port,
        root_path=check_root_path(root_path),
        require_token=require_token,
        allowed_hosts=allowed_hosts,
        fetch_pages=settings.fetch_pages if fetch_pages is None else fetch_pages,
        requests_per_minute=settings.requests_per_minute,
        sign_ins_per_minute=settings.sign_ins_per_minute,
        debug=debug,
    )
    serve(options, socket_path=socket_path, workers=workers, announce=lambda: click.echo(message, err=True))
