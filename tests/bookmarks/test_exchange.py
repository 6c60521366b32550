"""Bookmarks in and out of files: what every tool writes, what is refused, and that nothing is lost (contract B8)."""

from __future__ import annotations

import json
import random
import re
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canonry import CanonryError, normalize
from canonry.bookmarks import exchange
from canonry.bookmarks import netscape as exchange_netscape
from canonry.bookmarks.draft import Draft
from canonry.bookmarks.exchange import Format, Parsed, guess_format, read_bookmarks, write_bookmarks
from canonry.bookmarks.exchange_rows import Unusable, clean_folder, draft_of, path_of, read_time

CASES = Path(__file__).parents[1] / "cases" / "bookmarks"
SITE = "https://example.com"


def read(name: str) -> Parsed:
    return read_bookmarks((CASES / name).read_bytes(), file_name=name)


def written(kind: Format, drafts: list[Draft]) -> bytes:
    return "".join(write_bookmarks(kind, drafts)).encode()


def at(moment: str) -> str:
    return f"{moment}.000000Z"


FILES = {
    "firefox.html": [
        Draft(
            "https://example.org/?a=1&copy=2&lt=3",
            "Tides & boats – it's <new>",
            'Two lines,\nthe second one "quoted"',
            ("boats", "grün"),
            created_at=at("2023-11-14T22:13:20"),
        ),
        Draft(
            "https://example.org/rfc",
            "RFCs",
            folder=r"Bookmarks Toolbar/TCP\/IP",
            created_at="2023-11-14T22:13:20.123456Z",
        ),
        Draft("https://example.org/bar", "On the bar", folder="Bookmarks Toolbar"),
    ],
    "chrome.html": [
        Draft(f"{SITE}/a?x=1&y=2", "Harbour", folder="Bookmarks bar", created_at=at("2023-07-22T04:26:40")),
        Draft(f"{SITE}/b", folder="Other bookmarks"),
    ],
    "safari.html": [
        Draft(f"{SITE}/ferry", "Ferry", folder="Favourites"),
        Draft(f"{SITE}/loose", "Loose"),
        Draft(f"{SITE}/later", "Later", folder="Reading List"),
    ],
    "pinboard.html": [
        Draft(
            f"{SITE}/pin",
            "A pin",
            "What I thought of it",
            ("sea", "harbour_life"),
            to_read=True,
            private=True,
            created_at=at("2020-09-13T12:26:40"),
        ),
        Draft(f"{SITE}/pin2", "Another", created_at=at("2020-09-13T12:26:41")),
    ],
    "linkding.html": [
        Draft(
            f"{SITE}/ding",
            "Ding 'dong'",
            "Described\n[linkding-notes]Noted[/linkding-notes]",
            ("one", "two"),
            private=True,
            created_at=at("2022-04-15T05:20:00"),
        )
    ],
    "pocket.html": [
        Draft(f"{SITE}/unread", "To be read", "", ("a", "b c"), to_read=True, created_at=at("2017-07-14T02:40:00")),
        Draft(f"{SITE}/read", "Was read", created_at=at("2017-07-14T02:40:01")),
    ],
    "pocket.csv": [
        Draft(f"{SITE}/unread", "To be read", "", ("a", "b c"), to_read=True, created_at=at("2017-07-14T02:40:00")),
        Draft(f"{SITE}/read", "Was read", created_at=at("2017-07-14T02:40:01")),
    ],
    "pinboard.json": [
        Draft(
            f"{SITE}/pin",
            "A pin",
            "What I thought",
            ("sea", "harbour_life"),
            to_read=True,
            private=True,
            created_at=at("2020-09-13T12:26:40"),
        ),
        Draft(f"{SITE}/pin2", "Another", created_at=at("2020-09-13T12:26:41")),
    ],
    "wrapped.json": [
        Draft(
            f"{SITE}/kept",
            "Kept",
            tags=("a", "b, c"),
            to_read=True,
            created_at=at("2026-01-31T10:00:00"),
            archive_urls=("https://archive.example/kept",),
            original_url=f"{SITE}/kept?utm_source=x",
        ),
        Draft(f"{SITE}/only"),
    ],
    "raindrop.csv": [
        Draft(
            f"{SITE}/nets",
            "Nets, and how to mend them",
            "My note\n\nTheir excerpt",
            ("rope", "sea"),
            "Work/Sea",
            created_at="2024-05-06T07:08:09.123000Z",
        ),
        Draft(f"{SITE}/plain", "Plain", folder="Unsorted", created_at=at("2024-05-06T07:08:10")),
    ],
    "instapaper.csv": [
        Draft(
            f"{SITE}/insta",
            "Insta",
            "A part\nof it",
            ("sea", "rope"),
            "Unread",
            to_read=True,
            created_at=at("2024-02-19T07:30:00"),
        ),
        Draft(f"{SITE}/old", 'Old, "quoted"', folder="Archive", created_at=at("2024-02-19T07:30:01")),
    ],
    "semicolons.csv": [Draft(f"{SITE}/semi", "Semi, colon", "", ("a", "b"), created_at=at("2024-05-06T00:00:00"))],
}
REFUSED = {
    "firefox.html": [
        (1, "place:sort=8&maxResults=10", "scheme place: is not http or https"),
        (5, "javascript:alert(1)", "scheme javascript: is not http or https"),
    ],
    "chrome.html": [(2, "chrome://settings/", "scheme chrome: is not http or https")],
    "pinboard.json": [(3, "data:text/html,x", "scheme data: is not http or https")],
    "wrapped.json": [
        (3, "", "empty"),
        (4, f"{SITE}/text", "not an object"),
        (5, f"{SITE}/flag", "to_read is neither yes nor no"),
    ],
    "semicolons.csv": [
        (4, "not a link", "a character that no host may contain"),
        (5, f"{SITE}/x a b 2024-05-06 surplus", "more cells than the header"),
        (6, f"{SITE}/y", "not a time: yesterday"),
    ],
}


