"""Measure how many URLs a second canonry and its peers normalize: one call each, as a list, as Arrow columns.

    python -m benchmarks.normalize [--count N] [--json FILE]

CPU time, best of five rounds; the libraries take turns every 2,000 URLs, so that noise affects all of
them. All are timed on the same URLs: those that no library refuses. A run that takes less than two
milliseconds (canonry and can_ada) is run once before without timing: the slow libraries empty the
caches, which would halve the speed of the first Arrow run. Threads are measured separately, in wall
time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import canonry
from benchmarks import ada_in_c
from benchmarks.corpus import make_dirty_urls, make_urls, read_real_urls
from benchmarks.machine import describe_machine, find_versions, format_table, write_json
from benchmarks.site_corpus import choose_site_urls, make_site_urls
from canonry.core import native as fast

# Each run has its own loop: a function call for each URL would slow the fastest libraries most.
Run = Callable[[list[str]], list[object]]

ROUNDS = 5
SLICE = 2_000  # URLs before the next library takes its turn; more than any peer caches
GENERATED = 20_000
QUICK_SECONDS = 0.002
POLICIES = ("bookmark", "feed-aggressive", "article", "crawl")
REAL = "real"
REAL_LISTED = "real-listed"  # real URLs of sites that canonry knows, as often as they occur
LISTED = "listed"  # generated URLs of these sites, each page of each table as often as any other
CLAIMED = (REAL, REAL_LISTED, LISTED)
# The speeds to reach on these corpora, relative to peers, with the C code and without it.
NATIVE_BARS = {
    "w3lib.url.canonicalize_url": 60.0,
    "courlan.clean_url": 60.0,
    "ada_url.URL(u).href": 15.0,
    "str(can_ada.parse(u))": 3.0,
}
PURE_BARS = {"w3lib.url.canonicalize_url": 4.0}
ADA_IN_C = "ada in C, Arrow"
ARROW_BARS = {"w3lib.url.canonicalize_url": 60.0, ADA_IN_C: 2.5}
SHARE_BAR = 0.98  # of real URLs that the C code answers without the reference
THREADS_BAR = 1.8
LONG_BAR = 1.0  # a long column is no slower than its chunks
THREADED = 1_000_000  # URLs for two threads; enough to make the start of a thread negligible
BASE = "w3lib.url.canonicalize_url"
ARROW = "canonry bookmark, Arrow"


@dataclass(frozen=True, slots=True)
class Peer:
    """A library to compare with: the package to install, whether it rewrites or only parses, how to load it."""

    name: str
    package: str
    work: str
    load: Callable[[], Run]


@dataclass(frozen=True, slots=True)
class Rate:
    """The speed of one library on one corpus."""

    name: str
    work: str
    refused: int
    kurls_per_second: float
    ratio_to_w3lib: float | None


@dataclass(frozen=True, slots=True)
class CorpusResult:
    """All libraries on one corpus; `timed` of the `given` URLs were accepted by every library."""

    corpus: str
    given: int
    timed: int
    rates: list[Rate]


def main(arguments: list[str]) -> None:
    """Measure, print the tables, and write the JSON file if one is given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.normalize", description=__doc__)
    parser.add_argument("--count", type=_parse_positive, help="URLs of each corpus (all real ones, else 20,000)")
    parser.add_argument("--json", metavar="FILE", help="also write the result to this file")
    options = parser.parse_args(arguments)

    peers = [peer for peer in PEERS if is_installed(peer)]
    missing = [peer for peer in PEERS if peer not in peers]
    runs = {f"canonry {policy}": _load_canonry(policy) for policy in POLICIES}
    runs |= make_batch_runs() | {peer.name: peer.load() for peer in peers}
    work = {peer.name: peer.work for peer in peers} | {ADA_IN_C: "parses only"}
    if hrefs := ada_in_c.compile_loop():
        runs[ADA_IN_C] = lambda urls: [hrefs(_make_column(urls))]
    chosen = load_corpora(options.count)
    results = [measure(name, corpus, runs, work) for name, corpus in chosen.items()]
    shares = (
        {policy: measure_native_share(next(iter(chosen.values())), policy) for policy in POLICIES}
        if is_native()
        else {}
    )
    threads = measure_threads(next(iter(chosen.values()))) if is_native() else None
    long = measure_long_column(next(iter(chosen.values()))) if is_native() else None

    print(format_text(results, missing, shares, threads, long))
    if options.json:
        write_json(options.json, make_json(results, missing, shares, threads, long))


