"""Compare the C code with the reference on any number of random inputs, each under a random policy.

    PYTHONPATH=.:tools python tests/fuzz_native.py --count 10000000 [--seed N]

One URL at a time, as a list, and as Arrow columns of every layout: texts, None and InvalidUrl must agree.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import random
import time
from typing import TYPE_CHECKING

from benchmarks.site_corpus import make_site_urls

import corpora
import random_overrides
from canonry.core import normalize as reference
from canonry.core.policy import Policy
from canonry.core.presets import policies, policy
from canonry.errors import InvalidUrl, PolicyError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BATCH = 600
LAYOUTS = ("string", "large_string", "string_view")
OVERRIDES_SHARE = 0.02  # of the batches, each with overrides of its own
CHECKED_SHARE = 0.1  # of the URLs left to the reference, which is then compared with itself
ENDS = ("", "", "", "/", "//", "?", "#", "%", "%2", "/.", "/..", "&", "&a", " ", "\\", "\ud800", "é", "💩", "\x00")
SITE_ENDS = (
    "utm_source=1",
    "fb_ref=1&id=2",
    "v=abc&t=5#xtor=1",
    "q=https%3A%2F%2Fexample.com%2F",
    "#:~:text=a",
    "a=%2f%41",
)
STARTS = ("https://a.com/", "http://www.example.com/?", "HTTPS://b.blogspot.com/a?b=1#", "https://x")
PIECES = ("a", "/", "//", "%41", "%2e", "%", "&", "b=1", "&utm_x=1", "é", "www.", ".", "x" * 60, "?", "#")


def all_policies() -> list[Policy]:
    """Return every shipped policy, and three more with options that no shipped policy has."""
    own = Policy(
        "own",
        1,
        strip_www=True,
        normalize_escapes=True,
        sort_params=True,
        fragment="routes",
        strip_params=["a", "é", "x*"],
        strip_params_on={"example.com": ["b", "utm_*"], "www.example.com": ["v"], "localhost": ["q"]},
    )
    with_sites = Policy(
        "with-sites",
        1,
        strip_www=True,
        collapse_slashes=True,
        fragment="routes",
        sites=["youtube@1", "x@1", "blogger@1", "feedburner@1"],
    )
    all_sites = Policy(
        "all-sites",
        1,
        strip_www=True,
        normalize_escapes=True,
        sort_params=True,
        keep_embedded=True,
        fragment="routes",
        strip_params=["id", "t", "utm_*"],
        strip_params_on={"www.youtube.com": ["index"], "x.com": ["s"], "en.wikipedia.org": ["action"]},
        sites=policy("bookmark").sites,
    )
    return [*policies(), own, with_sites.with_overrides(corpora.SEED_003_OVERRIDES), all_sites]


def add_random_overrides(choose: random.Random, policy: Policy) -> Policy:
    """Return the policy with overrides of the format overrides.v1 that it accepts."""
    while True:
        try:
            return policy.with_overrides(random_overrides.make_overrides(choose))
        except PolicyError:
            continue


def inputs(choose: random.Random, count: int) -> Iterator[str]:
    """Make inputs: mostly mutated real URLs; also built URLs, random text, raw bytes and long URLs."""
    real = corpora.get_real_or_generated_urls()
    rows = list_site_urls()
    made = make_site_urls(count, choose.randrange(1 << 30))
    for number in range(count):
        kind = choose.random()
        if kind < 0.15:
            yield corpora.mutate_url(choose, choose.choice(rows))
        elif kind < 0.3:
            yield corpora.mutate_url(choose, made[number])
        elif kind < 0.4:
            yield _mix(choose, made[number], made[choose.randrange(count)])
        elif kind < 0.55:
            yield corpora.mutate_url(choose, choose.choice(real))
        elif kind < 0.75:
            yield corpora.build_url(choose) + choose.choice(ENDS)
        elif kind < 0.9:
            yield corpora.make_random_text(choose)
        elif kind < 0.98:
            yield _with_raw_bytes(choose, choose.choice(real))
        else:
            yield choose.choice(STARTS) + "".join(choose.choices(PIECES, k=choose.randrange(1, 200)))


def _mix(choose: random.Random, url: str, other: str) -> str:
    """Add the query of another URL, or put its path on the host of this one."""
    if choose.random() < 0.5:
        return url + ("&" if "?" in url else "?") + other.partition("?")[2]
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/{other.partition('://')[2].partition('/')[2]}"


@functools.cache
def list_site_urls() -> list[str]:
    """Return the URLs of the rows of every site table, and pieces of them put together."""
    import site_format

    rows = [url for file in site_format.read_site_files() for row in file.rows for url in row.urls]
    return rows + [
        f"{url}{'&' if '?' in url else '?'}{extra}" for url, extra in zip(rows, SITE_ENDS * len(rows), strict=False)
    ]


def _with_raw_bytes(choose: random.Random, url: str) -> str:
    raw = bytearray(url.encode())
    for _ in range(choose.randrange(1, 5)):
        raw[choose.randrange(len(raw))] = choose.randrange(256)
    return raw.decode("utf-8", choose.choice(("surrogateescape", "replace")))


def answer(normalize: object, url: str, policy: Policy) -> object:
    """Return the normalized URL, or the type, arguments and message of the error."""
    try:
        return normalize(url, policy)  # type: ignore[operator]
    except InvalidUrl as error:
        return type(error), error.args, str(error)


def differences(urls: list[str], policy: Policy, layouts: Sequence[str] = LAYOUTS) -> list[tuple[str, object, object]]:
    """Return the inputs for which the C code and the reference differ, with both answers."""
    from canonry.core.native import _fast as native

    found: list[tuple[str, object, object]] = []
    wanted: list[str | None] = []
    for url in urls:
        want, got = answer(reference.normalize, url, policy), answer(native.normalize, url, policy)
        wanted.append(want if isinstance(want, str) else None)
        if want != got:
            found.append((url, want, got))
    hashes = [None if want is None else (want, hashlib.sha256(want.encode()).hexdigest()) for want in wanted]
    found += _unequal(urls, wanted, native.normalize_many(urls, policy))
    found += _unequal(urls, hashes, native.normalize_and_hash_many(iter(urls), policy))
    return found + _arrow_differences(urls, hashes, policy, layouts)


def _arrow_differences(
    urls: list[str], hashes: list[tuple[str, str] | None], policy: Policy, layouts: Sequence[str]
) -> list[tuple[str, object, object]]:
    import pyarrow as pa

    from canonry.bulk import arrow

    texts = [url for url in urls if url.isascii() or url.encode("utf-8", "replace").decode() == url]
    by_url = dict(zip(urls, hashes, strict=True))
    wanted = [by_url[text] for text in texts]
    found: list[tuple[str, object, object]] = []
    for layout in layouts:
        column = pa.array([None, *texts], getattr(pa, layout)())[1:]
        pairs = zip(*(each.to_pylist() for each in arrow.normalize(column, policy, hash=True).flatten()), strict=True)
        found += _unequal(texts, wanted, [None if url is None else (url, digest) for url, digest in pairs])
    return found


def _unequal(urls: list[str], wanted: object, got: object) -> list[tuple[str, object, object]]:
    rows = zip(urls, wanted, got, strict=True)  # type: ignore[call-overload]
    return [(url, want, have) for url, want, have in rows if want != have]


def main() -> None:
    """Compare until done or until the first difference."""
    from canonry.core.native._fast import is_simple

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    choose, chosen = random.Random(options.seed), all_policies()
    start, native = time.monotonic(), 0
    for done in range(0, options.count, BATCH):
        policy = choose.choice(chosen)
        urls = list(inputs(choose, BATCH))
        if policy.parse and choose.random() < OVERRIDES_SHARE:
            policy = add_random_overrides(choose, policy)
            urls = [random_overrides.make_url(choose) for _ in urls]
        simple = [url for url in urls if is_simple(url, policy)]
        native += len(simple)
        others = [url for url in urls if choose.random() < CHECKED_SHARE and not is_simple(url, policy)]
        found = differences(simple + others, policy, [choose.choice(LAYOUTS)])
        if found:
            raise SystemExit(f"seed {options.seed}, after {done}: {found[:5]}")
        if done // BATCH % 1000 == 0:
            print(f"{done:,} inputs, {native:,} native, no difference, {time.monotonic() - start:.0f} s", flush=True)
    print(f"{options.count:,} inputs, {native:,} native, no difference, {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
