"""Canonicalize: which URL stands for this feed, with evidence from the network (contract F)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from canonry.core.normalize import resolved
from canonry.core.url import read_url
from canonry.core.variants import FEED_PRESETS
from canonry.feeds.canonicalize.fetcher import asker_for, plain
from canonry.feeds.canonicalize.probes import PROBES
from canonry.feeds.canonicalize.same_feed import read_document
from canonry.feeds.canonicalize.search import Search, has_web_scheme

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from canonry.core.policy import Policy
    from canonry.feeds.canonicalize.fetcher import Listener, Verify
    from canonry.feeds.canonicalize.result import Canonical
    from canonry.feeds.canonicalize.same_feed import Digest, Parse
    from canonry.feeds.canonicalize.search import Exists
    from canonry.net.guard import Guard
    from canonry.net.response import Fetch, Validators

_REWRITES = ("blogger", "feedburner")


async def canonicalize(
    url: str,
    *,
    fetch: Fetch | None = None,
    guard: Guard | None = None,
    exists: Exists | None = None,
    verify: Verify | None = None,
    parse: Parse | None = None,
    hash: Digest | None = None,  # noqa: A002 – the name users of the peer know
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
) -> Canonical:
    """The URL that stands for the feed at `url`: it was fetched and proven, or `exists` vouches for it.

    `fetch` is `async (url, **options) -> Response` and follows redirects itself; without it the
    guarded client is used. `guard` judges where answers lead. `exists` gets all candidates and
    answers with an `Existing` or None; `verify` may veto a URL; `parse` reads a `Response`, `hash`
    digests decoded text, `on_event` hears of the progress. `tracking_params` replaces the parameters
    that presets drop. `validators` make the first request conditional; `body` is what a 304 stands for.
    Raises InvalidUrl, FetchFailed, NotAFeed or UnsafeUrl, with what was `tried`.
    """
    typed = plain(read_url(url))
    chosen = [preset for preset in map(resolved, presets) if prefer_no_www or not preset.strip_www]
    params = None if tracking_params is None else tuple(tracking_params)
    if params is not None:
        chosen = [preset.without_params(*preset.strip_params).with_params(*params) for preset in chosen]
    async with asker_for(
        typed, fetch, guard, verify=verify, on_event=on_event, timeout=timeout, max_bytes=max_bytes
    ) as asker:
        search = Search(
            input=typed,
            is_assumed=not has_web_scheme(url),
            asker=asker,
            exists=exists,
            read=partial(read_document, parse=parse, digest=hash),
            presets=tuple(chosen),
            tracking_params=params,
            probes=_named(probes, PROBES),
            sites=_named(rewrites, _REWRITES),
            max_requests=max_requests,
            use_signature=use_signature,
            prefer_https=prefer_https,
            discover=discover,
            validators=validators,
            body=body,
        )
        return await search.run(deadline, check_before_fetch=check_before_fetch)


def canonicalize_sync(url: str, **options: Any) -> Canonical:
    """`canonicalize` for code without an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(canonicalize(url, **options))
    raise RuntimeError("an event loop is running here: await canonicalize(…) instead")


def _named(option: bool | Collection[str], known: Collection[str]) -> tuple[str, ...]:  # noqa: FBT001
    """All of what we know, nothing, or what is listed; ValueError for what we do not know."""
    if isinstance(option, bool):
        return tuple(known) if option else ()
    if unknown := sorted(set(option) - set(known)):
        raise ValueError(f"unknown: {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    return tuple(option)
