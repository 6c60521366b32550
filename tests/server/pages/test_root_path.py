"""The service below a path, behind a proxy that removes it (`canonry serve --root-path /links`)."""

from __future__ import annotations

import http.client
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from canonry.errors import CanonryError
from canonry.server.pages.navigation import MENU, ROW
from canonry.server.root_path import check_root_path
from canonry.server.service import ServiceOptions
from server.pages.visitor import Page as ReadPage
from server.pages.visitor import add_user
from service import Running, serving

if TYPE_CHECKING:
    from collections.abc import Generator

    from playwright.sync_api import Browser

ROOT = "/links"


class Proxy(ThreadingHTTPServer):
    """Passes on what is below the root path, without it, and keeps the other paths that it was asked for."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port = port
        self.outside: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def pass_on(self) -> None:
        assert isinstance(self.server, Proxy)
        if not self.path.startswith(f"{ROOT}/"):
            self.server.outside.append(self.path)
            self.send_error(404)
            return
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        connection.request(self.command, self.path.removeprefix(ROOT), body, dict(self.headers))
        answer = connection.getresponse()
        content = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() != "transfer-encoding":
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        connection.close()

    do_GET = do_POST = do_PUT = do_HEAD = pass_on  # noqa: N815 (names of the base class)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def running(sqlite_url: str) -> Generator[Running]:
    with serving(sqlite_url, ServiceOptions(runs_jobs=False, root_path=ROOT)) as found:
        yield found


@contextmanager
def proxying(running: Running) -> Generator[tuple[Proxy, Running]]:
    """Run a proxy; the second value is the service as its clients reach it."""
    with Proxy(running.port) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield proxy, Running(proxy.server_address[1], running.service, running.token)
        finally:
            proxy.shutdown()
            thread.join(60)


def test_every_link_of_every_page_is_below_the_path(running: Running) -> None:
    with proxying(running) as (proxy, shown):
        for number in range(3):
            saved = shown.ask("PUT", f"{ROOT}/api/bookmarks", {"url": f"https://example.com/{number}", "tags": ["x"]})
            assert saved.headers["location"] == f"{ROOT}/api/bookmarks/{saved.json()['id']}"
        paths = ["/", "/?q=https://example.com/0", "/bookmarks/1/edit", *(entry.path for entry in (*ROW, *MENU))]
        for path in paths:
            answer = shown.get(ROOT + path)
            assert (answer.status, len(answer.body)) == (200, int(answer.headers["content-length"])), path
            own = [link for link in ReadPage(answer).links if link.startswith("/")]
            assert own and [link for link in own if not link.startswith(f"{ROOT}/")] == [], path
            head = shown.ask("HEAD", ROOT + path)
            assert (head.status, head.body, head.headers["content-type"]) == (200, b"", answer.headers["content-type"])
        bookmarklet = shown.get(f"{ROOT}/bookmarklet").text.replace("&#34;", '"')
        assert f'open("{shown.url}{ROOT}/add?url="' in bookmarklet
        first = shown.get(f"{ROOT}/api/bookmarks?limit=2")
        following = first.headers["link"].removeprefix("<").partition(">")[0]
        assert following.startswith(f"{ROOT}/api/bookmarks?")
        assert len(shown.get(following).json()) == 1
        assert f'href="{shown.url}{ROOT}/api/items.atom"' in shown.get(f"{ROOT}/api/items.atom").text
        assert shown.get(f"{ROOT}/api/openapi.json").json()["servers"] == [{"url": ROOT}]
        exported = shown.get(f"{ROOT}/export/netscape")
        assert exported.body == running.get("/export/netscape").body
        assert proxy.outside == []


def test_a_slash_at_the_end_of_a_path_is_removed_below_the_path(running: Running) -> None:
    with proxying(running) as (proxy, shown):
        for path in ("/bookmarks/?q=x", "/api/bookmarks/"):
            moved = shown.get(ROOT + path)
            assert (moved.status, moved.headers["location"]) == (307, ROOT + path.replace("/?", "?").rstrip("/"))
            assert shown.get(moved.headers["location"]).status == 200
        assert proxy.outside == []


def test_what_users_write_is_not_changed(running: Running) -> None:
    text = ' href="/mine" src="/mine" <a href="/mine">'
    with proxying(running) as (_, shown):
        running.put("https://example.com/a", title=text, description=text, tags=["x"])
        page = ReadPage(shown.get(f"{ROOT}/bookmarks/1/edit"))
        assert (page.value("title"), page.value("description")) == (text, text)


def test_cookies_and_the_sign_in_are_below_the_path(running: Running) -> None:
    add_user(running, "ada")
    with proxying(running) as (_, shown):
        asked = shown.get(f"{ROOT}/bookmarks?q=x")
        assert (asked.status, asked.headers["location"]) == (303, f"{ROOT}/signin?next=%2Fbookmarks%3Fq%3Dx")
        page = shown.get(asked.headers["location"])
        assert f"Path={ROOT};" in f"{page.headers['set-cookie']};"


def test_bookmarks_are_saved_and_found_below_the_path(browser: Browser, running: Running) -> None:
    context = browser.new_context()
    context.set_default_timeout(180_000)
    with proxying(running) as (proxy, shown):
        page = context.new_page()
        page.goto(f"{shown.url}{ROOT}/")
        page.get_by_role("link", name="Save", exact=True).click()
        page.get_by_label("URL", exact=True).fill("https://Example.com/a?utm_source=mail")
        expect(page.locator("#preview")).to_contain_text("https://example.com/a")  # asked for by htmx
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.locator("[data-notice=added]")).to_be_visible()
        assert page.url.startswith(f"{shown.url}{ROOT}/bookmarks?")
        page.get_by_role("link", name="Edit").first.click()
        page.get_by_label("Title").fill("Changed")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_role("heading", name="Changed")).to_be_visible()
        assert page.url.startswith(f"{shown.url}{ROOT}/bookmarks")
        assert {each["path"] for each in context.cookies() if each["name"] == "canonry_csrf"} == {ROOT}
        page.goto(f"{shown.url}{ROOT}/account")
        page.get_by_label("Time zone").fill("Asia/Tokyo")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.locator("#zone")).to_have_text("Times are in Asia/Tokyo.")
        assert [path for path in proxy.outside if path != "/favicon.ico"] == []
    context.close()


@pytest.mark.parametrize(("given", "wanted"), [("", ""), ("/", ""), ("/links/", "/links"), ("/a/b", "/a/b")])
def test_a_root_path_is_written_without_the_slash_at_its_end(given: str, wanted: str) -> None:
    assert check_root_path(given) == wanted


@pytest.mark.parametrize("given", ["links", "//links", "/li nks", "/a//b", "/..", "/a/./b", '/"', "https://a.com/"])
def test_a_root_path_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(CanonryError, match="--root-path"):
        check_root_path(given)
