"""Make the URL of a bookmark from the text of a user: parse, expand short links, normalize (contract B1, B5)."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from canonry.bookmarks.bookmark import BookmarkUrl, ExpansionState
from canonry.bookmarks.bookmark_rows import EXACT_POLICY
from canonry.bookmarks.expand import ExpansionOutcome, is_short
from canonry.bookmarks.statistics import find_latency_bucket
from canonry.core.explain import explain
from canonry.core.keys import replace_unstorable
from canonry.core.native import normalize
from canonry.core.url import read_url
from canonry.errors import InvalidUrl, PolicyRepinned, RekeyUnfinished
from canonry.store.pinned_policies import BOOKMARK, find_pinned, pin_policy, require_pinned

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from sqlalchemy import Connection

    from canonry.bookmarks.expand import Expansion
    from canonry.bookmarks.statistics import Statistics
    from canonry.core.explain import Explanation, Step
    from canonry.store.database import Database

    Expand = Callable[[str], Awaitable[Expansion]]

T = TypeVar("T")

MAX_URL_CHARS = 65_536
_MAX_ATTEMPTS = 3
_POLICY_CACHE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Preview:
    """The URL that would be saved, and the steps that make it; no request is sent and nothing is stored."""

    url: str
    original_url: str | None
    policy: str
    steps: tuple[Step, ...]
    is_short: bool


@dataclass(frozen=True, slots=True)
class _ExpandedUrl:
    """The URL to normalize: the target of a short link if it is known, else the URL that was given."""

    url: str
    expansion: ExpansionState = ExpansionState.NONE
    reason: str = ""


class UrlPipeline:
    """Makes the URLs of bookmarks under the policy of the store."""

    def __init__(
        self, database: Database, expand: Expand, *, statistics: Statistics, clock: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._expand = expand
        self._statistics = statistics
        self._clock = clock
        self._policy = ""
        self._policy_expires = 0.0  # on the monotonic clock

    async def run(self, text: str, *, exact_url: bool, wait: float | None) -> BookmarkUrl:
        """Return the URL to save; InvalidUrl if the text has none.

        `wait` is how many seconds to wait for the target of a short link; None is without a limit, and 0 sends no
        request. A short link that was not expanded in time stays as it is and is PENDING.
        """
        given = read_http_url(text)
        policy = await self.get_policy()
        if exact_url:
            normalized = normalize(given, policy)
            return BookmarkUrl(given, get_original_if_different(text, given), normalized, exact_url=True, policy=policy)
        target = await self._expand_short_link(given, wait) if is_short(given) else _ExpandedUrl(given)
        started = time.perf_counter()
        try:
            explanation = explain(target.url, policy)
        except InvalidUrl:
            target = _ExpandedUrl(given, ExpansionState.FAILED, "the short link leads to an invalid URL")
            explanation = explain(given, policy)
        self._count_normalization(time.perf_counter() - started, explanation)
        url = explanation.url
        return BookmarkUrl(
            url,
            get_original_if_different(text, url),
            url,
            exact_url=False,
            policy=policy,
            expansion=target.expansion,
            expansion_reason=target.reason,
        )

    async def save(
        self, text: str, work: Callable[[Connection, BookmarkUrl], T], *, exact_url: bool, wait: float | None
    ) -> T:
        """Make the URL of a text as `run` does and call `work` with it in a transaction.

        The URL is made again if another process has begun a rekey meanwhile: a URL under the old policy
        would stay in the store until the next rekey.
        """
        for _ in range(_MAX_ATTEMPTS):
            url = await self.run(text, exact_url=exact_url, wait=wait)
            with suppress(PolicyRepinned):
                return await self._database.write(partial(_work_under_pinned, url=url, work=work))
            self.forget_policy()
        raise RekeyUnfinished("A rekey of the bookmarks has just begun. Try again.")

    async def normalize(self, text: str, *, exact_url: bool = False) -> str:
        """Return the normalized URL without sending a request; a short link is not expanded."""
        given = read_http_url(text)
        return given if exact_url else normalize(given, await self.get_policy())

    async def preview(self, text: str, *, exact_url: bool = False) -> Preview:
        """Return the URL that `run` would make if no short link were expanded, with the steps."""
        given = read_http_url(text)
        if exact_url:
            return Preview(given, get_original_if_different(text, given), EXACT_POLICY, (), is_short=False)
        explanation = explain(given, await self.get_policy())
        original = get_original_if_different(text, explanation.url)
        return Preview(explanation.url, original, explanation.policy, explanation.steps, is_short(given))

    async def get_policy(self) -> str:
        """Return the id of the policy for new bookmarks, read from the store every two seconds at most."""
        if time.monotonic() >= self._policy_expires:
            pinned = await self._database.read(lambda connection: find_pinned(connection, BOOKMARK))
            if pinned is None:  # pinned before the first bookmark: a newer canonry must not change the rules of a store
                pinned = await self._database.write(lambda connection: pin_policy(connection, BOOKMARK))
            self._policy = pinned
            self._policy_expires = time.monotonic() + _POLICY_CACHE_SECONDS
        return self._policy

    def forget_policy(self) -> None:
        """Read the policy from the store at the next call: a rekey has changed it."""
        self._policy_expires = 0.0

    async def _expand_short_link(self, url: str, wait: float | None) -> _ExpandedUrl:
        if wait == 0:
            return _ExpandedUrl(url, ExpansionState.PENDING)
        try:
            async with asyncio.timeout(wait):
                found = await self._expand(url)
        except TimeoutError:
            self._count("expansion:pending")
            return _ExpandedUrl(url, ExpansionState.PENDING)
        self._count("cache:hit" if found.is_cached else "cache:miss")
        self._count(f"expansion:{found.outcome}")
        if found.outcome is ExpansionOutcome.FAILED:
            return _ExpandedUrl(url, ExpansionState.FAILED, found.reason)
        return _ExpandedUrl(found.url, ExpansionState.EXPANDED)

    def _count(self, name: str) -> None:
        self._statistics.count(name, self._clock())

    def _count_normalization(self, seconds: float, explanation: Explanation) -> None:
        self._count(f"latency:{find_latency_bucket(seconds)}")
        for rule in {step.rule for step in explanation.steps}:
            self._count(f"rule:{rule}")


def _work_under_pinned(connection: Connection, url: BookmarkUrl, work: Callable[[Connection, BookmarkUrl], T]) -> T:
    require_pinned(connection, BOOKMARK, url.policy)
    return work(connection, url)


def read_http_url(text: str) -> str:
    """Return the http(s) URL in a text, otherwise unchanged; InvalidUrl if there is none."""
    if len(text) > MAX_URL_CHARS:
        raise InvalidUrl(text, f"longer than {MAX_URL_CHARS} characters")
    url = read_url(text)
    if replace_unstorable(url) != url:
        raise InvalidUrl(text, "contains a lone surrogate, which no database can store")
    return url


def get_original_if_different(text: str, url: str) -> str | None:
    """Return the text that the user gave, or None if it equals the URL that is saved."""
    given = replace_unstorable(text.strip())
    return given if given != url else None
