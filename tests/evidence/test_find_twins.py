"""Which bookmarks are twins, and which are proven, by the facts of their pages (contract E5)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from canonry.bookmarks.duplicate_groups import group_duplicates
from canonry.bookmarks.twins import PageClue, Twin, find_twins, list_compared, outline_page
from canonry.evidence.facts import ControlResult, PageFact
from canonry.evidence.fingerprint import fingerprint_text
from canonry.evidence.same_page import Evidence
from page_texts import make_article

E = "https://example.com"
TEMPLATE = make_article(*range(100, 140))


def fact(path: str, text: str = "", *, moved: str = "", canonical: str = "", passed: bool = True) -> PageFact:
    control = ControlResult.PASSED if passed else ControlResult.SHOWN_EVERYWHERE
    return PageFact(
        f"{E}{path}",
        f"{E}{moved}" if moved else "",
        f"{E}{canonical}" if canonical else "",
        200,
        "One",
        fingerprint_text(make_article(1) if text == "" else text.strip()),
        "",
        "2026-01-31T10:00:00+00:00",
        control=control,
    )


def short(number: int) -> PageFact:
    return replace(fact("/", moved="/article"), url=f"https://short.test/{number}")


CASES = [
    # why                                facts                                                     evidence, is proven
    ("form", [fact("/a"), fact("/a/")], [(Evidence.SAME_TEXT, True)]),
    ("another text", [fact("/a"), fact("/a/", make_article(2))], []),
    ("moved", [fact("/old", moved="/new"), fact("/new")], [(Evidence.REDIRECT, True)]),
    ("moved, everything", [fact("/old", "x", moved="/new", passed=False), fact("/new", "x")], []),
    (
        "several pages moved to one",
        [*(fact(f"/old/{number}", "x", moved="/archive") for number in range(3)), fact("/archive", "x")],
        [(Evidence.REDIRECT, False)] * 5,
    ),
    (
        "two products that are no longer sold, and their category",
        [fact("/product/1", "x", moved="/shoes"), fact("/product/2", "x", moved="/shoes"), fact("/shoes", "x")],
        [(Evidence.REDIRECT, False)] * 3,
    ),
    (
        "two short links to one article",
        [short(1), short(2), fact("/article")],
        [(Evidence.REDIRECT, True)] * 3,
    ),
    ("declared", [fact("/print", canonical="/a"), fact("/a")], [(Evidence.DECLARED, True)]),
    ("declared, login form", [fact("/print", canonical="/a", passed=False), fact("/a")], [(Evidence.SAME_TEXT, False)]),
    (
        "two pages of a list in a large template",
        [fact("/list?page=2", f"{TEMPLATE} alpha beta", canonical="/list"), fact("/list", f"{TEMPLATE} gamma delta")],
        [(Evidence.SIMILAR_TEXT, False)],
    ),
    ("nothing in common", [fact("/a"), fact("/b", make_article(2), canonical="/c")], []),
    ("both declare a third", [fact("/b", canonical="/a"), fact("/c", canonical="/a")], [(Evidence.SAME_TEXT, False)]),
    (
        "two articles in a large template, one declares the other",
        [
            fact("/anna", f"{TEMPLATE} anna won", canonical="/bob"),
            fact("/bob", f"{TEMPLATE} bob won", canonical="/bob"),
        ],
        [(Evidence.SIMILAR_TEXT, False)],
    ),
    (
        "one page in a large template, with and without a slash",
        [fact("/a", f"{TEMPLATE} anna won"), fact("/a/", f"{TEMPLATE} bob won")],
        [(Evidence.SIMILAR_TEXT, True)],
    ),
    (
        "declared, login form of that name",
        [fact("/inbox", canonical="/login"), fact("/login")],
        [(Evidence.SAME_TEXT, False)],
    ),
    ("no text", [fact("/view?doc=1", " ", canonical="/view"), fact("/view", " ")], []),
]


@pytest.mark.parametrize(("why", "facts", "wanted"), CASES, ids=[case[0] for case in CASES])
def test_which_pages_are_twins_and_which_are_proven(
    why: str, facts: list[PageFact], wanted: list[tuple[Evidence, bool]]
) -> None:
    clues = [PageClue(number, each.url) for number, each in enumerate(facts)]
    found = find_twins(clues, {each.url: each for each in facts}, set())
    assert [(twin.evidence, twin.is_proven) for twin in found] == wanted


@pytest.mark.parametrize(("why", "facts", "wanted"), CASES, ids=[case[0] for case in CASES])
def test_only_what_shares_something_is_compared(
    why: str, facts: list[PageFact], wanted: list[tuple[Evidence, bool]]
) -> None:
    others = [fact(f"/other/{number}", make_article(50 + number)) for number in range(3)]
    clues = [PageClue(number, each.url) for number, each in enumerate([*facts, *others])]
    compared = list_compared([outline_page(clue, each) for clue, each in zip(clues, [*facts, *others], strict=True)])
    assert not {each.url for each in compared} & {each.url for each in others}
    twins = find_twins(compared, {each.url: each for each in facts}, set())
    assert [(twin.evidence, twin.is_proven) for twin in twins] == wanted


def twin(one: int, other: int) -> Twin:
    return Twin(one, other, Evidence.SAME_TEXT, is_proven=True)


GROUPS = [
    # why                        twins                                   refused            proven groups      suggestions
    ("a chain", [(1, 2), (2, 3)], [], [(1, 2, 3)], []),
    ("refused", [(1, 3), (2, 3)], [(1, 2)], [(1, 3)], [(2, 3)]),
    ("refused, in a longer chain", [(1, 3), (3, 4), (4, 5), (5, 2)], [(1, 2)], [(1, 3, 4, 5)], [(2, 5)]),
    ("refused, two groups", [(1, 3), (2, 4), (3, 4)], [(2, 1)], [(1, 3), (2, 4)], [(3, 4)]),
    ("refused, another one", [(1, 3), (2, 3)], [(1, 4)], [(1, 2, 3)], []),
]


@pytest.mark.parametrize(("why", "pairs", "refused", "proven", "guessed"), GROUPS, ids=[row[0] for row in GROUPS])
def test_what_a_person_refused_is_not_joined_by_a_third_one(
    why: str,
    pairs: list[tuple[int, int]],
    refused: list[tuple[int, int]],
    proven: list[tuple[int, ...]],
    guessed: list[tuple[int, ...]],
) -> None:
    keys = {number: f"key {number}" for number in range(1, 7)}
    groups = group_duplicates(keys, [twin(*pair) for pair in pairs], refused)
    assert sorted(group.ids for group in groups if group.is_proven) == proven
    assert [group.ids for group in groups if not group.is_proven] == guessed
    assert all(each.is_proven is group.is_proven for group in groups for each in group.twins)
