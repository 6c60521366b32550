"""Fetch a sitemap as patiently as a page: what it lists would be lost after a short failure."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import TYPE_CHECKING

from canonry.crawler.decide import decide_retry
from canonry.errors import FetchFailed
from canonry.net.engine import OpenedPage, PageFailure

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from canonry.crawler.crawl_options import CrawlOptions
    from canonry.net.origin import Origin
    from canonry.net.response import Fetch, Response


async def fetch_with_retries(
    url: str, *, origin: Origin, fetch: Fetch, options: CrawlOptions, clock: Callable[[], datetime]
) -> Response:
    """Fetch a URL; after a transient failure again, as often and after the same pauses as a page."""
    decide = partial(decide_retry, options=options, jitter=random.random())  # noqa: S311
    attempts = 0
    while True:
        try:
            response = await fetch(url, origin=origin)
        except FetchFailed as error:
            retry = decide(OpenedPage(url, failure=PageFailure(error.kind, error.reason)), attempts=attempts)
            if retry is None:
                raise
        else:
            opened = OpenedPage(url, status=response.status, retry_after=response.retry_after(clock()))
            retry = decide(opened, attempts=attempts)
            if retry is None:
                return response
        attempts += 1
        await asyncio.sleep(retry.seconds)
