"""Parse XML into a tree: strictly with expat, or leniently with a scanner for documents that are not well-formed.

Both begin at the root element and never see a document type: entities cannot expand without limit, and
nothing is fetched.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from html.entities import html5
from itertools import islice, pairwise
from typing import NamedTuple

MAX_ITEMS = 10_000
MAX_TAGS = 120_000  # of the strict parser; the lenient parser reads larger documents
MAX_STEPS = 80_000  # tags and attributes after which the lenient parser stops
MAX_DEPTH = 100  # nested elements of the lenient parser; of deeper ones only the text is kept
MAX_LENIENT_CHARACTERS = 4_000_000  # that the lenient parser reads
_MAX_ATTRIBUTES = 50  # of one tag
_MAX_REFERENCES = 250_000  # that are resolved in one document
_MAX_EXPANSION_CHARACTERS = 1_000_000  # that the document's own entities may add
_MAX_ENTITY_CHARACTERS = 1_000
_HEAD_CHARACTERS = 100_000  # that are searched for entities and namespaces
_MAX_PREFIXES = 100  # that are bound at once in the lenient parser
_MAX_NAMESPACE_CHARACTERS = 500  # expat copies the namespace into the name of each element

Element = ET.Element

ITEMS = frozenset({"item", "entry"})
CONTAINERS = frozenset({"rss", "rdf:rdf", "rdf", "feed", "channel"})
# Elements that contain one value, and those that may contain markup.
_VALUES = frozenset((
    "title", "link", "guid", "id", "pubdate", "published", "updated", "issued", "modified", "created", "category",
    "lastbuilddate", "comments", "language", "ttl", "generator", "docs", "copyright", "rights", "managingeditor",
    "webmaster", "name", "uri", "url", "email", "width", "height", "dc:title", "dc:date", "dc:creator", "dc:subject",
    "dcterms:modified", "dcterms:issued", "media:title", "itunes:author", "itunes:duration",
))  # fmt: skip
_TEXTS = frozenset({"description", "summary", "content", "subtitle", "tagline", "content:encoded", "dc:description"})
# Names that feeds use and HTML does not: inside a text they mean that its end tag is missing.
_NOT_HTML = (_VALUES | _TEXTS | {"enclosure", "author", "source"}) - {"title", "link", "summary", "source"}
# Elements of HTML that have no end tag.
_HTML_VOID_ELEMENTS = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "meta", "param", "track", "wbr"}
)

# Namespace in lower case → its usual prefix; the namespaces of the formats themselves have none.
_PREFIXES = {
    "http://www.w3.org/2005/atom": "",
    "http://purl.org/atom/ns#": "",
    "http://purl.org/rss/1.0/": "",
    "http://purl.org/rss/1.0/modules/rss091#": "",
    "http://my.netscape.com/rdf/simple/0.9/": "",
    "http://blogs.law.harvard.edu/tech/rss": "",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://purl.org/dc/terms/": "dcterms",
    "http://purl.org/rss/1.0/modules/content/": "content",
    "http://search.yahoo.com/mrss/": "media",
    "http://search.yahoo.com/mrss": "media",
    "http://www.itunes.com/dtds/podcast-1.0.dtd": "itunes",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf",
    "http://www.w3.org/1999/xhtml": "xhtml",
    "http://www.w3.org/xml/1998/namespace": "xml",
}
_ATOM_PREFIX = re.compile(r"atom\d*|a10")
_DECLARATION = re.compile(r"xmlns(?::([\w.-]+))?\s*=\s*[\"']([^\"']*)[\"']")
_LONG_NAMESPACE = re.compile(
    rf"xmlns[\w:.-]*\s*=\s*(?:\"[^\"]{{{_MAX_NAMESPACE_CHARACTERS}}}|'[^']{{{_MAX_NAMESPACE_CHARACTERS}}})"
)

_ITEM_START = re.compile(r"<(?:[\w.-]+:)?(?:item|entry)(?=[\s/>])", re.IGNORECASE)

# A tag ends at the next < at the latest, so that an unclosed quote spoils only one tag, and scanning is linear.
_TAG = re.compile(r"<(/?)([A-Za-z_][\w.:-]*)((?>[^<>\"']|\"[^\"<]*\"|'[^'<]*')*+[^<>]*+)>?")
_ATTRIBUTE = re.compile(r"([\w.:-]+)\s*=\s*(?:\"([^\"]*)\"?|'([^']*)'?|([^\s\"']+))")
_REFERENCE = re.compile(r"&(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|\w{1,40});")
_ENTITY = re.compile(
    rf"<!ENTITY\s+(\w+)\s+(?:\"([^\"]{{0,{_MAX_ENTITY_CHARACTERS}}})\"|'([^']{{0,{_MAX_ENTITY_CHARACTERS}}})')\s*>"
)
# Not allowed in XML 1.0, and DEL.
FORBIDDEN_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]+")


class LenientTree(NamedTuple):
    """The result of the lenient parser, and the number of items it left out."""

    root: Element
    cut_items: int
    is_cut_short: bool  # the document, or what can be read of it, ends before the end tag of its root


class Names(dict[str, str]):
    """Maps a tag or attribute to its name in lower case, with the usual prefix of its namespace.

    `title` belongs to the format itself, `dc:date` to a module, whatever prefix the document uses.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self._head = text[:_HEAD_CHARACTERS]
        self._declared: dict[str, str] = {}

    def __missing__(self, tag: str) -> str:
        namespace, _, local = tag[1:].partition("}") if tag.startswith("{") else ("", "", tag)
        if namespace:
            prefix = self._find_prefix(namespace)
        else:
            prefix, _, local = local.rpartition(":")
        prefix = prefix.lower()
        name = local.lower() if not prefix or _ATOM_PREFIX.fullmatch(prefix) else f"{prefix}:{local.lower()}"
        self[tag] = name
        return name

    def _find_prefix(self, namespace: str) -> str:
        """Return the usual prefix of a known namespace, or the document's own prefix of an unknown one."""
        known = namespace.lower()
        if known in _PREFIXES:
            return _PREFIXES[known]
        if "backend.userland.com/rss" in known:
            return ""
        if not self._declared:
            declarations: list[tuple[str, str]] = _DECLARATION.findall(self._head)
            self._declared = {uri: prefix for prefix, uri in declarations}
            # Only the first default namespace can be that of the feed: elements of a later one are foreign.
            own = next((uri for prefix, uri in declarations if not prefix), "")
            self._declared = {uri: prefix or ("" if uri == own else "?") for uri, prefix in self._declared.items()}
        return self._declared.get(namespace, "?")


