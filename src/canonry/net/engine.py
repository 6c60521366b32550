"""The engines that open the pages of a crawl, and their results."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from canonry.errors import TRANSIENT_FAILURES, FailureKind
from canonry.net.origin import Origin
from canonry.net.page_facts import PageFacts
from canonry.net.response import NO_VALIDATORS, Validators, drop_userinfo

if TYPE_CHECKING:
    from canonry.net.http_exchange import Archive
    from canonry.net.response import Hop
    from canonry.net.site_access import SiteAccess


class LinkSource(StrEnum):
    """Where a link was found. `anchor` is what the script of the contract finds; the others are added to it."""

    ANCHOR = "anchor"  # <a href>
    AREA = "area"  # an area of an image map
    SVG = "svg"  # <a xlink:href> in a picture
    FRAME = "frame"  # the document of a frame of the same host, or a link inside of `srcdoc`
    SHADOW = "shadow"  # inside of an open shadow root


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a page: as written, as an absolute URL, the first 50 characters of its text, and where it was found.

    `is_nofollow` says that the link asks crawlers not to follow it (`rel=nofollow`).
    """

    href: str
    url: str
    text: str
    source: LinkSource = LinkSource.ANCHOR
    is_nofollow: bool = False


@dataclass(frozen=True, slots=True)
class PageFailure:
    """Why a page was not read, or not completely; `detail` is a sentence for people."""

    kind: FailureKind
    detail: str

    @property
    def is_transient(self) -> bool:
        """Whether another attempt may succeed."""
        return self.kind in TRANSIENT_FAILURES

    def __str__(self) -> str:
        return self.detail


MAX_DOCUMENTS = 10  # that replace each other by script or refresh
MAX_REFRESH_SECONDS = 1.0  # a refresh after more seconds is for readers who stay on the page
ENDLESS_NAVIGATION = PageFailure(FailureKind.REDIRECT_LOOP, "The page keeps navigating to another page")
WAIT_LOAD = "load"
WAIT_QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How an engine reads a page.

    `wait` is when Chrome reads the links: at `load`, when the page is `quiet`, or when a CSS selector matches. Quiet
    means that the page has loaded, adds no elements and requests nothing. With `scroll`, Chrome scrolls to the end of
    the page first, which makes endless lists grow.
    """

    wait: str = WAIT_QUIET
    scroll: bool = False
    load_images: bool = False  # Chrome also loads pictures, media and fonts
    access: SiteAccess | None = None
    archive: Archive | None = None  # keeps what is requested and answered


@dataclass(frozen=True, slots=True)
class OpenedPage:
    """The result of opening a page; `failure` says why it has no links, or not all of them.

    `links` are those of the contract's script, `added_links` those of other elements that a person can click.

    `address` is the IP address of the server, if the engine knows it, `origin` the origin of the URLs that the page
    names, and `retry_after` the seconds that the server asks to wait. `is_still_changing` says that scripts were still
    adding elements or waiting for answers when the links were read, so that links may be missing.
    """

    requested_url: str
    final_url: str = ""
    status: int = 0
    title: str = ""
    links: tuple[Link, ...] = ()
    content_type: str = ""
    hops: tuple[Hop, ...] = ()
    address: str = ""
    retry_after: float | None = None
    failure: PageFailure | None = None
    origin: Origin = Origin.UNKNOWN
    is_still_changing: bool = False
    added_links: tuple[Link, ...] = ()
    first_status: int = 0  # of the first document, if scripts or a refresh replaced it by another one
    size: int | None = None
    robots_directives: tuple[str, ...] = ()
    hreflangs: tuple[tuple[str, str], ...] = ()
    canonical_url: str = ""
    is_target_unread: bool = False  # the page refreshes to `final_url`, which was not opened
    text: str = field(default="", repr=False)  # that a person can see
    validators: Validators = NO_VALIDATORS

    @property
    def facts(self) -> PageFacts:
        """The facts about the page, to be stored with it."""
        return PageFacts(
            self.content_type,
            self.size,
            self.robots_directives,
            self.hreflangs,
            self.canonical_url,
            self.is_still_changing,
            etag=self.validators.etag,
            last_modified=self.validators.last_modified,
            hops=tuple((hop.status, drop_userinfo(hop.url)) for hop in self.hops),
        )

    @property
    def error(self) -> str:
        """The failure for people; empty where there is none."""
        return "" if self.failure is None else str(self.failure)


class Engine(Protocol):
    """Opens pages; `origin` says who named the URL.

    A page that cannot be opened is an `OpenedPage` with a failure, never an exception.
    """

    name: str

    async def open(self, url: str, *, origin: Origin) -> OpenedPage: ...


@runtime_checkable
class ConditionalEngine(Protocol):
    """An engine that can ask for a page only if it has changed: otherwise the status is 304."""

    async def open_if_changed(self, url: str, *, origin: Origin, validators: Validators) -> OpenedPage: ...
