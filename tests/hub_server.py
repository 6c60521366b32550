"""A feed and its WebSub hub on 127.0.0.2: the hub confirms subscriptions at a service, and pushes changes to it."""

from __future__ import annotations

import hashlib
import hmac
import http.client
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit

from http_server import serve_http

if TYPE_CHECKING:
    from collections.abc import Generator

ADDRESS = "127.0.0.2"
CHALLENGE = "challenge <b>&1"


@dataclass
class HubServer:
    """Serves a feed at `/feed`, and the hub at `/hub`; `service_port` is where callbacks are delivered to."""

    port: int = 0
    service_port: int = 0
    status: int = 202  # of the answer to a request for a subscription
    lease: str = "864000"
    items: int = 1
    headers: dict[str, str] = field(default_factory=dict[str, str])  # of the feed
    requests: list[dict[str, str]] = field(default_factory=list[dict[str, str]])  # forms that the hub got
    confirmed: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])  # answers of the callback
    fetched: int = 0  # how often the feed was requested

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.port}"

    def make_document(self) -> bytes:
        items = "".join(f"<entry><id>urn:id:{n}</id><title>Post {n}</title></entry>" for n in range(self.items))
        links = f'<link rel="hub" href="{self.url}/hub"/><link rel="self" href="{self.url}/feed"/>'
        return f'<feed xmlns="http://www.w3.org/2005/Atom"><title>A</title>{links}{items}</feed>'.encode()

    def verify(self, **changed: str) -> tuple[int, str]:
        """Send a verification of the last request to the callback; return its status and its body."""
        form = self.requests[-1]
        query = {
            "hub.mode": "subscribe",
            "hub.topic": form["hub.topic"],
            "hub.challenge": CHALLENGE,
            "hub.lease_seconds": self.lease,
        } | {f"hub.{name}": value for name, value in changed.items()}
        return self._send("GET", f"{urlsplit(form['hub.callback']).path}?{urlencode(query)}")

    def push(self, *, secret: str | None = None, algorithm: str = "sha256", path: str = "") -> int:
        """Push the feed to the callback of the last request, and return the status."""
        form, body = self.requests[-1], self.make_document()
        key = (form["hub.secret"] if secret is None else secret).encode()
        digest = hmac.new(key, body, getattr(hashlib, algorithm)).hexdigest()
        headers = {"X-Hub-Signature": f"{algorithm}={digest}", "Content-Type": "application/atom+xml"}
        return self._send("POST", path or urlsplit(form["hub.callback"]).path, body, headers)[0]

    def _send(
        self, method: str, target: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.service_port, timeout=60)
        try:
            # As behind a reverse proxy: the public name, and the address of the hub.
            named = {"Host": "feeds.example.net", "X-Forwarded-For": "203.0.113.9", **(headers or {})}
            connection.request(method, target, body, named)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@contextmanager
def run_hub() -> Generator[HubServer]:
    """Run a feed and its hub in a thread."""
    hub = HubServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.fetched += 1
            self.answer(200, hub.make_document(), hub.headers)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            if urlsplit(self.path).path == "/moved":
                self.answer(307, b"", {"Location": "/hub"})
                return
            hub.requests.append(dict(parse_qsl(body)))
            if hub.service_port:  # hubs may confirm before they answer
                hub.confirmed.append(hub.verify())
            self.answer(hub.status, b"", {})

        def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": "application/atom+xml", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with serve_http(Handler, ADDRESS) as hub.port:
        yield hub
