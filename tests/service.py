"""A real service for tests: uvicorn on loopback in a thread, asked over HTTP."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import uvicorn

from canonry.server.app import make_app
from canonry.server.connections import DEFAULT_LIMITS, ConnectionLimits
from canonry.server.run import make_config
from canonry.server.service import Service, ServiceOptions
from canonry.settings import Settings
from loopback import make_client

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from canonry.net.fetch import Client


@dataclass(frozen=True, slots=True)
class Answer:
    """A response of the service."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Running:
    """A running service."""

    port: int
    service: Service
    token: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
    ) -> Answer:
        """Send one request; a body that is not bytes is sent as JSON."""
        sent = dict(headers or {})
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if body is not None and not isinstance(body, bytes):
            sent.setdefault("Content-Type", "application/json")
        if token := self.token if token is None else token:
            sent.setdefault("Authorization", f"Bearer {token}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **options: Any) -> Answer:
        return self.ask("GET", path, **options)

    def put(self, url: str, query: str = "", **fields: Any) -> Answer:
        """Save a bookmark."""
        return self.ask("PUT", f"/api/bookmarks{query}", {"url": url, **fields})

    def wait_for_short_links(self, seconds: float) -> None:
        """So long, not 300 ms: on a busy machine even those on loopback can take longer."""
        self.service.bookmarks.expansion_wait = seconds


@contextmanager
def serving(
    database_url: str,
    options: ServiceOptions | None = None,
    *,
    client: Callable[[], Client] = make_client,
    monotonic: Callable[[], float] = time.monotonic,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    limits: ConnectionLimits = DEFAULT_LIMITS,
    **settings: Any,
) -> Generator[Running]:
    """Run a service on a port of its own; its client resolves only the names of the test's web."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        port: int = listening.getsockname()[1]
        service = Service(
            Settings(database_url=database_url, **settings),
            replace(options or ServiceOptions(), port=port),
            client=client,
            monotonic=monotonic,
            clock=clock,
        )
        config = make_config(make_app(service), limits=limits, log_level="warning", timeout_graceful_shutdown=5)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            deadline = time.monotonic() + 120
            while not server.started:
                assert thread.is_alive() and time.monotonic() < deadline, "the service did not start"
                time.sleep(0.02)
            yield Running(port, service)
        finally:
            server.should_exit = True
            thread.join(120)


def until(condition: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not true after {seconds} s"
        time.sleep(0.05)
