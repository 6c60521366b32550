"""Merging sorted runs."""

from __future__ import annotations

from typing import Any

import pytest

pa: Any = pytest.importorskip("pyarrow")
import canonry  # noqa: E402
from canonry.bulk import merge_runs  # noqa: E402
from canonry.bulk.job import BulkJob  # noqa: E402


def test_a_hash_that_continues_in_the_next_table_is_one_row() -> None:
    rows = [("a" * 64, 1), ("a" * 64, 2), ("a" * 64, 3), ("b" * 64, 4), ("c" * 64, 5), ("c" * 64, 6)]
    fields = [
        pa.array([key for key, _ in rows]), pa.array([f"https://{key[0]}" for key, _ in rows]),
        pa.array([None if place != 1 else "first" for _, place in rows]), pa.array([place for _, place in rows]),
        pa.array([10**place for _, place in rows]),
    ]  # fmt: skip
    table = pa.table(
        fields, schema=merge_runs.make_merge_schema(BulkJob(("a",), "o", canonry.policy("bookmark"), "w", "/"))
    )
    for size in range(1, 8):
        pieces = [table.slice(at, size) for at in range(0, 6, size)]
        found = pa.concat_tables(list(merge_runs.merge_sorted_rows([table.slice(0, 0), *pieces]))).to_pylist()
        assert [(row["url"], row["count"], row["first_variant"], row["place"], row["runs"]) for row in found] == [
            ("https://a", 1110, "first", 1, 3), ("https://b", 10_000, "https://b", 4, 1), ("https://c", 1_100_000, "https://c", 5, 2),
        ]  # fmt: skip
    assert list(merge_runs.merge_sorted_rows([])) == []
