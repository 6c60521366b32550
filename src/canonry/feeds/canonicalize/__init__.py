"""Canonicalize: find the URL that stands for a feed, with evidence from the network (contract F)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from canonry.core.normalize import resolve_policy
from canonry.core.url import read_url
from canonry.core.variants import FEED_PRESETS
from canonry.feeds.canonicalize.decisions import has_web_scheme
from canonry.feeds.canonicalize.probes import PROBES
from canonry.feeds.canonicalize.same_feed import read_response
from canonry.feeds.canonicalize.search import CanonicalSearch, SearchOptions
from canonry.net.origin import Origin
from canonry.net.search_fetcher import open_fetcher, strip_fragment

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from canonry.core.policy import Policy
    from canonry.feeds.canonicalize.result import Canonical
    from canonry.feeds.canonicalize.same_feed import Digest, Parse
    from canonry.feeds.canonicalize.search import Exists
    from canonry.net.guard import Guard
    from canonry.net.response import Validators
    from canonry.net.search_fetcher import CallerFetch, Listener, Verify

_REWRITES = ("blogger", "feedburner")


async def canonicalize(
    url: str,
    *,
    fetch: CallerFetch | None = None,
    guard: Guard | None = None,
    exists: Exists | None = None,
    verify: Verify | None = None,
    parse: Parse | None = None,
    hash: Digest | None = None,  # noqa: A002 – a public name
    on_event: Listener | None = None,
    presets: Sequence[Policy | str] = FEED_PRESETS,
    tracking_params: Iterable[str] | None = None,
    probes: bool | Collection[str] = True,
    rewrites: bool | Collection[str] = True,
    max_requests: int = 3,
    check_before_fetch: bool = False,
    use_signature: bool = True,
    prefer_https: bool = True,
    prefer_no_www: bool = True,
    discover: bool = False,
    validators: Validators | None = None,
    body: bytes | None = None,
    timeout: float = 10.0,
    deadline: float = 30.0,
    max_bytes: int = 10 * 1024 * 1024,
    origin: Origin = Origin.PERSON,
    on_origin: Callable[[Origin], object] | None = None,
) -> Canonical:
    """Return the URL that stands for the feed at `url`: it was fetched and proven, or `exists` knows it.

    `fetch` is `(url, **options) -> Response`, async or not, and follows redirects itself; the default is
    the guarded client. `guard` checks every URL before it is fetched, and where redirects lead. `exists`
    gets all candidate URLs and returns an `Existing` or None. `verify` may veto a URL. `parse` reads
    a `Response` as a `Feed`, `hash` digests decoded text, `on_event` receives progress.
    `tracking_params` replaces the parameters that the presets drop. `validators` make the first
    request conditional; `body` is used in place of the missing body of a 304. `origin` says who named
    `url`, and `on_origin` receives who named the result.
    Raises InvalidUrl, FetchFailed, NotAFeed or UnsafeUrl; the last three list what was `tried`.
    """
    input_url = strip_fragment(read_url(url))
    chosen = [preset for preset in map(resolve_policy, presets) if prefer_no_www or not preset.strip_www]
    params = None if tracking_params is None else tuple(tracking_params)
    if params is not None:
        chosen = [preset.without_params(*preset.strip_params).with_params(*params) for preset in chosen]
    options = SearchOptions(
        presets=tuple(chosen),
        tracking_params=params,
        probes=_select_names("probes", probes, PROBES),
        sites=_select_names("rewrites", rewrites, _REWRITES),
        max_requests=max_requests,
        use_signature=use_signature,
        prefer_https=prefer_https,
        discover=discover,
        validators=validators,
        body=body,
    )
    async with open_fetcher(
        input_url, fetch, guard, origin=origin, verify=verify, on_event=on_event, timeout=timeout, max_bytes=max_bytes
    ) as fetcher:
        search = CanonicalSearch(
            input_url=input_url,
            is_https_assumed=not has_web_scheme(url),
            options=options,
            fetcher=fetcher,
            read=partial(read_response, parse=parse, digest=hash, max_bytes=max_bytes),
            exists=exists,
        )
        found = await search.run(deadline, check_before_fetch=check_before_fetch)
        if on_origin is not None:
            on_origin(origin if found.url == input_url else fetcher.origin)
        return found


def canonicalize_sync(url: str, **options: Any) -> Canonical:
    """Call `canonicalize` from code without an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(canonicalize(url, **options))
    raise RuntimeError("canonicalize_sync cannot run inside an event loop. Use `await canonicalize(…)` instead.")


def _select_names(option: str, value: bool | Collection[str], known: Collection[str]) -> tuple[str, ...]:  # noqa: FBT001
    """Return all known names for True, none for False, else those listed; raise ValueError for unknown names."""
    if isinstance(value, bool):
        return tuple(known) if value else ()
    if unknown := sorted(set(value) - set(known)):
        raise ValueError(f"unknown {option}: {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    return tuple(value)
