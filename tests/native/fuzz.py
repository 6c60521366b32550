"""Run libFuzzer on the native core: `make fuzz`. Inputs that fail are written to build/fuzz."""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.site_corpus import make_site_urls

import canonry
import corpora
from canonry.core.native.policy_tables import link_programs, list_special_hosts

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
    names = (
        "answer",
        "override_path",
        "overrides",
        "params",
        "repair",
        "rules",
        "scan",
        "sha256",
        "site_match",
        "site_target",
        "site_write",
        "sites",
        "url",
    )
    parts = [str(core / f"{part}.c") for part in names]
    write_site_tables(BUILD / "site_tables.h")
    sources = ["-I", str(core), "-I", str(BUILD), str(ROOT / "tests/native/fuzz_url.c"), *parts]
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


def write_site_tables(header: Path) -> None:
    """Write the programs of all sites as C arrays."""
    policy = canonry.policy("bookmark")
    program, records, by_host = link_programs(policy)
    kinds = {host: kind for host, kind, _ in list_special_hosts(policy)}
    hosts = [
        f'    {{"{host.decode()}", {kinds[host]}, {own}, {first}, {count}}},'
        for host, (own, first, count) in by_host.items()
    ]
    places = [int.from_bytes(records[at : at + 4], "little") for at in range(0, len(records), 4)]
    lines = [
        "#include <stdint.h>",
        f"static const uint8_t SITE_PROGRAM[] = {{{','.join(map(str, program))}}};",
        f"static const uint32_t SITE_RECORDS[] = {{{','.join(map(str, places))}}};",
        f"enum {{ SITE_HOST_BYTES = {sum(map(len, by_host))} }};",
        "static const struct { const char *name; uint8_t flags; uint32_t record, domain, count; } SITE_HOSTS[] = {",
        *hosts,
        "};",
    ]
    header.write_text("\n".join(lines) + "\n", encoding="ascii")


def write_seeds(corpus: Path) -> None:
    """Write URLs to start from; the first byte of each chooses the policy."""
    choose = random.Random(1)
    of_sites = make_site_urls(SEEDS)
    for number in range(2 * SEEDS):
        url = corpora.build_url(choose) if number % 2 else choose.choice(corpora.get_real_or_generated_urls())
        if number < SEEDS:
            url = of_sites[number]
        (corpus / f"seed-{number}").write_bytes(bytes([choose.randrange(256)]) + url.encode("utf-8", "replace"))


if __name__ == "__main__":
    sys.exit(main())
