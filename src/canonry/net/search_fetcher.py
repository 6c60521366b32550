"""Fetch the URLs of one search (canonicalize, resolve): each once, guarded, with a timeout and progress events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from canonry.core.rules import strip_www
from canonry.core.url import join, parse
from canonry.errors import CanonryError, FailureKind, FetchFailed, InvalidUrl, RefusalKind, UnsafeUrl, mask_credentials
from canonry.net.guard import Guard, make_guard
from canonry.net.origin import Origin
from canonry.net.response import Hop, Response, Validators, find_host
from canonry.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from datetime import datetime

A = TypeVar("A")
T = TypeVar("T")
Verify: TypeAlias = Callable[[str], "bool | Awaitable[bool]"]
CallerFetch: TypeAlias = "Callable[..., Response | Awaitable[Response]]"  # a `Fetch`, or a plain function like it
Listener: TypeAlias = "Callable[[Event], object]"


class EventKind(StrEnum):
    """The kind of an `Event`."""

    FETCHING = "fetching"
    FETCHED = "fetched"
    MATCHED = "matched"
    EXISTS = "exists"


@dataclass(frozen=True, slots=True)
class Event:
    """Progress: what happened to which URL. Credentials in the URL are masked."""

    kind: EventKind
    url: str
    detail: str = ""


class Fetcher:
    """Fetches for one call and caches the answer of every URL, including the URLs of a redirect chain."""

    def __init__(
        self,
        fetch: CallerFetch,
        guard: Guard,
        *,
        origin: Origin,
        unchecked_site: tuple[str, str | None] | None,
        verify: Verify | None,
        on_event: Listener | None,
        timeout: float,
        max_bytes: int,
    ) -> None:
        self.request_count = 0
        self.origin = origin  # of the next URL
        self._fetch = fetch
        self._guard = guard
        self._unchecked_site = unchecked_site
        self._verify = verify
        self._on_event = on_event
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._answers: dict[str, Response | FetchFailed] = {}

    def has_fetched(self, url: str) -> bool:
        """Whether the answer of a URL is known, so that `get` sends no request."""
        return url in self._answers

    def forget(self, url: str) -> None:
        """Forget the answer of a URL, so that `get` requests it again."""
        self._answers.pop(url, None)

    async def check(self, url: str, origin: Origin | None = None) -> None:
        """Raise UnsafeUrl if the guard or the caller's `verify` refuses a URL of this origin."""
        if not self._is_unchecked(url):
            self._guard.for_origin(self.origin if origin is None else origin).check_url(url)
        if self._verify is not None and not await run_callback(self._verify, url):
            raise UnsafeUrl(mask_credentials(url), "vetoed by verify", kind=RefusalKind.VETOED)

    def _is_unchecked(self, url: str) -> bool:
        """Return whether a URL is of the site that the caller has chosen, on its own port or on the default one."""
        site = self._unchecked_site
        return site is not None and _get_site(url) in (site, (site[0], None))

    async def get(self, url: str, *, validators: Validators | None = None, body: bytes | None = None) -> Response:
        """Return the response of a URL; `body` replaces the missing body of a 304.

        Raises FetchFailed if there is no response, UnsafeUrl if a redirect leads to a refused URL.
        """
        answer = self._answers.get(url)
        if answer is None:
            answer = self._answers[url] = await self._request(url, validators, body)
            if isinstance(answer, Response):
                for number, hop in enumerate(answer.hops):
                    self._answers.setdefault(hop.url, replace(answer, hops=answer.hops[number:]))
                self._answers.setdefault(answer.url, replace(answer, hops=()))
        if isinstance(answer, FetchFailed):
            raise answer
        for target, origin in self._list_targets(url, answer).items():
            if target != url:
                await self.check(target, origin)
        return answer

    def _list_targets(self, url: str, answer: Response) -> dict[str, Origin]:
        """Return the URLs that redirects led to, with their origins.

        A fetch that knows addresses has judged each redirect by them. Otherwise only the URL tells which server sent a
        redirect, and the address of a name is unknown.
        """
        if answer.address:
            return dict.fromkeys((*(hop.location for hop in answer.hops), answer.url), self.origin)
        targets = {hop.location: Origin.from_server(find_host(hop.url)) for hop in answer.hops}
        return targets if answer.url in targets else {**targets, answer.url: Origin.from_server(find_host(url))}

    async def emit(self, kind: EventKind, url: str, detail: str = "") -> None:
        """Report progress to the caller's `on_event`."""
        if self._on_event is not None:
            await run_callback(self._on_event, Event(kind, mask_credentials(url), detail))

    async def _request(self, url: str, validators: Validators | None, body: bytes | None) -> Response | FetchFailed:
        await self.emit(EventKind.FETCHING, url)
        self.request_count += 1
        options: dict[str, object] = {"origin": self.origin}
        if validators is not None:
            options["validators"] = validators
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                answer: Response = await await_if_needed(self._fetch(url, **options))
                require_type("fetch", answer, Response)
                response = _restore_credentials(answer, url)
        except FetchFailed as error:
            return error
        except (OSError, InvalidUrl) as error:
            if limit.expired():
                reason = f"no complete response within {self._timeout:g} s"
                return FetchFailed(mask_credentials(url), reason, kind=FailureKind.TIMEOUT)
            kind = FailureKind.INVALID_URL if isinstance(error, InvalidUrl) else FailureKind.OTHER
            return FetchFailed(
                mask_credentials(url), f"{type(error).__name__}: {mask_credentials(str(error))}", kind=kind
            )
        if response.is_not_modified and body is not None:
            response = replace(response, status=200, body=body)
        if len(response.body) > self._max_bytes:
            reason = f"the body is larger than {self._max_bytes} bytes"
            return FetchFailed(mask_credentials(url), reason, kind=FailureKind.TOO_LARGE)
        await self.emit(EventKind.FETCHED, url, str(response.status))
        return response


