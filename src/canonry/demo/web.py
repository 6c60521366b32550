"""The demo web: a few hosts served from one loopback port, and a client that resolves them to it."""

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

_MOVED = 301
PRIVATE_ADDRESS = "10.0.0.7"  # of intern.example.net; the guard must refuse it


def _make_feed(title: str, *items: tuple[str, str, str, str]) -> str:
    rows = "".join(
        f"<item><title>{name}</title><link>{link}</link><guid>{guid}</guid><pubDate>{date}</pubDate></item>"
        for name, link, guid, date in items
    )
    return f'<rss version="2.0"><channel><title>{title}</title>{rows}</channel></rss>'


def _make_page(title: str, *links: str, head: str = "") -> str:
    anchors = "".join(f'<p><a href="{link}">{link}</a></p>' for link in links)
    return f"<!doctype html><title>{title}</title>{head}{anchors}"


_RSS, _HTML = "application/rss+xml", "text/html"
_MONDAY, _TUESDAY = "Mon, 05 Jan 2026 09:00:00 GMT", "Tue, 06 Jan 2026 09:00:00 GMT"
_BLOG = _make_feed(
    "A small blog",
    ("First", "http://blog.example.org/1", "1", _MONDAY),
    ("Second", "http://blog.example.org/2?utm_source=rss", "2", _TUESDAY),
)
_FEED_LINK = '<link rel="alternate" type="application/rss+xml" href="/feed/">'
# Host and path, without the query: status, content type or location, body.
_ANSWERS: dict[str, tuple[int, str, str]] = {
    # A blog under several names, and a second one that links to the same post.
    "blog.example.org/": (200, _HTML, _make_page("A small blog", "/1", "/2", head=_FEED_LINK)),
    "blog.example.org/feed": (200, _RSS, _BLOG),
    "blog.example.org/feed/": (200, _RSS, _BLOG),
    "www.blog.example.org/feed/": (200, _RSS, _BLOG),
    "old.blog.example.org/rss.xml": (_MOVED, "http://www.blog.example.org/feed/", ""),
    "planet.example.org/feed": (
        200,
        _RSS,
        # With another fragment, title and date must be equal for the same post.
        _make_feed(
            "A planet",
            ("Second", "http://blog.example.org/2?utm_medium=planet#top", "x-2", _TUESDAY),
            ("Own", "/own", "x-3", _MONDAY),
        ),
    ),
    # Short links.
    "bit.ly/small": (_MOVED, "http://t.co/smaller", ""),
    "t.co/smaller": (_MOVED, "http://blog.example.org/2?utm_source=social&fbclid=x", ""),
    # A site: three pages under many spellings, and a file that is not a page.
    "site.example.com/": (
        200,
        _HTML,
        _make_page("Home", "/a", "/a/", "/a#top", "HTTP://Site.Example.com:80/a", "./x/../b", "b/", "/c.pdf"),
    ),
    "site.example.com/a": (
        200,
        _HTML,
        _make_page("A", "/", "/b", "http://blog.example.org/", "mailto:me@site.example.com"),
    ),
    "site.example.com/b": (200, _HTML, _make_page("B", "/a", "http://intern.example.net/admin", "javascript:alert(1)")),
    # Hostile URLs.
    "evil.example.com/metadata": (_MOVED, "http://169.254.169.254/latest/meta-data/", ""),
    "evil.example.com/port": (_MOVED, "http://127.0.0.1:22/", ""),
    "evil.example.com/loop": (_MOVED, "http://evil.example.com/loop", ""),
    "evil.example.com/bomb": (200, _RSS, _make_feed("Bomb", ("x" * 300_000, "http://evil.example.com/", "1", _MONDAY))),
}


class _Answerer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer from the table."""
        path = self.path.partition("?")[0]
        status, header, body = _ANSWERS.get(f"{self.headers.get('Host', '')}{path}", (404, "text/plain", ""))
        self.send_response(status)
        self.send_header("Location" if status == _MOVED else "Content-Type", header)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body.encode())

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: standard error belongs to the command."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect early, as ours does when a response is too large."""


@contextmanager
def demo_web() -> Generator[Client]:
    """Serve the demo web, and yield a client that reaches nothing else."""
    with _Server(("127.0.0.1", 0), _Answerer) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()

        async def lookup(host: str, port: int) -> Sequence[tuple[str, int]]:
            return [(PRIVATE_ADDRESS, port)] if host == "intern.example.net" else [("127.0.0.1", server.server_port)]

        guard = Guard(allow_networks=["127.0.0.1/32"], allow_ports={80, 443, server.server_port})
        try:
            yield Client(guard, settings=Settings(), lookup=lookup, max_bytes=100_000)
        finally:
            server.shutdown()
            thread.join()
