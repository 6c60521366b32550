"""Short links: where they lead, found out without asking there (contract B2).

Only hosts of the shortener list are asked, one guarded request at a time. What they lead to is
checked like a redirect of a public server, whatever an operator allows for typed URLs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from canonry.core.tables import SHORTENERS
from canonry.core.url import join, parse
from canonry.errors import FetchFailed, InvalidUrl, UnsafeUrl, mask_credentials
from canonry.net.html import find_meta_refresh, is_html, parse_refresh
from canonry.net.response import REDIRECTS, Hop, Response

if TYPE_CHECKING:
    from canonry.core.url import Parts
    from canonry.net.fetch import Client
    from canonry.net.guard import Guard
    from canonry.store.cache_contract import Cache

MAX_HOPS = 5
SECONDS = 5.0  # for everything
FOUND_FOR = 300.0  # seconds an expansion is remembered
FAILED_FOR = 60.0  # seconds a failure is
_HEAD_SHARE = 0.4  # of the time: some servers never answer a HEAD
_MAX_PAGE = 64 * 1024  # bytes of a page in which a refresh is looked for
_MAX_REASON = 500
_VERSION = 1
_log = logging.getLogger("canonry.expand")


class ExpansionOutcome(StrEnum):
    """What became of a URL that might be a short link."""

    NOT_SHORT = "not_short"  # nothing was asked
    EXPANDED = "expanded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Expansion:
    """`url` is where a short link leads, or what was given; `reason` says why it failed, `hops` what was asked now."""

    url: str
    outcome: ExpansionOutcome
    reason: str = ""
    hops: tuple[Hop, ...] = ()
    is_cached: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """An expansion as it is remembered: a URL or a reason."""

    url: str = ""
    reason: str = ""


def is_short(url: str) -> bool:
    """Is it on a host of the shortener list, with or without `www.`, at the usual port?"""
    try:
        return _is_short(parse(url))
    except InvalidUrl:
        return False


async def expand(url: str, client: Client, cache: Cache | None = None, *, seconds: float = SECONDS) -> Expansion:
    """Where a short link leads; the URL exactly as given where it is none, or does not expand."""
    if not is_short(url):
        return Expansion(url, ExpansionOutcome.NOT_SHORT)
    start = parse(url)
    fragment = start.fragment
    start.userinfo = start.fragment = None
    name = f"expand:{sha256(str(start).encode()).hexdigest()}"
    guard = client.guard.for_links_from("")  # as for a server whose address nobody knows: a public one
    hops: list[Hop] = []
    known: _Found | None = None
    try:
        async with asyncio.timeout(seconds):
            known = None if cache is None else _remembered(await cache.get(name), guard)
            found = known or _Found(await _follow(start, hops, client, guard, seconds))
    except TimeoutError:
        found = _Found(reason=f"no end of it within {seconds:g} s")
        if seconds < SECONDS:
            cache = None  # who has more patience may yet find it
    except (FetchFailed, UnsafeUrl) as error:
        found = _Found(reason=mask_credentials(error.reason)[:_MAX_REASON])
    if cache is not None and known is None:
        await cache.set(name, _written(found), FOUND_FOR if found.url else FAILED_FOR)
    if found.url:
        return Expansion(
            _with_fragment(found.url, fragment), ExpansionOutcome.EXPANDED, "", tuple(hops), known is not None
        )
    facts = {"short_host": start.host, "reason": found.reason, "is_cached": known is not None}
    _log.warning("%s does not expand: %s", start.host, found.reason, extra=facts)
    return Expansion(url, ExpansionOutcome.FAILED, found.reason, tuple(hops), known is not None)


async def _follow(parts: Parts, hops: list[Hop], client: Client, guard: Guard, seconds: float) -> str:
    """The first URL on the way that is no short link; FetchFailed or UnsafeUrl where there is none."""
    came_from: str | None = None
    fragment: str | None = None
    while len(hops) < MAX_HOPS:
        response, reference = await _ask(str(parts), client, came_from, seconds)
        target = _checked(response.url, reference, guard)
        fragment = target.fragment or fragment  # RFC 9110, 10.2.2
        target.fragment = None
        hops.append(Hop(response.status, str(parts), str(target)))
        if not _is_short(target):
            return _with_fragment(str(target), fragment)
        if any(hop.url == str(target) for hop in hops):
            raise FetchFailed(str(target), f"leads in a circle, back to {target.host}")
        parts, came_from = target, response.address
    raise FetchFailed(str(parts), f"more than {MAX_HOPS} hops")


async def _ask(url: str, client: Client, came_from: str | None, seconds: float) -> tuple[Response, str]:
    """The answer that leads on, and its reference; HEAD first, GET where that says nothing."""
    with suppress(FetchFailed, TimeoutError):  # GET will tell
        async with asyncio.timeout(seconds * _HEAD_SHARE):
            response = await client.request(url, method="HEAD", came_from=came_from)
        if reference := _reference(response):
            return response, reference
    response = await client.request(url, came_from=came_from, max_bytes=_MAX_PAGE)
    if reference := _reference(response):
        return response, reference
    raise FetchFailed(url, f"{parse(url).host} answers {response.status} and leads nowhere", status=response.status)


def _reference(response: Response) -> str:
    """What a redirect, a `Refresh` header or a page names as the next; empty where none does."""
    if response.status in REDIRECTS:
        return response.header("location")
    if not response.is_ok:
        return ""
    if target := parse_refresh(response.header("refresh")):
        return target
    kind = response.header("content-type")
    return find_meta_refresh(response.body, url=response.url, content_type=kind) if is_html(kind) else ""


def _checked(url: str, reference: str, guard: Guard) -> Parts:
    """Where a reference leads; user and password in it are dropped."""
    if re.search(r"[\x00-\x1f\x7f]", reference):
        raise FetchFailed(url, "leads to a URL with control characters")
    try:
        parts = guard.check_url(join(url, reference))
    except InvalidUrl:
        raise FetchFailed(url, "leads to what is not a URL") from None
    except UnsafeUrl as error:
        raise UnsafeUrl(error.target, f"leads where it may not: {error.reason}") from None
    parts.userinfo = None
    return parts


def _remembered(value: bytes | None, guard: Guard) -> _Found | None:
    """What the cache has, as far as it can be ours; None for anything else."""
    try:
        entry: Any = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    match entry:
        case {"version": int(version), "url": str(url)} if version == _VERSION:
            try:
                parts = guard.check_url(url)
            except UnsafeUrl:
                return None
            return None if parts.userinfo is not None or _is_short(parts) else _Found(str(parts))
        case {"version": int(version), "reason": str(reason)} if version == _VERSION:
            return _Found(reason=reason) if 0 < len(reason) <= _MAX_REASON and reason.isprintable() else None
        case _:
            return None


def _written(found: _Found) -> bytes:
    known = {"url": found.url} if found.url else {"reason": found.reason}
    return json.dumps({"version": _VERSION, **known}).encode()


def _is_short(parts: Parts) -> bool:
    return parts.port is None and parts.host.removeprefix("www.") in SHORTENERS


def _with_fragment(url: str, fragment: str | None) -> str:
    """The URL with the fragment of the one before, unless it has its own."""
    return url if fragment is None or "#" in url else f"{url}#{fragment}"
