"""Pages are cut where elements are nested too deeply, however their tags are written."""

from __future__ import annotations

import time

import pytest

from canonry.net.deep_nesting import MAX_DEPTH, cut_deep_nesting


@pytest.mark.parametrize("unit", ["<g a=/>", '<g a="/>">', """<g a='"' b="/>">""", "<g a b=c/>"])
def test_elements_whose_slash_is_part_of_a_value_are_open(unit: str) -> None:
    assert len(cut_deep_nesting("<svg>" + unit * 100_000)) <= len("<svg>") + len(unit) * (MAX_DEPTH + 1)


@pytest.mark.parametrize(
    "unit", ["<div></b>", "<!--><div>", "<svg><style><g>", "<textarea></textarea><b>", "<div/>", "<path/>"]
)
def test_deep_pages_are_cut_whatever_stands_between_their_tags(unit: str) -> None:
    for before in (
        "",
        "<svg></svg>",
        "<svg/>",
        "<svg></p>",
        "<svg><foreignObject>",
        "<svg><title>",
        "<svg><desc><b></desc>",
    ):
        assert len(cut_deep_nesting(before + unit * 100_000)) <= len(before) + len(unit) * (MAX_DEPTH + 1)


def test_unfinished_scripts_and_comments_take_little_time() -> None:
    started = time.process_time()
    for unit in ("<script>", "<!--", "<b><!--", "<div", "</", "<title></title"):
        cut_deep_nesting(unit * 500_000)
    assert time.process_time() - started < 30  # seconds of CPU
