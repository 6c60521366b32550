"""contract N8b: every site table does what its rows say, is a fixed point, and is well formed.

Run the rows of one site with `pytest tests/core/test_site_tables.py -k reddit`.
"""

from __future__ import annotations

import itertools

import pytest

import canonry
import site_format
import tables
from canonry.core import normalize as reference
from canonry.core.policy import Policy
from canonry.core.site_pages import MAIN_GROUP, SiteTables
from canonry.core.url import parse

FILES = site_format.read_site_files()
SITES = [file.id for file in FILES]
POLICY = canonry.policy("bookmark@2")
STRICT = Policy(
    "site-rows-strict", 1, sites=SITES, strip_www=True, normalize_escapes=True, collapse_slashes=True,
    strip_trailing_slash=True, sort_params=True, fragment="drop",
)  # fmt: skip
PLAIN = Policy("site-rows-plain", 1, sites=SITES)
ROWS = [pytest.param(row, id=f"{file.name}-{number}") for file in FILES for number, row in enumerate(file.rows, 1)]


def normalize(url: str, policy: Policy = POLICY) -> str:
    """Normalize with the reference; the C core is compared with it elsewhere."""
    return reference.normalize(url, policy)


def test_bookmark_has_every_site() -> None:
    assert sorted(SITES) == list(POLICY.sites), (
        "run: python tools/tables.py bump bookmark (and entry, article), make tables"
    )


def test_the_site_tables_are_generated_from_the_data() -> None:
    assert tables.SITE_TABLES.read_text(encoding="utf-8") == tables.make_site_tables_text(), "run: make tables"


@pytest.mark.parametrize("row", ROWS)
def test_a_row_holds(row: site_format.Row) -> None:
    answers = {url: normalize(url) for url in row.urls}
    if row.same:
        assert len(set(answers.values())) == 1, answers
    else:
        merged = [(a, b, answers[a]) for a, b in itertools.combinations(row.urls, 2) if answers[a] == answers[b]]
        assert merged == []


@pytest.mark.parametrize("row", ROWS)
def test_the_answer_for_a_row_is_a_fixed_point(row: site_format.Row) -> None:
    with_directives = [f"{url}{'' if '#' in url else '#'}:~:text=a" for url in row.urls]
    for policy, url in itertools.product((POLICY, STRICT, PLAIN), [*row.urls, *with_directives]):
        once = normalize(url, policy)
        assert normalize(once, policy) == once, f"{url} under {policy.id}"


@pytest.mark.parametrize(
    ("why", "given", "wanted"),
    [
        ("a page again", "https://www.zeit.de/amp/amp/politik/a", "https://www.zeit.de/politik/a"),
        ("again and again", f"https://www.zeit.de/{'amp/' * 8}a", "https://www.zeit.de/a"),
        ("too often", f"https://www.zeit.de/{'amp/' * 9}a", f"https://www.zeit.de/{'amp/' * 9}a"),
        ("a dot segment", "https://doi.org/10.48550/arxiv..", "https://doi.org/10.48550/arxiv.."),
        ("two dots", "https://doi.org/10.48550/arxiv...", "https://doi.org/10.48550/arxiv..."),
        ("a blank before a fragment", "https://ok.ru/dk?st.link=https%3A%2F%2Fa.com%20#b", "https://a.com/"),
        (
            "a listed fragment",
            "https://www.indiegogo.com/projects/a#/:~:text=b",
            "https://www.indiegogo.com/projects/a",
        ),
    ],
)
def test_what_a_table_writes_is_a_fixed_point(why: str, given: str, wanted: str) -> None:
    assert normalize(given) == canonry.normalize(given, POLICY) == wanted
    assert normalize(wanted) == canonry.normalize(wanted, POLICY) == wanted


@pytest.mark.parametrize("file", [pytest.param(file, id=file.name) for file in FILES])
def test_every_kind_of_page_has_rows(file: site_format.SiteFile) -> None:
    """Each page of a table is shown by a URL of a `same` row and by one of a `different` row."""
    site = SiteTables([{"blocks": file.blocks}], reference._make_get_dropped(POLICY))
    hit: dict[bool, set[int]] = {True: set(), False: set()}
    for row, url in [(each, url) for each in file.rows for url in each.urls]:
        parts = parse(url)
        entry = site.find(parts.host)
        page = site._find_page(parts, entry)[0] if entry else None
        if page is not None:
            hit[row.same].add(id(page))
    blocks = list({id(entry.block): entry.block for entry in site.list_hosts()}.values())
    missing = [
        f"page {number} ({page.paths[0].pattern}) has no {'same' if is_same else 'different'} row"
        for block in blocks
        for number, page in enumerate(block.pages, 1)
        for is_same in (True, False)
        if id(page) not in hit[is_same]
    ]
    assert missing == []


def test_a_main_host_is_a_host_of_the_same_block() -> None:
    """The pages of a host are looked for on its main host too: they are the same, whichever table names a longer host."""
    tables = reference.get_plan(POLICY).tables
    listed = {host for file in FILES for block in file.blocks for host, *_ in block["hosts"]}
    labels = {host.partition(".")[0] for host in listed} | {"en", "x1"}
    checked = 0
    for host in listed:
        for each in [host] if host[0] != "*" else [label + host[1:] for label in labels if label != "*"]:
            if entry := tables.find(each):
                main = tables.find(entry.get_main_host(each))
                assert main is not None and main.block is entry.block and main.group == MAIN_GROUP, each
                checked += 1
    assert checked > 1_400


@pytest.mark.native
@pytest.mark.parametrize("policy", [POLICY, STRICT, PLAIN], ids=lambda policy: policy.id)
def test_the_native_core_runs_the_tables(policy: Policy) -> None:
    """The C code gives the same answers, and answers itself with two exceptions.

    A template may need a filter that only Python has, and a policy that strips `www.` leaves a page to Python that moves
    to another host with `www.` (amzn.com, es.airbnb.com).
    """
    from canonry.core.native import CORE, _fast

    assert CORE == "native"
    urls = [url for file in FILES for row in file.rows for url in row.urls]
    assert [url for url in urls if _fast.normalize(url, policy) != normalize(url, policy)] == []
    left = [url for url in urls if not _fast.is_simple(url, policy)]
    assert {url.split("/")[2].removeprefix("www.") for url in left} <= {
        *("bing.com", "urldefense.com", "urldefense.us"),
        *(["amzn.com", "es.airbnb.com", "fr.airbnb.ca", "zh-t.airbnb.com"] if policy.strip_www else []),
    }
