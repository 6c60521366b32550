"""`canonry feeds set`, `pause` and `resume`: the settings of one feed (contract I11)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from canonry.cli import render
from canonry.cli.options import db_option, json_option
from canonry.cli.stores import get_feed, open_feeds
from canonry.errors import InvalidFields, mask_credentials

if TYPE_CHECKING:
    from canonry.feeds.feed_settings import FeedChanges
    from canonry.feeds.feed_values import FeedState

_DEFAULT = "default"  # as a value restores the default


@click.command("set")
@click.argument("url")
@click.option("--title", metavar="TEXT", help="A title of your own, which import and polling keep.")
@click.option("--folder", metavar="FOLDER", help="The folder, a/b.")
@click.option("--interval", metavar="DURATION", help="How often the feed is polled, from 1m to 7d: 15m, 6h, 1d.")
@click.option("--timeout", metavar="DURATION", help="How long a request may take, from 1s to 5m: 30s.")
@click.option("--max-bytes", metavar="SIZE", help="The largest document that is read, up to 100MiB: 500kB, 20MiB.")
@click.option("--user-agent", metavar="TEXT", help="The User-Agent header of requests for this feed.")
@click.option(
    "--header",
    "headers",
    metavar="'NAME: VALUE'",
    multiple=True,
    help="A header sent to the feed's own server, for example a token. 'NAME:' removes it. Repeatable.",
)
@db_option
@json_option
def set_feed(
    url: str,
    *,
    title: str | None,
    folder: str | None,
    interval: str | None,
    timeout: str | None,
    max_bytes: str | None,
    user_agent: str | None,
    headers: tuple[str, ...],
    database_url: str,
    as_json: bool,
) -> None:
    """Change the settings of the feed at URL; the value "default" restores a default. Prints the settings.

    \b
    canonry feeds set https://example.com/feed --interval 15m --title 'My feed'
    canonry feeds set https://example.com/feed --header 'Authorization: Bearer TOKEN'
    canonry feeds set https://example.com/feed --interval default
    """
    from canonry.feeds.feed_settings import parse_header

    given = {
        "title": title,
        "folder": folder,
        "interval": interval,
        "timeout": timeout,
        "max_bytes": max_bytes,
        "user_agent": user_agent,
    }
    changes: dict[str, object] = {
        name: None if value == _DEFAULT else value for name, value in given.items() if value is not None
    }
    if headers:
        try:
            changes["headers"] = dict(map(parse_header, headers))
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--header") from None
    _change(url, changes, database_url, as_json=as_json)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@click.command()
@click.argument("url")
@db_option
@json_option
def pause(url: str, *, database_url: str, as_json: bool) -> None:
    """Stop polling the feed at URL until you resume it; its items stay.

    \b
    canonry feeds pause https://example.com/feed
    """
    _change(url, {"paused": True}, database_url, as_json=as_json)


@click.command()
@click.argument("url")
@db_option
@json_option
def resume(url: str, *, database_url: str, as_json: bool) -> None:
    """Poll the feed at URL again after it was paused or stopped.

    \b
    canonry feeds resume https://example.com/feed
    """
    _change(url, {"paused": False}, database_url, as_json=as_json)


def make_settings_record(feed: FeedState) -> dict[str, object]:
    """Return the settings of a feed as they are shown: the values of headers are masked."""
    from canonry.feeds.feed_settings import mask_headers

    return {
        "own_title": feed.own_title,
        "site_url": mask_credentials(feed.site_url),
        "interval": feed.interval_seconds,
        "timeout": feed.timeout_seconds,
        "max_bytes": feed.max_bytes,
        "user_agent": feed.user_agent,
        "headers": mask_headers(feed),
    }


def _change(url: str, changes: FeedChanges, database_url: str, *, as_json: bool) -> None:
    from canonry.feeds.feed_settings import mask_headers

    with open_feeds(database_url) as store:

        async def run() -> FeedState:
            return await store.change((await get_feed(url, store)).id, changes)

        try:
            feed = asyncio.run(run())
        except InvalidFields as error:
            name, reason = next(iter(error.reasons.items()))
            option = "--header" if name == "headers" else f"--{name.replace('_', '-')}"
            raise click.BadParameter(reason, param_hint=option) from None
    record = {"url": mask_credentials(feed.url), "status": feed.status, **make_settings_record(feed)}
    if not render.is_for_terminal(as_json=as_json):
        render.print_json(record)
        return
    headers = ", ".join(f"{name}: {mask}" for name, mask in mask_headers(feed).items())
    for name, value in {**record, "headers": headers}.items():
        shown = _DEFAULT if value in {None, ""} else str(value)
        click.echo(f"{render.make_bold(name)}  {render.escape_control(shown)}")