def parse_strict(text: str) -> Element | None:
    """Parse a well-formed document; return None if it is not well-formed or has too many tags."""
    if _count_tags(text) > MAX_TAGS or _LONG_NAMESPACE.search(text):
        return None
    parser = ET.XMLParser()  # noqa: S314 – the text begins at the root, so there is no document type
    try:
        parser.feed(text)
        return parser.close()
    except ET.ParseError:
        return None


def _count_tags(text: str) -> int:
    """Count the tags of a document. CDATA is left out only if that may bring the count below the limit."""
    count = text.count("<")
    if count <= MAX_TAGS:
        return count
    first, *others = text.split("<![CDATA[")
    return first.count("<") + sum(other.partition("]]>")[2].count("<") for other in others)


def count_items(text: str) -> int:
    """Count the items that begin in a part of a document."""
    return sum(1 for _ in _ITEM_START.finditer(text))


def parse_lenient(text: str, prolog: str = "") -> LenientTree:
    """Parse as much of a broken document as possible; the prolog may declare entities.

    An item that the end of the document or a limit cuts is left out: half an item would be another item.
    """
    rest = text[MAX_LENIENT_CHARACTERS:]
    text = FORBIDDEN_CHARACTERS.sub("", text[:MAX_LENIENT_CHARACTERS]).replace("\r\n", "\n").replace("\r", "\n")
    tree = _Scanner(text, _read_entities(prolog)).scan()
    return LenientTree(tree.root, tree.cut_items + count_items(rest), tree.is_cut_short and not rest)


