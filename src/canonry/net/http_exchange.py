"""Requests and their answers as archives keep them: without credentials."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from canonry.net.response import drop_userinfo

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from canonry.net.response import Fetch, Response

Headers = tuple[tuple[str, str], ...]
# Headers that give access to a site, also those with which a server hands out a session.
_SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie", "set-cookie2"})


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer. The body is decoded; `is_cut` says that only its beginning was read.

    `request_headers` is None if the request is not known. `address` is the IP address of the server, if it is known.
    """

    url: str
    status: int
    began_at: datetime
    method: str = "GET"
    reason: str = ""
    request_headers: Headers | None = None
    headers: Headers = ()
    body: bytes = b""
    address: str = ""
    is_cut: bool = False

    def remove_credentials(self, secret_headers: Collection[str] = ()) -> Exchange:
        """Return the exchange without user and password in its URL, and without headers that give access.

        `secret_headers` are the names of further headers, in lower case.
        """
        secret = _SECRET_HEADERS.union(secret_headers)
        request_headers = None if self.request_headers is None else _keep(self.request_headers, secret)
        return Exchange(
            drop_userinfo(self.url),
            self.status,
            self.began_at,
            self.method,
            self.reason,
            request_headers,
            _keep(self.headers, secret),
            self.body,
            self.address,
            self.is_cut,
        )


class Archive(Protocol):
    """Keeps exchanges; what `add` was awaited for is kept even if the process is killed."""

    async def add(self, exchange: Exchange) -> None: ...


def add_archive(fetch: Fetch, archive: Archive) -> Fetch:
    """Return a caller's own fetch function that also archives its responses; the requests are not known."""

    async def fetch_and_archive(url: str, **options: Any) -> Response:
        began_at = datetime.now(UTC)
        response = await fetch(url, **options)
        headers = tuple(response.headers.items())
        exchange = Exchange(
            response.url, response.status, began_at, headers=headers, body=response.body, address=response.address
        )
        await archive.add(exchange)
        return response

    return fetch_and_archive


def _keep(headers: Iterable[tuple[str, str]], secret: Collection[str]) -> Headers:
    return tuple((name, value) for name, value in headers if name.lower() not in secret)
