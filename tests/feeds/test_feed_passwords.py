"""Passwords in the URLs of feeds are used for requests, and shown nowhere (contract G3, O)."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

import pytest

import command
from canonry.feeds.feed_store import FeedStore
from canonry.net.origin import Origin
from canonry.server.service import ServiceOptions
from canonry.store.database import Database
from http_server import serve_http
from service import serving

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

ENVIRONMENT = {**os.environ, "CANONRY_ALLOW_NETWORKS": "127.0.0.0/8", "CANONRY_ALLOW_PORTS": "1-65535"}


class PrivateFeeds(BaseHTTPRequestHandler):
    """A feed with relative links for those who send the password; an error page for others."""

    def do_GET(self) -> None:
        is_allowed = "authorization" in self.headers and "missing" not in self.path
        body = (
            b"<rss version='2.0'><channel><title>Private</title><link>/</link>"
            b"<item><title>One</title><link>/one</link></item>"
            b"<item><title>Two</title><guid>two</guid><link>two</link><enclosure url='/two.mp3' length='1'/></item>"
            b"</channel></rss>"
        )
        self.send_response(200 if is_allowed else 404)
        self.send_header("content-type", "application/rss+xml")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def site() -> Generator[str]:
    with serve_http(PrivateFeeds) as port:
        yield f"http://zoe:hunter2@127.0.0.1:{port}"


@pytest.mark.slow
def test_a_password_of_a_feed_is_never_shown(sqlite_url: str, site: str, tmp_path: Path) -> None:
    async def add() -> None:
        with Database(sqlite_url) as database:
            for path in ("/feed", "/missing"):
                await FeedStore(database).add(f"{site}{path}", datetime.now(UTC), origin=Origin.PERSON)

    def run(*arguments: str) -> str:
        done = command.run(*arguments, "--db", sqlite_url, cwd=tmp_path, environment=ENVIRONMENT)
        return f"{' '.join(arguments)}\n{done.stdout}\n{done.stderr}"

    asyncio.run(add())
    shown = [
        run("ingest", "--json"),
        run("feeds", "list"),
        run("feeds", "items"),
        run("feeds", "items", "--duplicates"),
        run("feeds", "changes", "--after", "0", "--json"),
    ]
    shown.append(run("feeds", "add", "--no-fetch", f"{site}/feed").replace(f"{site}/feed\n", "\n", 1))
    shown.append(run("feeds", "remove", f"{site}/unknown").replace(f"{site}/unknown\n", "\n", 1))
    with serving(sqlite_url, ServiceOptions(runs_jobs=False)) as service:
        paths = ["/api/feeds", "/api/feeds/1", "/api/feeds/1/items", "/api/items", "/api/changes?after=0"]
        paths += ["/api/items.atom", "/api/items.json", "/feeds", "/read", "/metrics", "/", "/admin", "/crawls"]
        shown += [f"{path}\n{service.get(path).text}" for path in paths]
        assert len(service.get("/api/items").json()) == 2
        assert len(service.get("/api/changes?after=0").json()["changes"]) == 2
    assert "two.mp3" in "".join(shown)
    assert [text for text in shown if "hunter2" in text or "zoe" in text] == []
