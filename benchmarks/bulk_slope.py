"""Measure what each URL costs `canonry bulk` as their number grows, with the same memory.

    python -m benchmarks.bulk_slope [--counts N,N,...] [--memory SIZE] [--folder FOLDER] [--json FILE]

All URLs differ, so that the merge has as many rows as the inputs, in files of two million. CPU time, peak memory and
the bytes that the process read and wrote are for one run of the command from start to end. Linux only. 60 million URLs
need 20 GB in the folder and take five minutes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.bulk import GENERATED, add_number
from benchmarks.corpus import make_urls
from benchmarks.machine import describe_machine, format_table, write_json

COUNTS = "2000000,8000000"
MEMORY = "512MB"
URLS_PER_FILE = 2_000_000


class RunCost(NamedTuple):
    """What one run of the command used."""

    urls: int
    cpu_seconds: float
    peak_megabytes: float
    bytes_read: int
    bytes_written: int


def main(arguments: list[str]) -> None:
    """Measure each number of URLs and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bulk_slope", description=__doc__)
    parser.add_argument("--counts", default=COUNTS, help=f"numbers of URLs, separated by commas ({COUNTS})")
    parser.add_argument("--memory", default=MEMORY, help=f"--memory of canonry bulk ({MEMORY})")
    parser.add_argument("--folder", help="where to put the files (the folder for temporary files)")
    parser.add_argument("--json", metavar="FILE", help="also write the result to this file")
    options = parser.parse_args(arguments)

    costs: list[RunCost] = []
    for count in map(int, options.counts.split(",")):
        with tempfile.TemporaryDirectory(prefix="canonry-bulk-", dir=options.folder) as folder:
            costs.append(measure(write_different_urls(Path(folder), count), count, options.memory))
        print(f"{count:,} URLs: {costs[-1].cpu_seconds:.1f} s", file=sys.stderr)
    header = ("URLs", "CPU µs per URL", "peak MB", "read, bytes per URL", "written, bytes per URL")
    rows = [
        (
            f"{cost.urls:,}",
            f"{1e6 * cost.cpu_seconds / cost.urls:.2f}",
            f"{cost.peak_megabytes:.0f}",
            f"{cost.bytes_read / cost.urls:.0f}",
            f"{cost.bytes_written / cost.urls:.0f}",
        )
        for cost in costs
    ]
    print(format_table(header, rows))
    if options.json:
        costs_by_name = [cost._asdict() for cost in costs]
        write_json(options.json, {"machine": describe_machine(), "memory": options.memory, "costs": costs_by_name})


def write_different_urls(folder: Path, count: int) -> list[Path]:
    """Write so many different URLs, one on a line, and return the files."""
    generated = sorted(set(make_urls(GENERATED, 5)))
    files: list[Path] = []
    for start in range(0, count, URLS_PER_FILE):
        file = folder / f"urls-{start // URLS_PER_FILE:03}.txt"
        with file.open("w", encoding="utf-8") as out:
            for number in range(start, min(start + URLS_PER_FILE, count)):
                round_number, index = divmod(number, len(generated))
                out.write(f"{add_number(generated[index], round_number)}\n")
        files.append(file)
    return files


def measure(files: list[Path], count: int, memory: str) -> RunCost:
    """Run the command once and return what it used."""
    out = files[0].with_name("unique.parquet")
    command = [sys.executable, "-m", "canonry", "bulk", *map(str, files), "--out", str(out), "--memory", memory]
    process = subprocess.Popen([*command, "--json"], stdout=subprocess.DEVNULL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, but its counters can still be read
    lines = Path(f"/proc/{process.pid}/io").read_text(encoding="ascii").splitlines()
    transferred = {name: int(value) for name, value in (line.split(": ") for line in lines)}
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"Cannot measure: canonry bulk ended with exit code {process.returncode}.")
    seconds = usage.ru_utime + usage.ru_stime
    return RunCost(count, seconds, usage.ru_maxrss / 1024, transferred["rchar"], transferred["wchar"])


if __name__ == "__main__":
    main(sys.argv[1:])
