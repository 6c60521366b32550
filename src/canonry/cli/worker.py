"""canonry worker: run the jobs of a store until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

import click

from canonry.cli.options import db_option


@click.command()
@db_option
@click.option(
    "--concurrency", metavar="N", type=click.IntRange(min=1), default=32, show_default=True, help="Jobs at once."
)
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(min=1, max=86400),
    default=30.0,
    show_default=True,
    help="How often to look which feeds are due.",
)
def worker(database_url: str, *, concurrency: int, every: float) -> None:
    """Run the jobs of a store: poll feeds when they are due, crawl, move keys, tidy up.

    One process on SQLite, any number on PostgreSQL. SIGTERM or Ctrl-C lets running jobs end, for 30
    seconds at most, and gives the rest back; a second one ends it at once.

    \b
    canonry worker
    canonry worker --db postgresql://localhost/canonry --concurrency 64
    """
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(_work(database_url, concurrency, every))


async def _work(database_url: str, concurrency: int, every: float) -> None:
    from functools import partial

    from canonry.bookmarks.expand import expand
    from canonry.bookmarks.save import Bookmarks
    from canonry.feeds.polling import Polling
    from canonry.jobs.crawl_jobs import crawl_kinds, crawl_schedules
    from canonry.jobs.kinds import make_bookmark_kinds, make_bookmark_schedules, make_feed_kinds, make_feed_schedules
    from canonry.jobs.queues import Jobs
    from canonry.jobs.worker import Worker
    from canonry.net.fetch import Client
    from canonry.rekey.bookmark_rekey import BookmarkRekeys
    from canonry.settings import load_settings
    from canonry.store.cache import open_cache
    from canonry.store.database import Database

    say = logging.getLogger("canonry.store").info
    with Database(database_url, say=say) as database, Jobs(database) as jobs:
        settings = load_settings()
        async with Client(settings=settings) as client:
            cache = open_cache(settings, database)
            follow = partial(expand, client=client, cache=cache)
            bookmarks = Bookmarks(database, follow, enqueue=jobs.enqueue, fetch=client.fetch)
            kinds = [
                *make_feed_kinds(jobs, Polling(client.fetch)),
                *make_bookmark_kinds(bookmarks, BookmarkRekeys(bookmarks)),
                *crawl_kinds(jobs, settings, client),
            ]
            schedules = [*make_feed_schedules(due_interval=every), *make_bookmark_schedules(), *crawl_schedules()]
            stop = _on_signals()
            async with Worker(jobs, kinds, schedules=schedules, concurrency=concurrency):
                await stop.wait()
            await bookmarks.statistics.flush()
            await cache.close()


def _on_signals() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT; the second does what it does without us."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop_once() -> None:
        stop.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_once)
    return stop
