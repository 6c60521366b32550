"""What a crawl prints and writes: its files, the tables of a terminal and the summary."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from canonry.cli import render
from canonry.cli.options import require_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from canonry.crawler.crawl_store import Counts, CrawlStore, StoredPage
    from canonry.crawler.crawl_views import ChangedPage
    from canonry.crawler.left_pages import LeftGroup
    from canonry.crawler.pages import Summary
    from canonry.crawler.sitemap_lease import SitemapFailure

EXTENSIONS = (".jsonl", ".csv", ".parquet", ".graphml", ".dot")
WARC_EXTENSION = ".warc.gz"
MAX_SHOWN_PAGES = 20  # on a terminal
_CHANGE_NOTES = {
    "new": "not read by the crawl before",
    "changed": "another text or title",
    "gone": "missing, or redirects to another page",
    "same": "as before",
}


def parse_output_file(context: click.Context, parameter: click.Parameter, given: str | None) -> Path | None:
    """Return the file to write, after a check of its extension and folder."""
    if given is None:
        return None
    file = Path(given)
    if file.suffix.lower() not in EXTENSIONS:
        raise click.BadParameter(f"{given}: the file name must end in {', '.join(EXTENSIONS)}")
    return _check_folder(require_folder(context, parameter, file))


def parse_archive_file(context: click.Context, parameter: click.Parameter, given: str | None) -> Path | None:
    """Return the WARC file to write, after a check of its extension and folder."""
    if given is None:
        return None
    if not given.lower().endswith(WARC_EXTENSION):
        raise click.BadParameter(f"{given}: the file name must end in {WARC_EXTENSION}")
    return _check_folder(require_folder(context, parameter, Path(given)))


def parse_out(context: click.Context, parameter: click.Parameter, given: str | None) -> Path | None:
    """Return the file to write: one with pages or links, or a WARC file."""
    is_archive = given is not None and given.lower().endswith(WARC_EXTENSION)
    return (parse_archive_file if is_archive else parse_output_file)(context, parameter, given)


def _check_folder(file: Path) -> Path:
    if not os.access(file.parent, os.W_OK):
        raise click.BadParameter(f"{file.parent}: the folder cannot be written")
    return file


def take_archive_file(out: Path | None, given: dict[str, Any], *, resume: bool, workers: bool) -> Path | None:
    """Add the WARC file to the options, and return the other file to write."""
    warc = given["warc"]
    if out is not None and out.name.lower().endswith(WARC_EXTENSION):
        if warc is not None:
            raise click.UsageError("Two WARC files were given. Leave out --warc, or give --out another extension.")
        warc, out = out, None
    given["warc"] = warc
    if warc is not None and workers:
        raise click.UsageError("--workers cannot be combined with a WARC file, which only this process could write.")
    if warc is not None and warc.exists() and not resume:
        raise click.UsageError(f"{warc}: the file exists. Choose another name, or append with --resume.")
    if warc is not None:
        import_module("warcio")
    return out


def require_writer(file: Path | None) -> None:
    """Fail before the crawl, not after it, if the library for the file is missing."""
    if file is not None and file.suffix.lower() == ".parquet":
        import_module("pyarrow.parquet")


def print_problems(summary: Summary, refused: Sequence[StoredPage], counts: Counts) -> None:
    """Print why pages were not read; `refused` are the first ones that were not requested because of robots.txt."""
    from canonry.crawler.pages import mask_url
    from canonry.crawler.results import REFUSED_REASONS

    problems = [*summary.problems, *(stored.page for stored in refused)]
    if not problems:
        return
    rows = [(page.outcome, mask_url(page.url), mask_url(page.error)) for page in problems[:MAX_SHOWN_PAGES]]
    click.echo()
    render.print_table(("", "not read", "why"), rows)
    total = len(summary.problems) + sum(counts.skipped.get(reason, 0) for reason in REFUSED_REASONS)
    if total > len(rows):
        click.echo(f"and {total - len(rows)} more; --out has pages, `canonry crawls export --refused` refused URLs")


def print_changes(changes: Sequence[ChangedPage]) -> None:
    """Print pages that are new, changed or gone."""
    if not changes:
        return
    click.echo()
    rows = [
        (page.change, page.url, f"redirects to {page.moved_to}" if page.moved_to else page.title[:40])
        for page in changes[:MAX_SHOWN_PAGES]
    ]
    render.print_table(("", "since the crawl before", ""), rows)
    if len(changes) > len(rows):
        click.echo("and more; --out has all")


def print_left_groups(crawl_id: int, groups: Sequence[LeftGroup], *, err: bool = False) -> None:
    """Print which patterns of URLs were left out, and how many pages of each."""
    from canonry.crawler.reasons import SkipReason

    if not groups:
        return
    click.echo(err=err)
    rows = [(str(group.pages), group.pattern, group.reason.sentence, group.example) for group in groups]
    render.print_table(("left out", "pattern", "why", "for example"), rows[:MAX_SHOWN_PAGES], err=err)
    click.echo(f"To list these pages: canonry crawls export {crawl_id} FILE --skipped", err=err)
    if any(group.reason is SkipReason.TRAP for group in groups):
        click.echo("To read what was taken for a trap: --resume --no-traps", err=err)


def print_sitemap_failures(failures: Sequence[SitemapFailure], *, err: bool = False) -> None:
    """Print which sitemaps could not be read, and why."""
    if not failures:
        return
    click.echo(err=err)
    rows = [(each.url, each.reason) for each in failures[:MAX_SHOWN_PAGES]]
    render.print_table(("sitemap not read", "why"), rows, err=err)
    if len(failures) > len(rows):
        click.echo(f"and {len(failures) - len(rows)} more; `canonry crawls show --json` lists all", err=err)


def print_summary(summary: Summary, counts: Counts, note: str, *, err: bool) -> None:
    """Print what a crawl found as a table; `note` stands beside the number of pages."""
    from canonry.crawler.results import PageOutcome

    notes = {
        PageOutcome.READ: "",
        PageOutcome.MISSING: "the server has no such page",
        PageOutcome.FAILED: "no usable answer",
        PageOutcome.REFUSED: "by the server, robots.txt or the guard",
    }
    table = [
        ("pages", summary.pages, note),
        *((outcome.value, summary.outcomes[outcome], why) for outcome, why in notes.items()),
        *((change.value, counts.changes[change], _CHANGE_NOTES[change.value]) for change in counts.changes),
        ("not fetched", counts.queued, "left in the queue"),
        *(("page skipped", count, reason.sentence) for reason, count in sorted(counts.skipped.items())),
        *(("link skipped", count, reason) for reason, count in summary.skipped.most_common(30)),
        ("different pages", summary.texts, f"by their text, under {summary.pages} URLs"),
        ("repeats", summary.repeats, "of a page with the same path, title and text"),
        ("external", summary.externals, "URLs of other sites"),
        ("duplicates avoided", counts.duplicates_avoided, "links to pages already known"),
    ]
    always = {"pages", PageOutcome.READ.value, "external", "duplicates avoided"}
    shown = [(name, str(count), reason) for name, count, reason in table if count or name in always]
    render.print_table(("", "count", ""), shown, err=err)


async def write_pages(
    file: Path,
    crawls: CrawlStore,
    crawl_id: int,
    on_page: Callable[[], object] = lambda: None,
    *,
    refused: bool = False,
    skipped: bool = False,
) -> None:
    """Write all pages of a crawl, or their link graph, to a file.

    With `refused` those that robots.txt disallows, with `skipped` those that were left out as repeats or traps.
    """
    from canonry.crawler.crawl import read_pages, read_refused
    from canonry.crawler.export import open_writer
    from canonry.crawler.left_pages import read_left_pages

    with open_writer(file) as writer:
        pages = read_refused(crawls, crawl_id) if refused else read_pages(crawls, crawl_id)
        async for page in read_left_pages(crawls.database, crawl_id) if skipped else pages:
            writer.add(page)
            on_page()
