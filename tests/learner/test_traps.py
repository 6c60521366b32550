"""Sites on which contents seem to say that a part of the URL does not matter, but it does (contract L3)."""

from __future__ import annotations

import random
import zlib

import pytest

import canonry

pytest.importorskip("duckdb")
DAY = 86_400
HOST = "https://s.example"
Rows = list[dict[str, object]]


def learn_names(rows: object) -> list[str]:
    return [rule.name for rule in canonry.learn(rows).rules]


def test_a_parameter_that_selects_all_pages_of_one_path_is_dropped_elsewhere_only() -> None:
    """All these pages are one group without the parameter, but it merges sixty of them."""
    rows = [(f"{HOST}/p/{n}?sid={n * 2 + c}", f"page {n}") for n in range(1000) for c in range(2)]
    rows += [(f"{HOST}/ticket?sid={n + 9000}", f"ticket {n}") for n in range(60)]
    assert learn_names(rows) == ["folder:/p/|sid"]


def test_one_of_two_parameters_that_select_a_page_is_kept_if_it_comes_alone() -> None:
    rows = [(f"{HOST}/product?id={n}{tail}", f"p {n}") for n in range(1000) for tail in ("", f"&slug=s{n}")]
    rows += [(f"{HOST}/product?slug=s{n}", f"p {n}") for n in range(30)]
    assert learn_names(rows) == []


def test_versions_that_were_crawled_one_after_the_other_are_no_edits() -> None:
    """A page in six did not change between the versions; the others look as if they had been edited."""
    rows = [
        {
            "url": f"{HOST}/docs/{version}/page-{n}x",
            "content_hash": f"{n}" if n % 6 == 0 else f"{n} {version}",
            "fetched_at": (start + visit * 7) * DAY + n,
        }
        for n in range(150)
        for version, start in (("v1", 0), ("v2", 60))
        for visit in range(4)
    ]
    assert learn_names(rows) == []


def test_a_parameter_that_was_found_later_is_no_edit() -> None:
    """On a site where pages do change, the second tab of some pages has another content."""
    rows: Rows = []
    for n in range(200):
        for visit in range(4):
            content = f"{n} a {n < 10 and visit > 2}"
            rows.append({"url": f"{HOST}/p/{n}?tab=a", "content_hash": content, "fetched_at": visit * DAY + n})
        content = f"{n} b" if n % 5 == 0 else f"{n} a {n < 10}"
        rows.append({"url": f"{HOST}/p/{n}?tab=b", "content_hash": content, "fetched_at": 20 * DAY + n})
    assert learn_names(rows) == []


LISTS: Rows = [
    {"url": f"https://shop.example/list/{number}{tail}", "canonical_url": f"https://shop.example/list/{number}"}
    for number in range(60)
    for tail in ("", "?page=2", "?page=3", "?page=4")
]
OTHERS: Rows = [
    {"url": f"https://shop.example/post/{number}{tail}", "canonical_url": f"https://shop.example/post/{number}"}
    for number in range(60)
    for tail in ("", f"?zog={number}", f"?zog={number + 1}")
]
AGREEING = [dict(row, content_hash=row["canonical_url"]) for row in OTHERS]


@pytest.mark.parametrize(
    "rows",
    [
        LISTS,
        LISTS + AGREEING,
        [dict(row, content_hash=row["url"]) for row in LISTS],
        [dict(row, content_hash=row["url"] if number % 2 else None) for number, row in enumerate(LISTS)],
        [dict(row, content_hash=f"{row['url']} {fetch}") for row in LISTS for fetch in range(2)],
        [dict(row, simhash=zlib.crc32(str(row["url"]).encode()) << 16) for row in LISTS],
        [dict(row, content_hash="busy" if number % 4 else row["url"]) for number, row in enumerate(LISTS)],
    ],
)
def test_pages_that_name_the_first_page_of_their_list_stay_apart(rows: Rows) -> None:
    assert not [name for name in learn_names(rows) if "page" in name]


