"""Find the links of a web page as a browser sees them: `a.href` and the first 50 characters of the text (contract C5).

https://html.spec.whatwg.org/multipage/links.html with scripting enabled: the content of `<noscript>` is text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from selectolax.lexbor import LexborHTMLParser

from canonry.core.url import C0_AND_SPACE, UNCHANGED_URL, join
from canonry.errors import FailureKind, InvalidUrl
from canonry.net.charset import detect_charset
from canonry.net.deep_nesting import MAX_DEPTH, cut_deep_nesting
from canonry.net.engine import Link, LinkSource, PageFailure
from canonry.net.page_facts import MAX_HEAD_ELEMENTS, NO_HEAD, PageHead, make_head
from canonry.net.response import find_host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from selectolax.lexbor import LexborNode

MAX_LINKS = 10_000
_MAX_TITLE_CHARACTERS = 1_000
_MAX_INNER_LEVEL = 10  # documents inside of documents: shadow roots and `srcdoc`
_MAX_LINK_TEXT_UNITS = 50  # UTF-16 code units
# The characters that JavaScript's trim() removes; Python's strip() removes others.
_JS_SPACES = "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"  # noqa: E501
_UNCHANGED = re.compile(UNCHANGED_URL)
_ESCAPED_IN_QUERY = frozenset(b" \"#<>'") | frozenset(range(33)) | frozenset(range(127, 256))
# Elements in <math> whose content is HTML or SVG.
_MATHML_EXITS = frozenset({"mi", "mo", "mn", "ms", "mtext", "annotation-xml", "svg"})


@dataclass(frozen=True, slots=True)
class PageContent:
    """Title and links of a page, in document order; `failure` if not all of the page was read.

    `added_links` are those of other elements than `<a href>`.
    """

    title: str
    links: tuple[Link, ...] = ()
    added_links: tuple[Link, ...] = ()
    failure: PageFailure | None = None
    head: PageHead = NO_HEAD
    text: str = ""  # that a person can see


class _BasePlaces(NamedTuple):
    """Parts of the URL of a page: without its fragment, its origin, and up to the last slash of its path."""

    page: str
    origin: str
    folder: str


def read_page(
    body: bytes,
    *,
    url: str,
    content_type: str = "",
    max_links: int = MAX_LINKS,
    read_text: Callable[[LexborHTMLParser], str] = lambda _: "",
) -> PageContent:
    """Return the title and links of a web page, and its text if `read_text` is given, which may change the document."""
    charset = detect_charset(body, content_type)
    whole = body.decode(charset, "replace").removeprefix("\ufeff")
    text = cut_deep_nesting(whole)
    page = LexborHTMLParser(text, scripting=True)
    finder = _LinkFinder(url, charset, max_links)
    finder.add_document(page, url)
    failure: PageFailure | None = None
    if finder.skipped_count:
        detail = f"only the first {max_links} of {max_links + finder.skipped_count} links were read"
        failure = PageFailure(FailureKind.TRUNCATED, detail)
    elif text is not whole:
        detail = f"elements are nested deeper than {MAX_DEPTH}; the rest was not read"
        failure = PageFailure(FailureKind.TRUNCATED, detail)
    title, head = read_title(page), _read_head(page, url, charset)
    return PageContent(title, *split_links(finder.links), failure, head, read_text(page))


def _read_head(page: LexborHTMLParser, url: str, charset: str) -> PageHead:
    """Return the elements of the head that say something about the page."""
    base = find_base(page, url, charset)
    metas = [
        (meta.attributes.get("name") or "", meta.attributes.get("content") or "")
        for meta in page.css("head meta[name][content]")[:MAX_HEAD_ELEMENTS]
    ]
    links = [
        (
            link.attributes.get("rel") or "",
            resolve_href(base, (link.attributes.get("href") or "").strip(C0_AND_SPACE), charset),
            link.attributes.get("hreflang") or "",
        )
        for link in page.css("head link[rel][href]")[:MAX_HEAD_ELEMENTS]
        if (link.attributes.get("href") or "").strip(C0_AND_SPACE)
    ]
    return make_head(metas, links)


def split_links(links: Iterable[Link]) -> tuple[tuple[Link, ...], tuple[Link, ...]]:
    """Return the links of `<a href>` in the document itself, and those that were found elsewhere."""
    anchors: list[Link] = []
    added: list[Link] = []
    for link in links:
        (anchors if link.source is LinkSource.ANCHOR else added).append(link)
    return tuple(anchors), tuple(added)


class _LinkFinder:
    """Collects the links of a document and of the documents inside of it, at most `max_links`."""

    def __init__(self, url: str, charset: str, max_links: int) -> None:
        self._host = find_host(url)
        self._charset = charset
        self._max_links = max_links
        self.links: list[Link] = []
        self.skipped_count = 0

    def add_document(self, page: LexborHTMLParser, url: str, source: LinkSource | None = None, level: int = 0) -> None:
        """Add the links of a document at `url`; `source` is given for a document inside of another one."""
        base = find_base(page, url, self._charset)
        anchors = page.css("a[href]")
        has_math = page.css_first("math") is not None
        svg_anchors: list[LexborNode] = []
        for anchor in anchors:
            attributes = anchor.attributes
            if has_math and _is_mathml(anchor):
                continue
            if "href" not in attributes:  # xlink:href, which `a[href]` does not match in a browser
                svg_anchors.append(anchor)
                continue
            if self._has_room():
                href = attributes["href"] or ""  # None if the attribute has no value
                self._add(base, href, anchor.text(), source or LinkSource.ANCHOR, attributes.get("rel"))
        for area in page.css("area[href]"):
            if self._has_room():
                attributes = area.attributes
                alt, rel = attributes.get("alt") or "", attributes.get("rel")
                self._add(base, attributes["href"] or "", alt, source or LinkSource.AREA, rel)
        for anchor in svg_anchors:
            if self._has_room():
                href, rel = anchor.attributes["xlink:href"] or "", anchor.attributes.get("rel")
                self._add(base, href, anchor.text(), source or LinkSource.SVG, rel)
        for frame in page.css("iframe, frame"):
            self._add_frame(frame, base, source or LinkSource.FRAME, level)
        for template in page.css("template[shadowrootmode]"):
            if (template.attributes["shadowrootmode"] or "").lower() == "open" and level < _MAX_INNER_LEVEL:
                inner = "<div" + (template.html or "").removeprefix("<template").removesuffix("</template>") + "</div>"
                self.add_document(LexborHTMLParser(inner, scripting=True), base, LinkSource.SHADOW, level + 1)

    def _add_frame(self, frame: LexborNode, base: str, source: LinkSource, level: int) -> None:
        """Add the document of a frame if it is on the same host, or the links of a document in `srcdoc`."""
        attributes = frame.attributes
        if "srcdoc" in attributes and frame.tag == "iframe":
            sandbox = attributes.get("sandbox", "allow-same-origin") or ""  # otherwise the page cannot look inside
            if level < _MAX_INNER_LEVEL and "allow-same-origin" in sandbox.lower():
                inner = LexborHTMLParser(cut_deep_nesting(attributes["srcdoc"] or ""), scripting=True)
                self.add_document(inner, base, LinkSource.FRAME, level + 1)
            return
        src = attributes.get("src")
        target = resolve_href(base, src.strip(C0_AND_SPACE), self._charset) if src is not None else ""
        is_page = target.startswith(("http://", "https://")) and find_host(target) == self._host
        if is_page and self._has_room():
            self._add(base, src or "", attributes.get("title") or "", source)

    def _has_room(self) -> bool:
        """Return whether one more link may be added, and count one that may not."""
        if len(self.links) < self._max_links:
            return True
        self.skipped_count += 1
        return False

    def _add(self, base: str, href: str, text: str, source: LinkSource, rel: str | None = None) -> None:
        is_nofollow = rel is not None and "nofollow" in rel.lower().split()
        url = resolve_href(base, href, self._charset)
        self.links.append(Link(href, url, _trim_link_text(text), source, is_nofollow))


def resolve_href(base: str, href: str, charset: str = "utf-8") -> str:
    """Return what `a.href` is: the absolute URL, its query in the document's encoding; an invalid `href` as it is."""
    absolute = _append_reference(base, href)
    if _UNCHANGED.fullmatch(absolute):
        return absolute
    reference = href if href.isascii() or charset == "utf-8" else _encode_query(href, charset)
    try:
        return join(base, reference)
    except InvalidUrl:
        return href


