"""`canonry worker`: run the background jobs of a store until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from canonry.cli.event_loop import run_on_fast_loop
from canonry.cli.options import db_option, debug_option, overrides_setting_option
from canonry.overrides_setting import find_overrides

if TYPE_CHECKING:
    from canonry.settings import Settings


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
@debug_option
def worker(database_url: str, *, concurrency: int, every: float, debug: bool) -> None:
    """Run the background jobs of a store: poll feeds that are due, crawl, rekey, clean up.

    One process on SQLite, any number on PostgreSQL. On SIGTERM or Ctrl-C it waits up to 30 seconds for
    running jobs and requeues the rest; a second signal ends it at once.

    \b
    canonry worker
    canonry worker --db postgresql://localhost/canonry --concurrency 64
    """
    from canonry.server.logs import configure_logging, wants_json
    from canonry.settings import load_settings

    find_overrides()  # a malformed file is refused now, not by the first job that needs it
    settings = replace(load_settings(), database_url=database_url)
    configure_logging(as_json=wants_json(settings.log_format), level=settings.log_level, debug=debug)
    run_on_fast_loop(_work(settings, concurrency, every))


async def _work(settings: Settings, concurrency: int, every: float) -> None:
    from canonry.wiring import make_worker, open_components

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
