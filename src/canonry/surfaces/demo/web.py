"""The demo's web: a few hosts served from one loopback port, and the client that finds them there."""

from __future__ import annotations

from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING

from canonry.net.fetch import Client
from canonry.net.guard import Guard
from canonry.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

_FEED = (
    '<rss version="2.0"><channel><title>A small blog</title><link>http://blog.example/</link>'
    "<item><title>First</title><link>http://blog.example/1</link><guid>1</guid></item>"
    "<item><title>Second</title><link>http://blog.example/2</link><guid>2</guid></item></channel></rss>"
)
_PAGE = '<!doctype html><title>A small blog</title><link rel="alternate" type="application/rss+xml" href="/feed/">'
# Host and path (the query selects nothing here): status, content type or location, body.
_ANSWERS = {
    "blog.example/": (200, "text/html", _PAGE),
    "blog.example/feed": (200, "application/rss+xml", _FEED),
    "blog.example/feed/": (200, "application/rss+xml", _FEED),
    "www.blog.example/feed/": (200, "application/rss+xml", _FEED),
    "old.blog.example/rss.xml": (301, "http://www.blog.example/feed/", ""),
}


class _Answerer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer from the table."""
        path = self.path.partition("?")[0]
        status, header, body = _ANSWERS.get(f"{self.headers.get('Host', '')}{path}", (404, "text/plain", ""))
        self.send_response(status)
        self.send_header("Location" if status == 301 else "Content-Type", header)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Standard error belongs to the command."""


@contextmanager
def demo_web() -> Generator[Client]:
    """A client whose internet is the demo's web, for as long as the context lasts."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answerer) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()

        async def lookup(_host: str, _port: int) -> Sequence[tuple[str, int]]:
            return [("127.0.0.1", server.server_port)]

        guard = Guard(allow_networks=["127.0.0.1/32"], allow_ports={80, 443, server.server_port})
        try:
            yield Client(guard, settings=Settings(), lookup=lookup)
        finally:
            server.shutdown()
            thread.join()
