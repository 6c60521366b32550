"""contract N8c: the everyday pairs of tests/cases/, and further ones of the same sites, under bookmark@2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import canonry
from canonry.core import normalize as reference

CASES = Path(__file__).parent.parent / "cases"
PAIRS = [
    pair
    for file in ("everyday_pairs.json", "further_pairs.json")
    for pair in json.loads((CASES / file).read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("pair", [pytest.param(pair, id=f"{pair['site']}-{pair['id']}") for pair in PAIRS])
def test_a_pair_is_one_page_or_two(pair: dict[str, str]) -> None:
    a, b = canonry.normalize(pair["a"], "bookmark@2"), canonry.normalize(pair["b"], "bookmark@2")
    assert ("same" if a == b else "different") == pair["expect"], f"{a} and {b}: {pair['why']}"
    assert reference.normalize(pair["a"], "bookmark@2") == a
    assert reference.normalize(a, "bookmark@2") == a
