"""The library over HTTP, without JavaScript: rows, counts, sort, changes of many bookmarks and their undo (U3)."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import insert, select

from canonry.bookmarks.bulk_edits import BulkAction, BulkChange, change_columns
from canonry.bookmarks.library_counts import make_folder_tree
from canonry.bookmarks.site_icons import NO_ICON, find_icon_link, read_icon
from canonry.net.response import Response as WebResponse
from canonry.server.service import ServiceOptions
from canonry.store.schema import bookmarks, favicons
from server.pages.visitor import Visitor, add_user, serve_web
from service import serving, until

if TYPE_CHECKING:
    from server.pages.visitor import Page
    from service import Running

RUNS_JOBS = False
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


def list_titles(page: Page) -> list[str]:
    return [node.text().strip() for node in page.tree.css(".rows h2")]


def load_rows(running: Running) -> list[Any]:
    """Every column of every bookmark."""
    return running.service.database.read_now(
        lambda connection: [tuple(row) for row in connection.execute(select(bookmarks).order_by(bookmarks.c.id))]
    )


def post_ids(visitor: Visitor, ids: list[int], **fields: str) -> Page:
    """Send the form of the library with several ticked boxes."""
    return visitor.post("/bookmarks/bulk", {**fields, "id": ids})


def fill(running: Running) -> None:
    running.put("https://b.example/1", title="Berries", tags=["fruit", "red"], folder="food/sweet", to_read=True)
    running.put("https://a.example/2", title="Apples", tags=["fruit"], folder="food")
    running.put("https://c.example/3", title="Carrots", description="Orange")


CHANGES = [
    # action       value          titles that change            what of the first changed one is wanted
    ("tag",        "new, fruit",  {"Berries", "Apples", "Carrots"}, ("tags", ["fruit", "red", "new"])),
    ("untag",      "fruit",       {"Berries", "Apples"},            ("tags", ["red"])),
    ("move",       " other / x/", {"Berries", "Apples", "Carrots"}, ("folder", "other/x")),
    ("move",       "",            {"Berries", "Apples"},            ("folder", "")),
    ("mark_read",  "",            {"Berries"},                      ("to_read", False)),
    ("mark_unread", "",           {"Apples", "Carrots"},            ("to_read", True)),
    ("delete",     "",            {"Berries", "Apples", "Carrots"}, ("deleted_at", None)),
]  # fmt: skip


def test_changes_of_many_bookmarks_are_undone_exactly(visitor: Visitor, running: Running) -> None:
    fill(running)
    before = load_rows(running)
    for action, value, changed_titles, (name, wanted) in CHANGES:
        page = visitor.follow(post_ids(visitor, [1, 2, 3], action=action, value=value))
        assert page.notice == "edited", action
        changed = [old[0] for old, new in zip(before, load_rows(running), strict=True) if old != new]
        assert len(changed) == len(changed_titles), action
        first = running.get(f"/api/bookmarks/{changed[0]}").json()
        if name != "deleted_at":
            assert first[name] == wanted, action
            found = visitor.get("/bookmarks?q=tag%3Anew" if action == "tag" else "/bookmarks")
            assert changed_titles <= set(list_titles(found)) or action != "tag"
        else:
            assert first["deleted_at"] and list_titles(page) == []
        undo = next(link for link in page.links if link.endswith("/undo"))
        assert visitor.follow(visitor.post(undo)).notice == "undone", action
        assert load_rows(running) == before, action
        assert visitor.post(undo).status == 404, "an undo is done once"
    assert list_titles(visitor.get("/bookmarks?q=tag%3Anew")) == [], "the index is restored as well"


def test_all_matches_are_changed_on_every_page_of_the_list(visitor: Visitor, running: Running) -> None:
    for number in range(60):
        running.put(f"https://example.com/{number}", title=f"n{number}", tags=["odd" if number % 2 else "even"])
    page = visitor.follow(post_ids(visitor, [], action="delete", all="1", q="tag:odd"))
    assert "30 bookmarks moved to the trash." in page.words
    assert len(running.get("/api/bookmarks?limit=100").json()) == 30
    assert visitor.follow(post_ids(visitor, [], action="restore", all="1", trash="1")).notice == "edited"
    assert len(running.get("/api/bookmarks?limit=100").json()) == 60


def test_an_undo_leaves_what_was_changed_again(visitor: Visitor, running: Running) -> None:
    fill(running)
    page = visitor.follow(post_ids(visitor, [1, 2, 3], action="delete"))
    undo = next(link for link in page.links if link.endswith("/undo"))
    running.put("https://a.example/2", title="Newcomer")
    assert visitor.follow(visitor.post(undo)).notice == "partly-undone"
    assert {each["title"] for each in running.get("/api/bookmarks").json()} == {"Berries", "Newcomer", "Carrots"}


def test_changes_that_ask_for_nothing_change_nothing(visitor: Visitor, running: Running) -> None:
    fill(running)
    before = load_rows(running)
    assert visitor.follow(post_ids(visitor, [], action="delete")).notice == "nothing"
    assert visitor.follow(post_ids(visitor, [1], action="tag", value=" , ")).notice == "no-tags"
    assert post_ids(visitor, [1], action="nonsense").status == 400
    assert post_ids(visitor, [1], action="tag", value="x" * 2000).status == 400
    assert load_rows(running) == before


def test_nobody_changes_or_sees_the_bookmarks_of_others(running: Running) -> None:
    fill(running)
    running.service.database.write_now(
        lambda connection: connection.execute(
            insert(favicons).values(site="a.example", media_type="image/png", content=PNG, fetched_at="2026-01-01")
        )
    )
    ada = Visitor(running)
    page = ada.follow(post_ids(ada, [1], action="tag", value="x"))
    undo = next(link for link in page.links if link.endswith("/undo"))
    icon = ada.get("/icons/a.example").answer
    assert (icon.status, icon.body, icon.headers["content-type"]) == (200, PNG, "image/png")
    add_user(running, "ada")
    token = add_user(running, "bob")
    until(lambda: running.get("/api/bookmarks").status == 401)
    before = load_rows(running)
    bob = Visitor(running)
    bob.post("/signin", {"token": token})
    bob.follow(post_ids(bob, [1, 2, 3], action="delete"))
    bob.follow(post_ids(bob, [], action="delete", all="1"))
    assert bob.post(undo).status == 404
    assert load_rows(running) == before
    assert bob.get("/icons/a.example").status == 404
    assert list_titles(bob.get("/bookmarks")) == [] and "fruit" not in bob.get("/bookmarks").words


def test_rows_counts_and_sort(visitor: Visitor, running: Running) -> None:
    fill(running)
    running.put("https://B.example/1?utm_source=x", "?exact_url=true", title="Twin")
    page = visitor.get("/bookmarks")
    flagged = [node.css_first("h2").text().strip() for node in page.tree.css(".rows li") if node.css_first(".flag.bad")]  # type: ignore[union-attr]
    assert flagged == ["Twin", "Berries"], "both are marked as duplicates"
    folders = {node.css_first("a").text(): node.css_first("span").text() for node in page.tree.css(".tree li")}  # type: ignore[union-attr]
    assert folders == {"food": "2", "sweet": "1"}
    assert [" ".join(node.text().split()) for node in page.tree.css(".cloud a")] == ["fruit 2", "red 1"]
    for sort, wanted in (
        ("title", ["Apples", "Berries", "Carrots", "Twin"]),
        ("oldest", ["Berries", "Apples", "Carrots", "Twin"]),
        ("site", ["Apples", "Berries", "Twin", "Carrots"]),
        ("nonsense", ["Twin", "Carrots", "Apples", "Berries"]),
    ):
        assert list_titles(visitor.get(f"/bookmarks?sort={sort}")) == wanted, sort
    narrowed = visitor.get("/bookmarks?q=tag%3Afruit")
    assert "2 of 4 match" in narrowed.words
    assert "/bookmarks?q=tag%3Afruit+tag%3Ared" in narrowed.links, "a second tag narrows the search"
    assert "/bookmarks" in [node.attributes["href"] for node in narrowed.tree.css(".cloud [aria-current]")]


def test_icons_are_fetched_through_the_guard(sqlite_url: str) -> None:
    page = {"headers": {"Content-Type": "text/html"}, "body": '<link rel="shortcut icon" href="/i.png">'}
    picture = {"headers": {"Content-Type": "text/html"}, "body_base64": b64encode(PNG).decode()}
    pages = {"https://one.test/": page, "https://one.test/i.png": picture, "https://two.test/favicon.ico": picture}
    with (
        serve_web(pages) as web,
        serving(sqlite_url, ServiceOptions(fetch_pages=True), client=web.client) as running,
    ):
        for url in ("https://one.test/a", "https://two.test/b", "http://169.254.169.254/c", "https://none.test/d"):
            running.put(url)
        for site in ("one.test", "two.test"):
            until(lambda site=site: running.get(f"/icons/{site}").status == 200)  # type: ignore[misc]
            assert running.get(f"/icons/{site}").body == PNG
        assert running.get("/icons/169.254.169.254").status == 404
        assert "/icons/one.test" in Visitor(running).get("/bookmarks").links


@pytest.mark.parametrize(
    ("html", "wanted"),
    [
        ('<link rel="icon" href="a.png">', "https://x.test/p/a.png"),
        ('<link rel="apple-touch-icon" href="/t.png"><link rel="SHORTCUT ICON" href="//cdn.test/i.ico">', "https://cdn.test/i.ico"),
        ('<link rel=icon type="image/svg+xml" href="/a.svg"><link rel=icon href="/b.png">', "https://x.test/b.png"),
        ('<link rel="icon" href="javascript:alert(1)"><link rel="icon" href="data:image/png,x">', ""),
        ("nothing", ""),
    ],
)  # fmt: skip
def test_the_link_to_an_icon(html: str, wanted: str) -> None:
    assert find_icon_link(WebResponse(200, "https://x.test/p/", body=html.encode())) == wanted


def test_only_pictures_are_icons() -> None:
    assert read_icon(WebResponse(200, "https://x.test/", body=PNG)).media_type == "image/png"
    for body in (b"", b"<svg onload=alert(1)>", b"<html>", b"RIFFxxxxWAVE"):
        assert read_icon(WebResponse(200, "https://x.test/", body=body)) is NO_ICON


def test_folders_are_a_tree_with_sums() -> None:
    tree = make_folder_tree({"a/b": 2, "a": 1, " c / d ": 1, "": 5, "B": 1})
    assert [(each.path, each.count, each.depth) for each in tree] == [
        ("a", 3, 0),
        ("a/b", 2, 1),
        ("B", 1, 0),
        ("c", 1, 0),
        ("c/d", 1, 1),
    ]


def test_a_change_that_changes_nothing_is_empty() -> None:
    row = {"tags": '["a"]', "folder": "f", "to_read": 0, "deleted_at": None}
    for change in (
        BulkChange(BulkAction.TAG, tags=("a",)),
        BulkChange(BulkAction.UNTAG, tags=("A",)),
        BulkChange(BulkAction.MOVE, folder="f"),
        BulkChange(BulkAction.MARK_READ),
        BulkChange(BulkAction.RESTORE),
    ):
        assert change_columns(row, change, "now") == {}
    assert change_columns(row | {"deleted_at": "then"}, BulkChange(BulkAction.MARK_UNREAD), "now") == {}


def test_forms_lead_back_to_the_search_and_page_they_were_opened_from(visitor: Visitor, running: Running) -> None:
    for number in range(60):
        running.put(f"https://example.com/{number}", title=f"n{number}", tags=["a&b"])
    first = visitor.get("/bookmarks?q=tag%3Aa%26b&sort=oldest")
    later = next(link for link in first.links if "cursor=" in link)
    page = visitor.get(later)
    form = visitor.get(next(link for link in page.links if "/edit?" in link))
    assert later in form.links, "the button Cancel"
    fields = {name: form.value(name) for name in ("url", "title", "tags", "etag", "back")}
    wrong = visitor.post("/bookmarks/51/edit", fields | {"title": "x" * 10_001})
    assert wrong.value("back") == later
    for path, notice in (("edit", "changed"), ("delete", "deleted"), ("restore", "restored")):
        page = visitor.follow(visitor.post(f"/bookmarks/51/{path}", fields))
        assert page.notice == notice and len(list_titles(page)) == (9 if path == "delete" else 10)
    for back in ("https://evil.example/", "//evil.example/", "/account", ""):
        page = visitor.post("/bookmarks/51/delete", {"back": back})
        assert page.answer.headers["location"] == "/bookmarks?notice=deleted&about=51"
        running.ask("POST", "/api/bookmarks/51/restore")
