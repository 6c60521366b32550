"""Measure the CPU time of `canonry bulk`, compared with the same job written with w3lib, and its memory.

    python -m benchmarks.bulk [--count N] [--peer-count N] [--rounds N] [--memory SIZE] [--json FILE]

The job normalizes, hashes, groups and sorts URLs; half of the URLs repeat others. Each job runs in its own process
and reads the same text file. The peer is a script with `w3lib.url.canonicalize_url`, sha256 and a dict, which writes
Parquet with pyarrow. It has one thread and keeps everything in memory, so both jobs are compared on --peer-count URLs,
in CPU seconds of all threads: the best of --rounds runs of each, which take turns. The memory is measured on --count
URLs: the peak resident set of the process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.corpus import make_dirty_urls, make_urls
from benchmarks.machine import describe_machine, find_versions, format_table, write_json

COUNT, PEER_COUNT, MEMORY = 10_000_000, 1_000_000, "1GB"
GENERATED = 20_000  # different URLs; more are made by adding a number to their paths
ROUNDS = 5
MIN_RATIO = 10.0  # to the speed of w3lib
MAX_PEAK_GIB = 1.5


@dataclass(frozen=True, slots=True)
class JobCost:
    """The time and memory of one job; `rows` is the number of rows it wrote."""

    name: str
    urls: int
    rows: int
    cpu_seconds: float
    seconds: float
    peak_gib: float

    @property
    def microseconds_per_url(self) -> float:
        return 1e6 * self.cpu_seconds / self.urls


class BulkClaim(NamedTuple):
    """A claim, its measured value, the bar, and whether the claim holds."""

    name: str
    measured: float
    bar: float
    holds: bool


def main(arguments: list[str]) -> None:
    """Measure, print the table, and write the JSON file if one is given."""
    if arguments[:1] == ["w3lib"]:
        print(json.dumps({"written": run_w3lib(Path(arguments[1]), Path(arguments[2]))}))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bulk", description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help=f"URLs to measure memory with ({COUNT})")
    parser.add_argument("--peer-count", type=int, default=PEER_COUNT, help=f"URLs to compare both with ({PEER_COUNT})")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"runs of each job to compare ({ROUNDS})")
    parser.add_argument("--memory", default=MEMORY, help=f"--memory of canonry bulk ({MEMORY})")
    parser.add_argument("--folder", help="where to put the files, several gigabytes (the folder for temporary files)")
    parser.add_argument("--json", metavar="FILE", help="also write the result to this file")
    options = parser.parse_args(arguments)

    costs: list[JobCost] = []
    with tempfile.TemporaryDirectory(prefix="canonry-bulk-", dir=options.folder) as name:
        folder = Path(name)
        if options.peer_count:
            few = write_urls(folder / "few.txt", options.peer_count)
            peer = [sys.executable, "-m", "benchmarks.bulk", "w3lib", str(few), str(folder / "peer.parquet")]
            command = make_command(few, options)
            rounds = [
                (measure("w3lib", options.peer_count, peer), measure("canonry", options.peer_count, command))
                for _ in range(options.rounds)
            ]
            costs += [min(runs, key=lambda cost: cost.cpu_seconds) for runs in zip(*rounds, strict=True)]
            few.unlink()
        if options.count:
            many = write_urls(folder / "many.txt", options.count)
            costs.append(measure("canonry", options.count, make_command(many, options)))
    print(format_text(costs, options))
    if options.json:
        claims = [{"name": claim.name, "measured": claim.measured, "bar": claim.bar} for claim in check_claims(costs)]
        versions = find_versions(["duckdb", "pyarrow", "w3lib"])
        result = {"machine": describe_machine(), "versions": versions, "memory": options.memory, "claims": claims}
        write_json(options.json, {**result, "costs": [asdict(each) for each in costs]})


def make_command(file: Path, options: argparse.Namespace) -> list[str]:
    """Return the command line of canonry."""
    out = ["--out", str(file.with_suffix(".parquet")), "--overwrite", "--memory", options.memory, "--json"]
    return [sys.executable, "-m", "canonry", "bulk", str(file), *out]


def measure(name: str, count: int, command: list[str]) -> JobCost:
    """Run a command and measure it from start to end."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"Cannot measure: {name} ended with exit code {process.returncode}.")
    rows = int(json.loads(output)["written"])
    # Kilobytes on Linux, bytes on macOS.
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1024**3
    return JobCost(name, count, rows, usage.ru_utime + usage.ru_stime, seconds, peak)


