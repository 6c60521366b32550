"""Pages in a real Chromium: every flow with and without JavaScript, axe in light and dark mode, a phone's width."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import expect

import crawl_server
from canonry.core.keys import Item
from canonry.core.scope import Verdict
from canonry.crawler.crawl_options import CrawlOptions
from canonry.crawler.pages import PageLink
from canonry.crawler.reasons import CrawlFailure, CrawlFailureKind, SkipReason
from canonry.crawler.results import PageResult, PageState, PageUrl
from canonry.errors import FailureKind
from canonry.feeds.item_states import ItemStateStore
from canonry.feeds.webhook_store import WebhookStore
from canonry.net.engine import PageFailure
from canonry.server.service import ServiceOptions
from server.pages.reader import make_posts, show_feed
from server.pages.visitor import FEED, add_user, create_owner_token, run_elsewhere, serve_web
from service import serving, until

if TYPE_CHECKING:
    from collections.abc import Generator

    from playwright.sync_api import Browser, Page

    from service import Running

GIVEN = "https://Example.com/a?utm_source=mail&b=1"
PHONE = {"width": 390, "height": 800}
NOTE_CLOSED_STREAM = (
    "document.addEventListener('htmx:sseClose', (event) => { document.body.dataset.closedStream = event.detail.type })"
)
FLOWS = pytest.mark.parametrize("page", ["with JavaScript", "without JavaScript"], indirect=True)


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Generator[Page]:
    """A tab that complains about everything that goes wrong in it."""
    is_scripted = getattr(request, "param", "with JavaScript") == "with JavaScript"
    context = browser.new_context(java_script_enabled=is_scripted)
    context.set_default_timeout(180_000)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda message: complaints.append(message.text) if "Content Security Policy" in message.text else None,
    )
    yield page
    context.close()
    assert not complaints


def knows_scripts(page: Page) -> bool:
    """Playwright looks into the page also where that runs no script of its own."""
    return bool(page.evaluate("() => typeof htmx") == "object")


def test_a_double_click_sends_a_form_once(page: Page, running: Running) -> None:
    page.goto(f"{running.url}/account")
    page.get_by_label("Name of a new token").fill("phone")
    page.get_by_role("button", name="Create token").dblclick()
    expect(page.locator("#token")).to_be_visible()
    page.goto(f"{running.url}/account")
    expect(page.get_by_role("row", name="phone")).to_have_count(1)


def test_requests_of_htmx_that_fail_are_reported_until_one_succeeds(page: Page, running: Running) -> None:
    page.goto(f"{running.url}/add")
    url, failure = page.get_by_label("URL", exact=True), page.get_by_role("alert")
    page.context.set_offline(True)
    url.press_sequentially("https://example.com/")
    expect(failure).to_contain_text("did not answer")
    page.context.set_offline(False)
    cookies = page.context.cookies()
    page.context.clear_cookies()
    url.fill("https://example.com/a")
    expect(failure).to_contain_text("form has expired")
    page.context.add_cookies([{**each} for each in cookies])  # type: ignore[typeddict-item]
    url.fill("https://example.com/b")
    expect(page.locator("#preview .result")).to_have_text("https://example.com/b")
    expect(failure).to_have_count(0)


@FLOWS
def test_a_form_that_is_sent_after_the_end_of_the_session_can_be_sent_again(page: Page, running: Running) -> None:
    token = add_user(running, "ada")
    until(lambda: running.get("/api/bookmarks").status == 401)
    page.goto(f"{running.url}/signin?next=/add")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("URL", exact=True).fill("https://example.com/")
    page.get_by_label("Description").fill("typed for an hour")
    page.context.clear_cookies(name="canonry_session")
    page.get_by_role("button", name="Save").click()
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Sign in in a new tab").click()
    opened.value.get_by_label("Token").fill(token)
    opened.value.get_by_role("button", name="Sign in").click()
    opened.value.wait_for_url(f"{running.url}/")
    page.reload()
    page.wait_for_url("**/bookmarks?notice=added*")
    [saved] = running.get("/api/bookmarks", token=token).json()
    assert saved["description"] == "typed for an hour"


@FLOWS
def test_add_with_the_exact_toggle_then_edit_delete_and_undo(page: Page, running: Running) -> None:
    page.goto(f"{running.url}/")
    page.get_by_role("link", name="Save", exact=True).click()
    page.get_by_label("URL", exact=True).fill(GIVEN)
    page.get_by_label("Title").fill("Typed by hand")
    preview = page.locator("#preview")
    scripted = knows_scripts(page)
    if not scripted:
        page.get_by_role("button", name="Preview").click()
    expect(preview.locator(".result")).to_have_text("https://example.com/a?b=1")
    expect(preview).to_contain_text("strip_params")
    page.get_by_label("Save exactly this URL").check()
    if not scripted:
        page.get_by_role("button", name="Preview").click()
    expect(preview.locator(".result")).to_have_text(GIVEN)
    expect(page.get_by_label("Title")).to_have_value("Typed by hand")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("[data-notice=added]")).to_be_visible()
    expect(page.get_by_role("link", name="Typed by hand", exact=True)).to_have_attribute("href", GIVEN)

    page.get_by_role("link", name="Edit Typed by hand").click()
    expect(page.get_by_label("Save exactly this URL")).to_be_checked()
    page.get_by_label("Save exactly this URL").uncheck()
    page.get_by_label("Tags").fill("one, two")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("link", name="Typed by hand", exact=True)).to_have_attribute(
        "href", "https://example.com/a?b=1"
    )
    expect(page.locator(".row-facts").get_by_role("link", name="#two")).to_be_visible()

    page.get_by_label("More about Typed by hand").click()
    page.get_by_role("button", name="Delete Typed by hand").click()
    expect(page.locator("[data-notice=deleted]")).to_be_visible()
    assert running.get("/api/bookmarks").json() == []
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("link", name="Typed by hand", exact=True)).to_be_visible()


@FLOWS
def test_saving_a_known_url_opens_its_bookmark(page: Page, running: Running) -> None:
    running.put("https://example.com/a?b=1", title="The first", tags=["one"])
    page.goto(f"{running.url}/add")
    page.get_by_label("URL", exact=True).fill(GIVEN)
    page.get_by_label("Description").fill("Typed")
    page.get_by_label("Tags").fill("two")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("[data-notice=known]")).to_be_visible()
    expect(page.get_by_label("Title")).to_have_value("The first")
    expect(page.get_by_label("Tags")).to_have_value("one, two")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("[data-notice=changed]")).to_be_visible()
    [saved] = running.get("/api/bookmarks").json()
    assert (saved["tags"], saved["description"]) == (["one", "two"], "Typed")


def test_the_preview_follows_the_typing_and_names_twins(page: Page, running: Running) -> None:
    running.put("https://example.com/a?b=1", title="The first")
    page.goto(f"{running.url}/add")
    page.get_by_label("URL", exact=True).press_sequentially("https://example.com/a?b=1", delay=5)
    expect(page.locator("#preview")).to_contain_text("Already saved: The first")
    page.get_by_label("URL", exact=True).fill("javascript:alert(1)")
    expect(page.locator("#preview .error")).to_be_visible()


@FLOWS
def test_duplicates_are_merged_and_undone(page: Page, running: Running) -> None:
    running.put("https://example.com/a?b=1", title="First")
    running.put(GIVEN, "?exact_url=true", title="Second", tags=["x"])
    page.goto(f"{running.url}/duplicates")
    page.get_by_label("Keep Second").check()
    page.get_by_role("button", name="Merge").click()
    expect(page.locator("[data-notice=merged]")).to_be_visible()
    assert [kept["title"] for kept in running.get("/api/bookmarks").json()] == ["Second"]
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("[data-notice=undone]")).to_be_visible()
    assert len(running.get("/api/bookmarks").json()) == 2


@pytest.mark.slow
@FLOWS
def test_an_import_shows_its_progress(page: Page, running: Running) -> None:
    rows = [{"url": f"https://example.com/{number}?utm_source=x", "title": f"n{number}"} for number in range(3000)]
    content = json.dumps([*rows, {"url": "javascript:alert(1)", "title": "no"}]).encode()
    page.goto(f"{running.url}/import")
    chooser = page.get_by_label("File", exact=True)
    chooser.set_input_files({"name": "b.json", "mimeType": "application/json", "buffer": content})
    page.get_by_role("button", name="Import file").click()
    page.wait_for_url("**/imports/1")
    progress = page.locator("#progress")
    expect(progress.get_by_role("progressbar")).to_be_visible()
    if not knows_scripts(page):
        until(lambda: running.get("/api/imports/1").json()["finished_at"])
        if page.get_by_role("link", name="Refresh").is_visible():
            page.get_by_role("link", name="Refresh").click()
    expect(progress).to_contain_text("3,000 new, 0 already saved, 1 refused")
    page.get_by_role("link", name="Refused 1").click()
    expect(progress.locator(".error")).to_have_count(1)
    with page.expect_download() as download:
        page.goto(f"{running.url}/import")
        page.get_by_role("link", name="JSON", exact=True).click()
    assert len(json.loads(download.value.path().read_text())) == 3000


@FLOWS
def test_search_and_filters(page: Page, running: Running) -> None:
    running.put("https://example.com/1", title="Apples", tags=["fruit"])
    running.put("https://example.com/2", title="Pears")
    page.goto(f"{running.url}/bookmarks")
    page.get_by_label("Search").fill("apples")
    if not knows_scripts(page):
        page.get_by_role("button", name="Search").click()
    expect(page.locator(".rows h2")).to_have_text(["Apples"])
    expect(page.locator(".matches")).to_have_text("1 of 2 match")
    page.get_by_role("link", name="#fruit").click()
    expect(page.get_by_label("Search")).to_have_value("tag:fruit")


@FLOWS
def test_the_box_of_the_start_page_finds_a_saved_page(page: Page, running: Running) -> None:
    running.put("https://example.com/a?b=1", title="The first")
    page.goto(f"{running.url}/")
    page.get_by_label("Paste any URL").fill(GIVEN)
    if not knows_scripts(page):
        page.get_by_role("button", name="Find").click()
    expect(page.locator("#found [data-found=bookmark]")).to_contain_text("under another URL")
    page.get_by_label("Paste any URL").fill("https://example.com/new?utm_source=x")
    if not knows_scripts(page):
        page.get_by_role("button", name="Find").click()
    page.locator("#offers").get_by_role("link", name="Save").click()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("[data-notice=added]")).to_be_visible()


@FLOWS
def test_many_bookmarks_are_changed_and_restored(page: Page, running: Running) -> None:
    for number in range(3):
        running.put(f"https://example.com/{number}", title=f"Page {number}", tags=["old"])
    before = running.get("/api/bookmarks").json()
    page.goto(f"{running.url}/bookmarks")
    expect(page.get_by_role("button", name="Add tags")).to_be_hidden()
    page.get_by_label("Select Page 0").check()
    page.get_by_label("Select Page 2").check()
    page.get_by_label("Tags or folder").fill("new")
    page.get_by_role("button", name="Add tags").click()
    expect(page.locator("[data-notice=edited]")).to_contain_text("2 bookmarks tagged.")
    expect(page.locator(".row-facts").get_by_role("link", name="#new")).to_have_count(2)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("[data-notice=undone]")).to_be_visible()
    assert running.get("/api/bookmarks").json() == before
    page.get_by_label("Select all").check()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator("[data-notice=edited]")).to_contain_text("3 bookmarks moved to the trash.")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".rows h2")).to_have_count(3)


@FLOWS
def test_the_theme_is_chosen(page: Page, running: Running) -> None:
    page.goto(f"{running.url}/account")
    page.get_by_label("Dark").check()
    page.get_by_label("Time zone").fill("Asia/Tokyo")
    page.locator("[aria-labelledby=display-title]").get_by_role("button", name="Save").click()
    expect(page.locator("[data-notice=saved]")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("() => getComputedStyle(document.documentElement).colorScheme") == "dark"
    expect(page.locator("footer")).to_contain_text("Asia/Tokyo")


def test_twelve_bookmarks_fit_on_a_screen(browser: Browser, running: Running) -> None:
    for number in range(15):
        running.put(
            f"https://rows.example/{number}", title=f"Row {number}", description="Words", tags=["one"], folder="a"
        )
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(f"{running.url}/bookmarks")
    bottoms = (
        "() => [...document.querySelectorAll('.row-line')].filter(e => e.getBoundingClientRect().bottom <= 800).length"
    )
    count = page.evaluate(bottoms)
    context.close()
    assert count >= 12


@FLOWS
def test_the_search_for_a_feed_shows_its_progress(page: Page, sqlite_url: str) -> None:
    feed = {"headers": {"Content-Type": "application/rss+xml"}, "body": FEED.format(title="News")}
    slow = {**feed, "delay_ms": 400}
    with (
        serve_web({"https://feed.test/rss?utm_source=x": slow, "https://feed.test/rss": slow}) as web,
        serving(sqlite_url, client=web.client) as running,
    ):
        page.goto(f"{running.url}/canonicalize")
        page.get_by_label("Feed URL").fill("https://feed.test/rss?utm_source=x")
        if knows_scripts(page):
            page.evaluate(NOTE_CLOSED_STREAM)
        page.get_by_role("button", name="Find").click()
        outcome = page.locator("#outcome")
        if knows_scripts(page):
            expect(outcome).to_contain_text("Searching")
            expect(outcome.locator(".progress-events li").first).to_contain_text("fetching")
        expect(outcome.locator(".result")).to_have_text("https://feed.test/rss")
        expect(outcome.locator(".variants li").first).to_be_visible()
        if knows_scripts(page):  # a stream that is not closed would be opened again, and search once more
            expect(page.locator("body")).to_have_attribute("data-closed-stream", "message")


@FLOWS
def test_statistics_and_a_rekey_of_bookmarks(page: Page, running: Running) -> None:
    for _ in range(2):
        running.put("https://www.example.com/a?utm_source=x", title="A")
    page.goto(f"{running.url}/admin")
    expect(page.locator(".numbers > div", has_text="Duplicates avoided").locator("dd")).to_have_text("1")
    expect(page.get_by_role("img", name="Duplicates avoided")).to_be_visible()
    page.get_by_text("Duplicates avoided as a table").click()
    expect(page.locator("details[open] table")).to_be_visible()
    page.get_by_label("Policy").select_option("feed-aggressive@1")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Preview")
    page.get_by_role("button", name="Rekey all bookmarks").click()
    page.wait_for_url("**/admin/renormalizations/1")
    if not knows_scripts(page):
        until(lambda: running.get("/api/admin/renormalizations/1").json()["finished_at"])
        page.reload()
    expect(page.locator("#progress")).to_contain_text("Done.")
    assert running.get("/api/bookmarks").json()[0]["url"] == "https://example.com/a"


@pytest.mark.slow
@FLOWS
def test_a_crawl_shows_its_progress(page: Page, sqlite_url: str) -> None:
    with (
        crawl_server.serving(crawl_server.tree(70)) as site,
        serving(sqlite_url, client=crawl_server.client) as running,
    ):
        site.pages["/robots.txt"] = "User-agent: *\nCrawl-delay: 0.15"
        page.goto(f"{running.url}/")
        page.get_by_text("More", exact=True).click()
        page.get_by_role("link", name="Crawls").click()
        page.get_by_label("Start page").fill("http://10.0.0.1/")
        page.get_by_label("Engine").select_option("http")
        page.get_by_role("button", name="Crawl", exact=True).click()
        expect(page.locator("#seed-error")).to_contain_text("10.0.0.1 is a private address")
        page.get_by_label("Start page").fill(f"{site.url}/0")
        page.keyboard.press("Enter")
        page.wait_for_url("**/crawls/1")
        progress = page.locator("#progress")
        scripted = knows_scripts(page)
        if scripted:
            read = progress.locator(".numbers > div", has_text="Read").locator("dd")
            expect(read).not_to_have_text("0")
            expect(page.locator("#graph svg .node").nth(2)).to_be_visible()
            page.get_by_text("Link graph as a table").click()
            rows = page.locator("#graph-table tbody tr").count()
            page.get_by_role("button", name="Stop crawl 1").focus()
            expect(page.locator("#graph-table tbody tr").nth(rows + 2)).to_be_visible()  # it stays open, and grows
            expect(page.get_by_role("button", name="Stop crawl 1")).to_be_focused()
        else:
            until(lambda: running.get("/api/crawls/1").json()["pages"]["done"] > 3)
            page.get_by_role("link", name="Refresh").click()
            expect(page.locator("#graph svg .node").nth(2)).to_be_visible()
        page.get_by_role("button", name="Stop crawl 1").click()
        expect(progress).to_contain_text("pages not read")
        site.pages["/robots.txt"] = ""
        page.get_by_role("button", name="Resume crawl 1").click()
        expect(progress).to_contain_text("running")
        if not scripted:
            until(lambda: running.get("/api/crawls/1").json()["state"] == "done")
            page.reload()
        expect(progress).to_contain_text("70 pages")
        expect(progress.locator(".tag").first).to_have_text("done")
        expect(page.locator("#graph svg .node")).to_have_count(70)
        expect(page.get_by_role("img", name="70 pages of")).to_be_visible()
        with page.expect_download() as download:
            page.get_by_role("link", name="Download as graphml").click()
        assert download.value.path().read_text().startswith("<?xml")
        page.get_by_label("Delete crawl 1 …").click()
        page.get_by_role("button", name="Delete crawl 1 and its pages").click()
        expect(page.locator("[data-notice=removed]")).to_be_visible()


@FLOWS
def test_sign_in_and_out(page: Page, sqlite_url: str) -> None:
    with serving(sqlite_url, ServiceOptions(require_token=True)) as running:
        token = create_owner_token(running)
        page.goto(f"{running.url}/duplicates")
        page.wait_for_url("**/signin?next=%2Fduplicates")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_be_visible()
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="Duplicates", exact=True)).to_be_visible()
        [session] = [each for each in page.context.cookies() if each.get("name") == "canonry_session"]
        assert session.get("httpOnly") and session.get("sameSite") == "Lax"
        page.get_by_text("More", exact=True).click()
        page.get_by_role("link", name="API", exact=True).click()
        expect(page.get_by_role("heading", name="API", exact=True)).to_be_visible()
        page.get_by_text("More", exact=True).click()
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/signin")
        page.goto(f"{running.url}/")
        page.wait_for_url("**/signin")


def test_the_bookmarklet_opens_a_filled_form(page: Page, running: Running) -> None:
    page.goto(f"{running.url}/bookmarklet")
    script = page.get_by_role("link", name="Save in canonry").get_attribute("href") or ""
    with web_page(page, "A page & more") as elsewhere:
        with page.expect_popup() as popup:
            page.evaluate(script.removeprefix("javascript:"))
        expect(popup.value.get_by_label("URL", exact=True)).to_have_value(elsewhere)
        expect(popup.value.get_by_label("Title")).to_have_value("A page & more")
        assert running.get("/api/bookmarks").json() == []
        popup.value.get_by_role("button", name="Save").click()
        expect(popup.value.locator("[data-notice=added]")).to_be_visible()


class web_page:  # noqa: N801
    """A page of somebody else that the tab is at."""

    def __init__(self, page: Page, title: str) -> None:
        self._page, self._title = page, title
        self.url = "http://evil.test:8123/page?x=1"

    def __enter__(self) -> str:
        body = f"<!doctype html><title>{self._title.replace('&', '&amp;')}</title>"
        self._page.route(self.url, lambda route: route.fulfill(body=body, content_type="text/html"))
        self._page.goto(self.url)
        return self.url

    def __exit__(self, *_: object) -> None:
        self._page.unroute(self.url)


def fill(running: Running) -> None:
    """Something of everything that pages show."""
    running.put(
        GIVEN,
        title="A page",
        tags=["one", "two words"],
        folder="a/b",
        to_read=True,
        private=True,
        description="Words",
        archive_urls=["https://archive.test/1"],
    )
    running.put(GIVEN, "?exact_url=true", title="Its twin")
    running.put("https://bit.ly/abc", title="Short")
    running.put("https://example.com/" + "long-segment/" * 40 + "?" + "x" * 200)
    running.put("https://example.com/gone", title="Gone " + "w" * 300)
    running.ask("DELETE", "/api/bookmarks/5")
    running.put("https://example.com/m")
    running.put("https://Example.com/m", "?exact_url=true")
    group = next(
        each["id"]
        for each in running.get("/api/duplicates").json()
        if any(kept["url"].endswith("/m") for kept in each["bookmarks"])
    )
    running.ask("POST", f"/api/duplicates/{group}/merge", {})
    running.ask(
        "POST", "/api/import", {"content": "url\nhttps://example.com/i\njavascript:alert(1)\n" + "x" * 300 + "\n"}
    )
    until(lambda: running.get("/api/imports/1").json()["finished_at"])
    running.ask("POST", "/api/admin/renormalizations", {"policy": "bookmark@1"})
    until(lambda: running.get("/api/admin/renormalizations/1").json()["finished_at"])
    fill_crawls(running)
    fill_feeds(running)
    statistics, now = running.service.bookmarks.statistics, datetime.now(UTC)
    for day in range(7):
        for name, count in (
            ("put:created", 12345 + day),
            ("put:no_change", day),
            ("cache:hit", 5),
            ("cache:miss", day),
            ("latency:20", 9),
            ("latency:more", 1),
            ("expansion:failed", 2),
        ):
            statistics.count(name, now - timedelta(days=day), count)


def fill_feeds(running: Running) -> None:
    """A feed that works and one that fails, in folders, with long titles, an item of both, a webhook."""
    shared = make_posts("news", 1)
    show_feed(running, "news", [*shared, *make_posts("news", 2, 3), Item("x", GIVEN, "W" * 300)], folder="a/b")
    failing = show_feed(running, "blog", [*shared, Item("y", "", "")], folder="z" * 200, title="w" * 300)
    feeds, now = running.service.feeds, datetime.now(UTC)

    async def fill() -> None:
        reason = "answered 404 " + "e" * 200
        await feeds.fail(failing, reason, now, kind=FailureKind.DNS, next_check_at=now + timedelta(hours=1))
        await feeds.add("https://paused.test/feed", now)
        await feeds.change(3, {"paused": True, "headers": {"X-Key": "x"}})
        await feeds.add("https://new.test/feed", now)
        await ItemStateStore(feeds.database).set_read(0, [2], is_read=True)
        await WebhookStore(feeds.database).add("https://hooks.test/" + "y" * 200, now)

    run_elsewhere(fill())


def fill_crawls(running: Running) -> None:
    """One that is done, with failures and long names; one that runs, and one whose start page leads away."""
    crawls, now = running.service.crawls, datetime.now(UTC)
    seed, options = "https://site.example/", CrawlOptions(engine="http")

    async def fill() -> None:
        for number in range(3):
            crawl = await crawls.start(PageUrl(seed, seed), "site.example", options, now)
            [start] = (await crawls.record_and_lease(crawl.id, "me", [], options, want=1, now=now)).leased
            names = ("a", "b", "c/" + "long-segment/" * 20, "x<y>")
            found = tuple(PageUrl(f"{seed}{name}", f"{seed}{name}") for name in names)
            links = tuple(PageLink(each.url, each.url, "text", Verdict.CRAWL, "the same site") for each in found)
            page = PageResult(start, PageState.DONE, seed, 200, seed, "Home " + "w" * 200, "http")
            page = replace(page, links=links, found=found, followed=len(links))
            if number == 2:
                target = "https://other.example/" + "y" * 200
                await crawls.fail(crawl.id, CrawlFailure(CrawlFailureKind.START_MOVED, target=target), now)
                continue
            leased = (await crawls.record_and_lease(crawl.id, "me", [page], options, want=3, now=now)).leased
            states = (PageState.DONE, PageState.FAILED, PageState.SKIPPED)
            reasons = (None, None, SkipReason.ROBOTS_DISALLOWED)
            failure = PageFailure(FailureKind.TIMEOUT, "no answer " + "e" * 100)
            done = [
                PageResult(each, state, each.url, 200, each.url, engine="http", failure=failure, skip_reason=reason)
                for each, state, reason in zip(leased, states, reasons, strict=True)
            ]
            await crawls.record_and_lease(crawl.id, "me", done, options, want=1, now=now)
        await crawls.stop(1, now)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, fill()).result()


LONG = (
    "HTTPS%3A%2F%2FM.YouTube.com%3A443%2F%2Fshorts%2FdQw4w9WgXcQ%2F%3Futm_source%3Dnewsletter%26si%3Dabc123%26t%3D42%23"
    + "x" * 200
)
PATHS = ["/", "/bookmarks", "/bookmarks?notice=deleted&about=5", "/bookmarks?trash=1", "/bookmarks?q=nothing", "/add", f"/add?url={LONG}", "/bookmarks/1/edit", "/bookmarks/5/edit", "/read", "/read?state=all", "/read?q=nothing", "/read?state=saved&notice=all-read", "/feeds", "/feeds/1", "/feeds/2", "/feeds/4", "/feeds/add", "/feeds/webhooks", "/explain", f"/explain?url={LONG}", "/explain?url=javascript%3Ax", "/resolve", "/canonicalize", "/duplicates", "/import", "/imports/1", "/admin", "/admin?days=1", "/admin/renormalizations/1", "/crawls", "/crawls?notice=removed&seed=https%3A%2F%2Fexample.com%2F", "/crawls/1", "/crawls/2", "/crawls/3", "/about", "/tour", "/bookmarklet", "/rules", "/admin/renormalize?policy=bookmark@1", "/reference", "/account", "/settings", "/bookmarks?notice=nothing", f"/?q={LONG}", "/?q=page", "/?q=nothing", "/nope"]  # fmt: skip


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    with serving(f"sqlite:///{tmp_path_factory.mktemp('full') / 'x.db'}") as running:
        fill(running)
        yield running


def violations(page: Page) -> list[Any]:
    return told(Axe().run(page, options={"resultTypes": ["violations"]}).response)


def told(response: Any) -> list[Any]:
    return [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in response["violations"]]


@pytest.mark.slow
def test_axe_finds_no_violations(browser: Browser, full: Running) -> None:
    context = browser.new_context(bypass_csp=True)  # for axe, which is put into the page
    page = context.new_page()
    found: dict[str, list[Any]] = {}

    def look(name: str) -> None:
        page.emulate_media(color_scheme="light")
        wrong = violations(page)
        page.emulate_media(color_scheme="dark")
        # The rest is the same; axe is in the page by now.
        wrong += told(page.evaluate("() => axe.run({runOnly: ['color-contrast'], resultTypes: ['violations']})"))
        if wrong:
            found[name] = wrong

    for path in PATHS:
        page.goto(f"{full.url}{path}")
        page.evaluate("() => document.querySelectorAll('details').forEach(each => { each.open = true })")
        # Long lists and tables repeat themselves: their beginning tells as much as all of it.
        repeats = ".card:nth-of-type(n + 11), tr:nth-child(n + 11)"
        page.evaluate("(repeats) => document.querySelectorAll(repeats).forEach(each => each.remove())", repeats)
        look(path)
    page.goto(f"{full.url}/add")
    page.get_by_label("URL", exact=True).fill("https://exa mple/")
    page.get_by_label("Archived copies").fill("javascript:x")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".error").first).to_be_visible()
    look("errors")
    context.close()
    assert not found


@pytest.mark.slow
def test_axe_finds_no_violations_at_sign_in(browser: Browser, sqlite_url: str) -> None:
    with serving(sqlite_url) as running:
        token = add_user(running, "ada")
        until(lambda: running.get("/api/bookmarks").status == 401)
        for scheme in ("light", "dark"):
            context = browser.new_context(color_scheme=scheme, bypass_csp=True, viewport=PHONE)  # type: ignore[arg-type]
            page = context.new_page()
            page.goto(f"{running.url}/signin")
            assert violations(page) == []
            page.get_by_label("Token").fill("wrong")
            page.get_by_role("button", name="Sign in").click()
            assert violations(page) == []
            page.get_by_label("Token").fill(token)
            page.get_by_role("button", name="Sign in").click()
            page.get_by_text("More", exact=True).click()
            expect(page.get_by_role("button", name="Sign out ada")).to_be_visible()
            assert violations(page) == []
            context.close()


def test_a_line_of_tags_that_is_cut_off_ends_with_an_ellipsis(browser: Browser, running: Running) -> None:
    """Only inline text in a block gets one: https://www.w3.org/TR/css-overflow-3/#text-overflow"""
    running.put("https://example.com/", title="T", tags=[f"a-long-tag-{number}" for number in range(9)])
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(f"{running.url}/bookmarks")
    line = page.locator(".row-facts")
    assert line.evaluate("line => line.scrollWidth > line.clientWidth")
    for name, value in (("display", "block"), ("overflow-x", "hidden"), ("text-overflow", "ellipsis")):
        expect(line).to_have_css(name, value)
    for tag in line.locator("a").all():
        expect(tag).to_have_css("display", "inline")
    context.close()


