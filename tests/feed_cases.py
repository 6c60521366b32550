"""The feed documents of tests/cases/feeds, each with the facts that a reader must find in it.

The facts are a JSON object in the first comment of an XML document. Where a comment would change
what is tested (other charsets, byte order marks, broken beginnings) or is not possible (JSON), they
are in `NAME.facts.json` beside the document.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypedDict

FOLDER = Path(__file__).parent / "cases" / "feeds"
DEFAULT_URL = "https://feeds.example.com/feed.xml"
_COMMENT = re.compile(rb"\A<\?xml[^>]*\?>\n<!--\n(\{.*?\n\})\n-->", re.DOTALL)


class Parser(StrEnum):
    """Which parser reads a document."""

    STRICT = "strict"  # well-formed XML
    LENIENT = "lenient"  # broken XML
    JSON = "json"


class ItemFacts(TypedDict):
    """What an item of a case must have."""

    guid: str
    link: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedCase:
    """A document and its facts; no `format` means that it must be refused.

    `feedparser_differs` says why feedparser, with which all other cases agree, finds something else.
    """

    name: str
    body: bytes
    description: str
    format: str | None
    parser: Parser | None = None
    title: str = ""
    self_url: str = ""
    items: list[ItemFacts] = field(default_factory=list[ItemFacts])
    url: str = DEFAULT_URL
    content_type: str = ""
    feedparser_differs: str = ""


def load_feed_cases() -> list[FeedCase]:
    """Load all cases, by name."""
    files = [path for path in FOLDER.rglob("*.*") if path.is_file() and path.suffix in {".xml", ".json", ".bin"}]
    return [_load(path) for path in sorted(files) if not path.name.endswith(".facts.json")]


def _load(path: Path) -> FeedCase:
    body = path.read_bytes()
    sidecar = path.with_suffix(".facts.json")
    if sidecar.exists():
        text = sidecar.read_bytes()
    elif comment := _COMMENT.match(body):
        text = comment[1]
    else:
        raise ValueError(f"{path} has no facts: add a comment at its beginning, or {sidecar.name}")
    facts = json.loads(text)
    parser = Parser(facts.pop("parser")) if "parser" in facts else None
    return FeedCase(name=path.relative_to(FOLDER).as_posix(), body=body, parser=parser, **facts)
