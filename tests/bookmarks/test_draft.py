"""Drafts: bookmarks before they are saved."""

from __future__ import annotations

import pytest

from canonry.bookmarks.draft import clean_tags

CASES = [
    # why, given, wanted
    ("blanks around", [" Python", "python "], ("Python", "python")),
    ("blanks inside", ["a  b\n c"], ("a b c",)),
    ("each once", ["a", "b", "a"], ("a", "b")),
    ("none are empty", ["", " ", "a"], ("a",)),
    ("one text", "a, b c,,a", ("a", "b c")),
    ("nothing", "", ()),
]


@pytest.mark.parametrize(("why", "given", "wanted"), CASES, ids=[each[0] for each in CASES])
def test_tags_are_cleaned(why: str, given: str | list[str], wanted: tuple[str, ...]) -> None:
    assert clean_tags(given) == wanted, why
