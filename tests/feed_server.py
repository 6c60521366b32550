"""A feed on loopback, and a proxy that makes it the whole web: every host, over HTTP and over TLS, without a lookup."""

from __future__ import annotations

import ssl
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import trustme

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    import pytest


def rss(title: str = "Twins", items: range = range(5), host: str = "feed.example") -> str:
    listed = "".join(
        f"<item><title>Post {n}</title><link>http://{host}/{n}</link><guid isPermaLink='false'>id-{n}</guid>"
        f"<pubDate>{1 + n:02} Jan 2026 00:00:00 GMT</pubDate><description>Text {n}</description></item>"
        for n in reversed(items)
    )
    return f'<rss version="2.0"><channel><title>{title}</title><link>http://{host}/</link>{listed}</channel></rss>'


class Served:
    """What is served: a feed for each URL, or None for a 404; and what was asked for."""

    def __init__(self) -> None:
        self.feed_of: Callable[[str], str | None] = lambda url: rss() if "/feed" in url else None
        self.asked: list[str] = []
        self.port = 0
        self.authority = trustme.CA()

    def become_the_web(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        """Let `requests` see this web and believe it."""
        file = folder / "authority.pem"
        self.authority.cert_pem.write_to_path(str(file))
        for name, value in {"http_proxy": self.origin, "https_proxy": self.origin, "no_proxy": ""}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("requests.adapters.DEFAULT_CA_BUNDLE_PATH", str(file))

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving() -> Generator[Served]:
    served = Served()

    class Handler(BaseHTTPRequestHandler):
        origin = ""  # of the host it was connected to

        def do_CONNECT(self) -> None:
            host = self.path.rpartition(":")[0]
            self.send_response(200)
            self.end_headers()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            served.authority.issue_cert(host).configure_cert(context)
            with context.wrap_socket(self.connection, server_side=True) as secured:
                self.rfile, self.wfile = secured.makefile("rb"), secured.makefile("wb")
                self.origin = f"https://{self.path.removesuffix(':443')}"
                self.handle_one_request()
                self.wfile.flush()
                self.rfile.close()
                self.wfile.close()
            self.close_connection = True

        def do_GET(self) -> None:
            url = self.path if urlsplit(self.path).scheme else f"{self.origin}{self.path}"
            served.asked.append(url)
            body = served.feed_of(url)
            said = (body or "").encode()
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "application/rss+xml")
            self.send_header("Content-Length", str(len(said)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()
