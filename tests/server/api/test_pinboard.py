"""Pinboard's API: the published client works with another address (contract B8)."""

from __future__ import annotations

import asyncio
import hashlib
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import pinboard  # type: ignore[import-untyped]
import pytest

from canonry.evidence.fact_store import save_aliases
from canonry.evidence.facts import PageAlias
from canonry.evidence.same_page import Evidence
from canonry.server.service import ServiceOptions
from service import Answer, Running, serving

if TYPE_CHECKING:
    from collections.abc import Generator

QUIET = ServiceOptions(runs_jobs=False)
URL = "https://example.com/a"


@pytest.fixture
def service(database_url: str) -> Generator[Running]:
    with serving(database_url, QUIET) as running:
        yield running


@pytest.fixture
def token(service: Running) -> str:
    """One for the owner without a name."""
    return f"me:{asyncio.run(service.service.users.create_token('', service.service.clock()))}"


@pytest.fixture
def client(service: Running, token: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The published client, at another address."""
    monkeypatch.setattr("pinboard.pinboard.PINBOARD_API_ENDPOINT", f"{service.url}/v1/")
    monkeypatch.setattr(urllib.request, "getproxies", dict)
    return pinboard.Pinboard(token)


def asked(service: Running, path: str, token: str = "", *, method: str = "GET", **parameters: str) -> Answer:
    query = urlencode({"auth_token": token, **parameters} if token else parameters)
    if method == "GET":
        return service.get(f"/v1/{path}?{query}")
    return service.ask(
        method, f"/v1/{path}", query.encode(), headers={"Content-Type": "application/x-www-form-urlencoded"}
    )


def test_what_is_added_is_found_and_deleted_under_its_url(service: Running, token: str) -> None:
    """Also if another bookmark is proven to show the page: a client replaces and deletes only what it has added."""
    url, alias = "https://example.com/page", "https://example.com/old"
    service.put(url, title="A", tags=["x"])
    rows = [PageAlias(alias, url, Evidence.DECLARED)]
    service.service.database.write_now(lambda connection: save_aliases(connection, rows, "2026-01-01"))
    asked(service, "posts/add", token, url=alias, description="B", format="json")
    assert {each["url"]: each["title"] for each in service.get("/api/bookmarks").json()} == {url: "A", alias: "B"}
    asked(service, "posts/delete", token, url=alias)
    assert [each["url"] for each in service.get("/api/bookmarks").json()] == [url]


def test_the_client_adds_gets_changes_and_deletes(client: Any, service: Running) -> None:
    when = datetime(2020, 1, 31, 10, 0, 0)
    assert client.posts.add(
        url=f"{URL}?utm_source=x",
        description="Title",
        extended="Text",
        tags=["one", "two"],
        dt=when,
        shared=False,
        toread=True,
    )
    [kept] = service.get("/api/bookmarks").json()
    assert (kept["url"], kept["original_url"], kept["title"], kept["description"]) == (
        URL,
        f"{URL}?utm_source=x",
        "Title",
        "Text",
    )
    assert (kept["tags"], kept["private"], kept["to_read"]) == (["one", "two"], True, True)
    assert kept["created_at"] == "2020-01-31T10:00:00.000000Z"

    [found] = client.posts.get(url=f"{URL}?utm_source=y")["posts"]
    assert (found.url, found.description, found.extended, found.tags) == (URL, "Title", "Text", ["one", "two"])
    assert (found.shared, found.toread, found.time) == (False, True, when)
    assert found.hash == hashlib.md5(URL.encode()).hexdigest()
    [same] = client.posts.all()
    assert same == found

    found.description, found.tags, found.shared = "Other", ["three"], True
    assert found.save()
    [changed] = client.posts.all()
    assert (changed.description, changed.tags, changed.shared, changed.time) == ("Other", ["three"], True, when)
    assert changed.meta != found.meta

    assert found.delete()
    assert client.posts.all() == []
    with pytest.raises(pinboard.PinboardError, match="item not found"):
        client.posts.delete(url=URL)


def test_the_client_learns_that_a_url_is_already_saved(client: Any) -> None:
    assert client.posts.add(url=URL, description="one")
    with pytest.raises(pinboard.PinboardError, match="item already exists"):
        client.posts.add(url=URL, description="two", replace=False)
    assert client.posts.add(url=URL, description="two")
    [only] = client.posts.all()
    assert only.description == "two"


def test_the_client_reads_tags_recent_posts_and_the_last_change(client: Any, service: Running) -> None:
    before = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    for number in range(4):
        client.posts.add(url=f"{URL}{number}", description="x", tags=["all", f"t{number % 2}"])
    service.put("https://example.com/own", tags=["two words"])
    assert {tag.name: tag.count for tag in client.tags.get()} == {"all": 4, "t0": 2, "t1": 2, "two words": 1}
    recent = client.posts.recent(count=2)["posts"]
    assert [post.tags for post in recent] == [["two_words"], ["all", "t1"]]
    assert len(client.posts.recent(tag="ALL")["posts"]) == 4
    assert before <= client.posts.update() <= before + timedelta(minutes=10)


def test_the_client_reads_all_posts_in_parts(client: Any) -> None:
    for number in range(1, 6):
        client.posts.add(
            url=f"{URL}{number}",
            description=str(number),
            tags=["odd"] if number % 2 else [],
            dt=f"2020-01-0{number}T10:00:00Z",
        )
    assert [post.description for post in client.posts.all()] == list("54321")
    assert [post.description for post in client.posts.all(start=1, results=2)] == list("43")
    assert [post.description for post in client.posts.all(tag="odd")] == list("531")
    assert [
        post.description for post in client.posts.all(fromdt="2020-01-02T10:00:00Z", todt="2020-01-04T10:00:00Z")
    ] == list("32")
    assert [post.description for post in client.posts.get(dt="2020-01-03")["posts"]] == ["3"]
    assert [post.description for post in client.posts.get()["posts"]] == ["5"]


def test_the_client_needs_a_valid_token(client: Any, token: str) -> None:
    for wrong in (f"{token}x", "me:", "me", ""):
        with pytest.raises(pinboard.PinboardAuthenticationError):
            pinboard.Pinboard(wrong).posts.all()


def test_the_name_must_match_the_token(service: Running) -> None:
    users, now = service.service.users, service.service.clock()
    _, ada = asyncio.run(users.add("ada", now))
    _, bob = asyncio.run(users.add("bob", now))
    statuses = [asked(service, "posts/all", f"{name}:{token}").status for name, token in (("ada", ada), ("bob", bob))]
    assert statuses == [200, 200]
    assert asked(service, "posts/all", f"bob:{ada}").status == 401
    assert asked(service, "posts/all", ada).status == 401


def test_no_other_credentials_are_accepted(service: Running, token: str) -> None:
    """Their GETs write, so what a browser sends by itself must not be enough."""
    bare = token.partition(":")[2]
    assert service.get(f"/v1/posts/add?url={URL}&description=x").status == 401
    assert service.get(f"/v1/posts/add?url={URL}&description=x", token=bare).status == 401
    sent = service.get(
        f"/v1/posts/add?url={URL}&description=x&auth_token={token}", headers={"Sec-Fetch-Site": "cross-site"}
    )
    assert sent.status == 403
    assert service.get("/api/bookmarks").json() == []


CODES = [
    # why, parameters, result code
    ("no url", {"description": "x"}, "missing url"),
    ("no title", {"url": URL}, "must provide title"),
    ("no web page", {"url": "javascript:alert(1)", "description": "x"}, "not a usable URL"),
    ("101 tags", {"url": URL, "description": "x", "tags": " ".join(map(str, range(101)))}, "more than 100 tags"),
    ("a long tag", {"url": URL, "description": "x", "tags": "x" * 256}, "tags: "),
    ("no time", {"url": URL, "description": "x", "dt": "soon"}, "dt: "),
]


@pytest.mark.parametrize(("parameters", "code"), [row[1:] for row in CODES], ids=[row[0] for row in CODES])
def test_the_result_code_says_why_a_bookmark_was_not_saved(
    service: Running, token: str, parameters: dict[str, str], code: str
) -> None:
    answer = asked(service, "posts/add", token, format="json", **parameters)
    assert (answer.status, list(answer.json())) == (200, ["result_code"])
    assert answer.json()["result_code"].startswith(code)
    assert service.get("/api/bookmarks").json() == []


def test_a_hundred_tags_and_a_future_time_are_accepted(service: Running, token: str) -> None:
    tags = ",".join(map(str, range(100)))
    asked(service, "posts/add", token, url=URL, description="x", tags=tags, dt="2999-01-01T00:00:00Z")
    [kept] = service.get("/api/bookmarks").json()
    assert (len(kept["tags"]), kept["created_at"] < "2999") == (100, True)


def test_parameters_can_be_sent_as_a_form(service: Running, token: str) -> None:
    answer = asked(service, "posts/add", token, method="POST", url=URL, description="Ü", format="json")
    assert answer.json() == {"result_code": "done"}
    assert service.get("/api/bookmarks").json()[0]["title"] == "Ü"
    assert asked(service, "posts/add", method="POST", url=URL, description="x").status == 401


def test_xml_is_the_default_format(service: Running, token: str) -> None:
    title, text = 'a "b" <c> & d', "bell \x07 and\ttab"
    done = asked(service, "posts/add", token, url=URL, description=title, extended=text, tags="x y")
    assert done.headers["content-type"].startswith("text/xml")
    assert ElementTree.fromstring(done.body).attrib == {"code": "done"}
    posts = ElementTree.fromstring(asked(service, "posts/all", token).body)
    [post] = posts
    assert (posts.tag, post.attrib["href"], post.attrib["description"]) == ("posts", URL, title)
    assert (post.attrib["extended"], post.attrib["tag"]) == ("bell  and\ttab", "x y")
    tags = ElementTree.fromstring(asked(service, "tags/get", token).body)
    assert [(tag.attrib["tag"], tag.attrib["count"]) for tag in tags] == [("x", "1"), ("y", "1")]
    assert ElementTree.fromstring(asked(service, "posts/get", token, url=URL).body)[0].attrib["href"] == URL
    assert ElementTree.fromstring(asked(service, "posts/update", token).body).attrib["time"].startswith("20")
    assert ElementTree.fromstring(asked(service, "user/api_token", token).body).text == token.partition(":")[2]
    missing = asked(service, "posts/delete", token, url="https://example.com/none")
    assert ElementTree.fromstring(missing.body).attrib == {"code": "item not found"}


def test_an_exact_bookmark_is_distinguished_from_its_normalized_twin(service: Running, token: str) -> None:
    service.put(URL)
    service.put(f"{URL}?utm_source=x", "?exact_url=true")
    asked(service, "posts/delete", token, url=f"{URL}?utm_source=x")
    assert [kept["url"] for kept in service.get("/api/bookmarks").json()] == [URL]


def test_pinboard_requests_of_a_token_are_limited(database_url: str) -> None:
    with serving(database_url, ServiceOptions(runs_jobs=False, requests_per_minute=5)) as service:
        users, now = service.service.users, service.service.clock()
        first, second = (f"me:{asyncio.run(users.create_token('', now))}" for _ in range(2))
        answers = [asked(service, "posts/update", first) for _ in range(7)]
        assert [answer.status for answer in answers][:5] == [200] * 5
        assert answers[-1].status == 429
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert asked(service, "posts/update", second).status == 200
