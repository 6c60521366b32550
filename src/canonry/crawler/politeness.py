"""Politeness at a site: what robots.txt allows, how fast, and as whom."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from canonry.core.url import parse, read_url
from canonry.net.robots import Robots, fetch_robots

if TYPE_CHECKING:
    from canonry.net.response import Fetch

REFUSED = "robots.txt refuses it"
_TRIES = 3


class Politeness:
    """Asks robots.txt of each origin once, and keeps the pauses; `fetch` is None where robots.txt does not count.

    `lanes` is how many others do the same at the site at the same time. User and password of the seed are
    sent to its origin and kept nowhere else.
    """

    def __init__(
        self,
        fetch: Fetch | None,
        *,
        token: str,
        delay: float = 0.0,
        lanes: int = 1,
        backoff: float = 1.0,
        seed: str = "",
        came_from: str | None = None,
    ) -> None:
        self._fetch = fetch
        self._token = token
        self._delay = delay
        self._lanes = lanes
        self._backoff = backoff
        self.came_from = came_from
        self._asked: dict[str, asyncio.Task[Robots]] = {}
        self._known: dict[str, Robots] = {}
        self._loop = asyncio.get_running_loop()
        self._free_at = 0.0
        self._userinfo = self._origin = ""
        if "@" in seed:
            url = read_url(seed)
            self._userinfo, self._origin = parse(url).userinfo or "", _origin(url)

    async def close(self) -> None:
        for task in self._asked.values():
            task.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)

    async def turn(self, url: str) -> str:
        """Wait until a page may be asked for; why it may not."""
        rules = await self._rules(url)
        if rules.failure is not None:
            return str(rules.failure)
        if not rules.allows(url):
            return REFUSED
        delay = max(self._delay, rules.delay * self._lanes)
        begin = max(self._loop.time(), self._free_at)
        if delay:
            self._free_at = begin + delay
        await asyncio.sleep(begin - self._loop.time())
        return ""

    def wait(self, seconds: float) -> None:
        """Nobody asks for anything for so long."""
        self._free_at = max(self._free_at, self._loop.time() + seconds)

    def refuses(self, url: str) -> bool:
        """Does robots.txt, as far as it is known, refuse where a redirect leads?"""
        rules = self._known.get(_origin(url))
        return rules is not None and not rules.allows(url)

    async def sitemaps(self, url: str) -> tuple[str, ...]:
        """Where the site of a URL lists its pages."""
        return (await self._rules(url)).sitemaps or (f"{_origin(url)}/sitemap.xml",)

    def with_credentials(self, url: str) -> str:
        """The URL with what the seed had, if it is of the seed's origin."""
        scheme, mark, rest = url.partition("://")
        is_its = self._userinfo and (url == self._origin or url.startswith(f"{self._origin}/"))
        return f"{scheme}{mark}{self._userinfo}@{rest}" if is_its else url

    async def _rules(self, url: str) -> Robots:
        if self._fetch is None:
            return Robots()
        origin = _origin(url)
        if origin not in self._asked:
            self._asked[origin] = asyncio.create_task(self._ask(self._fetch, origin))
        return await asyncio.shield(self._asked[origin])

    async def _ask(self, fetch: Fetch, origin: str) -> Robots:
        rules = Robots()
        for attempt in range(_TRIES):
            asked = self.with_credentials(origin)
            rules = await fetch_robots(asked, fetch, self._token, came_from=self.came_from)
            if rules.failure is None or not rules.failure.is_transient or attempt == _TRIES - 1:
                break
            await asyncio.sleep(self._backoff * 2**attempt)
        self._known[origin] = rules
        return rules


def _origin(url: str) -> str:
    parts = parse(url)
    return f"{parts.scheme}://{parts.host}" + (f":{parts.port}" if parts.port else "")
