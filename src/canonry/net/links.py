"""The links of a web page as a browser sees them: absolute `a.href`, first 50 characters of the text (contract C5).

https://html.spec.whatwg.org/multipage/links.html, with scripting taken to be on: what stands in `<noscript>` is text.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from selectolax.lexbor import LexborHTMLParser

from canonry.core.url import UNCHANGED_URL, join
from canonry.errors import FailureKind, InvalidUrl
from canonry.net.engine import Link, PageFailure

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

MAX_LINKS = 10_000
_MAX_TITLE = 1_000
_MAX_DEPTH = 2_000  # elements left open before we stop looking: parsing takes time by the square of it
_TEXT = 50
# Elements that a start tag leaves open; those that are empty, or end where the next begins, do not nest.
_TAG = re.compile(
    r"<(/?)(?!(?:a|area|base|br|col|dd|dt|embed|hr|img|input|li|link|meta|optgroup|option|p|param|rp|rt|source"
    r"|tbody|td|tfoot|th|thead|tr|track|wbr)\b)[a-zA-Z]",
    re.IGNORECASE,
)
# What JavaScript's trim() takes away; Python's strip() differs.
_JS_SPACES = "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"  # noqa: E501
_C0_AND_SPACE = "".join(map(chr, range(33)))
_META = re.compile(rb"<meta\s[^>]{0,500}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
# What a browser reads instead of the charset that is named: https://encoding.spec.whatwg.org/#names-and-labels
_READ_AS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
_KNOWN = re.compile(
    r"utf-8|utf-16\w*|utf-16-[lb]e|iso8859-\d+|cp\d+|koi8-\w|mac-\w+|euc_jp|iso2022_jp|gb18030|big5hkscs"
)
_UNCHANGED = re.compile(UNCHANGED_URL)
_ESCAPED_IN_QUERY = frozenset(b" \"#<>'") | frozenset(range(33)) | frozenset(range(127, 256))
_MATH_TEXT = frozenset({"mi", "mo", "mn", "ms", "mtext", "annotation-xml", "svg"})


@dataclass(frozen=True, slots=True)
class PageContent:
    """Title and links of a page, in document order; `failure` if not all of the page was read."""

    title: str
    links: tuple[Link, ...]
    failure: PageFailure | None = None


def read_page(body: bytes, *, url: str, content_type: str = "", max_links: int = MAX_LINKS) -> PageContent:
    """Title and links of a web page."""
    charset = detect_charset(body, content_type)
    whole = body.decode(charset, "replace").removeprefix("\ufeff")
    text = cut_deep_nesting(whole)
    page = LexborHTMLParser(text, scripting=True)
    anchors = page.css("a[href]")
    base = _base(page, url, charset)
    has_math = page.css_first("math") is not None
    links: list[Link] = []
    for anchor in anchors[:max_links]:
        attributes = anchor.attributes
        if "href" not in attributes or (has_math and _is_mathml(anchor)):
            continue  # xlink:href, which the selector of a browser does not match, or a part of a formula
        href = attributes["href"] or ""  # None for an attribute without value
        links.append(Link(href, resolve(base, href, charset), _shown(anchor.text())))
    failure: PageFailure | None = None
    if len(anchors) > max_links:
        detail = f"only the first {max_links} of {len(anchors)} links were read"
        failure = PageFailure(FailureKind.TRUNCATED, detail)
    elif text is not whole:
        detail = f"nested deeper than {_MAX_DEPTH} elements; the rest was not read"
        failure = PageFailure(FailureKind.TRUNCATED, detail)
    return PageContent(read_title(page), tuple(links), failure)


def resolve(base: str, href: str, charset: str = "utf-8") -> str:
    """What `a.href` says: the absolute URL, its query in the document's encoding; as written where there is none."""
    is_path = href.startswith("/") and not href.startswith("//")
    absolute = href if href.startswith("http") else base[: base.find("/", 8)] + href if is_path else ""
    if _UNCHANGED.fullmatch(absolute):
        return absolute
    reference = href if href.isascii() or charset == "utf-8" else _encoded(href, charset)
    try:
        return join(base, reference)
    except InvalidUrl:
        return href


