"""CPU-seconds and memory of `canonry learn` on many rows: `python -m benchmarks.learn_speed --rows 1000000`."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from benchmarks.learn_sites import KINDS, make_sites
from canonry.learner.duckdb_engine import SCHEMA

pa: Any = pyarrow
pq: Any = pyarrow.parquet


def write_rows(path: str, rows: int) -> None:
    """Write a Parquet file with the rows of as many sites as needed."""
    written = seed = 0
    with pq.ParquetWriter(path, SCHEMA) as writer:
        while written < rows:
            made = [row for site in make_sites(1000 + seed, KINDS, 1) for row in site.rows][: rows - written]
            columns = {name: [getattr(row, name) for row in made] for name in SCHEMA.names}
            writer.write_table(pa.table(columns, schema=SCHEMA))
            written, seed = written + len(made), seed + 1


def measure(path: str, memory: str) -> dict[str, float]:
    """Learn from a file in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = (
        "import resource, sys\n"
        "from canonry.learner import learn\n"
        "got = learn(sys.argv[1], memory=int(sys.argv[2]))\n"
        "print(got.rows, len(got.rules), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path, memory], check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    rows, rules, peak = map(int, done.stdout.split())
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"rows": rows, "rules": rules, "cpu_seconds": round(seconds, 2), "peak_mb": peak // 1000,
            "cpu_seconds_per_million": round(seconds * 1e6 / rows, 2)}  # fmt: skip


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--memory", default="1000000000")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for rows in chosen.rows:
            path = str(Path(folder, f"{rows}.parquet"))
            write_rows(path, rows)
            print(json.dumps(measure(path, chosen.memory)), flush=True)


if __name__ == "__main__":
    main()
