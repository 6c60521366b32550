"""Check that the native core does not leak: ten million URLs, and the resident memory before and after.

PYTHONPATH=.:tests python tests/native/leaks.py [URLS]
"""

from __future__ import annotations

import gc
import resource
import sys

import pyarrow as pa
from benchmarks.corpus import make_dirty_urls

import corpora
import fuzz_native
from canonry.bulk import arrow
from canonry.core.native import _fast

MEGABYTE = 1024 * 1024
WARM_UP = 3


def main(wanted: int) -> int:
    """Print the growth; return 1 if it is more than noise."""
    # Few of these are left to the reference, which is not what is tested here.
    urls = [
        *corpora.get_real_or_generated_urls()[:9_000],
        *make_dirty_urls(700),
        *["nope", "https://é.com/", "\ud800"] * 20,
    ]
    column = pa.array([url for url in urls if url != "\ud800"])
    policies = fuzz_native.all_policies()
    rounds = max(WARM_UP + 1, wanted // (len(urls) * 4 + len(column) * 2))
    before = 0
    for number in range(rounds):
        if number == WARM_UP:
            gc.collect()
            before = resident()
        policy = policies[number % len(policies)]
        for url in urls:
            try:
                _fast.normalize(url, policy)
                _fast.canonical_hash(url, policy)
            except ValueError:
                pass
        _fast.normalize_many(urls, policy.with_fragment(policy.fragment))  # a new policy, for which new rules are made
        _fast.normalize_and_hash_many(urls, policy)
        arrow.normalize(column, policy)
        arrow.normalize(column, policy, hash=True)
    gc.collect()
    grown = (resident() - before) / MEGABYTE
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{rounds * (len(urls) * 4 + len(column) * 2):,} URLs answered: resident size grew by {grown:.1f} MB, peak {peak:.0f} MB"
    )
    return 0 if grown < 8 else 1


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000))
