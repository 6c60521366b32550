"""Spark finds what DuckDB finds, byte for byte (contract L6)."""

from __future__ import annotations

import shutil

import pytest

import canonry

pytest.importorskip("pyspark")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java: apt-get install default-jre-headless")
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
