"""What facts about two URLs prove, without a database (contract E2, E4)."""

from __future__ import annotations

import pytest

from canonry.evidence.facts import ControlResult, PageFact, find_redirect_alias, list_aliases_of
from canonry.evidence.fingerprint import fingerprint_text
from page_texts import make_article

E = "https://example.com"


def make_fact(url: str, *, canonical_url: str = "", permanent_url: str = "") -> PageFact:
    """Return the fact about a page with one article, whose control has passed."""
    shown = fingerprint_text(make_article(1))
    fetched_at = "2026-01-31T10:00:00.000000Z"
    return PageFact(url, permanent_url, canonical_url, 200, "One", shown, "", fetched_at, control=ControlResult.PASSED)


@pytest.mark.parametrize(
    ("why", "url", "target", "is_proven"),
    [
        ("another page", f"{E}/a", f"{E}/b", True),
        ("root", f"{E}/a", f"{E}/", False),
        ("index file of the root", f"{E}/a", f"{E}/index.html", False),
    ],
)
def test_a_redirect_or_canonical_to_the_root_proves_nothing(why: str, url: str, target: str, is_proven: bool) -> None:
    """Sites send what they no longer have to their start page, under whichever of its names."""
    declared = list_aliases_of(make_fact(url, canonical_url=target), [make_fact(target)])
    redirect = find_redirect_alias(make_fact(url, permanent_url=target))
    assert (bool(declared), redirect is not None) == (is_proven, is_proven), why
