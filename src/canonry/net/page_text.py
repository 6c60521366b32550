"""The text of a web page and its hash, by which two readings of a page are compared (contract E3)."""

from __future__ import annotations

import unicodedata
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

MAX_TEXT_CHARACTERS = 1_000_000  # of a page; the rest is not compared
# Elements whose text nobody reads. The script of Chrome leaves out the same (net/chrome/link_script.py).
UNREAD_ELEMENTS = "script, style, template, noscript, [hidden]"


def read_text(page: LexborHTMLParser) -> str:
    """Return the text of a page; elements that nobody reads are removed from `page`."""
    for element in page.css(UNREAD_ELEMENTS):
        element.decompose()
    body = page.body
    return "" if body is None else body.text(separator=" ")[:MAX_TEXT_CHARACTERS]


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text in NFC, lower case, with single spaces."""
    folded = " ".join(unicodedata.normalize("NFC", text).lower().split())
    return sha256(folded.encode(errors="replace")).hexdigest()
