"""Contract C8: which parts of a URL look like a session identifier, and what pairs of pages prove."""

from __future__ import annotations

import pytest

from canonry.crawler.session_ids import (
    PairVerdict,
    SessionRule,
    TextOfPage,
    compare_pair,
    find_selectors,
    find_session_id,
    is_control,
    is_repeat,
    learn_from_pair,
    looks_random,
)
from canonry.evidence.fingerprint import Fingerprint

SITE = "https://a.example"
HEX = "9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c"
PHP = "k3v8d0q1m2n4b5c6x7z8a9s1d2"

FOUND = [
    # why                            URL                                          without it                 scope
    ("PHP",                          f"/b?PHPSESSID={PHP}",                       "/b",                      "phpsessid /"),
    ("among other parameters",       f"/b?id=7&PHPSESSID={PHP}&x=1",              "/b?id=7&x=1",             "phpsessid /"),
    ("in the path",                  f"/x/b;jsessionid={HEX.upper()}?id=7",       "/x/b?id=7",               "jsessionid /x/"),
    ("with the route of a server",   f"/b;jsessionid={HEX.upper()}.node1",        "/b",                      "jsessionid /"),
    ("WebLogic",                     f"/b;JSESSIONID={PHP}%21-16%211021",         "/b",                      "jsessionid /"),
    ("a script is a scope",          f"/forum/viewtopic.php?t=1&sid={HEX}",       "/forum/viewtopic.php?t=1", "sid /forum/viewtopic.php"),
    ("numbers of folders",           f"/user/17/b?sid={HEX}",                     "/user/17/b",              "sid /user/N/"),
    ("ASP.NET without cookies",      "/(S(lit3py55t21z5v55vlm25s55))/b.aspx",     "/b.aspx",                 "(s) /b.aspx"),
    ("another name, random value",   f"/b?token={HEX}",                           "/b",                      "token /"),
    ("a usual name first",           f"/b?token={HEX}&sid={PHP}",                 f"/b?token={HEX}",         "sid /"),
    ("a UUID",                       "/b?sessionid=8f14e45f-ceea-467f-ab5c-2f5a7d1e9b3c", "/b",              "sessionid /"),
]  # fmt: skip
NOT_FOUND = [
    ("a number", "/b?sid=3"),
    ("a long number", "/b?sid=20240131120000123456"),
    ("a word", "/b?sid=introduction-to-sessions"),
    ("a slug with a year", "/b?session=spring-meeting-2024-in-berlin"),
    ("a title", "/b?sid=The_Quick_Brown_Fox_2024"),
    ("short", "/b?PHPSESSID=abc123"),
    ("empty", "/b?PHPSESSID="),
    ("nothing", "/b"),
    ("a semicolon in a name", "/a;b/c"),
]


@pytest.mark.parametrize(("why", "url", "stripped", "scope"), FOUND)
def test_a_session_identifier_is_found_by_its_shape(why: str, url: str, stripped: str, scope: str) -> None:
    found = find_session_id(SITE + url)
    assert found is not None, why
    assert (found.stripped_url, found.scope) == (SITE + stripped, scope)


@pytest.mark.parametrize(("why", "url"), NOT_FOUND)
def test_a_name_alone_is_no_session_identifier(why: str, url: str) -> None:
    assert find_session_id(SITE + url) is None, why


def test_random_values_are_recognised() -> None:
    assert all(map(looks_random, (HEX, HEX.upper(), PHP, "Xk29fLq81mZp03Rt", "u4h-9dK2-fJ38-xQ71-m5")))


def make_text(
    *, text_hash: str = "a", simhash: int = 0b1111, words: int = 100, title: str = "Title", target: str = "/x"
) -> TextOfPage:
    """A page with one link, or none."""
    return TextOfPage(Fingerprint(text_hash, simhash, words), title, frozenset(filter(None, [target])))


