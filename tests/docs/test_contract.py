"""Check that every citation of the contract ("contract N4") names a point of docs/contract.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRACT = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
POINTS = set(re.findall(r"^### ([A-Z]\d+[a-z]?)\. ", CONTRACT, re.MULTILINE))
SECTIONS = set(re.findall(r"^## ([A-Z])\. ", CONTRACT, re.MULTILINE))
SEEDS = {"000", "001", "002", "003", "004"}

_POINT = r"[A-Z](?:\d+[a-z]?)?(?![\w'’])"
_CITATION = re.compile(rf"\b[Cc]ontract ({_POINT}(?:(?:, | and | to |–){_POINT})*)")
_SEED = re.compile(r"\b[Ss]eeds? (\d+)")
_TEXTS = ("*.py", "*.c", "*.h", "*.toml", "*.html", "*.md")


def find_citations(text: str) -> list[str]:
    """Return the points that a text cites; a range such as I1–I5 cites its two ends."""
    return [point for match in _CITATION.finditer(text) for point in re.findall(_POINT, match[1])]


def find_cited_places() -> list[tuple[str, str]]:
    """Return each citation in the project with the file it is in."""
    folders = [ROOT / name for name in ("src", "tests", "tools", "benchmarks", "docs")]
    files = [path for folder in folders for pattern in _TEXTS for path in folder.rglob(pattern)]
    return [
        (str(path.relative_to(ROOT)), point)
        for path in sorted({*files, ROOT / "README.md", ROOT / "CONTRIBUTING.md"} - {Path(__file__)})
        for point in find_citations(path.read_text(encoding="utf-8", errors="replace"))
    ]


def test_every_citation_has_a_target() -> None:
    places = find_cited_places()
    assert len(places) > 100  # the project cites its contract in many places
    missing = {place for place in places if place[1] not in POINTS | SECTIONS}
    assert not missing


def test_every_source_document_is_named_in_the_contract() -> None:
    cited = {number for path in (ROOT / "src").rglob("*.py") for number in _SEED.findall(path.read_text())}
    assert cited <= SEEDS
    assert all(number in CONTRACT for number in SEEDS)


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("(contract N4)", ["N4"]),
        ("(contract N6, I2, F5)", ["N6", "I2", "F5"]),
        ("contract I1–I5, row by row", ["I1", "I5"]),
        ("contract N4 rule 12 and N5", ["N4"]),
        ("contract C: one site", ["C"]),
        ("contract Z9", ["Z9"]),
        ("contract Itself", []),
        ("Contract G1–G4 for a browser", ["G1", "G4"]),
    ],
)
def test_citations_are_found(text: str, points: list[str]) -> None:
    assert find_citations(text) == points


def test_no_file_cites_a_document_that_readers_do_not_have() -> None:
    sources = [path for pattern in ("*.py", "*.c", "*.h", "*.toml") for path in (ROOT / "src").rglob(pattern)]
    assert not [path for path in sources if "SPEC" in path.read_text(encoding="utf-8")]