@pytest.mark.slow
def test_no_page_is_wider_than_a_phone(browser: Browser, full: Running) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    wide: dict[str, int] = {}
    for path in PATHS:
        page.goto(f"{full.url}{path}")
        page.evaluate("() => document.querySelectorAll('details').forEach(each => { each.open = true })")
        if (width := page.evaluate("() => document.documentElement.scrollWidth")) > 390:
            wide[path] = width
    context.close()
    assert not wide


@pytest.mark.parametrize("path", ["/imports/1", "/rules", "/settings"])
def test_rows_of_a_table_are_stacked_on_a_phone(page: Page, full: Running, path: str) -> None:
    """A column that has to be scrolled to, or names that break anywhere, are hard to read."""
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    page.goto(f"{full.url}{path}")
    for table in page.locator("main table").all():
        wide, visible = table.evaluate("each => [each.scrollWidth, each.parentElement.clientWidth]")
        assert wide <= visible
        tops = [box["y"] for cell in table.locator("tbody tr:first-child > *").all() if (box := cell.bounding_box())]
        assert tops == sorted(set(tops)), "below each other"


def test_a_bookmark_can_be_added_with_the_keyboard(page: Page, running: Running) -> None:
    page.goto(f"{running.url}/bookmarks")  # the start page has its box in focus
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.goto(f"{running.url}/add")
    page.get_by_label("URL", exact=True).focus()
    page.keyboard.type("https://example.com/keys")
    for _ in range(20):
        if page.evaluate("() => document.activeElement.textContent") == "Save":
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("[data-notice=added]")).to_be_visible()
