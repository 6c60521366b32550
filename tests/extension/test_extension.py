"""The browser extension, loaded into a real Chromium, with a real service (contract B8)."""

from __future__ import annotations

import json
import os
import shutil
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import BrowserContext, Page, Worker, expect, sync_playwright

from canonry.evidence.fact_store import save_aliases
from canonry.evidence.facts import PageAlias
from canonry.evidence.same_page import Evidence
from canonry.server.service import ServiceOptions
from chrome import NO_CHROME
from http_server import serve_http
from server.pages.conftest import NAMES
from server.pages.visitor import create_owner_token
from service import Running, serving, until

if TYPE_CHECKING:
    from collections.abc import Generator

EXTENSION = Path(__file__).parent.parent.parent / "extension"
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"),
    f"--disable-extensions-except={EXTENSION}",
    f"--load-extension={EXTENSION}",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.*, EXCLUDE localhost",
)


class AnyPage(BaseHTTPRequestHandler):
    """A site whose pages are all the same."""

    def do_GET(self) -> None:
        body = b"<!doctype html><title>A page</title><p>text"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


@pytest.fixture
def site() -> Generator[str]:
    with serve_http(AnyPage) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def running(sqlite_url: str) -> Generator[Running]:
    with serving(sqlite_url, ServiceOptions(runs_jobs=False)) as found:
        yield found


@pytest.fixture
def browser(tmp_path: Path) -> Generator[BrowserContext]:
    found = os.environ.get("CANONRY_CHROME") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(NO_CHROME)
    expect.set_options(timeout=60_000)
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(tmp_path / "profile"),
            executable_path=found,
            args=list(ARGUMENTS),
            ignore_default_args=["--disable-extensions"],
            permissions=["clipboard-read", "clipboard-write"],
        )
        yield context
        context.close()


def get_worker(browser: BrowserContext) -> Worker:
    return browser.service_workers[0] if browser.service_workers else browser.wait_for_event("serviceworker")


def get_tab(worker: Worker, url: str) -> dict[str, Any]:
    """Return the id, badge and tool tip of the tab with a URL."""
    found: dict[str, Any] = json.loads(
        worker.evaluate(
            """async (url) => {
                const tab = (await chrome.tabs.query({})).find((tab) => tab.url === url);
                if (!tab) return "{}";
                const badge = await chrome.action.getBadgeText({tabId: tab.id});
                const title = await chrome.action.getTitle({tabId: tab.id});
                return JSON.stringify({id: tab.id, badge, title});
            }""",
            url,
        )
    )
    return found


def set_options(browser: BrowserContext, base: str, address: str, token: str) -> Page:
    page = browser.new_page()
    page.goto(f"{base}/options.html")
    page.fill("#address", address)
    page.fill("#token", token)
    page.click("button")
    return page


@pytest.mark.slow
def test_the_badge_shows_a_page_that_is_saved_under_another_spelling(
    running: Running, browser: BrowserContext, site: str
) -> None:
    worker = get_worker(browser)
    base = worker.url.rpartition("/")[0]
    token = create_owner_token(running)
    options = set_options(browser, base, running.url, "not-a-token")
    expect(options.locator("#result")).to_have_attribute("data-result", "failed")
    options.fill("#token", token)
    options.click("button")
    expect(options.locator("#result")).to_have_attribute("data-result", "saved")

    url, other = f"{site}/a?utm_source=mail&b=1", f"{site}/a?b=1&fbclid=x"
    page = browser.new_page()
    page.goto(url)
    popup = browser.new_page()
    popup.goto(f"{base}/popup.html?tab={get_tab(worker, url)['id']}")
    popup.click("#copy")
    expect(popup.locator("#copy")).to_have_text("Copied")
    assert popup.evaluate("navigator.clipboard.readText()") == f"{site}/a?b=1"
    assert running.get("/api/bookmarks").json() == []

    popup.reload()
    expect(popup.locator("#tags")).to_be_focused()
    popup.keyboard.type("one, two")
    popup.keyboard.press("Enter")
    expect(popup.locator("#edit")).to_be_visible()
    [saved] = running.get("/api/bookmarks").json()
    assert (saved["url"], saved["tags"], saved["title"]) == (f"{site}/a?b=1", ["one", "two"], "A page")
    until(lambda: get_tab(worker, url)["badge"] == "✓")

    page.goto(other)
    until(lambda: get_tab(worker, other).get("badge") == "✓")
    assert saved["url"] in get_tab(worker, other)["title"]
    popup.goto(f"{base}/popup.html?tab={get_tab(worker, other)['id']}")
    expect(popup.locator("#saved-as")).to_contain_text(saved["url"])
    popup.fill("#tags", "three")
    popup.keyboard.press("Enter")
    until(lambda: running.get("/api/bookmarks").json()[0]["tags"] == ["one", "two", "three"])

    moved = f"{site}/moved"
    alias = PageAlias(moved, saved["url"], Evidence.REDIRECT)
    running.service.database.write_now(lambda connection: save_aliases(connection, [alias], "2026-01-01"))
    page.goto(moved)
    popup.goto(f"{base}/popup.html?tab={get_tab(worker, moved)['id']}")
    expect(popup.locator("#saved-as")).to_have_text(f"as {saved['url']}")
    popup.fill("#tags", "four")
    popup.keyboard.press("Enter")
    expect(popup.locator("#state")).to_have_text("Tags added")
    [saved] = running.get("/api/bookmarks").json()
    assert saved["tags"] == ["one", "two", "three", "four"]

    page.goto(f"{site}/a?b=2")
    until(lambda: get_tab(worker, f"{site}/a?b=2").get("badge") == "")


def test_pages_beside_a_service_below_a_path_are_savable(browser: BrowserContext) -> None:
    base = get_worker(browser).url.rpartition("/")[0]
    page = browser.new_page()
    page.goto(f"{base}/options.html")
    cases = [
        # why, address, URL, wanted
        ("its own page", "http://127.0.0.1:8000", "http://127.0.0.1:8000/bookmarks", False),
        ("another port", "http://127.0.0.1:8000", "http://127.0.0.1:8001/", True),
        ("its own page below a path", "https://example.com/links/", "https://example.com/links/bookmarks", False),
        ("its start without a slash", "https://example.com/links/", "https://example.com/links", False),
        ("and with a query", "https://example.com/links", "https://example.com/links?q=x#y", False),
        ("another scheme", "https://example.com/links", "http://example.com/links", True),
        ("a page beside the path", "https://example.com/links", "https://example.com/linksammlung", True),
        ("another page of the host", "https://example.com/links", "https://example.com/blog", True),
        ("no page of a site", "https://example.com/links", "chrome://settings/", False),
    ]
    for why, address, url, wanted in cases:
        script = "async ([address, url]) => (await import('/server.js')).isSavable({address}, url)"
        assert page.evaluate(script, [address, url]) is wanted, why


def test_an_extension_needs_a_token(running: Running) -> None:
    origin = {"Origin": "chrome-extension://abc", "Sec-Fetch-Site": "none"}
    token = create_owner_token(running)
    assert running.get("/api/bookmarks", headers=origin).status == 403
    assert running.get("/api/bookmarks", headers=origin, token="wrong").status == 401
    assert running.get("/api/bookmarks", headers=origin, token=token).status == 200
    assert running.get("/bookmarks", headers=origin, token=token).status == 403, "pages are for people"
    foreign = {"Origin": "https://evil.example"}
    assert running.get("/api/bookmarks", headers=foreign, token=token).status == 403
