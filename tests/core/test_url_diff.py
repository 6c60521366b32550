"""Diffs of URLs: whole tokens, and nothing lost between them."""

from __future__ import annotations

import pytest

from canonry.core.url_diff import TokenChange, diff_tokens

URL = "https://a.com/x"
CASES = [
    # why                       before              after                   wanted (removed, added)
    ("nothing changed",         URL,                URL,                    [(URL, URL)]),
    ("both empty",              "",                 "",                     []),
    ("all removed",             URL,                "",                     [(URL, "")]),
    ("all added",               "",                 URL,                    [("", URL)]),
    ("host in lower case",      "https://A.com/x",  URL,                    [("https://", "https://"), ("A.com", "a.com"), ("/x", "/x")]),
    ("scheme is one token",     "http://a.com/x",   URL,                    [("http://", "https://"), ("a.com/x", "a.com/x")]),
    ("scheme with backslashes", r"HTTP:\\a.com/x",  URL,                    [("HTTP:\\\\", "https://"), ("a.com/x", "a.com/x")]),
    ("parameter in the middle", f"{URL}?a=1&b=2&c", f"{URL}?a=1&c",         [(f"{URL}?a=1&", f"{URL}?a=1&"), ("b=2&", ""), ("c", "c")]),
    ("only parameter",          f"{URL}?utm=1",     URL,                    [(URL, URL), ("?utm=1", "")]),
    ("repeated segments",       f"{URL}/x/x",       URL,                    [(URL, URL), ("/x/x", "")]),
    ("order of parameters",     "/?b=2&a=1",        "/?a=1&b=2",            [("/?", "/?"), ("", "a=1&"), ("b=2", "b=2"), ("&a=1", "")]),
]  # fmt: skip


@pytest.mark.parametrize(("why", "before", "after", "wanted"), CASES)
def test_a_diff_consists_of_whole_tokens(why: str, before: str, after: str, wanted: list[tuple[str, str]]) -> None:
    assert diff_tokens(before, after) == [TokenChange(*pair) for pair in wanted], why


@pytest.mark.parametrize(("why", "before", "after", "wanted"), CASES)
def test_the_runs_join_to_both_urls(why: str, before: str, after: str, wanted: object) -> None:
    changes = diff_tokens(before, after)
    assert "".join(change.removed for change in changes) == before, why
    assert "".join(change.added for change in changes) == after, why


def test_too_many_tokens_to_compare_are_one_change() -> None:
    before, after = "/a" * 100, "/b" * 101
    common = "/"
    assert diff_tokens(before, after) == [
        TokenChange(common, common),
        TokenChange(before.removeprefix(common), after.removeprefix(common)),
    ]


def test_equal_runs_are_the_same() -> None:
    assert TokenChange("a", "a").is_same
    assert not TokenChange("a", "b").is_same
