"""Measure how many megabytes of HTML a second `canonry.evidence.fingerprint` reads, beside other libraries.

    python -m benchmarks.fingerprint [--pages FOLDER] [--json FILE]

CPU time for all pages, best of five rounds in which the libraries take turns. The pages are generated, or the `.html`
files of FOLDER. trafilatura extracts the main text of a page, simhash hashes a text: canonry does both.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import canonry
from benchmarks.machine import describe_machine, find_versions, format_table, write_json
from canonry.core.native import CORE
from canonry.evidence.fingerprint import fingerprint, fold_text
from canonry.net.visible_text import read_visible_text

# A page in, anything out.
Run = Callable[[bytes], object]

ROUNDS = 5
MIN_MEGABYTES = 30.0  # a second, on one core
OURS = "canonry"
PACKAGES = ("simhash", "trafilatura")
TEXT = "harbour pilot boat morning quiet water stone letter window evening market bridge paper garden winter north road"
WORDS = TEXT.split()


def main(arguments: list[str]) -> None:
    """Measure, print the table, and write JSON if `--json` is given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fingerprint", description=__doc__)
    parser.add_argument("--pages", metavar="FOLDER", help="read the .html files of FOLDER, at most 500")
    parser.add_argument("--json", metavar="FILE", help="also write the result to FILE")
    options = parser.parse_args(arguments)

    versions = find_versions(PACKAGES)
    pages = read_pages(Path(options.pages)) if options.pages else make_pages()
    runs: dict[str, Run] = {f"{OURS} ({CORE})": fingerprint}
    if versions["simhash"]:
        hash_text: Any = import_module("simhash").Simhash
        runs["simhash, text by canonry"] = lambda body: hash_text(fold_text(read_visible_text(body)).split()).value
    if versions["trafilatura"]:
        extract: Any = import_module("trafilatura").extract
        runs["trafilatura, text only"] = lambda body: extract(body.decode("utf-8", "replace"))
    size = sum(map(len, pages)) / 1e6
    rates = {name: size / seconds for name, seconds in measure(pages, runs).items()}

    base = next(iter(rates.values()))
    rows = [(name, f"{rate:.1f}", f"{base / rate:.1f}") for name, rate in rates.items()]
    print(f"{len(pages)} pages, {size:.1f} MB\n")
    print(format_table(("library", "MB a second", "canonry is faster by"), rows))
    print("\n".join(f"- missing: {name} (pip install {name})" for name in PACKAGES if versions[name] is None))
    if options.json:
        result = {
            "machine": describe_machine(),
            "versions": {"canonry": canonry.__version__, **versions},
            "rounds": ROUNDS,
            "megabytes": size,
            "megabytes_per_second": rates,
            "claims": [{"claim": "megabytes a second", "value": base, "bar": MIN_MEGABYTES}],
        }
        write_json(options.json, result)


def measure(pages: list[bytes], runs: Mapping[str, Run]) -> dict[str, float]:
    """Return the CPU seconds that each library needs for all pages, best of all rounds."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            start = time.process_time()
            for page in pages:
                run(page)
            best[name] = min(best[name], time.process_time() - start)
    return best


def read_pages(folder: Path) -> list[bytes]:
    """Return the pages of a folder."""
    return [path.read_bytes() for path in sorted(folder.rglob("*.html"))[:500]]


def make_pages(count: int = 40) -> list[bytes]:
    """Return pages like those of a news site: a menu, scripts, an article with links, a list of related articles."""
    source = random.Random(1)
    return [_make_page(source, number).encode() for number in range(count)]


def _make_page(source: random.Random, number: int) -> str:
    def write(count: int) -> str:
        return " ".join(source.choices(WORDS, k=count))

    menu = "".join(f'<li class="menu-item"><a class="nav-link" href="/s/{n}/">{write(2)}</a></li>' for n in range(60))
    article = "".join(
        f'<p class="article__paragraph">{write(40)} <a href="/notes/{n}?ref=inline">{write(3)}</a>, '
        f"<em>{write(2)}</em>.</p>"
        for n in range(40)
    )
    related = "".join(
        f'<article class="card card--small" data-id="{n}"><a href="/news/{n}-{write(1)}"><img loading="lazy" '
        f'src="https://cdn.example.com/{n}.jpg" alt="{write(4)}"><h3 class="card__title">{write(8)}</h3></a>'
        f'<time datetime="2026-01-{n % 28 + 1:02}">{n} January</time></article>'
        for n in range(40)
    )
    script = "window.state=" + str({f"key{n}": write(5) for n in range(150)}) + ";"
    return (
        f"<!doctype html><html><head><title>{write(6)}</title><style>{'.card{display:flex}' * 200}</style>"
        f"<script>{script}</script></head><body><nav><ul>{menu}</ul></nav><main><h1>Part {number}: {write(6)}</h1>"
        f"{article}</main><aside>{related}</aside><footer hidden>{write(20)}</footer><script>{script}</script>"
        "</body></html>"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
