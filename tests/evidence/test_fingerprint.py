"""Fingerprints: the test vectors of docs/fingerprint.md, and what changes a fingerprint (contract E3)."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from canonry.core import native
from canonry.core import simhash as reference
from canonry.evidence.fingerprint import EMPTY_TEXT, count_different_bits, fingerprint, fingerprint_text, fold_text
from canonry.evidence.page_view import read_page_view
from canonry.net.response import Response
from canonry.net.visible_text import read_visible_text

PAGE = Path(__file__).parents[2] / "docs" / "fingerprint.md"
HTML = "text/html; charset=utf-8"


def read_vectors() -> list[dict[str, Any]]:
    blocks = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return list(json.loads(blocks[-1]))


@pytest.mark.parametrize("row", read_vectors(), ids=lambda row: row["why"])
def test_a_text_of_the_documentation_has_its_fingerprint(row: dict[str, Any]) -> None:
    body = row["html"].encode()
    found = fingerprint(body, HTML)
    assert fold_text(read_visible_text(body, HTML)) == row["text"]
    assert (found.text_hash, f"{found.simhash:016x}", found.words) == (row["text_hash"], row["simhash"], row["words"])


SAME = [
    # why                      the same text as "<p>one two</p>"
    ("another element", "<div>one</div><div>two</div>"),
    ("white space", "<p>\n one\t\u00a0two  </p>"),
    ("case", "<P>ONE Two</P>"),
    ("a comment", "<p>one <!-- three --> two</p>"),
    ("empty inline elements", "<p>o<span></span>ne t<wbr>wo</p>"),
    ("nested hidden elements", "<p>one two</p><div hidden>a<p hidden>b<script>c</script></p></div>"),
    ("hidden by style", '<p>one two</p><p style="DISPLAY : none !important">three</p>'),
    ("invisible", '<p>one two</p><p style="color:red;visibility:hidden">three</p>'),
    ("a closed dialog", "<p>one two</p><dialog>accept cookies</dialog>"),
    ("a frame", "<p>one two</p><iframe>three</iframe>"),
    ("another title", "<title>three</title><p>one two</p>"),
    ("a picture", '<p>one <img alt="three"> two</p>'),
]
DIFFERENT = [
    ("a style that hides nothing", '<p>one two</p><p style="border:none">three</p>'),
    ("an open dialog", "<p>one two</p><dialog open>three</dialog>"),
    ("a word more", "<p>one two three</p>"),
    ("another order", "<p>two one</p>"),
    ("one word", "<p>onetwo</p>"),
    ("a field", "<p>one two</p><textarea>three</textarea>"),
]


@pytest.mark.parametrize(("why", "html"), SAME, ids=[why for why, _ in SAME])
def test_the_same_visible_text_has_the_same_fingerprint(why: str, html: str) -> None:
    assert fingerprint(html.encode(), HTML) == fingerprint(b"<p>one two</p>")


@pytest.mark.parametrize(("why", "html"), DIFFERENT, ids=[why for why, _ in DIFFERENT])
def test_another_visible_text_has_another_fingerprint(why: str, html: str) -> None:
    assert fingerprint(html.encode(), HTML).text_hash != fingerprint(b"<p>one two</p>").text_hash


def test_text_that_is_not_html_is_its_own_text() -> None:
    assert fingerprint(b"One <b>two</b>", "text/plain") == fingerprint_text("one <b>two</b>")
    assert fingerprint('{"a": "é"}'.encode(), "application/json") == fingerprint_text('{"a": "é"}')


def test_a_file_without_text_has_the_fingerprint_of_an_empty_text() -> None:
    assert fingerprint(b"%PDF-1.7 one two three", "application/pdf") == EMPTY_TEXT
    assert fingerprint(b"", HTML) == EMPTY_TEXT
    assert EMPTY_TEXT.simhash == EMPTY_TEXT.words == 0


def test_a_lone_surrogate_is_no_error() -> None:
    assert fingerprint_text("a \ud800 b").words == 3


def test_few_changed_words_change_few_bits() -> None:
    words = [f"word{number * number % 977}" for number in range(600)]
    edited = [*words[:300], "edited", *words[301:]]
    other = [f"term{number * number % 971}" for number in range(600)]
    first, second, third = (fingerprint_text(" ".join(each)).simhash for each in (words, edited, other))
    assert 0 <= count_different_bits(first, second) <= 3
    assert count_different_bits(first, third) > 12


def test_native_and_reference_simhash_are_equal() -> None:
    source = random.Random(7)
    for count in (0, 1, 2, 3, 4, 30, 254, 255, 256, 257, 258, 700):
        for _ in range(10):
            words = ["".join(source.choices("abcdeäß漢😀", k=source.randint(1, 9))) for _ in range(count)]
            text = " ".join(words)
            assert native.simhash(text) == reference.simhash(text)


def test_hostile_pages_are_read_in_linear_time() -> None:
    """No page makes the parser crash or take seconds; elements inside of removed ones are removed once."""
    pages = [
        "<span>" * 100_000,
        "<span>x</span>" * 50_000,
        "<div hidden>" * 1_900 + "x",
        "<p hidden>x</p>" * 50_000,
        "<b>" * 50_000 + "x",
        "<p><b><i><u>x" * 3_000,
        "<noscript><template><style>" * 1_000,
        "<svg><style><title><script>" * 500,
    ]
    for page in pages:
        assert fingerprint(page.encode(), HTML).words < 100_000


def test_random_markup_never_crashes() -> None:
    source = random.Random(3)
    pieces = ["<b>", "</b>", "<p>", "</p>", "<div hidden>", "</div>", "<template>", "</template>", "<svg>", "</svg>"]
    pieces += ["<noscript>", "</noscript>", "<table>", "<tr><td>", "</table>", "<a>", "</a>", "x", " y ", "<wbr>"]
    pieces += ["<title>", "</title>", "<frameset>", "<select><option>", "</select>", "<math><mi>", "<!--", "-->"]
    for _ in range(2_000):
        fingerprint("".join(source.choices(pieces, k=30)).encode(), HTML)


CHARSETS = [
    # served as             encoded in
    ("", "utf-8"),
    ("", "latin-1"),
    ("", "utf-16"),
    ("; charset=latin-1", "latin-1"),
    ("; charset=latin-1", "utf-8"),
    ("; charset=utf-8", "latin-1"),
    ("; charset=shift_jis", "utf-8-sig"),
]


@pytest.mark.parametrize(("served", "encoding"), CHARSETS)
def test_a_page_has_one_fingerprint_however_it_is_read(served: str, encoding: str) -> None:
    """Facts of bookmarks, of crawls and of programs that call `fingerprint` are compared with each other."""
    body, content_type = "<title>T</title><p>äöü éè</p>".encode(encoding), f"text/html{served}"
    page = read_page_view(Response(200, "https://example.com/", {"content-type": content_type}, body))
    assert fingerprint(body, content_type) == page.fingerprint
