"""XML to a tree: expat for what is well-formed, and a forgiving reading of our own for what is not.

Neither sees a document type: both begin at the root element, so no entity can grow and none is fetched.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from html.entities import html5
from itertools import islice, pairwise

MAX_ITEMS = 10_000
MAX_TAGS = 120_000  # tags expat may build a tree from
MAX_STEPS = 80_000  # tags and attributes after which the forgiving reading stops
MAX_DEPTH = 100  # elements the forgiving reading nests; deeper ones leave their text
MAX_CAREFUL = 4_000_000  # characters the forgiving reading looks at
_MAX_ATTRIBUTES = 50  # of one tag
_MAX_REFERENCES = 250_000  # that are resolved
_MAX_EXPANSION = 1_000_000  # characters that entities of the document itself may add
_MAX_ENTITY = 1_000  # characters of one entity
_HEAD = 100_000  # characters in which entities and namespaces are looked for
_MAX_NAMESPACE = 500  # characters; expat copies them into the name of each element

Element = ET.Element

ITEMS = frozenset({"item", "entry"})
CONTAINERS = frozenset({"rss", "rdf:rdf", "rdf", "feed", "channel"})
# Elements that hold one value, and those that may hold markup.
_VALUES = frozenset((
    "title", "link", "guid", "id", "pubdate", "published", "updated", "issued", "modified", "created", "category",
    "lastbuilddate", "comments", "language", "ttl", "generator", "docs", "copyright", "rights", "managingeditor",
    "webmaster", "name", "uri", "url", "email", "width", "height", "dc:title", "dc:date", "dc:creator", "dc:subject",
    "dcterms:modified", "dcterms:issued", "media:title", "itunes:author", "itunes:duration",
))  # fmt: skip
_TEXTS = frozenset({"description", "summary", "content", "subtitle", "tagline", "content:encoded", "dc:description"})
_NOT_HTML = (_VALUES | _TEXTS | {"enclosure", "author", "source"}) - {"title", "link", "summary", "source"}
_VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "meta", "param", "track", "wbr"})

# Namespaces by the prefix everybody uses; those of the formats themselves have none. Case does not count.
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
_LONG_NAMESPACE = re.compile(rf"xmlns[\w:.-]*\s*=\s*(?:\"[^\"]{{{_MAX_NAMESPACE}}}|'[^']{{{_MAX_NAMESPACE}}})")

# A tag ends at the next < at the latest, so that broken quotes cost one tag, and reading is linear.
_TAG = re.compile(r"<(/?)([A-Za-z_][\w.:-]*)((?>[^<>\"']|\"[^\"<]*\"|'[^'<]*')*+[^<>]*+)>?")
_ATTRIBUTE = re.compile(r"([\w.:-]+)\s*=\s*(?:\"([^\"]*)\"?|'([^']*)'?|([^\s\"']+))")
_REFERENCE = re.compile(r"&(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|\w{1,40});")
_ENTITY = re.compile(rf"<!ENTITY\s+(\w+)\s+(?:\"([^\"]{{0,{_MAX_ENTITY}}})\"|'([^']{{0,{_MAX_ENTITY}}})')\s*>")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]+")


class Names(dict[str, str]):
    """Tag or attribute → its name in lower case: `title` of a feed, `dc:date` of a module, whatever its prefix was."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._head = text[:_HEAD]
        self._declared: dict[str, str] = {}

    def __missing__(self, tag: str) -> str:
        namespace, _, local = tag[1:].partition("}") if tag.startswith("{") else ("", "", tag)
        if namespace:
            prefix = self._prefix(namespace)
        else:
            prefix, _, local = local.rpartition(":")
        prefix = prefix.lower()
        name = local.lower() if not prefix or _ATOM_PREFIX.fullmatch(prefix) else f"{prefix}:{local.lower()}"
        self[tag] = name
        return name

    def _prefix(self, namespace: str) -> str:
        """The usual prefix of a known namespace, and the prefix a document gives to an unknown one."""
        known = namespace.lower()
        if known in _PREFIXES:
            return _PREFIXES[known]
        if "backend.userland.com/rss" in known:
            return ""
        if not self._declared:
            declarations: list[tuple[str, str]] = _DECLARATION.findall(self._head)
            self._declared = {uri: prefix for prefix, uri in declarations}
        return self._declared.get(namespace, "?")


def parse_strictly(text: str) -> Element | None:
    """The tree of a well-formed document; None where it is not, or too large for this way."""
    if _count_tags(text) > MAX_TAGS or _LONG_NAMESPACE.search(text):
        return None
    parser = ET.XMLParser()  # noqa: S314 – the text begins at the root, so there is no document type
    try:
        parser.feed(text)
        return parser.close()
    except ET.ParseError:
        return None


def _count_tags(text: str) -> int:
    """The tags of a document; only where there are too many are those in CDATA left out."""
    count = text.count("<")
    if count <= MAX_TAGS:
        return count
    first, *others = text.split("<![CDATA[")
    return first.count("<") + sum(other.partition("]]>")[2].count("<") for other in others)


def parse_carefully(text: str, prolog: str = "") -> Element:
    """The tree of whatever can be read; the prolog may declare entities."""
    text = _FORBIDDEN.sub("", text[:MAX_CAREFUL]).replace("\r\n", "\n").replace("\r", "\n")
    return _Scanner(text, _entities(prolog)).scan()


