"""Measure how fast `canonry.feeds.read.read_feed` reads feeds, compared with other libraries.

    python -m benchmarks.feeds [--items N] [--json FILE]

CPU time for one document, best of five rounds in which the libraries take turns. A library that finds
a wrong number of items is measured, too, and the number is shown.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import canonry
from benchmarks.machine import describe_machine, find_versions, format_table, write_json
from canonry.feeds.read import read_feed

# Bytes in, number of items out.
Run = Callable[[bytes], int]

ROUNDS = 5
TURN_SECONDS = 0.05  # CPU time of one library before the next takes its turn
BASE = "feedparser"
MIN_RATIO = 20.0  # to feedparser, on well-formed RSS, RDF and Atom
BROKEN = "rss, broken"
PARAGRAPHS = (
    "<p>The harbour was quiet that morning; only the <em>pilot boat</em> went out, twice, and came back empty.</p>",
    '<p>More on the <a href="https://example.com/notes/?page=2&amp;sort=new">second page</a> – naïve as it was.</p>',
    '<p><img src="https://cdn.example.com/i/boat.jpg" alt="A boat" width="640" height="427"/></p>',
)


@dataclass(frozen=True, slots=True)
class Peer:
    """A library to compare with: its package, and how to call it."""

    name: str
    package: str
    load: Callable[[], Run]


@dataclass(frozen=True, slots=True)
class Rate:
    """The speed of one library on one document."""

    name: str
    items: int
    milliseconds: float
    ratio_to_feedparser: float | None


@dataclass(frozen=True, slots=True)
class DocumentResult:
    """The speed of all libraries on one document."""

    document: str
    kilobytes: int
    items: int
    rates: list[Rate]


def main(arguments: list[str]) -> None:
    """Measure, print the tables, and write JSON if `--json` is given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.feeds", description=__doc__)
    parser.add_argument("--items", type=int, default=50, help="items in each document (default 50)")
    parser.add_argument("--json", metavar="FILE", help="also write the result to FILE")
    options = parser.parse_args(arguments)

    peers = [peer for peer in PEERS if find_versions([peer.package])[peer.package] is not None]
    missing = [peer for peer in PEERS if peer not in peers]
    runs: dict[str, Run] = {"canonry": lambda body: len(read_feed(body).items)}
    runs |= {peer.name: peer.load() for peer in peers}
    results = [measure(name, body, options.items, runs) for name, body in make_documents(options.items).items()]

    print(make_text(results, missing))
    if options.json:
        write_json(options.json, make_json(results, missing))


def make_documents(items: int) -> dict[str, bytes]:
    """Return a typical document of each format, and an RSS document with typical errors."""
    content = "".join(PARAGRAPHS) * 4
    rss = _make_rss(items, content)
    broken = rss.replace("the harbour", "R&D at the harbour&nbsp;").replace("</category></item>", "</item>")
    return {
        "rss": rss.encode(),
        "rss, headlines only": _make_rss(items, "").encode(),
        "atom": _make_atom(items, content).encode(),
        "rdf": _make_rdf(items, content).encode(),
        BROKEN: broken.encode(),
    }


