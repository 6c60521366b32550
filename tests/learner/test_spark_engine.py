"""Spark finds what DuckDB finds, byte for byte (contract L6)."""

from __future__ import annotations

import random
import shutil

import pytest
from benchmarks.learn_sites import KINDS, make_sites

import canonry

pytest.importorskip("pyspark")
_needs_java = pytest.mark.skipif(
    shutil.which("java") is None, reason="needs Java: apt-get install default-jre-headless"
)


@pytest.mark.slow
@_needs_java
def test_both_engines_learn_the_same_of_generated_sites_in_any_order() -> None:
    rows = [row for site in make_sites(552, KINDS, hosts=1) for row in site.rows]
    one = canonry.learn(rows)
    random.Random(6).shuffle(rows)
    other = canonry.learn(rows, engine="spark", master="local[2]")
    assert len(one.rules) > 20
    assert one == other
    assert one.overrides().encode() == other.overrides().encode()


@pytest.mark.slow
@_needs_java
def test_both_engines_give_the_same_result() -> None:
    rows = [
        {
            "url": f"https://{host}.example/item?kind={n}&zog={n * 3 + c}",
            "content_hash": f"{host} {n}",
            "simhash": (1 << 63) + n,
            "fetched_at": float(n),
        }
        for host in ("one", "two", "www.two", "three")
        for n in range(40)
        for c in range(3)
    ]
    rows.append({"url": "nonsense", "content_hash": "x"})
    one = canonry.learn(rows)
    other = canonry.learn(rows[::-1], engine="spark", master="local[2]")
    assert len(one.rules) >= 3
    assert one == other
    assert one.overrides() == other.overrides()
