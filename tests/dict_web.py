"""A fetch function over a dict of pages, as a caller passes it to canonicalize."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from typing import TYPE_CHECKING, Any

import canonry
from canonry.core.url import join, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

_REDIRECTS = {301, 302, 303, 307, 308}


class DictWeb:
    """`web.fetch` responds from `pages` (absolute URL → response, as in `feed_scenarios.json`)."""

    def __init__(self, pages: Mapping[str, Mapping[str, Any]]) -> None:
        self.pages = pages
        self.asked: list[str] = []
        self.fetched: set[str] = set()
        self.wire_requests = 0
        self._turns: dict[str, int] = {}

    async def fetch(self, url: str, **_: object) -> canonry.Response:
        """Fetch a URL and follow redirects, as a caller's fetch must."""
        self.asked.append(url)
        hops: list[canonry.Hop] = []
        while True:
            status, headers, body = await self._answer(url)
            if status not in _REDIRECTS or len(hops) == 20:
                self.fetched |= {url, *(hop.url for hop in hops)}
                return canonry.Response(status, url, headers, body, tuple(hops))
            target = join(url, headers["location"])
            hops.append(canonry.Hop(status, url, target))
            url = target

    async def _answer(self, url: str) -> tuple[int, dict[str, str], bytes]:
        parts = parse(url)
        user, parts.userinfo = parts.userinfo, None
        page = self.pages.get(str(parts))
        if page is None:
            raise ConnectionRefusedError(url)
        self.wire_requests += 1
        if turns := page.get("sequence"):
            turn = self._turns[url] = self._turns.get(url, -1) + 1
            page = turns[min(turn, len(turns) - 1)]
        await asyncio.sleep(page.get("delay_ms", 0) / 1000)
        if page.get("require_auth", user) != user:
            return 401, {}, b""
        return page["status"], dict(page.get("headers", {})), _body(page)


def _body(page: Mapping[str, Any]) -> bytes:
    if "body_base64" in page:
        return b64decode(page["body_base64"])
    if repeat := page.get("body_repeat"):
        return f"{repeat['prefix']}{repeat['unit'] * repeat['count']}{repeat['suffix']}".encode()
    return str(page.get("body", "")).encode()