def _append_reference(base: str, href: str) -> str:
    """Return the URL of a simple reference, made without the parser; other references give a text that is no plain URL.

    If the parser would not change the result, it is what the parser returns: it has no dot segments and no escapes.
    """
    if href.startswith(("http://", "https://")):
        return href
    places = _split_base(base)
    if places is None or ":" in href or href.startswith("//"):
        return ""
    if href.startswith("#"):
        return places.page + href
    if href.startswith("/"):
        return places.origin + href
    if not href or href.startswith("?"):
        return ""
    folder = places.folder
    while href.startswith("../"):
        href = href[3:]
        parent_end = folder.rfind("/", len(places.origin), -1)
        folder = folder[: parent_end + 1] if parent_end > 0 else f"{places.origin}/"
    return folder + href


@lru_cache(maxsize=64)
def _split_base(base: str) -> _BasePlaces | None:
    """Return the beginnings of the URLs that references of a page resolve to; None unless its URL is plain."""
    if not _UNCHANGED.fullmatch(base):
        return None
    page = base.partition("#")[0]
    path = page.partition("?")[0]
    return _BasePlaces(page, path[: path.index("/", 8)], path[: path.rindex("/") + 1])


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


def find_base(page: LexborHTMLParser, url: str, charset: str = "utf-8") -> str:
    """Return the URL that references of a page are resolved at: that of `<base>`, or its own."""
    base = page.css_first("base[href]")
    if base is None:
        return url
    href = (base.attributes.get("href") or "").strip(C0_AND_SPACE)
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