def check_claims(costs: list[JobCost]) -> list[BulkClaim]:
    """Return each claim with its measured value and whether it holds."""
    claims: list[BulkClaim] = []
    if len(costs) > 1:
        ratio = costs[0].microseconds_per_url / costs[1].microseconds_per_url
        name = f"times w3lib, CPU, {costs[0].urls:,} URLs"
        claims.append(BulkClaim(name, ratio, MIN_RATIO, ratio >= MIN_RATIO))
    last = costs[-1]
    name = f"peak in GiB, {last.urls:,} URLs"
    claims.append(BulkClaim(name, last.peak_gib, MAX_PEAK_GIB, last.peak_gib <= MAX_PEAK_GIB))
    return claims


def format_text(costs: list[JobCost], options: argparse.Namespace) -> str:
    """Format the result as Markdown."""
    rows = [
        (
            each.name,
            f"{each.urls:,}",
            f"{each.rows:,}",
            f"{each.cpu_seconds:.1f}",
            f"{each.microseconds_per_url:.2f}",
            f"{each.seconds:.1f}",
            f"{each.peak_gib:.2f}",
        )
        for each in costs
    ]
    header = ("job", "URLs", "rows written", "CPU s", "CPU µs a URL", "wall s", "peak GiB")
    return "\n\n".join(
        [
            f"normalize + sha256 + group + sort, text to Parquet; canonry with --memory {options.memory}",
            format_table(header, rows),
            *(
                f"Claim: {claim.name}: {claim.measured:.2f}, bar {claim.bar:g}: "
                f"{'holds' if claim.holds else 'does not hold'}"
                for claim in check_claims(costs)
            ),
        ]
    )


def write_urls(file: Path, count: int) -> Path:
    """Write so many URLs, one on a line; the second half repeats URLs of the first."""
    generated = [
        url.strip().replace("\n", "") for url in make_urls(GENERATED * 9 // 10, 5) + make_dirty_urls(GENERATED // 10, 6)
    ]
    choose = random.Random(1)
    half = max(count // 2, 1)
    with file.open("w", encoding="utf-8") as out:
        for number in range(count):
            chosen = number if number < half else choose.randrange(half)
            out.write(f"{add_number(generated[chosen % GENERATED], chosen // GENERATED)}\n")
    return file


def add_number(url: str, number: int) -> str:
    """Return the URL with a number at the start of its path."""
    at = url.find("/", 8)
    return f"{url[:at]}/n{number}{url[at:]}" if at > 0 and "?" not in url[:at] else f"{url}/n{number}"


# The process of the peer


def run_w3lib(file: Path, out: Path) -> int:
    """Do the job with w3lib and return the number of rows."""
    import pyarrow
    import pyarrow.parquet
    from w3lib.url import canonicalize_url

    pa: Any = pyarrow
    groups: dict[str, list[Any]] = {}
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            text = line.rstrip("\n")
            try:
                url = canonicalize_url(text)
            except ValueError:
                continue
            key = hashlib.sha256(url.encode()).hexdigest()
            group = groups.get(key)
            if group is None:
                groups[key] = [url, key, 1, text, number]
            else:
                group[2] += 1
    ordered = [groups[key] for key in sorted(groups)]
    names = ["url", "canonical_hash", "count", "first_variant", "first_row"]
    columns = {name: [row[at] for row in ordered] for at, name in enumerate(names)}
    pyarrow.parquet.write_table(pa.table(columns), out, compression="zstd")  # type: ignore[attr-defined]
    return len(ordered)


if __name__ == "__main__":
    main(sys.argv[1:])
