"""A feed as a value, whatever format it was written in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from canonry.core.keys import Item


class FeedFormat(StrEnum):
    """The format of a feed: RSS 0.9x and 2.0, RDF (RSS 0.90 and 1.0), Atom 0.3 and 1.0, JSON Feed."""

    RSS = "rss"
    RDF = "rdf"
    ATOM = "atom"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Feed:
    """The contents of a feed document, also what a caller's `parse` returns; texts are empty if it has none.

    `self_url` is as declared, resolved only against an xml:base of the document. `ttl` is in minutes.
    `is_recovered` means that the document is not well-formed and was read by the lenient parser.
    `cut_items` counts the items that were left out: those beyond a limit, and one that the end of the document cuts;
    `is_cut_short` means that the document ends before the end of its root: only a part of it was received.
    """

    title: str
    format: FeedFormat
    version: str = ""
    link: str = ""
    self_url: str = ""
    hubs: tuple[str, ...] = ()
    ttl: int | None = None
    items: tuple[Item, ...] = ()
    is_recovered: bool = False
    cut_items: int = 0
    is_cut_short: bool = False