@pytest.mark.parametrize("name", FILES)
def test_what_each_tool_writes_is_read(name: str) -> None:
    parsed = read(name)
    assert parsed.drafts == FILES[name]
    assert [(each.row, each.text, each.reason) for each in parsed.refused] == REFUSED.get(name, [])


def test_every_sample_is_read() -> None:
    assert {path.name for path in CASES.iterdir()} == set(FILES)


GUESSES = [
    # given                        file name        wanted
    (b"<!DOCTYPE NETSCAPE-Bookm",  "",              Format.NETSCAPE),
    (b"\xef\xbb\xbf <DL>",         "x.csv",         Format.NETSCAPE),
    ("<DL>".encode("utf-16"),      "",              Format.NETSCAPE),
    (b"Bookmarks of mine <DL>",    "a.HTML",        Format.NETSCAPE),
    (b" [{",                       "a.html",        Format.JSON),
    (b'{"bookmarks": []}',         "",              Format.JSON),
    (b"oops",                      "a.json",        Format.JSON),
    (b"url,title",                 "",              Format.CSV),
    (b"",                          "",              Format.CSV),
]  # fmt: skip


@pytest.mark.parametrize(("data", "file_name", "wanted"), GUESSES)
def test_a_format_is_guessed(data: bytes, file_name: str, wanted: Format) -> None:
    assert guess_format(data, file_name) is wanted


