"""The HTTP client for every outgoing request; it connects only to addresses that the guard allows (contract G1–G4).

A name is resolved once, all its addresses are checked, and the connection goes to one of them. The socket
factory checks the address again, which covers URLs with a literal address. Every redirect is checked the same way.
"""

from __future__ import annotations

import asyncio
import socket
from base64 import b64encode
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Self, cast
from urllib.parse import unquote_to_bytes

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from canonry.errors import FailureKind, FetchFailed, UnsafeUrl, mask_credentials
from canonry.net.content_encoding import ACCEPT_ENCODING, DecodeError, make_decoder
from canonry.net.dns import MAX_ADDRESSES, Lookup, resolve_checked, resolve_name
from canonry.net.fetch_errors import classify_error
from canonry.net.guard import Guard, make_guard, parse_address
from canonry.net.http_exchange import Exchange
from canonry.net.response import REDIRECTS, Hop, Response, Validators, join_location
from canonry.net.tls import make_tls_context
from canonry.settings import Settings, load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aiohappyeyeballs import AddrInfoType
    from aiohttp.connector import Connection

    from canonry.core.url import Parts
    from canonry.net.guard import Network
    from canonry.net.http_exchange import Archive
    from canonry.net.origin import Origin

TIMEOUT_SECONDS = 10.0  # for one fetch, redirects included
MAX_BODY_BYTES = 10 * 1024 * 1024  # after decompression
MAX_REDIRECTS = 10
MAX_CONNECTIONS = 100
MAX_CONNECTIONS_PER_HOST = 8
_MAX_KEPT_ORIGINS = 100  # origins whose connections stay open for the next request
_KEEP_ALIVE_SECONDS = 15.0  # the default of aiohttp
_LIST_HEADERS = frozenset({"link", "x-robots-tag"})  # their fields are joined, as RFC 9110 (5.3) allows
_HEADERS = {
    "Accept": "application/atom+xml, application/rss+xml, application/feed+json, application/xml;q=0.9, */*;q=0.8",
    "Accept-Encoding": ACCEPT_ENCODING,
}


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How a fetch treats redirects and bodies.

    If `follows_redirect(url, target)` is false, the response is the redirect itself, the last of its hops. The body
    is read if `reads_body(content_type)` is true. A body over the limit is an error unless `truncates_body`. The extra
    `headers` go only to the origin of the first URL, because they may be secrets; `User-Agent` goes everywhere.
    """

    follows_redirect: Callable[[str, str], bool] = lambda _, __: True
    reads_body: Callable[[str], bool] = lambda _: True
    truncates_body: bool = False
    accept: str = ""  # an Accept header instead of the default, which prefers feeds
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    body: bytes | None = None  # of a POST
    archive: Archive | None = None  # keeps each request and its answer, redirects included


class Client:
    """A guarded HTTP client and async context manager; `client.fetch` is the default for every `fetch` argument."""

    def __init__(
        self,
        guard: Guard | None = None,
        *,
        settings: Settings | None = None,
        lookup: Lookup = resolve_name,
        timeout: float = TIMEOUT_SECONDS,
        max_bytes: int = MAX_BODY_BYTES,
        max_redirects: int = MAX_REDIRECTS,
    ) -> None:
        self._settings = load_settings() if settings is None else settings
        self.guard = make_guard(self._settings) if guard is None else guard
        if self._settings.proxy:
            self.guard = self.guard.use_proxy()
        self.lookup = lookup
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._max_redirects = max_redirects
        self._tls = make_tls_context(self._settings.ca_file)
        # A pool of connections for each set of allowed networks: what one guard allows, another may refuse.
        self._sessions: dict[tuple[tuple[Network, ...], bool], aiohttp.ClientSession] = {}
        self._kept_origins: dict[str, float] = {}  # the time of the last request by origin, the latest at the end

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        while self._sessions:
            _, session = self._sessions.popitem()
            await session.close()

    async def fetch(
        self,
        url: str,
        *,
        origin: Origin,
        method: str = "GET",
        validators: Validators | None = None,
        timeout: float | None = None,
        max_bytes: int | None = None,
        headers: Mapping[str, str] | None = None,
        options: FetchOptions | None = None,
    ) -> Response:
        """Return the response, of any status, after redirects.

        Raise UnsafeUrl if the guard refuses, FetchFailed if there is no response. `origin` says who named the URL:
        only a person, and servers in allowed networks, may name URLs in allowed networks. `headers` are those of
        `FetchOptions`.
        """
        options = options or FetchOptions()
        if headers:
            options = replace(options, headers=headers)
        seconds = self._timeout if timeout is None else timeout
        limit = self._max_bytes if max_bytes is None else max_bytes
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(url, method, validators or Validators(), origin, limit, options)
        except TimeoutError:
            raise FetchFailed(url, f"no complete response within {seconds:g} s", kind=FailureKind.TIMEOUT) from None

    async def request(self, url: str, *, origin: Origin, method: str = "GET", max_bytes: int | None = None) -> Response:
        """Return the response to one request; redirects are not followed, and a body over the limit is cut.

        No credentials are sent. There is no timeout: a caller that sends several requests sets one for all of them.
        """
        guard = self.guard.for_origin(origin)
        parts = guard.check_url(url)
        parts.userinfo = parts.fragment = None
        limit = self._max_bytes if max_bytes is None else max_bytes
        return await self._request(guard, parts, method, Validators(), limit, FetchOptions(truncates_body=True))

    async def _follow(
        self, url: str, method: str, validators: Validators, origin: Origin, limit: int, options: FetchOptions
    ) -> Response:
        guard = self.guard.for_origin(origin)
        parts = guard.check_url(url)
        parts.fragment = None
        site, userinfo = parts.get_origin(), parts.userinfo
        hops: list[Hop] = []
        foreign_options = replace(options, headers=_select_user_agent(options.headers)) if options.headers else options
        while True:
            sent_options = options if parts.get_origin() == site else foreign_options
            response = await self._request(guard, parts, method, validators, limit, sent_options)
            location = response.header("location") if response.status in REDIRECTS else ""
            if not location:
                return replace(response, hops=tuple(hops)) if hops else response
            guard = self.guard.for_origin(response.origin)
            target = _resolve_location(str(parts), location, guard)
            # Credentials go only to the origin of the URL that carried them.
            target.userinfo = userinfo if target.get_origin() == site else None
            hops.append(Hop(response.status, str(parts), str(target)))
            if any(hop.url == str(target) for hop in hops):
                reason = f"redirect loop, back to {mask_credentials(str(target))}"
                raise FetchFailed(url, reason, kind=FailureKind.REDIRECT_LOOP)
            if len(hops) > self._max_redirects:
                reason = f"more than {self._max_redirects} redirects"
                raise FetchFailed(url, reason, kind=FailureKind.TOO_MANY_REDIRECTS)
            if not options.follows_redirect(str(parts), str(target)):
                return Response(response.status, str(parts), response.headers, b"", tuple(hops), response.address)
            parts = target

    async def _request(
        self, guard: Guard, parts: Parts, method: str, validators: Validators, limit: int, options: FetchOptions
    ) -> Response:
        """Send one request; redirects are not followed."""
        wire_url = URL.build(
            scheme=parts.scheme,
            host=parts.host,
            port=int(parts.port) if parts.port else None,
            path=parts.path,
            query_string=parts.query or "",
            encoded=True,
        )
        headers: dict[str, str] = {"Accept": options.accept} if options.accept else {}
        headers |= options.headers
        if parts.userinfo is not None and not any(name.lower() == "authorization" for name in headers):
            user, _, password = parts.userinfo.partition(":")
            pair = unquote_to_bytes(user) + b":" + unquote_to_bytes(password)
            headers["Authorization"] = f"Basic {b64encode(pair).decode()}"
        if validators.etag:
            headers["If-None-Match"] = validators.etag
        if validators.last_modified:
            headers["If-Modified-Since"] = validators.last_modified
        url, began_at = str(parts), datetime.now(UTC)
        try:
            async with self._get_session(guard, keeps_alive=self._should_keep(parts.get_origin())).request(
                method,
                wire_url,
                data=options.body,
                headers=headers,
                allow_redirects=False,
                proxy=self._settings.proxy or None,
            ) as answer:
                is_redirect = answer.status in REDIRECTS and bool(answer.headers.get("Location"))
                is_read = not is_redirect and options.reads_body(answer.headers.get("Content-Type", ""))
                body = await _read_body(answer, url, limit, truncates=options.truncates_body) if is_read else b""
                address = _find_literal(parts.host) if self._settings.proxy else str(getattr(answer, "address", ""))
                received = {name.lower(): _clean_header(value) for name, value in answer.headers.items()}
                for name in _LIST_HEADERS & received.keys():
                    received[name] = ", ".join(map(_clean_header, answer.headers.getall(name)))
                if options.archive is not None:
                    is_cut = (not is_read and not is_redirect) or (options.truncates_body and len(body) == limit)
                    await options.archive.add(_make_exchange(answer, url, body, address, began_at, is_cut=is_cut))
                return Response(answer.status, url, MappingProxyType(received), body, (), address)
        except TimeoutError:
            raise
        except UnsafeUrl as error:
            note = "" if error.target == parts.host else f" ({parts.host} resolves to it)"
            advice = error.advice if guard.suggests_networks else ""
            failure: UnsafeUrl | FetchFailed = UnsafeUrl(url, error.reason + note, kind=error.kind, advice=advice)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            kind, reason = classify_error(error)
            failure = FetchFailed(url, reason, kind=kind)
        # Raised outside of the handlers, so that the traceback keeps no reference to the buffers of the connection.
        raise failure

    def _should_keep(self, origin: str) -> bool:
        """Return whether the connection stays open after the request; at most 100 origins keep theirs."""
        now = asyncio.get_running_loop().time()
        while self._kept_origins and next(iter(self._kept_origins.values())) < now - _KEEP_ALIVE_SECONDS:
            del self._kept_origins[next(iter(self._kept_origins))]
        if origin not in self._kept_origins and len(self._kept_origins) >= _MAX_KEPT_ORIGINS:
            return False
        self._kept_origins.pop(origin, None)
        self._kept_origins[origin] = now
        return True

    def _get_session(self, guard: Guard, *, keeps_alive: bool) -> aiohttp.ClientSession:
        session = self._sessions.get((guard.networks, keeps_alive))
        if session is None:
            session = self._sessions[guard.networks, keeps_alive] = aiohttp.ClientSession(
                connector=self._make_connector(guard, keeps_alive=keeps_alive),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={**_HEADERS, "User-Agent": self._settings.user_agent},
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                response_class=_AddressedResponse,
                auto_decompress=False,  # `content_encoding` limits the memory that a body may ask for
                trust_env=False,
            )
        return session

    def _make_connector(self, guard: Guard, *, keeps_alive: bool) -> aiohttp.TCPConnector:
        if self._settings.proxy:  # every connection goes to the operator's proxy, which resolves names
            return aiohttp.TCPConnector(limit=MAX_CONNECTIONS, force_close=not keeps_alive, ssl=self._tls)

        def make_checked_socket(info: AddrInfoType) -> socket.socket:  # pyright: ignore[reportUnknownParameterType]
            family, kind, protocol, _, sockaddr = cast("tuple[int, int, int, str, tuple[object, ...]]", info)
            guard.check_address(str(sockaddr[0]), port=int(str(sockaddr[1])))
            made = socket.socket(family, kind, protocol)
            made.setblocking(False)  # noqa: FBT003
            return made

        return aiohttp.TCPConnector(
            resolver=_CheckedResolver(guard, self.lookup),
            socket_factory=make_checked_socket,  # pyright: ignore[reportUnknownArgumentType]
            use_dns_cache=False,
            interleave=MAX_ADDRESSES,  # after a failure aiohttp drops as many addresses, so each is tried once
            limit=MAX_CONNECTIONS,
            limit_per_host=MAX_CONNECTIONS_PER_HOST,
            force_close=not keeps_alive,
            ssl=self._tls,
        )


class _CheckedResolver(AbstractResolver):
    """Resolve each name once and return only addresses that the guard allows."""

    def __init__(self, guard: Guard, lookup: Lookup) -> None:
        self._guard = guard
        self._lookup = lookup

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: int = 0,  # noqa: ARG002
    ) -> list[ResolveResult]:
        found = await resolve_checked(host, port, guard=self._guard, lookup=self._lookup)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=to_port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address, to_port in found
        ]

    async def close(self) -> None:
        """Do nothing: the resolver has no connections."""


class _AddressedResponse(aiohttp.ClientResponse):
    """A response that remembers the address that sent it."""

    address = ""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        if connection.transport is not None and (peer := connection.transport.get_extra_info("peername")):
            self.address = str(peer[0])
        return await super().start(connection)


def _select_user_agent(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() == "user-agent"}


async def _read_body(answer: aiohttp.ClientResponse, url: str, limit: int, *, truncates: bool) -> bytes:
    """Return the decompressed body; over the limit, cut it or raise FetchFailed."""
    encoding = ", ".join(answer.headers.getall("Content-Encoding", ())).strip().lower()
    decoder = make_decoder(encoding)
    if decoder is None:
        reason = f"the body is encoded as {encoding[:40]!r}, which was not requested"
        raise FetchFailed(url, reason, kind=FailureKind.ENCODING)
    too_large = f"the body is larger than {limit} bytes"
    if (answer.content_length or 0) > limit and answer.method != "HEAD" and not truncates:
        raise FetchFailed(url, too_large, kind=FailureKind.TOO_LARGE)
    body = bytearray()
    try:
        async for chunk in answer.content.iter_any():
            for piece in decoder.decode(chunk):
                body += piece
                if len(body) > limit:
                    if truncates:
                        return bytes(body[:limit])
                    raise FetchFailed(url, too_large, kind=FailureKind.TOO_LARGE)
        decoder.finish()
    except DecodeError:
        reason = "the body is not in the content encoding that the server named"
        raise FetchFailed(url, reason, kind=FailureKind.ENCODING) from None
    return bytes(body)


def _make_exchange(
    answer: aiohttp.ClientResponse, url: str, body: bytes, address: str, began_at: datetime, *, is_cut: bool
) -> Exchange:
    headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.raw_headers)
    sent = tuple(answer.request_info.headers.items())
    reason = answer.reason or ""
    return Exchange(url, answer.status, began_at, answer.method, reason, sent, headers, body, address, is_cut)


def _find_literal(host: str) -> str:
    """Return the address that a host is; empty for a name, whose address only the proxy knows."""
    address = parse_address(host)
    return "" if address is None else str(address)


def _clean_header(value: str) -> str:
    """Return a header as text that can be stored and sent again: bytes that are not UTF-8 are read as Latin-1."""
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode(errors="surrogateescape").decode("latin-1")
    return value


def _resolve_location(url: str, location: str, guard: Guard) -> Parts:
    """Return the parts of the URL in a Location header, without the user and password it may name."""
    target = join_location(url, location)
    try:
        parts = guard.check_url(target)
    except UnsafeUrl as error:
        reason = f"{error.reason} ({mask_credentials(url)} redirects to it)"
        raise UnsafeUrl(error.target, reason, kind=error.kind, advice=error.advice) from None
    parts.userinfo = parts.fragment = None
    return parts
