"""canonry crawl: crawl one site, each page once, with its links."""

from __future__ import annotations

import asyncio
import json
import math
import shlex
import sys
import time
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import click

from canonry.cli import render
from canonry.cli.access_options import access_options, hide_headers, read_access
from canonry.cli.crawl_output import (
    EXTENSIONS,
    MAX_SHOWN_PAGES,
    WARC_EXTENSION,
    parse_archive_file,
    parse_out,
    print_changes,
    print_left_groups,
    print_problems,
    print_sitemap_failures,
    print_summary,
    require_writer,
    take_archive_file,
    write_pages,
)
from canonry.cli.options import complete_policy, db_option, json_option
from canonry.cli.signals import run_until_stopped
from canonry.cli.stores import open_store
from canonry.core.url import parse
from canonry.errors import CanonryError, CrawlNotFound, InvalidFields, mask_credentials

if TYPE_CHECKING:
    from pathlib import Path

    from canonry.crawler.crawl_options import OptionChanges
    from canonry.crawler.crawl_store import Counts, Crawl, CrawlStore
    from canonry.crawler.pages import Page, Summary
    from canonry.crawler.results import Outage

_NO_WORKER_SECONDS = 5.0  # after which a crawl for workers says that none has opened a page
_NO_LIMIT = "none"


