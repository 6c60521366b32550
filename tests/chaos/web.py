"""The web that chaos happens on: feeds that grow, sites to crawl, short links, and traps that all lead to one address."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from chaos.traps import Traps

ADDRESS = "127.0.0.1"  # the only one that the settings allow
BLOG = "blog.example.org"
SHORTENERS = ("bit.ly", "t.co")
DECOY = "tinyurl.com"  # a shortener whose name leads to the traps
PAGES = 60  # of each site
FEEDS, MIRROR = 8, 1  # feed 1 shows what feed 0 does
PRIVATE_FEEDS = ("moved", "page")  # lead to a trap
_SLOW = 0.5  # seconds: longer than a request waits for a short link


@dataclass(slots=True)
class Content:
    """What there is; `served` is how many items of each feed somebody has been given."""

    traps: Traps
    items: list[int] = field(default_factory=lambda: [3] * FEEDS)
    served: list[int] = field(default_factory=lambda: [0] * FEEDS)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def grow(self, feed: int) -> None:
        """One item more."""
        with self.lock:
            self.items[feed] += 1

    def wanted_items(self) -> list[str]:
        """The titles that the entries must have, each once; the mirror adds none."""
        return [title_of(feed, item) for feed in range(FEEDS) if feed != MIRROR for item in range(self.items[feed])]


class Web:
    """Serves all of it at one port of 127.0.0.1, and short links at port 80 where that is to be had."""

    def __init__(self, traps: Traps, *, has_names: bool) -> None:
        self.content = Content(traps)
        self.has_names = has_names
        self._servers = [_Server((ADDRESS, 0), self)]
        self.port: int = self._servers[0].server_address[1]
        if has_names:
            self._servers.append(_Server((ADDRESS, 80), self))

    @property
    def origin(self) -> str:
        return f"http://{ADDRESS}:{self.port}"

    @property
    def blog(self) -> str:
        """Where bookmarks lead."""
        return f"http://{BLOG}:{self.port}" if self.has_names else self.origin

    def __enter__(self) -> Web:
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def feed_urls(self) -> list[str]:
        """Feeds that can be read."""
        return [f"{self.origin}/feed/{number}" for number in range(FEEDS)]

    def private_feed_urls(self) -> list[str]:
        """Feeds that lead where nobody may go."""
        return [*(f"{self.origin}/private/{kind}" for kind in PRIVATE_FEEDS), self.content.traps.url("/feed")]

    def site_url(self, number: int) -> str:
        """The start page of a site."""
        return f"{self.origin}/site/{number}/0"

    def site_pages(self, number: int) -> dict[str, int]:
        """What a crawl of it must record, normalized, with the status of each."""
        pages = {f"{self.origin}/site/{number}/{page}": 200 for page in range(PAGES)}
        return {**pages, f"{self.origin}/site/{number}/away": 0}


def title_of(feed: int, item: int) -> str:
    return f"item {item} of feed {feed}"


def short_target(number: int) -> str:
    """The path of the page that a short link leads to; several lead to the same."""
    return f"/page/short?id={number // 2}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, address: tuple[str, int], web: Web) -> None:
        super().__init__(address, _Answer)
        self.web = web

    def handle_error(self, *_: object) -> None:
        """A client that was killed is no news."""


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        host = urlsplit(f"http://{self.headers.get('host', '')}").hostname or ""
        path = urlsplit(self.path).path
        match path.strip("/").split("/"):
            case [name] if host in SHORTENERS:
                self._short(name)
            case ["feed", number] if number.isdecimal() and int(number) < FEEDS:
                self._feed(int(number))
            case ["private", "moved"]:
                self._redirect(self._traps.url("/moved-feed"))
            case ["private", "page"]:
                link = f'<link rel="alternate" type="application/rss+xml" href="{self._traps.url("/named-feed")}">'
                self._answer(f"<!doctype html><html><head>{link}</head></html>")
            case ["site", site, "away"]:
                self._redirect(self._traps.url(f"/away/{site}"))
            case ["site", site, page] if page.isdecimal() and int(page) < PAGES:
                self._answer(_site_page(site, int(page), self._traps))
            case ["page", *_]:
                self._answer(f"<!doctype html><title>Page {path}</title>")
            case _:
                self._answer("", status=404)

    def do_HEAD(self) -> None:
        self.do_GET()

    @property
    def _traps(self) -> Traps:
        return self.server.web.content.traps

    def _short(self, name: str) -> None:
        """`s7` leads to a page, every third late; `h7` over another shortener; `p7` where it may not."""
        kind, number = name[:1], int(name[1:]) if name[1:].isdecimal() else 0
        if kind == "s" and number % 3 == 0:
            time.sleep(_SLOW)
        targets = {
            "s": f"{self.server.web.blog}{short_target(number)}&utm_source=short",
            "h": f"http://{SHORTENERS[1]}/s{number}",
            "p": self._traps.url(f"/short/{number}"),
            "d": f"http://{DECOY}/{number}",
        }
        if kind in targets:
            self._redirect(targets[kind])
        else:
            self._answer("", status=404)

    def _feed(self, number: int) -> None:
        content = self.server.web.content
        source = 0 if number == MIRROR else number
        with content.lock:
            count = content.items[source]
            content.served[number] = max(content.served[number], count)
        etag = f'"{source}-{count}"'
        if self.headers.get("if-none-match") == etag:
            self._answer("", status=304, etag=etag)
            return
        items = "".join(
            f"<item><title>{title_of(source, item)}</title><guid isPermaLink='false'>guid-{source}-{item}</guid>"
            f"<link>{self.server.web.origin}/post/{source}/{item}?utm_source=rss{count}</link>"
            # Its text changes once, so that there is something to update.
            f"<description>{'new' if count > item + 5 else 'old'} text</description></item>"
            for item in range(count)
        )
        own = f'<atom:link rel="self" href="{self._traps.url(f"/self/{number}")}"/>'
        self._answer(
            '<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>'
            f"<title>Feed {number}</title>{own}{items}</channel></rss>",
            kind="application/rss+xml",
            etag=etag,
        )

    def _redirect(self, to: str) -> None:
        self._send(302, {"Location": to})

    def _answer(self, body: str, *, status: int = 200, kind: str = "text/html; charset=utf-8", etag: str = "") -> None:
        self._send(status, {"Content-Type": kind, **({"ETag": etag} if etag else {})}, body.encode())

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
        """Quiet."""


def _site_page(site: str, page: int, traps: Traps) -> str:
    """A page of a tree, with everything in it that could lead a browser to a trap."""
    children = [f"/site/{site}/{child}" for child in range(page * 3 + 1, page * 3 + 4) if child < PAGES]
    hrefs = [*children, f"/site/{site}/{page // 3}#up", f"/site/{site}/away", traps.url("/linked")]
    links = "".join(f'<a href="{href}">to it</a>' for href in hrefs)
    return (
        f"<!doctype html><title>Page {page}</title>{links}"
        f'<img src="{traps.url("/img")}"><iframe src="{traps.url("/frame")}"></iframe>'
        f'<link rel="stylesheet" href="{traps.url("/style")}"><link rel="prefetch" href="{traps.url("/prefetch")}">'
        f"<script>for (const url of {traps.spellings('/fetched')}) fetch(url, {{mode: 'no-cors'}}).catch(() => 0);"
        f"try {{ new WebSocket('{traps.url('/socket').replace('http:', 'ws:')}') }} catch (e) {{}}"
        f"try {{ const peer = new RTCPeerConnection({{iceServers: [{{urls: 'stun:{traps.udp}'}}]}});"
        "peer.createDataChannel('x'); peer.createOffer().then(o => peer.setLocalDescription(o)) } catch (e) {}"
        "</script>"
    )
