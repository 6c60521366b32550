"""Follow a site and read it in a real Chromium, with and without JavaScript, and with the keyboard (contract U2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import expect

from canonry.server.service import ServiceOptions
from server.pages.reader import make_posts, show_feed
from server.pages.visitor import FEED, serve_web
from service import serving, until

if TYPE_CHECKING:
    from collections.abc import Generator

    from playwright.sync_api import Browser, Page

    from service import Running

RUNS_JOBS = False
RSS: dict[str, Any] = {"headers": {"Content-Type": "application/rss+xml"}, "body": FEED.format(title="News")}
HOME = '<!doctype html><title>A site</title><link rel=alternate type=application/rss+xml href="/rss">'
WEB = {
    "https://site.test/": {"headers": {"Content-Type": "text/html"}, "body": HOME},
    "https://site.test/rss": RSS,
}


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Generator[Page]:
    """A tab without errors."""
    context = browser.new_context(java_script_enabled=getattr(request, "param", True))
    context.set_default_timeout(60_000)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert not errors


@pytest.mark.slow
@pytest.mark.parametrize("page", [True, False], ids=["with JavaScript", "without JavaScript"], indirect=True)
def test_follow_a_site_read_an_item_and_save_it(page: Page, sqlite_url: str) -> None:
    with serve_web(WEB) as web, serving(sqlite_url, ServiceOptions(), client=web.client) as running:
        page.goto(f"{running.url}/read")
        page.get_by_role("link", name="Follow a feed").click()
        page.get_by_label("URL").fill("site.test")
        page.get_by_role("button", name="Follow").click()
        expect(page.locator("[data-notice=followed]")).to_be_visible()
        expect(page.locator(".result")).to_have_text("https://site.test/rss")
        page.get_by_role("link", name="News").click()
        row = page.locator(".item")
        if not page.evaluate("() => typeof htmx === 'object'"):  # with it, the page looks for items by itself
            until(lambda: running.get("/api/items").json())
            page.reload()
        expect(row).to_have_count(1)
        page.get_by_role("link", name="Unread items").click()
        expect(page.get_by_role("link", name="One", exact=True)).to_have_attribute("href", "https://feed.test/1")
        page.get_by_role("button", name="Save: One").click()
        expect(page.get_by_role("button", name="Unsave: One")).to_be_visible()
        page.get_by_role("button", name="Mark read: One").click()
        # Leaving the page before the answer could cancel the request.
        expect(page.get_by_role("button", name="Mark read: One")).to_have_count(0)
        page.goto(f"{running.url}/read?state=read")
        expect(row).to_have_count(1)
        page.get_by_role("link", name="★ in your library").click()
        expect(page.get_by_label("Title")).to_have_value("One")


def test_keys_move_open_mark_and_save(page: Page, running: Running) -> None:
    show_feed(running, "news", make_posts("news", 1, 2, 3))
    page.context.route("https://news.test/**", lambda route: route.fulfill(body="An article"))
    page.goto(f"{running.url}/read")
    rows = page.locator(".item")
    page.keyboard.press("j")
    expect(page.locator("#open-1")).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("j")  # stays at the last
    expect(page.locator("#open-3")).to_be_focused()
    page.keyboard.press("k")
    expect(rows.nth(1)).to_have_class("item is-current")
    page.keyboard.press("m")
    expect(rows.nth(1)).to_have_class("item is-read is-current")
    page.keyboard.press("m")
    expect(rows.nth(1)).to_have_class("item is-current")
    page.keyboard.press("s")
    expect(page.get_by_role("button", name="Unsave: Post 2 of news")).to_be_visible()
    assert [each["title"] for each in running.get("/api/bookmarks").json()] == ["Post 2 of news"]
    page.keyboard.press("j")
    with page.context.expect_page() as opened:
        page.keyboard.press("o")
    expect(opened.value.locator("body")).to_have_text("An article")
    assert opened.value.evaluate("() => window.opener") is None
    expect(rows.nth(2)).to_have_class("item is-read is-current")

    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.get_by_label("Use these keys in this browser").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    expect(rows.nth(2)).to_have_class("item is-read is-current")
    page.reload()
    page.keyboard.press("j")
    expect(page.locator(".is-current")).to_have_count(0)
    page.get_by_role("button", name="Keyboard").click()
    page.get_by_label("Use these keys in this browser").check()
    page.get_by_role("button", name="Close").click()
    page.get_by_label("Words in titles and links").focus()
    page.keyboard.type("jmso")
    expect(page.locator(".empty")).to_be_visible()
    expect(page.get_by_label("Words in titles and links")).to_have_value("jmso")


def test_a_click_on_a_title_marks_it_as_read_and_all_can_be_marked_and_undone(page: Page, running: Running) -> None:
    show_feed(running, "news", make_posts("news", 1, 2, 3), folder="daily")
    show_feed(running, "blog", make_posts("blog", 4))
    page.context.route("https://news.test/**", lambda route: route.fulfill(body="An article"))
    page.goto(f"{running.url}/read")
    with page.context.expect_page():
        page.get_by_role("link", name="Post 1 of news").click()
    expect(page.locator(".item.is-read")).to_have_count(1)
    page.get_by_label("Words in titles and links").fill("news")
    expect(page.locator(".item")).to_have_count(2)
    page.get_by_role("button", name="Mark all of these read").click()
    expect(page.locator("[data-notice=all-read]")).to_be_visible()
    expect(page.locator(".empty")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".item")).to_have_count(2)
    page.get_by_role("link", name="All feeds").click()
    expect(page.locator(".item")).to_have_count(3)


def test_the_help_is_accessible_and_the_navigation_is_one_row_on_a_phone(browser: Browser, running: Running) -> None:
    show_feed(running, "news", make_posts("news", 1))
    context = browser.new_context(bypass_csp=True, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(f"{running.url}/read")
    tops = page.eval_on_selector_all(".top a, .top .menu", "all => all.map(each => each.getBoundingClientRect())")
    inside = [box for box in tops if box["width"] and box["y"] < 48]
    assert len(inside) == 6 and all(box["right"] <= 390 for box in inside)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    axe: Any = Axe()
    response = axe.run(page, options={"resultTypes": ["violations"]}).response
    assert [each["id"] for each in response["violations"]] == []
    context.close()