class _Limit(click.ParamType[int | str]):
    """A number, or `none` for no limit."""

    name = "limit"

    def __init__(self, least: int) -> None:
        self._number = click.IntRange(least, 2**31 - 1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        return _NO_LIMIT if value == _NO_LIMIT else self._number.convert(value, param, ctx)


class _Seconds(click.FloatRange):
    """A number of seconds; `nan` and `inf` are refused, which FloatRange takes."""

    name = "seconds"

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return seconds


@click.command()
@click.argument("seed")
@click.option(
    "--engine",
    type=click.Choice(["chrome", "http"]),
    help="Read links in a browser tab (chrome, the default) or from the HTML alone (http).",
)
@click.option(
    "--max-pages", metavar="N|none", type=_Limit(1), help="Stop after N pages; `none` removes the limit of a crawl."
)
@click.option(
    "--depth",
    metavar="N|none",
    type=_Limit(0),
    help="Follow links up to N clicks from the start page, 0 for that page alone; `none` removes the limit.",
)
@click.option(
    "--out",
    metavar="FILE",
    callback=parse_out,
    help=f"Write all pages, or the link graph, to FILE; its extension is one of {', '.join(EXTENSIONS)}.",
)
@click.option(
    "--warc",
    metavar="FILE",
    callback=parse_archive_file,
    help=f"Write all requests and answers to FILE for web archives; its extension is {WARC_EXTENSION}.",
)
@click.option("--resume", is_flag=True, help="Continue the latest crawl of this start page.")
@click.option(
    "--again",
    is_flag=True,
    help="Repeat the latest finished crawl of this start page; each page is new, changed, gone or the same as before.",
)
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(min=1),
    help="Maximum number of pages open at the same time.  [default: 16]",
)
@click.option(
    "--per-host",
    metavar="N",
    type=click.IntRange(min=1),
    help="Maximum number of pages of one host open at the same time.  [default: 4]",
)
@click.option(
    "--delay",
    metavar="SECONDS",
    type=_Seconds(),
    help="Pause between two requests; robots.txt may ask for a longer one.",
)
@click.option(
    "--patience",
    metavar="SECONDS",
    type=_Seconds(),
    help="How long to wait for a site that stops answering; then the crawl pauses.  [default: 300]",
)
@click.option(
    "--policy",
    metavar="NAME|FILE",
    shell_complete=complete_policy,
    help="The policy under which two URLs are one page: a shipped one or a TOML file.  [default: the newest crawl]",
)
@click.option(
    "--include",
    metavar="PATTERN",
    multiple=True,
    help="Crawl only pages whose path matches this pattern, written as in robots.txt: /docs/ matches every path that "
    "begins with it, * any characters, $ the end. Repeatable.",
)
@click.option(
    "--exclude", metavar="PATTERN", multiple=True, help="Leave out pages whose path matches this pattern. Repeatable."
)
@click.option("--no-robots", is_flag=True, help="Ignore robots.txt, for a site of your own.")
@click.option("--ignore-nofollow", is_flag=True, help="Also follow links that ask crawlers not to (nofollow).")
@click.option(
    "--trap-pages",
    metavar="N|none",
    type=_Limit(2),
    help="Stop a pattern of URLs, such as a calendar, after N pages in a row without new text; `none` never stops one."
    "  [default: 100]",
)
@click.option("--no-traps", is_flag=True, help="The same as --trap-pages none.")
@click.option(
    "--fold/--no-fold",
    default=None,
    help="Do not follow links of pages that repeat another page under the same path (default: on).",
)
@click.option(
    "--learn/--no-learn",
    default=None,
    help="Learn which parts of URLs do not change the page, and leave out URLs of pages that were read (default: off).",
)
@click.option(
    "--no-control",
    is_flag=True,
    help="Request no page twice. By default one request in 25 repeats a page with parameters, or leaves one of them "
    "out, so that `canonry learn` can tell which parameters matter.",
)
@click.option("--no-sessions", is_flag=True, help="Also read pages that differ only in a session identifier.")
@click.option("--sitemaps", is_flag=True, help="Also crawl the pages that the site's sitemaps name.")
@click.option("--follow-start", is_flag=True, help="If the start page redirects to another host, crawl that host.")
@click.option(
    "--wait",
    metavar="load|quiet|SELECTOR",
    help="When Chrome reads the links of a page: after its load event, when scripts add nothing more (quiet, the "
    "default, at most about 5 s), or when a CSS selector matches.",
)
@click.option("--scroll", is_flag=True, help="Let Chrome scroll to the end of each page, for lists that grow.")
@click.option("--load-images", is_flag=True, help="Let Chrome load pictures, media and fonts, too.")
@click.option("--routes", is_flag=True, help="Crawl the hash routes (#/about, #!/about) of a site as pages, in Chrome.")
@access_options
@click.option("--workers", is_flag=True, help="Let the `canonry worker` processes of the store open the pages.")
@db_option
@json_option
def crawl(
    seed: str,
    *,
    out: Path | None,
    resume: bool,
    again: bool,
    database_url: str,
    as_json: bool,
    workers: bool,
    **given: Any,
) -> None:
    """Crawl a site: each page once, with the links a person could click.

    The site is the host of SEED: www.example.com is not example.com. When piped, pages are printed as JSON
    lines as they are read; --out writes them at the end. The store keeps the pages: --resume continues after an
    interruption, retries pages that failed with a transient error, and its output has the pages of both runs.
    Exit 1 if the start page or some pages failed, or if the site stopped answering.

    \b
    canonry crawl https://example.com/ --out site.jsonl
    canonry crawl https://example.com/ --engine http --max-pages 1000 --out links.graphml
    canonry crawl https://example.com/ --resume --out site.jsonl
    canonry crawl https://example.com/ --again --warc site.warc.gz
    """
    import_module("protego")  # names the extra for crawls if it is missing, not that of its first module
    if resume and again:
        raise click.UsageError("--again starts a new crawl, --resume continues one. Give one of them.")
    out = take_archive_file(out, given, resume=resume, workers=workers)
    require_writer(out)
    access = read_access(seed, given)
    if workers and access is not None:
        raise click.UsageError("--workers cannot be combined with credentials, which are not stored.")
    options = _read_options(given)
    if access is not None:
        options["access"] = access
    session = _Session(seed, database_url, out, is_shown=render.is_for_terminal(as_json=as_json))
    work = session.watch if workers else session.run
    try:
        code = run_until_stopped(work(options, resume=resume, again=again), session.report_interruption)
    except InvalidFields as error:  # also of options of the crawl that is continued
        reasons = [f"--{name.replace('_', '-')}: {reason}" for name, reason in error.reasons.items()]
        raise click.UsageError("\n".join(reasons)) from None
    sys.exit(code)


def _read_options(given: dict[str, Any]) -> dict[str, Any]:
    """Return the crawl options that were given on the command line."""
    options = {name: value for name, value in given.items() if value is not None and value is not False and value != ()}
    options |= {name: None for name in ("max_pages", "depth", "trap_pages") if options.get(name) == _NO_LIMIT}
    if options.pop("no_robots", False):
        options["robots"] = False
    if options.pop("ignore_nofollow", False):
        options["nofollow"] = False
    if options.pop("no_traps", False):
        if options.get("trap_pages") is not None:
            raise click.UsageError("--no-traps and --trap-pages contradict each other. Give one of them.")
        options["trap_pages"] = None
    for name in ("fold", "learn"):
        if given.get(name) is False:
            options[name] = False
    if options.pop("no_control", False):
        options["control"] = False
    if options.pop("no_sessions", False):
        options["sessions"] = False
    return options


