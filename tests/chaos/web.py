"""The web of a run: feeds that grow, sites to crawl, short links, and links to the traps."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from chaos.traps import Traps

ADDRESS = "127.0.0.1"  # the only address that the settings of the run allow
BLOG = "blog.example.org"
SHORTENERS = ("bit.ly", "t.co")
DECOY = "tinyurl.com"  # a shortener whose name resolves to the traps
PAGES = 60  # pages of each site
FEEDS, MIRROR = 8, 1  # feed 1 has the items of feed 0
PRIVATE_FEEDS = ("moved", "page")  # a redirect and a page that lead to a trap
_SLOW_SECONDS = 0.5  # longer than a request waits for a short link


@dataclass(slots=True)
class Content:
    """The traps that pages link to, and the number of items of each feed."""

    traps: Traps
    items: list[int] = field(default_factory=lambda: [3] * FEEDS)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def grow(self, feed: int) -> None:
        """Add an item to a feed."""
        with self.lock:
            self.items[feed] += 1

    def list_titles(self) -> list[str]:
        """Return the titles of all items; the mirror adds none."""
        return [make_title(feed, item) for feed in range(FEEDS) if feed != MIRROR for item in range(self.items[feed])]


class Web:
    """Serves everything at a port of 127.0.0.1, and short links at its port 80 if `has_shorteners`."""

    def __init__(self, traps: Traps, *, has_shorteners: bool) -> None:
        self.content = Content(traps)
        self.has_shorteners = has_shorteners
        self._servers = [_Server((ADDRESS, 0), self)]
        self.port: int = self._servers[0].server_address[1]
        if has_shorteners:
            self._servers.append(_Server((ADDRESS, 80), self))

    @property
    def origin(self) -> str:
        return f"http://{ADDRESS}:{self.port}"

    @property
    def blog(self) -> str:
        """The start of the URLs that are saved as bookmarks."""
        return f"http://{BLOG}:{self.port}" if self.has_shorteners else self.origin

    def __enter__(self) -> Web:
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def list_feed_urls(self) -> list[str]:
        """Return the feeds that can be read."""
        return [f"{self.origin}/feed/{number}" for number in range(FEEDS)]

    def list_private_feed_urls(self) -> list[str]:
        """Return the feeds at forbidden addresses, or that lead there."""
        return [*(f"{self.origin}/private/{kind}" for kind in PRIVATE_FEEDS), self.content.traps.make_url("/feed")]

    def make_site_url(self, number: int) -> str:
        """Return the start page of a site."""
        return f"{self.origin}/site/{number}/0"

    def list_site_pages(self, number: int) -> dict[str, int]:
        """Return the URLs that a crawl of a site must record, with the status of each; 0 is an error."""
        pages = {f"{self.origin}/site/{number}/{page}": 200 for page in range(PAGES)}
        return {**pages, f"{self.origin}/site/{number}/away": 0}


def make_title(feed: int, item: int) -> str:
    return f"item {item} of feed {feed}"


def make_short_path(number: int) -> str:
    """Return the path of the page that a short link leads to; two short links lead to each page."""
    return f"/page/short?id={number // 2}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, address: tuple[str, int], web: Web) -> None:
        super().__init__(address, _RequestHandler)
        self.web = web

    def handle_error(self, *_: object) -> None:
        """Ignore the broken connections of clients that were killed."""


class _RequestHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        host = urlsplit(f"http://{self.headers.get('host', '')}").hostname or ""
        path = urlsplit(self.path).path
        match path.strip("/").split("/"):
            case [name] if host in SHORTENERS:
                self._send_short_link(name)
            case ["feed", number] if number.isdecimal() and int(number) < FEEDS:
                self._send_feed(int(number))
            case ["private", "moved"]:
                self._send_redirect(self._traps.make_url("/moved-feed"))
            case ["private", "page"]:
                link = f'<link rel="alternate" type="application/rss+xml" href="{self._traps.make_url("/named-feed")}">'
                self._send_text(f"<!doctype html><html><head>{link}</head></html>")
            case ["site", site, "away"]:
                self._send_redirect(self._traps.make_url(f"/away/{site}"))
            case ["site", site, page] if page.isdecimal() and int(page) < PAGES:
                self._send_text(_make_site_page(site, int(page), self._traps))
            case ["page", *_]:
                self._send_text(f"<!doctype html><title>Page {path}</title>")
            case _:
                self._send_text("", status=404)

    def do_HEAD(self) -> None:
        self.do_GET()

    @property
    def _traps(self) -> Traps:
        return self.server.web.content.traps

    def _send_short_link(self, name: str) -> None:
        """Redirect: `s7` to a page, every third slowly; `h7` to another shortener; `p7` and `d7` to a trap."""
        kind, number = name[:1], int(name[1:]) if name[1:].isdecimal() else 0
        if kind == "s" and number % 3 == 0:
            time.sleep(_SLOW_SECONDS)
        targets = {
            "s": f"{self.server.web.blog}{make_short_path(number)}&utm_source=short",
            "h": f"http://{SHORTENERS[1]}/s{number}",
            "p": self._traps.make_url(f"/short/{number}"),
            "d": f"http://{DECOY}/{number}",
        }
        if kind in targets:
            self._send_redirect(targets[kind])
        else:
            self._send_text("", status=404)

    def _send_feed(self, number: int) -> None:
        content = self.server.web.content
        source = 0 if number == MIRROR else number
        with content.lock:
            count = content.items[source]
        etag = f'"{source}-{count}"'
        if self.headers.get("if-none-match") == etag:
            self._send_text("", status=304, etag=etag)
            return
        items = "".join(
            f"<item><title>{make_title(source, item)}</title><guid isPermaLink='false'>guid-{source}-{item}</guid>"
            f"<link>{self.server.web.origin}/post/{source}/{item}?utm_source=rss{count}</link>"
            # The text of an item changes once, so that there is something to update.
            f"<description>{'new' if count > item + 5 else 'old'} text</description></item>"
            for item in range(count)
        )
        own = f'<atom:link rel="self" href="{self._traps.make_url(f"/self/{number}")}"/>'
        self._send_text(
            '<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>'
            f"<title>Feed {number}</title>{own}{items}</channel></rss>",
            media_type="application/rss+xml",
            etag=etag,
        )

    def _send_redirect(self, target: str) -> None:
        self._send(302, {"Location": target})

    def _send_text(
        self, body: str, *, status: int = 200, media_type: str = "text/html; charset=utf-8", etag: str = ""
    ) -> None:
        self._send(status, {"Content-Type": media_type, **({"ETag": etag} if etag else {})}, body.encode())

    def _send(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _make_site_page(site: str, page: int, traps: Traps) -> str:
    """Make a page of a tree of pages, with everything in it that could lead a browser to a trap."""
    children = [f"/site/{site}/{child}" for child in range(page * 3 + 1, page * 3 + 4) if child < PAGES]
    hrefs = [*children, f"/site/{site}/{page // 3}#up", f"/site/{site}/away", traps.make_url("/linked")]
    links = "".join(f'<a href="{href}">to it</a>' for href in hrefs)
    return (
        f"<!doctype html><title>Page {page}</title>{links}"
        f'<img src="{traps.make_url("/img")}"><iframe src="{traps.make_url("/frame")}"></iframe>'
        f'<link rel="stylesheet" href="{traps.make_url("/style")}"><link rel="prefetch" href="{traps.make_url("/prefetch")}">'
        f"<script>for (const url of {traps.make_spellings('/fetched')}) fetch(url, {{mode: 'no-cors'}}).catch(() => 0);"
        f"try {{ new WebSocket('{traps.make_url('/socket').replace('http:', 'ws:')}') }} catch (e) {{}}"
        f"try {{ const peer = new RTCPeerConnection({{iceServers: [{{urls: 'stun:{traps.udp_address}'}}]}});"
        "peer.createDataChannel('x'); peer.createOffer().then(o => peer.setLocalDescription(o)) } catch (e) {}"
        "</script>"
    )