def detect_charset(body: bytes, content_type: str = "") -> str:
    """Python's name for the encoding a browser takes: byte order mark, header, `<meta>`; UTF-8 if it fits, or Latin."""
    if body.startswith(codecs.BOM_UTF8):
        return "utf-8"
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    served = _CHARSET.search(content_type) if "charset" in content_type.lower() else None
    if served and (name := _codec(served[1])):
        return name
    stated = _META.search(body, 0, 1024)
    if stated and (name := _codec(stated[1].decode("ascii", "replace"))):
        return "utf-8" if name.startswith("utf-16") else name  # it cannot be, or this could not have been read
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return "utf-8" if error.end == len(body) else "cp1252"  # a body that was cut inside of a character
    return "utf-8"


@lru_cache(maxsize=64)
def _codec(label: str) -> str:
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return ""
    name = _READ_AS.get(name, name)
    return name if _KNOWN.fullmatch(name) else ""


def _encoded(href: str, charset: str) -> str:
    """The query of a reference as the document's bytes, percent-encoded; characters it lacks become `&#…;`."""
    reference, hash_mark, fragment = href.partition("#")
    before, mark, query = reference.partition("?")
    scheme = re.match(r"\s*([A-Za-z][A-Za-z0-9+.-]*):", before)
    is_other = scheme is not None and scheme[1].lower() not in {"http", "https", "ftp", "file"}
    if not mark or query.isascii() or is_other or charset.startswith("utf-16"):
        return href
    pieces = (character if character.isascii() else _bytes_of(character, charset) for character in query)
    return f"{before}?{''.join(pieces)}{hash_mark}{fragment}"


def _bytes_of(character: str, charset: str) -> str:
    try:
        encoded = character.encode(charset)
    except UnicodeEncodeError:
        return f"%26%23{ord(character)}%3B"
    return "".join(f"%{byte:02X}" if byte in _ESCAPED_IN_QUERY else chr(byte) for byte in encoded)


def _base(page: LexborHTMLParser, url: str, charset: str) -> str:
    base = page.css_first("base[href]")
    if base is None:
        return url
    href = (base.attributes.get("href") or "").strip(_C0_AND_SPACE)
    try:
        found = join(url, href if href.isascii() else _encoded(href, charset))
    except InvalidUrl:
        return url
    return url if found.startswith(("data:", "javascript:")) else found


def _is_mathml(anchor: LexborNode) -> bool:
    """Is it an element of a formula, which leads nowhere, rather than HTML or SVG inside of one?"""
    above = anchor.parent
    while above is not None:
        if above.tag in _MATH_TEXT:
            return False
        if above.tag == "math":
            return True
        above = above.parent
    return False


def read_title(page: LexborHTMLParser) -> str:
    """The title of a page; at most a thousand characters."""
    title = page.css_first("head > title") or page.css_first("title")
    return " ".join(title.text().split())[:_MAX_TITLE] if title else ""


def _shown(text: str) -> str:
    """`textContent.trim().substring(0, 50)`, where a character outside the basic plane counts twice."""
    text = text.strip(_JS_SPACES)
    if len(text) <= _TEXT // 2 or (text := text[:_TEXT]).isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass")[: 2 * _TEXT].decode("utf-16-le", "ignore")


def cut_deep_nesting(text: str) -> str:
    """The page up to where it is nested deeper than any page is."""
    if text.count("<") <= _MAX_DEPTH:
        return text
    depth = 0
    for tag in _TAG.finditer(text):
        depth += -1 if tag[1] else 1
        if depth > _MAX_DEPTH:
            return text[: tag.start()]
    return text
