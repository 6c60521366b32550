"""Traps: URLs without end that show nothing new. Which text is new, and when a pattern is stopped. No I/O.

A page is fresh if its text is new, or if it leads to a new page that is no suspect itself. What is new depends on the
pattern: a calendar changes its dates, a filter arranges known entries anew, and numbered pages are new as soon as one
character of their text or title differs. A pattern is stopped after a number of pages in a row that are not fresh; one
that had more fresh pages is given as many.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from canonry.crawler.url_patterns import UrlKind, UrlPattern

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULT_TRAP_PAGES = 100
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)*")
_GRID_DAYS = frozenset(map(str, range(1, 29)))  # all of them are on a page that shows a month
_DAYS = frozenset([*map(str, range(1, 32)), *(f"{day:02}" for day in range(1, 10))])
_MIN_WORDS = 30
_MAX_WORDS = 20_000  # of a page
_MAX_PHRASES = 200_000  # that are remembered of all pages with filters
_NEW_SHARE = 0.5
_DOUBTFUL_KINDS = frozenset({UrlKind.CALENDAR, UrlKind.GROWING_PATH, UrlKind.FACETS})


@dataclass(frozen=True, slots=True)
class TextDigest:
    """The text of a page as its pattern compares it; equal texts have equal values.

    `is_known` says that all of it was seen before. A short text counts only on pages that lie deeper and deeper.
    """

    value: str
    is_known: bool = False
    is_short: bool = False


@dataclass(slots=True)
class Phrases:
    """Words and sequences of three words that pages with filters have shown to this process."""

    _seen: set[int] = field(default_factory=set[int])

    def add(self, words: list[str]) -> bool:
        """Remember the phrases of a page; return whether a word of it was new, or half of its sequences."""
        singles = {hash(word) for word in words}
        triples = {hash(triple) for triple in zip(words, words[1:], words[2:], strict=False)}
        new_triples = len(triples - self._seen)
        is_new = not singles <= self._seen or new_triples > _NEW_SHARE * len(triples)
        if len(self._seen) < _MAX_PHRASES:  # without room, unknown phrases stay new: nothing is stopped because of that
            self._seen |= singles | triples
        return is_new


def digest_text(text: str, *, title: str, url: str, pattern: UrlPattern, phrases: Phrases) -> TextDigest | None:
    """Return what a page shows, as its pattern compares it; None for a page without text."""
    words = [match[0] for match in _WORD.finditer(text.lower())][:_MAX_WORDS]
    if not words:
        return None
    if pattern.kind is UrlKind.NUMBERED:
        digest = _make_digest(pattern.kind, [title, *text.split()])
        return TextDigest(digest, is_short=len(words) < _MIN_WORDS)
    echoed = _find_echoes(url)
    kept = [word for word in words if word not in echoed]
    if pattern.kind is UrlKind.CALENDAR and set(words) >= _GRID_DAYS:
        kept = [word for word in kept if word not in _DAYS]
    is_known = pattern.kind is UrlKind.FACETS and not phrases.add(kept)
    return TextDigest(_make_digest(pattern.kind, sorted(set(kept))), is_known)


def _find_echoes(url: str) -> set[str]:
    """Return the words of a URL, and for numbers the next and the previous one, as pages repeat them."""
    found: set[str] = set()
    for match in _WORD.finditer(url.partition("://")[2].lower()):
        for word in re.split(r"[.,]", match[0]):
            found.add(word)
            if word.isdigit() and len(word) < 10:
                found |= {str(int(word) + step) for step in (-1, 0, 1)}
    return found


def _make_digest(kind: UrlKind, words: Iterable[str]) -> str:
    return blake2b("\0".join([kind, *words]).encode(errors="replace"), digest_size=16).hexdigest()


def leads_on(own: UrlPattern, found: UrlPattern | None) -> bool:
    """Return whether a new page, linked from a page of the pattern `own`, is a reason to go on."""
    return found is None or (found != own and found.kind not in _DOUBTFUL_KINDS)


@dataclass(frozen=True, slots=True)
class PatternState:
    """The pages of a pattern that were read; `stale` counts those in a row that were not fresh."""

    pages: int = 0
    fresh: int = 0
    stale: int = 0
    deepest: int = 0
    is_stopped: bool = False


def count_page(state: PatternState, *, is_fresh: bool, is_short: bool, depth: int, trap_pages: int) -> PatternState:
    """Return the state of a pattern after one more of its pages was read."""
    state = replace(state, pages=state.pages + 1)
    if is_fresh:
        return replace(state, fresh=state.fresh + 1, stale=0, deepest=max(state.deepest, depth))
    if is_short and depth <= state.deepest:
        return state
    state = replace(state, stale=state.stale + 1, deepest=max(state.deepest, depth))
    return replace(state, is_stopped=state.is_stopped or state.stale >= max(trap_pages, state.fresh))
