"""Find bookmarks whose pages are the same, by facts about their pages (contract E5). Decisions only."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from canonry.core.url import parse
from canonry.evidence.facts import find_alias, make_form_key, make_url_key
from canonry.evidence.resolve_decisions import selects_route
from canonry.evidence.same_page import MIN_WORDS, Evidence
from canonry.net.search_fetcher import strip_fragment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from canonry.evidence.facts import PageFact

_MAX_COMPARED = 50  # bookmarks with one clue
_MAX_FORMS_OF_A_TEXT = 2  # more pages of one host with one text are a login form or an error page


@dataclass(frozen=True, slots=True)
class PageClue:
    """A bookmark as the search for twins sees it."""

    bookmark_id: int
    url: str


@dataclass(frozen=True, slots=True)
class Twin:
    """Two bookmarks whose pages are the same: proven, or only showing the same text."""

    bookmark_id: int
    other_id: int
    evidence: Evidence
    is_proven: bool


def find_twins(clues: Sequence[PageClue], facts: Mapping[str, PageFact], refused: set[tuple[str, str]]) -> list[Twin]:
    """Find the pairs of bookmarks that show the same page; `facts` are by URL without fragment."""
    buckets: dict[str, list[PageClue]] = defaultdict(list)
    for clue in clues:
        fact = facts.get(strip_fragment(clue.url))
        if fact is None:
            continue
        urls = [url for url in (fact.url, fact.permanent_url, fact.canonical_url) if url]
        names = {f"form {make_form_key(clue.url)}", *(f"url {url}" for url in urls)}
        if fact.fingerprint.words >= MIN_WORDS:
            names.add(f"text {fact.fingerprint.text_hash}")
        for name in names:
            buckets[name].append(clue)
    found: dict[tuple[int, int], Twin] = {}
    for name, members in buckets.items():
        for one, other in _list_pairs(members[:_MAX_COMPARED]):
            pair = (min(one.bookmark_id, other.bookmark_id), max(one.bookmark_id, other.bookmark_id))
            known = found.get(pair)
            if (known and known.is_proven) or make_pair_key(one.url, other.url) in refused:
                continue
            if twin := _compare(one, other, facts, may_guess=name.startswith("text ") and _is_rare(members)):
                found[pair] = twin
    return list(found.values())


def make_pair_key(one: str, other: str) -> tuple[str, str]:
    """Return the keys of two URLs, the smaller first."""
    first, second = sorted((make_url_key(one), make_url_key(other)))
    return first, second


def _compare(one: PageClue, other: PageClue, facts: Mapping[str, PageFact], *, may_guess: bool) -> Twin | None:
    if _selects_route(one.url) or _selects_route(other.url):
        return None  # without a browser every route of the page shows the same
    first, second = facts[strip_fragment(one.url)], facts[strip_fragment(other.url)]
    if first.url == second.url:
        return Twin(one.bookmark_id, other.bookmark_id, Evidence.SAME_TEXT, is_proven=True)
    if alias := find_alias(first, second):
        (source, target) = (one, other) if alias.url == first.url else (other, one)
        return Twin(source.bookmark_id, target.bookmark_id, alias.evidence, is_proven=True)
    if may_guess and first.fingerprint.text_hash == second.fingerprint.text_hash:
        return Twin(one.bookmark_id, other.bookmark_id, Evidence.SAME_TEXT, is_proven=False)
    return None


def _is_rare(members: Iterable[PageClue]) -> bool:
    """Return whether a text is not one that a host shows for many URLs."""
    forms: dict[str, set[str]] = defaultdict(set)
    for clue in members:
        forms[parse(clue.url).host].add(make_form_key(clue.url))
    return all(len(each) <= _MAX_FORMS_OF_A_TEXT for each in forms.values())


def _list_pairs(members: Sequence[PageClue]) -> list[tuple[PageClue, PageClue]]:
    """List each member with the first, and with its neighbour: enough to connect a group."""
    firsts = [(members[0], other) for other in members[1:]]
    return [*firsts, *(pair for pair in pairwise(members) if pair not in firsts)]


def _selects_route(url: str) -> bool:
    return selects_route(parse(url).fragment)