class _Scanner:
    """Scans tag by tag, and nests the elements as a feed does even if the document does not."""

    def __init__(self, text: str, entities: dict[str, str]) -> None:
        self._text = text
        self._entity_resolver = _EntityResolver(entities)
        self._absent: set[str] = set()
        self._names = Names(text)
        self._prefixes: dict[str, str] = {}
        self._tree = ET.TreeBuilder()
        self._open: list[tuple[str, Element]] = []
        self._outer_prefixes: list[dict[str, str]] = []  # of each open element: those that apply again after its end
        self._count: Counter[str] = Counter()
        self._steps = MAX_STEPS
        self._root_tag = ""  # as written
        self._has_ended = False  # the end tag of the root was read
        self._is_unclosed = False  # a CDATA section or a comment has no end

    def scan(self) -> LenientTree:
        """Scan to the end of the document or to the limit."""
        text, at = self._text, 0
        while self._steps > 0 and (tag := text.find("<", at)) >= 0:
            self._steps -= 1
            if tag > at:
                self._tree.data(self._unescape(text[at:tag]))
            at = self._read_markup(tag)
            if self._is_unclosed:
                break
        is_over_limit = self._steps <= 0 and not self._has_ended
        cut_items = 0 if self._has_ended else self._drop_unfinished() + count_items(text[at:])
        while self._open:
            self._close()
        return LenientTree(self._tree.close(), cut_items, not self._has_ended and not is_over_limit)

    def _read_markup(self, at: int) -> int:
        """Read the markup that begins at a <; return the position after it.

        An unclosed CDATA section or comment is where the document is cut: nobody knows where it should have ended.
        """
        text = self._text
        if text.startswith(("<![CDATA[", "<!--"), at):
            is_comment = text.startswith("<!--", at)
            end = self._find_end("-->", at + 4) if is_comment else self._find_end("]]>", at)
            if not is_comment and end:
                self._tree.data(text[at + 9 : end - 3])
            self._is_unclosed = not end
            return end or at
        if text.startswith(("<!", "<?"), at):
            return self._find_end(">", at) or len(text)
        match = _TAG.match(text, at)
        if match is None:
            self._tree.data("<")
            return at + 1
        slash, qualified, rest = match.groups()
        if slash:
            self._end(qualified)
        else:
            # A tag that the end of the document cuts, as in `<item about="http:/`, is no empty element.
            is_empty = rest.rstrip().endswith("/") and match[0].endswith(">")
            self._start(qualified, rest, is_empty=is_empty)
        return match.end()

    def _start(self, qualified: str, rest: str, *, is_empty: bool) -> None:
        outer = self._prefixes
        attributes = self._read_attributes(rest) if "=" in rest else {}
        tag = self._add_namespace(qualified)
        name = self._names[tag]
        inner, self._prefixes = self._prefixes, outer
        if name in ITEMS:
            self._close_until(CONTAINERS)
        elif name in _NOT_HTML and name not in self._count and not self._count.keys().isdisjoint(_TEXTS):
            self._close_until(_TEXTS)
            self._close()
        elif self._open and self._open[-1][0] in _VALUES and (name in _VALUES or name in _TEXTS):
            self._close()
        if len(self._open) >= MAX_DEPTH:
            return
        self._root_tag = self._root_tag or qualified
        self._open.append((name, self._tree.start(tag, attributes)))
        self._outer_prefixes.append(self._prefixes)
        if inner is not outer:
            self._prefixes = {**self._prefixes, **inner}
        self._count[name] += 1
        if len(self._open) > 1 and (is_empty or name in _HTML_VOID_ELEMENTS):
            self._close()

    def _end(self, qualified: str) -> None:
        """Close the innermost element of this name and all within it; ignore an end tag without a start tag."""
        name = self._names[self._add_namespace(qualified)]
        if self._is_root(qualified):
            self._steps = 0  # whatever follows the root is not part of the document
            self._has_ended = True
        elif name in self._count:
            self._close_until(frozenset({name}))
            self._close()

    def _close_until(self, names: frozenset[str]) -> None:
        while len(self._open) > 1 and self._open[-1][0] not in names:
            self._close()

    def _close(self) -> None:
        name, element = self._open.pop()
        self._prefixes = self._outer_prefixes.pop()
        self._tree.end(element.tag)
        self._count[name] -= 1
        if not self._count[name]:
            del self._count[name]

    def _is_root(self, qualified: str) -> bool:
        """Whether an end tag is that of the root; a default namespace is part of the name of the root only."""
        return qualified == self._root_tag or self._names[self._add_namespace(qualified)] == self._open[0][0]

    def _drop_unfinished(self) -> int:
        """Remove the item or the value that the end of the document cuts, and return the number of items removed."""
        for (_, parent), (name, element) in pairwise(self._open):
            if name in ITEMS or name in _VALUES:
                parent.remove(element)
                return int(name in ITEMS)
        return 0

    def _read_attributes(self, rest: str) -> dict[str, str]:
        attributes: dict[str, str] = {}
        for match in islice(_ATTRIBUTE.finditer(rest), _MAX_ATTRIBUTES):
            self._steps -= 1
            name, double, single, bare = match.groups()
            value = self._unescape(double or single or bare or "")
            if not name.startswith("xmlns"):
                attributes.setdefault(name, value)
            elif len(value) < _MAX_NAMESPACE_CHARACTERS and (name != "xmlns" or not self._open):
                self._bind_prefix(name[6:], value)
        return {self._add_namespace(name) if ":" in name else name: value for name, value in attributes.items()}

    def _bind_prefix(self, prefix: str, namespace: str) -> None:
        if len(self._prefixes) < _MAX_PREFIXES:
            self._prefixes = {**self._prefixes, prefix: namespace}

    def _add_namespace(self, qualified: str) -> str:
        prefix, _, local = qualified.rpartition(":")
        namespace = self._prefixes.get(prefix, "") if prefix or not self._open else ""
        return f"{{{namespace}}}{local}" if namespace else qualified

    def _unescape(self, text: str) -> str:
        return self._entity_resolver.resolve(text) if "&" in text else text

    def _find_end(self, mark: str, at: int) -> int:
        """Return the position after the next mark, or 0 if there is none.

        An absent mark is remembered, so that the document is searched for it only once.
        """
        if mark in self._absent:
            return 0
        found = self._text.find(mark, at)
        if found < 0:
            self._absent.add(mark)
        return found + len(mark) if found >= 0 else 0


