"""Limit what a connection may cost: size and time of a request head, slow bodies, and the number of connections.

uvicorn with httptools limits none of these. The protocol below is uvicorn's, with limits; a request that arrives in
one piece, as nearly all do, sets no timer.
"""

from __future__ import annotations

import resource
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from itertools import chain
from typing import TYPE_CHECKING, Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from canonry.server.peers import TrustedProxies, is_loopback, name_customer

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from uvicorn.config import Config
    from uvicorn.server import ServerState

_OTHER_FILES = 128  # descriptors that the store, its readers and outgoing requests need
_MAX_REFUSED = 64  # connections beyond the limit that are answered with status 503 before they are closed
_MIN_CONNECTIONS = 16
_RETRY_AFTER_SECONDS = 5


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one process; times are in seconds."""

    head_bytes: int = 64 * 1024
    head_fields: int = 100
    head_seconds: float = 10.0  # from the first byte, or from the start of a connection
    body_interval: float = 10.0  # in which a body must grow by `body_bytes`, while the service reads it
    body_bytes: int = 5_000
    write_seconds: float = 60.0  # for a client to take what was sent to it
    keep_alive_seconds: int = 5  # between two requests
    discard_bytes: int = 64 * 1024 * 1024  # of a body whose request was answered already
    discard_seconds: float = 10.0
    refused_bytes: int = 1024 * 1024  # read after a refusal, so that the client gets to see it
    refused_seconds: float = 1.0
    pipeline: int = 32  # requests that wait for the response to an earlier one
    connections: int = 1000
    connections_per_peer: int = 250  # from one address other than loopback and proxies


DEFAULT_LIMITS = ConnectionLimits()


class _HeadTooLarge(Exception):
    """Raised in a callback of the parser, to stop it."""


class _PipelineFull(Exception):
    """Raised in a callback of the parser, to stop it."""


class Admission(StrEnum):
    """The treatment of a new connection."""

    ADMITTED = "admitted"
    REFUSED = "refused"  # with status 503
    DROPPED = "dropped"  # without an answer, because too many are being refused


@dataclass(slots=True)
class ConnectionTable:
    """The connections of a process."""

    limits: ConnectionLimits
    proxies: TrustedProxies
    all: set[LimitedProtocol] = field(default_factory=set["LimitedProtocol"])
    # Without a request, the one that has waited longest first; a dict keeps the order.
    idle: dict[LimitedProtocol, None] = field(default_factory=dict["LimitedProtocol", None])
    # With a body that is not complete after `body_interval`, the longest first.
    slow: dict[LimitedProtocol, None] = field(default_factory=dict["LimitedProtocol", None])
    by_peer: Counter[str] = field(default_factory=Counter[str])

    def name_peer(self, address: str) -> str:
        """Return the name under which a peer is counted; empty for loopback and proxies, which many clients share."""
        return "" if not address or is_loopback(address) or self.proxies.trusts(address) else name_customer(address)

    def admit(self, connection: LimitedProtocol, peer: str) -> Admission:
        """Add a connection, if necessary in place of the one that has been idle longest, or else of a slow one."""
        if peer and self.by_peer[peer] >= self.limits.connections_per_peer:
            self._close_idle(peer)
        elif len(self.all) >= self.limits.connections:
            self._close_idle()
        self.all.add(connection)
        self.idle[connection] = None
        if peer:
            self.by_peer[peer] += 1
        if len(self.all) > self.limits.connections + _MAX_REFUSED or (
            peer and self.by_peer[peer] > self.limits.connections_per_peer + _MAX_REFUSED
        ):
            return Admission.DROPPED
        if len(self.all) > self.limits.connections or (peer and self.by_peer[peer] > self.limits.connections_per_peer):
            return Admission.REFUSED
        return Admission.ADMITTED

    def remove(self, connection: LimitedProtocol, peer: str) -> None:
        """Forget a connection; does nothing if it was removed before."""
        if connection not in self.all:
            return
        self.all.discard(connection)
        self.idle.pop(connection, None)
        self.slow.pop(connection, None)
        if peer:
            self.by_peer[peer] -= 1
            if not self.by_peer[peer]:
                del self.by_peer[peer]

    def _close_idle(self, peer: str = "") -> None:
        """Abort the connection that has been idle or slow for longest, of this peer if one is given."""
        oldest = next((each for each in chain(self.idle, self.slow) if not peer or each.peer == peer), None)
        if oldest is not None:
            oldest.abort()


class LimitedProtocol(HttpToolsProtocol):
    """The protocol of uvicorn for one connection, with our limits."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        table: ConnectionTable,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.peer = ""
        self._table = table
        self._limits = table.limits
        self._timer: asyncio.TimerHandle | None = None  # of the head, the body, or of discarding
        self._write_timer: asyncio.TimerHandle | None = None
        self._has_request = False  # a request has arrived; `cycle` is the latest
        self._is_complete = True  # the latest request has arrived with its body; further bytes belong to the next head
        self._is_refused = False  # the connection ends; further bytes are discarded
        self._head_bytes = self._head_fields = 0
        self._quiet_bytes = 0  # received since the parser last called back with something complete
        self._progress = 0  # counts the callbacks of the parser
        self._body_bytes = 0
        self._discarded_bytes = 0

    # The connection.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.peer = self._table.name_peer(self.client[0] if self.client else "")
        match self._table.admit(self, self.peer):
            case Admission.ADMITTED:
                self._start_timer(self._limits.head_seconds, self._end_head)
            case Admission.REFUSED:
                self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)
            case Admission.DROPPED:
                self._is_refused = True
                self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.remove(self, self.peer)
        self._stop_timer()
        self._stop_write_timer()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close the connection at once, and forget it before the event loop reports its end."""
        self._table.remove(self, self.peer)
        self._stop_timer()
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            self._discard(len(data), self._limits.refused_bytes)
            return
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        if self.parser is None:  # pyright: ignore[reportUnnecessaryComparison]
            return  # the connection was lost
        self._quiet_bytes += len(data)
        before = self._progress
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # No protocol is offered. The request is answered like any other; what follows it is not HTTP.
            self.cycle.keep_alive = False
        except httptools.HttpParserError as error:
            self._refuse(_choose_status(error))
            return
        if self._progress != before:
            self._quiet_bytes = 0
        elif self._quiet_bytes > self._limits.head_bytes:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return
        self._watch(len(data))

    def _watch(self, received: int) -> None:
        """Start the timer for an incomplete head or body, or discard a body that nobody reads."""
        is_answered = not self._has_request or self.cycle.response_complete
        if self._is_complete:
            if is_answered and self._quiet_bytes and self._timer is None:
                self._start_timer(self._limits.head_seconds, self._end_head)
        elif is_answered:
            self._discard(received, self._limits.discard_bytes)
        elif self._timer is None:
            self._start_timer(self._limits.body_interval, partial(self._check_body, self._body_bytes))

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        self._head_bytes = self._head_fields = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._head_bytes += len(url)
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value) + 4
        self._head_fields += 1
        if self._head_bytes > self._limits.head_bytes or self._head_fields > self._limits.head_fields:
            raise _HeadTooLarge
        if self._is_complete:  # else the field follows the body; no route reads such fields, and none may add one
            HttpToolsProtocol.on_header(self, name, value)

    def on_headers_complete(self) -> None:
        if self._head_bytes > self._limits.head_bytes:  # the URL alone
            raise _HeadTooLarge
        if len(self.pipeline) >= self._limits.pipeline:
            raise _PipelineFull
        super().on_headers_complete()
        self._has_request = True
        self._is_complete = False
        self._progress += 1
        self._body_bytes = self._discarded_bytes = 0
        self._stop_timer()
        self._table.idle.pop(self, None)

    def on_body(self, body: bytes) -> None:
        self._progress += 1
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._progress += 1
        self._quiet_bytes = 0
        self._is_complete = True
        self._table.slow.pop(self, None)
        self._stop_timer()
        super().on_message_complete()
        if self.cycle.response_complete:  # answered before its body was complete
            self._start_keep_alive()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._start_timer(self._limits.write_seconds, self.abort)  # closing waits until the client has read
        elif self.cycle.response_complete:  # else a request of the pipeline was started
            if self._is_complete:
                self._start_keep_alive()
            else:
                self._unset_keepalive_if_required()
                self._start_timer(self._limits.discard_seconds, self.abort)

    def _start_keep_alive(self) -> None:
        """Wait for the next request, or for the rest of its head."""
        if self in self._table.all:
            self._table.idle[self] = None
        if self._quiet_bytes:
            self._unset_keepalive_if_required()
            self._start_timer(self._limits.head_seconds, self._end_head)
        elif self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def timeout_keep_alive_handler(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
            self._start_timer(self._limits.write_seconds, self.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_write_timer()
        self._write_timer = self.loop.call_later(self._limits.write_seconds, self.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_write_timer()

    # Ends.

    def _end_head(self) -> None:
        """The head took too long."""
        self._timer = None
        if self._quiet_bytes:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        else:
            self.abort()  # nothing was asked, so nothing is answered

    def _check_body(self, before: int) -> None:
        """Refuse the request if its body grew too slowly, unless the client waits for the service."""
        self._timer = None
        is_waiting = self.flow.read_paused or self.cycle.waiting_for_100_continue
        if is_waiting or self._body_bytes - before >= self._limits.body_bytes:
            if not is_waiting and self in self._table.all:
                self._table.slow[self] = None
            self._start_timer(self._limits.body_interval, partial(self._check_body, self._body_bytes))
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def _refuse(self, status: HTTPStatus) -> None:
        """End the connection, with this status unless earlier requests are being answered: then after them."""
        self._is_refused = True
        self._discarded_bytes = 0
        cycle = self.cycle
        if self._has_request and not cycle.response_complete:
            if self._is_complete:
                cycle.keep_alive = False
                return
            if self.pipeline or cycle.response_started:
                self.abort()
                return
            cycle.disconnected = True  # the route that reads the body gets no more of it
            cycle.message_event.set()
        self._table.idle.pop(self, None)
        self._unset_keepalive_if_required()
        self._start_timer(self._limits.refused_seconds, self.abort)
        self.transport.write(_make_response(status))
        with suppress(NotImplementedError, OSError):
            self.transport.write_eof()
        self.flow.resume_reading()

    def _discard(self, received: int, limit: int) -> None:
        """Count what is read and not used: closing at once would reset the connection before the client reads."""
        self._discarded_bytes += received
        if self._discarded_bytes > limit:
            self.abort()

    def _start_timer(self, seconds: float, action: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, action)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None


def make_protocol(limits: ConnectionLimits, trusted_proxies: Sequence[str] = ()) -> Callable[..., LimitedProtocol]:
    """Return what makes the protocol of each connection of a server."""
    return partial(LimitedProtocol, table=ConnectionTable(limits, TrustedProxies(trusted_proxies)))


def fit_connections(limits: ConnectionLimits) -> ConnectionLimits:
    """Raise the limit of open files of this process if possible; return limits with the connections it allows."""
    wanted = limits.connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return limits
    return replace(limits, connections=max(_MIN_CONNECTIONS, soft - _OTHER_FILES))


def _choose_status(error: httptools.HttpParserError) -> HTTPStatus:
    match error.__context__:
        case _HeadTooLarge():
            return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        case _PipelineFull():
            return HTTPStatus.SERVICE_UNAVAILABLE
        case _:
            return HTTPStatus.BAD_REQUEST


def _make_response(status: HTTPStatus) -> bytes:
    body = status.phrase.encode()
    retry = f"retry-after: {_RETRY_AFTER_SECONDS}\r\n" if status is HTTPStatus.SERVICE_UNAVAILABLE else ""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n{retry}content-type: text/plain; charset=utf-8\r\n"
        f"cache-control: no-store\r\nx-content-type-options: nosniff\r\ncontent-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode() + body
