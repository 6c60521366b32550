"""Find the links of a web page as a browser sees them: `a.href` and the first 50 characters of the text (contract C5).

https://html.spec.whatwg.org/multipage/links.html with scripting enabled: the content of `<noscript>` is text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from selectolax.lexbor import LexborHTMLParser

from canonry.core.url import UNCHANGED_URL, join
from canonry.errors import FailureKind, InvalidUrl
from canonry.net.charset import detect_charset
from canonry.net.engine import Link, PageFailure

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

MAX_LINKS = 10_000
_MAX_TITLE_CHARACTERS = 1_000
_MAX_DEPTH = 2_000  # nested elements; the time to parse grows with the square of the depth
_MAX_LINK_TEXT_UNITS = 50  # UTF-16 code units
# Tags of elements that can nest: not those that are empty or end where the next one begins.
_TAG = re.compile(
    r"<(/?)(?!(?:a|area|base|br|col|dd|dt|embed|hr|img|input|li|link|meta|optgroup|option|p|param|rp|rt|source"
    r"|tbody|td|tfoot|th|thead|tr|track|wbr)\b)[a-zA-Z]",
    re.IGNORECASE,
)
# The characters that JavaScript's trim() removes; Python's strip() removes others.
_JS_SPACES = "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"  # noqa: E501
_C0_AND_SPACE = "".join(map(chr, range(33)))
_UNCHANGED = re.compile(UNCHANGED_URL)
_ESCAPED_IN_QUERY = frozenset(b" \"#<>'") | frozenset(range(33)) | frozenset(range(127, 256))
# Elements in <math> whose content is HTML or SVG.
_MATHML_EXITS = frozenset({"mi", "mo", "mn", "ms", "mtext", "annotation-xml", "svg"})


@dataclass(frozen=True, slots=True)
class PageContent:
    """Title and links of a page, in document order; `failure` if not all of the page was read."""

    title: str
    links: tuple[Link, ...]
    failure: PageFailure | None = None


def read_page(body: bytes, *, url: str, content_type: str = "", max_links: int = MAX_LINKS) -> PageContent:
    """Return the title and links of a web page."""
    charset = detect_charset(body, content_type)
    whole = body.decode(charset, "replace").removeprefix("\ufeff")
    text = cut_deep_nesting(whole)
    page = LexborHTMLParser(text, scripting=True)
    anchors = page.css("a[href]")
    base = _find_base(page, url, charset)
    has_math = page.css_first("math") is not None
    links: list[Link] = []
    for anchor in anchors[:max_links]:
        attributes = anchor.attributes
        if "href" not in attributes or (has_math and _is_mathml(anchor)):
            continue  # xlink:href, which `a[href]` does not match in a browser, or MathML
        href = attributes["href"] or ""  # None if the attribute has no value
        links.append(Link(href, resolve(base, href, charset), _trim_link_text(anchor.text())))
    failure: PageFailure | None = None
    if len(anchors) > max_links:
        detail = f"only the first {max_links} of {len(anchors)} links were read"
        failure = PageFailure(FailureKind.TRUNCATED, detail)
    elif text is not whole:
        detail = f"elements are nested deeper than {_MAX_DEPTH}; the rest was not read"
        failure = PageFailure(FailureKind.TRUNCATED, detail)
    return PageContent(read_title(page), tuple(links), failure)


def resolve(base: str, href: str, charset: str = "utf-8") -> str:
    """Return what `a.href` is: the absolute URL, its query in the document's encoding; an invalid `href` as it is."""
    is_path = href.startswith("/") and not href.startswith("//")
    absolute = href if href.startswith("http") else base[: base.find("/", 8)] + href if is_path else ""
    if _UNCHANGED.fullmatch(absolute):
        return absolute
    reference = href if href.isascii() or charset == "utf-8" else _encode_query(href, charset)
    try:
        return join(base, reference)
    except InvalidUrl:
        return href


def _encode_query(href: str, charset: str) -> str:
    """Percent-encode the query of a reference in a charset; characters that the charset lacks become `&#…;`."""
    reference, hash_mark, fragment = href.partition("#")
    before, mark, query = reference.partition("?")
    scheme = re.match(r"\s*([A-Za-z][A-Za-z0-9+.-]*):", before)
    is_other = scheme is not None and scheme[1].lower() not in {"http", "https", "ftp", "file"}
    if not mark or query.isascii() or is_other or charset.startswith("utf-16"):
        return href
    pieces = (character if character.isascii() else _percent_encode(character, charset) for character in query)
    return f"{before}?{''.join(pieces)}{hash_mark}{fragment}"


def _percent_encode(character: str, charset: str) -> str:
    try:
        encoded = character.encode(charset)
    except UnicodeEncodeError:
        return f"%26%23{ord(character)}%3B"
    return "".join(f"%{byte:02X}" if byte in _ESCAPED_IN_QUERY else chr(byte) for byte in encoded)


def _find_base(page: LexborHTMLParser, url: str, charset: str) -> str:
    base = page.css_first("base[href]")
    if base is None:
        return url
    href = (base.attributes.get("href") or "").strip(_C0_AND_SPACE)
    try:
        found = join(url, href if href.isascii() else _encode_query(href, charset))
    except InvalidUrl:
        return url
    return url if found.startswith(("data:", "javascript:")) else found


def _is_mathml(anchor: LexborNode) -> bool:
    """Return whether an element is MathML, which is no link; HTML and SVG inside of MathML are not."""
    ancestor = anchor.parent
    while ancestor is not None:
        if ancestor.tag in _MATHML_EXITS:
            return False
        if ancestor.tag == "math":
            return True
        ancestor = ancestor.parent
    return False


def read_title(page: LexborHTMLParser) -> str:
    """Return the title of a page, at most 1,000 characters."""
    title = page.css_first("head > title") or page.css_first("title")
    return " ".join(title.text().split())[:_MAX_TITLE_CHARACTERS] if title else ""


def _trim_link_text(text: str) -> str:
    """Return `textContent.trim().substring(0, 50)`; a character outside the basic plane counts twice."""
    text = text.strip(_JS_SPACES)
    if len(text) <= _MAX_LINK_TEXT_UNITS // 2 or (text := text[:_MAX_LINK_TEXT_UNITS]).isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass")[: 2 * _MAX_LINK_TEXT_UNITS].decode("utf-16-le", "ignore")


def cut_deep_nesting(text: str) -> str:
    """Return the page up to the place where elements are nested deeper than on any real page."""
    if text.count("<") <= _MAX_DEPTH:
        return text
    depth = 0
    for tag in _TAG.finditer(text):
        depth += -1 if tag[1] else 1
        if depth > _MAX_DEPTH:
            return text[: tag.start()]
    return text
