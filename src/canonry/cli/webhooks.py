"""`canonry feeds webhook`: URLs that get every new and updated item by POST."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from canonry.cli import render
from canonry.cli.options import ROW_ID, db_option, json_option
from canonry.cli.stores import open_store

if TYPE_CHECKING:
    from canonry.feeds.webhook_store import WebhookStore
    from canonry.feeds.webhooks import DeliveryFailure, Webhook

_ID = click.argument("webhook_id", metavar="ID", type=ROW_ID)


@click.group()
def webhook() -> None:
    """Manage webhooks: URLs that get every new and updated item by POST.

    `canonry worker` or `canonry serve` delivers, in order and at least once. Requests are signed as Standard
    Webhooks describes.
    """


@webhook.command()
@click.argument("url")
@click.option(
    "--after",
    metavar="N",
    type=click.IntRange(min=0),
    help="Begin with the change after number N. Default: with the next change.",
)
@db_option
@json_option
def add(url: str, *, after: int | None, database_url: str, as_json: bool) -> None:
    """Deliver changes to a URL, and print the secret that signs them. The secret is shown only this once.

    \b
    canonry feeds webhook add https://example.com/hook
    """
    from canonry.core.url import read_url
    from canonry.feeds.webhook_store import WebhookStore
    from canonry.feeds.webhooks import mask_webhook
    from canonry.net.guard import make_guard
    from canonry.settings import load_settings

    target = read_url(url)
    make_guard(load_settings()).check_url(target)
    with open_store(database_url, must_exist=False) as database:
        added, secret = asyncio.run(WebhookStore(database).add(target, datetime.now(UTC), after=after))
    if not render.is_for_terminal(as_json=as_json):
        render.print_json({**_make_record(mask_webhook(added)), "secret": secret})
        return
    click.echo(f"canonry: added webhook {added.id}, with this secret:", err=True)
    click.echo(secret)


@webhook.command("list")
@db_option
@json_option
def list_webhooks(*, database_url: str, as_json: bool) -> None:
    """List webhooks, with their state, the number of the last change delivered and the last failure.

    \b
    canonry feeds webhook list
    """
    from canonry.feeds.webhook_store import WebhookStore
    from canonry.feeds.webhooks import mask_webhook

    with open_store(database_url) as database:
        found = [mask_webhook(each) for each in asyncio.run(WebhookStore(database).list_all())]
    if not render.is_for_terminal(as_json=as_json):
        for each in found:
            render.print_json(_make_record(each))
    elif found:
        rows = [
            (str(each.id), each.url, each.state.value, str(each.position), str(each.failures), each.failure)
            for each in found
        ]
        render.print_table(("id", "url", "state", "delivered", "failures", "failure"), rows)
    else:
        click.echo("canonry: no webhooks. Add one with `canonry feeds webhook add URL`.", err=True)


@webhook.command()
@_ID
@db_option
def remove(webhook_id: int, *, database_url: str) -> None:
    """Stop delivering to a webhook.

    \b
    canonry feeds webhook remove 1
    """
    from canonry.feeds.webhook_store import WebhookStore

    with open_store(database_url) as database:
        asyncio.run(WebhookStore(database).remove(webhook_id))
    click.echo(f"removed webhook {webhook_id}")


@webhook.command()
@_ID
@db_option
def resume(webhook_id: int, *, database_url: str) -> None:
    """Deliver again to a webhook that is paused, beginning with the first change that it lacks.

    \b
    canonry feeds webhook resume 1
    """
    from canonry.feeds.webhook_store import WebhookStore

    with open_store(database_url) as database:
        resumed = asyncio.run(WebhookStore(database).resume(webhook_id))
    click.echo(f"webhook {webhook_id} is {resumed.state}, and continues after change {resumed.position}")


@webhook.command()
@_ID
@db_option
def test(webhook_id: int, *, database_url: str) -> None:
    """Send a signed request without changes, and print how the server answers. Exits with 1 if not with 2xx.

    \b
    canonry feeds webhook test 1
    """
    from canonry.feeds.webhook_store import WebhookStore

    with open_store(database_url) as database:
        failure = asyncio.run(_send_test(WebhookStore(database), webhook_id))
    if failure is not None:
        click.echo(f"canonry: webhook {webhook_id} failed: {failure.reason}", err=True)
        sys.exit(1)
    click.echo(f"webhook {webhook_id} accepted the request")


async def _send_test(store: WebhookStore, webhook_id: int) -> DeliveryFailure | None:
    from canonry.feeds.webhooks import Deliveries
    from canonry.settings import load_settings
    from canonry.wiring import make_client

    async with make_client(load_settings()) as client:
        return await Deliveries(store, client.fetch).send_test(webhook_id)


def _make_record(webhook: Webhook) -> dict[str, object]:
    return {name: getattr(webhook, name) for name in type(webhook).__dataclass_fields__}
