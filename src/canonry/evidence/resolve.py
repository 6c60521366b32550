"""Resolve: find the URL that stands for a page, with evidence from the network (contract E)."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from canonry.core.normalize import resolve_policy
from canonry.core.url import parse, read_url
from canonry.evidence.page_search import PageSearch
from canonry.net.origin import Origin
from canonry.net.search_fetcher import open_fetcher, strip_fragment

if TYPE_CHECKING:
    from canonry.core.policy import Policy
    from canonry.evidence.resolved import Resolved
    from canonry.net.guard import Guard
    from canonry.net.search_fetcher import CallerFetch, Listener, Verify

_SCHEME = re.compile(r"[\x00-\x20]*https?:", re.IGNORECASE)


async def resolve(
    url: str,
    policy: Policy | str = "bookmark",
    *,
    fetch: CallerFetch | None = None,
    guard: Guard | None = None,
    verify: Verify | None = None,
    on_event: Listener | None = None,
    max_requests: int = 3,
    timeout: float = 10.0,
    deadline: float = 30.0,
    max_bytes: int = 10 * 1024 * 1024,
    origin: Origin = Origin.PERSON,
) -> Resolved:
    """Return the URL that stands for the page at `url`: it was fetched, and shows the same page.

    `policy` makes the cleaner form that is tested. `fetch` is `(url, **options) -> Response`, async or not, and follows
    redirects itself; the default is the guarded client. `guard` checks every URL before it is fetched, and where
    redirects lead. `verify` may veto a URL, `on_event` receives progress. `max_requests` counts requests after the
    first. `origin` says who named `url`.
    Raises InvalidUrl, FetchFailed or UnsafeUrl; the last two list what was `tried`.
    """
    given = read_url(url)
    input_url = strip_fragment(given)
    async with open_fetcher(
        input_url, fetch, guard, origin=origin, verify=verify, on_event=on_event, timeout=timeout, max_bytes=max_bytes
    ) as fetcher:
        search = PageSearch(
            input_url=input_url,
            fragment=parse(given).fragment,
            is_https_assumed=_SCHEME.match(url) is None,
            policy=resolve_policy(policy),
            max_requests=max_requests,
            fetcher=fetcher,
        )
        return await search.run(deadline)


def resolve_sync(url: str, policy: Policy | str = "bookmark", **options: Any) -> Resolved:
    """Call `resolve` from code without an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(resolve(url, policy, **options))
    raise RuntimeError("resolve_sync cannot run inside an event loop. Use `await resolve(…)` instead.")
