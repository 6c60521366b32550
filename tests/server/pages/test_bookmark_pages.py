"""Pages of bookmarks without JavaScript: list, add, edit, delete."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

if TYPE_CHECKING:
    from server.pages.visitor import Page, Visitor
    from service import Running

HOSTILE = ["javascript:alert(1)", "data:text/html,<script>alert(1)</script>", "JaVaScRiPt:alert(1)", "\tjavascript:alert(1)", "vbscript:x", "file:///etc/passwd"]  # fmt: skip


def bookmark(running: Running, bookmark_id: int = 1) -> dict[str, object]:
    found: dict[str, object] = running.get(f"/api/bookmarks/{bookmark_id}").json()
    return found


def has_only_safe_links(page: Page) -> bool:
    return all(link.startswith(("/", "http://", "https://", "#", "?")) for link in page.links)


def test_an_empty_list_links_to_the_next_steps(visitor: Visitor) -> None:
    page = visitor.get("/bookmarks")
    assert page.status == 200
    assert {"/add", "/import"} <= set(page.links)


def test_a_bookmark_is_added_listed_changed_deleted_and_restored(visitor: Visitor, running: Running) -> None:
    fields = {
        "url": "https://Example.com/a?utm_source=mail&b=1",
        "title": "A page",
        "description": "two\r\nlines",
        "tags": "one, two words , one",
        "folder": "read/later",
        "archive_urls": "https://archive.test/1\r\n\r\nhttps://archive.test/2?utm_source=x",
        "to_read": "1",
    }
    listed = visitor.follow(visitor.post("/add", fields))
    assert listed.notice == "added"
    kept = bookmark(running)
    assert kept["url"] == "https://example.com/a?b=1"
    assert kept["original_url"] == "https://Example.com/a?utm_source=mail&b=1"
    assert (kept["tags"], kept["folder"], kept["to_read"], kept["private"]) == (
        ["one", "two words"],
        "read/later",
        True,
        False,
    )
    assert kept["description"] == "two\nlines"
    assert kept["archive_urls"] == ["https://archive.test/1", "https://archive.test/2"]
    for shown in (
        "A page",
        "https://example.com/a?b=1",
        "Entered as https://Example.com/a?utm_source=mail&b=1",
        "two words",
        "read/later",
        "unread",
        "2 archived copies",
    ):
        assert shown in listed.words
    assert "https://example.com/a?b=1" in listed.links
    assert listed.tree.css_first("time[datetime]") is not None

    form = visitor.get("/bookmarks/1/edit")
    assert form.value("url") == "https://Example.com/a?utm_source=mail&b=1"
    assert form.value("tags") == "one, two words"
    assert form.value("description") == "two\nlines"
    assert form.is_ticked("to_read") and not form.is_ticked("exact_url")
    fields |= {"title": "Another title", "etag": form.value("etag"), "to_read": "", "private": "1"}
    assert visitor.follow(visitor.post("/bookmarks/1/edit", fields)).notice == "changed"
    changed = bookmark(running)
    assert (changed["title"], changed["to_read"], changed["private"]) == ("Another title", False, True)
    assert changed["original_url"] == kept["original_url"], "what was given is not lost by an edit of the title"

    listed = visitor.follow(visitor.post("/bookmarks/1/delete"))
    assert listed.notice == "deleted"
    assert "Another title" not in listed.words
    assert "Another title" in visitor.get("/bookmarks?trash=1").words
    assert "/bookmarks?trash=1" in visitor.get("/bookmarks/1/edit").links, (
        "the form says that the bookmark is in the trash"
    )
    assert visitor.post("/bookmarks/1/edit", fields).status == 404
    assert "Another title" in visitor.follow(visitor.post("/bookmarks/1/restore")).words


def test_the_exact_toggle_saves_the_original_url(visitor: Visitor, running: Running) -> None:
    url = "https://Example.com/a?utm_source=mail"
    visitor.follow(visitor.post("/add", {"url": url}))
    form = visitor.get("/bookmarks/1/edit")
    visitor.follow(
        visitor.post("/bookmarks/1/edit", {"url": form.value("url"), "exact_url": "1", "etag": form.value("etag")})
    )
    assert bookmark(running)["url"] == url
    assert visitor.get("/bookmarks/1/edit").is_ticked("exact_url")
    visitor.follow(visitor.post("/bookmarks/1/edit", {"url": url}))
    assert bookmark(running)["url"] == "https://example.com/a"


def test_opening_the_form_writes_nothing(visitor: Visitor, running: Running) -> None:
    page = visitor.get("/add?url=https%3A%2F%2FExample.com%2Fa%3Futm_source%3Dx&title=%3Cb%3E")
    assert page.value("url") == "https://Example.com/a?utm_source=x"
    assert page.value("title") == "<b>"
    assert "https://example.com/a" in page.words  # the preview
    assert running.get("/api/bookmarks").json() == []


def test_the_preview_works_without_javascript(visitor: Visitor, running: Running) -> None:
    page = visitor.post("/add", {"url": "https://Example.com/?utm_source=x", "title": "kept", "action": "preview"})
    assert page.status == 200
    assert "strip_params" in page.words and "utm_source" in page.words
    assert page.value("title") == "kept"
    assert running.get("/api/bookmarks").json() == []
    exact = visitor.post("/add", {"url": "https://Example.com/?utm_source=x", "exact_url": "1", "action": "preview"})
    assert not exact.tree.css("#preview .steps")
    assert exact.is_ticked("exact_url")


def test_the_live_preview_is_a_fragment(visitor: Visitor) -> None:
    piece = visitor.post("/preview", {"url": "https://Example.com/a?utm_source=x"}, **{"HX-Request": "true"})
    assert "<html" not in piece.text
    assert "https://example.com/a" in piece.words
    assert visitor.post("/preview", {"url": "javascript:alert(1)"}).tree.css_first(".error") is not None
    assert "This is a short link." in visitor.post("/preview", {"url": "https://bit.ly/x"}).words
    assert visitor.post("/preview", {"url": " "}).tree.css_first(".result, .error") is None


def test_the_preview_names_the_bookmark_that_has_the_url(visitor: Visitor, running: Running) -> None:
    running.put("https://example.com/a", title="The first")
    page = visitor.post("/preview", {"url": "https://example.com/a?utm_source=x"})
    assert "Already saved: The first" in page.words and "/bookmarks/1/edit" in page.links
    own = visitor.post("/preview", {"url": "https://example.com/a", "bookmark": "1"})
    assert "/bookmarks/1/edit" not in own.links


def test_saving_a_known_url_opens_its_bookmark_and_loses_nothing(visitor: Visitor, running: Running) -> None:
    running.put("https://example.com/a", title="The first", tags=["one"], description="before")
    fields = {"url": "https://example.com/a?utm_source=x", "title": "The second", "tags": "two, one"}
    fields |= {"description": "typed", "folder": "new", "archive_urls": "https://archive.test/1", "to_read": "1"}
    page = visitor.post("/add", fields)
    assert (page.status, page.notice) == (200, "known")
    assert bookmark(running)["tags"] == ["one", "two"], "tags are added at once"
    assert (bookmark(running)["description"], bookmark(running)["to_read"]) == ("before", False)
    assert "“The second”" in page.words, "a text that no field has is shown"
    assert page.value("title") == "The first"
    names = ("url", "title", "description", "tags", "folder", "archive_urls", "etag")
    sent = {name: page.value(name) for name in names} | {"to_read": "1"}
    assert page.is_ticked("to_read")
    assert visitor.follow(visitor.post("/bookmarks/1/edit", sent)).notice == "changed"
    saved = bookmark(running)
    assert (saved["description"], saved["folder"], saved["to_read"]) == ("before\n\ntyped", "new", True)
    assert saved["archive_urls"] == ["https://archive.test/1"]
    assert len(running.get("/api/bookmarks").json()) == 1


def test_the_bookmarklet_opens_the_bookmark_of_a_known_page(visitor: Visitor, running: Running) -> None:
    running.put("https://example.com/a", title="The first")
    before = bookmark(running)
    page = visitor.get("/add?url=https%3A%2F%2Fexample.com%2Fa%3Futm_source%3Dx&title=From%20the%20page")
    assert (page.notice, page.value("title"), page.value("bookmark")) == ("known", "The first", "1")
    assert "“From the page”" in page.words
    assert bookmark(running) == before, "opening the form writes nothing"


def test_a_page_saved_under_another_url_can_be_saved_separately(visitor: Visitor, running: Running) -> None:
    running.put("https://Example.com/a?utm_source=x", "?exact_url=true", title="As given")
    fields = {"url": "https://example.com/a", "title": "Another"}
    assert visitor.post("/add", fields).notice == "known"
    assert len(running.get("/api/bookmarks").json()) == 1
    assert visitor.follow(visitor.post("/add", fields | {"action": "separate"})).notice == "added"
    assert len(running.get("/api/bookmarks").json()) == 2


def test_an_edit_to_the_url_of_another_bookmark_is_refused(visitor: Visitor, running: Running) -> None:
    running.put("https://example.com/a", title="The first")
    other = running.put("https://example.com/b", title="Another").json()["id"]
    page = visitor.post(f"/bookmarks/{other}/edit", {"url": "https://example.com/a?utm_source=x", "title": "Typed"})
    assert page.status == 409
    assert "/bookmarks/1/edit" in page.links and page.value("title") == "Typed"
    assert bookmark(running, other)["url"] == "https://example.com/b"


def test_an_edit_of_a_bookmark_that_changed_meanwhile_is_refused(visitor: Visitor, running: Running) -> None:
    running.put("https://example.com/a", title="first")
    form = visitor.get("/bookmarks/1/edit")
    running.ask("PUT", "/api/bookmarks/1", {"title": "second"})
    page = visitor.post("/bookmarks/1/edit", {"url": form.value("url"), "title": "third", "etag": form.value("etag")})
    assert page.status == 412
    assert page.tree.css_first("[role=alert]") is not None
    assert page.value("title") == "third"
    assert bookmark(running)["title"] == "second"


WRONG = [
    # field, value, what is said at it
    ("url", "", ""),
    ("url", "javascript:alert(1)", "http"),
    ("url", "https://exa mple.com:99999/", ""),
    ("title", "x" * 10_001, "Too long: enter at most 10,000 characters."),
    ("archive_urls", "https://fine.test/\njavascript:alert(1)", "Line 2: "),
    ("tags", ",".join(f"t{n}" for n in range(501)), "Too many: enter at most 500."),
    ("tags", f"one, {'x' * 1001}", "Tag 2: Too long: "),
]


@pytest.mark.parametrize(("name", "value", "said"), WRONG, ids=range(len(WRONG)))
def test_errors_are_shown_at_their_field_and_the_input_is_kept(
    visitor: Visitor, running: Running, name: str, value: str, said: str
) -> None:
    fields = {"url": "https://example.com/", "description": "typed long ago", name: value}
    page = visitor.post("/add", fields)
    assert page.status == 400
    error = page.tree.css_first(f"#{name}-error")
    assert error is not None and said in error.text()
    field = page.tree.css_first(f"[name={name}]")
    assert field is not None and field.attributes["aria-invalid"] == "true"
    assert f"{name}-error" in (field.attributes["aria-describedby"] or "")
    assert page.value("description") == "typed long ago"
    assert page.value(name) == value
    assert running.get("/api/bookmarks").json() == []


def test_all_errors_are_shown_at_once(visitor: Visitor) -> None:
    page = visitor.post("/add", {"url": "ftp://x/", "title": "x" * 10_001, "archive_urls": "\n\nftp://y/"})
    said = {node.attributes["id"]: node.text() for node in page.tree.css(".error[id]")}
    assert set(said) == {"url-error", "title-error", "archive_urls-error"}
    assert said["archive_urls-error"].startswith("Line 3: "), "the line, as it is counted in the field"


@pytest.mark.parametrize("url", HOSTILE)
def test_only_http_urls_become_links(visitor: Visitor, running: Running, url: str) -> None:
    running.put("https://example.com/", title="fine", exact_url=True)
    for path, fields in (
        ("/add", {"url": url}),
        ("/add", {"url": url, "exact_url": "1"}),
        ("/bookmarks/1/edit", {"url": url, "exact_url": "1"}),
        ("/bookmarks/1/edit", {"url": "https://example.com/", "archive_urls": url}),
        ("/preview", {"url": url}),
        ("/canonicalize", {"url": url}),
        ("/resolve", {"url": url}),
    ):
        page = visitor.post(path, fields)
        assert page.status in {200, 400}
        assert has_only_safe_links(page)
    for path in (
        "/",
        f"/add?url={url}",
        f"/explain?url={url}",
        f"/canonicalize?url={url}",
        f"/resolve?url={url}",
        f"/bookmarks?q={url}",
        f"/bookmarks?tag={url}&folder={url}",
    ):
        assert has_only_safe_links(visitor.get(path.replace("\t", "%09").replace(" ", "%20"))), path
    visitor.upload("/import", "x.html", f'<DL><DT><A HREF="{url}">x</A></DL>'.encode())
    visitor.upload("/import", "x.json", f'[{{"url": "https://ok.test/", "archive_urls": ["{url.strip()}"]}}]'.encode())
    assert has_only_safe_links(visitor.get("/imports/1"))
    assert all(str(kept["url"]).startswith("https://") for kept in running.get("/api/bookmarks").json())


def test_texts_are_escaped(visitor: Visitor) -> None:
    text = "\"><script>alert(1)</script>'{{ 7 * 7 }}"
    fields = dict.fromkeys(("title", "description", "tags", "folder"), text)
    visitor.follow(visitor.post("/add", {"url": "https://example.com/", **fields}))
    for path in (
        "/",
        "/bookmarks",
        "/bookmarks/1/edit",
        "/add?url=https://example.com/",
        "/bookmarks?trash=1",
        "/duplicates",
    ):
        page = visitor.get(path)
        assert "<script>alert" not in page.text
        assert [node.attributes.get("src") for node in page.tree.css("script")] and all(
            (node.attributes.get("src") or "").startswith("/static/") for node in page.tree.css("script")
        )
        assert not page.tree.css("style, [style], [onclick], [onload], [onerror]")


def test_search_by_words_tag_folder_and_to_read(visitor: Visitor, running: Running) -> None:
    running.put("https://example.com/1", title="Apples", tags=["fruit"], folder="a", to_read=True)
    running.put("https://example.com/2", title="Pears", tags=["fruit", "green"], folder="b")
    for query, wanted in (
        ("q=apple", {"Apples"}),
        ("tag=green", {"Pears"}),
        ("folder=a", {"Apples"}),
        ("to_read=no", {"Pears"}),
        ("to_read=yes", {"Apples"}),
        ("tag=fruit", {"Apples", "Pears"}),
        ("q=plum", set[str]()),
    ):
        page = visitor.get(f"/bookmarks?{query}")
        assert {node.text().strip() for node in page.tree.css(".rows h2")} == wanted, query
    assert "No matches." in visitor.get("/bookmarks?q=plum").words


def test_pages_by_cursor_show_everything_once(visitor: Visitor, running: Running) -> None:
    for number in range(120):
        running.put(f"https://example.com/{number}", title=f"n{number}", tags=["t&x"])
    seen: list[str] = []
    path = "/bookmarks?tag=t%26x"
    while path:
        page = visitor.get(path)
        seen += [node.text().strip() for node in page.tree.css(".rows h2")]
        following = page.tree.css_first("a[rel=next]")
        path = (following.attributes["href"] or "") if following else ""
    assert seen == [f"n{number}" for number in reversed(range(120))]
    assert visitor.get("/bookmarks?cursor=nonsense").status == 400


def test_a_failed_expansion_says_why(visitor: Visitor, running: Running) -> None:
    running.wait_for_short_links(10)
    running.put("https://bit.ly/abc", title="short")
    assert "could not be followed: the name does not resolve" in visitor.get("/bookmarks").words


def test_an_unknown_bookmark_is_a_404_page(visitor: Visitor) -> None:
    for path in ("/bookmarks/9/delete", "/bookmarks/9/restore", "/bookmarks/9/edit"):
        page = visitor.post(path)
        assert page.status == 404
        assert page.tree.css_first("h1") is not None


def test_three_urls_of_one_page_are_found_as_readme_says(visitor: Visitor, running: Running) -> None:
    """The clicks of "See it in two minutes" in README, without JavaScript."""
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    section = readme.partition("### See it in two minutes")[2].partition("###")[0]
    first, *others = re.findall(r"`(https://[^`]+)`", section)
    visitor.follow(visitor.post("/add", {"url": first}))
    [saved] = running.get("/api/bookmarks").json()
    assert len(others) == 2
    for url in others:
        form = visitor.get("/").tree.css_first("main form[method=get]")
        assert form is not None
        page = visitor.get(f"{form.attributes['action']}?{urlencode({'q': url})}")
        page = visitor.follow(page) if page.status == 303 else page
        assert f"/bookmarks/{saved['id']}/edit" in page.links
