"""The other pages over HTTP: duplicates, files, explain, canonicalize, statistics, the API."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from canonry.bookmarks.bookmark import Bookmark
from canonry.bookmarks.usage import Bucket
from canonry.server.pages import charts
from canonry.server.pages.rendering import is_link
from canonry.store.pinned_policies import ENTRY, repin_policy
from page_texts import make_page
from server.pages.visitor import FEED, Visitor, add_user, serve_web
from service import serving, until

if TYPE_CHECKING:
    from server.pages.visitor import Page
    from service import Running


def test_duplicates_are_merged_into_the_chosen_one_and_undone(visitor: Visitor, running: Running) -> None:
    running.put("https://example.com/a", title="First", tags=["x"])
    running.put("https://Example.com/a?utm_source=x", "?exact_url=true", title="Second", tags=["y"])
    page = visitor.get("/duplicates")
    assert len(page.tree.css(".choice")) == 2
    merge = next(link for link in page.links if link.endswith("/merge"))
    assert visitor.post(merge).status == 400
    assert visitor.post(merge, {"keep": "77"}).status == 404
    page = visitor.follow(visitor.post(merge, {"keep": "2"}))
    assert page.notice == "merged" and "Second replaces 1 other: merged on this page" in page.words
    [kept] = running.get("/api/bookmarks").json()
    assert (kept["id"], set(kept["tags"])) == (2, {"x", "y"})
    undo = next(link for link in page.links if link.endswith("/undo"))
    page = visitor.follow(visitor.post(undo))
    assert page.notice == "undone" and len(page.tree.css(".choice")) == 2
    assert len(running.get("/api/bookmarks").json()) == 2
    assert visitor.post(undo).status == 404
    assert visitor.post("/duplicates/nonsense/merge", {"keep": "1"}).status == 400


def test_many_duplicates_are_shown_page_by_page(visitor: Visitor, running: Running) -> None:
    for number in range(27):
        running.put(f"https://example.com/{number}")
        running.put(f"https://Example.com/{number}?utm_source=x", "?exact_url=true")
    page = visitor.get("/duplicates")
    assert "Groups 1 to 25 of 27." in page.words and len(page.tree.css(".choice")) == 50
    assert "/duplicates?start=25" in page.links
    page = visitor.get("/duplicates?start=25")
    assert "Groups 26 to 27 of 27." in page.words and len(page.tree.css(".choice")) == 4
    merge = next(link for link in page.links if link.endswith("/merge"))
    answer = visitor.post(merge, {"keep": page.value("keep"), "start": "25"})
    assert answer.answer.headers["location"] == "/duplicates?notice=merged&start=25"
    assert "Group 26 of 26." in visitor.follow(answer).words
    assert "Show the first ones" in visitor.get("/duplicates?start=1000").words


def test_an_undo_that_conflicts_is_a_409_page(visitor: Visitor, running: Running) -> None:
    running.put("https://example.com/a", title="First")
    running.put("https://Example.com/a?utm_source=x", "?exact_url=true", title="Second")
    merge = next(link for link in visitor.get("/duplicates").links if link.endswith("/merge"))
    page = visitor.follow(visitor.post(merge, {"keep": "2"}))
    running.put("https://example.com/a", title="Newcomer")
    page = visitor.post(next(link for link in page.links if link.endswith("/undo")))
    assert page.status == 409
    assert page.answer.headers["content-type"].startswith("text/html")


def finished(visitor: Visitor, page: Page) -> Page:
    path = page.answer.headers["location"]
    until(lambda: visitor.get(path).tree.css_first("#progress:not([hx-get])"))
    return visitor.get(path)


FILES = [
    ("x.html", b'<!DOCTYPE NETSCAPE-Bookmark-file-1><DL><DT><A HREF="https://Example.com/a?utm_source=x">A</A><DT><A HREF="javascript:alert(1)">B</A></DL>'),
    ("x.json", b'[{"url": "https://Example.com/a?utm_source=x", "title": "A"}, {"url": "javascript:alert(1)"}]'),
    ("x.csv", b"url,title\nhttps://Example.com/a?utm_source=x,A\njavascript:alert(1),B\n"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content"), FILES, ids=[name for name, _ in FILES])
def test_a_file_is_imported_and_refused_rows_have_reasons(
    visitor: Visitor, running: Running, name: str, content: bytes
) -> None:
    page = finished(visitor, visitor.upload("/import", name, content))
    assert "1 new, 0 already saved, 1 refused" in page.words
    assert "javascript:alert(1)" in page.words and page.tree.css_first(".error") is not None
    assert not any(link.startswith("javascript:") for link in page.links)
    [kept] = running.get("/api/bookmarks").json()
    assert kept["url"] == "https://example.com/a"
    again = finished(visitor, visitor.upload("/import", name, content))
    assert "0 new, 1 already saved" in again.words


def test_imports_are_listed_for_their_owner_newest_first(visitor: Visitor, running: Running) -> None:
    assert "Latest imports" not in visitor.get("/import").words
    for content in (b"url\nhttps://example.com/\nftp://x/\n", b"url\nhttps://example.com/\n"):
        finished(visitor, visitor.upload("/import", "x.csv", content))
    page = visitor.get("/import")
    assert [link for link in page.links if link.startswith("/imports/")] == ["/imports/2", "/imports/1"]
    assert "Import 1 1 new, 0 already saved, 1 refused" in page.words
    assert "Import 2 0 new, 1 already saved, 0 refused" in page.words
    add_user(running, "ada")
    token = add_user(running, "bob")
    until(lambda: running.get("/api/bookmarks").status == 401)
    bob = Visitor(running)
    bob.post("/signin", {"token": token})
    assert "Latest imports" not in bob.get("/import").words


def test_an_import_page_can_save_exact_urls(visitor: Visitor, running: Running) -> None:
    finished(visitor, visitor.upload("/import", "x.csv", b"url\nhttps://Example.com/?utm_source=x\n", exact_url="1"))
    assert running.get("/api/bookmarks").json()[0]["url"] == "https://Example.com/?utm_source=x"


@pytest.mark.parametrize("content", [b"", b"{", b"\x00\xff", b"name\nx\n"])
def test_an_invalid_file_is_reported_at_its_field(visitor: Visitor, content: bytes) -> None:
    page = visitor.upload("/import", "x.json" if content == b"{" else "x.csv", content)
    assert page.status == 400
    error = page.tree.css_first("#file-error")
    assert error is not None and error.text()
    assert visitor.post("/import").status == 400, "no file at all"


@pytest.mark.parametrize(("form", "ending"), [("netscape", "html"), ("json", "json"), ("csv", "csv")])
def test_an_export_is_a_file_that_can_be_imported(visitor: Visitor, running: Running, form: str, ending: str) -> None:
    running.put("https://example.com/a", title="A <b>", tags=["x", "y"])
    answer = visitor.get(f"/export/{form}").answer
    assert answer.headers["content-disposition"] == f'attachment; filename="bookmarks.{ending}"'
    page = finished(visitor, visitor.upload("/import", f"x.{ending}", answer.body))
    assert "0 new, 1 already saved, 0 refused" in page.words
    assert visitor.get("/export/exe").status == 400


def test_explain_shows_every_step_the_score_and_the_variants(visitor: Visitor) -> None:
    page = visitor.get("/explain?url=HTTPS%3A%2F%2FWww.Example.com%3A443%2Fa%2F%3Futm_source%3Dx%26b%3D1%26a%3D2")
    assert page.status == 200
    assert [node.text() for node in page.tree.css(".steps strong")] == ["parse", "strip_params", "sort_params"]
    assert "scheme in lower case" in page.words
    assert page.tree.css(".steps del") and page.tree.css(".steps ins")
    assert "no tracking" in page.words and page.tree.css(".variants li")
    under = visitor.get("/explain?url=https%3A%2F%2Fwww.example.com%2F&policy=feed-aggressive@1")
    assert "under policy feed-aggressive@1" in under.words
    assert visitor.get("/explain?url=x&policy=nonsense").status == 400
    wrong = visitor.get("/explain?url=javascript%3Aalert(1)")
    assert (
        wrong.status == 400
        and wrong.tree.css_first("#url-error") is not None
        and wrong.value("url") == "javascript:alert(1)"
    )


def test_previewing_a_very_long_url_is_fast(visitor: Visitor) -> None:
    began = datetime.now(UTC)
    page = visitor.post("/preview", {"url": "https://example.com/?" + "&".join(f"{n % 7}" for n in range(25_000))})
    assert page.status == 200
    assert datetime.now(UTC) - began < timedelta(seconds=60)


def test_the_canonical_feed_is_shown_with_every_url_tested(sqlite_url: str) -> None:
    feed = {"headers": {"Content-Type": "application/rss+xml"}, "body": FEED.format(title="<b>News</b>")}
    with (
        serve_web({"https://feed.test/rss?utm_source=x": feed, "https://feed.test/rss": feed}) as web,
        serving(sqlite_url, client=web.client) as running,
    ):
        visitor = Visitor(running)
        page = visitor.post("/canonicalize", {"url": "https://feed.test/rss?utm_source=x"})
        assert page.status == 200
        assert page.tree.css_first(".result") is not None
        assert "https://feed.test/rss" in page.words and "<b>News</b>" in page.words
        assert page.tree.css(".variants li")
        piece = visitor.post("/canonicalize", {"url": "https://feed.test/rss?utm_source=x"}, **{"HX-Request": "true"})
        [events] = [link for link in piece.links if link.startswith("/canonicalize/events?")]
        assert visitor.get(events).status == 406, "no image and no link of another page starts a search"
        told = visitor.get(events, Accept="text/event-stream")
        assert told.answer.headers["content-type"].startswith("text/event-stream")
        names = [line for line in told.text.splitlines() if line.startswith("event:")]
        assert names[0] == "event: progress" and names[-1] == "event: result"
        assert "https://feed.test/rss" in told.text
        lost = visitor.get(events, Accept="text/event-stream", **{"Last-Event-ID": "1"})
        assert "event: result" in lost.text and "notice bad" in lost.text
        nothing = visitor.post("/canonicalize", {"url": "https://nowhere.test/"})
        assert nothing.status == 200 and nothing.tree.css_first(".notice.bad") is not None
        secret = visitor.post("/canonicalize", {"url": "https://user:secret@nowhere.test/"})
        assert "secret" not in secret.tree.css_first("#outcome").text()  # type: ignore[union-attr]


def test_a_resolved_page_is_shown_with_every_candidate_and_its_evidence(sqlite_url: str) -> None:
    clean, tracked = "https://page.test/a", "https://page.test/a?x=1"
    page = make_page({"article": 1, "title": "<b>One</b>", "head": f'<link rel="canonical" href="{clean}">'})
    with serve_web({tracked: page, clean: page}) as web, serving(sqlite_url, client=web.client) as running:
        visitor = Visitor(running)
        shown = visitor.post("/resolve", {"url": tracked})
        assert shown.status == 200 and shown.tree.css_first(".result").text() == clean  # type: ignore[union-attr]
        assert [node.text() for node in shown.tree.css(".variants .tag")] == ["fetched", "failed", "same"]
        assert "same text" in shown.tree.css(".variants li")[2].text()
        piece = visitor.post("/resolve", {"url": clean}, **{"HX-Request": "true"})
        assert piece.status == 200 and "<html" not in piece.text
        assert visitor.post("/resolve", {"url": "javascript:x"}).status == 400
        assert visitor.post("/resolve", {"url": "https://nowhere.test/"}).tree.css_first(".notice.bad") is not None
        answer = running.ask("POST", "/api/resolve", {"url": tracked, "max_requests": 0}).json()
        assert (answer["url"], answer["reason"], answer["requests"]) == (tracked, "response_url", 0)
        failed = running.ask("POST", "/api/resolve", {"url": "https://nowhere.test/"})
        assert failed.status == 424 and failed.json()["candidates"][0]["verdict"] == "failed"


def test_statistics_have_a_text_alternative_for_every_chart(visitor: Visitor, running: Running) -> None:
    for _ in range(3):
        running.put("https://example.com/a?utm_source=x")
    page = visitor.get("/admin")
    numbers = {node.css_first("dt").text(): node.css_first("dd").text() for node in page.tree.css(".numbers > div")}  # type: ignore[union-attr]
    assert (numbers["Bookmarks"], numbers["Added"], numbers["Duplicates avoided"]) == ("1", "1", "2")
    assert numbers["URLs normalized"] == "3" and numbers["Cache hit rate"] == "–"
    for chart in page.tree.css("svg.chart"):
        assert chart.attributes["role"] == "img" and chart.attributes["aria-label"]
    assert "Duplicates avoided as a table" in page.words
    assert "strip_params" in page.words
    for days in (1, 30, 90):
        assert visitor.get(f"/admin?days={days}").status == 200
    assert visitor.get("/admin?days=0").status == 400


def test_bookmarks_are_rekeyed_with_progress(visitor: Visitor, running: Running) -> None:
    running.put("https://www.example.com/a", title="First")
    running.put("https://example.com/a", title="Second")
    preview = visitor.get("/admin/renormalize?policy=feed-aggressive@1")
    assert "Nothing has changed yet." in preview.words
    assert preview.tree.css_first("#merges") is not None and preview.tree.css_first("#changes") is not None
    assert len(running.get("/api/bookmarks").json()) == 2
    assert visitor.get("/admin/renormalize?policy=nonsense").status == 400
    page = visitor.post("/admin/renormalize", {"policy": "feed-aggressive@1"})
    path = page.answer.headers["location"]
    until(lambda: visitor.get(path).tree.css_first("#progress:not([hx-get])"))
    assert "1 merged" in visitor.get(path).words
    assert visitor.get(path).tree.css_first("progress") is not None
    assert "To feed-aggressive@1" in visitor.get("/admin").words
    wrong = visitor.post("/admin/renormalize", {"policy": "nonsense"})
    assert wrong.status == 400 and wrong.tree.css_first("#policy-error") is not None
    assert visitor.get("/admin/renormalizations/99").status == 404
    assert visitor.post(f"{path}/undo", {}).answer.headers["location"] == path
    until(lambda: "Undone" in visitor.get(path).words)
    assert {each["url"] for each in running.get("/api/bookmarks").json()} == {
        "https://www.example.com/a",
        "https://example.com/a",
    }


def test_the_rules_page_lists_sites_with_examples(visitor: Visitor) -> None:
    page = visitor.get("/rules")
    assert page.status == 200
    assert "youtube@2" in page.words and "https://www.youtube.com/watch?v=dQw4w9WgXcQ" in page.words
    assert "fbclid" in page.words


def test_the_bookmarklet_opens_the_form_of_this_service_and_nothing_else(visitor: Visitor, running: Running) -> None:
    page = visitor.get("/bookmarklet")
    [script] = [link for link in page.links if link.startswith("javascript:")]
    assert script.startswith(f'javascript:void(open("{running.url}/add?url="+')
    assert visitor.get("/bookmarklet", Host='evil.com"+alert(1)+"').status == 421


@pytest.mark.parametrize("path", ["/api/docs", "/reference"])
def test_the_api_page_names_every_operation(visitor: Visitor, running: Running, path: str) -> None:
    page = visitor.get(path)
    assert page.answer.headers["content-type"].startswith("text/html")
    described = running.get("/api/openapi.json").json()["paths"]
    listed = {" ".join(node.text().split()) for node in page.tree.css("section.operation h3")}
    assert listed == {f"{method.upper()} {path}" for path, item in described.items() for method in item}
    assert "NewBookmark" in page.words and "on_duplicate" in page.words
    ids = [node.attributes["id"] for node in page.tree.css("[id]")]
    assert len(ids) == len(set(ids))
    assert {link for link in page.links if link.startswith("#")} <= {f"#{each}" for each in ids}
    saved = page.tree.css_first("section[aria-labelledby=schema-Bookmark]")
    assert saved is not None and all(node.text().strip() for node in saved.css("dd")), "every field is described"
    pages = [path for path in described if not path.startswith(("/api", "/v1", "/metrics", "/healthz", "/readyz"))]
    assert not pages, "pages are not part of the API"


def test_only_http_is_a_link() -> None:
    assert is_link("https://a.com/") and is_link("HTTP://a.com/")
    for text in (
        "javascript:alert(1)",
        "data:text/html,x",
        " https://a.com",
        "https:a.com",
        "//a.com",
        "",
        None,
        "https://\n",
    ):
        assert not is_link(text), text


def test_bars_of_a_histogram_are_as_wide_as_their_buckets_and_their_area_is_the_count() -> None:
    chart = charts.make_latency_chart(
        "Latency", [Bucket(10, 8), Bucket(20, 8), Bucket(50, 8), Bucket(100, 8), Bucket(None, 8)]
    )
    widths = [bar.width + 1 for bar in chart.bars]
    assert widths[1] == pytest.approx(widths[0]) and widths[2] == pytest.approx(widths[0] * 1.3219, rel=1e-3)
    areas = [(bar.width + 1) * bar.height for bar in chart.bars]
    assert areas == pytest.approx([areas[0]] * 5)
    assert chart.rows[0] == ("at most 10 µs", "8") and chart.rows[-1] == ("more than 100 µs", "8")
    assert charts.make_latency_chart("Latency", [Bucket(10, 0), Bucket(None, 0)]).is_empty
    assert charts.format_quantile([Bucket(10, 1), Bucket(20, 1), Bucket(None, 0)], 0.5) == "≤ 10 µs"
    assert charts.format_quantile([Bucket(10, 0), Bucket(None, 1)], 0.5) == "> 10 µs"
    assert charts.format_quantile([Bucket(10, 0), Bucket(None, 0)], 0.5) == "–"


def test_a_line_chart_has_gaps_where_there_is_no_data() -> None:
    chart = charts.make_share_chart("Rate", ["a", "b", "c", "d", "e"], [0.5, 1.0, None, 0.0, 0.25])
    assert len(chart.lines) == 2 and len(chart.dots) == 4
    assert [row[0] for row in chart.rows] == ["a", "b", "d", "e"]
    assert charts.make_share_chart("Rate", ["a"], [None]).is_empty


def test_the_export_has_every_field_of_a_bookmark(visitor: Visitor, running: Running) -> None:
    running.put("https://example.com/a")
    [row] = json.loads(visitor.get("/export/json").text)
    assert set(row) <= set(Bookmark.__dataclass_fields__)


def test_statistics_say_how_feed_items_move_to_a_newer_policy(visitor: Visitor, running: Running) -> None:
    assert "canonry rekey" not in visitor.get("/admin").words
    running.service.database.write_now(lambda connection: repin_policy(connection, ENTRY, "entry@1"))
    assert "canonry rekey entry@1 entry@2 --dry-run" in visitor.get("/admin").words
