"""`canonry bulk`: normalize and deduplicate files of URLs into Parquet."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from canonry.cli import render
from canonry.cli.options import (
    complete_policy,
    json_option,
    load_chosen_policy,
    overrides_option,
    policy_option,
    require_files,
)

if TYPE_CHECKING:
    from canonry.bulk.job import BulkProgress, BulkReport

_MODES = ("dedupe", "normalize", "join", "diff")
_FORMATS = ("text", "csv", "jsonl", "parquet", "cdx", "warc")


@click.command()
@click.argument("inputs", nargs=-1, required=True, metavar="IN...")
@click.option(
    "-o",
    "--out",
    required=True,
    metavar="OUT",
    help="The Parquet file or folder to write; it appears when it is complete.",
)
@click.option(
    "--mode",
    type=click.Choice(_MODES),
    default="dedupe",
    show_default=True,
    help="dedupe: each canonical URL once; normalize: a row for each URL; join: the input columns plus canonical_url "
    "and canonical_hash; diff: the rows for which two policies differ.",
)
@click.option("--column", metavar="NAME", default="url", show_default=True, help="The column with the URLs.")
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
    help="The input format; by default from the file name (.csv .tsv .jsonl .ndjson .parquet .cdx .cdxj .warc, "
    "else text).",
)
@click.option(
    "--keep",
    metavar="NAMES",
    default="",
    help="With --mode dedupe: columns to keep of the first row of each URL, separated by commas.",
)
@click.option(
    "--group-by",
    metavar="NAME",
    help="With --mode dedupe: one row for each value of this column, such as a hash of the content, instead of one for "
    "each URL. Rows without a value are grouped by URL.",
)
@click.option(
    "--known",
    metavar="PREVIOUS",
    help="With --mode dedupe: an earlier output, into which the new rows are merged. Its inputs are not read again.",
)
@click.option(
    "--partitions", type=click.IntRange(1, 4096), metavar="N", help="Write a folder of N files instead of one file."
)
@click.option("--partition-size", metavar="SIZE", help="Write a folder of files of about this size.")
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "spark"]),
    default="duckdb",
    show_default=True,
    help="duckdb runs on one machine, spark on many. Both write the same bytes.",
)
@click.option(
    "--master", metavar="URL", help="With --engine spark: the cluster, such as spark://HOST:7077.  [default: local[*]]"
)
@click.option(
    "--memory",
    metavar="SIZE",
    default="1GB",
    show_default=True,
    help="Memory limit of the process; more data goes to disk beside OUT.",
)
@click.option(
    "--work-folder",
    metavar="FOLDER",
    help="Keep unfinished work in a new folder inside FOLDER.  [default: a hidden folder beside OUT; on a local disk "
    "if OUT is remote]",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT and the file of invalid rows if they exist.")
@click.option(
    "--skip-bad-files",
    is_flag=True,
    help="Leave out input files that cannot be read, list them, and exit with 1; else the first one stops the job.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print errors only, no progress and no summary.")
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
    keep: str,
    **options: Any,
) -> None:
    """Normalize files of URLs into Parquet, each canonical URL once.

    Reads text (one URL on a line), CSV, JSONL, Parquet, CDX and WARC, also compressed (.gz, .zst, .bz2), larger than
    memory. IN and OUT may be remote (s3://, gs://, hdfs://, ...); IN may be - for standard input. Columns of OUT: url,
    canonical_hash, count, first_variant, first_file, first_row, sorted by hash. Rows without a valid URL go to a second
    file, OUT with .invalid in its name, with the reason. After an interruption the same command continues.

    \b
    canonry bulk urls.txt -o unique.parquet
    canonry bulk 'crawl/*.jsonl.gz' -o joined.parquet --mode join --column link
    canonry bulk today.txt -o today.parquet --known yesterday.parquet
    canonry bulk big.parquet -o changed.parquet --mode diff --policy bookmark --against feed-moderate
    canonry bulk 'shared/*.csv' -o shared/unique.parquet --engine spark --master spark://head:7077
    """
    # Otherwise numpy starts threads for linear algebra, which no job uses: they cost 0.07 s of CPU time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from canonry.bulk.run_job import run

    if (options["mode"] == "diff") != (against is not None):
        raise click.UsageError("--mode diff needs --against POLICY, and --against needs --mode diff")
    if options["master"] is not None and options["engine"] != "spark":
        raise click.UsageError("--master needs --engine spark")
    if options["mode"] != "dedupe" and (keep or options["group_by"] or options["known"]):
        raise click.UsageError("--keep, --group-by and --known need --mode dedupe")
    if options["partitions"] is not None and options["partition_size"] is not None:
        raise click.UsageError("Use --partitions or --partition-size, not both")
    _require_places(inputs, options)
    policies = load_chosen_policy(policy_name, overrides), None if against is None else load_chosen_policy(against)
    display = _Display(is_quiet=quiet)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _interrupt)
    try:
        report = run(
            inputs,
            policy=policies[0],
            against=policies[1],
            format=form,
            keep=[name for name in keep.split(",") if name],
            on_progress=display.show_progress,
            **options,
        )
    except KeyboardInterrupt:
        display.bar.clear()
        click.echo("canonry: stopped. OUT was not written; run the same command again to continue.", err=True)
        sys.exit(128 + (_signals[0] if _signals else signal.SIGINT))
    finally:
        display.bar.clear()
    if not quiet:
        display.print_report(report, as_json=as_json)
    for skipped in report.skipped:
        click.echo(f"canonry: skipped: {skipped.reason}", err=True)
    if report.malformed:
        count = "1 row is" if report.malformed == 1 else f"{report.malformed:,} rows are"
        click.echo(
            f"canonry: {count} not valid CSV, so rows may be missing. Look in {report.invalid_file}.",
            err=True,
        )
    if report.skipped or report.malformed:
        sys.exit(1)


def _require_places(inputs: tuple[str, ...], options: dict[str, Any]) -> None:
    """Refuse local files to read and folders to write into that do not exist, as other commands do."""
    from canonry.bulk.storage import STDIN, is_remote, make_local

    for names, hint in ((inputs, "IN"), ([options["known"] or STDIN], "--known")):
        local = map(make_local, names)
        require_files((name for name in local if name != STDIN and not is_remote(name)), hint)
    out = make_local(options["out"])
    if not out:
        raise click.BadParameter("the name is empty", param_hint="OUT")
    if not is_remote(out) and not os.path.exists(folder := os.path.dirname(out.rstrip("/")) or "."):
        raise click.BadParameter(f"{folder}: the folder does not exist", param_hint="OUT")


_signals: list[int] = []


def _interrupt(number: int, _: object) -> None:
    _signals.append(number)
    raise KeyboardInterrupt


class _Display:
    """Progress on a terminal, and the final report."""

    def __init__(self, *, is_quiet: bool) -> None:
        self.bar = render.ProgressBar(0)
        self._is_quiet = is_quiet
        self._started = time.monotonic()

    def show_progress(self, progress: BulkProgress) -> None:
        """Redraw the progress line."""
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

    def print_report(self, report: BulkReport, *, as_json: bool) -> None:
        """Print the counts, as a table or as one JSON line."""
        if not render.is_for_terminal(as_json=as_json):
            render.print_json(report)
            return
        seconds = time.monotonic() - self._started
        click.echo(f"policy {report.policy}, {report.core} core")
        rows = [
            ("files", report.files, f"{report.kept} of them read by an earlier run" if report.kept else ""),
            ("rows", report.rows, f"{report.rows / max(seconds, 0.001):,.0f} rows/s"),
            ("empty", report.empty, "empty lines"),
            ("invalid", report.invalid, str(report.invalid_file)),
            ("skipped", len(report.skipped), "files that cannot be read"),
            ("written", report.written, report.out),
            ("new", report.new if report.new != report.written else 0, "not in the known keys"),
        ]
        shown = [(name, f"{count:,}", note) for name, count, note in rows if count or name in {"rows", "written"}]
        render.print_table(("", "count", ""), shown)
