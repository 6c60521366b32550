"""Account and settings pages over HTTP (contract U4)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from canonry.server.service import ServiceOptions
from server.pages.visitor import Visitor, add_user
from service import serving, until

if TYPE_CHECKING:
    from collections.abc import Generator

    from server.pages.visitor import Page
    from service import Running

RUNS_JOBS = False
CLOCK: list[datetime] = []


@pytest.fixture
def shared(sqlite_url: str) -> Generator[Running]:
    """A service whose clock the test sets."""
    CLOCK[:] = [datetime(2026, 3, 1, 12, tzinfo=UTC)]
    with serving(sqlite_url, ServiceOptions(runs_jobs=False), clock=lambda: CLOCK[0]) as running:
        yield running


def list_tokens(page: Page) -> list[list[str]]:
    return [
        [" ".join(cell.text().split()) for cell in row.css("th, td")[:3]]
        for row in page.tree.css("[aria-labelledby=tokens-title] tbody tr")
    ]


def sign_in(running: Running, token: str, browser: str = "A browser") -> Visitor:
    visitor = Visitor(running)
    assert visitor.post("/signin", {"token": token}, **{"User-Agent": browser}).status == 303
    return visitor


def test_tokens_are_created_shown_once_used_and_revoked(shared: Running) -> None:
    visitor = Visitor(shared)
    assert visitor.post("/account/tokens", {"name": " "}).status == 400
    page = visitor.post("/account/tokens", {"name": "Phone <b>"})
    node = page.tree.css_first("#token")
    assert node is not None
    token = node.text()
    assert list_tokens(page) == [["Phone <b>", "1 Mar 2026", "never"]]
    assert token not in visitor.get("/account").text, "it is shown once"
    assert shared.get("/api/bookmarks", token=token).status == 200
    assert list_tokens(visitor.get("/account")) == [["Phone <b>", "1 Mar 2026", "1 Mar 2026, 12:00"]]
    CLOCK[0] += timedelta(minutes=30)
    shared.get("/api/bookmarks", token=token)
    assert list_tokens(visitor.get("/account"))[0][2] == "1 Mar 2026, 12:00", "not every use is written"
    token_id = visitor.get("/account").value("token_id")
    assert visitor.follow(visitor.post("/account/tokens/revoke", {"token_id": token_id})).notice == "revoked"
    assert shared.get("/api/bookmarks", token=token).status == 401
    assert visitor.post("/account/tokens/revoke", {"token_id": token_id}).status == 404


def test_sessions_are_listed_and_the_others_closed(running: Running) -> None:
    token, other_token = add_user(running, "ada"), add_user(running, "bob")
    until(lambda: running.get("/api/bookmarks").status == 401)
    here, there = sign_in(running, token, "Here"), sign_in(running, token, "There <b>")
    bob = sign_in(running, other_token)
    page = here.get("/account")
    assert [word in page.words for word in ("Here", "There <b>", "this one", "A browser")] == [True, True, True, False]
    assert here.follow(here.post("/account/sessions/close")).notice == "signed-out"
    assert there.get("/account").status == 303
    assert here.get("/account").status == bob.get("/account").status == 200
    ada_token = here.get("/account").value("token_id")
    assert bob.post("/account/tokens/revoke", {"token_id": ada_token}).status == 404
    assert running.get("/api/bookmarks", token=token).status == 200


def test_theme_and_zone_are_kept_in_the_browser(visitor: Visitor) -> None:
    sent = {"theme": "dark", "zone": "Asia/Kolkata"}
    answer = visitor.post("/account/display", sent).answer
    assert answer.status == 303
    visitor.cookies |= {"canonry_theme": "dark", "canonry_zone": "Asia/Kolkata"}
    page = visitor.get("/account")
    root = page.tree.css_first("html")
    assert root is not None and root.attributes["data-theme"] == "dark"
    assert page.value("zone") == "Asia/Kolkata" and "Times are in Asia/Kolkata." in page.words
    assert visitor.post("/account/display", {"zone": "Nowhere/Else"}).status == 400
    assert visitor.post("/account/display", {"theme": "pink"}).status == 400


def test_every_export_of_the_account_page_is_a_file(visitor: Visitor) -> None:
    links = [link for link in visitor.get("/account").links if "export" in link]
    assert links == ["/export/netscape", "/export/json", "/export/csv", "/feeds/export.opml"]
    for link in links:
        answer = visitor.get(link).answer
        assert answer.status == 200 and answer.headers["content-disposition"].startswith("attachment"), link


def test_settings_show_values_and_sources_to_admins_only(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANONRY_USER_AGENT", "mine/1")
    monkeypatch.setenv("CANONRY_PROXY", "http://me:secret@proxy.test:3128")
    with serving(
        sqlite_url, ServiceOptions(runs_jobs=False), user_agent="mine/1", redis_url="redis://:secret@localhost:1/0"
    ) as running:
        page = Visitor(running).get("/settings")
        rows = {str(row.attributes["id"]): row.text() for row in page.tree.css("tbody tr")}
        assert "mine/1" in rows["user_agent"] and "CANONRY_USER_AGENT" in rows["user_agent"]
        assert "default" in rows["ca_file"]
        assert "Restart" in rows["proxy"], "set after the service was started"
        assert "secret" not in page.text
        assert {"fetch_icons", "database_url"} <= set(rows)
        add_user(running, "ada")
        token = add_user(running, "bob")
        until(lambda: running.get("/api/bookmarks").status == 401)
        assert sign_in(running, token).get("/settings").status == 403
