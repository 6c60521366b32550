"""Run libFuzzer on the native core: `make fuzz`. Inputs that fail are written to build/fuzz."""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
from pathlib import Path

import corpora

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "fuzz"
SEEDS = 500


def main() -> int:
    """Build the fuzzer, write seeds, run it; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=300)
    seconds: int = parser.parse_args().seconds
    if shutil.which("clang") is None:
        print("make fuzz needs clang: apt-get install clang libclang-rt-14-dev", file=sys.stderr)
        return 2
    corpus = BUILD / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    write_seeds(corpus)
    sanitize = "-fsanitize=fuzzer,address,undefined"
    core = ROOT / "src/canonry/core/native"
    # The files that do not use Python.
    parts = [str(core / f"{part}.c") for part in ("answer", "repair", "rules", "scan", "sha256", "sites", "url")]
    sources = ["-I", str(core), str(ROOT / "tests/native/fuzz_url.c"), *parts]
    build = [
        "clang",
        "-g",
        "-O1",
        "-std=c11",
        sanitize,
        "-fno-sanitize-recover=all",
        *sources,
        "-o",
        str(BUILD / "fuzz_url"),
    ]
    subprocess.run(build, check=True)
    options = [f"-dict={ROOT / 'tests/native/url.dict'}", "-max_len=2600", "-timeout=10", f"-max_total_time={seconds}"]
    return subprocess.run([str(BUILD / "fuzz_url"), *options, str(corpus)], cwd=BUILD, check=False).returncode


def write_seeds(corpus: Path) -> None:
    """Write URLs to start from; the first byte of each chooses the policy."""
    choose = random.Random(1)
    for number in range(SEEDS):
        url = corpora.build_url(choose) if number % 2 else choose.choice(corpora.get_real_or_generated_urls())
        (corpus / f"seed-{number}").write_bytes(bytes([choose.randrange(256)]) + url.encode("utf-8", "replace"))


if __name__ == "__main__":
    sys.exit(main())
