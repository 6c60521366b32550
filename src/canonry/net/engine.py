"""What opens a page for a crawl: the values it gives, and the door every engine has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from canonry.net.response import Hop


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a page: as it is written, where it leads, and the start of its text."""

    href: str
    url: str
    text: str


@dataclass(frozen=True, slots=True)
class Opened:
    """A page that was opened; `error` says why there are no links, or no page."""

    requested_url: str
    final_url: str
    status: int
    title: str = ""
    links: tuple[Link, ...] = ()
    error: str = ""
    content_type: str = ""
    hops: tuple[Hop, ...] = ()


class Engine(Protocol):
    """Opens pages; `came_from` is the address whose answer named the URL, None where a person did."""

    name: str

    async def open(self, url: str, *, came_from: str | None = None) -> Opened: ...
