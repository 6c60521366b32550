"""contract N8b: pages of a small site table that lead from one to another, and patterns that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from canonry.core.site_pages import MAX_MOVES, SiteTables
from canonry.core.site_patterns import split_pattern
from canonry.core.url import parse


def make_tables(*pages: dict[str, Any], keep_embedded: bool = False) -> SiteTables:
    """Make the table of www.a.com and its mirror m.a.com."""
    hosts = [("a.com", "www.a.com", 0, "", ()), ("m.a.com", "www.a.com", 0, "", ())]
    block = {"hosts": hosts, "https": True, "slash": "strip", "pages": pages}
    return SiteTables([{"blocks": [block]}], lambda _host: lambda _param: False, keep_embedded=keep_embedded)


def move(tables: SiteTables, url: str) -> tuple[str, bool]:
    """Return the URL after rule 2, and whether no other rule may change it."""
    parts = parse(url)
    is_settled = tables.move_host(parts)
    return str(parts), is_settled


def rewrite(tables: SiteTables, url: str) -> str:
    """Return the URL after rule 8."""
    parts = parse(url)
    tables.rewrite_path(parts)
    return str(parts)


OLD = {"path": ["/old/{id}"], "write": "/new/{id}"}
MOVES = [
    # why                              pages                                                            wanted
    ("an ordinary page", [{"path": ["/new/{id}"]}], ("https://www.a.com/old/b.com", False)),
    ("a page of another host", [{"path": ["/new/{id}"], "write": "https://c.com/{id}"}], ("https://c.com/b.com", False)),
    ("a redirect page", [{"path": ["/new/{id}"], "target": "https://{id}/"}], ("https://b.com/", False)),
    ("a page kept whole", [{"path": ["/new/{id}"], "whole": True}], ("https://www.a.com/new/b.com", True)),
    (
        "by way of a third page",
        [{"path": ["/new/{id}"], "write": "/go/{id}"}, {"path": ["/go/{id}"], "target": "https://{id}/"}],
        ("https://b.com/", False),
    ),
    ("no web address", [{"path": ["/new/{id}"], "target": "ftp://{id}/"}], ("https://www.a.com/old/b.com", False)),
]  # fmt: skip


@pytest.mark.parametrize(("pages", "wanted"), [pytest.param(*case[1:], id=case[0]) for case in MOVES])
def test_a_page_is_written_first_if_it_then_leaves_the_host(
    pages: list[dict[str, Any]], wanted: tuple[str, bool]
) -> None:
    assert move(make_tables(OLD, *pages), "http://m.a.com/old/b.com") == wanted


@pytest.mark.parametrize(
    ("keep_embedded", "url", "wanted"),
    [
        (True, "http://m.a.com/save/https://b.com/", ("https://www.a.com/save/https://b.com/", True)),
        (True, "http://m.a.com/save/b.com/", ("https://www.a.com/save/b.com/", False)),
        (False, "http://m.a.com/save/https://b.com/", ("https://www.a.com/save/https://b.com/", False)),
    ],
)
def test_a_page_with_an_address_in_its_path_is_left_as_it_is(
    keep_embedded: bool, url: str, wanted: tuple[str, bool]
) -> None:
    tables = make_tables({"path": ["/save/{rest+}"], "fragment": "drop"}, keep_embedded=keep_embedded)
    assert move(tables, url) == wanted


def test_pages_that_write_each_other_end() -> None:
    tables = make_tables({"path": ["/a/{id}"], "write": "/b/{id}"}, {"path": ["/b/{id}"], "write": "/a/{id}"})
    assert move(tables, "http://m.a.com/a/1") == ("https://www.a.com/a/1", False)
    for url in ("https://www.a.com/a/1", "https://www.a.com/b/1"):
        assert rewrite(tables, rewrite(tables, url)) == rewrite(tables, url)


@pytest.mark.parametrize("steps", [MAX_MOVES - 1, MAX_MOVES, MAX_MOVES + 1])
def test_a_chain_of_pages_is_followed_for_some_steps(steps: int) -> None:
    pages = [{"path": [f"/{number}/{{id}}"], "write": f"/{number + 1}/{{id}}"} for number in range(steps)]
    last = steps if steps <= MAX_MOVES else 0  # a longer chain is left as it is, so that the answer is a fixed point
    assert rewrite(make_tables(*pages), "https://www.a.com/0/x") == f"https://www.a.com/{last}/x"
    leaving = {"path": [f"/{steps}/{{id}}"], "target": "https://b.com/{id}"}
    wanted = "https://b.com/x" if steps <= MAX_MOVES else "https://www.a.com/0/x"
    assert move(make_tables(*pages, leaving), "https://www.a.com/0/x") == (wanted, False)


@pytest.mark.parametrize("pattern", ["/{id:nothing}", "/{id", "/id}", "/{ID}", "/{id:digits:}", "/{}"])
def test_malformed_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="unknown class|malformed capture"):
        list(split_pattern(pattern))
