"""Find bookmarks whose pages are the same, by facts about their pages (contract E5). Decisions only."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from canonry.core.url import parse
from canonry.evidence.facts import (
    ControlResult,
    declares,
    find_alias,
    find_landings,
    hash_url,
    make_form_key,
)
from canonry.evidence.resolve_decisions import selects_route
from canonry.evidence.same_page import MIN_WORDS, Evidence
from canonry.net.search_fetcher import strip_fragment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from canonry.evidence.facts import PageFact

_MAX_COMPARED = 50  # bookmarks with one clue
_TEXT_MARK = "text "
_MAX_FORMS_OF_A_TEXT = 2  # more pages of one host with one text are a login form or an error page


@dataclass(frozen=True, slots=True)
class PageClue:
    """A bookmark as the search for twins sees it."""

    bookmark_id: int
    url: str


class PageOutline(NamedTuple):  # faster to make than a dataclass: there is one for every bookmark
    """The values by which bookmarks are compared: the URL, and parts of the fact about the page."""

    bookmark_id: int
    url: str
    form_key: str
    page_url: str
    permanent_url: str
    canonical_url: str
    text_hash: str
    words: int


@dataclass(frozen=True, slots=True)
class Twin:
    """Two bookmarks whose pages are the same: proven, or only showing the same text."""

    bookmark_id: int
    other_id: int
    evidence: Evidence
    is_proven: bool


def list_compared(outlines: Sequence[PageOutline]) -> list[PageClue]:
    """List the bookmarks that share a mark with another one, in their order; `find_twins` needs no others."""
    forms = Counter(each.form_key for each in outlines)
    texts = Counter(each.text_hash for each in outlines if each.words >= MIN_WORDS)
    urls = Counter(each.page_url for each in outlines)
    for each in outlines:
        if each.permanent_url or each.canonical_url:
            urls.update({each.permanent_url, each.canonical_url} - {each.page_url, ""})
    return [
        PageClue(each.bookmark_id, each.url)
        for each in outlines
        if forms[each.form_key] > 1
        or (texts[each.text_hash] > 1 and each.words >= MIN_WORDS)
        or urls[each.page_url] > 1
        or urls[each.permanent_url] > 1
        or urls[each.canonical_url] > 1
    ]


def outline_page(clue: PageClue, fact: PageFact) -> PageOutline:
    """Return the outline of a bookmark's page."""
    text = fact.fingerprint
    return PageOutline(
        clue.bookmark_id,
        clue.url,
        make_form_key(clue.url),
        fact.url,
        fact.permanent_url,
        fact.canonical_url,
        text.text_hash,
        text.words,
    )


def find_twins(clues: Sequence[PageClue], facts: Mapping[str, PageFact], refused: set[tuple[str, str]]) -> list[Twin]:
    """Find the pairs of bookmarks that show the same page; `facts` are by URL without fragment."""
    buckets: dict[str, list[PageClue]] = defaultdict(list)
    shown: dict[int, PageFact] = {}  # by bookmark
    for clue in clues:
        fact = facts.get(strip_fragment(clue.url))
        if fact is None:
            continue
        shown[clue.bookmark_id] = fact
        for mark in _list_marks(outline_page(clue, fact)):
            buckets[mark].append(clue)
    redirects = [(fact.url, fact.permanent_url) for fact in facts.values() if fact.permanent_url]
    landings = find_landings(redirects)
    found: dict[tuple[int, int], Twin] = {}
    for mark, members in buckets.items():
        if len(members) == 1:
            continue
        may_guess = mark.startswith(_TEXT_MARK) and _is_rare(members)
        for one, other in _list_pairs(members[:_MAX_COMPARED]):
            pair = (min(one.bookmark_id, other.bookmark_id), max(one.bookmark_id, other.bookmark_id))
            known = found.get(pair)
            if (known and known.is_proven) or make_pair_key(one.url, other.url) in refused:
                continue
            if twin := _compare(one, other, shown, landings, may_guess=may_guess):
                found[pair] = twin
    return list(found.values())


def _list_marks(outline: PageOutline) -> list[str]:
    """List what bookmarks of the same page have in common, each once."""
    marks = [f"form {outline.form_key}", f"url {outline.page_url}"]
    for url in (outline.permanent_url, outline.canonical_url):
        if url and (mark := f"url {url}") not in marks:
            marks.append(mark)
    if outline.words >= MIN_WORDS:
        marks.append(_TEXT_MARK + outline.text_hash)
    return marks


def make_pair_key(one: str, other: str) -> tuple[str, str]:
    """Return the keys of two URLs, the smaller first."""
    first, second = sorted((hash_url(one), hash_url(other)))
    return first, second


def _compare(
    one: PageClue, other: PageClue, shown: Mapping[int, PageFact], landings: set[str], *, may_guess: bool
) -> Twin | None:
    if has_route(one.url) or has_route(other.url):
        return None  # without a browser every route of the page shows the same
    first, second = shown[one.bookmark_id], shown[other.bookmark_id]
    if first.url == second.url:
        return Twin(one.bookmark_id, other.bookmark_id, Evidence.SAME_TEXT, is_proven=True)
    if alias := find_alias(first, second):
        (source, target) = (one, other) if alias.url == first.url else (other, one)
        is_landing = alias.evidence is Evidence.REDIRECT and shown[source.bookmark_id].permanent_url in landings
        return Twin(source.bookmark_id, target.bookmark_id, alias.evidence, is_proven=not is_landing)
    for fact, named, ids in ((first, second, (one, other)), (second, first, (other, one))):
        if fact.control is ControlResult.PASSED and declares(fact, named):  # but the text is only nearly the same
            return Twin(ids[0].bookmark_id, ids[1].bookmark_id, Evidence.SIMILAR_TEXT, is_proven=False)
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
    first, *others = members
    return [*((first, other) for other in others), *pairwise(others)]


def has_route(url: str) -> bool:
    """Return whether the fragment of a URL selects what the page shows: `https://a.com/#/inbox`."""
    return "#" in url and selects_route(parse(url).fragment)
