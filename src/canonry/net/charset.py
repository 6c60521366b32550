"""Bytes to text: what a document says of its charset, what the server says, and what the bytes allow."""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# The first bytes of `<…`, `{…` or white space without a mark (XML 1.0, appendix F), and of `<?xm` in EBCDIC.
_WIDE = (
    (re.compile(rb"[\s<{]\0\0\0", re.DOTALL), "utf-32-le"),
    (re.compile(rb"\0\0\0[\s<{]", re.DOTALL), "utf-32-be"),
    (re.compile(rb"[\s<{]\0[^\0]", re.DOTALL), "utf-16-le"),
    (re.compile(rb"\0[\s<{]", re.DOTALL), "utf-16-be"),
    (re.compile(rb"\x4c\x6f\xa7\x94"), "cp037"),
)
_DECLARED = re.compile(r"<\?xml[^>]*?encoding\s*=\s*[\"']?([\w.:-]{1,40})")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_HEAD = 1_000  # bytes in which a declaration is looked for
# Charsets of documents; Python also knows codecs that are none, or take quadratic time (punycode, idna).
_KNOWN = re.compile(
    r"ascii|utf-8|iso8859-\d+|iso2022_\w+|cp\d+|koi8-\w|mac-\w+|euc_\w+|shift_jis\w*|gb\w+|big5\w*|hz|johab"
    r"|tis-620|ptcp154|kz1048|hp-roman8"
)
# What authors of these mean (WHATWG Encoding), tried where the strict reading fails.
_WIDER = {"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "big5": "big5hkscs"}
# A server's or an editor's default more often than a statement: UTF-8 that fits is believed before these.
_LATIN = frozenset({"ascii", "iso8859-1", "cp1252"})
_HIGH = bytes(range(128, 256))


def decode(body: bytes, content_type: str = "") -> str:
    """The text of a document; bytes that fit nowhere become U+FFFD."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    if body.startswith(codecs.BOM_UTF8):
        body, content_type = body[3:], "charset=utf-8"
    wide = next((name for start, name in _WIDE if start.match(body)), "")
    declared = _DECLARED.search(body[:_HEAD].decode(wide or "latin-1", "replace"))
    if wide.startswith("utf"):
        return body.decode(wide, "replace")
    served = _CHARSET.search(content_type)
    names = [known for match in (served, declared) if match and (known := _codec(match[1]))] or [wide or "utf-8"]
    if "utf-8" in names or _LATIN.issuperset(names):
        names.insert(0, "utf-8")
    for name in names:
        if (text := _strictly(body, name)) is not None:
            return text
    return _guess(body, names)


@lru_cache(maxsize=64)
def _codec(name: str) -> str:
    """Python's name of a charset; empty where it is unknown or cannot be that of bytes that begin like ASCII."""
    try:
        found = codecs.lookup(name).name
    except (LookupError, ValueError):
        return ""
    return found if _KNOWN.fullmatch(found) else ""


def _strictly(body: bytes, name: str) -> str | None:
    """The text if all bytes fit; Latin-1 is what windows-1252 leaves undefined, too."""
    tries = ("cp1252", "latin-1") if name in {"iso8859-1", "cp1252"} else (name, _WIDER.get(name, name))
    for one in tries:
        try:
            return body.decode(one)
        except (UnicodeDecodeError, LookupError):
            continue
    return None


def _guess(body: bytes, names: list[str]) -> str:
    """The likeliest reading of bytes that fit no charset that was named."""
    replaced, ignored = body.decode("utf-8", "replace"), body.decode("utf-8", "ignore")
    damaged = len(replaced) - len(ignored)
    whole = len(ignored) - len(body.translate(None, delete=_HIGH))  # characters of more than one byte
    if whole >= damaged:
        return replaced
    named = next((name for name in names if name not in {"utf-8", "ascii"}), "")
    if named:
        return body.decode(_WIDER.get(named, named), "replace")
    try:
        return body.decode("cp1252")
    except UnicodeDecodeError:
        return body.decode("iso8859-2", "replace")
