"""Charsets of documents: which encoding a browser takes, and what bytes that fit none become."""

from __future__ import annotations

import pytest

from canonry.net.charset import decode, decode_html, detect_charset


@pytest.mark.parametrize(
    ("body", "content_type", "charset"),
    [
        (b'<meta charset="koi8-r">', "text/html; charset=windows-1251", "cp1251"),
        (b"\xef\xbb\xbf<p>", "text/html; charset=windows-1251", "utf-8"),
        (b"\xff\xfe<\0p\0>\0", "text/html", "utf-16"),
        (b'<meta charset="utf-16">', "text/html", "utf-8"),
        (b'<meta http-equiv="Content-Type" content="text/html; charset=latin1">', "", "cp1252"),
        (b'<meta charset="gb2312">', "", "gb18030"),
        (b'<meta charset="x-user-defined">', "", "utf-8"),
        (b"caf\xe9 <p>", "text/html", "cp1252"),
        ("café".encode()[:-1], "text/html", "utf-8"),
    ],
)
def test_a_page_is_in_the_charset_that_a_browser_takes(body: bytes, content_type: str, charset: str) -> None:
    assert detect_charset(body, content_type) == charset


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (b"caf\xc3\xa9", "text/xml; charset=iso-8859-1", "café"),
        (b"caf\xe9", "text/xml; charset=utf-8", "café"),
        (b"caf\xe9", "text/xml; charset=no-such-charset", "café"),
        (b"<?xml version='1.0' encoding='windows-1251'?>\xe6", "", "<?xml version='1.0' encoding='windows-1251'?>ж"),
        (b"<\0a\0>\0", "text/xml; charset=utf-8", "<a>"),
        (b"\x81", "text/xml; charset=windows-1252", "\x81"),
    ],
)
def test_valid_utf_8_is_believed_before_a_default_charset(body: bytes, content_type: str, text: str) -> None:
    assert decode(body, content_type) == text


def test_a_meta_element_counts_if_the_server_names_no_charset() -> None:
    body = b'<meta charset="windows-1251">\xe6'
    assert decode_html(body, "text/html")[-1] == "ж"
    assert decode_html(body, "text/html; charset=koi8-r")[-1] == "Ф"
