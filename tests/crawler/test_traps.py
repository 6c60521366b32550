"""Contract C8: patterns of URLs without end, which text is new, and when a pattern is stopped."""

from __future__ import annotations

import calendar
import random

import pytest

from canonry.crawler.traps import PatternState, Phrases, count_page, digest_text, leads_on
from canonry.crawler.url_patterns import UrlKind, UrlPattern, find_pattern

SITE = "https://a.example"
PATTERNS = [
    # URL                                  kind                   pattern
    ("/about",                             None,                  ""),
    ("/blog/my-first-post",                None,                  ""),
    ("/post/571",                          UrlKind.NUMBERED,      "/post/N"),
    ("/archive?page=57",                   UrlKind.NUMBERED,      "/archive?page"),
    ("/post-571-a",                        UrlKind.NUMBERED,      "/post-N-a"),
    ("/f/9f8a7b6c5d4e3f2a1b0c9d8e",        UrlKind.NUMBERED,      "/f/X"),
    ("/item/20241",                        UrlKind.NUMBERED,      "/item/N"),
    ("/list?tag=",                         None,                  ""),
    ("/2024/05/07/my-post",                UrlKind.NUMBERED,      "/N/N/N/my-post"),
    ("/2024/05/07",                        UrlKind.CALENDAR,      "/N/N/N"),
    ("/calendar/2031-05",                  UrlKind.CALENDAR,      "/calendar/N-N"),
    ("/calendar/731",                      UrlKind.CALENDAR,      "/calendar/N"),
    ("/events?month=5&year=2031",          UrlKind.CALENDAR,      "/events?month&year"),
    ("/events?from=2031-05-01",            UrlKind.CALENDAR,      "/events?from"),
    ("/events?start=20",                   UrlKind.NUMBERED,      "/events?start"),
    ("/diary/2031-W05",                    UrlKind.CALENDAR,      "/diary/N-WN"),
    ("/shop?colour=red&size=m",            UrlKind.FACETS,        "/shop?colour&size"),
    ("/shop?size=m&colour=red&size=l",     UrlKind.FACETS,        "/shop?colour&size"),
    ("/a/b/a/b/a",                         UrlKind.GROWING_PATH,  "/a/b/…"),
    ("/a/b/a/b/a/b/a/b",                   UrlKind.GROWING_PATH,  "/a/b/…"),
    ("/1/2/3/4/5",                         UrlKind.GROWING_PATH,  "/N/…"),
    ("/a/b/c/d/e/f/g/h/i",                 UrlKind.GROWING_PATH,  "/a/b/…"),
    ("/a/b/a/c",                           None,                  ""),
]  # fmt: skip


@pytest.mark.parametrize(("url", "kind", "text"), PATTERNS)
def test_the_pattern_of_a_url(url: str, kind: UrlKind | None, text: str) -> None:
    assert find_pattern(SITE + url) == (None if kind is None else UrlPattern(kind, text))


def is_new(pages: list[tuple[str, str, str]]) -> list[bool]:
    """Return which of these pages (path, title, text) show a new text."""
    phrases, seen, found = Phrases(), set[str](), list[bool]()
    for path, title, text in pages:
        pattern = find_pattern(SITE + path)
        assert pattern is not None
        digest = digest_text(text, title=title, url=SITE + path, pattern=pattern, phrases=phrases)
        assert digest is not None
        found.append(not digest.is_known and digest.value not in seen)
        seen.add(digest.value)
    return found


def make_month(number: int) -> tuple[str, str, str]:
    year, month = 2030 + number // 12, number % 12 + 1
    days = " ".join(str(day) for week in calendar.monthcalendar(year, month) for day in week if day)
    name = calendar.month_name[month]
    return f"/calendar/{year}/{month:02}", f"{name} {year}", f"{name} {year} Mo Tu We Th Fr Sa Su {days} previous next"