@asynccontextmanager
async def open_fetcher(
    url: str,
    fetch: CallerFetch | None,
    guard: Guard | None,
    *,
    origin: Origin,
    verify: Verify | None,
    on_event: Listener | None,
    timeout: float,
    max_bytes: int,
) -> AsyncGenerator[Fetcher]:
    """Open a fetcher over the caller's `fetch`, or over the guarded client of this event loop.

    The guard of the caller, or else of the settings, checks every URL. With a `fetch` but no guard of
    the caller, the host of `url` itself is not checked: it is the caller's choice.
    """
    make = partial(Fetcher, origin=origin, verify=verify, on_event=on_event, timeout=timeout, max_bytes=max_bytes)
    if fetch is not None:
        yield make(fetch, guard or make_guard(load_settings()), unchecked_site=None if guard else _get_site(url))
        return
    from canonry.net.shared_client import use_shared_client

    async with use_shared_client(_get_site(url)[0]) as client:
        guarded = partial(client.fetch, timeout=timeout, max_bytes=max_bytes)
        yield make(guarded, guard or client.guard, unchecked_site=None)


def _get_site(url: str) -> tuple[str, str | None]:
    """Return the host without `www.`, and the port if it is not the default."""
    parts = parse(url)
    return strip_www(parts.host), parts.port


class CallbackRaised(Exception):
    """Carries a CanonryError of a callback past the code that catches canonry's own errors."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


async def run_callback(callback: Callable[[A], T | Awaitable[T]], argument: A) -> T:
    """Call a callback of the caller, async or not, and return its result."""
    try:
        return await await_if_needed(callback(argument))
    except CanonryError as error:
        raise CallbackRaised(error) from None


async def await_if_needed(value: T | Awaitable[T]) -> T:
    """Return the value, after awaiting it if it is awaitable."""
    return await value if isinstance(value, Awaitable) else value  # pyright: ignore[reportUnknownVariableType, reportReturnType]


def require_type(callback: str, value: object, wanted: type, alternative: str = "") -> None:
    """Raise TypeError if a callback of the caller returned something else."""
    if not isinstance(value, wanted):
        allowed = f"canonry.{wanted.__name__} {alternative}".rstrip()
        raise TypeError(f"{callback} must return {allowed}, not {type(value).__name__}")


def raise_for_status(response: Response, now: datetime) -> None:
    """Raise FetchFailed unless the status is 2xx, with the seconds that Retry-After asks to wait."""
    if not response.is_ok:
        wait = response.retry_after(now)
        reason = f"answered {response.status}" + ("" if wait is None else f", retry after {wait:.0f} s")
        raise FetchFailed(
            mask_credentials(response.url), reason, status=response.status, retry_after=wait, kind=FailureKind.STATUS
        )


def strip_fragment(url: str) -> str:
    """Return the URL as the parser writes it, without fragment: equal texts mean the same request."""
    parts = parse(url)
    parts.fragment = None
    return str(parts)


def _restore_credentials(response: Response, requested_url: str) -> Response:
    """Return the response with fragments stripped and, on the requested origin, the credentials that were sent.

    Credentials for any other origin are removed.
    """
    requested = parse(requested_url)

    def restore(url: str) -> str:
        parts = parse(url)
        parts.fragment = None
        is_same_origin = (parts.scheme, parts.host, parts.port) == (requested.scheme, requested.host, requested.port)
        parts.userinfo = requested.userinfo if is_same_origin else None
        return str(parts)

    hops = tuple(Hop(hop.status, restore(hop.url), restore(join(hop.url, hop.location))) for hop in response.hops)
    return replace(response, url=restore(response.url), hops=hops)
