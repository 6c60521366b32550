"""Read what a person types into the search box (contract U3). Decisions only.

`crème "phrase of words" #python site:example.com folder:reading is:unread -word` – any text is a valid search.
`#python` is short for `tag:python`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from canonry.bookmarks.search_words import LabelKind, make_label, split_words

_MAX_TERMS = 50
# An optional minus, an optional `#` or name with a colon, then a quoted text or a text without blanks.
_TERM = re.compile(r'(?P<minus>-?)(?P<name>#|[A-Za-z]+:)?(?:"(?P<quoted>[^"]*)(?:"|$)|(?P<plain>\S+))')
_LABELS = {"#": LabelKind.TAG, "tag": LabelKind.TAG, "folder": LabelKind.FOLDER, "site": LabelKind.SITE}
_UNFINISHED = frozenset({*(f"{name}:" for name in _LABELS), "is:"})  # somebody is still typing


class Flag(StrEnum):
    """The states that `is:` can name."""

    UNREAD = "unread"
    READ = "read"
    PRIVATE = "private"
    PUBLIC = "public"
    EXACT = "exact"
    TAGGED = "tagged"
    UNTAGGED = "untagged"


_FLAG_NAMES = {flag.value: flag for flag in Flag} | {"toread": Flag.UNREAD, "to_read": Flag.UNREAD}


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that follow each other in a text; the last one may continue if `is_prefix`."""

    words: tuple[str, ...]
    is_prefix: bool
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class FlagTerm:
    """A property that bookmarks must have, or must not have."""

    flag: Flag
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A parsed search. A bookmark matches if it matches every phrase and every flag.

    `has_only_signs` is set for a text without any word, such as `[`, which finds nothing.
    """

    phrases: tuple[Phrase, ...] = ()
    flags: tuple[FlagTerm, ...] = ()
    has_only_signs: bool = False


def parse_search(text: str) -> SearchQuery:
    """Return what a text asks for. Text other than operators is searched as words; terms without a word are ignored."""
    phrases: list[Phrase] = []
    flags: list[FlagTerm] = []
    for number, match in enumerate(_TERM.finditer(text)):
        if number == _MAX_TERMS:
            break
        is_negated = bool(match["minus"])
        name = (match["name"] or "").rstrip(":").lower()
        quoted, plain = match["quoted"], match["plain"]
        if not name and quoted is None and plain.lower() in _UNFINISHED:
            continue
        value = (quoted if quoted is not None else plain).strip()
        flag = _FLAG_NAMES.get(value.lower()) if name == "is" else None
        if flag is not None:
            flags.append(FlagTerm(flag, is_negated))
        elif name in _LABELS and value:
            label = make_label(_LABELS[name], _clean_label(_LABELS[name], value))
            phrases.append(Phrase((label,), is_prefix=False, is_negated=is_negated))
        elif words := split_words(f"{match['name'] or ''}{value}"):
            # Words in quotes are whole words, and `-java` does not exclude JavaScript; `-java*` does.
            is_prefix = quoted is None and (not is_negated or plain.endswith("*"))
            phrases.append(Phrase(tuple(words), is_prefix=is_prefix, is_negated=is_negated))
    has_only_signs = bool(text.strip()) and not phrases and not flags
    return SearchQuery(tuple(dict.fromkeys(phrases)), tuple(dict.fromkeys(flags)), has_only_signs)


def quote_term(name: str, value: str) -> str:
    """Return the term that finds a tag, folder or site: `tag:python`, `tag:"two words"`."""
    value = value.replace('"', " ")
    return f'{name}:"{value}"' if re.search(r"\s", value) else f"{name}:{value}"


def _clean_label(kind: LabelKind, value: str) -> str:
    if kind is LabelKind.SITE:
        # People paste URLs: `site:https://www.example.com/` means example.com.
        return re.sub(r"^[a-z]+://|[/:?#].*$", "", value.lower()).removeprefix("www.").rstrip(".")
    return value.strip("/") if kind is LabelKind.FOLDER else value.removeprefix("#")
