"""What a page says about itself: robots directives, languages and canonical URL, from its head and its headers."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from canonry.core.url import join
from canonry.errors import InvalidUrl
from canonry.net.response import Validators

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_HEAD_ELEMENTS = 500
_MAX_VALUES = 200
_MAX_CHARACTERS = 2_000  # of one value
_ROBOTS_NAMES = frozenset({"robots", "canonry"})
# Directives with a value; any other word before a colon is the name of a crawler.
_WITH_VALUE = frozenset({"max-image-preview", "max-snippet", "max-video-preview", "unavailable_after"})
# One link of a Link header (RFC 8288): <target> and its parameters, whose quoted values may contain anything.
_LINK = re.compile(r"<([^<>]*)>((?:\s*;\s*[\w*-]+(?:\s*=\s*(?:\"(?:[^\"\\]|\\.)*\"|[^\s;,]*))?)*)")
_PARAMETER = re.compile(r";\s*([\w*-]+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s;,]*))")


@dataclass(frozen=True, slots=True)
class PageFacts:
    """The facts about a page other than its links.

    `size` is the number of bytes of the body after decompression, None if it is not known. `hreflangs` are pairs of
    language and URL. `canonical_url` is the one that the page declares, which may be wrong. `etag` and
    `last_modified` are its validators (RFC 9110, 8.8). `hops` are the redirects on the way, each with its status and
    the URL that answered.
    """

    content_type: str = ""
    size: int | None = None
    robots_directives: tuple[str, ...] = ()
    hreflangs: tuple[tuple[str, str], ...] = ()
    canonical_url: str = ""
    is_still_changing: bool = False
    etag: str = ""
    last_modified: str = ""
    hops: tuple[tuple[int, str], ...] = ()

    @property
    def validators(self) -> Validators:
        """The validators of a conditional request for the page."""
        return Validators(self.etag, self.last_modified)

    @property
    def is_nofollow(self) -> bool:
        """Whether the page asks crawlers not to follow its links."""
        return not {"nofollow", "none"}.isdisjoint(self.robots_directives)

    def to_json(self) -> str:
        """Return the facts as text, for a store."""
        return json.dumps(asdict(self), separators=(",", ":"))


NO_FACTS = PageFacts()


def parse_facts(text: str) -> PageFacts:
    """Return facts from text; facts that it lacks, as in an empty text, have their defaults."""
    stored: dict[str, Any] = json.loads(text or "{}")
    values = {name: stored[name] for name in PageFacts.__dataclass_fields__ if name in stored}
    values["robots_directives"] = tuple(values.get("robots_directives", ()))
    values["hreflangs"] = tuple((language, url) for language, url in values.get("hreflangs", ()))
    values["hops"] = tuple((status, url) for status, url in values.get("hops", ()))
    return PageFacts(**values)


class HeadLink(NamedTuple):
    """A `<link>` in the head of a page, or of a Link header; `url` is absolute."""

    rel: str
    url: str
    hreflang: str = ""


@dataclass(frozen=True, slots=True)
class PageHead:
    """The elements of a head that facts are made of: `metas` are pairs of name and content."""

    metas: tuple[tuple[str, str], ...] = ()
    links: tuple[HeadLink, ...] = ()


NO_HEAD = PageHead()


class Declarations(NamedTuple):
    """The declarations in a page's head and headers."""

    robots_directives: tuple[str, ...]
    hreflangs: tuple[tuple[str, str], ...]
    canonical_url: str


def read_declarations(head: PageHead, *, url: str, link_header: str, robots_header: str) -> Declarations:
    """Return what a page at `url` declares; the head comes before the headers."""
    directives = [
        directive
        for name, content in head.metas
        if name.strip().lower() in _ROBOTS_NAMES
        for directive in parse_directives(content)
    ]
    links = [*head.links, *parse_link_header(link_header, url)]
    canonical = [link.url for link in links if _has_relation(link, "canonical") and _is_page(link.url)]
    alternates = [
        (link.hreflang.strip()[:100], link.url)
        for link in links
        if _has_relation(link, "alternate") and link.hreflang.strip() and _is_page(link.url)
    ]
    return Declarations(
        tuple(dict.fromkeys([*directives, *parse_directives(robots_header)]))[:_MAX_VALUES],
        tuple(dict.fromkeys(alternates))[:_MAX_VALUES],
        canonical[0] if canonical else "",
    )


def parse_directives(text: str) -> list[str]:
    """Return the robots directives of a meta element or an X-Robots-Tag, in lower case, without those for others."""
    found: list[str] = []
    is_ours = True
    for part in text[:_MAX_CHARACTERS].lower().split(","):
        name, colon, rest = part.partition(":")
        directive = part.strip()
        if colon and name.strip() not in _WITH_VALUE and not _is_time(name):
            is_ours, directive = name.strip() in _ROBOTS_NAMES, rest.strip()
        if directive and is_ours:
            found.append(" ".join(directive.split()))
    return found


def parse_link_header(text: str, url: str) -> list[HeadLink]:
    """Return the links of a Link header, resolved at `url`; not those whose `anchor` is another URL."""
    links: list[HeadLink] = []
    for match in _LINK.finditer(text[: 10 * _MAX_CHARACTERS]):
        values = {name.lower(): quoted or bare for name, quoted, bare in reversed(_PARAMETER.findall(match[2]))}
        try:
            is_about_page = not (anchor := values.get("anchor")) or join(url, anchor.strip()) == url
            if is_about_page:
                links.append(HeadLink(values.get("rel", ""), join(url, match[1].strip()), values.get("hreflang", "")))
        except InvalidUrl:
            continue
    return links


def make_head(metas: Iterable[tuple[str, str]], links: Iterable[tuple[str, str, str]]) -> PageHead:
    """Return a head from the attributes of its elements."""
    return PageHead(tuple((name, content) for name, content in metas), tuple(HeadLink(*each) for each in links))


def _has_relation(link: HeadLink, relation: str) -> bool:
    return relation in link.rel.lower().split()


def _is_page(url: str) -> bool:
    return url.startswith(("http://", "https://")) and len(url) <= _MAX_CHARACTERS


def _is_time(text: str) -> bool:
    """Return whether the text before a colon is part of a time, `25 jun 2010 15:00`, after a comma in a date."""
    return text[-1:].isdigit()
