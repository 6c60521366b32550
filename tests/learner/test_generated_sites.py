"""On generated sites the learner finds the rules and merges nothing that differs (contract L3)."""

from __future__ import annotations

import pytest
from benchmarks.learn import Score, learn_sites, score_rules
from benchmarks.learn_sites import KINDS, make_sites

pytest.importorskip("duckdb")


@pytest.mark.slow
def test_generated_sites_are_learned() -> None:
    sites = make_sites(7, KINDS, hosts=1)
    score = Score()
    score_rules(score, sites, list(learn_sites(sites, 7)))
    figures = score.summarize()
    assert figures["precision"] == 1
    assert figures["recall"] >= 0.9
    assert figures["false_merges"] == 0
    assert figures["reduction"] >= 0.8
