"""Values that pass between a crawl and its frontier: pages to open, and the results of opening them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from canonry.net.origin import Origin
from canonry.net.page_facts import NO_FACTS, PageFacts

if TYPE_CHECKING:
    from datetime import datetime

    from canonry.crawler.pages import PageLink
    from canonry.crawler.reasons import SkipReason
    from canonry.net.engine import PageFailure


class PageState(StrEnum):
    """The state of a page in the frontier."""

    QUEUED = "queued"
    FETCHING = "fetching"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


RECORDED = (PageState.DONE, PageState.FAILED)  # the states of pages that a crawl returns


@dataclass(frozen=True, slots=True)
class PageUrl:
    """The URL of a page: normalized (`url`), as a link has it (`requested_url`), and who named it (`origin`)."""

    url: str
    requested_url: str
    origin: Origin = Origin.UNKNOWN


@dataclass(frozen=True, slots=True)
class LeasedPage:
    """A page that one owner may open until its lease expires; `attempts` counts earlier attempts, which failed."""

    id: int
    url: str
    requested_url: str
    depth: int
    attempts: int
    origin: Origin = Origin.UNKNOWN


@dataclass(frozen=True, slots=True)
class PageResult:
    """The result of opening a page. The state QUEUED asks for another attempt at `retry_at`.

    `url` is the page's own URL, `redirects_to` the normalized URL of another page of the site. `is_target_read` is
    False if the redirect was not followed, so that its target has to be opened separately. `origin` is the origin of
    the URLs that the page names.
    """

    page: LeasedPage
    state: PageState
    url: str
    status: int = 0
    final_url: str = ""
    title: str = ""
    engine: str = ""
    failure: PageFailure | None = None
    skip_reason: SkipReason | None = None
    links: tuple[PageLink, ...] = ()
    followed: int = 0  # links to pages of the site
    found: tuple[PageUrl, ...] = ()  # pages to queue
    redirects_to: str = ""
    is_target_read: bool = True
    retry_at: datetime | None = None
    origin: Origin = Origin.UNKNOWN
    facts: PageFacts = NO_FACTS


@dataclass(frozen=True, slots=True)
class RecordedPage:
    """A page that was stored, under the URL and depth that the frontier gave it."""

    result: PageResult
    url: str
    depth: int


@dataclass(frozen=True, slots=True)
class FrontierBatch:
    """What one transaction recorded and leased; without leases, `wait` is how many seconds to wait before the next."""

    recorded: tuple[RecordedPage, ...] = ()
    leased: tuple[LeasedPage, ...] = ()
    is_over: bool = False
    wait: float = 0.0
    host: str = ""
