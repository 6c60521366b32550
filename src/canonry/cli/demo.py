"""canonry demo: everything canonry does, shown on a small web of its own, offline."""

from __future__ import annotations

import asyncio

import click

from canonry.cli import render
from canonry.cli.options import json_option


@click.command()
@json_option
def demo(*, as_json: bool) -> None:
    """Every capability on a small web on loopback, offline: a tour of a few seconds.

    Real requests go through the real guard; nothing outside this machine is asked, nothing is kept.

    \b
    canonry demo
    """
    try:
        asyncio.run(_show(as_json=as_json))
    except ModuleNotFoundError:
        click.echo(
            "canonry: the rest of the tour needs more than the base install: pip install 'canonry[crawl]'", err=True
        )


async def _show(*, as_json: bool) -> None:
    from canonry.demo.tour import tour

    number = 0
    async for stop in tour():
        number += 1
        if as_json:
            render.print_json(stop)
            continue
        # A show for people, also where it is piped into a pager.
        click.echo(render.bold(f"{number}. {stop.title}\n"))
        render.print_table(stop.headers, stop.rows)
        click.echo(f"\n→ {render.bold(stop.result)}\n  yours: {stop.command}\n")
