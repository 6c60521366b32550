"""Outages of a site: tell a server that stopped answering from a page that fails, and wait for it (contract C6).

A page that gets no answer may be at fault itself. To find out, `SiteWatch` requests a page that was read before: if
that one gets no answer either, the site is down. Until it answers again no page is opened and no attempt is counted.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from canonry.core.url import parse
from canonry.crawler.decide import is_unusable, limit_retry_after
from canonry.crawler.reasons import CrawlFailure, CrawlFailureKind
from canonry.crawler.results import Outage, PageUrl
from canonry.errors import FailureKind, FetchFailed
from canonry.net.engine import OpenedPage, PageFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from canonry.crawler.crawl_options import CrawlOptions
    from canonry.net.origin import Origin
    from canonry.net.response import Fetch, Response

_MAX_PAUSE_SECONDS = 30.0
_ERRORS_IN_A_ROW = 5  # answers with status 500 that may be an outage; a single one is a fault of its page
_GATEWAY_STATUSES = frozenset({429, 502, 503, 504})
_NO_ANSWER = frozenset(
    {
        FailureKind.DNS,
        FailureKind.CONNECT,
        FailureKind.TLS,
        FailureKind.TIMEOUT,
        FailureKind.DISCONNECTED,
        FailureKind.UNAVAILABLE,
        FailureKind.PROXY,
        FailureKind.ABORTED,
        FailureKind.OTHER,
    }
)


def may_be_outage(opened: OpenedPage, *, errors_in_a_row: int) -> bool:
    """Return whether a result may mean that the site is down, so that it is worth a request to find out."""
    if opened.status:
        is_error = opened.status >= 500 and errors_in_a_row >= _ERRORS_IN_A_ROW
        return opened.status in _GATEWAY_STATUSES or is_error
    return opened.failure is not None and opened.failure.kind in _NO_ANSWER


def count_pause_seconds(opened: OpenedPage, *, down_seconds: float, backoff: float) -> float:
    """Return how long to wait before the next request to a site that has been down for `down_seconds`."""
    return limit_retry_after(opened, min(max(backoff, down_seconds / 2), _MAX_PAUSE_SECONDS))


class OutageStore(Protocol):
    """Where the processes of a crawl share an outage."""

    async def find_read_page(self, crawl_id: int, site: str) -> PageUrl | None: ...

    async def set_outage(self, crawl_id: int, outage: Outage | None) -> None: ...

    async def pause(self, crawl_id: int, failure: CrawlFailure, now: datetime) -> None: ...


@dataclass(slots=True)
class _Site:
    """The state of one scheme, host and port; times are those of the event loop."""

    read_page: PageUrl | None = None
    answered_at: float = float("-inf")  # when the latest request that got an answer was sent
    errors_in_a_row: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class SiteWatch:
    """Finds out whether the site of a crawl answers, and stores since when it does not."""

    def __init__(
        self,
        store: OutageStore,
        crawl_id: int,
        *,
        options: CrawlOptions,
        open_page: Callable[[PageUrl], Awaitable[OpenedPage]],
        clock: Callable[[], datetime],
        outage: Outage | None = None,
    ) -> None:
        self.outage = outage
        self.has_given_up = False
        self.version = 0  # rises with each change of the outage by this process
        self._store = store
        self._crawl_id = crawl_id
        self._options = options
        self._open_page = open_page
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._sites: dict[str, _Site] = {}

    @property
    def is_paused(self) -> bool:
        """Whether no page is to be opened now."""
        return self.outage is not None and self._clock() < self.outage.paused_until

    def adopt(self, outage: Outage | None, *, version: int) -> None:
        """Take over what other processes stored, unless this one has found out more since it had this version."""
        if version == self.version:
            self.outage = outage

    async def find_outage(self, page: PageUrl, opened: OpenedPage, *, sent_at: float) -> Outage | None:
        """Return the outage because of which a request, sent at this time of the event loop, got no usable answer."""
        site = self._get_site(page)
        if not is_unusable(opened.status):
            site.answered_at = max(site.answered_at, sent_at)
            site.errors_in_a_row = 0
            site.read_page = page
            return None
        site.errors_in_a_row += 1
        if not may_be_outage(opened, errors_in_a_row=site.errors_in_a_row):
            return None
        failed_at = self._loop.time()
        async with site.lock:
            if self.outage is not None or site.answered_at >= failed_at:
                return self.outage
            return None if await self._answers(site, page) else self.outage

    async def wait_for_site(self, page: PageUrl) -> Outage | None:
        """Return the outage during which a page is not opened; None if there is none, or if the site answers again."""
        if not self._is_down():
            return None
        site = self._get_site(page)
        async with site.lock:
            if not self._is_down() or self.is_paused:  # another page may have found out during the wait for the lock
                return self.outage
            return None if await self._answers(site, page) else self.outage

    async def fetch_patiently(self, url: str, *, fetch: Fetch, origin: Origin) -> Response:
        """Fetch a file of the site; if the site is down, wait until it answers again or the patience is used up."""
        page = PageUrl(url, url, origin)
        while True:
            sent_at = self._loop.time()
            try:
                response = await fetch(url, origin=origin)
                if not is_unusable(response.status) or not await self._outlasts(
                    page, OpenedPage(url, status=response.status), sent_at
                ):
                    return response
            except FetchFailed as error:
                failed = OpenedPage(url, failure=PageFailure(error.kind, error.reason))
                if not await self._outlasts(page, failed, sent_at):
                    raise

    async def _outlasts(self, page: PageUrl, opened: OpenedPage, sent_at: float) -> bool:
        """Return whether a request failed because of an outage that is over now."""
        outage = await self.find_outage(page, opened, sent_at=sent_at)
        if outage is None:
            return False
        while outage is not None and not self.has_given_up:
            await asyncio.sleep(max((outage.paused_until - self._clock()).total_seconds(), 0.01))
            outage = await self.wait_for_site(page)
        return outage is None

    def _is_down(self) -> bool:
        return self.outage is not None

    async def _answers(self, site: _Site, page: PageUrl) -> bool:
        """Request a page that was read before, and store whether the site is down."""
        read_page = site.read_page or await self._store.find_read_page(self._crawl_id, _get_site_url(page))
        if read_page is None:  # it never answered: the page fails after its retries
            return True
        sent_at = self._loop.time()
        opened = await self._open_page(read_page)
        if not is_unusable(opened.status):
            site.read_page, site.answered_at, site.errors_in_a_row = read_page, sent_at, 0
            if self.outage is not None:
                await self._set_outage(None)
            return True
        now = self._clock()
        since = now if self.outage is None else self.outage.since
        down_seconds = (now - since).total_seconds()
        pause = count_pause_seconds(opened, down_seconds=down_seconds, backoff=self._options.backoff)
        remaining = max(self._options.patience - down_seconds, 0.0)
        await self._set_outage(Outage(since, now + timedelta(seconds=min(pause, remaining))))
        if not remaining:
            self.has_given_up = True
            failure = CrawlFailure(CrawlFailureKind.NO_ANSWER, opened.error or f"status {opened.status}")
            await self._store.pause(self._crawl_id, failure, now)
        return False

    async def _set_outage(self, outage: Outage | None) -> None:
        self.version += 1
        self.outage = outage
        await self._store.set_outage(self._crawl_id, outage)

    def _get_site(self, page: PageUrl) -> _Site:
        return self._sites.setdefault(_get_site_url(page), _Site())


def _get_site_url(page: PageUrl) -> str:
    return parse(page.requested_url).get_origin()
