"""Recognise feeds that change on every request, and damp their updates (contract I11).

Such feeds write the time of the request into every date, or random tokens into texts and links. Pure: an update is
damped only if nothing that a reader sees has changed; every other update is reported.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from canonry.core.keys import hash_fields
from canonry.feeds.item_matching import ItemOutcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.core.keys import Item
    from canonry.feeds.item_matching import ItemMatch

# Documents in a row in which nearly all known items changed. The first document of a feed has none: the third poll
# of a feed that changes on every request is the one that reaches this number.
VOLATILE_AFTER_DOCUMENTS = 2
# The count goes up and down by one, so that some quiet documents do not make the feed look quiet.
_MAX_COUNT = 4
_NEARLY_ALL = 0.8

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_QUERY = re.compile(r"(https?://[^\s\"'<>?#]*)[?#][^\s\"'<>]*", re.IGNORECASE)
_NONCE_ATTRIBUTE = re.compile(r"\s(?:nonce|id|data-[\w-]+)\s*=\s*(?:\"[^\"]*\"|'[^']*')", re.IGNORECASE)
_TIME = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?|\b\d\d?:\d\d:\d\d\b")
# Random tokens: hex with letters and digits, letters and digits mixed, numbers as long as a time in seconds.
_TOKEN = re.compile(
    r"\b(?:(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}"
    r"|(?=\w*\d\w*\d)(?=[\w]*[A-Za-z]\w*[A-Za-z])\w{12,}"
    r"|\d{9,})\b"
)


class Volatility(NamedTuple):
    """Which fields nearly all known items of a document have changed."""

    published: bool
    link: bool


def make_stable_hash(item: Item) -> str:
    """Return a hash of the text and the enclosures without times and random tokens."""
    text = item.text
    for pattern in (_COMMENT, _NONCE_ATTRIBUTE, _TIME):
        text = pattern.sub("", text)
    text = _TOKEN.sub("", _QUERY.sub(r"\1", text))
    enclosures = sorted(_TOKEN.sub("", re.split(r"[?#]", enclosure, maxsplit=1)[0]) for enclosure in item.enclosures)
    return hash_fields(" ".join(text.split()), enclosures)[:32]


def count_changed_documents(count: int, matches: Sequence[ItemMatch]) -> int:
    """Return how many documents in a row have changed nearly all known items, this document included."""
    known = changed = 0
    for match in matches:
        entry = match.entry
        if entry is not None and entry.is_in_feed:
            known += 1
            changed += entry.content_hash != match.item.content_hash
    if not known:
        return count
    return min(count + 1, _MAX_COUNT) if changed >= _NEARLY_ALL * known else max(count - 1, 0)


def damp_updates(matches: Sequence[ItemMatch]) -> list[ItemMatch]:
    """Return the matches of a volatile feed; updates that change nothing a reader sees become duplicates."""
    volatility = _measure_volatility(matches)
    return [
        match._replace(outcome=ItemOutcome.DUPLICATE)
        if match.outcome is ItemOutcome.UPDATED and _is_noise(match, volatility)
        else match
        for match in matches
    ]


def _measure_volatility(matches: Sequence[ItemMatch]) -> Volatility:
    known = [(match.item, match.entry) for match in matches if match.entry is not None and match.entry.is_in_feed]
    enough = _NEARLY_ALL * len(known)
    return Volatility(
        published=sum(item.published != entry.published for item, entry in known) >= enough,
        link=sum(item.link != entry.link for item, entry in known) >= enough,
    )


def _is_noise(match: ItemMatch, volatility: Volatility) -> bool:
    """Return whether the item differs from what the feed showed last only in what it changes on every request."""
    item, entry = match.item, match.entry
    if entry is None or not entry.stable_hash or item.title != entry.title:
        return False
    is_date_explained = volatility.published or item.published == entry.published
    is_link_explained = item.place == entry.place
    if volatility.link:
        is_link_explained = _strip_query(item.place) == _strip_query(entry.place)
    return is_date_explained and is_link_explained and make_stable_hash(item.parsed) == entry.stable_hash


def _strip_query(place: str) -> str:
    return place.partition("?")[0]
