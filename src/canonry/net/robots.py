"""robots.txt: what a site lets crawlers read, and how fast (RFC 9309)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from protego import Protego

from canonry.errors import FetchFailed, InvalidUrl, UnsafeUrl

if TYPE_CHECKING:
    from canonry.net.response import Fetch, Response

MAX_BYTES = 512 * 1024  # the RFC wants 500 KiB to be read at least
LONGEST_DELAY = 60.0  # seconds between two pages that a site can ask for


@dataclass(frozen=True, slots=True)
class Robots:
    """What one origin says; `refusal` is why nothing of it may be read, `is_passing` whether to ask again."""

    refusal: str = ""
    is_passing: bool = False
    delay: float = 0.0
    sitemaps: tuple[str, ...] = ()
    _rules: Protego | None = field(default=None, repr=False)
    _token: str = ""

    def allows(self, url: str) -> bool:
        return not self.refusal and (self._rules is None or bool(self._rules.can_fetch(url, self._token)))


def token_of(user_agent: str) -> str:
    """The name by which robots.txt calls us: `canonry/1.0 (+https://…)` → `canonry`."""
    return user_agent.partition("/")[0].split(" ")[0] or "*"


def read_robots(text: str, token: str) -> Robots:
    """The rules for whoever has this name."""
    rules = Protego.parse(text)
    delay = rules.crawl_delay(token) or 0.0
    if rate := rules.request_rate(token):
        delay = max(delay, rate.seconds / max(rate.requests, 1))
    return Robots("", False, min(max(delay, 0.0), LONGEST_DELAY), tuple(rules.sitemaps)[:100], rules, token)  # noqa: FBT003


async def fetch_robots(origin: str, fetch: Fetch, token: str, *, came_from: str | None = None) -> Robots:
    """What `https://example.com` says: without a file all may be read, where it cannot be known nothing."""
    options = {} if came_from is None else {"came_from": came_from}
    try:
        response: Response = await fetch(f"{origin}/robots.txt", **options)
    except (UnsafeUrl, InvalidUrl) as error:
        return Robots(f"robots.txt cannot be read: {error.reason}")
    except FetchFailed as error:
        return Robots(f"robots.txt cannot be read: {error.reason}", is_passing=True)
    except OSError as error:  # of a fetch of the caller's own
        return Robots(f"robots.txt cannot be read: {type(error).__name__}", is_passing=True)
    if response.status == 429 or response.status >= 500:
        return Robots(f"robots.txt cannot be read: the server answered {response.status}", is_passing=True)
    if not response.is_ok:
        return Robots()
    return read_robots(response.body[:MAX_BYTES].decode("utf-8-sig", "replace"), token)