class _Session:
    """One crawl on the command line: its output and its progress bar."""

    def __init__(self, seed: str, database_url: str, out: Path | None, *, is_shown: bool) -> None:
        from canonry.crawler.pages import Summary

        self.seed = seed
        self.database_url = database_url
        self.out = out
        self.is_shown = is_shown
        self.bar = render.ProgressBar(0)
        self.summary: Summary = Summary()
        self.shown: list[Page] = []
        self.started = time.monotonic()
        self._done = 0
        self._outage: Outage | None = None
        self._idle_since: float | None = None  # since when no worker has opened a page; infinite after a warning

    def report_interruption(self) -> None:
        """Print the command that continues the crawl."""
        self.bar.clear()
        click.echo(f"canonry: stopped after {render.count(self.summary.pages, 'page')}. To continue:", err=True)
        click.echo(self.make_command(self.seed, "--resume"), err=True)

    async def run(self, options: dict[str, Any], *, resume: bool, again: bool) -> int:
        """Crawl in this process."""
        from canonry.crawler.crawl import crawl as crawl_site
        from canonry.crawler.crawl_store import CrawlStore
        from canonry.errors import StartMoved

        started: list[Crawl] = []
        with open_store(self.database_url, must_exist=False) as database:
            crawls = CrawlStore(database)
            progress = asyncio.create_task(self._show_progress(crawls, started))
            on_start = partial(self._report_start, started, again=again)
            pages = crawl_site(self.seed, store=database, resume=resume, again=again, on_start=on_start, **options)
            try:
                async for page in pages:
                    self.add_page(page)
            except StartMoved as moved:
                self.bar.clear()
                return self._report_moved(moved.target)
            finally:
                await pages.aclose()
                progress.cancel()
            self.bar.clear()
            await self._write_out(crawls, started[0].id)
            return await self._finish(crawls, started[0].id)

    async def watch(self, options: dict[str, Any], *, resume: bool, again: bool) -> int:
        """Let workers crawl, and show their progress."""
        from datetime import UTC, datetime

        from canonry.crawler.crawl import read_pages, start_or_resume
        from canonry.crawler.crawl_options import choose_crawl_policy
        from canonry.crawler.crawl_store import CrawlState, CrawlStore
        from canonry.jobs.crawl_jobs import enqueue_crawl
        from canonry.jobs.queues import Jobs

        with open_store(self.database_url, must_exist=False) as database:
            crawls = CrawlStore(database)
            changes = cast("OptionChanges", {**options, "shared": True})
            if "policy" in options:
                changes |= choose_crawl_policy(options["policy"])
            started = await start_or_resume(crawls, self.seed, changes, datetime.now(UTC), resume=resume, again=again)
            self._report_start([], started, again=again)
            with Jobs(database) as jobs:
                await enqueue_crawl(jobs, started)
            while (now := await crawls.get(started.id)).state is CrawlState.RUNNING:
                self._report_outage(now)
                counts = await crawls.count_pages(started.id)
                self._report_missing_worker(counts, now)
                self._show_counts(counts, now)
                await asyncio.sleep(0.5)
            self.bar.clear()
            if target := now.moved_to:
                return self._report_moved(target)
            if now.state is CrawlState.FAILED:
                raise CanonryError(str(now.failure))
            async for page in read_pages(crawls, started.id):
                self.add_page(page)
            await self._write_out(crawls, started.id)
            return await self._finish(crawls, started.id)

    def add_page(self, page: Page) -> None:
        """Count a page, and print it or keep it for the table."""
        from canonry.crawler.pages import make_record

        self.summary.add(page)
        if self.is_shown:
            if len(self.shown) < MAX_SHOWN_PAGES:
                self.shown.append(page)
        elif self.out is None:
            self.bar.clear()
            click.echo(json.dumps(make_record(page)))

    def make_command(self, seed: str, *more: str) -> str:
        """Return the command that crawls a seed with the same options."""
        given = [word for word in sys.argv[1:] if word not in {"--resume", "--again"}]
        words = [seed if word == self.seed else word for word in hide_headers(given)]
        return "  " + shlex.join(["canonry", *words, *more])

    def _report_moved(self, target: str) -> int:
        """Print the command that crawls the other host."""
        moved = f"{mask_credentials(self.seed)} redirects to another host, {parse(target).host}"
        click.echo(f"canonry: {moved}. To crawl that host:", err=True)
        click.echo(self.make_command(target), err=True)
        return 1

    async def _show_progress(self, crawls: CrawlStore, started: list[Crawl]) -> None:
        while True:
            await asyncio.sleep(0.5)
            if not started:
                continue
            try:
                crawl = await crawls.get(started[0].id)
            except CrawlNotFound:  # it was removed
                return
            self._report_outage(crawl)
            if sys.stderr.isatty():
                self._show_counts(await crawls.count_pages(crawl.id), crawl)

    def _report_start(self, started: list[Crawl], crawl: Crawl, *, again: bool) -> None:
        """Remember the crawl that was started, and say if there is none to compare it with."""
        started.append(crawl)
        if again and crawl.previous_id is None:
            click.echo("canonry: no finished crawl of this start page to compare with. This is the first.", err=True)

    def _report_missing_worker(self, counts: Counts, crawl: Crawl) -> None:
        """Print a line if no worker opens the pages."""
        now = time.monotonic()
        is_idle = not counts.fetching and not self._has_finished_pages(counts) and crawl.outage is None
        self._idle_since = (self._idle_since or now) if is_idle else None
        if self._idle_since is not None and now - self._idle_since >= _NO_WORKER_SECONDS:
            self._idle_since = math.inf
            self.bar.clear()
            what = "no worker has opened a page yet. Is one running for this store? To start one:"
            click.echo(f"canonry: {what}\n  canonry worker", err=True)

    def _has_finished_pages(self, counts: Counts) -> bool:
        """Return whether more pages are done than at the last call."""
        before, self._done = self._done, counts.known - counts.queued
        return self._done > before

    def _report_outage(self, crawl: Crawl) -> None:
        """Print a line when the site stops answering, and when it answers again."""
        from canonry.crawler.crawl_store import CrawlState

        if crawl.state is CrawlState.RUNNING and (crawl.outage is None) != (self._outage is None):
            self.bar.clear()
            waiting = f"stopped answering. Waiting for it, at most {crawl.options.patience:g} seconds."
            click.echo(f"canonry: {crawl.host} {waiting if crawl.outage else 'answers again'}", err=True)
        self._outage = crawl.outage

    def _show_counts(self, counts: Counts, crawl: Crawl) -> None:
        from canonry.crawler.results import PageOutcome

        done = counts.done + counts.failed
        self.bar.resize(done + counts.queued + counts.fetching)
        failed = counts.outcomes[PageOutcome.FAILED]
        rate = self.summary.pages / max(time.monotonic() - self.started, 0.001)
        status = f"{counts.queued} queued, {counts.fetching} open, {failed} failed, {rate:.1f} pages/s, {crawl.host}"
        if crawl.outage is not None:
            until = crawl.outage.paused_until.astimezone()
            status = f"{counts.queued} queued, paused until {until:%H:%M:%S}: {crawl.host} does not answer"
        self.bar.show(done, status)

    async def _write_out(self, crawls: CrawlStore, crawl_id: int) -> None:
        """Write the file from the store, which also has the pages of interrupted runs."""
        if self.out is not None:
            await write_pages(self.out, crawls, crawl_id)

    async def _finish(self, crawls: CrawlStore, crawl_id: int) -> int:
        """Print the pages and the summary, and return the exit code."""
        from canonry.crawler.crawl_store import CrawlState
        from canonry.crawler.crawl_views import CrawlViews
        from canonry.crawler.left_pages import list_left_groups
        from canonry.crawler.pages import mask_url

        summary, counts, crawl = self.summary, await crawls.count_pages(crawl_id), await crawls.get(crawl_id)
        views = CrawlViews(crawls.database)
        if self.shown:
            rows = [(str(page.status), page.title[:40], page.url) for page in self.shown]
            render.print_table(("status", "title", "url"), rows)
            if summary.pages > len(self.shown):
                click.echo(f"and {summary.pages - len(self.shown)} more")
        if self.is_shown:
            print_changes(await views.list_changes(crawl_id, MAX_SHOWN_PAGES + 1) if crawl.previous_id else [])
            print_problems(summary, await views.list_refused(crawl_id, limit=MAX_SHOWN_PAGES), counts)
        elif summary.is_seed_failed:
            for page in summary.problems:
                if page.depth == 0:
                    click.echo(f"canonry: the start page was not read: {mask_url(page.error)}", err=True)
        seconds = time.monotonic() - self.started
        left = await list_left_groups(crawls.database, crawl_id, limit=MAX_SHOWN_PAGES)
        print_left_groups(crawl_id, left, err=True)
        print_sitemap_failures(crawl.sitemap_failures, err=True)
        print_summary(summary, counts, f"{summary.pages / max(seconds, 0.001):.1f} pages/s", err=True)
        is_unfinished = crawl.state in {CrawlState.STOPPED, CrawlState.PAUSED}
        if is_unfinished:
            reason = f"is paused: {mask_credentials(str(crawl.failure))}" if crawl.failure else "was stopped"
            click.echo(f"canonry: the crawl {reason}. To continue, add --resume.", err=True)
        return 1 if is_unfinished or summary.failed or summary.is_seed_failed or not summary.pages else 0
