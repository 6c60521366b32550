"""Contract C6: cookies, headers and basic authentication go to the site only, and pictures are not loaded."""

from __future__ import annotations

import json
import shlex
import sys
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest

from canonry.cli.access_options import hide_headers, read_access
from canonry.crawler.crawl import crawl
from canonry.crawler.pages import make_record
from canonry.errors import CanonryError
from canonry.net.engine import ReadOptions
from canonry.net.origin import Origin
from canonry.net.site_access import SiteAccess, parse_login, read_cookie_file
from canonry.store.database import Database
from chrome import make_page, needs_chrome, run_engine
from loopback import LoopbackWeb, in_a_loop

if TYPE_CHECKING:
    from pathlib import Path

    from canonry.crawler.crawl import EngineName

SITE = "http://site.example"
OTHER = "http://other.example"
SECRET = "s3cret-value"
ACCESS = SiteAccess(f"{SITE}/", {"X-Token": SECRET}, {"session": SECRET})
ENGINES = [pytest.param("http"), pytest.param("chrome", marks=needs_chrome)]
PICTURE = {"body": "x", "headers": {"Content-Type": "image/png"}}


@pytest.mark.parametrize("engine", ENGINES)
@in_a_loop
async def test_credentials_go_to_the_site_only_and_are_in_no_output(engine: EngineName) -> None:
    script = {"body": "1", "headers": {"Content-Type": "text/javascript"}}
    pages: dict[str, dict[str, Any]] = {
        f"{SITE}/robots.txt": {"body": "", "headers": {"Content-Type": "text/plain"}},
        f"{SITE}/": make_page(
            f"<a href=/in>x</a><a href=/out>x</a><script src={OTHER}/script.js></script><script src=/own.js></script>"
        ),
        f"{SITE}/in": make_page("in"),
        f"{SITE}/out": {"status": 302, "headers": {"Location": f"{OTHER}/landing"}},
        f"{SITE}/own.js": script,
        f"{OTHER}/script.js": script,
        f"{OTHER}/landing": make_page("landing"),
    }
    with Database("sqlite://") as database:
        async with LoopbackWeb(pages) as web, web.client() as client:
            found = [
                page async for page in crawl(f"{SITE}/", engine=engine, client=client, store=database, access=ACCESS)
            ]
        rows = await database.read(lambda connection: connection.exec_driver_sql("SELECT * FROM crawls").all())
    assert {page.url.removeprefix(SITE) for page in found} == {"/", "/in", "/out"}
    for request in web.seen:
        sent = [request.headers.get("x-token"), request.headers.get("cookie")]
        assert sent == ([SECRET, f"session={SECRET}"] if request.url.startswith(SITE) else [None, None]), request.url
    assert any(request.url.startswith(OTHER) for request in web.seen) == (engine == "chrome")
    assert SECRET not in json.dumps([make_record(page) for page in found]) + repr(rows) + repr(ACCESS)


@needs_chrome
@in_a_loop
async def test_pictures_media_and_fonts_are_loaded_only_if_asked_for() -> None:
    style = "<style>@font-face { font-family: f; src: url(/font) } p { font-family: f }</style><p>text</p>"
    page = f"{style}<img src=/picture onerror=document.title='blocked'><video src=/film></video><a href=/a>x</a>"
    pages = {f"{SITE}/": make_page(page)} | {f"{SITE}/{name}": PICTURE for name in ("picture", "film", "font")}
    for load_images in (False, True):
        async with LoopbackWeb(pages) as web, run_engine(web.lookup) as engine:
            opened = await engine.open(f"{SITE}/", origin=Origin.PERSON, options=ReadOptions(load_images=load_images))
        assert (opened.failure, len(opened.links)) == (None, 1)
        asked = {request.target for request in web.seen} - {"/favicon.ico"}
        assert asked == ({"/", "/picture", "/film", "/font"} if load_images else {"/"})


