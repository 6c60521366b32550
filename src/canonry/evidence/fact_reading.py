"""Read one page for the store: at most one request, none for a page that was read in the last week (contract E5)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from canonry.core.url import parse
from canonry.errors import FetchFailed, UnsafeUrl
from canonry.evidence.fact_store import load_facts
from canonry.evidence.facts import make_fact
from canonry.net.moved_urls import is_stopgap
from canonry.net.response import NO_VALIDATORS
from canonry.store.schema import stamp

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from canonry.evidence.facts import PageFact
    from canonry.net.origin import Origin
    from canonry.net.response import Fetch
    from canonry.store.database import Database

MAX_PAGE_BYTES = 5_000_000
_FRESH = timedelta(days=7)  # a page that was read within this time is not fetched again
_RETRY_DELAYS = tuple(timedelta(minutes=each) for each in (1, 10, 60, 360, 1440))
_MAX_RETRY_DELAY = timedelta(days=3)  # however long a server asks to wait


@dataclass(frozen=True, slots=True)
class ReadPage:
    """A page that was read; `fact` is None if its URL has credentials: others do not see what those show."""

    fact: PageFact | None
    title: str
    description: str
    was_requested: bool


@dataclass(frozen=True, slots=True)
class UnreadPage:
    """A page that could not be read; `wait` is how many seconds the server asks to wait."""

    is_transient: bool
    wait: float | None = None


class FactReader:
    """Reads pages and returns their facts, which the caller saves."""

    def __init__(self, database: Database, fetch: Fetch, *, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._fetch = fetch
        self._clock = clock

    async def read(self, url: str, *, origin: Origin) -> ReadPage | UnreadPage:
        """Read the page at a URL without fragment; a page that is known is requested with its validators."""
        from canonry.evidence.page_view import read_page_view

        known = (await self._database.read(partial(load_facts, urls=[url]))).get(url)
        if known is not None and known.fetched_at > stamp(self._clock() - _FRESH):
            return ReadPage(known, known.title, "", was_requested=False)
        validators = known.validators if known is not None and not known.permanent_url else NO_VALIDATORS
        fetch = partial(self._fetch, url, origin=origin, max_bytes=MAX_PAGE_BYTES)
        try:
            response = await fetch(validators=validators)
            if response.is_not_modified and response.hops:  # nothing says that the validators came from there
                response = await fetch()
        except (FetchFailed, UnsafeUrl) as error:
            return UnreadPage(isinstance(error, FetchFailed) and error.is_transient)
        now = self._clock()
        if known is not None and validators and response.is_not_modified and not response.hops:
            return ReadPage(replace(known, fetched_at=stamp(now)), known.title, "", was_requested=True)
        if not response.is_ok:
            return UnreadPage(response.is_unavailable, response.retry_after(now) if response.is_unavailable else None)
        page = await asyncio.to_thread(read_page_view, response)
        fact = make_fact(url, page, stamp(now)) if parse(url).userinfo is None else None
        if is_stopgap(response.url, url):  # a login form says nothing about the page that it hides
            return ReadPage(fact, "", "", was_requested=True)
        return ReadPage(fact, page.title, page.description, was_requested=True)


def find_retry_delay(attempts: int, *, wait: float | None = None) -> timedelta | None:
    """Return how long to wait after this many failed requests, at least `wait` seconds; None to give up."""
    if attempts > len(_RETRY_DELAYS):
        return None
    asked = timedelta(seconds=min(wait or 0.0, _MAX_RETRY_DELAY.total_seconds()))
    return max(_RETRY_DELAYS[attempts - 1], asked)
