"""Expand short links: find their target without a request to it (contract B2).

Requests go only to hosts on the shortener list, one at a time and through the guard. The target is checked like a
redirect from a public server, whatever networks the settings allow for typed URLs.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from canonry.core.tables import SHORTENERS
from canonry.core.url import parse
from canonry.errors import FailureKind, FetchFailed, InvalidUrl, UnsafeUrl, mask_credentials
from canonry.net.html import find_meta_refresh, is_html, parse_refresh
from canonry.net.origin import Origin
from canonry.net.response import REDIRECTS, Hop, Response, join_location

if TYPE_CHECKING:
    from canonry.core.url import Parts
    from canonry.net.fetch import Client
    from canonry.net.guard import Guard
    from canonry.store.cache import Cache

MAX_HOPS = 5
TIMEOUT_SECONDS = 5.0  # for all hops together
TARGET_CACHE_SECONDS = 300.0
FAILURE_CACHE_SECONDS = 60.0
_HEAD_SHARE = 0.4  # of the timeout: some servers never answer a HEAD
_MAX_PAGE_BYTES = 64 * 1024  # searched for a meta refresh
_MAX_REASON_CHARS = 500
_CACHE_VERSION = 2
_log = logging.getLogger("canonry.expand")


class ExpansionOutcome(StrEnum):
    """How the expansion of a URL ended."""

    NOT_SHORT = "not_short"  # no request was sent
    EXPANDED = "expanded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Expansion:
    """The target of a short link, or the URL that was given if it is not short or its expansion failed.

    `failure` and `reason` say why it failed; `hops` are the redirects of this call, empty if the cache had the target.
    """

    url: str
    outcome: ExpansionOutcome
    failure: FailureKind | None = None
    reason: str = ""
    hops: tuple[Hop, ...] = ()
    is_cached: bool = False


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a short link leads, as the cache stores it."""

    url: str

    def dump(self) -> bytes:
        return json.dumps({"version": _CACHE_VERSION, "url": self.url}).encode()


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a short link has no target, as the cache stores it."""

    kind: FailureKind
    reason: str

    def dump(self) -> bytes:
        return json.dumps({"version": _CACHE_VERSION, "failure": self.kind, "reason": self.reason}).encode()


def is_short(url: str) -> bool:
    """Return whether a URL is on a host of the shortener list, with or without `www.`, at the default port."""
    try:
        return _is_short(parse(url))
    except InvalidUrl:
        return False


async def expand(
    url: str, client: Client, cache: Cache | None = None, *, seconds: float = TIMEOUT_SECONDS
) -> Expansion:
    """Return the target of a short link, or the URL exactly as given if it is not short or has no target."""
    if not is_short(url):
        return Expansion(url, ExpansionOutcome.NOT_SHORT)
    start = parse(url)
    fragment = start.fragment
    start.userinfo = start.fragment = None
    name = f"expand:{sha256(str(start).encode()).hexdigest()}"
    guard = client.guard.for_origin(Origin.UNKNOWN)  # a target must be public, wherever the shortener is
    hops: list[Hop] = []
    cached: _Target | _Failure | None = None
    found: _Target | _Failure
    try:
        async with asyncio.timeout(seconds):
            cached = None if cache is None else _parse_cached(await cache.get(name), guard)
            found = cached or _Target(await _follow(start, hops, client, guard, seconds))
    except TimeoutError:
        found = _Failure(FailureKind.TIMEOUT, f"not expanded within {seconds:g} s")
        if seconds < TIMEOUT_SECONDS:
            cache = None  # a call with the full timeout may still find the target
    except UnsafeUrl as error:
        found = _Failure(FailureKind.REFUSED, _shorten(error.reason))
    except FetchFailed as error:
        found = _Failure(error.kind, _shorten(error.reason))
    if cache is not None and cached is None:
        lifetime = TARGET_CACHE_SECONDS if isinstance(found, _Target) else FAILURE_CACHE_SECONDS
        await cache.set(name, found.dump(), lifetime)
    is_cached = cached is not None
    if isinstance(found, _Target):
        target = _add_fragment(found.url, fragment)
        return Expansion(target, ExpansionOutcome.EXPANDED, hops=tuple(hops), is_cached=is_cached)
    facts = {"short_host": start.host, "failure": found.kind, "reason": found.reason, "is_cached": is_cached}
    _log.warning("short link on %s not expanded: %s", start.host, found.reason, extra=facts)
    return Expansion(url, ExpansionOutcome.FAILED, found.kind, found.reason, tuple(hops), is_cached)


async def _follow(parts: Parts, hops: list[Hop], client: Client, guard: Guard, seconds: float) -> str:
    """Return the first URL of a chain that is not a short link; FetchFailed or UnsafeUrl if there is none."""
    origin = Origin.PERSON
    fragment: str | None = None
    while len(hops) < MAX_HOPS:
        response, reference = await _request_redirect(str(parts), client, origin, seconds)
        target = _check_target(response.url, reference, guard)
        fragment = target.fragment or fragment  # RFC 9110, 10.2.2
        target.fragment = None
        hops.append(Hop(response.status, str(parts), str(target)))
        if not _is_short(target):
            return _add_fragment(str(target), fragment)
        if any(hop.url == str(target) for hop in hops):
            reason = f"redirects in a loop, back to {target.host}"
            raise FetchFailed(str(target), reason, kind=FailureKind.REDIRECT_LOOP)
        parts, origin = target, response.origin
    raise FetchFailed(str(parts), f"more than {MAX_HOPS} redirects", kind=FailureKind.TOO_MANY_REDIRECTS)


async def _request_redirect(url: str, client: Client, origin: Origin, seconds: float) -> tuple[Response, str]:
    """Return the response that redirects, and its reference; GET if the response to HEAD does not redirect."""
    with suppress(FetchFailed, TimeoutError):  # GET has its own errors
        async with asyncio.timeout(seconds * _HEAD_SHARE):
            response = await client.request(url, method="HEAD", origin=origin)
        if reference := _find_reference(response):
            return response, reference
    response = await client.request(url, origin=origin, max_bytes=_MAX_PAGE_BYTES)
    if reference := _find_reference(response):
        return response, reference
    reason = f"{parse(url).host} answered {response.status} without a redirect"
    raise FetchFailed(url, reason, status=response.status, kind=FailureKind.STATUS)


def _find_reference(response: Response) -> str:
    """Return the target of a redirect, a `Refresh` header or a meta refresh; empty if there is none."""
    if response.status in REDIRECTS:
        return response.header("location")
    if not response.is_ok:
        return ""
    if target := parse_refresh(response.header("refresh")):
        return target
    content_type = response.header("content-type")
    if not is_html(content_type):
        return ""
    return find_meta_refresh(response.body, url=response.url, content_type=content_type)


def _check_target(url: str, reference: str, guard: Guard) -> Parts:
    """Return the URL that a reference names, without user and password; FetchFailed or UnsafeUrl if it is bad."""
    target = join_location(url, reference)
    try:
        parts = guard.check_url(target)
    except UnsafeUrl as error:
        raise UnsafeUrl(error.target, f"redirects to a refused URL: {error.reason}", kind=error.kind) from None
    parts.userinfo = None
    return parts


def _parse_cached(value: bytes | None, guard: Guard) -> _Target | _Failure | None:
    """Return a cached entry; None for anything that is not valid, which counts as a cache miss."""
    try:
        entry: Any = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    match entry:
        case {"version": int(version), "url": str(url)} if version == _CACHE_VERSION:
            try:
                parts = guard.check_url(url)
            except UnsafeUrl:
                return None
            return None if parts.userinfo is not None or _is_short(parts) else _Target(str(parts))
        case {"version": int(version), "failure": str(kind), "reason": str(reason)} if version == _CACHE_VERSION:
            is_valid = kind in set(FailureKind) and 0 < len(reason) <= _MAX_REASON_CHARS and reason.isprintable()
            return _Failure(FailureKind(kind), reason) if is_valid else None
        case _:
            return None


def _shorten(reason: str) -> str:
    return mask_credentials(reason)[:_MAX_REASON_CHARS]


def _is_short(parts: Parts) -> bool:
    return parts.port is None and parts.host.removeprefix("www.") in SHORTENERS


def _add_fragment(url: str, fragment: str | None) -> str:
    """Return the URL with the fragment of the short link, unless it has its own."""
    return url if fragment is None or "#" in url else f"{url}#{fragment}"
