"""Files of bookmarks: those of other services are read, bad rows are refused, an export loses nothing (contract B8)."""

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

from canonry import normalize
from canonry.bookmarks import exchange, netscape
from canonry.bookmarks.draft import Draft
from canonry.bookmarks.exchange import FileFormat, ParsedFile, guess_format, read_bookmarks, write_bookmarks
from canonry.bookmarks.exchange_rows import clean_folder, parse_draft, read_time, split_folder
from canonry.bookmarks.import_problems import BadBookmarkFile, FileProblem, RowProblem, RowRefused

CASES = Path(__file__).parents[1] / "cases" / "bookmarks"
SITE = "https://example.com"


def read(name: str) -> ParsedFile:
    return read_bookmarks((CASES / name).read_bytes(), file_name=name)


def export(file_format: FileFormat, drafts: list[Draft]) -> bytes:
    return "".join(write_bookmarks(file_format, drafts)).encode()


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
            "Described\n\nNoted",
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
        (1, "place:sort=8&maxResults=10", RowProblem.INVALID_URL),
        (5, "javascript:alert(1)", RowProblem.INVALID_URL),
    ],
    "chrome.html": [(2, "chrome://settings/", RowProblem.INVALID_URL)],
    "pinboard.json": [(3, "data:text/html,x", RowProblem.INVALID_URL)],
    "wrapped.json": [
        (3, "", RowProblem.INVALID_URL),
        (4, f"{SITE}/text", RowProblem.NOT_AN_OBJECT),
        (5, f"{SITE}/flag", RowProblem.NOT_A_BOOLEAN),
    ],
    "semicolons.csv": [
        (4, "not a link", RowProblem.INVALID_URL),
        (5, f"{SITE}/x a b 2024-05-06 surplus", RowProblem.EXTRA_CELLS),
        (6, f"{SITE}/y", RowProblem.NOT_A_TIME),
    ],
}


@pytest.mark.parametrize("name", FILES)
def test_the_file_of_each_service_is_read(name: str) -> None:
    parsed = read(name)
    assert parsed.drafts == FILES[name]
    assert [(each.row, each.text, each.kind) for each in parsed.refused] == REFUSED.get(name, [])


def test_every_sample_file_has_a_case() -> None:
    assert {path.name for path in CASES.iterdir()} == set(FILES)


GUESSES = [
    # given                        file name        wanted
    (b"<!DOCTYPE NETSCAPE-Bookm",  "",              FileFormat.NETSCAPE),
    (b"\xef\xbb\xbf <DL>",         "x.csv",         FileFormat.NETSCAPE),
    ("<DL>".encode("utf-16"),      "",              FileFormat.NETSCAPE),
    (b"Bookmarks of mine <DL>",    "a.HTML",        FileFormat.NETSCAPE),
    (b" [{",                       "a.html",        FileFormat.JSON),
    (b'{"bookmarks": []}',         "",              FileFormat.JSON),
    (b"oops",                      "a.json",        FileFormat.JSON),
    (b"url,title",                 "",              FileFormat.CSV),
    (b"",                          "",              FileFormat.CSV),
]  # fmt: skip


@pytest.mark.parametrize(("data", "file_name", "wanted"), GUESSES)
def test_the_format_of_a_file_is_guessed(data: bytes, file_name: str, wanted: FileFormat) -> None:
    assert guess_format(data, file_name) is wanted


