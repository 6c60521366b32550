"""A server on loopback that receives webhooks, checks their signatures and remembers what it accepted."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


@dataclass
class WebhookServer:
    """Answers each POST with `answer(payload)`: a status, or 0 to close the connection without one."""

    port: int = 0
    answer: Callable[[dict[str, Any]], int] = lambda _: 204
    headers: dict[str, str] = field(default_factory=dict[str, str])
    received: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])  # payloads, whatever the answer
    accepted: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])  # payloads answered with 2xx
    requests: list[dict[str, str]] = field(default_factory=list[dict[str, str]])  # headers, names in lower case
    bodies: list[bytes] = field(default_factory=list[bytes])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def numbers(self) -> list[int]:
        """The numbers of all changes that were accepted, in the order of their arrival."""
        return [change["number"] for payload in self.accepted for change in payload["changes"]]

    def is_signed(self, secret: str, request: int = -1) -> bool:
        """Whether a request is signed with a secret, as https://www.standardwebhooks.com/ says."""
        headers, body = self.requests[request], self.bodies[request]
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        return f"v1,{wanted}" in headers["webhook-signature"].split(" ")


@contextmanager
def run_webhook_server() -> Generator[WebhookServer]:
    """Run a server in a thread."""
    found = WebhookServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            payload = json.loads(body)
            found.requests.append({name.lower(): value for name, value in self.headers.items()})
            found.bodies.append(body)
            found.received.append(payload)
            status = found.answer(payload)
            if not status:
                self.close_connection = True
                return
            if 200 <= status < 300:
                found.accepted.append(payload)
            self.send_response(status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Ignore clients that were killed."""

    with Server(("127.0.0.1", 0), Handler) as server:
        found.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
