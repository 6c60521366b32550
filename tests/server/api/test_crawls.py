"""Crawls over HTTP: started, stopped, resumed, deleted; run by the service itself (contract C, S2)."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from canonry.net.fetch import Client
from canonry.net.guard import Guard
from canonry.server.service import ServiceOptions
from canonry.settings import Settings
from chrome import needs_chrome
from crawl_server import ADDRESS, Site, client, serving, tree
from service import Running, until
from service import serving as service_of

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

COUNT = 30


@pytest.fixture
def site() -> Generator[Site]:
    with serving({**tree(COUNT), "/away": "->http://other.example.org/x"}) as made:
        yield made


@pytest.fixture
def running(sqlite_url: str) -> Generator[Running]:
    with service_of(sqlite_url, client=client) as found:
        yield found


def start(running: Running, seed: str, **options: Any) -> str:
    answer = running.ask("POST", "/api/crawls", {"seed": seed, "engine": "http", **options})
    assert answer.status == 201, answer.text
    return answer.headers["location"]


def ended(running: Running, where: str) -> dict[str, Any]:
    until(lambda: running.get(where).json()["state"] != "running")
    found: dict[str, Any] = running.get(where).json()
    return found


def test_the_service_crawls_a_site(database_url: str, site: Site) -> None:
    with service_of(database_url, client=client) as running:
        crawl = ended(running, start(running, f"{site.url}/0"))
        assert (crawl["state"], crawl["failure"], crawl["pages"]["done"]) == ("done", "", COUNT)
        assert crawl["duplicates_avoided"] > COUNT and crawl["pages_per_second"] > 0 and crawl["open"] == []
        [listed] = running.get("/api/crawls").json()
        assert {name: crawl[name] for name in listed} == listed
    assert max(count for path, count in site.asked.items() if path != "/robots.txt") == 1


def test_pages_come_with_their_links_and_a_cursor(running: Running, site: Site) -> None:
    where = start(running, f"{site.url}/0")
    ended(running, where)
    pages: list[Any] = []
    following = f"{where}/pages?limit=12"
    while following:
        answer = running.get(following)
        pages += answer.json()
        following = answer.headers.get("link", "").partition(">")[0].lstrip("<")
    assert sorted(page["title"] for page in pages) == sorted(f"Page {number}" for number in range(COUNT))
    verdicts = {link["verdict"] for link in pages[0]["links"]}
    assert verdicts == {"crawl", "external", "skip"}
    assert [link["url"] for link in pages[0]["external"]] == ["https://other.example.org/"]
    assert running.get("/api/crawls/9/pages").status == 404


def test_a_crawl_is_exported_in_every_format(running: Running, site: Site) -> None:
    where = start(running, f"{site.url}/0", max_pages=5)
    ended(running, where)
    for form, begins in (("jsonl", '{"url"'), ("csv", "url,"), ("graphml", "<?xml"), ("dot", "digraph")):
        answer = running.get(f"{where}/export?format={form}")
        assert (answer.status, answer.text[: len(begins)]) == (200, begins)
        assert answer.headers["content-disposition"] == f'attachment; filename="crawl-1.{form}"'
        if form == "jsonl":
            assert [json.loads(line) for line in answer.text.splitlines()] == running.get(f"{where}/pages").json()
    assert running.get("/api/crawls/9/export").status == 404
    assert running.get(f"{where}/export?format=exe").status == 400


def test_a_crawl_is_repeated_and_its_pages_say_how_they_changed(database_url: str, site: Site) -> None:
    with service_of(database_url, client=client) as running:
        where = start(running, f"{site.url}/0", exclude=["/9"])
        ended(running, where)
        site.pages["/1"] += "<p>more</p>"
        del site.pages["/26"]
        again = running.ask("POST", f"{where}/again")
        assert (again.status, again.json()["previous_id"]) == (201, 1)
        crawl = ended(running, again.headers["location"])
        assert crawl["changes"] == {"changed": 1, "gone": 1, "same": COUNT - 5}, "without /9 and its children"
        assert crawl["options"]["exclude"] == ["/9"]
        pages = running.get(f"{again.headers['location']}/pages?limit=200").json()
        changed = {page["url"].removeprefix(site.url): page["change"] for page in pages if page["change"] != "same"}
        assert changed == {"/1": "changed", "/26": "gone"}
        assert all(page["fetched_at"] and page["size"] is not None for page in pages if page["status"] == 200)
        other = start(running, f"{site.url}/0", delay=5, per_host=1)
        assert running.ask("POST", f"{other}/again").status == 409, "it is not finished"
        assert running.ask("DELETE", other).status == 204
        assert running.ask("POST", "/api/crawls/99/again").status == 404


def test_urls_that_robots_txt_refuses_are_listed(running: Running, site: Site) -> None:
    site.pages["/robots.txt"] = "User-agent: *\nDisallow: /1\nDisallow: /2\n"
    where = start(running, f"{site.url}/0")
    assert ended(running, where)["outcomes"]["refused"] > 1
    first = running.get(f"{where}/refused?limit=1")
    assert first.json()[0]["url"] == f"{site.url}/1" and first.json()[0]["outcome"] == "refused"
    following = running.get(first.headers["link"].partition(">")[0].lstrip("<")).json()
    assert following[0]["url"] == f"{site.url}/2" and following[0]["referrer"] == f"{site.url}/0"
    assert running.get("/api/crawls/9/refused").status == 404


def test_an_outage_loses_no_page(database_url: str) -> None:
    with service_of(database_url, client=client) as running:
        with serving(tree(60)) as site:
            where = start(running, f"{site.url}/0", delay=0.02)
            until(lambda: running.get(where).json()["pages"]["done"] >= 15)
        until(lambda: running.get(where).json()["paused_until"] is not None)
        port = site.server_address[1]
        with serving(tree(60), port):
            crawl = ended(running, where)
    assert (crawl["state"], crawl["pages"]["done"], crawl["outcomes"]["read"]) == ("done", 60, 60)


def run_another_crawl(running: Running) -> None:
    """Crawl another site to its end: meanwhile, a crawl that was not stopped would have requested pages."""
    with serving(tree(5)) as other:
        where = start(running, f"{other.url}/0", delay=0.2)
        assert ended(running, where)["pages"]["done"] == 5
        assert running.ask("DELETE", where).status == 204


def test_a_crawl_is_stopped_resumed_and_deleted(running: Running, site: Site) -> None:
    where = start(running, f"{site.url}/0", delay=0.2, per_host=1)
    until(lambda: running.get(where).json()["pages"]["done"] >= 2)
    stopped = running.ask("POST", f"{where}/stop").json()
    assert (stopped["state"], stopped["finished_at"] is not None) == ("stopped", True)
    until(lambda: not running.get(where).json()["pages"]["fetching"])
    asked = site.asked.total()
    run_another_crawl(running)
    assert site.asked.total() == asked, "the stopped crawl requests nothing more"
    assert running.ask("POST", f"{where}/stop").json()["state"] == "stopped"
    resumed = running.ask("POST", f"{where}/resume")
    assert (resumed.status, resumed.json()["state"], resumed.json()["finished_at"]) == (200, "running", None)
    until(lambda: running.get(where).json()["pages"]["done"] >= 4)
    assert running.ask("DELETE", where).status == 204, "while it runs"
    for method, path in (("GET", where), ("DELETE", where), ("POST", f"{where}/stop"), ("POST", f"{where}/resume")):
        assert running.ask(method, path).status == 404
    assert running.get("/api/crawls").json() == []
    asked = site.asked.total()
    run_another_crawl(running)
    assert site.asked.total() <= asked + 1, "at most the page that was being fetched"


def test_stopping_interrupts_a_long_crawl_delay(running: Running, site: Site) -> None:
    where = start(running, f"{site.url}/0", delay=600, per_host=1)
    until(lambda: running.get(where).json()["pages"]["done"] == 1)
    running.ask("POST", f"{where}/stop")
    until(lambda: not running.get(where).json()["pages"]["fetching"])
    assert running.get(where).json()["pages"] == {"queued": 3, "fetching": 0, "done": 1, "failed": 0, "skipped": 0}


def test_a_finished_crawl_cannot_be_resumed(running: Running, site: Site) -> None:
    where = start(running, f"{site.url}/0", max_pages=2)
    assert ended(running, where)["pages"]["done"] == 2
    assert running.ask("POST", f"{where}/resume").status == 409


def test_a_start_page_that_redirects_to_another_host_fails_the_crawl(running: Running, site: Site) -> None:
    crawl = ended(running, start(running, f"{site.url}/away"))
    assert (crawl["state"], crawl["failure"]) == (
        "failed",
        "the start page redirects to another host: http://other.example.org/x",
    )
    assert running.ask("POST", f"/api/crawls/{crawl['id']}/resume").status == 409


REFUSED_SEEDS = {
    "loopback": "http://127.0.0.1:8000/",
    "private": "http://10.0.0.1/",
    "metadata": "http://169.254.169.254/latest/meta-data",
    "IPv4 inside IPv6": "http://[::ffff:10.0.0.1]/",
    "hexadecimal loopback": "http://0x7f.1/",
    "file": "file:///etc/passwd",
    "script": "javascript:alert(1)",
    "empty": "",
    "credentials": f"http://me:secret@{ADDRESS}/",
}


def test_a_start_page_that_must_not_be_fetched_is_refused(running: Running) -> None:
    for kind, seed in REFUSED_SEEDS.items():
        answer = running.ask("POST", "/api/crawls", {"seed": seed, "engine": "http"})
        problem = answer.json()
        assert (answer.status, problem["type"]) == (400, "urn:canonry:problem:invalid-fields"), kind
        [error] = problem["errors"]
        assert error["field"] == "seed" and error["reason"], kind
        assert "secret" not in answer.text
    assert running.get("/api/crawls").json() == []


def test_options_that_only_chrome_follows_are_refused_for_the_http_engine(running: Running) -> None:
    for options in ({"scroll": True}, {"routes": True}, {"wait": "#ready"}):
        answer = running.ask("POST", "/api/crawls", {"seed": "https://example.com/", "engine": "http", **options})
        assert answer.status == 400
        assert [error["field"] for error in answer.json()["errors"]] == list(options)
    assert running.get("/api/crawls").json() == []


def test_a_name_with_a_private_address_is_refused_when_it_is_fetched(tmp_path: Path) -> None:
    async def lookup(_host: str, port: int) -> list[tuple[str, int]]:
        return [("10.0.0.1", port)]

    def misled() -> Client:
        return Client(settings=Settings(), lookup=lookup)

    with service_of(f"sqlite:///{tmp_path}/x.db", client=misled) as running:
        where = start(running, "http://inside.example.com/", robots=False)
        assert ended(running, where)["pages"]["failed"] == 1
        [page] = running.get(f"{where}/pages").json()
        assert page["status"] == 0
        assert page["error"] == (
            "Refused: 'http://inside.example.com/': 10.0.0.1 is a private address (inside.example.com resolves to it). "
            "To allow it, set CANONRY_ALLOW_NETWORKS=10.0.0.0/8."
        )


def test_the_service_does_not_crawl_itself(tmp_path: Path) -> None:
    """Not even where its network is allowed."""
    with socket.create_server(("127.0.0.1", 0)) as own:
        port = own.getsockname()[1]

        def allowed() -> Client:
            return Client(Guard(["127.0.0.0/8"], range(1, 65536), [("127.0.0.1", port)]), settings=Settings())

        with service_of(f"sqlite:///{tmp_path}/x.db", client=allowed) as running:
            answer = running.ask("POST", "/api/crawls", {"seed": f"http://127.0.0.1:{port}/", "engine": "http"})
            reason = f"Refused: 127.0.0.1 port {port} is canonry itself."
            assert (answer.status, answer.json()["errors"][0]["reason"]) == (400, reason)


def test_a_crawl_without_chrome_fails_with_a_reason(tmp_path: Path, site: Site) -> None:
    with service_of(f"sqlite:///{tmp_path}/x.db", client=client, chrome="/no/chrome") as running:
        crawl = ended(running, start(running, f"{site.url}/0", engine="chrome"))
        assert crawl["state"] == "failed"
        assert "CANONRY_CHROME" in crawl["failure"] and "/no/chrome" not in crawl["failure"]


@needs_chrome
def test_chrome_opens_the_pages(tmp_path: Path, site: Site) -> None:
    site.pages["/0"] += "<script>document.write('<a href=/made>made</a>')</script>"
    site.pages["/made"] = "<title>Made by a script</title>"
    with service_of(f"sqlite:///{tmp_path}/x.db", client=client) as running:
        where = start(running, f"{site.url}/0", engine="chrome", depth=1)
        assert ended(running, where)["pages"]["done"] == 5
        pages = running.get(f"{where}/pages").json()
        assert {page["engine"] for page in pages} == {"chrome"}
        assert "Made by a script" in {page["title"] for page in pages}


def test_a_crawl_continues_after_a_restart(tmp_path: Path, site: Site) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    with service_of(url, client=client) as running:
        where = start(running, f"{site.url}/0", delay=0.1, per_host=1)
        until(lambda: running.get(where).json()["pages"]["done"] >= 3)
        begun = time.monotonic()
    assert time.monotonic() - begun < 25, "a crawl is interrupted; other jobs have 30 s to finish"
    with service_of(url, client=client) as running:
        assert ended(running, where)["pages"]["done"] == COUNT
    assert max(count for path, count in site.asked.items() if path != "/robots.txt") <= 2


def test_a_service_without_jobs_leaves_crawls_to_workers(tmp_path: Path, site: Site) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    with service_of(url, ServiceOptions(runs_jobs=False), client=client) as running:
        where = start(running, f"{site.url}/0", max_pages=3)
        assert running.get(where).json()["pages"] == {"queued": 1, "fetching": 0, "done": 0, "failed": 0, "skipped": 0}
    assert site.asked.total() == 0, "also while the service stopped"
    with service_of(url, client=client) as running:
        assert ended(running, where)["pages"]["done"] == 3


def test_crawls_are_for_admins(tmp_path: Path, site: Site) -> None:
    with service_of(f"sqlite:///{tmp_path}/x.db", ServiceOptions(runs_jobs=False), client=client) as running:
        parts = running.service
        _, ada = asyncio.run(parts.users.add("ada", parts.clock()))
        _, bob = asyncio.run(parts.users.add("bob", parts.clock()))
        body = {"seed": f"{site.url}/0", "engine": "http"}
        assert running.ask("POST", "/api/crawls", body, token=bob).status == 403
        where = running.ask("POST", "/api/crawls", body, token=ada).headers["location"]
        for method, path in (
            *(("GET", "/api/crawls"), ("GET", where), ("GET", f"{where}/pages"), ("GET", f"{where}/export")),
            *(("POST", f"{where}/stop"), ("POST", f"{where}/resume"), ("DELETE", where)),
        ):
            assert running.ask(method, path, token=bob).status == 403
        assert running.get(where, token=ada).json()["state"] == "running"