LONG, SHORT, EMPTY = make_text(), make_text(words=5), make_text(words=0)
PAIRS = [
    ("equal",                          LONG,                       LONG,                                        PairVerdict.SAME),
    ("another title",                  LONG,                       make_text(title="Other"),                    PairVerdict.DIFFERENT),
    ("another text",                   LONG,                       make_text(text_hash="b", simhash=2**40 - 1), PairVerdict.DIFFERENT),
    ("nearly equal",                   LONG,                       make_text(text_hash="b", simhash=0b0111),    PairVerdict.NEAR),
    ("nearly equal, but longer",       LONG,                       make_text(text_hash="b", words=120),         PairVerdict.DIFFERENT),
    ("short with equal links",         SHORT,                      SHORT,                                       PairVerdict.SAME),
    ("short with other links",         SHORT,                      make_text(words=5, target="/y"),             PairVerdict.UNCLEAR),
    ("short without links",            make_text(words=5, target=""), make_text(words=5, target=""),            PairVerdict.UNCLEAR),
    ("short and different",            SHORT,                      make_text(text_hash="b", words=5),           PairVerdict.DIFFERENT),
    ("no text",                        EMPTY,                      EMPTY,                                       PairVerdict.UNCLEAR),
]  # fmt: skip


@pytest.mark.parametrize(("why", "first", "second", "wanted"), PAIRS)
def test_what_a_pair_tells(why: str, first: TextOfPage, second: TextOfPage, wanted: PairVerdict) -> None:
    assert compare_pair(first, second) is wanted, why
    assert compare_pair(second, first) is wanted, why


SAME, NEAR, UNCLEAR, DIFFERENT = PairVerdict.SAME, PairVerdict.NEAR, PairVerdict.UNCLEAR, PairVerdict.DIFFERENT
RULES = [
    # why                           a usual name   pairs and their pages                              holds
    ("nothing seen",                       True,  [],                                                 False),
    ("one pair",                           True,  [(SAME, "a")],                                      True),
    ("unclear pairs",                      True,  [(UNCLEAR, "a")] * 5,                               False),
    ("another name, one page",             False, [(SAME, "a")] * 9,                                  False),
    ("another name, three pages",          False, [(SAME, "a"), (SAME, "b"), (SAME, "c")],            True),
    ("a counter-example",                  True,  [(SAME, "a"), (DIFFERENT, "b")],                    False),
    ("is for good",                        True,  [(DIFFERENT, "a"), (SAME, "b"), (SAME, "c")],       False),
    ("nearly the same text",               True,  [(SAME, "a"), (NEAR, "a")],                         False),
    ("a clock on a proven site",           True,  [(SAME, "a"), (SAME, "b"), (SAME, "c"), (NEAR, "d")], True),
    ("its own pairs do not prove it",      True,  [(SAME, "a"), (SAME, "b"), (SAME, "c"), (NEAR, "c")], False),
]  # fmt: skip


@pytest.mark.parametrize(("why", "is_named", "pairs", "wanted"), RULES)
def test_when_a_rule_holds(why: str, is_named: bool, pairs: list[tuple[PairVerdict, str]], wanted: bool) -> None:
    rule = SessionRule(is_named=is_named)
    for verdict, group in pairs:
        rule = learn_from_pair(rule, verdict, group)
    assert rule.is_active is wanted, why


def test_a_repeat_needs_a_rule_that_holds() -> None:
    proven = SessionRule(groups=("a", "b", "c"))
    assert is_repeat(proven, SAME, "d") and is_repeat(proven, NEAR, "d")
    assert not is_repeat(proven, NEAR, "a") and not is_repeat(proven, UNCLEAR, "d")
    assert not is_repeat(SessionRule(), SAME, "d")


def test_a_few_of_the_pages_that_a_rule_covers_are_read_as_a_control() -> None:
    assert [number for number in range(1, 1000) if is_control(number)] == [1, 4, 16, 64, 256]


def test_different_values_on_one_page_select_content() -> None:
    other = PHP.replace("k", "j")
    assert find_selectors([f"{SITE}/a?sid={PHP}", f"{SITE}/b?sid={PHP}", f"{SITE}/a?sid={PHP}"]) == set()
    assert find_selectors([f"{SITE}/a?sid={PHP}", f"{SITE}/b?sid={other}"]) == set()
    assert find_selectors([f"{SITE}/a?sid={PHP}", f"{SITE}/a?sid={other}"]) == {"sid /"}