class _Scanner:
    """Reads tags one by one and keeps them nested the way a feed is, whatever the document does."""

    def __init__(self, text: str, entities: dict[str, str]) -> None:
        self._text = text
        self._references = _References(entities)
        self._absent: set[str] = set()
        self._names = Names(text)
        self._prefixes: dict[str, str] = {}
        self._tree = ET.TreeBuilder()
        self._open: list[tuple[str, Element]] = []
        self._count: Counter[str] = Counter()
        self._steps = MAX_STEPS

    def scan(self) -> Element:
        """Read to the end, or to the limit."""
        text, at = self._text, 0
        while self._steps > 0 and (tag := text.find("<", at)) >= 0:
            self._steps -= 1
            if tag > at:
                self._tree.data(self._unescaped(text[at:tag]))
            at = self._read_markup(tag)
        self._drop_unfinished()
        while self._open:
            self._close()
        return self._tree.close()

    def _read_markup(self, at: int) -> int:
        """Read what begins with the < at this place; the place after it."""
        text = self._text
        if text.startswith("<![CDATA[", at):
            end = self._after("]]>", at)
            self._tree.data(text[at + 9 : end - 3] if end else "")
            return end or len(text)
        if text.startswith(("<!", "<?"), at):
            end = self._after("-->", at + 4) if text.startswith("<!--", at) else 0
            return end or self._after(">", at) or len(text)
        match = _TAG.match(text, at)
        if match is None:
            self._tree.data("<")
            return at + 1
        slash, qualified, rest = match.groups()
        if slash:
            self._end(self._names[self._with_namespace(qualified)])
        else:
            self._start(qualified, rest)
        return match.end()

    def _start(self, qualified: str, rest: str) -> None:
        attributes = self._attributes(rest) if "=" in rest else {}
        tag = self._with_namespace(qualified)
        name = self._names[tag]
        if name in ITEMS:
            self._close_until(CONTAINERS)
        elif name in _NOT_HTML and name not in self._count and not self._count.keys().isdisjoint(_TEXTS):
            self._close_until(_TEXTS)
            self._close()
        elif self._open and self._open[-1][0] in _VALUES and (name in _VALUES or name in _TEXTS):
            self._close()
        if len(self._open) >= MAX_DEPTH:
            return
        self._open.append((name, self._tree.start(tag, attributes)))
        self._count[name] += 1
        if len(self._open) > 1 and (rest.rstrip().endswith("/") or name in _VOID):
            self._close()

    def _end(self, name: str) -> None:
        """Close the innermost element of this name and what it holds; an end without a start is nothing."""
        if name == self._open[0][0]:
            self._steps = 0  # what follows the root is no part of the document
        elif name in self._count:
            self._close_until(frozenset({name}))
            self._close()

    def _close_until(self, names: frozenset[str]) -> None:
        while len(self._open) > 1 and self._open[-1][0] not in names:
            self._close()

    def _close(self) -> None:
        name, element = self._open.pop()
        self._tree.end(element.tag)
        self._count[name] -= 1
        if not self._count[name]:
            del self._count[name]

    def _drop_unfinished(self) -> None:
        """Take out a value that the end of the document cut: half an id would be another id."""
        for (_, parent), (name, element) in pairwise(self._open):
            if name in _VALUES:
                parent.remove(element)

    def _attributes(self, rest: str) -> dict[str, str]:
        attributes: dict[str, str] = {}
        for match in islice(_ATTRIBUTE.finditer(rest), _MAX_ATTRIBUTES):
            self._steps -= 1
            name, double, single, bare = match.groups()
            value = self._unescaped(double or single or bare or "")
            if not name.startswith("xmlns"):
                attributes.setdefault(name, value)
            elif len(value) < _MAX_NAMESPACE and (name != "xmlns" or not self._open):
                self._prefixes[name[6:]] = value
        return {self._with_namespace(name) if ":" in name else name: value for name, value in attributes.items()}

    def _with_namespace(self, qualified: str) -> str:
        prefix, _, local = qualified.rpartition(":")
        namespace = self._prefixes.get(prefix, "") if prefix or not self._open else ""
        return f"{{{namespace}}}{local}" if namespace else qualified

    def _unescaped(self, text: str) -> str:
        return self._references.resolve(text) if "&" in text else text

    def _after(self, mark: str, at: int) -> int:
        """The place after the next mark; 0 where there is none, which is looked for once."""
        if mark in self._absent:
            return 0
        found = self._text.find(mark, at)
        if found < 0:
            self._absent.add(mark)
        return found + len(mark) if found >= 0 else 0


class _References:
    """Resolves references: a number, a short entity of the document, a name of HTML; others stay as they are."""

    def __init__(self, entities: dict[str, str]) -> None:
        self._entities = entities
        self._left = _MAX_REFERENCES
        self._room = _MAX_EXPANSION

    def resolve(self, text: str) -> str:
        if self._left <= 0:
            return text
        text, count = _REFERENCE.subn(self._meaning, text, self._left)
        self._left -= count
        return text

    def _meaning(self, reference: re.Match[str]) -> str:
        name = reference[1]
        if name.startswith("#"):
            number = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
            is_character = 31 < number < 0xD800 or 0xDFFF < number < 0x110000 or number in {9, 10, 13}
            return chr(number) if is_character else "\ufffd"
        own = self._entities.get(name)
        if own is None:
            return html5.get(f"{name};", reference[0])
        self._room -= len(own)
        return own if self._room >= 0 else reference[0]


def _entities(prolog: str) -> dict[str, str]:
    """The entities a document type declares; in them only characters are resolved, not one another."""
    characters = _References({})
    return {name: characters.resolve(double or single) for name, double, single in _ENTITY.findall(prolog[:_HEAD])}