def measure(document: str, body: bytes, items: int, runs: Mapping[str, Run]) -> DocumentResult:
    """Measure all libraries on one document."""
    found = {name: run(body) for name, run in runs.items()}
    seconds = measure_cpu_seconds(body, runs)
    base = seconds.get(BASE)
    rates = [Rate(name, found[name], seconds[name] * 1000, base / seconds[name] if base else None) for name in runs]
    return DocumentResult(document, len(body) // 1000, items, rates)


def measure_cpu_seconds(body: bytes, runs: Mapping[str, Run]) -> dict[str, float]:
    """Return the CPU time that each library needs for the document, best of all rounds."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            start, count = time.process_time(), 0
            while (spent := time.process_time() - start) < TURN_SECONDS:
                run(body)
                count += 1
            best[name] = min(best[name], spent / count)
    return best


def list_claims(results: list[DocumentResult]) -> list[tuple[str, float, float]]:
    """List document, ratio to feedparser and minimum ratio of the well-formed documents."""
    return [
        (result.document, rate.ratio_to_feedparser, MIN_RATIO)
        for result in results
        for rate in result.rates
        if rate.name == "canonry" and rate.ratio_to_feedparser is not None and result.document != BROKEN
    ]


def make_text(results: list[DocumentResult], missing: list[Peer]) -> str:
    """Return the result as Markdown."""
    blocks = [
        f"{result.document}: {result.items} items, {result.kilobytes} kB\n\n{_make_rates_table(result)}"
        for result in results
    ]
    if rated := list_claims(results):
        rows = [(document, f"{ratio:.0f}", f"{bar:g}") for document, ratio, bar in rated]
        blocks.append("canonry against feedparser\n\n" + format_table(("document", "times as fast", "bar"), rows))
    if missing:
        blocks.append("\n".join(f"- missing: {peer.name} (pip install {peer.package})" for peer in missing))
    return "\n\n".join(blocks)


def make_json(results: list[DocumentResult], missing: list[Peer]) -> dict[str, object]:
    """Return the result as JSON."""
    return {
        "machine": describe_machine(),
        "versions": {"canonry": canonry.__version__, **find_versions(peer.package for peer in PEERS)},
        "rounds": ROUNDS,
        "documents": [asdict(result) for result in results],
        "claims": [{"document": document, "ratio": ratio, "bar": bar} for document, ratio, bar in list_claims(results)],
        "missing": [peer.package for peer in missing],
    }


def _make_rates_table(result: DocumentResult) -> str:
    return format_table(
        ("library", "ms", "x feedparser", "items"),
        [
            (
                rate.name,
                f"{rate.milliseconds:.2f}",
                "" if rate.ratio_to_feedparser is None else f"{rate.ratio_to_feedparser:.1f}",
                str(rate.items),
            )
            for rate in result.rates
        ],
    )


def _make_rss(items: int, content: str) -> str:
    encoded = f"<content:encoded><![CDATA[{content}]]></content:encoded>" if content else ""
    listed = "".join(
        f"<item><title>Notes from the harbour, part {n}</title><link>https://example.com/notes/{n}</link>"
        f'<guid isPermaLink="false">https://example.com/?p={n}</guid><dc:creator>Ada</dc:creator>'
        f"<pubDate>Mon, 06 Jan 2025 10:{n % 60:02}:00 GMT</pubDate>"
        f"<description>What the harbour &amp;amp; the sea did on day {n}.</description>{encoded}"
        "<category>Sea</category></item>"
        for n in range(items)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?><rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/"'
        ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:atom="http://www.w3.org/2005/Atom"><channel>'
        '<title>Harbour Notes</title><link>https://example.com/</link><atom:link rel="self" href="https://example.com/feed"/>'
        f"<description>What the harbour does</description>{listed}</channel></rss>"
    )


def _make_atom(items: int, content: str) -> str:
    escaped = content.replace("&", "&amp;").replace("<", "&lt;")
    entries = "".join(
        f"<entry><title>Notes from the harbour, part {n}</title><id>tag:example.com,2025:{n}</id>"
        f'<link href="https://example.com/notes/{n}"/><link rel="edit" href="https://example.com/edit/{n}"/>'
        f"<published>2025-01-06T10:{n % 60:02}:00Z</published><updated>2025-01-07T10:{n % 60:02}:00Z</updated>"
        f'<author><name>Ada</name></author><content type="html">{escaped}</content></entry>'
        for n in range(items)
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?><feed xmlns="http://www.w3.org/2005/Atom"><title>Harbour Notes</title>'
        '<id>tag:example.com,2025:feed</id><link rel="self" href="https://example.com/atom"/>'
        f'<link href="https://example.com/"/><updated>2025-01-07T10:00:00Z</updated>{entries}</feed>'
    )


def _make_rdf(items: int, content: str) -> str:
    listed = "".join(
        f'<item rdf:about="https://example.com/notes/{n}"><title>Notes from the harbour, part {n}</title>'
        f"<link>https://example.com/notes/{n}</link><dc:date>2025-01-06T10:{n % 60:02}:00Z</dc:date>"
        f"<description>Day {n}.</description><content:encoded><![CDATA[{content}]]></content:encoded></item>"
        for n in range(items)
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'
        ' xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/"'
        ' xmlns:content="http://purl.org/rss/1.0/modules/content/"><channel rdf:about="https://example.com/">'
        f"<title>Harbour Notes</title><link>https://example.com/</link></channel>{listed}</rdf:RDF>"
    )


def _get_function(module: str, name: str) -> Any:
    """Return a function of another library; some have no types."""
    return getattr(import_module(module), name)


def _make_loader(module: str) -> Callable[[], Run]:
    """Make a loader for a library whose `parse` takes bytes and returns `entries`; an exception counts as no items."""

    def load() -> Run:
        parse = _get_function(module, "parse")

        def run(body: bytes) -> int:
            try:
                return len(parse(body).entries)
            except Exception:  # libraries raise anything; only the missing result matters
                return 0

        return run

    return load


PEERS = (
    Peer(BASE, "feedparser", _make_loader("feedparser")),
    Peer("fastfeedparser", "fastfeedparser", _make_loader("fastfeedparser")),
    Peer("feedparser-rs", "feedparser-rs", _make_loader("feedparser_rs")),
)

if __name__ == "__main__":
    main(sys.argv[1:])