BAD_FILES = [
    # why                     given                                            kind
    ("empty",                 b" \n",                                          FileProblem.EMPTY),
    ("a picture",             b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",                FileProblem.NO_URL_COLUMN),
    ("a page without links",  b"<html><body>Hello</body></html>",              FileProblem.NOT_NETSCAPE),
    ("broken JSON",           b'[{"url": "https://example.com"},\n{',          FileProblem.NOT_JSON),
    ("a number",              b'{"bookmarks": 1}',                             FileProblem.NOT_A_LIST),
    ("an object",             b'{"children": []}',                             FileProblem.NOT_A_LIST),
    ("a CSV without URLs",    b"title,tags\nx,y\n",                            FileProblem.NO_URL_COLUMN),
    ("too deep",              b"[" * 100_000,                                  FileProblem.NOT_JSON),
    ("too many digits",       b"[" + b"9" * 10_000 + b"]",                     FileProblem.NOT_JSON),
    ("folders without end",   b"<DL>" * 100_000,                               FileProblem.TOO_COMPLEX),
    ("a header without end",  b"url," * 300_000,                               FileProblem.LINE_TOO_LONG),
    ("too large",             b"<DL>" + b" " * exchange.MAX_BYTES,             FileProblem.TOO_LARGE),
]  # fmt: skip


@pytest.mark.parametrize(("data", "kind"), [case[1:] for case in BAD_FILES], ids=[case[0] for case in BAD_FILES])
def test_a_bad_file_is_refused_with_its_kind(data: bytes, kind: FileProblem) -> None:
    with pytest.raises(BadBookmarkFile) as caught:
        read_bookmarks(data)
    assert caught.value.kind is kind


def test_the_message_for_broken_json_names_the_line() -> None:
    with pytest.raises(BadBookmarkFile) as caught:
        read_bookmarks(b'[{"url": "https://example.com"},\n{')
    assert str(caught.value).startswith("The file is not valid JSON: line 2: ")


@pytest.mark.parametrize("file_format", FileFormat)
def test_an_export_of_no_bookmarks_is_a_valid_file(file_format: FileFormat) -> None:
    assert read_bookmarks(export(file_format, []), file_format) == ParsedFile([], [])


FIELDS = [
    # field           value                                    kind                        field in the reason
    ("title",         "x" * 10_001,                            RowProblem.TOO_LONG,        "title"),
    ("description",   "x" * 100_001,                           RowProblem.TOO_LONG,        "description"),
    ("tags",          ["x" * 256],                             RowProblem.TOO_LONG,        "tag"),
    ("tags",          [str(n) for n in range(501)],            RowProblem.TOO_MANY,        "tags"),
    ("tags",          [1],                                     RowProblem.NOT_A_LIST,      "tags"),
    ("tags",          {"a": 1},                                RowProblem.NOT_TEXT,        "tags"),
    ("folder",        "x/" * 6_000,                            RowProblem.TOO_LONG,        "folder"),
    ("title",         ["x"],                                   RowProblem.NOT_TEXT,        "title"),
    ("title",         "\ud800",                                RowProblem.LONE_SURROGATE,  "title"),
    ("url",           f"{SITE}/{'x' * 100_000}",               RowProblem.TOO_LONG,        "url"),
    ("url",           "http://user:secret@[x/",                RowProblem.INVALID_URL,     "url"),
    ("original_url",  "javascript:1",                          RowProblem.INVALID_URL,     "original_url"),
    ("archive_urls",  ["javascript:1"],                        RowProblem.INVALID_URL,     "archive_urls"),
    ("archive_urls",  [f"{SITE}/{n}" for n in range(101)],     RowProblem.TOO_MANY,        "archive_urls"),
    ("episode_urls",  "mailto:a@b.example",                    RowProblem.INVALID_URL,     "episode_urls"),
    ("created_at",    "0999-01-01",                            RowProblem.NOT_A_TIME,      "created_at"),
    ("created_at",    "9" * 18,                                RowProblem.NOT_A_TIME,      "created_at"),
    ("created_at",    "9999-12-31T23:59:59-01:00",             RowProblem.NOT_A_TIME,      "created_at"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "kind", "field"), FIELDS)
def test_an_invalid_field_refuses_its_row_only(name: str, value: object, kind: RowProblem, field: str) -> None:
    row: dict[str, object] = {"url": SITE, name: value}
    parsed = read_bookmarks(json.dumps([{"url": SITE}, row, {"url": SITE}]).encode())
    assert [draft.url for draft in parsed.drafts] == [SITE, SITE]
    assert [(each.row, each.kind) for each in parsed.refused] == [(2, kind)]
    with pytest.raises(RowRefused) as caught:
        parse_draft(row)
    assert (caught.value.kind, caught.value.field) == (kind, field)


SENTENCES = [
    (RowRefused(RowProblem.TOO_LONG, "title", limit=10_000), "title is longer than 10,000 characters"),
    (RowRefused(RowProblem.TOO_MANY, "tags", limit=500), "tags has more than 500 values"),
    (RowRefused(RowProblem.INVALID_URL, "url", detail="not a host"), "url: not a host"),
    (RowRefused(RowProblem.EXTRA_CELLS), "more cells than the header has columns"),
]


@pytest.mark.parametrize(("refused", "sentence"), SENTENCES)
def test_the_reason_of_a_refused_row_is_a_sentence(refused: RowRefused, sentence: str) -> None:
    assert str(refused) == sentence


def test_every_kind_of_refusal_has_a_sentence() -> None:
    for kind in set(RowProblem) - {RowProblem.OTHER}:
        assert str(RowRefused(kind, "title", detail="x", limit=1))


def test_a_refused_row_is_shown_short_and_without_secrets() -> None:
    rows = [{"url": "ftp://user:secret@example.com/" + "x" * 500}, {"title": "\ud800" + "no URL"}]
    parsed = read_bookmarks(json.dumps(rows).encode())
    assert [each.text[:30] for each in parsed.refused] == ["ftp://***@example.com/xxxxxxxx", "?no URL"]
    assert len(parsed.refused[0].text) == 200


def test_an_unclosed_quote_costs_one_cell_and_not_the_rest_of_the_file() -> None:
    rows = "".join(f"{SITE}/{number},x\n" for number in range(10_000))
    parsed = read_bookmarks(f'url,title\n{SITE}/first,y\n"{rows}'.encode())
    assert parsed.drafts[0].url == f"{SITE}/first" and parsed.drafts[-1].url == f"{SITE}/9999"
    assert parsed.refused[0].kind is RowProblem.BAD_CSV


@pytest.mark.parametrize(
    ("limit", "kind"), [("MAX_ROWS", FileProblem.TOO_MANY_ROWS), ("MAX_REFUSED", FileProblem.TOO_MANY_REFUSED)]
)
@pytest.mark.parametrize("file_format", FileFormat)
def test_the_number_of_rows_is_limited(
    file_format: FileFormat, limit: str, kind: FileProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, limit, 3)
    url = SITE if limit == "MAX_ROWS" else "about:blank"
    read_bookmarks(export(file_format, [Draft(url)] * 3))
    with pytest.raises(BadBookmarkFile) as caught:
        read_bookmarks(export(file_format, [Draft(url)] * 4))
    assert caught.value.kind is kind


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
def test_times_are_read_into_the_format_of_the_tables(text: str, wanted: str) -> None:
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
def test_a_folder_is_a_path_of_names(text: str, wanted: str, names: list[str]) -> None:
    assert (clean_folder(text), split_folder(text)) == (wanted, names)


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
def test_the_charset_of_a_file_is_found(charset: str, head: str) -> None:
    page = f'{head}<DL><DT><A HREF="{SITE}">Гавань</A></DL>'
    assert read_bookmarks(page.encode(charset)).drafts == [Draft(SITE, "Гавань")]


def test_an_encoding_named_in_a_title_does_not_declare_the_charset() -> None:
    draft = Draft(SITE, '<?xml version="1.0" encoding="iso-8859-5"?> Häfen')
    for file_format in FileFormat:
        assert read_bookmarks(export(file_format, [draft])).drafts == [draft]


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
def test_sloppy_html_is_read_like_a_browser_does(page: str, title: str, text: str) -> None:
    assert read_bookmarks(page.encode(), FileFormat.NETSCAPE).drafts == [Draft(SITE, title, text)]


SIZE = 100_000
HOSTILE = [
    "<", "<a", "<a ", "<a =", '<a href="', "<a href='\"", "<a b='\"'c=\"'\">", "<!--", "<!---", "</DL>", "<H3>", "<DL></DL>",
    "<DL><A HREF=http://a.example>x", "<A HREF=http://a.example>", "<DD>", "<DT>", "&", "&#", "&#9", "=", " =", "\0", "\\",
    "[", "[]", "[],", "{", '{"url":', '{"url":"a.example"},', '"', "'", ",", ";", "\n", "\r", "\n,", '",', "url,", "\x80",
    "http://", "a@", ":/", "\ufeff", "é",
]  # fmt: skip


@pytest.mark.parametrize("start", ["<DL>", "<DL><A ", '[{"url":"', "[", "url\n", 'url,tags,archive_urls\n"'])
@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_file_is_parsed_or_refused_quickly(start: str, piece: str) -> None:
    data = (start + piece * (SIZE // len(piece))).encode()
    for end in (b"", b'"}]', b'">x</A>'):
        try:
            parsed = read_bookmarks(data + end)
        except BadBookmarkFile:
            continue
        assert len(parsed.drafts) + len(parsed.refused) <= len(data)
        assert all(len(each.text) <= 200 for each in parsed.refused)


def test_the_path_of_deep_folders_with_long_names_is_cut() -> None:
    page = f"<H3>{'n' * 20_000}</H3><DL>" * 99 + f"<A HREF={SITE}>x</A>" * 100
    parsed = read_bookmarks(page.encode())
    assert [each.kind for each in parsed.refused] == [RowProblem.TOO_LONG] * 100


@given(st.binary(max_size=300), st.sampled_from([None, *FileFormat]))
def test_any_bytes_are_parsed_or_refused(data: bytes, file_format: FileFormat | None) -> None:
    with suppress(BadBookmarkFile):
        assert isinstance(read_bookmarks(data, file_format), ParsedFile)


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


@given(st.lists(ROWS, max_size=4), st.sampled_from(FileFormat))
def test_an_exported_bookmark_is_read_back_unchanged(rows: list[dict[str, object]], file_format: FileFormat) -> None:
    drafts: list[Draft] = []
    for row in rows:
        try:
            drafts.append(parse_draft(row))
        except RowRefused:
            continue
    assert read_bookmarks(export(file_format, drafts), file_format) == ParsedFile(drafts, [])


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
    return parse_draft(row)


@pytest.mark.slow
@pytest.mark.parametrize("file_format", FileFormat)
def test_ten_thousand_exported_bookmarks_are_read_back_unchanged(file_format: FileFormat) -> None:
    chance = random.Random(7)
    drafts = [_generated(number, chance) for number in range(10_000)]
    chunks = list(write_bookmarks(file_format, drafts))
    assert len(chunks) > 10 and max(map(len, chunks)) < 200_000
    assert read_bookmarks("".join(chunks).encode()) == ParsedFile(drafts, [])


@pytest.mark.parametrize("file_format", FileFormat)
def test_backslashes_are_read_back_unchanged(file_format: FileFormat) -> None:
    assert read_bookmarks(export(file_format, [BACKSLASHES])).drafts == [BACKSLASHES]


def test_no_text_breaks_out_of_its_element_in_html() -> None:
    bad = '"></A></DL><script>alert(1)</script><A HREF="javascript:1" x=\'&lt;'
    draft = Draft(f"{SITE}/{bad}", bad, bad, (bad,), clean_folder(bad), archive_urls=(f"{SITE}/{bad}",))
    page = export(FileFormat.NETSCAPE, [draft]).decode()
    assert page.count("<A ") == 1 and "<script" not in page
    assert re.findall(r' ([A-Z_]+)="', page.partition("<A")[2]) == ["HREF", "PRIVATE", "TAGS", "ARCHIVE_URLS"]
    assert read_bookmarks(page.encode()).drafts == [draft]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", " =1", "＝1", "'=1", "''", "'a"])
def test_a_cell_is_never_a_formula_and_its_escape_is_removed_when_read(text: str) -> None:
    draft = parse_draft({"url": SITE, "title": text, "tags": [text], "folder": text})
    assert Draft(SITE, text).title == text
    page = export(FileFormat.CSV, [draft, Draft(SITE, text)]).decode()
    for cell in re.findall(r'"((?:[^"]|"")*)"', page):
        assert cell.lstrip()[:1] not in {*"=+-@＝"} and cell[:1] not in {"\t", "\r", "\n"}
    assert read_bookmarks(page.encode()).drafts[0] == draft


def test_a_quote_that_is_no_escape_stays() -> None:
    ours = f"{','.join(asdict(Stored(SITE)))}\n{SITE},,'quoted' word,,,,,,,,\n"
    assert read_bookmarks(ours.encode()).drafts == [Draft(SITE, "'quoted' word")]
    assert read_bookmarks(f"url,title\n{SITE},'=1\n".encode()).drafts == [Draft(SITE, "'=1")]


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored bookmark with the fields that an export writes."""

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


@pytest.mark.parametrize("file_format", FileFormat)
def test_an_exported_bookmark_is_imported_into_the_same_row(file_format: FileFormat) -> None:
    original = "HTTP://www.Example.com/a?utm_source=x&b=1"
    row = Stored(normalize(original, "bookmark"), original, "A")
    data = "".join(write_bookmarks(file_format, [row, replace(row, url=f"{SITE}/b", original_url=None)])).encode()
    parsed = read_bookmarks(data)
    assert [normalize(draft.url, "bookmark") for draft in parsed.drafts] == [row.url, f"{SITE}/b"]
    assert [draft.original_url for draft in parsed.drafts] == [original, None]
    exact = replace(row, url=original, original_url=None, exact_url=True)
    [again] = read_bookmarks("".join(write_bookmarks(file_format, [exact])).encode()).drafts
    assert (again.url, again.exact_url) == (original, True)


def test_a_lone_surrogate_is_not_export() -> None:
    for file_format in FileFormat:
        assert b"x?y" in export(file_format, [Draft(SITE, "x\ud800y")])


def test_bookmarks_of_one_folder_share_a_block() -> None:
    page = export(
        FileFormat.NETSCAPE, [Draft(SITE, folder="a/b"), Draft(SITE, folder="a/b"), Draft(SITE, folder="a/c")]
    )
    assert [page.count(name) for name in (b"<H3>a<", b"<H3>b<", b"<H3>c<", b"<DL>", b"</DL>")] == [1, 1, 1, 4, 4]


def test_the_limit_for_tags_allows_the_maximum_number_of_rows() -> None:
    assert netscape.MAX_TAGS > 3 * exchange.MAX_ROWS  # DT, A and /A of each
