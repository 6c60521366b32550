"""A hostile page in the same browser, in personal mode: it reads nothing and changes nothing (contract B6)."""

from __future__ import annotations

import itertools
import json
import logging
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import pytest

from http_server import serve_http

if TYPE_CHECKING:
    from collections.abc import Generator

    from playwright.sync_api import Browser, Page

    from service import Running

RUNS_JOBS = False
SECRET = "The title nobody else may read"
EVIL = "https://evil.test/planted"
# Every door at once. What a script can read of an answer goes into `results`.
ATTACK = """<!doctype html><meta charset="utf-8"><title>harmless</title><body><script>
const target = TARGET, evil = "EVIL", results = [];
const read = async (name, path, options) => {
  try {
    const answer = await fetch(target + path, options);
    results.push([name + " " + path, answer.type, answer.status, await answer.text().catch(() => "")]);
  } catch (error) { results.push([name + " " + path, "error", 0, String(error)]); }
};
const json = JSON.stringify({url: evil}), form = new URLSearchParams({url: evil, csrf: "x", keep: "1"});
const pinboard = ["/v1/posts/all", "/v1/posts/get", "/v1/posts/add?url=" + encodeURIComponent(evil) + "&description=x", "/v1/posts/delete?url=https%3A%2F%2Fexample.com%2Fa"];
const reads = ["/", "/bookmarks", "/add", "/bookmarks?q=title", "/bookmarks/1/edit", "/export/json", "/duplicates", "/admin", "/api/bookmarks", "/api/bookmarks/1", "/api/export", "/api/openapi.json", "/metrics", "/static/canonry.css", ...pinboard];
const writes = ["/add", "/bookmarks/1/edit", "/bookmarks/1/delete", "/import", "/signout", "/admin/renormalize", "/api/bookmarks", "/api/bookmarks/1", "/api/import", "/v1/posts/add"];
const run = async () => {
  for (const path of reads) {
    await read("cors", path, {});
    await read("credentials", path, {credentials: "include"});
    await read("no-cors", path, {mode: "no-cors", credentials: "include"});
    await read("header", path, {headers: {"Authorization": "Bearer x"}});
  }
  for (const path of writes) {
    await read("simple form", path, {method: "POST", body: form, mode: "no-cors", credentials: "include"});
    await read("simple text", path, {method: "POST", body: json, mode: "no-cors", credentials: "include", headers: {"Content-Type": "text/plain"}});
    await read("json", path, {method: "POST", body: json, credentials: "include", headers: {"Content-Type": "application/json"}});
    await read("put", path, {method: "PUT", body: json, credentials: "include", headers: {"Content-Type": "application/json"}});
    await read("delete", path, {method: "DELETE", credentials: "include"});
    await read("nothing", path, {method: "POST", mode: "no-cors", credentials: "include"});
    await read("blob", path, {method: "POST", body: new Blob([json]), mode: "no-cors", credentials: "include"});
    navigator.sendBeacon(target + path, form);
  }
  for (const path of [...reads, ...writes]) {
    await new Promise(done => {
      const image = new Image();
      image.onload = () => { results.push(["image " + path, "loaded", 0, "" + image.width]); done(); };
      image.onerror = done;
      image.src = target + path;
    });
  }
  for (const path of ["/export/json", "/api/bookmarks", "/static/htmx.min.js", "/v1/posts/all"]) {
    await new Promise(done => {
      const script = document.createElement("script");
      script.onload = () => { results.push(["script " + path, "loaded", 0, ""]); done(); };
      script.onerror = done;
      script.src = target + path;
      document.body.append(script);
    });
  }
  const kinds = ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"];
  for (const [number, path] of writes.entries()) {
    const frame = document.createElement("iframe"), sent = document.createElement("form");
    await new Promise(done => {
      frame.name = "frame" + Math.random();
      document.body.append(frame, sent);
      sent.target = frame.name; sent.method = "post"; sent.action = target + path; sent.enctype = kinds[number % 3];
      for (const [name, value] of form) {
        const field = document.createElement("input");
        field.name = name; field.value = value; sent.append(field);
      }
      frame.onload = () => {
        try { results.push(["form " + path, "frame", 0, frame.contentDocument.body.textContent]); } catch (error) { }
        done();
      };
      setTimeout(done, 3000);
      sent.submit();
    });
    frame.remove();
  }
  return results;
};
</script></body>"""


@contextmanager
def hostile_server(address: str, target: str) -> Generator[int]:
    """Serves the page of somebody else."""
    body = ATTACK.replace("TARGET", json.dumps(target)).replace("EVIL", EVIL).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with serve_http(Handler, address) as port:
        yield port


def everything(running: Running) -> Any:
    """All that could be read or changed."""
    return (
        running.get("/api/bookmarks").json(),
        running.get("/api/bookmarks?trash=true").json(),
        running.get("/api/admin/renormalizations").json(),
        running.get("/api/imports/1").status,
    )


@pytest.fixture
def secretive(running: Running) -> Running:
    running.put("https://example.com/a", title=SECRET)
    return running


