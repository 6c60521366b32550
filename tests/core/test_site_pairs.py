"""contract N8b: further pairs of URLs people share on the listed sites, written without looking at the tables' rows."""

from __future__ import annotations

from pathlib import Path

import canonry

LINES = (Path(__file__).parent.parent / "cases" / "site_pairs.txt").read_text(encoding="utf-8").splitlines()


def test_pairs_are_one_page_or_two() -> None:
    wrong: list[str] = []
    for line in LINES:
        expected, a, b = line.split(" ")
        assert expected in ("same", "different")
        if (canonry.normalize(a, "bookmark@2") == canonry.normalize(b, "bookmark@2")) != (expected == "same"):
            wrong.append(line)
    assert wrong == []
