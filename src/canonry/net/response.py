"""The response of a fetch, either canonry's own or one that a caller passes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from canonry.core.url import join, parse
from canonry.errors import FailureKind, FetchFailed, InvalidUrl
from canonry.net.origin import Origin

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

PERMANENT_REDIRECTS = frozenset({301, 308})
REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Hop:
    """A redirect: `url` answered with `status` and led to `location` (absolute)."""

    status: int
    url: str
    location: str


@dataclass(frozen=True, slots=True)
class Validators:
    """The validators of a response, for a conditional request (RFC 9110, 13.1)."""

    etag: str = ""
    last_modified: str = ""

    def __bool__(self) -> bool:
        return bool(self.etag or self.last_modified)


NO_VALIDATORS = Validators()


@dataclass(frozen=True, slots=True)
class Response:
    """A response: `url` is where the body came from, `hops` the redirects before it.

    `address` is the IP address of the server, if the fetch knows it.
    """

    status: int
    url: str
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    body: bytes = b""
    hops: tuple[Hop, ...] = ()
    address: str = ""

    @property
    def origin(self) -> Origin:
        """The origin of the URLs that this response names."""
        return Origin.from_server(self.address or find_host(self.url))

    @property
    def is_ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_unavailable(self) -> bool:
        """Whether the status says that the server may answer later: 429 or 5xx."""
        return is_unavailable_status(self.status)

    @property
    def is_not_modified(self) -> bool:
        return self.status == 304

    @property
    def is_downgraded(self) -> bool:
        """Whether one of the redirects went from https to http."""
        return any(hop.url.startswith("https:") and hop.location.startswith("http:") for hop in self.hops)

    @property
    def permanent_url(self) -> str:
        """The target of the leading permanent redirects: where the resource has moved (contract F3)."""
        for hop in self.hops:
            if hop.status not in PERMANENT_REDIRECTS:
                return hop.url
        return self.url

    @property
    def validators(self) -> Validators:
        return Validators(self.header("etag"), self.header("last-modified"))

    def header(self, name: str) -> str:
        """Return a header by its name in any case; empty if there is none."""
        if (value := self.headers.get(name)) is not None:
            return value
        return next((value for key, value in self.headers.items() if key.lower() == name.lower()), "")

    def retry_after(self, now: datetime) -> float | None:
        """Return the seconds that the server asks to wait, from a number or a date; None if it does not ask."""
        text = self.header("retry-after").strip()
        if text.isascii() and text.isdecimal():
            return float(text[:9])
        try:
            then = parsedate_to_datetime(text)
            return max(0.0, (then - now).total_seconds())
        except (TypeError, ValueError, OverflowError):
            return None


def join_location(url: str, location: str) -> str:
    """Return the URL that a redirect of `url` leads to; FetchFailed if its location is not valid."""
    if re.search(r"[\x00-\x1f\x7f]", location):
        raise FetchFailed(url, "redirects to a URL with control characters", kind=FailureKind.BAD_REDIRECT)
    try:
        return join(url, location)
    except InvalidUrl:
        raise FetchFailed(url, "redirects to an invalid URL", kind=FailureKind.BAD_REDIRECT) from None


def is_unavailable_status(status: int) -> bool:
    """Return whether a status says that the server may answer later: 429 or 5xx."""
    return status == 429 or status >= 500


def find_host(url: str) -> str:
    """Return the host of a URL, an IPv6 address without brackets; empty if the URL is invalid."""
    try:
        return parse(url).host.strip("[]")
    except InvalidUrl:
        return ""


def drop_userinfo(url: str) -> str:
    """Return a URL without user name and password; one that is invalid as it is."""
    if "@" not in url:
        return url
    try:
        parts = parse(url)
    except InvalidUrl:
        return url
    parts.userinfo = None
    return str(parts)


# A function that fetches a URL: `async (url, **options) -> Response`. It follows redirects, returns a response of any
# status, and raises FetchFailed if there is none. Options: `origin` says who named the URL, `validators` makes the
# request conditional, and `headers`, `timeout` and `max_bytes` are for feeds with settings of their own.
Fetch: TypeAlias = "Callable[..., Awaitable[Response]]"