def load_corpora(count: int | None) -> dict[str, list[str]]:
    """Return the corpora by name; real URLs only if there is a file of them."""
    real = read_real_urls()
    generated = count or GENERATED
    chosen = {REAL: real[:count], REAL_LISTED: choose_site_urls(real)[:count]} if real else {}
    return chosen | {
        "generated": make_urls(generated),
        "dirty": make_dirty_urls(generated),
        LISTED: make_site_urls(generated),
    }


@dataclass(frozen=True, slots=True)
class Threads:
    """One thread and two over the same column: thousand URLs a second of wall time."""

    one: float
    two: float

    @property
    def ratio(self) -> float:
        """How many times as fast two threads are."""
        return self.two / self.one


def measure_threads(given: list[str]) -> Threads:
    """Measure two threads with half of a long column each, and one with all of it; best of all rounds."""
    columns = _make_column((given * (THREADED // len(given) + 1))[:THREADED])
    halves = [columns.slice(0, THREADED // 2), columns.slice(THREADED // 2)]
    normalize = _get_function("canonry.bulk.arrow", "normalize")
    best = [float("inf")] * 2
    with ThreadPoolExecutor(2) as pool:
        for _ in range(ROUNDS):
            start = time.perf_counter()
            normalize(columns)
            middle = time.perf_counter()
            list(pool.map(normalize, halves))
            best = [min(best[0], middle - start), min(best[1], time.perf_counter() - middle)]
    return Threads(THREADED / best[0] / 1000, THREADED / best[1] / 1000)


@dataclass(frozen=True, slots=True)
class LongColumn:
    """One column, and the same in chunks: thousand URLs a second of CPU time."""

    chunks: float
    whole: float

    @property
    def ratio(self) -> float:
        """How many times as fast the whole column is."""
        return self.whole / self.chunks


def measure_long_column(given: list[str]) -> LongColumn:
    """Measure a long column, whose result needs new memory, and chunks of it; best of all rounds."""
    column = _make_column((given * (THREADED // len(given) + 1))[:THREADED])
    chunks = [column.slice(start, SLICE) for start in range(0, THREADED, SLICE)]
    normalize = _get_function("canonry.bulk.arrow", "normalize")
    best = [float("inf")] * 2
    for _ in range(ROUNDS):
        start = time.process_time()
        for chunk in chunks:
            normalize(chunk)
        middle = time.process_time()
        normalize(column)
        best = [min(best[0], middle - start), min(best[1], time.process_time() - middle)]
    return LongColumn(THREADED / best[0] / 1000, THREADED / best[1] / 1000)


def measure_native_share(given: list[str], policy: str) -> float:
    """Return the share of the URLs that the C code answers without the reference."""
    is_simple = _get_function("canonry.core.native._fast", "is_simple")
    return float(sum(is_simple(url, policy) for url in given) / len(given))


def measure(corpus: str, given: list[str], runs: Mapping[str, Run], work: Mapping[str, str]) -> CorpusResult:
    """Measure every run on the URLs that all of them accept."""
    batches = {*make_batch_runs(), ADA_IN_C}
    single = {name: run for name, run in runs.items() if name not in batches}
    refused = {name: {url for url in given if _refuses(run, url)} for name, run in single.items()}
    # The tests prove that batches refuse the same URLs; ada accepts all that canonry accepts.
    refused |= dict.fromkeys(batches, refused["canonry bookmark"])
    timed = [url for url in given if not any(url in by_one for by_one in refused.values())]
    seconds = measure_cpu_seconds(timed, runs)
    base = seconds.get(BASE)
    rates = [
        Rate(
            name=name,
            work=work.get(name, "rewrites"),
            refused=sum(url in refused[name] for url in given),
            kurls_per_second=len(timed) / seconds[name] / 1000,
            ratio_to_w3lib=base / seconds[name] if base else None,
        )
        for name in runs
    ]
    return CorpusResult(corpus, len(given), len(timed), rates)


def measure_cpu_seconds(given: list[str], runs: Mapping[str, Run]) -> dict[str, float]:
    """Return the CPU time of each run: its shortest time for each slice of the URLs, summed."""
    slices = [given[start : start + SLICE] for start in range(0, len(given), SLICE)]
    best = {name: [float("inf")] * len(slices) for name in runs}
    for _ in range(ROUNDS):
        for number, some in enumerate(slices):
            for name, run in runs.items():
                if best[name][number] < QUICK_SECONDS:
                    run(some)  # warm the caches that the slow libraries emptied
                start = time.process_time()
                run(some)
                best[name][number] = min(best[name][number], time.process_time() - start)
    return {name: sum(seconds) for name, seconds in best.items()}


@dataclass(frozen=True, slots=True)
class SpeedClaim:
    """How many times as fast as a peer the slowest policy is on one corpus, and how fast it has to be."""

    corpus: str
    peer: str
    ratio: float
    bar: float


def check_claims(results: list[CorpusResult]) -> list[SpeedClaim]:
    """Compare the slowest policy with each peer, on real URLs and on URLs of listed sites, real and generated."""
    claims: list[SpeedClaim] = []
    for result in results:
        if result.corpus not in CLAIMED:
            continue
        speed = {rate.name: rate.kurls_per_second for rate in result.rates}
        slowest = min(speed[f"canonry {policy}"] for policy in POLICIES)
        bars = NATIVE_BARS if is_native() else PURE_BARS
        claims += [
            SpeedClaim(result.corpus, peer, slowest / speed[peer], bar) for peer, bar in bars.items() if peer in speed
        ]
        if is_native() and ARROW in speed and result.corpus == REAL:
            slowest = min(speed[name] for name in speed if name.endswith(", Arrow") and name != ADA_IN_C)
            claims += [
                SpeedClaim(result.corpus, f"{peer} (Arrow)", slowest / speed[peer], bar)
                for peer, bar in ARROW_BARS.items()
                if peer in speed
            ]
    return claims


def format_text(
    results: list[CorpusResult],
    missing: list[Peer],
    shares: Mapping[str, float],
    threads: Threads | None,
    long: LongColumn | None,
) -> str:
    """Format the result as Markdown."""
    blocks = [f"canonry.normalize with the {'native' if is_native() else 'pure Python'} core"]
    blocks += [f"{_make_heading(result)}\n\n{_make_rates_table(result)}" for result in results]
    if claims := check_claims(results):
        claimed = [(claim.corpus, claim.peer, f"{claim.ratio:.1f}", f"{claim.bar:g}") for claim in claims]
        blocks.append("Slowest policy\n\n" + format_table(("URLs", "against", "times as fast", "bar"), claimed))
    if shares:
        rows = [(policy, f"{share:.2%}", f"{SHARE_BAR:.0%}") for policy, share in shares.items()]
        blocks.append(
            f"Answered natively, {results[0].corpus} URLs\n\n" + format_table(("policy", "share", "bar"), rows)
        )
    if threads:
        row = (f"{threads.one:,.0f}", f"{threads.two:,.0f}", f"{threads.ratio:.2f}", f"{THREADS_BAR}")
        blocks.append(
            format_table(("Arrow, thousand URLs/s of wall time: one thread", "two", "times as fast", "bar"), [row])
        )
    if long:
        row = (f"{long.chunks:,.0f}", f"{long.whole:,.0f}", f"{long.ratio:.2f}", f"{LONG_BAR}")
        header = (f"Arrow, thousand URLs/s of CPU time: chunks of {SLICE:,}", "one column", "times as fast", "bar")
        blocks.append(format_table(header, [row]))
    if missing:
        blocks.append("\n".join(f"- missing: {peer.name} (pip install {peer.package})" for peer in missing))
    return "\n\n".join(blocks)


def make_json(
    results: list[CorpusResult],
    missing: list[Peer],
    shares: Mapping[str, float],
    threads: Threads | None,
    long: LongColumn | None,
) -> dict[str, object]:
    """Return the result as JSON values."""
    return {
        "machine": describe_machine(),
        "versions": {"canonry": canonry.__version__, **find_versions(peer.package for peer in PEERS)},
        "native": is_native(),
        "rounds": ROUNDS,
        "corpora": [asdict(result) for result in results],
        "claims": [asdict(claim) for claim in check_claims(results)],
        "native_share": dict(shares),
        "threads": None if threads is None else {**asdict(threads), "ratio": threads.ratio},
        "long_column": None if long is None else {**asdict(long), "ratio": long.ratio},
        "missing": [peer.package for peer in missing],
    }


def is_native() -> bool:
    """Return whether the C code is active."""
    return fast.CORE == "native"


def is_installed(peer: Peer) -> bool:
    """Return whether the peer is installed."""
    return find_versions([peer.package])[peer.package] is not None


def _make_heading(result: CorpusResult) -> str:
    left_out = result.given - result.timed
    return f"{result.corpus}: {result.timed:,} URLs timed, {left_out:,} left out because a library refuses them"


def _make_rates_table(result: CorpusResult) -> str:
    return format_table(
        ("library", "thousand URLs/s", "x w3lib", "refused"),
        [
            (
                rate.name if rate.work == "rewrites" else f"{rate.name} ({rate.work})",
                f"{rate.kurls_per_second:,.0f}",
                "" if rate.ratio_to_w3lib is None else f"{rate.ratio_to_w3lib:.1f}",
                f"{rate.refused:,}",
            )
            for rate in result.rates
        ],
    )


def _refuses(run: Run, url: str) -> bool:
    try:
        return run([url])[0] is None
    except Exception:  # peers raise many kinds of errors; each means that there is no answer
        return True


def _load_canonry(policy: str) -> Run:
    normalize = canonry.normalize
    chosen = canonry.policy(policy)  # a name alone may mean to look for an overrides file at every call: `article`
    return lambda urls: [normalize(url, chosen) for url in urls]


def make_batch_runs() -> dict[str, Run]:
    """Return the functions for many URLs, with and without sha256."""
    many, hashed = fast.normalize_many, fast.normalize_and_hash_many
    runs: dict[str, Run] = {
        "canonry bookmark, list": lambda urls: list(many(urls, "bookmark")),
        "canonry bookmark, list, sha256": lambda urls: list(hashed(urls, "bookmark")),
        "canonry canonical_hash": lambda urls: [canonry.canonical_hash(url) for url in urls],
    }
    if find_versions(["pyarrow"])["pyarrow"] is not None:
        normalize = _get_function("canonry.bulk.arrow", "normalize")
        # The column for each list is made before the clock starts.
        runs[ARROW] = lambda urls: normalize(_make_column(urls))
        runs["canonry article, Arrow"] = lambda urls: normalize(_make_column(urls), "article")
        runs["canonry crawl, Arrow"] = lambda urls: normalize(_make_column(urls), "crawl")
        runs["canonry entry, Arrow"] = lambda urls: normalize(_make_column(urls), "entry")
        runs["canonry feed-aggressive, Arrow"] = lambda urls: normalize(_make_column(urls), "feed-aggressive")
        runs[f"{ARROW}, sha256"] = lambda urls: normalize(_make_column(urls), hash=True)
    return runs


_COLUMNS: dict[tuple[int, int, str, str], Any] = {}


def _make_column(urls: list[str]) -> Any:
    """Return the URLs as an Arrow column; it is made at the first call."""
    key = (id(urls), len(urls), urls[0], urls[-1])
    if key not in _COLUMNS:
        _COLUMNS[key] = _get_function("pyarrow", "array")(urls)
    return _COLUMNS[key]


def _get_function(module: str, name: str) -> Any:
    """Import a function of a peer; some peers have no types."""
    return getattr(import_module(module), name)


def _load_w3lib() -> Run:
    canonicalize = _get_function("w3lib.url", "canonicalize_url")
    return lambda urls: [canonicalize(url) for url in urls]


def _load_courlan() -> Run:
    clean = _get_function("courlan", "clean_url")  # scrubs, then normalizes; None if it gives up
    return lambda urls: [clean(url) for url in urls]


def _load_url_normalize() -> Run:
    normalize = _get_function("url_normalize", "url_normalize")
    return lambda urls: [normalize(url) for url in urls]


def _load_turbohtml() -> Run:
    normalize = _get_function("turbohtml.extract", "normalize_url")
    return lambda urls: [normalize(url) for url in urls]


def _load_ada_href() -> Run:
    parse = _get_function("ada_url", "URL")
    return lambda urls: [parse(url).href for url in urls]


def _load_ada_normalize() -> Run:
    normalize = _get_function("ada_url", "normalize_url")
    return lambda urls: [normalize(url) for url in urls]


def _load_can_ada() -> Run:
    parse = _get_function("can_ada", "parse")
    return lambda urls: [str(parse(url)) for url in urls]


def _load_yarl() -> Run:
    parse = _get_function("yarl", "URL")
    return lambda urls: [str(parse(url)) for url in urls]


PEERS = (
    Peer(BASE, "w3lib", "rewrites", _load_w3lib),
    Peer("courlan.clean_url", "courlan", "rewrites", _load_courlan),
    Peer("url_normalize.url_normalize", "url-normalize", "rewrites", _load_url_normalize),
    Peer("turbohtml.extract.normalize_url", "turbohtml", "rewrites", _load_turbohtml),
    Peer("ada_url.URL(u).href", "ada-url", "parses only", _load_ada_href),
    Peer("ada_url.normalize_url", "ada-url", "parses only", _load_ada_normalize),
    Peer("str(can_ada.parse(u))", "can_ada", "parses only", _load_can_ada),
    Peer("str(yarl.URL(u))", "yarl", "parses only", _load_yarl),
)


def _parse_positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return int(text)


if __name__ == "__main__":
    main(sys.argv[1:])