class _EntityResolver:
    """Resolves numeric references, short entities of the document and HTML entities; others stay as written."""

    def __init__(self, entities: dict[str, str]) -> None:
        self._entities = entities
        self._references_left = _MAX_REFERENCES
        self._characters_left = _MAX_EXPANSION_CHARACTERS

    def resolve(self, text: str) -> str:
        if self._references_left <= 0:
            return text
        text, count = _REFERENCE.subn(self._replace, text, self._references_left)
        self._references_left -= count
        return text

    def _replace(self, reference: re.Match[str]) -> str:
        name = reference[1]
        if name.startswith("#"):
            number = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
            is_character = 31 < number < 0xD800 or 0xDFFF < number < 0x110000 or number in {9, 10, 13}
            return chr(number) if is_character else "\ufffd"
        own = self._entities.get(name)
        if own is None:
            return html5.get(f"{name};", reference[0])
        self._characters_left -= len(own)
        return own if self._characters_left >= 0 else reference[0]


def _read_entities(prolog: str) -> dict[str, str]:
    """Read the entities a document type declares. In their values only characters are resolved, not other entities."""
    characters = _EntityResolver({})
    return {
        name: characters.resolve(double or single)
        for name, double, single in _ENTITY.findall(prolog[:_HEAD_CHARACTERS])
    }
