"""Fingerprints: what two pages have in common, without comparing their texts (contract E3).

docs/fingerprint.md defines them with test vectors, so that programs in other languages compute the same values.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from hashlib import sha256

from canonry.core.native import simhash
from canonry.net.visible_text import read_visible_text


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The visible text of a page in three numbers: hex sha256, 64-bit simhash, and the number of words."""

    text_hash: str
    simhash: int
    words: int


def fingerprint(body: bytes, content_type: str = "") -> Fingerprint:
    """Return the fingerprint of a page; a file without text, such as a picture, has that of an empty text."""
    return fingerprint_text(read_visible_text(body, content_type))


def fingerprint_text(text: str) -> Fingerprint:
    """Return the fingerprint of a visible text."""
    folded = fold_text(text)
    text_hash = sha256(folded.encode()).hexdigest()
    return Fingerprint(text_hash, simhash(folded), folded.count(" ") + 1 if folded else 0)


def fold_text(text: str) -> str:
    """Return a text in Unicode NFC and lower case, each run of white space as one space."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())  # a lone surrogate becomes `?`
    return " ".join(text.split()).lower()


def count_different_bits(first: int, second: int) -> int:
    """Return the distance of two simhashes: how many of their 64 bits differ."""
    return (first ^ second).bit_count()


EMPTY_TEXT = fingerprint_text("")
