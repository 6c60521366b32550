"""canonry bulk: files of URLs in, one Parquet file of answers out."""

from __future__ import annotations

import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from canonry.cli import render
from canonry.cli.options import chosen, complete_policy, json_option, overrides_option, policy_option

if TYPE_CHECKING:
    from canonry.bulk.job import Progress, Report

_MODES = ("dedupe", "normalize", "join", "diff")
_FORMATS = ("text", "csv", "jsonl", "parquet")


@click.command()
@click.argument("inputs", nargs=-1, required=True, metavar="IN...")
@click.option(
    "-o", "--out", required=True, metavar="OUT", help="The Parquet file to write; it appears when it is whole."
)
@click.option(
    "--mode",
    type=click.Choice(_MODES),
    default="dedupe",
    show_default=True,
    help="Each canonical URL once; a row for each URL; the input with canonical_url and canonical_hash; the rows for "
    "which two policies differ.",
)
@click.option("--column", metavar="NAME", default="url", show_default=True, help="The column that holds the URLs.")
@policy_option
@overrides_option
@click.option(
    "--against",
    metavar="POLICY",
    shell_complete=complete_policy,
    help="With --mode diff: the policy to compare --policy with.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    help="How the inputs are written; by default their names tell (.csv .tsv .jsonl .ndjson .parquet, else text).",
)
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "spark"]),
    default="duckdb",
    show_default=True,
    help="One machine, or many. The answer is the same, byte for byte.",
)
@click.option(
    "--master", metavar="URL", help="With --engine spark: the cluster, such as spark://HOST:7077.  [default: local[*]]"
)
@click.option(
    "--memory",
    metavar="SIZE",
    default="1GB",
    show_default=True,
    help="What the process may use; more goes to disk beside OUT.",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT, and the side file, if they exist.")
@click.option("--quiet", "-q", is_flag=True, help="No progress and no summary, only errors.")
@json_option
def bulk(
    inputs: tuple[str, ...],
    *,
    policy_name: str,
    overrides: str | None,
    against: str | None,
    form: str | None,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Many URLs at once: from files to one Parquet file, each canonical URL once.

    Reads text (one URL a line), CSV, JSONL and Parquet, also compressed (.gz, .zst, .bz2 of the first three), more
    than fits into memory. Columns of OUT: url, canonical_hash, count, first_variant, first_file, first_row, sorted by
    hash. Rows that are no URL are in a side file, OUT with .invalid in its name, with the reason. The same command
    goes on where an interrupted one stopped.

    \b
    canonry bulk urls.txt -o unique.parquet
    canonry bulk 'crawl/*.jsonl.gz' -o joined.parquet --mode join --column link
    canonry bulk big.parquet -o changed.parquet --mode diff --policy bookmark --against feed-moderate
    canonry bulk 'shared/*.csv' -o shared/unique.parquet --engine spark --master spark://head:7077
    """
    from canonry.bulk.running import run

    if (options["mode"] == "diff") != (against is not None):
        raise click.UsageError("--mode diff and --against POLICY go together")
    if options["master"] is not None and options["engine"] != "spark":
        raise click.UsageError("--master goes with --engine spark")
    policies = chosen(policy_name, overrides), None if against is None else chosen(against)
    told = _Told(is_quiet=quiet)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        report = run(inputs, policy=policies[0], against=policies[1], format=form, on_progress=told.progress, **options)
    except KeyboardInterrupt:
        told.bar.clear()
        click.echo("canonry: stopped; nothing was written, and the same command goes on from here", err=True)
        sys.exit(128 + (_stops[0] if _stops else signal.SIGINT))
    finally:
        told.bar.clear()
    if not quiet:
        told.report(report, as_json=as_json)


_stops: list[int] = []


def _interrupt(number: int, _: object) -> None:
    _stops.append(number)
    raise KeyboardInterrupt


class _Told:
    """How far it is, on a terminal; and what came of it."""

    def __init__(self, *, is_quiet: bool) -> None:
        self.bar = render.Bar(0)
        self._is_quiet = is_quiet
        self._started = time.monotonic()

    def progress(self, progress: Progress) -> None:
        """One line, drawn over and over."""
        seconds = time.monotonic() - self._started
        if self._is_quiet or seconds < 1:
            return
        rate = progress.rows / seconds
        if progress.stage == "reading":
            self.bar.resize(max(progress.of // 1000**2, 1))
            files = f"{progress.files}/{progress.of_files} files"
            self.bar.show(progress.done // 1000**2, f"MB, {files}, {progress.rows:,} rows, {rate:,.0f} rows/s")
        else:
            self.bar.resize(progress.of)
            self.bar.show(progress.done, f"rows merged, {progress.rows:,} written")

    def report(self, report: Report, *, as_json: bool) -> None:
        """The counts, in one line."""
        if not render.on_terminal(as_json=as_json):
            render.print_json(report)
            return
        seconds = time.monotonic() - self._started
        rows = [
            ("files", report.files, f"{report.kept} of them read by an earlier run" if report.kept else ""),
            ("rows", report.rows, f"{report.rows / max(seconds, 0.001):,.0f} rows/s"),
            ("empty", report.empty, "lines without anything"),
            ("invalid", report.invalid, str(report.invalid_file)),
            ("written", report.written, report.out),
        ]
        shown = [(name, f"{count:,}", note) for name, count, note in rows if count or name in {"rows", "written"}]
        render.print_table(("", "count", ""), shown)
