"""Limits of connections: heads, bodies, silent and greedy clients, over real sockets (contract O)."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from canonry.server.connections import Admission, ConnectionLimits, ConnectionTable, fit_connections
from canonry.server.peers import TrustedProxies
from canonry.server.service import ServiceOptions
from service import Running, serving, until

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

LIMITS = ConnectionLimits(
    head_seconds=1.0,
    body_interval=1.0,
    body_bytes=1000,
    write_seconds=1.0,
    keep_alive_seconds=3,
    discard_bytes=4 * 1024 * 1024,
    discard_seconds=1.0,
    connections=20,
)
HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
PUT = b"PUT /api/bookmarks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
PATIENCE_SECONDS = 60.0
_NEVER = 2 * PATIENCE_SECONDS
# For requests that must not be refused because a busy machine delays them; the keep-alive time ends each test.
PATIENT_LIMITS = replace(
    LIMITS, head_seconds=_NEVER, body_interval=_NEVER, write_seconds=_NEVER, discard_seconds=5.0, keep_alive_seconds=2
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    database = f"sqlite:///{tmp_path_factory.mktemp('connections') / 'x.db'}"
    with serving(database, ServiceOptions(runs_jobs=False), limits=LIMITS) as running:
        yield running


@pytest.fixture(scope="module")
def patient_service(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    database = f"sqlite:///{tmp_path_factory.mktemp('patient') / 'x.db'}"
    with serving(database, ServiceOptions(runs_jobs=False), limits=PATIENT_LIMITS) as running:
        yield running


@contextmanager
def connect(service: Running) -> Generator[socket.socket]:
    with socket.create_connection(("127.0.0.1", service.port), PATIENCE_SECONDS) as connection:
        yield connection


def send(connection: socket.socket, *parts: bytes) -> None:
    """Send until the service closes the connection."""
    try:
        for part in parts:
            connection.sendall(part)
    except (BrokenPipeError, ConnectionResetError):
        pass


def receive(connection: socket.socket) -> bytes:
    """Everything until the service closes the connection."""
    received = bytearray()
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return bytes(received)


def read_statuses(received: bytes) -> list[int]:
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]


REFUSED = [
    # what                         what is sent                                                              status
    ("a long field", [HEAD, b"X: " + b"a" * 70_000 + b"\r\n\r\n"], 431),
    ("a long field without an end", [HEAD, b"X: ", b"a" * 400_000], 431),
    ("a long name without an end", [HEAD, b"a" * 400_000], 431),
    ("a long URL", [b"GET /", b"a" * 70_000, b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"], 431),
    ("a URL without an end", [b"GET /", b"a" * 400_000], 431),
    ("many fields", [HEAD, b"a: b\r\n" * 200, b"\r\n"], 431),
    ("empty lines first", [b"\r\n" * 200_000], 431),
    (
        "long fields after the body",
        [PUT, b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"X: " + b"a" * 400_000],
        431,
    ),
    ("a long chunk extension", [PUT, b"Transfer-Encoding: chunked\r\n\r\n2;", b"a" * 400_000], 431),
    ("no HTTP", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"], 400),
    ("two lengths", [PUT, b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"], 400),
    ("a length and chunks", [PUT, b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"], 400),
    ("a tunnel", [b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"], 400),
    ("half a head", [HEAD, b"X: "], 408),
    ("half a body", [PUT, b"Content-Length: 100\r\n\r\n", b"{"], 408),
    ("half a chunk", [PUT, b"Transfer-Encoding: chunked\r\n\r\n50\r\n", b"{"], 408),
    ("a long body", [PUT, b"Content-Length: 2000000\r\n\r\n", b" " * 2_000_000], 413),
    ("long chunks", [PUT, b"Transfer-Encoding: chunked\r\n\r\n", (b"186a0\r\n" + b" " * 100_000 + b"\r\n") * 20], 413),
    ("a body without an end", [PUT, b"Transfer-Encoding: chunked\r\n\r\n", *[b"186a0\r\n" + b" " * 100_000 + b"\r\n"] * 1000], 413),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "status"), [pytest.param(*row[1:], id=row[0]) for row in REFUSED])
def test_a_request_beyond_a_limit_is_refused_and_closed(
    service: Running, patient_service: Running, parts: list[bytes], status: int
) -> None:
    running = service if status == 408 else patient_service
    with connect(running) as connection:
        send(connection, *parts)
        assert read_statuses(receive(connection)) == [status]
    assert running.get("/healthz").status == 200


ACCEPTED = [
    # what                         what is sent                                                        statuses
    ("a head of many parts", [HEAD[:5], HEAD[5:], b"X: ", b"a" * 60_000, b"\r\n\r\n"], [200]),
    ("two at once", [HEAD + b"\r\n" + HEAD + b"\r\n"], [200, 200]),
    ("two, cut anywhere", [HEAD + b"\r\n" + HEAD[:9], HEAD[9:] + b"\r\n"], [200, 200]),
    ("thirty at once", [(HEAD + b"\r\n") * 30], [200] * 30),
    ("a body of many parts", [PUT + b"Content-Length: 13\r\n\r\n", b'{"url"', b': ""}  '], [400]),
    ("garbage after a request", [HEAD + b"\r\n" + b"\x00\x01"], [200]),
    ("an upgrade", [HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"], [200]),
    ("a socket", [HEAD + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n\r\n"], [200]),
    ("a field after the body", [PUT + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: y\r\n\r\n"], [400]),
]


@pytest.mark.parametrize(("parts", "statuses"), [pytest.param(*row[1:], id=row[0]) for row in ACCEPTED])
def test_a_request_within_the_limits_is_answered(
    patient_service: Running, parts: list[bytes], statuses: list[int]
) -> None:
    with connect(patient_service) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        send(connection, *parts)
        assert read_statuses(receive(connection)) == statuses  # received until the keep-alive time is over


def test_a_field_after_the_body_does_not_become_a_field_of_the_request(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path / 'x.db'}", ServiceOptions(runs_jobs=False, require_token=True)) as running:
        head = PUT + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\n"
        with connect(running) as connection:
            send(connection, head + b"X-Request-ID: smuggled\r\n\r\n")
            received = receive(connection)
    assert read_statuses(received) == [401] and b"smuggled" not in received


def test_too_many_pipelined_requests_end_the_connection(service: Running) -> None:
    with connect(service) as connection:
        send(connection, *[(HEAD + b"\r\n") * 5000] * 4)
        answered = read_statuses(receive(connection))
        # The end of a connection with unread requests resets it, which may overtake the last answers.
        assert set(answered) <= {200} and len(answered) < 5000
    assert service.get("/healthz").status == 200


def test_a_slow_second_head_does_not_end_the_request_before_it(service: Running) -> None:
    with connect(service) as connection:
        send(connection, HEAD + b"\r\n")
        until(lambda: connection.recv(1, socket.MSG_PEEK))
        send(connection, HEAD)
        assert read_statuses(receive(connection)) == [200, 408]


def test_an_idle_connection_is_closed_without_an_answer(service: Running) -> None:
    with connect(service) as connection:
        assert receive(connection) == b""


def test_a_byte_now_and_then_does_not_keep_a_head_open(tmp_path: Path) -> None:
    limits = replace(LIMITS, refused_seconds=PATIENCE_SECONDS)  # else a reset may overtake the answer
    database = f"sqlite:///{tmp_path / 'x.db'}"
    with serving(database, ServiceOptions(runs_jobs=False), limits=limits) as running, connect(running) as connection:
        connection.settimeout(0.1)
        send(connection, HEAD)
        deadline = time.monotonic() + PATIENCE_SECONDS
        received = b""
        while not received:
            assert time.monotonic() < deadline, "the head was never refused"
            send(connection, b"a")
            try:
                received = connection.recv(1000)
            except TimeoutError:
                continue
        assert read_statuses(received) == [408]


def test_a_client_that_does_not_read_loses_its_connection(service: Running) -> None:
    for number in range(40):
        service.put(f"https://example.com/{number}", description="x" * 20_000)
    with connect(service) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        send(connection, b"GET /api/bookmarks?limit=100 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 20)
        until(lambda: not service.service.is_open or _is_closed(connection))


def _is_closed(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"\r\n")
    except OSError:
        return True
    return False


def test_silent_connections_do_not_keep_others_out(service: Running) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(connect(service)) for _ in range(100)]
        started = time.monotonic()
        assert service.get("/healthz").status == 200
        assert time.monotonic() - started < PATIENCE_SECONDS / 2
        half = [stack.enter_context(connect(service)) for _ in range(100)]
        for connection in half:
            send(connection, HEAD)
        assert service.get("/healthz").status == 200
        assert receive(silent[0]) == b""  # the one that was idle longest made room


def test_connections_beyond_the_limit_get_a_503(tmp_path: Path) -> None:
    """All are busy with a request, so none can make room."""
    limits = replace(LIMITS, connections=5, body_interval=PATIENCE_SECONDS)
    database = f"sqlite:///{tmp_path / 'x.db'}"
    with serving(database, ServiceOptions(runs_jobs=False), limits=limits) as service, ExitStack() as stack:
        busy = [stack.enter_context(connect(service)) for _ in range(5)]
        for connection in busy:
            send(connection, PUT, b"Content-Length: 10\r\n\r\n")

        def is_full() -> bool:
            with connect(service) as another:
                return read_statuses(receive(another)) == [503]

        until(is_full)
        for connection in busy:
            connection.close()
        until(lambda: service.get("/healthz").status == 200)


class _Peer:
    """A connection as the table sees it."""

    def __init__(self, table: ConnectionTable, peer: str) -> None:
        self.table = table
        self.peer = peer
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True
        self.table.remove(self, self.peer)  # type: ignore[arg-type]


def test_one_address_cannot_take_all_connections() -> None:
    table = ConnectionTable(ConnectionLimits(connections=10, connections_per_peer=3), TrustedProxies(()))
    greedy = [_Peer(table, "192.0.2.1") for _ in range(5)]
    other = _Peer(table, "192.0.2.2")
    assert table.admit(other, other.peer) is Admission.ADMITTED  # type: ignore[arg-type]
    for each in greedy:
        assert table.admit(each, each.peer) is Admission.ADMITTED  # type: ignore[arg-type]
    assert [each.is_aborted for each in greedy] == [True, True, False, False, False]
    assert not other.is_aborted
    table.idle.clear()  # all have a request
    late = _Peer(table, "192.0.2.1")
    assert table.admit(late, late.peer) is Admission.REFUSED  # type: ignore[arg-type]
    for each in (*greedy, other, late):
        each.abort()
        each.abort()
    assert not table.all and not table.by_peer and not table.idle


def test_slow_bodies_make_room_after_idle_connections() -> None:
    table = ConnectionTable(ConnectionLimits(connections=3), TrustedProxies(()))
    slow, idle, busy, first, second, third = (_Peer(table, "") for _ in range(6))
    for each in (slow, idle, busy):
        table.admit(each, "")  # type: ignore[arg-type]
    table.idle = {idle: None}  # type: ignore[dict-item]
    table.slow = {slow: None}  # type: ignore[dict-item]
    admissions = list[Admission]()
    for each in (first, second, third):
        admissions.append(table.admit(each, ""))  # type: ignore[arg-type]
        table.idle.clear()
    assert admissions == [Admission.ADMITTED, Admission.ADMITTED, Admission.REFUSED]
    assert [each.is_aborted for each in (idle, slow, busy, first, second)] == [True, True, False, False, False]


PEERS = [
    ("127.0.0.1", ""),
    ("::ffff:127.0.0.1", ""),
    ("10.0.0.7", ""),  # a proxy
    ("", ""),  # on a Unix socket
    ("192.0.2.1", "192.0.2.1"),
    ("::ffff:192.0.2.1", "192.0.2.1"),
    ("2001:db8::1", "2001:db8::/64"),
]


@pytest.mark.parametrize(("address", "name"), PEERS)
def test_loopback_and_proxies_are_not_counted_as_one_client(address: str, name: str) -> None:
    assert ConnectionTable(LIMITS, TrustedProxies(("10.0.0.0/8", "unix"))).name_peer(address) == name


def test_a_body_that_grows_fast_enough_takes_its_time(tmp_path: Path) -> None:
    limits = replace(PATIENT_LIMITS, body_interval=3.0)
    database = f"sqlite:///{tmp_path / 'x.db'}"
    with serving(database, ServiceOptions(runs_jobs=False), limits=limits) as running, connect(running) as connection:
        body = b'{"url": "https://example.com/slow"' + b" " * 8000 + b"}"
        send(connection, PUT, f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        started = time.monotonic()
        while body:
            send(connection, body[:1500])
            body = body[1500:]
            time.sleep(0.6)  # the pace is what is tested: 7500 bytes in three seconds, where 1000 are required
        assert time.monotonic() - started > limits.body_interval
        assert read_statuses(receive(connection)) == [201]


def test_the_number_of_connections_fits_the_open_files() -> None:
    assert fit_connections(LIMITS) == LIMITS
    many = replace(LIMITS, connections=10**9)
    assert fit_connections(many).connections < 10**9