@pytest.fixture
def page(browser: Browser, secretive: Running) -> Generator[Page]:
    """A tab of somebody who has our pages open too, and so has their cookies."""
    context = browser.new_context()
    own = context.new_page()
    own.goto(f"{secretive.url}/add")
    assert SECRET in own.goto(f"{secretive.url}/bookmarks").text()  # type: ignore[union-attr]
    assert any(each.get("name") == "canonry_csrf" for each in context.cookies())
    page = context.new_page()
    yield page
    context.close()


# Where the hostile page is (address to listen at, name in its URL), and the name it uses for us.
PLACES = [
    ("127.0.0.1", "127.0.0.1", "127.0.0.1"),  # same site: the browser sends our cookies along
    ("127.0.0.1", "localhost", "127.0.0.1"),
    ("127.0.0.1", "localhost", "localhost"),
    ("127.0.0.3", "127.0.0.3", "127.0.0.1"),
    ("127.0.0.1", "evil.localhost", "localhost"),
    ("127.0.0.1", "evil.test", "127.0.0.1"),
    ("127.0.0.1", "evil.test", "evil.test"),  # a name that was made to mean our address
]


@pytest.mark.slow
@pytest.mark.parametrize(("address", "name", "ours"), PLACES, ids=[f"{name} to {ours}" for _, name, ours in PLACES])
def test_a_page_of_another_site_reads_and_writes_nothing(
    page: Page, secretive: Running, caplog: pytest.LogCaptureFixture, address: str, name: str, ours: str
) -> None:
    before = everything(secretive)
    caplog.set_level(logging.INFO, "canonry.requests")
    caplog.clear()
    with hostile_server(address, f"http://{ours}:{secretive.port}") as port:
        page.goto(f"http://{name}:{port}/")
        results: list[tuple[str, str, int, str]] = page.evaluate("() => run()")
        page.goto("about:blank")
    records = [vars(record) for record in caplog.records if record.name == "canonry.requests"]
    answers = Counter((record["status"], record["method"], record["route"]) for record in records)
    del answers[404, "GET", "/api/imports/{import_id}"]  # our own look at everything, whose line may come late
    assert everything(secretive) == before
    assert not [result for result in results if SECRET in result[3] or "example.com/a" in result[3]]
    assert not [result for result in results if result[1] in {"basic", "cors", "default", "loaded"} and result[2] < 400]
    assert answers.total() > 150, "the attack did reach the service"
    assert not [answer for answer in answers if answer[0] not in {401, 403, 405, 415, 421}]


def test_dns_rebinding_reads_and_writes_nothing(page: Page, secretive: Running) -> None:
    """DNS rebinding: the page is of the same origin as we are, by the name of somebody else."""
    before = everything(secretive)
    answer = page.goto(f"http://evil.test:{secretive.port}/")
    assert answer is not None and answer.status == 421
    assert SECRET not in page.content()
    read = "path => fetch(path).then(async answer => [answer.status, await answer.text()])"
    for path in (
        "/",
        "/bookmarks",
        "/api/bookmarks",
        "/export/json",
        "/v1/posts/all",
        "/static/canonry.css",
        "/healthz",
    ):
        status, text = page.evaluate(read, path)
        assert status == 421 and SECRET not in text
    write = "body => fetch('/api/bookmarks', {method: 'PUT', body, headers: {'Content-Type': 'application/json'}}).then(answer => answer.status)"
    assert page.evaluate(write, json.dumps({"url": EVIL})) == 421
    assert everything(secretive) == before


def test_a_form_of_another_site_is_refused(page: Page, secretive: Running) -> None:
    before = everything(secretive)
    paths = ("/add", "/bookmarks/1/delete", "/import", "/api/bookmarks", "/v1/posts/add")
    kinds = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
    with hostile_server("127.0.0.1", secretive.url) as port:
        for path, kind in itertools.product(paths, kinds):
            page.goto(f"http://evil.test:{port}/")
            with page.expect_navigation() as going:
                page.evaluate(
                    """([action, enctype, url]) => {
                      const form = document.createElement("form");
                      Object.assign(form, {action, enctype, method: "post"});
                      form.innerHTML = `<input name="url" value="${url}"><input name="csrf" value="x">`;
                      document.body.append(form);
                      form.submit();
                    }""",
                    [f"{secretive.url}{path}", kind, EVIL],
                )
            assert going.value.status in {401, 403, 405, 415}, (path, kind)
            assert SECRET not in page.content()
    assert everything(secretive) == before


def test_other_sites_can_only_open_the_filled_form(page: Page, secretive: Running) -> None:
    """The bookmarklet needs it; a frame around it is refused, and its opener reads nothing."""
    before = everything(secretive)
    with hostile_server("127.0.0.1", secretive.url) as port:
        page.goto(f"http://evil.test:{port}/")
        with page.expect_popup() as popup:
            page.evaluate("address => { window.theirs = open(address) }", f"{secretive.url}/add?url={EVIL}")
        popup.value.wait_for_load_state()
        assert popup.value.get_by_label("URL", exact=True).input_value() == EVIL
        spied = page.evaluate(
            "() => { try { return String(theirs.document.title) } catch (error) { return 'nothing' } }"
        )
        assert "canonry" not in spied
        page.evaluate(
            "address => new Promise(done => { const frame = document.createElement('iframe');"
            "frame.src = address; frame.onload = done; document.body.append(frame) })",
            f"{secretive.url}/add",
        )
        assert all("canonry" not in frame.title() for frame in page.frames[1:])
    assert everything(secretive) == before