NO_FILES = [
    # why                     given                                            said
    ("empty",                 b" \n",                                          "empty"),
    ("a picture",             b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",                "no column"),
    ("a page without links",  b"<html><body>Hello</body></html>",              "neither links nor folders"),
    ("broken JSON",           b'[{"url": "https://example.com"},\n{',          "not JSON: line 2"),
    ("a number",              b'{"bookmarks": 1}',                             "not a list"),
    ("an object",             b'{"children": []}',                             "not a list"),
    ("a CSV without URLs",    b"title,tags\nx,y\n",                            "no column"),
    ("too deep",              b"[" * 100_000,                                  "not JSON"),
    ("too many digits",       b"[" + b"9" * 10_000 + b"]",                     "not JSON"),
    ("folders without end",   b"<DL>" * 100_000,                               "nested more than 100 deep"),
    ("a header without end",  b"url," * 300_000,                               "line 1 has more than"),
    ("too much",              b"<DL>" + b" " * exchange.MAX_BYTES,             "more than 50 MB"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "said"), [case[1:] for case in NO_FILES], ids=[case[0] for case in NO_FILES])
def test_what_is_no_such_file_is_said(data: bytes, said: str) -> None:
    with pytest.raises(CanonryError, match=re.escape(said)):
        read_bookmarks(data)


@pytest.mark.parametrize("kind", Format)
def test_a_file_without_bookmarks_is_one(kind: Format) -> None:
    assert read_bookmarks(written(kind, []), kind) == Parsed([], [])


FIELDS = [
    # field                          value                                    reason
    ("title",                        "x" * 10_001,                            "title of more than 10,000 characters"),
    ("description",                  "x" * 100_001,                           "description of more than 100,000 characters"),
    ("tags",                         ["x" * 256],                             "a tag of more than 255 characters"),
    ("tags",                         [str(n) for n in range(501)],            "more than 500 tags"),
    ("tags",                         [1],                                     "tags is not a list of texts"),
    ("tags",                         {"a": 1},                                "tags is not a text"),
    ("folder",                       "x/" * 6_000,                            "folder of more than 10,000 characters"),
    ("title",                        ["x"],                                   "title is not a text"),
    ("title",                        "\ud800",                                "title contains a lone surrogate, which is not text"),
    ("url",                          f"{SITE}/{'x' * 100_000}",               "a URL of more than 100,000 characters"),
    ("url",                          "http://user:secret@[x/",                "not an IPv6 address"),
    ("original_url",                 "javascript:1",                          "original_url: scheme javascript: is not http or https"),
    ("archive_urls",                 ["javascript:1"],                        "archive_urls: scheme javascript: is not http or https"),
    ("archive_urls",                 [f"{SITE}/{n}" for n in range(101)],     "more than 100 archive_urls"),
    ("episode_urls",                 "mailto:a@b.example",                    "episode_urls: scheme mailto: is not http or https"),
    ("created_at",                   "0999-01-01",                            "not a time in our days: 0999-01-01"),
    ("created_at",                   "9" * 18,                                f"not a time: {'9' * 18}"),
    ("created_at",                   "9999-12-31T23:59:59-01:00",             "not a time: 9999-12-31T23:59:59-01:00"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "reason"), FIELDS)
def test_a_field_that_cannot_be_kept_refuses_its_row_only(name: str, value: object, reason: str) -> None:
    rows = [{"url": SITE}, {"url": SITE, name: value}, {"url": SITE}]
    parsed = read_bookmarks(json.dumps(rows).encode())
    assert [draft.url for draft in parsed.drafts] == [SITE, SITE]
    assert [(each.row, each.reason) for each in parsed.refused] == [(2, reason)]


def test_a_refused_row_is_shown_short_and_without_secrets() -> None:
    rows = [{"url": "ftp://user:secret@example.com/" + "x" * 500}, {"title": "\ud800" + "no URL"}]
    parsed = read_bookmarks(json.dumps(rows).encode())
    assert [each.text[:30] for each in parsed.refused] == ["ftp://***@example.com/xxxxxxxx", "?no URL"]
    assert len(parsed.refused[0].text) == 200


def test_a_cell_without_end_takes_a_part_of_the_file_and_not_all() -> None:
    rows = "".join(f"{SITE}/{number},x\n" for number in range(10_000))
    parsed = read_bookmarks(f'url,title\n{SITE}/first,y\n"{rows}'.encode())
    assert parsed.drafts[0].url == f"{SITE}/first" and parsed.drafts[-1].url == f"{SITE}/9999"
    assert parsed.refused[0].reason == "field larger than field limit (131072)"


@pytest.mark.parametrize("limit", ["MAX_ROWS", "MAX_REFUSED"])
@pytest.mark.parametrize("kind", Format)
def test_rows_have_a_limit(kind: Format, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, limit, 3)
    url = SITE if limit == "MAX_ROWS" else "about:blank"
    read_bookmarks(written(kind, [Draft(url)] * 3))
    with pytest.raises(CanonryError, match="more than 3 rows"):
        read_bookmarks(written(kind, [Draft(url)] * 4))


TIMES = [
    # given                           wanted
    ("",                              ""),
    ("0",                             ""),
    ("1769853600",                    at("2026-01-31T10:00:00")),
    ("1769853600123",                 "2026-01-31T10:00:00.123000Z"),
    ("1769853600123456",              "2026-01-31T10:00:00.123456Z"),
    ("1769853600.25",                 "2026-01-31T10:00:00.250000Z"),
    ("-1",                            at("1969-12-31T23:59:59")),
    ("2026-01-31",                    at("2026-01-31T00:00:00")),
    ("2026-01-31 10:00:00",           at("2026-01-31T10:00:00")),
    ("2026-01-31T11:00:00+01:00",     at("2026-01-31T10:00:00")),
    ("2026-01-31T10:00:00.000000Z",   at("2026-01-31T10:00:00")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), TIMES)
def test_times_are_those_of_the_tables(text: str, wanted: str) -> None:
    assert read_time(text) == wanted


FOLDERS = [
    # given                wanted            names
    ("",                   "",               []),
    (" a //b/ ",           "a/b",            ["a", "b"]),
    (r"TCP\/IP/routers",   r"TCP\/IP/routers", ["TCP/IP", "routers"]),
    (r"a\\/b",             r"a\\/b",         ["a\\", "b"]),
    (r"C:\x",              r"C:\\x",         [r"C:\x"]),
    ("a\n b",              "a b",            ["a b"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted", "names"), FOLDERS)
def test_a_folder_is_a_path(text: str, wanted: str, names: list[str]) -> None:
    assert (clean_folder(text), path_of(text)) == (wanted, names)


CHARSETS = [
    # why                  charset        head
    ("meta",               "cp1251",      '<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=windows-1251">'),
    ("short meta",         "cp1251",      "<meta charset='windows-1251'>"),
    ("a wrong meta",       "utf-8",       "<meta charset=iso-8859-1>"),
    ("a codec of Python",  "utf-8",       "<meta charset=punycode>"),
    ("no meta",            "utf-8",       ""),
    ("a mark",             "utf-16",      ""),
]  # fmt: skip


@pytest.mark.parametrize(("charset", "head"), [case[1:] for case in CHARSETS], ids=[case[0] for case in CHARSETS])
def test_a_charset_is_found(charset: str, head: str) -> None:
    page = f'{head}<DL><DT><A HREF="{SITE}">Гавань</A></DL>'
    assert read_bookmarks(page.encode(charset)).drafts == [Draft(SITE, "Гавань")]


def test_a_charset_in_a_title_is_no_declaration() -> None:
    draft = Draft(SITE, '<?xml version="1.0" encoding="iso-8859-5"?> Häfen')
    for kind in Format:
        assert read_bookmarks(written(kind, [draft])).drafts == [draft]


PIECES = [
    # why                            given                                                        title         description
    ("unquoted",                     "<A HREF=https://example.com>x",                             "x",          ""),
    ("single quotes, blanks",        "<a\n href = 'https://example.com' >x</a>",                  "x",          ""),
    ("closed DT and DD",             f'<DT><A HREF="{SITE}">x</A></DT><DD>y</DD>',                "x",          "y"),
    ("markup in a title",            f'<A HREF="{SITE}">x <b>y</b></A>',                          "x y",        ""),
    ("markup in a description",      f'<A HREF="{SITE}">x</A><DD>y<br>z <i>w</i>',                "x",          "y\nz w"),
    ("a title without end",          f'<DT><A HREF="{SITE}">x<DD>y<DT>',                          "x",          "y"),
    ("a tag without end",            f'<DT><A HREF="{SITE}">x</A><DD>y<DT><A HREF="z',            "x",          "y"),
    ("a quote without end",          f'<A HREF="{SITE}">x</A><DD>y<P TITLE="z>w',                 "x",          "y\nw"),
    ("the first of two",             f'<A HREF="{SITE}" HREF="javascript:1">x</A>',               "x",          ""),
    ("NUL",                          f'<A HREF="{SITE}\0">x\0y</A>',                              "xy",         ""),
    ("not a reference",              f'<A HREF="{SITE}">AT&T &nosuch; &#99999999; &</A>',         "AT&T &nosuch; &#99999999; &", ""),
    ("closed too often",             f'</DL></DL><A HREF="{SITE}">x</A></DL>',                    "x",          ""),
    ("a description of nothing",     f'<DD>lost<DT><A HREF="{SITE}">x</A>',                       "x",          ""),
]  # fmt: skip


@pytest.mark.parametrize(("page", "title", "text"), [case[1:] for case in PIECES], ids=[case[0] for case in PIECES])
def test_html_is_read_as_people_write_it(page: str, title: str, text: str) -> None:
    assert read_bookmarks(page.encode(), Format.NETSCAPE).drafts == [Draft(SITE, title, text)]


SIZE = 100_000
HOSTILE = [
    "<", "<a", "<a ", "<a =", '<a href="', "<a href='\"", "<a b='\"'c=\"'\">", "<!--", "<!---", "</DL>", "<H3>", "<DL></DL>",
    "<DL><A HREF=http://a.example>x", "<A HREF=http://a.example>", "<DD>", "<DT>", "&", "&#", "&#9", "=", " =", "\0", "\\",
    "[", "[]", "[],", "{", '{"url":', '{"url":"a.example"},', '"', "'", ",", ";", "\n", "\r", "\n,", '",', "url,", "\x80",
    "http://", "a@", ":/", "\ufeff", "é",
]  # fmt: skip


@pytest.mark.parametrize("start", ["<DL>", "<DL><A ", '[{"url":"', "[", "url\n", 'url,tags,archive_urls\n"'])
@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_file_is_read_or_refused(start: str, piece: str) -> None:
    data = (start + piece * (SIZE // len(piece))).encode()
    for end in (b"", b'"}]', b'">x</A>'):
        try:
            parsed = read_bookmarks(data + end)
        except CanonryError:
            continue
        assert len(parsed.drafts) + len(parsed.refused) <= len(data)
        assert all(len(each.text) <= 200 for each in parsed.refused)


def test_deep_folders_with_long_names_take_no_memory() -> None:
    page = f"<H3>{'n' * 20_000}</H3><DL>" * 99 + f"<A HREF={SITE}>x</A>" * 100
    parsed = read_bookmarks(page.encode())
    assert {each.reason for each in parsed.refused} == {"folder of more than 10,000 characters"}


@given(st.binary(max_size=300), st.sampled_from([None, *Format]))
def test_bytes_are_read_or_refused(data: bytes, kind: Format | None) -> None:
    with suppress(CanonryError):
        assert isinstance(read_bookmarks(data, kind), Parsed)


NASTY = st.text(st.sampled_from(list("ab \t\r\n\"'<>&;,/\\=+-@|[]{}#x9é–\x01\x85\u2028😀＝")), max_size=12)
TEXTS = st.one_of(
    NASTY, st.text(max_size=12), st.sampled_from(["</A><script>", "=1+1", "'=x", "''", "&amp;", "&#10;", "<DD>"])
)
BACKSLASHES = Draft(f"{SITE}/\\", "\\", "\\", ("\\", "a\\,b"), "\\\\", archive_urls=(f"{SITE}/\\\\a\\", SITE))
URLS = st.builds(lambda path: f"{SITE}/{path}", TEXTS)
ROWS = st.fixed_dictionaries(
    {
        "url": URLS,
        "title": TEXTS,
        "description": TEXTS,
        "tags": st.lists(TEXTS, max_size=4),
        "folder": st.lists(TEXTS, max_size=3).map("/".join),
        "to_read": st.booleans(),
        "private": st.booleans(),
        "created_at": st.one_of(st.just(""), st.datetimes().map(lambda when: when.isoformat())),
        "archive_urls": st.lists(URLS, max_size=2),
        "episode_urls": st.lists(URLS, max_size=2),
    }
)


@given(st.lists(ROWS, max_size=4), st.sampled_from(Format))
def test_what_was_read_comes_back(rows: list[dict[str, object]], kind: Format) -> None:
    drafts: list[Draft] = []
    for row in rows:
        try:
            drafts.append(draft_of(row))
        except Unusable:
            continue
    assert read_bookmarks(written(kind, drafts), kind) == Parsed(drafts, [])


def _generated(number: int, chance: random.Random) -> Draft:
    words = ("Hafen", "港", "a\"b'c", "</A><script>", "x & y", "=1+2", "two\nlines", "-", "naïve", "\\", "🚢")

    def some(most: int) -> list[str]:
        return chance.choices(words, k=chance.randint(0, most))

    row = {
        "url": f"{SITE}/{number}?q={number}&copy=1#{chance.choice(words)}",
        "title": " ".join(some(5)),
        "description": "\n".join(some(5)),
        "tags": some(4),
        "folder": "/".join(some(4)),
        "to_read": chance.random() < 0.2,
        "private": chance.random() < 0.2,
        "created_at": str(chance.randint(1, 2_000_000_000_000_000)),
        "archive_urls": [f"https://archive.example/{number}"] * chance.randint(0, 1),
    }
    return draft_of(row)


@pytest.mark.slow
@pytest.mark.parametrize("kind", Format)
def test_ten_thousand_bookmarks_come_back(kind: Format) -> None:
    chance = random.Random(7)
    drafts = [_generated(number, chance) for number in range(10_000)]
    chunks = list(write_bookmarks(kind, drafts))
    assert len(chunks) > 10 and max(map(len, chunks)) < 200_000
    assert read_bookmarks("".join(chunks).encode()) == Parsed(drafts, [])


@pytest.mark.parametrize("kind", Format)
def test_backslashes_come_back(kind: Format) -> None:
    assert read_bookmarks(written(kind, [BACKSLASHES])).drafts == [BACKSLASHES]


def test_nothing_breaks_out_of_its_place_in_html() -> None:
    bad = '"></A></DL><script>alert(1)</script><A HREF="javascript:1" x=\'&lt;'
    draft = Draft(f"{SITE}/{bad}", bad, bad, (bad,), clean_folder(bad), archive_urls=(f"{SITE}/{bad}",))
    page = written(Format.NETSCAPE, [draft]).decode()
    assert page.count("<A ") == 1 and "<script" not in page
    assert re.findall(r' ([A-Z_]+)="', page.partition("<A")[2]) == ["HREF", "PRIVATE", "TAGS", "ARCHIVE_URLS"]
    assert read_bookmarks(page.encode()).drafts == [draft]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", " =1", "＝1", "'=1", "''", "'a"])
def test_no_cell_is_a_formula_and_the_quote_before_it_goes_again(text: str) -> None:
    draft = draft_of({"url": SITE, "title": text, "tags": [text], "folder": text})
    assert Draft(SITE, text).title == text
    page = written(Format.CSV, [draft, Draft(SITE, text)]).decode()
    for cell in re.findall(r'"((?:[^"]|"")*)"', page):
        assert cell.lstrip()[:1] not in {*"=+-@＝"} and cell[:1] not in {"\t", "\r", "\n"}
    assert read_bookmarks(page.encode()).drafts[0] == draft


def test_a_quote_that_nobody_put_there_stays() -> None:
    ours = f"{','.join(asdict(Stored(SITE)))}\n{SITE},,'quoted' word,,,,,,,,\n"
    assert read_bookmarks(ours.encode()).drafts == [Draft(SITE, "'quoted' word")]
    assert read_bookmarks(f"url,title\n{SITE},'=1\n".encode()).drafts == [Draft(SITE, "'=1")]


@dataclass(frozen=True, slots=True)
class Stored:
    """A row of a store, as far as it is written."""

    url: str
    original_url: str | None = None
    title: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    folder: str = ""
    to_read: bool = False
    private: bool = False
    created_at: str = ""
    archive_urls: tuple[str, ...] = ()
    episode_urls: tuple[str, ...] = ()
    exact_url: bool = False


@pytest.mark.parametrize("kind", Format)
def test_an_export_leads_back_to_the_same_row(kind: Format) -> None:
    original = "HTTP://www.Example.com/a?utm_source=x&b=1"
    row = Stored(normalize(original, "bookmark"), original, "A")
    data = "".join(write_bookmarks(kind, [row, replace(row, url=f"{SITE}/b", original_url=None)])).encode()
    parsed = read_bookmarks(data)
    assert [normalize(draft.url, "bookmark") for draft in parsed.drafts] == [row.url, f"{SITE}/b"]
    assert [draft.original_url for draft in parsed.drafts] == [original, None]
    exact = replace(row, url=original, original_url=None, exact_url=True)
    [again] = read_bookmarks("".join(write_bookmarks(kind, [exact])).encode()).drafts
    assert (again.url, again.exact_url) == (original, True)


def test_a_lone_surrogate_is_not_written() -> None:
    for kind in Format:
        assert b"x?y" in written(kind, [Draft(SITE, "x\ud800y")])


def test_one_folder_is_one_block() -> None:
    page = written(Format.NETSCAPE, [Draft(SITE, folder="a/b"), Draft(SITE, folder="a/b"), Draft(SITE, folder="a/c")])
    assert [page.count(name) for name in (b"<H3>a<", b"<H3>b<", b"<H3>c<", b"<DL>", b"</DL>")] == [1, 1, 1, 4, 4]


def test_the_limits_hold_together() -> None:
    assert exchange_netscape.MAX_TAGS > 3 * exchange.MAX_ROWS  # DT, A and /A of each
