"""A site on loopback for commands: pages by path, and the number of requests for each."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from canonry.net.fetch import Client
from canonry.net.guard import Guard
from canonry.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Generator

ADDRESS = "127.0.0.2"
SETTINGS = {"CANONRY_ALLOW_NETWORKS": f"{ADDRESS}/32", "CANONRY_ALLOW_PORTS": "1-65535"}


def tree(count: int) -> dict[str, str]:
    """Return pages that link to each other, three children each."""
    pages: dict[str, str] = {}
    for number in range(count):
        hrefs = [f"/{child}" for child in range(number * 3 + 1, number * 3 + 4) if child < count]
        hrefs += [f"/{number // 3}/", "/0#top", "https://other.example.org/", "/file.pdf"]
        pages[f"/{number}"] = f"<title>Page {number}</title>" + "".join(f'<a href="{href}">x</a>' for href in hrefs)
    return pages


def client() -> Client:
    """Return a client that may reach such a site, and nothing else on this machine."""
    return Client(Guard([f"{ADDRESS}/32"], range(1, 65536)), settings=Settings())


class Site(ThreadingHTTPServer):
    """Serves `pages` by path, ignoring a trailing slash; a page that begins with `->` is a redirect."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 1000

    def __init__(self, pages: dict[str, str], port: int = 0) -> None:
        super().__init__((ADDRESS, port), _Answer)
        self.is_down = False  # connections that are still open get no answers
        self.pages = pages
        self.broken: set[str] = set()  # requests for these paths get no answer
        self.held: dict[str, threading.Event] = {}  # requests for these paths wait for the event
        self.asked: Counter[str] = Counter()

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.server_address[1]}"

    def handle_error(self, *_: object) -> None:
        """Ignore clients that were killed."""


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Site

    def do_GET(self) -> None:
        if self.server.is_down:
            self.close_connection = True
            return
        path = self.path.rstrip("/") or "/"
        page = self.server.pages.get(path)
        self.server.asked[path] += 1
        if path in self.server.held:
            self.server.held[path].wait(60)
        if path in self.server.broken:
            self.close_connection = True
            return
        body = (page or "").encode()
        if page is not None and page.startswith("->"):
            self.send_response(301)
            self.send_header("Location", page[2:])
            body = b""
        else:
            self.send_response(404 if page is None else 200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def serving(pages: dict[str, str], port: int = 0) -> Generator[Site]:
    site = Site(pages, port)
    thread = threading.Thread(target=site.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.is_down = True
        site.shutdown()
        thread.join()
        site.server_close()
