"""canonry crawl: the pages of one site, each once, with their links."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from canonry.cli import render
from canonry.cli.options import db_option, json_option
from canonry.cli.signals import until_stopped
from canonry.cli.stores import open_store
from canonry.core.url import parse
from canonry.errors import CanonryError, mask_credentials

if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.crawler.crawl_options import OptionChanges
    from canonry.crawler.crawl_store import Counts, Crawl, CrawlStore
    from canonry.crawler.pages import Page, Summary

_EXTENSIONS = (".jsonl", ".csv", ".parquet", ".graphml", ".dot")
_SHOWN = 20  # pages that a terminal shows


def output_file(_context: click.Context, _parameter: click.Parameter, given: str | None) -> Path | None:
    if given is None:
        return None
    file = Path(given)
    if file.suffix.lower() not in _EXTENSIONS:
        raise click.BadParameter(f"{given}: the name must end in {', '.join(_EXTENSIONS)}")
    if not file.parent.is_dir():
        raise click.BadParameter(f"{file.parent}: no such folder")
    return file


def require_writer(file: Path | None) -> None:
    """To know that something is missing before the work, not after it."""
    if file is not None and file.suffix.lower() == ".parquet":
        import_module("pyarrow.parquet")


@click.command()
@click.argument("seed")
@click.option(
    "--engine",
    type=click.Choice(["chrome", "http"]),
    help="Links from a real browser tab (the default), or from the HTML without a browser.",
)
@click.option("--max-pages", metavar="N", type=click.IntRange(min=1), help="Stop after so many pages.")
@click.option("--depth", metavar="N", type=click.IntRange(min=0), help="Follow so many clicks from the start page.")
@click.option(
    "--out",
    metavar="FILE",
    callback=output_file,
    help=f"Write all pages, or the link graph, to FILE: {', '.join(_EXTENSIONS)}.",
)
@click.option("--resume", is_flag=True, help="Go on with the last crawl of this start page.")
@click.option("--concurrency", metavar="N", type=click.IntRange(min=1), help="Pages at once.  [default: 16]")
@click.option("--per-host", metavar="N", type=click.IntRange(min=1), help="Pages of one host at once.  [default: 4]")
@click.option(
    "--delay",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    help="Pause between two pages; robots.txt may ask for more.",
)
@click.option("--no-robots", is_flag=True, help="Do not ask for robots.txt: the site is yours.")
@click.option("--sitemaps", is_flag=True, help="Crawl what the site's sitemaps name, too.")
@click.option("--follow-start", is_flag=True, help="Where the start page redirects to another host, crawl that.")
@click.option("--workers", is_flag=True, help="Leave the pages to the `canonry worker` processes of the store.")
@db_option
@json_option
def crawl(
    seed: str, *, out: Path | None, resume: bool, database_url: str, as_json: bool, workers: bool, **given: Any
) -> None:
    """Crawl a site: each page once, with the links a person could click.

    The site is the host of SEED, `www.` included. Pages are written as JSON lines when piped, and to --out
    when all are there. What was crawled stays in the store: --resume goes on after an interruption, and
    gives the pages that are there, too. Exit 1 if the start page or some pages failed.

    \b
    canonry crawl https://example.com/ --out site.jsonl
    canonry crawl https://example.com/ --engine http --max-pages 1000 --out links.graphml
    canonry crawl https://example.com/ --resume --out site.jsonl
    """
    require_writer(out)
    options = _read_options(given)
    session = _Session(seed, database_url, out, is_shown=render.on_terminal(as_json=as_json))
    work = session.watch if workers else session.run
    sys.exit(until_stopped(work(options, resume=resume), session.stopped))


def _read_options(given: dict[str, Any]) -> dict[str, Any]:
    """Return the crawl options that were given on the command line."""
    options = {name: value for name, value in given.items() if value not in (None, False)}
    if options.pop("no_robots", False):
        options["robots"] = False
    return options


class _Session:
    """One crawl on the command line: what it prints, and the line that says how far it is."""

    def __init__(self, seed: str, database_url: str, out: Path | None, *, is_shown: bool) -> None:
        from canonry.crawler.pages import Summary

        self.seed = seed
        self.database_url = database_url
        self.out = out
        self.is_shown = is_shown
        self.bar = render.Bar(0)
        self.summary: Summary = Summary()
        self.shown: list[Page] = []
        self.started = time.monotonic()

    def stopped(self) -> None:
        self.bar.clear()
        click.echo(f"canonry: stopped after {self.summary.pages} pages; to go on:", err=True)
        click.echo(self.command(self.seed, "--resume"), err=True)

    async def run(self, options: dict[str, Any], *, resume: bool) -> int:
        """Crawl in this process."""
        from canonry.crawler.crawl import crawl as crawl_site
        from canonry.crawler.crawl_store import CrawlStore
        from canonry.errors import StartMoved

        begun: list[Crawl] = []
        with open_store(self.database_url, must_exist=False) as database:
            crawls = CrawlStore(database)
            progress = asyncio.create_task(self._watch(crawls, begun))
            pages = crawl_site(self.seed, store=database, resume=resume, on_start=begun.append, **options)
            try:
                async for page in pages:
                    self.take(page)
            except StartMoved as moved:
                self.bar.clear()
                return self._moved(moved.target)
            finally:
                await pages.aclose()
                progress.cancel()
            self.bar.clear()
            await self._write_out(crawls, begun[0].id)
            return await self._finish(crawls, begun[0].id)

    async def watch(self, options: dict[str, Any], *, resume: bool) -> int:
        """Leave it to workers, and watch."""
        from datetime import UTC, datetime

        from canonry.crawler.crawl import read_pages, start_or_resume
        from canonry.crawler.crawl_store import CrawlState, CrawlStore
        from canonry.jobs.crawl_jobs import enqueue_crawl
        from canonry.jobs.queues import Jobs

        with open_store(self.database_url, must_exist=False) as database:
            crawls = CrawlStore(database)
            changes = cast("OptionChanges", {**options, "shared": True})
            begun = await start_or_resume(crawls, self.seed, changes, datetime.now(UTC), resume=resume)
            with Jobs(database) as jobs:
                await enqueue_crawl(jobs, begun)
            while (now := await crawls.get(begun.id)).state is CrawlState.RUNNING:
                self._show(await crawls.count_pages(begun.id), now.host)
                await asyncio.sleep(0.5)
            self.bar.clear()
            if target := now.moved_to:
                return self._moved(target)
            if now.state is CrawlState.FAILED:
                raise CanonryError(str(now.failure))
            async for page in read_pages(crawls, begun.id):
                self.take(page)
            await self._write_out(crawls, begun.id)
            return await self._finish(crawls, begun.id)

    def take(self, page: Page) -> None:
        """One page more."""
        from canonry.crawler.pages import make_record

        self.summary.add(page)
        if self.is_shown:
            if len(self.shown) < _SHOWN:
                self.shown.append(page)
        elif self.out is None:
            self.bar.clear()
            click.echo(json.dumps(make_record(page)))

    def command(self, seed: str, *more: str) -> str:
        """What to type to crawl this seed in the same way."""
        given = [word for word in sys.argv[1:] if word != "--resume"]
        words = [seed if word == self.seed else word for word in given]
        return "  " + shlex.join(["canonry", *words, *more])

    def _moved(self, target: str) -> int:
        click.echo(
            f"canonry: {mask_credentials(self.seed)} redirects to another host, {parse(target).host}; to crawl that:",
            err=True,
        )
        click.echo(self.command(target), err=True)
        return 1

    async def _watch(self, crawls: CrawlStore, begun: list[Crawl]) -> None:
        if not sys.stderr.isatty():
            return
        while True:
            await asyncio.sleep(0.5)
            if begun:
                self._show(await crawls.count_pages(begun[0].id), begun[0].host)

    def _show(self, counts: Counts, host: str) -> None:
        done = counts.done + counts.failed
        self.bar.resize(done + counts.queued + counts.fetching)
        rate = self.summary.pages / max(time.monotonic() - self.started, 0.001)
        told = f"{counts.queued} queued, {counts.fetching} open, {counts.failed} failed, {rate:.1f} pages/s, {host}"
        self.bar.show(done, told)

    async def _write_out(self, crawls: CrawlStore, crawl_id: int) -> None:
        """The file, from the store: all pages, also those of an interrupted run."""
        if self.out is not None:
            await write_pages(self.out, crawls, crawl_id)

    async def _finish(self, crawls: CrawlStore, crawl_id: int) -> int:
        from canonry.crawler.crawl_store import CrawlState

        summary, counts, state = self.summary, await crawls.count_pages(crawl_id), (await crawls.get(crawl_id)).state
        if self.shown:
            rows = [(str(page.status), page.title[:40], page.url) for page in self.shown]
            render.print_table(("status", "title", "url"), rows)
            if summary.pages > len(self.shown):
                click.echo(f"and {summary.pages - len(self.shown)} more")
        seconds = time.monotonic() - self.started
        print_summary(summary, counts, f"{summary.pages / max(seconds, 0.001):.1f} pages/s", err=True)
        if state is CrawlState.STOPPED:
            click.echo("canonry: the crawl was stopped; --resume goes on with it", err=True)
        return 1 if state is CrawlState.STOPPED or summary.failed or summary.is_seed_failed or not summary.pages else 0


def print_summary(summary: Summary, counts: Counts, told: str, *, err: bool) -> None:
    """What a crawl found, as a table; `told` is said of its pages."""
    table = [
        ("pages", summary.pages, told),
        ("failed", summary.failed, "no usable answer"),
        ("not fetched", counts.queued, "left in the queue"),
        *(("page skipped", count, reason.sentence) for reason, count in sorted(counts.skipped.items())),
        *(("link skipped", count, why) for why, count in summary.skipped.most_common(30)),
        ("external", summary.externals, "URLs of other sites"),
        ("duplicates avoided", counts.duplicates_avoided, "links to pages that were known"),
    ]
    always = {"pages", "external", "duplicates avoided"}
    shown = [(name, str(count), why) for name, count, why in table if count or name in always]
    render.print_table(("", "count", ""), shown, err=err)


async def write_pages(
    file: Path, crawls: CrawlStore, crawl_id: int, on_page: Callable[[], object] = lambda: None
) -> None:
    """All pages of a crawl, or the links between them, into a file."""
    from canonry.crawler.crawl import read_pages
    from canonry.crawler.export import open_writer

    with open_writer(file) as writer:
        async for page in read_pages(crawls, crawl_id):
            writer.add(page)
            on_page()
