"""Asking: every URL at most once in a call, guarded, in time, with progress."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from canonry.core.rules import without_www
from canonry.core.url import join, parse
from canonry.errors import CanonryError, FetchFailed, InvalidUrl, UnsafeUrl, masked
from canonry.feeds.canonicalize.result import Event, EventKind
from canonry.net.guard import Guard, guard_of
from canonry.net.response import Fetch, Hop, Response, Validators
from canonry.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from datetime import datetime

A = TypeVar("A")
T = TypeVar("T")
Verify: TypeAlias = Callable[[str], "bool | Awaitable[bool]"]
Listener: TypeAlias = Callable[[Event], object]


class Asker:
    """Fetches for one call; remembers the answer of every URL, and of those passed on the way."""

    def __init__(
        self,
        fetch: Fetch,
        guard: Guard,
        *,
        trusted: tuple[str, str | None] | None,
        verify: Verify | None,
        on_event: Listener | None,
        timeout: float,
        max_bytes: int,
    ) -> None:
        self.total = 0
        self.came_from: str | None = None  # the address that named what is asked next; None for a person
        self._fetch = fetch
        self._guard = guard
        self._trusted = trusted
        self._verify = verify
        self._on_event = on_event
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._answers: dict[str, Response | FetchFailed] = {}

    def has_asked(self, url: str) -> bool:
        return url in self._answers

    async def check(self, url: str) -> None:
        """UnsafeUrl where the guard or the caller has something against a URL."""
        if self._trusted is None or _site(url) not in (self._trusted, (self._trusted[0], None)):
            self._guard.after(self.came_from).check_url(url)
        if self._verify is not None and not await called(self._verify, url):
            raise UnsafeUrl(masked(url), "vetoed by verify")

    async def ask(self, url: str, *, validators: Validators | None = None, body: bytes | None = None) -> Response:
        """The answer of a URL; FetchFailed where there is none, UnsafeUrl where it leads to a place it must not.

        `body` is what a 304 stands for.
        """
        answer = self._answers.get(url)
        if answer is None:
            answer = self._answers[url] = await self._asked(url, validators, body)
            if isinstance(answer, Response):
                for number, hop in enumerate(answer.hops):
                    self._answers.setdefault(hop.url, replace(answer, hops=answer.hops[number:]))
                self._answers.setdefault(answer.url, replace(answer, hops=()))
        if isinstance(answer, FetchFailed):
            raise answer
        for end in dict.fromkeys((*(hop.location for hop in answer.hops), answer.url)):
            if end != url:
                await self.check(end)
        return answer

    async def say(self, kind: EventKind, url: str, detail: str = "") -> None:
        """Tell the caller how far we are."""
        if self._on_event is not None:
            await called(self._on_event, Event(kind, masked(url), detail))

    async def _asked(self, url: str, validators: Validators | None, body: bytes | None) -> Response | FetchFailed:
        await self.say(EventKind.FETCHING, url)
        self.total += 1
        options: dict[str, object] = {}
        if validators is not None:
            options["validators"] = validators
        if self.came_from is not None:
            options["came_from"] = self.came_from
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                response = _with_credentials(await self._fetch(url, **options), url)
        except FetchFailed as error:
            return error
        except (OSError, InvalidUrl) as error:
            if limit.expired():
                return FetchFailed(masked(url), f"no whole answer within {self._timeout:g} s")
            return FetchFailed(masked(url), f"{type(error).__name__}: {masked(str(error))}")
        if response.is_not_modified and body is not None:
            response = replace(response, status=200, body=body)
        if len(response.body) > self._max_bytes:
            return FetchFailed(masked(url), f"a body of more than {self._max_bytes} bytes")
        await self.say(EventKind.FETCHED, url, str(response.status))
        return response


@asynccontextmanager
async def asker_for(
    url: str,
    fetch: Fetch | None,
    guard: Guard | None,
    *,
    verify: Verify | None,
    on_event: Listener | None,
    timeout: float,
    max_bytes: int,
) -> AsyncGenerator[Asker]:
    """An asker over the caller's fetch, or over the guarded client of this event loop.

    Where answers lead is judged by the caller's guard, or that of the settings; without a guard of
    the caller, the host the caller names is up to the caller's fetch.
    """
    make = partial(Asker, verify=verify, on_event=on_event, timeout=timeout, max_bytes=max_bytes)
    if fetch is not None:
        yield make(fetch, guard or guard_of(load_settings()), trusted=None if guard else _site(url))
        return
    from canonry.net.fetch import shared_client

    async with shared_client(_site(url)[0]) as client:
        guarded = partial(client.fetch, timeout=timeout, max_bytes=max_bytes)
        yield make(guarded, guard or client.guard, trusted=None)


def _site(url: str) -> tuple[str, str | None]:
    """Host, whatever its www, and port where it is not the usual one."""
    parts = parse(url)
    return without_www(parts.host), parts.port


class CallbackRaised(Exception):
    """What a callback raised, on its way to the caller past those who catch errors of ours."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


async def called(callback: Callable[[A], T | Awaitable[T]], argument: A) -> T:
    """What a callback of the caller returns, async or not."""
    try:
        return await settled(callback(argument))
    except CanonryError as error:
        raise CallbackRaised(error) from None


async def settled(value: T | Awaitable[T]) -> T:
    """The value of a callback, which may be async or not."""
    return await value if isinstance(value, Awaitable) else value  # pyright: ignore[reportUnknownVariableType, reportReturnType]


def require_ok(response: Response, now: datetime) -> None:
    """FetchFailed for an answer that is none, with the seconds its server asks to wait."""
    if not response.is_ok:
        wait = response.retry_after(now)
        reason = f"answered {response.status}" + ("" if wait is None else f", asks to wait {wait:.0f} s")
        raise FetchFailed(masked(response.url), reason, status=response.status, retry_after=wait)


def plain(url: str) -> str:
    """The URL as the parser writes it, without fragment: equal texts, the same request."""
    parts = parse(url)
    parts.fragment = None
    return str(parts)


def _with_credentials(response: Response, asked: str) -> Response:
    """The answer with plain URLs, and with the credentials that were sent, on the origin they were sent to."""
    sent = parse(asked)

    def carried(url: str) -> str:
        parts = parse(url)
        parts.fragment = None
        is_origin = (parts.scheme, parts.host, parts.port) == (sent.scheme, sent.host, sent.port)
        parts.userinfo = sent.userinfo if is_origin else None
        return str(parts)

    hops = tuple(Hop(hop.status, carried(hop.url), carried(join(hop.url, hop.location))) for hop in response.hops)
    return replace(response, url=carried(response.url), hops=hops)
