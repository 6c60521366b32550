"""Politeness towards a site: robots.txt, pauses between requests, and credentials only for their origin."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from canonry.core.url import join, parse, read_url
from canonry.errors import FetchFailed, InvalidUrl
from canonry.net.robots import Robots, fetch_robots
from canonry.net.sitemap import NamedUrl

if TYPE_CHECKING:
    from canonry.net.origin import Origin
    from canonry.net.response import Fetch


class Politeness:
    """Fetches robots.txt of each origin until it is read, and spaces requests; without `fetch` robots.txt is ignored.

    `slots` is how many processes crawl the site at the same time, which share the delay that the site asks for. User
    and password of the seed are sent to its origin and stored nowhere.
    """

    def __init__(
        self,
        fetch: Fetch | None,
        *,
        token: str,
        delay: float = 0.0,
        slots: int = 1,
        seed: str = "",
    ) -> None:
        self._fetch = fetch
        self._token = token
        self._delay = delay
        self._slots = slots
        self._requests: dict[str, asyncio.Task[Robots]] = {}
        self._known: dict[str, Robots] = {}
        self._loop = asyncio.get_running_loop()
        self._next_request_at = 0.0
        self._userinfo = self._origin = ""
        if "@" in seed:
            url = read_url(seed)
            self._userinfo, self._origin = parse(url).userinfo or "", parse(url).get_origin()

    async def close(self) -> None:
        """Cancel requests for robots.txt that are still running."""
        for task in self._requests.values():
            task.cancel()
        await asyncio.gather(*self._requests.values(), return_exceptions=True)

    async def get_rules(self, url: str, named_by: Origin) -> Robots:
        """Return robots.txt of the URL's origin, fetched if it is not known; `named_by` says who named the URL."""
        if self._fetch is None:
            return Robots()
        origin = parse(url).get_origin()
        if origin not in self._requests:
            self._requests[origin] = asyncio.create_task(self._fetch_rules(self._fetch, origin, named_by))
        return await asyncio.shield(self._requests[origin])

    async def wait_for_turn(self, rules: Robots) -> None:
        """Wait until the next page may be requested, with the delay that robots.txt asks for."""
        delay = max(self._delay, rules.delay * self._slots)
        request_at = max(self._loop.time(), self._next_request_at)
        if delay:
            self._next_request_at = request_at + delay
        await asyncio.sleep(request_at - self._loop.time())

    def pause(self, seconds: float) -> None:
        """Start no request for this many seconds."""
        self._next_request_at = max(self._next_request_at, self._loop.time() + seconds)

    def is_disallowed(self, url: str) -> bool:
        """Return whether robots.txt of the URL's origin is known and does not allow the URL."""
        rules = self._known.get(parse(url).get_origin())
        return rules is not None and not rules.allows(url)

    async def find_sitemaps(self, url: str, named_by: Origin, *, fetch: Fetch) -> tuple[NamedUrl, ...]:
        """Return the sitemaps that robots.txt names, or else the usual one.

        If robots.txt cannot be read now, it is requested with `fetch`, which may try again; FetchFailed if that fails.
        """
        rules = await self.get_rules(url, named_by)
        site = parse(url).get_origin()
        if rules.failure is not None and rules.failure.is_transient:
            rules = await fetch_robots(self.add_credentials(site), fetch, self._token, origin=named_by)
        if rules.failure is not None:
            raise FetchFailed(f"{site}/robots.txt", rules.failure.detail, kind=rules.failure.kind)
        usual = NamedUrl(f"{site}/sitemap.xml", named_by)
        named: list[NamedUrl] = []
        for each in rules.sitemaps:
            with suppress(InvalidUrl):
                named.append(NamedUrl(join(f"{site}/robots.txt", each), rules.origin))
        return tuple(named) or (usual,)

    def add_credentials(self, url: str) -> str:
        """Return the URL with user and password of the seed, if it is of the seed's origin."""
        scheme, separator, rest = url.partition("://")
        is_same_origin = url == self._origin or url.startswith(f"{self._origin}/")
        return f"{scheme}{separator}{self._userinfo}@{rest}" if self._userinfo and is_same_origin else url

    async def _fetch_rules(self, fetch: Fetch, origin: str, named_by: Origin) -> Robots:
        rules = await fetch_robots(self.add_credentials(origin), fetch, self._token, origin=named_by)
        if rules.failure is not None and rules.failure.is_transient:
            del self._requests[origin]  # no verdict: the next page, or the next attempt of this one, asks again
        else:
            self._known[origin] = rules
        return rules
