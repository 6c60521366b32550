"""Compare two pages: are they the same page? (contract E2)"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from canonry.evidence.fingerprint import count_different_bits

if TYPE_CHECKING:
    from canonry.evidence.fingerprint import Fingerprint

MIN_WORDS = 30  # pages with fewer need equal bytes
MAX_DIFFERENT_BITS = 3
_MAX_WORD_DIFFERENCE = 0.1
_MAX_LIKE_BITS = 12  # unrelated texts differ in about 32 bits
_MAX_LIKE_WORD_DIFFERENCE = 0.25


class Evidence(StrEnum):
    """The kind of proof that two URLs show the same page."""

    REDIRECT = "redirect"  # one redirects permanently to the other
    DECLARED = "declared"  # the pages declare each other: canonical one way, AMP the other way
    SAME_TEXT = "same_text"
    SIMILAR_TEXT = "similar_text"
    SAME_BYTES = "same_bytes"

    @property
    def sentence(self) -> str:
        """The sentence that says what was observed."""
        return _SENTENCES[self]


_SENTENCES = {
    Evidence.REDIRECT: "One redirects to the other.",
    Evidence.DECLARED: "One page declares the other as its canonical URL.",
    Evidence.SAME_TEXT: "Both show the same text.",
    Evidence.SIMILAR_TEXT: "Both show nearly the same text.",
    Evidence.SAME_BYTES: "Both have the same content.",
}


class PageLike(Protocol):
    """The parts of a page that a comparison needs."""

    @property
    def title(self) -> str: ...
    @property
    def fingerprint(self) -> Fingerprint: ...
    @property
    def body_hash(self) -> str: ...


def find_evidence(one: PageLike, other: PageLike) -> Evidence | None:
    """Return what proves that two pages are the same, or None. An empty text proves nothing."""
    first, second = one.fingerprint, other.fingerprint
    if min(first.words, second.words) < MIN_WORDS:
        is_empty = one.body_hash in ("", EMPTY_BODY_HASH)
        return Evidence.SAME_BYTES if one.body_hash == other.body_hash and not is_empty else None
    if first.text_hash == second.text_hash:
        return Evidence.SAME_TEXT
    return Evidence.SIMILAR_TEXT if is_similar_text(first, second) and one.title == other.title else None


def is_similar_text(one: Fingerprint, other: Fingerprint) -> bool:
    """Return whether two texts are nearly equal: a few bits of the simhash differ, and a tenth of the words at most."""
    is_as_long = abs(one.words - other.words) <= _MAX_WORD_DIFFERENCE * max(one.words, other.words)
    return is_as_long and count_different_bits(one.simhash, other.simhash) <= MAX_DIFFERENT_BITS


def looks_alike(one: PageLike, other: PageLike) -> bool:
    """Return whether two pages may be one page of a site with changing parts, such as advertisements.

    This is far less than evidence. It is for doubts: a page that looks like the one for a made-up URL proves nothing.
    """
    first, second = one.fingerprint, other.fingerprint
    difference = abs(first.words - second.words)
    is_as_long = difference <= _MAX_LIKE_WORD_DIFFERENCE * max(first.words, second.words)
    return is_as_long and count_different_bits(first.simhash, second.simhash) <= _MAX_LIKE_BITS


EMPTY_BODY_HASH = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # sha256 of no bytes
