"""Session identifiers in URLs: what looks like one, and what two readings of a page tell about it. No I/O.

A name such as `sid` proves nothing, because it may select a story. A parameter is taken for a session identifier when
its value looks random and two of its values showed one text. The rule then holds for the scope in which that was seen:
one folder or script of the site. A pair with different texts withdraws it.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from canonry.evidence.same_page import MIN_WORDS, is_similar_text

if TYPE_CHECKING:
    from canonry.evidence.fingerprint import Fingerprint

_NAMES = re.compile(
    r"(?:php|j|asp(?:\.net_)?|cf|my|web|user|os|zen|x)?_?-?"
    r"(?:sess(?:ion)?_?-?(?:id|key|token|hash)?|s_?id|csid|zenid|cftoken|sessid[a-z]*)",
    re.IGNORECASE,
)
_CORE = re.compile(r"[0-9A-Za-z_-]+")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_MIN_CHARACTERS = 16
_MIN_HEX_CHARACTERS = 24
_MIN_CHANGES = 4  # between letters and digits
_PATH_PARAMETER = re.compile(r";([A-Za-z0-9_.-]{1,64})=([^;/?#]+)")
_ASP_SEGMENT = re.compile(r"/\(S\(([0-9a-z]{24})\)\)", re.IGNORECASE)  # ASP.NET without cookies
_SCRIPT = re.compile(r"\.(?:php\d?|phtml|pl|cgi|fcgi|aspx?|jspx?|do|action|cfm|py|rb|dll|exe)$", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")

_ENOUGH_GROUPS = 3
# Controls get rarer: the links of a page that is read have a new session each, so that a fixed share would never end.
_CONTROL_NUMBERS = frozenset(4**power for power in range(16))


class SessionId(NamedTuple):
    """The part of a URL that looks like a session identifier, and the URL without it."""

    name: str
    value: str
    stripped_url: str
    scope: str  # the name, and the folder or script in which it stands
    is_named: bool  # the name is a usual one for session identifiers


def find_session_id(url: str) -> SessionId | None:
    """Return what looks like a session identifier in a normalized URL.

    https://a.example/b?id=7&PHPSESSID=k3v8d0q1m2n4b5c6x7z8a9s1d2 → https://a.example/b?id=7
    """
    head, question, query = url.partition("?")
    if not question and ";" not in head and "(" not in head:
        return None
    if (match := _ASP_SEGMENT.search(head)) is not None:
        return _make(head[: match.start()] + head[match.end() :] + question + query, "(S)", match[1], is_named=True)
    for match in _PATH_PARAMETER.finditer(head):
        if looks_random(match[2]):
            stripped = head[: match.start()] + head[match.end() :] + question + query
            return _make(stripped, match[1], match[2], is_named=_is_usual_name(match[1]))
    found: SessionId | None = None
    pairs = query.split("&") if question else []
    for place, pair in enumerate(pairs):
        name, _, value = pair.partition("=")
        if not looks_random(value):
            continue
        rest = "&".join([*pairs[:place], *pairs[place + 1 :]])
        each = _make(f"{head}?{rest}" if rest else head, name, value, is_named=_is_usual_name(name))
        if each.is_named:
            return each
        found = found or each
    return found


def looks_random(value: str) -> bool:
    """Return whether a value has the shape of an identifier that a server draws at random.

    A route of the server may follow it: `…!1021` or `….node1`.
    """
    core = re.split(r"[.!~*]|%21|%2E|%7E", value, maxsplit=1)[0]
    if _UUID.fullmatch(core):
        return True
    if len(core) < _MIN_CHARACTERS or not _CORE.fullmatch(core):
        return False
    if any(part.isalpha() and part.islower() and len(part) < 12 for part in re.split(r"[-_]", core) if part != core):
        return False  # words with hyphens: a slug
    kinds = ["digit" if character.isdigit() else "letter" for character in core if character.isalnum()]
    changes = sum(before != after for before, after in itertools.pairwise(kinds))
    if _HEX.fullmatch(core) and len(core) >= _MIN_HEX_CHARACTERS:
        return changes >= 2
    return changes >= _MIN_CHANGES


def _make(stripped_url: str, name: str, value: str, *, is_named: bool) -> SessionId:
    path = "/" + stripped_url.partition("?")[0].partition("://")[2].partition("/")[2]
    folder, _, last = path.rpartition("/")
    scope = f"{_NUMBER.sub('N', folder)}/" + (last if _SCRIPT.search(last) else "")
    return SessionId(name, value, stripped_url, f"{name.lower()} {scope}", is_named)


def _is_usual_name(name: str) -> bool:
    return _NAMES.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class TextOfPage:
    """The parts of a page that are compared between two readings; `targets` are the pages that it links to."""

    fingerprint: Fingerprint
    title: str
    targets: frozenset[str] = frozenset()


class PairVerdict(Enum):
    """The conclusion from two URLs that differ only in a session identifier."""

    SAME = auto()
    NEAR = auto()  # a page that shows the time, or two pages of one template
    UNCLEAR = auto()  # too little text
    DIFFERENT = auto()


def compare_pair(first: TextOfPage, second: TextOfPage) -> PairVerdict:
    """Compare what two URLs showed; a short text proves something only together with equal links."""
    one, other = first.fingerprint, second.fingerprint
    if not one.words or not other.words:
        return PairVerdict.UNCLEAR
    is_long = min(one.words, other.words) >= MIN_WORDS  # shorter texts are equal by chance: "Loading"
    if one.text_hash == other.text_hash and first.title == second.title:
        has_equal_links = bool(first.targets) and first.targets == second.targets
        return PairVerdict.SAME if is_long or has_equal_links else PairVerdict.UNCLEAR
    is_near = is_long and first.title == second.title and is_similar_text(one, other)
    return PairVerdict.NEAR if is_near else PairVerdict.DIFFERENT


@dataclass(frozen=True, slots=True)
class SessionRule:
    """The evidence about the values of one name in one scope.

    `groups` are keys of pages that showed one text under two values, `folds` counts the URLs that the rule covered.
    """

    is_named: bool = True
    groups: tuple[str, ...] = ()
    folds: int = 0
    is_withdrawn: bool = False

    @property
    def is_active(self) -> bool:
        """Whether URLs that differ only in this identifier are one page."""
        needed = 1 if self.is_named else _ENOUGH_GROUPS
        return not self.is_withdrawn and len(self.groups) >= needed


def learn_from_pair(rule: SessionRule, verdict: PairVerdict, group: str) -> SessionRule:
    """Return a rule after two spellings of a page were read: one counter-example withdraws it for good.

    Nearly the same text is a counter-example unless several other pages have shown that the rule is right.
    """
    if verdict is PairVerdict.SAME and group not in rule.groups and len(rule.groups) <= _ENOUGH_GROUPS:
        return replace(rule, groups=(*rule.groups, group))
    is_near = verdict is PairVerdict.NEAR and not _is_proven_without(rule, group)
    return replace(rule, is_withdrawn=True) if is_near or verdict is PairVerdict.DIFFERENT else rule


def is_repeat(rule: SessionRule, verdict: PairVerdict, group: str) -> bool:
    """Return whether a page that was read is another one under a different session identifier."""
    is_same = verdict is PairVerdict.SAME or (verdict is PairVerdict.NEAR and _is_proven_without(rule, group))
    return is_same and rule.is_active


def _is_proven_without(rule: SessionRule, group: str) -> bool:
    return len(set(rule.groups) - {group}) >= _ENOUGH_GROUPS


def is_control(number: int) -> bool:
    """Return whether the URL with this number, of those that a rule covers, is read to find counter-examples."""
    return number in _CONTROL_NUMBERS


def find_selectors(urls: list[str]) -> set[str]:
    """Return the scopes in which the links of one page have different values for one page: these select content.

    A server gives a visitor one session, so that all links of a page have the same value.
    """
    values: dict[tuple[str, str], str] = {}
    found: set[str] = set()
    for url in urls:
        session = find_session_id(url)
        if (
            session is not None
            and values.setdefault((session.scope, session.stripped_url), session.value) != session.value
        ):
            found.add(session.scope)
    return found
