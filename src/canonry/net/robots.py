"""robots.txt: which pages a site lets crawlers read, and how fast (RFC 9309)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from protego import Protego

from canonry.errors import FailureKind, FetchFailed, InvalidUrl, UnsafeUrl
from canonry.net.engine import PageFailure
from canonry.net.origin import Origin

if TYPE_CHECKING:
    from canonry.net.response import Fetch, Response

MAX_BYTES = 512 * 1024  # RFC 9309 section 2.5 asks parsers to read at least 500 KiB
MAX_DELAY_SECONDS = 60.0
_USER_AGENT = re.compile(r"(?:user-agent|useragent|user agent) ?[: ] ?(.*)")  # in the spellings that the parser knows
_PRODUCT = re.compile(r"\*(?= |$)|[^ /*]*")  # `canonry` of `canonry/1.0`, of `canonry (+https://…)` and of `canonry*`


class RobotsVerdict(StrEnum):
    """Whether robots.txt lets a crawler read a URL."""

    ALLOWED = "allowed"
    DISALLOWED = "disallowed"
    UNREACHABLE = "unreachable"  # the rules could not be fetched, so nothing of the origin may be read


@dataclass(frozen=True, slots=True)
class Robots:
    """The robots.txt rules of one origin; `failure` says why they could not be fetched.

    `delay` is the pause between two pages that the site asks for, in seconds.
    """

    failure: PageFailure | None = None
    delay: float = 0.0
    sitemaps: tuple[str, ...] = ()
    origin: Origin = Origin.UNKNOWN  # of the sitemaps
    _rules: Protego | None = field(default=None, repr=False)
    _token: str = ""

    def judge(self, url: str) -> RobotsVerdict:
        """Return whether a URL of this origin may be read."""
        if self.failure is not None:
            return RobotsVerdict.UNREACHABLE
        if self._rules is None or self._rules.can_fetch(url, self._token):
            return RobotsVerdict.ALLOWED
        return RobotsVerdict.DISALLOWED

    def allows(self, url: str) -> bool:
        """Return whether the rules are known and allow a URL."""
        return self.judge(url) is RobotsVerdict.ALLOWED


def get_robots_token(user_agent: str) -> str:
    """Return the product token that robots.txt groups name: `canonry/1.0 (+https://…)` → `canonry`."""
    return user_agent.partition("/")[0].split(" ")[0] or "*"


def read_robots(text: str, token: str) -> Robots:
    """Parse a robots.txt and return the rules for the crawler with this product token."""
    rules = Protego.parse(_replace_other_agents(text, token))
    delay = _limit_delay(rules.crawl_delay(token) or 0.0)
    if rate := rules.request_rate(token):
        # Whole numbers: a site may write one that is too large for a float.
        seconds = min(rate.seconds, rate.requests * int(MAX_DELAY_SECONDS))
        delay = max(delay, _limit_delay(seconds / max(rate.requests, 1)))
    return Robots(None, delay, tuple(rules.sitemaps), _rules=rules, _token=token)


async def fetch_robots(site: str, fetch: Fetch, token: str, *, origin: Origin) -> Robots:
    """Fetch and parse the robots.txt of a site such as `https://example.com`, which `origin` named.

    Without a file (status 4xx) everything may be read; if the file cannot be fetched, nothing (RFC 9309 section 2.3.1).
    """
    try:
        response: Response = await fetch(f"{site}/robots.txt", origin=origin)
    except UnsafeUrl as error:
        return Robots(PageFailure(FailureKind.REFUSED, str(error)))  # the site is refused, not its robots.txt
    except InvalidUrl as error:
        return _fail(FailureKind.INVALID_URL, error.reason)
    except FetchFailed as error:
        return _fail(error.kind, error.reason)
    except OSError as error:  # a caller's own fetch may raise these
        return _fail(FailureKind.OTHER, type(error).__name__)
    if response.is_unavailable:
        return _fail(FailureKind.UNAVAILABLE, f"the server answered {response.status}")
    if not response.is_ok:
        return Robots()
    body = response.body
    if len(body) >= MAX_BYTES:  # the last line may be cut: `Disallow: /` of `Disallow: /private`
        body = body[: max(body.rfind(b"\n", 0, MAX_BYTES), body.rfind(b"\r", 0, MAX_BYTES)) + 1]
    rules = read_robots(body.decode("utf-8-sig", "replace"), token)
    return replace(rules, origin=response.origin)


def _limit_delay(seconds: float) -> float:
    """Return a delay that a site asks for, within our limits; 0 for one that is not a number."""
    return min(seconds, MAX_DELAY_SECONDS) if seconds > 0 else 0.0


def _replace_other_agents(text: str, token: str) -> str:
    """Give all crawlers but ours one name: the parser copies each rule for each crawler that a group names.

    A file of 500 KiB can name 10,000 crawlers before 10,000 rules. What follows the product token of ours, such as a
    version, is removed: the parser takes `canonry/1.0` for another name.
    """
    own, other = token.lower(), f"User-agent: not-{token}"

    def replace_line(line: str) -> str:
        found = _USER_AGENT.match(" ".join(line.partition("#")[0].split()).lower())
        if found is None:
            return line
        product = _PRODUCT.match(found[1])
        name = "" if product is None else product[0]
        return f"User-agent: {name}" if name == "*" or (name and name in own) else other

    return "\n".join(map(replace_line, text.splitlines()))


def _fail(kind: FailureKind, detail: str) -> Robots:
    return Robots(PageFailure(kind, f"robots.txt cannot be read: {detail}"))
