"""The heads of HTTP requests and responses that pass through the proxy."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

import h11

from canonry.errors import FailureKind
from canonry.net.engine import PageFailure

if TYPE_CHECKING:
    from collections.abc import Mapping

# Headers for one connection only (RFC 9110, 7.6.1), or for this proxy. They are not forwarded.
_DROPPED_HEADERS = frozenset(
    {b"connection", b"keep-alive", b"proxy-authorization", b"proxy-connection", b"te", b"trailer"}
)
# Marks the responses that the proxy makes itself. The value is its token, which no server knows.
PROXY_HEADER = "Canonry-Proxy"


class DirectResponse(Exception):
    """Ends a request with a response of the proxy itself; `failure` says why it was not forwarded."""

    def __init__(self, status: HTTPStatus, failure: PageFailure | None = None, header: str = "") -> None:
        super().__init__(status, failure)
        self.status = status
        self.failure = failure
        self.header = header


class InvalidHead(Exception):
    """The head of a response cannot be read."""


class HeadTooLarge(Exception):
    """The head of a request or response has more bytes than the limit."""


class RequestHeader(NamedTuple):
    """A header of a request, with its name in lower case and as it was sent."""

    name: bytes
    sent_name: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """The head of a request, as checked by h11."""

    method: str
    target: str
    headers: tuple[RequestHeader, ...]

    @property
    def is_tunnel(self) -> bool:
        return self.method == "CONNECT"

    @property
    def url(self) -> str:
        return f"https://{self.target}/" if self.is_tunnel else self.target

    @property
    def is_upgrade(self) -> bool:
        return any(word.strip().lower() == "upgrade" for word in self.get_header("connection").split(","))

    def get_header(self, name: str) -> str:
        """Return the values of a header, joined with commas; empty if there is none."""
        wanted = name.encode()
        return ", ".join(header.value.decode("latin-1") for header in self.headers if header.name == wanted)


def has_proxy_token(headers: Mapping[str, str], token: str) -> bool:
    """Return whether the headers of a response are those of a response that the proxy with this token has made."""
    return any(name.lower() == PROXY_HEADER.lower() and value == token for name, value in headers.items())


async def read_head(reader: asyncio.StreamReader) -> bytes:
    """Read up to the empty line after the headers; the limit is the reader's, and the body stays in the reader."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise HeadTooLarge from None


async def read_request(reader: asyncio.StreamReader) -> ProxyRequest | None:
    """Read the head of a request; return None if the browser closed the connection, raise DirectResponse if invalid."""
    try:
        head = await read_head(reader)
    except asyncio.IncompleteReadError:
        return None
    except HeadTooLarge:
        failure = PageFailure(FailureKind.NOT_LOADED, "The headers of the request are too large")
        raise DirectResponse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, failure) from None
    connection = h11.Connection(h11.SERVER)
    try:
        connection.receive_data(head)
        event = connection.next_event()
    except h11.RemoteProtocolError as error:
        raise _make_bad_request(str(error)) from None
    # h11 takes a lone LF for the end of a line (RFC 9112, 2.2). Servers differ in that, so such a head is refused.
    has_lone_lf = b"\n" in head.replace(b"\r\n", b"")
    if not isinstance(event, h11.Request) or event.http_version != b"1.1" or has_lone_lf:
        raise _make_bad_request("it is not an HTTP/1.1 request")
    headers = tuple(
        RequestHeader(name, sent_name, value)
        for (name, value), (sent_name, _) in zip(event.headers, event.headers.raw_items(), strict=True)
    )
    return ProxyRequest(event.method.decode(), event.target.decode(), headers)


def _make_bad_request(reason: str) -> DirectResponse:
    failure = PageFailure(FailureKind.NOT_LOADED, f"The request is invalid: {reason}")
    return DirectResponse(HTTPStatus.BAD_REQUEST, failure)


def parse_body_length(request: ProxyRequest) -> int:
    """Return `Content-Length`, which h11 has checked; chunked bodies are not forwarded."""
    if request.get_header("transfer-encoding"):
        failure = PageFailure(FailureKind.NOT_LOADED, "The request has a body of unknown length")
        raise DirectResponse(HTTPStatus.LENGTH_REQUIRED, failure)
    return int(request.get_header("content-length") or "0")


def make_forwarded_head(request: ProxyRequest, upstream_headers: list[tuple[bytes, bytes]] | None) -> bytes:
    """Return the head for the server, or for the operator's proxy, which takes absolute targets."""
    target = request.target
    if upstream_headers is None:
        path = re.sub(r"^http://[^/?#]*", "", target, flags=re.IGNORECASE)
        target = path if path.startswith("/") else f"/{path}"
    headers = [(each.sent_name, each.value) for each in request.headers if each.name not in _DROPPED_HEADERS]
    headers += [*(upstream_headers or ()), (b"Connection", b"Upgrade" if request.is_upgrade else b"close")]
    return make_request_head(request.method, target, headers)


def make_request_head(method: str, target: str, headers: list[tuple[bytes, bytes]]) -> bytes:
    head = h11.Connection(h11.CLIENT).send(h11.Request(method=method, target=target, headers=headers))
    assert head is not None
    return head


# The heads of responses are not read with h11: it refuses what browsers accept and servers send (a space in the name
# of a header, a line without a colon, two different lengths). One response ends each connection, so nothing can be
# smuggled after it, and Chrome gets the bytes unchanged.


def parse_status(head: bytes) -> int:
    match = re.match(rb"HTTP/1\.[01] ([1-9]\d\d)\b", head)
    if match is None:
        raise InvalidHead
    return int(match[1])


def replace_connection_header(head: bytes) -> bytes:
    """Return a response head with `Connection: close`: the proxy must see the browser's next request."""
    first, *lines = head[:-4].split(b"\r\n")
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in {b"connection", b"keep-alive"}]
    return b"\r\n".join([first, *kept, b"Connection: close", b"", b""])