def test_declared_canonicals_add_to_what_contents_prove() -> None:
    known = {f"https://shop.example/post/{number}" for number in range(0, 60, 6)}
    rows = [dict(row, content_hash=row["canonical_url"] if row["canonical_url"] in known else None) for row in OTHERS]
    learned = canonry.learn(rows)
    assert [(rule.name, rule.support) for rule in learned.rules] == [("param:zog", 60)]
    assert canonry.learn(OTHERS).rules == (), "nothing confirms what the pages declare"
    half = [dict(row, content_hash=row["canonical_url"] if number % 2 else None) for number, row in enumerate(OTHERS)]
    assert learn_names(half) == ["param:zog"]


def test_an_index_file_says_nothing_about_a_slash() -> None:
    tails = ("", "index.html")
    index: Rows = [{"url": f"{HOST}/d{n}/{tail}", "content_hash": str(n)} for n in range(60) for tail in tails]
    assert learn_names(index) == ["seg:last:index.html"], "whether /d1 is /d1/ is not known"
    slash: Rows = [{"url": f"{HOST}/e{n}{tail}", "content_hash": f"e{n}"} for n in range(20) for tail in ("", "/")]
    assert learn_names(index + slash) == ["seg:last:index.html", "slash"]


def test_a_slash_that_selects_some_pages_is_not_dropped() -> None:
    same: Rows = [{"url": f"{HOST}/d{n}x{tail}", "content_hash": f"d{n}"} for n in range(40) for tail in ("", "/")]
    other: Rows = [
        {"url": f"{HOST}/q{n}x{tail}", "content_hash": f"q{n}{tail}"} for n in range(3) for tail in ("", "/")
    ]
    assert learn_names(same) == ["slash"]
    learned = canonry.learn(same + other)
    assert learned.rules == ()
    assert [(rule.name, rule.support, rule.against) for rule in learned.refused] == [("slash", 40, 3)]


def test_capital_letters_are_to_blame_where_other_parts_differ_too() -> None:
    forms = [(name, tail) for name in ("page", "Page") for tail in ("", "/print")]
    same: Rows = [{"url": f"{HOST}/{a}{n}x{tail}", "content_hash": f"{n}"} for n in range(40) for a, tail in forms]
    other: Rows = [{"url": f"{HOST}/{a}{n}y{tail}", "content_hash": f"{n}{a}"} for n in range(3) for a, tail in forms]
    assert learn_names(same) == ["case:last", "seg:last:print"]
    learned = canonry.learn(same + other)
    assert [rule.name for rule in learned.rules] == ["seg:last:print"]
    assert [(rule.name, rule.against) for rule in learned.refused] == [("case:last", 3)]


@pytest.mark.parametrize("count", [1, 3, 8])
def test_an_extension_that_selects_some_pages_of_a_script_is_not_dropped(count: int) -> None:
    """Once a rule that explains the same is removed, the pages that contradict the other one are in one group."""
    forms = ("page", "page.html")
    rows = [(f"{HOST}/{form}?id={n}", f"{n}") for n in range(40) for form in forms]
    assert learn_names(rows) == ["ext:html"]
    rows += [(f"{HOST}/{form}?id={n + 1000}", f"{n}{form}") for n in range(count) for form in forms]
    assert learn_names(rows) == []


@pytest.mark.parametrize("edited", [1, 4])
def test_a_few_edited_pages_do_not_discredit_the_hashes_of_a_site(edited: int) -> None:
    """The only pages that were fetched twice had been edited between the two."""
    rows: Rows = [
        {"url": f"{HOST}/p?id={n}&z={z}", "content_hash": f"{n} {z > 0 and n < edited}", "fetched_at": z * DAY}
        for n in range(40)
        for z in range(3)
    ]
    rows += [{"url": f"{HOST}/p?id={n}&z=0", "content_hash": f"{n} True", "fetched_at": 5 * DAY} for n in range(edited)]
    assert learn_names(rows) == ["param:z"]


