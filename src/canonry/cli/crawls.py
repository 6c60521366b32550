"""canonry crawls: list, show, export, stop and remove the crawls of the store."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from canonry.cli import render
from canonry.cli.crawl_output import (
    MAX_SHOWN_PAGES,
    parse_output_file,
    print_changes,
    print_left_groups,
    print_problems,
    print_sitemap_failures,
    print_summary,
    require_writer,
    write_pages,
)
from canonry.cli.options import ROW_ID, db_option, json_option
from canonry.cli.stores import open_store

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Generator, Mapping
    from pathlib import Path

    from canonry.crawler.crawl_store import Counts, Crawl, CrawlStore, StoredPage
    from canonry.crawler.crawl_views import ChangedPage
    from canonry.crawler.pages import Summary

_MAX_LISTED_PAGES = 10_000  # refused and changed pages, in JSON
id_argument = click.argument("crawl_id", metavar="ID", type=ROW_ID)


@click.group()
def crawls() -> None:
    """List, show, export, stop and remove crawls."""


@crawls.command("list")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1, 1_000_000), default=100, show_default=True, help="Show the latest N."
)
@db_option
@json_option
def list_crawls(*, limit: int, database_url: str, as_json: bool) -> None:
    """List crawls, the latest first.

    \b
    canonry crawls list
    """
    from canonry.crawler.crawl_views import CrawlViews

    async def read(store: CrawlStore) -> list[tuple[Crawl, Counter[str]]]:
        found = await store.list_crawls(limit)
        states = await CrawlViews(store.database).count_states([crawl.id for crawl in found])
        return [(crawl, states[crawl.id]) for crawl in found]

    with _open_crawls(database_url) as store:
        found = asyncio.run(read(store))
    if not render.is_for_terminal(as_json=as_json):
        for crawl, pages in found:
            render.print_json(_make_record(crawl, pages))
    elif found:
        rows = [
            (
                str(crawl.id),
                crawl.state,
                str(pages["done"] + pages["failed"]),
                str(pages["queued"] + pages["fetching"]),
                crawl.started_at[:16].replace("T", " "),
                crawl.seed,
            )
            for crawl, pages in found
        ]
        render.print_table(("id", "state", "pages", "queue", "started", "seed"), rows)
    else:
        click.echo("canonry: no crawls yet. To start one: canonry crawl SEED", err=True)


@crawls.command()
@id_argument
@db_option
@json_option
def show(crawl_id: int, *, database_url: str, as_json: bool) -> None:
    """Show what a crawl found: pages, what changed since the crawl before, what was skipped or refused and why.

    \b
    canonry crawls show 3
    """
    from canonry.crawler.crawl import read_pages
    from canonry.crawler.crawl_views import CrawlViews
    from canonry.crawler.left_pages import list_left_groups
    from canonry.crawler.pages import Summary, mask_url

    is_shown = render.is_for_terminal(as_json=as_json)
    limit = MAX_SHOWN_PAGES + 1 if is_shown else _MAX_LISTED_PAGES

    async def read(store: CrawlStore) -> tuple[Crawl, Counts, Summary, list[StoredPage], list[ChangedPage]]:
        crawl, summary = await store.get(crawl_id), Summary()
        counts = await store.count_pages(crawl_id)
        bar = render.ProgressBar(counts.done + counts.failed)
        async for page in read_pages(store, crawl_id):
            summary.add(page)
            bar.show(summary.pages, "pages")
        bar.clear()
        views = CrawlViews(store.database)
        changes = await views.list_changes(crawl_id, limit) if crawl.previous_id is not None else []
        return crawl, counts, summary, await views.list_refused(crawl_id, limit=limit), changes

    with _open_crawls(database_url) as store:
        crawl, counts, summary, refused, changes = asyncio.run(read(store))
        left = asyncio.run(list_left_groups(store.database, crawl_id, limit=limit))
    if not is_shown:
        pages = {"queued": counts.queued, "fetching": counts.fetching, "done": counts.done, "failed": counts.failed}
        skipped = {reason.sentence: count for reason, count in counts.skipped.items()}
        render.print_json(
            {
                **_make_record(crawl, pages),
                "outcomes": {str(outcome): count for outcome, count in counts.outcomes.items()},
                "skipped": skipped,
                "links_skipped": dict(summary.skipped),
                "externals": summary.externals,
                "texts": summary.texts,
                "repeats": summary.repeats,
                "left": [asdict(group) for group in left],
                "sitemap_failures": [asdict(failure) for failure in crawl.sitemap_failures],
                "refused": [{"url": mask_url(page.url), "reason": page.error} for _, page in refused],
                "changes": {str(change): count for change, count in counts.changes.items()},
            }
        )
        return
    state = f"{crawl.state}: {crawl.failure}" if crawl.failure else crawl.state
    if crawl.outage is not None:
        state = f"{state}, paused until {crawl.outage.paused_until.astimezone():%H:%M:%S}: the site does not answer"
    click.echo(f"{render.make_bold(render.escape_control(crawl.seed))}  {state}")
    print_changes(changes)
    print_problems(summary, refused, counts)
    print_left_groups(crawl_id, left)
    print_sitemap_failures(crawl.sitemap_failures)
    print_summary(summary, counts, f"started {crawl.started_at[:16].replace('T', ' ')}", err=False)


@crawls.command()
@id_argument
@click.argument("file", callback=parse_output_file)
@click.option("--refused", is_flag=True, help="Write the pages that were not requested because of robots.txt instead.")
@click.option("--skipped", is_flag=True, help="Write the pages that were left out as repeats or traps instead.")
@db_option
def export(crawl_id: int, file: Path, *, refused: bool, skipped: bool, database_url: str) -> None:
    """Write the pages of a crawl, or its link graph, to FILE.

    The extension chooses the format: .jsonl, .csv, .parquet, .graphml or .dot. A crawl that still runs is
    exported as far as it is.

    \b
    canonry crawls export 3 links.graphml
    """
    require_writer(file)
    if refused and skipped:
        raise click.UsageError("--refused and --skipped write different pages. Give one of them.")

    async def write(store: CrawlStore) -> None:
        await store.get(crawl_id)
        counts, done = await store.count_pages(crawl_id), 0
        bar = render.ProgressBar(counts.done + counts.failed)

        def count() -> None:
            nonlocal done
            done += 1
            bar.show(done, "pages")

        await write_pages(file, store, crawl_id, count, refused=refused, skipped=skipped)
        bar.clear()

    with _open_crawls(database_url) as store:
        asyncio.run(write(store))


@crawls.command()
@id_argument
@db_option
def stop(crawl_id: int, *, database_url: str) -> None:
    """Stop a crawl in every process that works on it; its pages stay.

    `canonry crawl SEED --resume` continues it.

    \b
    canonry crawls stop 3
    """
    with _open_crawls(database_url) as store:
        crawl = asyncio.run(store.stop(crawl_id, datetime.now(UTC)))
    click.echo(f"canonry: crawl {crawl.id} is {crawl.state}", err=True)


@crawls.command()
@click.argument("crawl_ids", metavar="ID...", nargs=-1, required=True, type=ROW_ID)
@db_option
def remove(crawl_ids: tuple[int, ...], *, database_url: str) -> None:
    """Remove crawls and their pages, also those that still run.

    \b
    canonry crawls remove 1 2
    """

    async def remove_all(store: CrawlStore) -> None:
        for crawl_id in crawl_ids:  # all or none: an unknown id removes nothing
            await store.get(crawl_id)
        for crawl_id in crawl_ids:
            await store.remove(crawl_id)

    with _open_crawls(database_url) as store:
        asyncio.run(remove_all(store))


@contextmanager
def _open_crawls(database_url: str) -> Generator[CrawlStore]:
    from canonry.crawler.crawl_store import CrawlStore

    with open_store(database_url) as database:
        yield CrawlStore(database)


def _make_record(crawl: Crawl, pages: Mapping[str, int]) -> dict[str, Any]:
    from canonry.store.schema import stamp

    return {
        "id": crawl.id,
        "seed": crawl.seed,
        "host": crawl.host,
        "state": crawl.state,
        "failure": str(crawl.failure or ""),
        "paused_until": None if crawl.outage is None else stamp(crawl.outage.paused_until),
        "started_at": crawl.started_at,
        "finished_at": crawl.finished_at,
        "previous_id": crawl.previous_id,
        "options": asdict(crawl.options),
        "pages": {state: pages.get(state, 0) for state in ("queued", "fetching", "done", "failed")},
    }
