"""contract B2: where short links lead, what is never asked, and what is never believed; over real connections."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest

import loopback
from canonry.bookmarks.expand import FAILED_FOR, FOUND_FOR, Expansion, ExpansionOutcome, expand, is_short
from canonry.core.tables import SHORTENERS
from canonry.net.html import parse_refresh
from canonry.net.response import Hop
from loopback import ADDRESS, LoopbackWeb, in_a_loop

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORT = "https://bit.ly/x"
TARGET = "https://example.com/page?id=1"
SERVED = {TARGET: {"body": "never asked for"}}
HTML = {"Content-Type": "text/html; charset=utf-8"}


@pytest.fixture(autouse=True)
def connects() -> Iterator[None]:
    """No connection was asked for but to the address that stands for the public internet."""
    loopback.CONNECTS.clear()
    yield
    assert set(loopback.CONNECTS) <= {ADDRESS}


def to(location: str, status: int = 301, cookie: str = "unused=1") -> dict[str, Any]:
    return {"status": status, "headers": {"Location": location, "Set-Cookie": cookie}}


def page(body: str, status: int = 200) -> dict[str, Any]:
    return {"status": status, "headers": HTML, "body": body}


def by_turns(*answers: dict[str, Any]) -> dict[str, Any]:
    """The first answer is that to HEAD, the second that to GET."""
    return {"sequence": list(answers)}


def chain(hops: int) -> dict[str, Any]:
    """So many hops from `https://bit.ly/0` to the target."""
    return {f"https://bit.ly/{n}": to(TARGET if n == hops - 1 else f"/{n + 1}") for n in range(hops)}


class DictCache:
    """A cache that is a dict; nothing in it expires."""

    def __init__(self, value: bytes | None = None) -> None:
        self.kept: dict[str, tuple[bytes, float]] = {} if value is None else {name_of(SHORT): (value, 0.0)}

    async def get(self, name: str) -> bytes | None:
        return self.kept.get(name, (None, 0.0))[0]

    async def set(self, name: str, value: bytes, seconds: float) -> None:
        self.kept[name] = (value, seconds)

    async def close(self) -> None: ...


def name_of(url: str) -> str:
    return f"expand:{hashlib.sha256(url.encode()).hexdigest()}"


IS_SHORT = [
    # URL                                is it?
    ("https://bit.ly/x", True),
    ("http://BIT.LY/x?utm_source=a#b", True),
    ("https://www.bit.ly/x", True),
    ("https://bit.ly:443/x", True),
    ("http://ann:secret@t.co/x", True),
    ("https://bit.ly:8443/x", False),
    ("http://bit.ly:443/x", False),
    ("https://www.www.bit.ly/x", False),
    ("https://a.bit.ly/x", False),
    ("https://bit.ly.example.com/x", False),
    ("https://notbit.ly/x", False),
    ("https://youtu.be/dQw4w9WgXcQ", False),
    ("https://example.com/https://bit.ly/x", False),
    ("bit.ly/x", False),
    ("javascript://bit.ly/x", False),
    ("", False),
]


@pytest.mark.parametrize(("url", "wanted"), IS_SHORT)
def test_what_is_short(url: str, wanted: bool) -> None:
    assert is_short(url) == wanted


def test_every_listed_host_is_short() -> None:
    assert [host for host in SHORTENERS if not is_short(f"https://{host}/x")] == []


EXPANDS: list[tuple[str, str, dict[str, Any], str, str]] = [
    # why                 given                 pages                                       wanted             asked by
    *[(f"status {status}", SHORT, {SHORT: to(TARGET, status)}, TARGET, "HEAD") for status in (301, 302, 303, 307, 308)],
    ("www", "https://www.bit.ly/x", {"https://www.bit.ly/x": to(TARGET)}, TARGET, "HEAD"),
    ("plain http", "http://bit.ly/x", {"http://bit.ly/x": to(TARGET)}, TARGET, "HEAD"),
    ("to another port", SHORT, {SHORT: to("https://example.com:8443/")}, "https://example.com:8443/", "HEAD"),
    ("shortener, other port", SHORT, {SHORT: to("https://bit.ly:8443/y")}, "https://bit.ly:8443/y", "HEAD"),
    ("relative first", SHORT, {SHORT: to("/y"), "https://bit.ly/y": to(TARGET)}, TARGET, "HEAD HEAD"),
    ("two shorteners", SHORT, {SHORT: to("//t.co/y"), "https://t.co/y": to(TARGET)}, TARGET, "HEAD HEAD"),
    ("five hops", "https://bit.ly/0", chain(5), TARGET, "HEAD HEAD HEAD HEAD HEAD"),
    ("spelled oddly", SHORT, {SHORT: to("HTTPS://EXAMPLE.COM:443/a b/ü")}, "https://example.com/a%20b/%C3%BC", "HEAD"),
    *[
        (f"HEAD {status}", SHORT, {SHORT: by_turns({"status": status}, to(TARGET))}, TARGET, "HEAD GET")
        for status in (200, 204, 400, 403, 404, 405, 500, 501)
    ],
    ("HEAD redirects nowhere", SHORT, {SHORT: by_turns({"status": 302}, to(TARGET))}, TARGET, "HEAD GET"),
    ("refresh", SHORT, {SHORT: {"headers": {"Refresh": f"0;url={TARGET}"}}}, TARGET, "HEAD"),
    ("refresh with GET", SHORT, {SHORT: by_turns({}, {"headers": {"Refresh": f"1, {TARGET}"}})}, TARGET, "HEAD GET"),
    ("meta", SHORT, {SHORT: page(f'<meta http-equiv="refresh" content="0; URL={TARGET}">')}, TARGET, "HEAD GET"),
    (
        "meta as t.co has it",
        SHORT,
        {
            SHORT: page(
                f'<head><noscript><META http-equiv="refresh" content="0;URL={TARGET}"></noscript><title>x</title>'
            )
        },
        TARGET,
        "HEAD GET",
    ),
    (
        "meta after a base",
        SHORT,
        {SHORT: page("<base href=https://example.com/a/><meta http-equiv=Refresh content=\"5;url='b?c&amp;d'\">")},
        "https://example.com/a/b?c&d",
        "HEAD GET",
    ),
    (
        "meta without a type",
        SHORT,
        {SHORT: {"body": f'<meta http-equiv=refresh content="0 {TARGET}">'}},
        TARGET,
        "HEAD GET",
    ),
    (
        "meta at the start of a long page",
        SHORT,
        {SHORT: page(f'<meta http-equiv=refresh content="0;{TARGET}">{"<p>long " * 100_000}')},
        TARGET,
        "HEAD GET",
    ),
    ("fragment kept", f"{SHORT}#part", {SHORT: to(TARGET)}, f"{TARGET}#part", "HEAD"),
    ("fragment of the target", f"{SHORT}#part", {SHORT: to(f"{TARGET}#own")}, f"{TARGET}#own", "HEAD"),
    (
        "fragment on the way",
        f"{SHORT}#part",
        {SHORT: to("/y#way"), "https://bit.ly/y": to(TARGET)},
        f"{TARGET}#way",
        "HEAD HEAD",
    ),
    ("user of the short URL", "https://ann:secret@bit.ly/x", {SHORT: to(TARGET)}, TARGET, "HEAD"),
    ("user of the target", SHORT, {SHORT: to("https://ann:secret@example.com/")}, "https://example.com/", "HEAD"),
    (
        "user on the way",
        SHORT,
        {SHORT: to("https://ann:secret@t.co/y"), "https://t.co/y": to(TARGET)},
        TARGET,
        "HEAD HEAD",
    ),
    (
        "cookies",
        SHORT,
        {
            SHORT: to("/y", cookie="seen=1; Path=/"),
            "https://bit.ly/y": by_turns({"status": 405}, to(TARGET)),
        },
        TARGET,
        "HEAD HEAD GET",
    ),
]


@pytest.mark.parametrize(("given", "pages", "wanted", "asked"), [pytest.param(*row[1:], id=row[0]) for row in EXPANDS])
@in_a_loop
async def test_expands(given: str, pages: dict[str, Any], wanted: str, asked: str) -> None:
    async with LoopbackWeb(SERVED | pages) as web, web.client() as client:
        found = await expand(given, client)
    assert (found.outcome, found.url, found.reason, found.is_cached) == (ExpansionOutcome.EXPANDED, wanted, "", False)
    assert " ".join(method for method, _ in web.requests) == asked
    assert {url for _, url in web.requests} == set(pages)  # never the target
    assert not web.refused
    assert not [request for request in web.seen if {"authorization", "cookie"} & set(request.headers)]


@in_a_loop
async def test_the_hops_are_told() -> None:
    async with (
        LoopbackWeb({SHORT: to("https://t.co/y", 302), "https://t.co/y": to(TARGET)}) as web,
        web.client() as client,
    ):
        found = await expand(f"{SHORT}#part", client)
    assert found.hops == (Hop(302, SHORT, "https://t.co/y"), Hop(301, "https://t.co/y", TARGET))


@pytest.mark.parametrize("url", [url for url, short in IS_SHORT if not short])
@in_a_loop
async def test_what_is_not_short_is_not_asked(url: str) -> None:
    cache = DictCache()
    async with LoopbackWeb({SHORT: to(TARGET)}) as web, web.client() as client:
        assert await expand(url, client, cache) == Expansion(url, ExpansionOutcome.NOT_SHORT)
    assert not web.requests and not web.refused and not cache.kept


FAILS: list[tuple[str, dict[str, Any], str]] = [
    # why                 pages                                                              reason
    ("not found", {SHORT: {"status": 404}}, "bit.ly answers 404 and leads nowhere"),
    ("a page", {SHORT: page("<title>Are you sure?</title>")}, "bit.ly answers 200 and leads nowhere"),
    ("no Location", {SHORT: {"status": 301}}, "bit.ly answers 301 and leads nowhere"),
    ("refresh of an error", {SHORT: {"status": 404, "headers": {"Refresh": f"0;{TARGET}"}}}, "answers 404"),
    ("reload", {SHORT: page("<meta http-equiv=refresh content=30>")}, "answers 200"),
    ("meta in a picture", {SHORT: {**page(f"<meta http-equiv=refresh content='0;{TARGET}'>"), "headers": {"Content-Type": "image/png"}}}, "answers 200"),
    ("meta too late", {SHORT: page(f"{'<p>long ' * 10_000}<meta http-equiv=refresh content='0;{TARGET}'>")}, "answers 200"),
    ("meta in a comment", {SHORT: page(f"<!-- <meta http-equiv=refresh content='0;{TARGET}'> -->")}, "answers 200"),
    ("later hop is gone", {SHORT: to("https://t.co/y"), "https://t.co/y": {"status": 410}}, "t.co answers 410"),
    ("no server", {}, "no connection"),
    ("itself", {SHORT: to("#again")}, "in a circle"),
    ("a circle", {SHORT: to("/y"), "https://bit.ly/y": to("/z"), "https://bit.ly/z": to("/x#y")}, "leads in a circle, back to bit.ly"),
    ("six hops", {SHORT: to("/0")} | chain(5), "more than 5 hops"),
    ("endless", {SHORT: to("/0")} | chain(50), "more than 5 hops"),
    ("a tab", {SHORT: to("https://exa\tmple.com/")}, "control characters"),
    ("encoded", {SHORT: {"headers": {"Content-Encoding": "br"}, "body": "x"}}, "encoded as 'br'"),
]  # fmt: skip


@pytest.mark.parametrize(("pages", "reason"), [pytest.param(*row[1:], id=row[0]) for row in FAILS])
@in_a_loop
async def test_fails(pages: dict[str, Any], reason: str) -> None:
    given = "HTTPS://Bit.ly:443/x#part"
    async with LoopbackWeb(SERVED | pages) as web, web.client() as client:
        found = await expand(given, client)
    assert (found.outcome, found.url, found.is_cached) == (ExpansionOutcome.FAILED, given, False)
    assert reason in found.reason
    assert len(web.requests) <= 10 and TARGET not in {url for _, url in web.requests}


REFUSED = [
    # target                                      reason
    ("file:///etc/passwd", "scheme file: is not http or https"),
    ("javascript:alert(1)", "scheme javascript: is not http or https"),
    ("data:text/html,x", "scheme data: is not http or https"),
    ("ftp://example.com/", "scheme ftp: is not http or https"),
    ("http://127.0.0.1/", "is a loopback address"),
    (f"http://{ADDRESS}/", "is a loopback address"),  # an operator may allow it, a shortener may not lead there
    ("http://10.1.2.3/", "is a private address"),
    ("http://2130706433/", "is a loopback address"),
    ("http://0x7f.1/", "is a loopback address"),
    ("http://[::1]/", "is a loopback address"),
    ("http://[::ffff:10.0.0.1]/", "is a private address"),
    ("http://169.254.169.254/latest/", "metadata"),
    ("http://metadata.google.internal/", "metadata"),
    ("http://localhost/", "a name of a local network"),
    ("http://a.localhost./", "a name of a local network"),
    ("http://printer.local/", "a name of a local network"),
    ("http://example.com@10.1.2.3/", "its user name looks like a host"),
    ("http://exa mple.com/", "not a URL"),
    ("http://", "not a URL"),
]


@pytest.mark.parametrize("way", ["location", "refresh", "meta"])
@pytest.mark.parametrize(("target", "reason"), REFUSED)
@in_a_loop
async def test_never_leads_to(target: str, reason: str, way: str) -> None:
    pages = {
        "location": to(target),
        "refresh": {"headers": {"Refresh": f"0;url={target}"}},
        "meta": page(f'<meta http-equiv="refresh" content="0;url={target}">'),
    }
    async with LoopbackWeb({SHORT: pages[way]}) as web, web.client() as client:
        found = await expand(SHORT, client)
    assert (found.outcome, found.url) == (ExpansionOutcome.FAILED, SHORT)
    assert reason in found.reason


@in_a_loop
async def test_a_shortener_with_a_private_address() -> None:
    async def lookup(_: str, port: int) -> list[tuple[str, int]]:
        return [("127.0.0.1", port)]

    async with loopback.make_client(lookup=lookup) as client:
        found = await expand(SHORT, client)
    assert (found.outcome, found.url) == (ExpansionOutcome.FAILED, SHORT)
    assert "is a loopback address" in found.reason
    assert not loopback.CONNECTS


@in_a_loop
async def test_one_clock_for_everything() -> None:
    slow = {url: answer | {"delay_ms": 300} for url, answer in chain(5).items()}
    async with LoopbackWeb(slow) as web, web.client() as client:
        begun = time.monotonic()
        found = await expand("https://bit.ly/0", client, seconds=1)
        took = time.monotonic() - begun
    assert (found.outcome, found.reason) == (ExpansionOutcome.FAILED, "no end of it within 1 s")
    assert 1 <= len(found.hops) < 5
    assert 1 <= took < 5


@in_a_loop
async def test_a_server_that_never_answers_head() -> None:
    answers = by_turns({"delay_ms": 60_000}, to(TARGET))
    async with LoopbackWeb({SHORT: answers}) as web, web.client() as client:
        found = await expand(SHORT, client, seconds=1)
    assert found.url == TARGET
    assert web.requests == [("HEAD", SHORT), ("GET", SHORT)]


@in_a_loop
async def test_a_body_without_end() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await loopback.read_request(reader)
        head = request is not None and request.method == "HEAD"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n")
        while not head:
            writer.write(b"<p>more " * 1000)
            await writer.drain()

    async with loopback.Listener(talk) as server:

        async def lookup(_host: str, _port: int) -> list[tuple[str, int]]:
            return [(ADDRESS, server.port)]

        async with loopback.make_client(lookup=lookup) as client:
            found = await expand("http://bit.ly/x", client)
    assert found.reason == "bit.ly answers 200 and leads nowhere"


@in_a_loop
async def test_what_is_found_is_remembered() -> None:
    cache = DictCache()
    async with LoopbackWeb({SHORT: to(TARGET)}) as web, web.client() as client:
        first = await expand(SHORT, client, cache)
        assert cache.kept == {name_of(SHORT): (json.dumps({"version": 1, "url": TARGET}).encode(), FOUND_FOR)}
        again = [await expand(url, client, cache) for url in (SHORT, "HTTPS://bit.ly/x", "https://ann:b@bit.ly/x#part")]
    assert (first.is_cached, web.requests) == (False, [("HEAD", SHORT)])
    assert [(found.outcome, found.is_cached, found.hops) for found in again] == [
        (ExpansionOutcome.EXPANDED, True, ())
    ] * 3
    assert [found.url for found in again] == [TARGET, TARGET, f"{TARGET}#part"]
    assert FOUND_FOR == 300


@in_a_loop
async def test_what_fails_is_remembered() -> None:
    cache = DictCache()
    async with LoopbackWeb({SHORT: {"status": 404}}) as web, web.client() as client:
        first = await expand(SHORT, client, cache)
        again = await expand(f"{SHORT}#part", client, cache)
    assert [seconds for _, seconds in cache.kept.values()] == [FAILED_FOR] == [60]
    assert (first.outcome, first.is_cached) == (ExpansionOutcome.FAILED, False)
    assert again == Expansion(f"{SHORT}#part", ExpansionOutcome.FAILED, first.reason, (), is_cached=True)
    assert web.requests == [("HEAD", SHORT), ("GET", SHORT)]


NOT_OURS: list[bytes] = [
    b"",
    b"\x00\xff\xfe",
    b"null",
    b"[]",
    b'"https://evil.example.com/"',
    b"{",
    b"[" * 100_000,
    b"{}",
    b'{"url": "https://example.com/old"}',
    b'{"version": 2, "url": "https://example.com/old"}',
    b'{"version": "1", "url": "https://example.com/old"}',
    b'{"version": 1, "url": null}',
    b'{"version": 1, "url": ["https://example.com/old"]}',
    b'{"version": 1, "url": ""}',
    b'{"version": 1, "url": "example.com/old"}',
    b'{"version": 1, "url": "javascript:alert(1)"}',
    b'{"version": 1, "url": "file:///etc/passwd"}',
    b'{"version": 1, "url": "http://127.0.0.1/"}',
    b'{"version": 1, "url": "http://127.0.0.2/"}',
    b'{"version": 1, "url": "http://localhost/"}',
    b'{"version": 1, "url": "http://169.254.169.254/"}',
    b'{"version": 1, "url": "https://ann:secret@example.com/"}',
    b'{"version": 1, "url": "https://bit.ly/y"}',
    b'{"version": 1, "url": "https://example.com\\ud800/"}',
    b'{"version": 1, "reason": ""}',
    b'{"version": 1, "reason": 404}',
    b'{"version": 1, "reason": "a\\nb"}',
    b'{"version": 1, "reason": "\\ud800"}',
    json.dumps({"version": 1, "reason": "x" * 10_000}).encode(),
]


@pytest.mark.parametrize("value", NOT_OURS, ids=lambda value: repr(value[:40]))
@in_a_loop
async def test_what_is_not_ours_in_the_cache_is_replaced(value: bytes) -> None:
    cache = DictCache(value)
    async with LoopbackWeb({SHORT: to(TARGET)}) as web, web.client() as client:
        found = await expand(SHORT, client, cache)
    assert (found.url, found.is_cached, web.requests) == (TARGET, False, [("HEAD", SHORT)])
    assert json.loads(cache.kept[name_of(SHORT)][0])["url"] == TARGET


@in_a_loop
async def test_who_stops_waiting_leaves_nothing_behind() -> None:
    cache = DictCache()
    async with LoopbackWeb({SHORT: to(TARGET) | {"delay_ms": 60_000}}) as web, web.client() as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await expand(SHORT, client, cache)
        await web.until_quiet()
    assert not cache.kept


@in_a_loop
async def test_little_patience_says_nothing_to_those_with_more() -> None:
    cache = DictCache()
    async with LoopbackWeb({SHORT: to(TARGET) | {"delay_ms": 300}}) as web, web.client() as client:
        assert (await expand(SHORT, client, cache, seconds=0.1)).outcome is ExpansionOutcome.FAILED
        assert (await expand(SHORT, client, cache)).url == TARGET


@in_a_loop
async def test_a_failure_is_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    location = "http://ann:secret@10.1.2.3/?token=secret"
    async with LoopbackWeb({SHORT: to(location)}) as web, web.client() as client:
        found = await expand("https://bob:secret@bit.ly/x", client)
    [record] = [record for record in caplog.records if record.name == "canonry.expand"]
    assert record.levelno == logging.WARNING
    facts = vars(record)
    assert (facts["short_host"], facts["reason"], facts["is_cached"]) == ("bit.ly", found.reason, False)
    assert "secret" not in f"{record.getMessage()} {facts}"
    assert found.url == "https://bob:secret@bit.ly/x"  # exactly as given


REFRESHES = [
    # content                          reference
    ("0;url=/a", "/a"),
    ("0; URL = '/a' ", "/a"),
    (' 1.5 , url="/a";b', "/a"),
    ("0;'/a", "/a"),
    ("0 /a", "/a"),
    ("0;urls/a", "urls/a"),
    (".5;/a", "/a"),
    ("0", ""),
    ("0;", ""),
    ("0; url=", ""),
    ("url=/a", ""),
    ("0url=/a", ""),
    ("", ""),
]


@pytest.mark.parametrize(("content", "wanted"), REFRESHES)
def test_what_a_refresh_names(content: str, wanted: str) -> None:
    assert parse_refresh(content) == wanted


def test_a_refresh_is_read_in_no_time() -> None:
    begun = time.process_time()
    for hostile in ("0" + " " * 60_000, "0;" + " " * 60_000 + "\n", "0" * 60_000, "0;url" + " " * 60_000):
        parse_refresh(hostile)
    assert time.process_time() - begun < 0.5