def test_variants_with_nearly_equal_texts_are_kept_apart() -> None:
    """The bytes change at every fetch, but by less than the sizes of one product differ."""
    rng = random.Random(5)
    rows: Rows = []
    for n in range(120):
        page = rng.getrandbits(64)
        for place, size in enumerate("sml"):
            for fetch in range(3):
                simhash = page ^ (7 << (3 * place)) ^ (1 << (40 + fetch))
                rows.append({"url": f"{HOST}/item/{n}?size={size}", "content_hash": f"{rng.random()}",
                             "simhash": simhash})  # fmt: skip
    assert learn_names(rows) == []


def test_copies_of_many_owners_below_one_domain_are_not_one_site() -> None:
    rows = [(f"https://{owner}.hosting.example/guide/{n}", f"guide {n}") for owner in ("ann", "bob") for n in range(60)]
    assert learn_names(rows) == []


WORDS = [f"{first}{second}" for first in "abcdefgh" for second in "klmnopqrst"]
PLAIN = canonry.Policy("plain", 1, fragment="drop")


@pytest.mark.parametrize(
    ("tails", "odd", "shown"),
    [
        (("", "/amp"), "/amp/amp", "/"),
        (("", "/1"), "/list/1/1", "/list"),
        (("/{number}00", "/{number}01"), "/12/13/", "/"),
    ],
)
def test_a_rule_that_applies_twice_to_an_odd_path_merges_no_other_page(
    tails: tuple[str, str], odd: str, shown: str
) -> None:
    """Exported rules apply until nothing changes."""
    rows = [(f"{HOST}/{word}{tail.format(number=number)}", word) for number, word in enumerate(WORDS) for tail in tails]
    learned = canonry.learn([*rows, (f"{HOST}{shown}", "shown"), (f"{HOST}{odd}", "odd")])
    assert learned.rules == ()
    assert len(canonry.learn(rows).rules) == 1


def test_a_folder_with_copies_of_the_pages_is_not_the_start_page() -> None:
    rows = [(f"{HOST}{folder}/{word}", word) for word in WORDS for folder in ("", "/en")]
    learned = canonry.learn([*rows, (f"{HOST}/", "Choose a language"), (f"{HOST}/en/", "Welcome")])
    assert [rule.name for rule in learned.rules] == ["seg:first:en"]
    policy = PLAIN.with_overrides(learned.overrides())
    assert canonry.normalize(f"{HOST}/en/ak", policy) == f"{HOST}/ak"
    assert canonry.normalize(f"{HOST}/en/", policy) == f"{HOST}/en/"


@pytest.mark.parametrize(("other", "alias"), [("", "m."), ("www.", "www.")])
def test_a_host_is_an_alias_of_the_domain_or_its_www(other: str, alias: str) -> None:
    rows = [(f"https://{host}shop.example/p/{n}", f"page {n}") for host in (other, "m.") for n in range(60)]
    assert learn_names(rows) == [f"host:{alias}shop.example"]


def test_a_path_parameter_that_selects_content_is_no_part_of_a_slug() -> None:
    rows = [(f"{HOST}/{n}-{words}", f"page {n}") for n in range(100, 140) for words in ("some-title", "other-words")]
    rows += [(f"{HOST}/{n}-some-title;page={part}", f"page {n}, {part}") for n in range(100, 140) for part in (2, 3)]
    learned = canonry.learn(rows)
    assert [rule.name for rule in learned.rules] == ["id-start:/"]
    policy = canonry.Policy("plain", 1).with_overrides(learned.overrides())
    forms = {canonry.normalize(f"{HOST}/100-some-title{end}", policy) for end in ("", ";page=2", ";page=3")}
    assert len(forms) == 3
