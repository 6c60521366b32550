"""A feed server on loopback that is also a proxy for every host, over HTTP and TLS, without DNS."""

from __future__ import annotations

import ssl
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import trustme

from http_server import serve_http

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    import pytest


def rss(title: str = "Twins", items: range = range(5), host: str = "feed.example") -> str:
    """Return an RSS feed with an item for each number, newest first."""
    text = "".join(
        f"<item><title>Post {n}</title><link>http://{host}/{n}</link><guid isPermaLink='false'>id-{n}</guid>"
        f"<pubDate>{1 + n:02} Jan 2026 00:00:00 GMT</pubDate><description>Text {n}</description></item>"
        for n in reversed(items)
    )
    return f'<rss version="2.0"><channel><title>{title}</title><link>http://{host}/</link>{text}</channel></rss>'


class FeedServer:
    """Serves `get_feed(url)` for each URL, 404 for None, and remembers the URLs that were requested."""

    def __init__(self) -> None:
        self.get_feed: Callable[[str], str | None] = lambda url: rss() if "/feed" in url else None
        self.requested_urls: list[str] = []
        self.port = 0
        self.authority = trustme.CA()

    def serve_all_hosts(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        """Make the library `requests` use this server as its proxy, and trust its certificates."""
        file = folder / "authority.pem"
        self.authority.cert_pem.write_to_path(str(file))
        for name, value in {"http_proxy": self.origin, "https_proxy": self.origin, "no_proxy": ""}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("requests.adapters.DEFAULT_CA_BUNDLE_PATH", str(file))

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def run_feed_server() -> Generator[FeedServer]:
    """Run a feed server in a thread."""
    feed_server = FeedServer()

    class Handler(BaseHTTPRequestHandler):
        origin = ""  # of the host that CONNECT named

        def do_CONNECT(self) -> None:
            host = self.path.rpartition(":")[0]
            self.send_response(200)
            self.end_headers()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            feed_server.authority.issue_cert(host).configure_cert(context)
            with context.wrap_socket(self.connection, server_side=True) as tls_socket:
                self.rfile, self.wfile = tls_socket.makefile("rb"), tls_socket.makefile("wb")
                self.origin = f"https://{self.path.removesuffix(':443')}"
                self.handle_one_request()
                self.wfile.flush()
                self.rfile.close()
                self.wfile.close()
            self.close_connection = True

        def do_GET(self) -> None:
            url = self.path if urlsplit(self.path).scheme else f"{self.origin}{self.path}"
            feed_server.requested_urls.append(url)
            feed = feed_server.get_feed(url)
            body = (feed or "").encode()
            self.send_response(404 if feed is None else 200)
            self.send_header("Content-Type", "application/rss+xml")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with serve_http(Handler) as feed_server.port:
        yield feed_server
