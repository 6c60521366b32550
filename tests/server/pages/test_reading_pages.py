"""The reading list over HTTP, as a browser without JavaScript uses it (contract U2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from canonry.core.keys import Item
from server.pages.reader import make_posts, show_feed
from server.pages.visitor import Visitor, add_user
from service import serving, until

if TYPE_CHECKING:
    from server.pages.visitor import Page
    from service import Running

RUNS_JOBS = False


@pytest.fixture
def filled(running: Running) -> Running:
    """`news` in `daily/world` has posts 1 to 3, `blog` post 3 of news as well, and two of its own; ids are 1 to 5."""
    show_feed(running, "news", make_posts("news", 1, 2, 3), folder="daily/world", days_ago=2)
    show_feed(running, "blog", [*make_posts("news", 3), *make_posts("blog", 1, 2)], days_ago=1)
    return running


def titles(page: Page) -> list[str]:
    return [node.text() for node in page.tree.css(".item h2 .open")]


def describe(page: Page, item_id: int) -> str:
    """The line below the title of an item."""
    [node] = page.tree.css(f"#item-{item_id} .about")
    return " ".join(node.text().split())


def links_of(page: Page, item_id: int) -> list[str]:
    return [node.attributes["href"] or "" for node in page.tree.css(f"#item-{item_id} a")]


def press(visitor: Visitor, page: Page, item_id: int, action: str) -> Page:
    """Press a button of an item, as the form of the page sends it."""
    paths = [node.attributes["formaction"] for node in page.tree.css(f"#item-{item_id} button")]
    assert f"/read/{item_id}/{action}" in paths
    return visitor.follow(visitor.post(f"/read/{item_id}/{action}", {"back": page.value("back")}))


def test_each_item_once_newest_first_with_its_feeds(filled: Running, visitor: Visitor) -> None:
    page = visitor.get("/read")
    assert titles(page) == ["Post 1 of blog", "Post 2 of blog", "Post 1 of news", "Post 2 of news", "Post 3 of news"]
    assert "also in: Blog" in describe(page, 3) and "also in" not in describe(page, 1)
    assert links_of(page, 3)[0] == "https://news.test/3"


CASES = [
    # query, titles
    ("?folder=daily", "news 1 news 2 news 3"),
    ("?folder=daily/world", "news 1 news 2 news 3"),
    ("?folder=dail", ""),
    ("?feed=2", "blog 1 blog 2 news 3"),
    ("?feed=99", ""),
    ("?q=POST+blog", "blog 1 blog 2"),
    ("?q=post&folder=daily&state=read", "news 2"),
    ("?state=all&feed=1", "news 1 news 2 news 3"),
    ("?state=saved", "news 1"),
    ("", "blog 1 blog 2 news 1 news 3"),
]


def test_filters_choose_the_items_of_the_list(filled: Running, visitor: Visitor) -> None:
    for query, wanted in CASES:
        if query == "?q=post&folder=daily&state=read":  # from here on, one is read and one is saved
            visitor.post("/read/2/read")
            visitor.post("/read/1/save")
        page = visitor.get(f"/read{query}")
        found = sorted(title.replace("Post ", "").split(" of ")[::-1] for title in titles(page))
        assert " ".join(" ".join(each) for each in found) == wanted, query
        assert page.status == 200
        if not wanted:
            assert page.tree.css_first(".empty a") is not None, "an empty list says what to do"
    assert visitor.get("/read?state=nope").status == 400
    assert visitor.get("/read?cursor=nope").status == 400


def test_marks_and_saves(filled: Running, visitor: Visitor) -> None:
    page = press(visitor, visitor.get("/read"), 1, "read")
    assert "Post 1 of news" not in titles(page)
    page = visitor.get("/read?state=all&q=news")
    page = press(visitor, page, 1, "unread")
    assert page.value("back").startswith("/read?state=all"), "back to the same list"
    page = press(visitor, page, 1, "save")
    [bookmark] = filled.get("/api/bookmarks").json()
    assert (bookmark["url"], bookmark["title"]) == ("https://news.test/1", "Post 1 of news")
    assert f"/bookmarks/{bookmark['id']}/edit" in links_of(page, 1)
    page = press(visitor, page, 1, "unsave")
    assert filled.get("/api/bookmarks").json() == []
    assert len(filled.get("/api/bookmarks?trash=true").json()) == 1
    assert links_of(page, 1)[0] == "https://news.test/1" and not any(
        "/bookmarks/" in link for link in links_of(page, 1)
    )
    assert visitor.post("/read/99/read").status == 404
    assert visitor.post("/read/1/read", {"back": "//evil.test/"}).answer.headers["location"] == "/read#item-1"


def test_a_bookmark_in_another_spelling_is_marked_and_stays(filled: Running, visitor: Visitor) -> None:
    filled.put("https://News.test:443/2?utm_source=x", title="Mine")
    page = visitor.get("/read")
    assert any(link.startswith("/bookmarks/") for link in links_of(page, 2))
    assert not any(link.startswith("/bookmarks/") for link in links_of(page, 1))
    visitor.post("/read/2/save")
    visitor.post("/read/2/unsave")
    assert [each["title"] for each in filled.get("/api/bookmarks").json()] == ["Mine"]


def test_mark_all_of_a_filter_with_undo(filled: Running, visitor: Visitor) -> None:
    page = visitor.get("/read?folder=daily")
    fields = {name: page.value(name) for name in ("folder", "until")}
    show_feed(filled, "news", make_posts("news", 9), days_ago=-0.01)  # arrives after the page was made
    page = visitor.follow(visitor.post("/read/all", fields))
    assert (page.notice, titles(page)) == ("all-read", ["Post 9 of news"])
    assert len(titles(visitor.get("/read"))) == 3
    page = visitor.follow(visitor.post("/read/all/undo", {"folder": "daily"}))
    assert (page.notice, len(titles(page))) == ("undone", 4)
    assert visitor.follow(visitor.post("/read/all/undo")).notice == "nothing-undone"
    visitor.post("/read/all", {"until": "9999-12-31T23:59:59-14:00"})  # not a time of the calendar, then: now
    assert titles(visitor.get("/read")) == ["Post 9 of news"]


def test_pages_follow_each_other(running: Running, visitor: Visitor) -> None:
    show_feed(running, "news", make_posts("news", *range(120)))
    seen: list[str] = []
    path = "/read"
    for _ in range(3):
        page = visitor.get(path)
        seen += titles(page)
        following = page.tree.css_first("a[rel=next]")
        path = "" if following is None else following.attributes["href"] or ""
    assert path == "" and len(set(seen)) == 120
    one = visitor.get("/feeds/1")
    assert len(titles(one)) == 50 and one.tree.css_first("a[rel=next]") is not None


def test_the_list_is_also_a_document_for_readers(filled: Running, visitor: Visitor) -> None:
    page = visitor.get("/read?folder=daily&q=post&state=all")
    links = {node.attributes["type"]: node.attributes["href"] for node in page.tree.css("link[rel=alternate]")}
    atom, feed = links["application/atom+xml"] or "", links["application/feed+json"] or ""
    assert filled.get(atom).text.count("<entry>") == len(titles(page)) == 3
    assert len(filled.get(feed).json()["items"]) == 3
    assert {atom, feed} <= set(page.links), "also for people"


HOSTILE = '"><script>alert(1)</script>'


def test_hostile_items_stay_text(running: Running, visitor: Visitor) -> None:
    items = [
        Item("1", "javascript:alert(1)", f"Title {HOSTILE}"),
        Item("2", "https://user:secret@evil.test/x", "\u202eabc"),
        Item("3", "", HOSTILE, "<b>"),
        Item("4", "data:text/html,x", ""),
    ]
    feed_id = show_feed(running, "evil", items, folder=f"a/{HOSTILE}", title=HOSTILE)
    for path in (
        "/read",
        "/read?state=all&feed=1",
        f"/feeds/{feed_id}",
        "/feeds",
        f"/read?folder={HOSTILE}&q={HOSTILE}",
    ):
        page = visitor.get(path.replace('"', "%22").replace("<", "%3C").replace(">", "%3E"))
        assert page.status == 200
        assert "<script>alert" not in page.text and "secret" not in page.text
        assert not [link for link in page.links if link.lower().startswith(("javascript:", "data:"))]
        assert all((node.attributes.get("src") or "").startswith("/static/") for node in page.tree.css("script"))


def test_every_user_has_own_states_and_only_admins_manage_feeds(sqlite_url: str) -> None:
    with serving(sqlite_url) as running:
        tokens = [add_user(running, "ada", is_admin=True), add_user(running, "ben")]
        until(lambda: running.get("/api/bookmarks").status == 401)
        ada, ben = Visitor(running), Visitor(running)
        for visitor, token in zip((ada, ben), tokens, strict=True):
            assert visitor.post("/signin", {"token": token}).status == 303
        assert "/feeds/add" in ada.get("/read").links and "/feeds/add" not in ben.get("/read").links
        feed_id = show_feed(running, "news", make_posts("news", 1, 2))
        ada.post("/read/1/read")
        ada.post("/read/2/save")
        assert titles(ada.get("/read")) == ["Post 2 of news"]
        assert titles(ben.get("/read")) == ["Post 1 of news", "Post 2 of news"]
        assert titles(ben.get("/read?state=saved")) == []
        assert not any(link.startswith("/bookmarks/") for link in ben.get("/read").links)
        ben.post("/read/all")
        assert titles(ada.get("/read")) == ["Post 2 of news"] and titles(ben.get("/read")) == []
        assert "/feeds/add" not in ben.get("/read").links
        for page in (
            ben.get("/feeds/add"),
            ben.post("/feeds/add", {"url": "https://new.test/"}),
            ben.upload("/feeds/import", "x.opml", b"<opml/>"),
            ben.post(f"/feeds/{feed_id}/settings", {"title": "x"}),
            *(ben.post(f"/feeds/{feed_id}/{each}") for each in ("pause", "resume", "poll", "remove")),
            ben.get("/feeds/webhooks"),
            ben.post("/feeds/webhooks", {"url": "https://new.test/"}),
            *(ben.post(f"/feeds/webhooks/1/{each}") for each in ("test", "resume", "remove")),
        ):
            assert page.status == 403, page.words
        for path in ("/feeds", f"/feeds/{feed_id}"):
            assert not [
                link
                for link in ben.get(path).links
                if link.startswith("/feeds/")
                and link.endswith(("pause", "remove", "add", "webhooks", "settings", "import"))
            ]
        assert ada.get(f"/feeds/{feed_id}").tree.css_first("#settings") is not None