@pytest.mark.parametrize(
    ("site", "url", "is_sent"),
    [
        ("http://a.example/", "http://a.example/x", True),
        ("http://a.example/", "https://a.example/x", True),
        ("https://a.example/", "http://a.example/x", False),
        ("https://a.example/", "https://a.example:8443/", False),
        ("http://a.example:8080/", "https://a.example/", False),
        ("http://a.example:8080/", "http://a.example:8080/x", True),
        ("http://[::1]/", "https://[::1]/", True),
        ("http://a.example/", "http://b.a.example/", False),
        ("http://a.example/", "http://a.example.evil.example/", False),
        ("http://a.example/", "not a url", False),
    ],
)
def test_which_urls_get_the_credentials(site: str, url: str, is_sent: bool) -> None:
    access = SiteAccess(site, {"X-Token": SECRET}, {"a": "1", "b": "2"})
    assert access.get_headers(url) == ({"X-Token": SECRET, "Cookie": "a=1; b=2"} if is_sent else {})


@pytest.mark.parametrize(
    ("headers", "cookies"),
    [
        ({"Host": "x"}, {}),
        ({"Cookie": "a=b"}, {}),
        ({"X": "a\r\nY: b"}, {}),
        ({"": "x"}, {}),
        ({"X": "\u20ac"}, {}),
        ({}, {"a": "b; c=d"}),
        ({}, {"a=b": "c"}),
        ({}, {"a": "\n"}),
    ],
)
def test_what_cannot_be_sent_is_refused(headers: dict[str, str], cookies: dict[str, str]) -> None:
    with pytest.raises(CanonryError):
        SiteAccess(f"{SITE}/", headers, cookies)


def test_cookies_of_a_file_are_those_for_the_site(tmp_path: Path) -> None:
    file = tmp_path / "cookies.txt"
    rows = [
        ("site.example", "FALSE", "/", "FALSE", "4102444800", "plain", "1"),
        (".example", "TRUE", "/", "FALSE", "4102444800", "parent", "2"),
        ("site.example", "FALSE", "/", "TRUE", "4102444800", "secure", "3"),
        ("site.example", "FALSE", "/", "FALSE", "946684800", "expired", "4"),
        ("other.example", "FALSE", "/", "FALSE", "4102444800", "other", "5"),
        ("site.example", "FALSE", "/admin", "FALSE", "4102444800", "admin", "6"),
    ]
    file.write_text("# Netscape HTTP Cookie File\n" + "".join("\t".join(row) + "\n" for row in rows))
    assert read_cookie_file(file, f"{SITE}/") == {"plain": "1", "parent": "2"}
    assert read_cookie_file(file, "https://site.example/admin/x") == {
        "plain": "1",
        "parent": "2",
        "secure": "3",
        "admin": "6",
    }
    file.write_text("{}")
    with pytest.raises(CanonryError):
        read_cookie_file(file, f"{SITE}/")


@pytest.mark.parametrize("text", ["", "[]", "1", '{"cookies": {"a": 1}}', '{"headers": "x"}', '{"cookies": null}'])
def test_a_login_command_must_print_headers_and_cookies(text: str) -> None:
    with pytest.raises(CanonryError):
        parse_login(text)


def test_options_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    login = tmp_path / "login.py"
    login.write_text('print(\'{"cookies": {"session": "1"}, "headers": {"X-A": "login"}}\')')
    headers = tmp_path / "headers"
    headers.write_text("X-B: from file\n\n")
    monkeypatch.setenv("CANONRY_CRAWL_AUTH", "user:pass:word")
    given: dict[str, Any] = {
        "header_lines": ("X-A: line", f"@{headers}"),
        "auth_file": None,
        "cookie_file": None,
        "login": shlex.join([sys.executable, str(login)]),
        "depth": 3,
    }
    access = read_access("site.example", given)
    assert access is not None and given == {"depth": 3}
    basic = f"Basic {b64encode(b'user:pass:word').decode()}"
    assert access.headers == {"Authorization": basic, "X-A": "line", "X-B": "from file"}
    assert access.cookies == {"session": "1"}


def test_printed_commands_have_no_header_values() -> None:
    words = ["crawl", "--header", f"X-Token: {SECRET}", f"--header=Y: {SECRET}", "--header", "@file"]
    words += ["--login", f"log-in {SECRET}", f"--login=log-in {SECRET}", "--depth", "2"]
    shown = hide_headers(words)
    assert SECRET not in " ".join(shown)
    assert shown[:6] == ["crawl", "--header", "X-Token: ...", "--header=Y: ...", "--header", "@file"]
    assert shown[6:] == ["--login", "...", "--login=...", "--depth", "2"]
