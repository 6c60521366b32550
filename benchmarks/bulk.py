"""What `canonry bulk` costs: URLs normalized, hashed and grouped, beside the same job on w3lib; and its memory.

    python -m benchmarks.bulk [--count N] [--peer-count N] [--memory SIZE] [--json FILE]

Half of the URLs are there twice or more. Each job runs in a process of its own and reads the same text file.
The peer is what one would write with w3lib: canonicalize_url, sha256, a dict, sorted, to Parquet with
pyarrow; it has one thread and keeps all in memory, so it gets --peer-count URLs, and canonry the same ones for
the comparison (CPU seconds of all threads). Then canonry gets --count of them, and its peak is looked at: the
largest resident set of the process, as the kernel counts it.
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
from typing import Any

from benchmarks.corpus import dirty_urls, urls
from benchmarks.machine import describe_machine, find_versions, format_table, write_json

COUNT, PEER_COUNT, MEMORY = 10_000_000, 1_000_000, "1GB"
BASE = 20_000  # URLs that are generated; the others are these with a number in their path
TIMES_BAR, PEAK_BAR = 10.0, 1.5  # times w3lib; GiB


@dataclass(frozen=True, slots=True)
class Cost:
    """What one job took; `rows` is what it wrote."""

    name: str
    urls: int
    rows: int
    cpu_seconds: float
    seconds: float
    peak_gib: float

    @property
    def microseconds(self) -> float:
        return 1e6 * self.cpu_seconds / self.urls


def main(arguments: list[str]) -> None:
    """Measure, print the table, write the JSON if asked."""
    if arguments[:1] == ["w3lib"]:
        print(json.dumps({"written": with_w3lib(Path(arguments[1]), Path(arguments[2]))}))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bulk", description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help=f"URLs for canonry ({COUNT})")
    parser.add_argument("--peer-count", type=int, default=PEER_COUNT, help=f"URLs for both ({PEER_COUNT})")
    parser.add_argument("--memory", default=MEMORY, help=f"for canonry bulk ({MEMORY})")
    parser.add_argument("--folder", help="for the files, which take some gigabytes (a temporary one)")
    parser.add_argument("--json", metavar="FILE", help="write the result there, too")
    options = parser.parse_args(arguments)

    costs: list[Cost] = []
    with tempfile.TemporaryDirectory(prefix="canonry-bulk-", dir=options.folder) as name:
        folder = Path(name)
        if options.peer_count:
            few = write_urls(folder / "few.txt", options.peer_count)
            peer = [sys.executable, "-m", "benchmarks.bulk", "w3lib", str(few), str(folder / "peer.parquet")]
            costs += [
                cost("w3lib", options.peer_count, peer),
                cost("canonry", options.peer_count, command(few, options)),
            ]
            few.unlink()
        if options.count:
            many = write_urls(folder / "many.txt", options.count)
            costs.append(cost("canonry", options.count, command(many, options)))
    print(text(costs, options))
    if options.json:
        claimed = [{"name": name, "measured": measured, "bar": bar} for name, measured, bar, _ in claims(costs)]
        known = find_versions(["duckdb", "pyarrow", "w3lib"])
        result = {"machine": describe_machine(), "versions": known, "memory": options.memory, "claims": claimed}
        write_json(options.json, {**result, "costs": [asdict(each) for each in costs]})


def command(file: Path, options: argparse.Namespace) -> list[str]:
    """canonry, as users start it."""
    out = ["--out", str(file.with_suffix(".parquet")), "--memory", options.memory, "--json"]
    return [sys.executable, "-m", "canonry", "bulk", str(file), *out]


def cost(name: str, count: int, command: list[str]) -> Cost:
    """What the command took, from its start to its end."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"cannot measure: {name} ended with {process.returncode}")
    rows = int(json.loads(said)["written"])
    # Kilobytes on Linux, bytes on macOS.
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1024**3
    return Cost(name, count, rows, usage.ru_utime + usage.ru_stime, seconds, peak)


def claims(costs: list[Cost]) -> list[tuple[str, float, float, bool]]:
    """What has to hold: name, measured, bar, and whether it does."""
    found: list[tuple[str, float, float, bool]] = []
    if len(costs) > 1:
        times = costs[0].microseconds / costs[1].microseconds
        found.append((f"times w3lib, CPU, {costs[0].urls:,} URLs", times, TIMES_BAR, times >= TIMES_BAR))
    last = costs[-1]
    found.append((f"peak in GiB, {last.urls:,} URLs", last.peak_gib, PEAK_BAR, last.peak_gib <= PEAK_BAR))
    return found


def text(costs: list[Cost], options: argparse.Namespace) -> str:
    """The result as Markdown."""
    rows = [
        (
            each.name,
            f"{each.urls:,}",
            f"{each.rows:,}",
            f"{each.cpu_seconds:.1f}",
            f"{each.microseconds:.2f}",
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
                f"Claim: {name}: {measured:.2f}, bar {bar:g}: {'holds' if holds else 'does not hold'}"
                for name, measured, bar, holds in claims(costs)
            ),
        ]
    )


def write_urls(file: Path, count: int) -> Path:
    """So many URLs; the second half repeats URLs of the first."""
    base = [url.strip().replace("\n", "") for url in urls(BASE * 9 // 10, 5) + dirty_urls(BASE // 10, 6)]
    choose = random.Random(1)
    half = max(count // 2, 1)
    with file.open("w", encoding="utf-8") as out:
        for number in range(count):
            chosen = number if number < half else choose.randrange(half)
            out.write(f"{_numbered(base[chosen % BASE], chosen // BASE)}\n")
    return file


def _numbered(url: str, number: int) -> str:
    """The URL with a number at the begin of its path."""
    at = url.find("/", 8)
    return f"{url[:at]}/n{number}{url[at:]}" if at > 0 and "?" not in url[:at] else f"{url}/n{number}"


# The process of the peer.


def with_w3lib(file: Path, out: Path) -> int:
    """The job as one would write it; how many rows it gave."""
    import pyarrow
    import pyarrow.parquet
    from w3lib.url import canonicalize_url

    pa: Any = pyarrow
    found: dict[str, list[Any]] = {}
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            given = line.rstrip("\n")
            try:
                url = canonicalize_url(given)
            except ValueError:
                continue
            key = hashlib.sha256(url.encode()).hexdigest()
            group = found.get(key)
            if group is None:
                found[key] = [url, key, 1, given, number]
            else:
                group[2] += 1
    ordered = [found[key] for key in sorted(found)]
    names = ["url", "canonical_hash", "count", "first_variant", "first_row"]
    columns = {name: [row[at] for row in ordered] for at, name in enumerate(names)}
    pyarrow.parquet.write_table(pa.table(columns), out, compression="zstd")  # type: ignore[attr-defined]
    return len(ordered)


if __name__ == "__main__":
    main(sys.argv[1:])
