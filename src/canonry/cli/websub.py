"""`canonry feeds websub`: the subscriptions of feeds at their hubs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from canonry.cli import render
from canonry.cli.options import db_option, json_option
from canonry.cli.stores import open_store

if TYPE_CHECKING:
    from canonry.feeds.websub import Subscription


@click.command()
@db_option
@json_option
def websub(*, database_url: str, as_json: bool) -> None:
    """List the subscriptions at WebSub hubs, which announce changes, so that feeds are polled at once.

    `canonry serve` and `canonry worker` subscribe if CANONRY_PUBLIC_URL is set.

    \b
    canonry feeds websub
    """
    from canonry.feeds.websub import mask_all
    from canonry.feeds.websub_store import WebSubStore

    with open_store(database_url) as database:
        found = mask_all(asyncio.run(WebSubStore(database).list_all()))
    if not render.is_for_terminal(as_json=as_json):
        for each in found:
            render.print_json(_make_record(each))
    elif found:
        rows = [
            (
                str(each.feed_id),
                each.topic,
                each.hub,
                each.state.value,
                each.expires_at or "",
                each.pushed_at or "",
                each.failure,
            )
            for each in found
        ]
        render.print_table(("feed", "topic", "hub", "state", "expires", "last push", "failure"), rows)
    else:
        click.echo("canonry: no subscriptions. Set CANONRY_PUBLIC_URL to let hubs push changes.", err=True)


def _make_record(subscription: Subscription) -> dict[str, object]:
    """Return the fields that may be shown."""
    names = (
        "feed_id",
        "topic",
        "hub",
        "state",
        "failures",
        "failure",
        "next_at",
        "expires_at",
        "pushed_at",
        "missed_at",
    )
    return {name: getattr(subscription, name) for name in names}
