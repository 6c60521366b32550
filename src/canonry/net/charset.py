"""Charsets: which encoding a feed, page or bookmark file is in, and its text.

Labels such as `latin1` mean what they mean to browsers (https://encoding.spec.whatwg.org/#names-and-labels).
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache
from typing import Any

import webencodings  # type: ignore[import-untyped]

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, because this mark starts with that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# The first bytes of `<…`, `{…` or white space in an encoding of two or four bytes (XML 1.0, appendix F).
_WIDE_STARTS = (
    (re.compile(rb"[\s<{]\0\0\0", re.DOTALL), "utf-32-le"),
    (re.compile(rb"\0\0\0[\s<{]", re.DOTALL), "utf-32-be"),
    (re.compile(rb"[\s<{]\0[^\0]", re.DOTALL), "utf-16-le"),
    (re.compile(rb"\0[\s<{]", re.DOTALL), "utf-16-be"),
)
_XML_ENCODING = re.compile(r"<\?xml[^>]*?encoding\s*=\s*[\"']?([\w.:-]{1,40})")
_XML_HEAD_BYTES = 1_000
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_META = re.compile(rb"<meta\s[^>]{0,500}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_META_HEAD_BYTES = 4_096
_BROWSER_META_HEAD_BYTES = 1_024  # https://html.spec.whatwg.org/multipage/parsing.html#prescan-a-byte-stream
_NON_ASCII_BYTES = bytes(range(128, 256))


def decode(body: bytes, content_type: str = "") -> str:
    """Return the text of a document; bytes that fit no charset become U+FFFD.

    The order is: byte order mark, Content-Type, XML declaration. Valid UTF-8 wins over windows-1252,
    which many servers and editors name by default, whatever the document is in.
    """
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    if body.startswith(codecs.BOM_UTF8):
        body, content_type = body[3:], "charset=utf-8"
    if wide := next((name for start, name in _WIDE_STARTS if start.match(body)), ""):
        return body.decode(wide, "replace")
    stated = (_CHARSET.search(content_type), _XML_ENCODING.search(body[:_XML_HEAD_BYTES].decode("latin-1")))
    names = [name for match in stated if match and (name := _find_codec(match[1])) and not name.startswith("utf-16")]
    if not names or "utf-8" in names or set(names) == {"cp1252"}:
        names.insert(0, "utf-8")
    for name in names:
        if (text := _decode_strictly(body, name)) is not None:
            return text
    return _guess(body, names)


def decode_html(body: bytes, content_type: str = "") -> str:
    """Return the text of an HTML document; `<meta charset>` counts if the server names no charset."""
    if _CHARSET.search(content_type) is None and (meta := _META.search(body, 0, _META_HEAD_BYTES)):
        content_type = f"charset={meta[1].decode('ascii', 'replace')}"
    return decode(body, content_type)


def detect_charset(body: bytes, content_type: str = "") -> str:
    """Return Python's name of the encoding a browser takes for an HTML document.

    The order is: byte order mark, Content-Type, `<meta>`, UTF-8 if the bytes are valid, windows-1252.
    """
    if body.startswith(codecs.BOM_UTF8):
        return "utf-8"
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    served = _CHARSET.search(content_type)
    if served and (name := _find_codec(served[1])):
        return name
    meta = _META.search(body, 0, _BROWSER_META_HEAD_BYTES)
    if meta and (name := _find_codec(meta[1].decode("ascii", "replace"))):
        return "utf-8" if name.startswith("utf-16") else name  # a <meta> that was found is not in UTF-16
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return "utf-8" if error.end == len(body) else "cp1252"  # at the end: a body cut inside a character
    return "utf-8"


@lru_cache(maxsize=64)
def _find_codec(label: str) -> str:
    """Return Python's name for a charset label; empty if browsers do not know the label."""
    encoding: Any = webencodings.lookup(label)
    if encoding is None or encoding.name in {"replacement", "x-user-defined"}:
        return ""
    # The standard decodes GBK as GB18030, which contains it.
    return "gb18030" if encoding.name == "gbk" else str(encoding.codec_info.name)


def _decode_strictly(body: bytes, name: str) -> str | None:
    """Return the text if all bytes fit; bytes that windows-1252 leaves undefined are control characters."""
    for codec in (name, "latin-1") if name == "cp1252" else (name,):
        try:
            return body.decode(codec)
        except UnicodeDecodeError:
            continue
    return None


def _guess(body: bytes, names: list[str]) -> str:
    """Decode bytes that fit none of the named charsets, in the most likely one."""
    replaced, ignored = body.decode("utf-8", "replace"), body.decode("utf-8", "ignore")
    damaged = len(replaced) - len(ignored)
    multibyte_characters = len(ignored) - len(body.translate(None, delete=_NON_ASCII_BYTES))
    if multibyte_characters >= damaged:
        return replaced
    if named := next((name for name in names if name != "utf-8"), ""):
        return body.decode(named, "replace")
    try:
        return body.decode("cp1252")
    except UnicodeDecodeError:
        return body.decode("iso8859-2", "replace")