def test_an_empty_calendar_shows_twelve_texts() -> None:
    assert sum(is_new([make_month(number) for number in range(600)])) <= 14


def test_entries_of_a_calendar_are_new_text() -> None:
    months = [make_month(number) for number in range(120)]
    entries = [(path, title, f"{text} concert no {number + 100}") for number, (path, title, text) in enumerate(months)]
    assert all(is_new(entries))


def test_numbers_are_content_unless_they_are_dates_of_the_url() -> None:
    reports = [
        (f"/report?date=2031-05-{day:02}", "Report", f"{day % 7} mm of rain, {day * 3} %") for day in range(1, 29)
    ]
    assert all(is_new(reports))


def test_a_numbered_page_is_new_if_text_or_title_differ() -> None:
    assert is_new([("/post/1", "a", "Post 1"), ("/post/2", "a", "Post 2"), ("/post/3", "b", "Post 2")]) == [True] * 3
    assert is_new([("/post/1", "a", "Post"), ("/post/2", "a", "Post")]) == [True, False]


def test_filters_that_arrange_known_entries_show_nothing_new() -> None:
    products = [
        f"shirt {number} of soft cotton with long sleeves {number * 7} euros add to cart" for number in range(40)
    ]
    pages = [("/shop?colour=any&sort=price", "Shop", " ".join(products))]
    pages += [
        (f"/shop?colour=c{first}&sort=s{second}", "Shop", " ".join([*products[first::second], f"c{first}"]))
        for first in range(8)
        for second in range(1, 8)
    ]
    assert is_new(pages) == [True, *[False] * 56]


def test_tables_of_numbers_are_new_text() -> None:
    draw = random.Random(7)
    pages = [
        (
            f"/data?station={place // 20}&sensor={place % 20}",
            "Data",
            " ".join(str(draw.randrange(100)) for _ in range(96)),
        )
        for place in range(400)
    ]
    assert all(is_new(pages))


def test_a_path_that_grows_shows_one_text() -> None:
    pages = [
        ("/" + "a/b/" * count + "a", "", "You are here: " + "a b " * count + "a. Contact") for count in range(2, 9)
    ]
    assert is_new(pages) == [True, *[False] * 6]


def test_a_new_page_is_a_reason_to_go_on_unless_it_is_a_suspect() -> None:
    own = UrlPattern(UrlKind.CALENDAR, "/calendar/N/N")
    assert leads_on(own, None)
    assert leads_on(own, UrlPattern(UrlKind.NUMBERED, "/event/N"))
    assert not leads_on(own, own)
    assert not leads_on(own, UrlPattern(UrlKind.CALENDAR, "/calendar/N/N/N"))


def count(*, fresh: str, trap_pages: int = 3, is_short: bool = False, depths: str = "") -> PatternState:
    """Count pages: `x` for a fresh page, `.` for another."""
    state = PatternState()
    for place, mark in enumerate(fresh):
        depth = int(depths[place]) if depths else place
        state = count_page(state, is_fresh=mark == "x", is_short=is_short, depth=depth, trap_pages=trap_pages)
    return state


STATES = [
    ("fresh pages", {"fresh": "xxxxxx"}, False),
    ("too few in a row", {"fresh": "x..x..x.."}, False),
    ("a trap", {"fresh": "x..."}, True),
    ("many fresh pages before", {"fresh": "xxxxx...."}, False),
    ("and as many others", {"fresh": "xxxxx....."}, True),
    ("it stays stopped", {"fresh": "x...x"}, True),
    ("short texts of a tree", {"fresh": "x......", "is_short": True, "depths": "0111111"}, False),
    ("short texts of a chain", {"fresh": "x...", "is_short": True, "depths": "0123"}, True),
]


@pytest.mark.parametrize(("why", "pages", "wanted"), STATES)
def test_when_a_pattern_is_stopped(why: str, pages: dict[str, object], wanted: bool) -> None:
    assert count(**pages).is_stopped is wanted, why  # type: ignore[arg-type]
