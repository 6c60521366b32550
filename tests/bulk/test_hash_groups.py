"""Columns of hashes: grouping and order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pa: Any = pytest.importorskip("pyarrow")
from canonry.bulk import hash_groups  # noqa: E402


def test_hashes_with_the_same_first_digits_are_told_apart() -> None:
    texts = ["0" * 16 + ending * 48 for ending in "bacab"] + ["f" * 64, "0" * 64]
    raw = np.frombuffer("".join(texts).encode(), np.uint8).reshape(-1, 64)
    firsts, counts = hash_groups.group_hashes(raw)
    assert [texts[at] for at in firsts] == sorted(set(texts))
    assert firsts.tolist() == [6, 1, 0, 2, 5] and counts.tolist() == [1, 2, 2, 1, 1]
    assert hash_groups.find_group_starts(raw[[0, 4, 1, 3, 5]]).tolist() == [0, 2, 4]
    assert hash_groups.is_ascending(pa.array(sorted(set(texts))), "") and not hash_groups.is_ascending(
        pa.array(texts[:2]), ""
    )
    assert not hash_groups.is_ascending(pa.array(["a" * 64]), "a" * 64) and hash_groups.is_ascending(
        pa.array([], pa.string()), "x"
    )
