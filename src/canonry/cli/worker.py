"""`canonry worker`: run the background jobs of a store until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from dataclasses import replace

import click

from canonry.cli.options import db_option, overrides_setting_option
from canonry.overrides_setting import find_overrides


@click.command()
@db_option
@overrides_setting_option
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    help="Jobs of one kind that run at the same time.",
)
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(min=1, max=86400),
    default=30.0,
    show_default=True,
    help="How often to look for feeds that are due.",
)
def worker(database_url: str, *, concurrency: int, every: float) -> None:
    """Run the background jobs of a store: poll feeds that are due, crawl, rekey, clean up.

    One process on SQLite, any number on PostgreSQL. On SIGTERM or Ctrl-C it waits up to 30 seconds for
    running jobs and requeues the rest; a second signal ends it at once.

    \b
    canonry worker
    canonry worker --db postgresql://localhost/canonry --concurrency 64
    """
    find_overrides()  # a malformed file is refused now, not by the first job that needs it
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(_work(database_url, concurrency, every))


async def _work(database_url: str, concurrency: int, every: float) -> None:
    from canonry.settings import load_settings
    from canonry.wiring import make_worker, open_components

    settings = replace(load_settings(), database_url=database_url)
    async with open_components(settings, warn=logging.getLogger("canonry.store").info) as components:
        stop = _watch_signals()
        async with make_worker(components, concurrency=concurrency, due_interval=every):
            await stop.wait()


def _watch_signals() -> asyncio.Event:
    """Return an event that the first SIGTERM or SIGINT sets; a second signal ends the process at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop_once() -> None:
        stop.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_once)
    return stop
