"""canonry demo: show what canonry does on a small built-in web, offline."""

from __future__ import annotations

import asyncio

import click

from canonry.cli import render
from canonry.cli.options import json_only_option


@click.command()
@json_only_option
def demo(*, as_json: bool) -> None:
    """Show what canonry does on a small web on loopback, offline, in a few seconds.

    The requests are real and pass the real guard. Nothing leaves this machine, and nothing is stored.

    \b
    canonry demo
    """
    try:
        asyncio.run(_show(as_json=as_json))
    except ModuleNotFoundError:
        click.echo("canonry: the rest of the tour needs an extra. Install it: pip install 'canonry[crawl]'", err=True)


async def _show(*, as_json: bool) -> None:
    from canonry.demo.tour import run_tour

    number = 0
    async for step in run_tour():
        number += 1
        if as_json:
            render.print_json(step)
            continue
        # Meant for people, also when it is piped into a pager.
        click.echo(render.make_bold(f"{number}. {step.title}\n"))
        render.print_table(step.headers, step.rows)
        click.echo(f"\n→ {render.make_bold(step.result)}\n  Try it: {step.command}\n")
