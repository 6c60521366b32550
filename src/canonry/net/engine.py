"""What opens the pages of a crawl: a browser, or the HTTP client and a parser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from canonry.errors import TRANSIENT_FAILURES, FailureKind

if TYPE_CHECKING:
    from canonry.net.response import Hop


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a page: as written, as the browser resolves it, and the first 50 characters of its text."""

    href: str
    url: str
    text: str


@dataclass(frozen=True, slots=True)
class PageFailure:
    """Why a page was not read, or not read to its end; `detail` is for people and decides nothing."""

    kind: FailureKind
    detail: str

    @property
    def is_transient(self) -> bool:
        """Whether another attempt may succeed."""
        return self.kind in TRANSIENT_FAILURES

    def __str__(self) -> str:
        return self.detail


@dataclass(frozen=True, slots=True)
class Opened:
    """What opening a page gave; `error` says why there are no links, or fewer than the page has.

    `address` is the one that answered, where the engine knows it; `retry_after` the seconds the server asks
    to wait; `is_passing` says of a page that was not read that another try may help.
    """

    requested_url: str
    final_url: str = ""
    status: int = 0
    title: str = ""
    links: tuple[Link, ...] = ()
    error: str = ""
    content_type: str = ""
    hops: tuple[Hop, ...] = ()
    address: str = ""
    retry_after: float | None = None
    is_passing: bool = False
    failure: PageFailure | None = None

    def __post_init__(self) -> None:
        # Until every engine sets `failure`, the older fields repeat it.
        if self.failure is not None:
            object.__setattr__(self, "error", str(self.failure))
            object.__setattr__(self, "is_passing", self.failure.is_transient)


class Engine(Protocol):
    """Opens pages; `came_from` is the address whose answer named the URL, None where a person did.

    A page that cannot be opened is an `Opened` with an error, never an exception.
    """

    name: str

    async def open(self, url: str, *, came_from: str | None = None) -> Opened: ...
