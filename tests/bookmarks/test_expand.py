"""Short links are expanded over real connections, and no bad target is accepted (contract B2)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest

import loopback
from canonry.bookmarks.expand import (
    FAILURE_CACHE_SECONDS,
    TARGET_CACHE_SECONDS,
    Expansion,
    ExpansionOutcome,
    expand,
    is_short,
)
from canonry.core.tables import SHORTENERS
from canonry.errors import FailureKind
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
def only_public_connections() -> Iterator[None]:
    """Assert that every connection went to the address that stands for the public internet."""
    loopback.CONNECTS.clear()
    yield
    assert set(loopback.CONNECTS) <= {ADDRESS}


def redirect(location: str, status: int = 301, cookie: str = "unused=1") -> dict[str, Any]:
    return {"status": status, "headers": {"Location": location, "Set-Cookie": cookie}}


def page(body: str, status: int = 200) -> dict[str, Any]:
    return {"status": status, "headers": HTML, "body": body}


def answer_head_and_get(*answers: dict[str, Any]) -> dict[str, Any]:
    """Answer HEAD with the first, GET with the second."""
    return {"sequence": list(answers)}


def chain(hops: int) -> dict[str, Any]:
    """Return a chain of redirects from `https://bit.ly/0` to the target."""
    return {f"https://bit.ly/{n}": redirect(TARGET if n == hops - 1 else f"/{n + 1}") for n in range(hops)}


class DictCache:
    """A cache that is a dict; nothing in it expires."""

    def __init__(self, value: bytes | None = None) -> None:
        self.entries: dict[str, tuple[bytes, float]] = {} if value is None else {cache_name(SHORT): (value, 0.0)}

    async def get(self, name: str) -> bytes | None:
        return self.entries.get(name, (None, 0.0))[0]

    async def set(self, name: str, value: bytes, seconds: float) -> None:
        self.entries[name] = (value, seconds)

    async def close(self) -> None: ...


def cache_name(url: str) -> str:
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
def test_a_short_link_is_known_by_its_host(url: str, wanted: bool) -> None:
    assert is_short(url) == wanted


def test_every_listed_host_is_short() -> None:
    assert [host for host in SHORTENERS if not is_short(f"https://{host}/x")] == []


EXPANDS: list[tuple[str, str, dict[str, Any], str, str]] = [
    # why                 given                 pages                                       wanted             asked by
    *[
        (f"status {status}", SHORT, {SHORT: redirect(TARGET, status)}, TARGET, "HEAD")
        for status in (301, 302, 303, 307, 308)
    ],
    ("www", "https://www.bit.ly/x", {"https://www.bit.ly/x": redirect(TARGET)}, TARGET, "HEAD"),
    ("plain http", "http://bit.ly/x", {"http://bit.ly/x": redirect(TARGET)}, TARGET, "HEAD"),
    ("to another port", SHORT, {SHORT: redirect("https://example.com:8443/")}, "https://example.com:8443/", "HEAD"),
    ("shortener, other port", SHORT, {SHORT: redirect("https://bit.ly:8443/y")}, "https://bit.ly:8443/y", "HEAD"),
    ("relative first", SHORT, {SHORT: redirect("/y"), "https://bit.ly/y": redirect(TARGET)}, TARGET, "HEAD HEAD"),
    ("two shorteners", SHORT, {SHORT: redirect("//t.co/y"), "https://t.co/y": redirect(TARGET)}, TARGET, "HEAD HEAD"),
    ("five hops", "https://bit.ly/0", chain(5), TARGET, "HEAD HEAD HEAD HEAD HEAD"),
    (
        "spelled oddly",
        SHORT,
        {SHORT: redirect("HTTPS://EXAMPLE.COM:443/a b/ü")},
        "https://example.com/a%20b/%C3%BC",
        "HEAD",
    ),
    *[
        (
            f"HEAD {status}",
            SHORT,
            {SHORT: answer_head_and_get({"status": status}, redirect(TARGET))},
            TARGET,
            "HEAD GET",
        )
        for status in (200, 204, 400, 403, 404, 405, 500, 501)
    ],
    (
        "HEAD redirects nowhere",
        SHORT,
        {SHORT: answer_head_and_get({"status": 302}, redirect(TARGET))},
        TARGET,
        "HEAD GET",
    ),
    ("refresh", SHORT, {SHORT: {"headers": {"Refresh": f"0;url={TARGET}"}}}, TARGET, "HEAD"),
    (
        "refresh with GET",
        SHORT,
        {SHORT: answer_head_and_get({}, {"headers": {"Refresh": f"1, {TARGET}"}})},
        TARGET,
        "HEAD GET",
    ),
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
    ("fragment kept", f"{SHORT}#part", {SHORT: redirect(TARGET)}, f"{TARGET}#part", "HEAD"),
    ("fragment of the target", f"{SHORT}#part", {SHORT: redirect(f"{TARGET}#own")}, f"{TARGET}#own", "HEAD"),
    (
        "fragment on the way",
        f"{SHORT}#part",
        {SHORT: redirect("/y#way"), "https://bit.ly/y": redirect(TARGET)},
        f"{TARGET}#way",
        "HEAD HEAD",
    ),
    ("user of the short URL", "https://ann:secret@bit.ly/x", {SHORT: redirect(TARGET)}, TARGET, "HEAD"),
    ("user of the target", SHORT, {SHORT: redirect("https://ann:secret@example.com/")}, "https://example.com/", "HEAD"),
    (
        "user on the way",
        SHORT,
        {SHORT: redirect("https://ann:secret@t.co/y"), "https://t.co/y": redirect(TARGET)},
        TARGET,
        "HEAD HEAD",
    ),
    (
        "cookies",
        SHORT,
        {
            SHORT: redirect("/y", cookie="seen=1; Path=/"),
            "https://bit.ly/y": answer_head_and_get({"status": 405}, redirect(TARGET)),
        },
        TARGET,
        "HEAD HEAD GET",
    ),
]


@pytest.mark.parametrize(("given", "pages", "wanted", "asked"), [pytest.param(*row[1:], id=row[0]) for row in EXPANDS])
@in_a_loop
async def test_a_short_link_is_expanded(given: str, pages: dict[str, Any], wanted: str, asked: str) -> None:
    async with LoopbackWeb(SERVED | pages) as web, web.client() as client:
        found = await expand(given, client)
    assert (found.outcome, found.url, found.reason, found.is_cached) == (ExpansionOutcome.EXPANDED, wanted, "", False)
    assert " ".join(method for method, _ in web.requests) == asked
    assert {url for _, url in web.requests} == set(pages)  # never the target
    assert not web.refused
    assert not [request for request in web.seen if {"authorization", "cookie"} & set(request.headers)]


@in_a_loop
async def test_an_expansion_lists_its_hops() -> None:
    async with (
        LoopbackWeb({SHORT: redirect("https://t.co/y", 302), "https://t.co/y": redirect(TARGET)}) as web,
        web.client() as client,
    ):
        found = await expand(f"{SHORT}#part", client)
    assert found.hops == (Hop(302, SHORT, "https://t.co/y"), Hop(301, "https://t.co/y", TARGET))


@pytest.mark.parametrize("url", [url for url, short in IS_SHORT if not short])
@in_a_loop
async def test_a_url_that_is_not_short_is_not_requested(url: str) -> None:
    cache = DictCache()
    async with LoopbackWeb({SHORT: redirect(TARGET)}) as web, web.client() as client:
        assert await expand(url, client, cache) == Expansion(url, ExpansionOutcome.NOT_SHORT)
    assert not web.requests and not web.refused and not cache.entries


FAILS: list[tuple[str, dict[str, Any], FailureKind]] = [
    # why                 pages                                                              failure
    ("not found", {SHORT: {"status": 404}}, FailureKind.STATUS),
    ("a page", {SHORT: page("<title>Are you sure?</title>")}, FailureKind.STATUS),
    ("no Location", {SHORT: {"status": 301}}, FailureKind.STATUS),
    ("refresh of an error", {SHORT: {"status": 404, "headers": {"Refresh": f"0;{TARGET}"}}}, FailureKind.STATUS),
    ("reload", {SHORT: page("<meta http-equiv=refresh content=30>")}, FailureKind.STATUS),
    ("meta in a picture", {SHORT: {**page(f"<meta http-equiv=refresh content='0;{TARGET}'>"), "headers": {"Content-Type": "image/png"}}}, FailureKind.STATUS),
    ("meta too late", {SHORT: page(f"{'<p>long ' * 10_000}<meta http-equiv=refresh content='0;{TARGET}'>")}, FailureKind.STATUS),
    ("meta in a comment", {SHORT: page(f"<!-- <meta http-equiv=refresh content='0;{TARGET}'> -->")}, FailureKind.STATUS),
    ("later hop is gone", {SHORT: redirect("https://t.co/y"), "https://t.co/y": {"status": 410}}, FailureKind.STATUS),
    ("no server", {}, FailureKind.CONNECT),
    ("itself", {SHORT: redirect("#again")}, FailureKind.REDIRECT_LOOP),
    ("a loop", {SHORT: redirect("/y"), "https://bit.ly/y": redirect("/z"), "https://bit.ly/z": redirect("/x#y")}, FailureKind.REDIRECT_LOOP),
    ("six hops", {SHORT: redirect("/0")} | chain(5), FailureKind.TOO_MANY_REDIRECTS),
    ("endless", {SHORT: redirect("/0")} | chain(50), FailureKind.TOO_MANY_REDIRECTS),
    ("a tab", {SHORT: redirect("https://exa\tmple.com/")}, FailureKind.BAD_REDIRECT),
    ("encoded", {SHORT: {"headers": {"Content-Encoding": "br"}, "body": "x"}}, FailureKind.ENCODING),
]  # fmt: skip


@pytest.mark.parametrize(("pages", "failure"), [pytest.param(*row[1:], id=row[0]) for row in FAILS])
@in_a_loop
async def test_a_failed_expansion_leaves_the_url_as_given(pages: dict[str, Any], failure: FailureKind) -> None:
    given = "HTTPS://Bit.ly:443/x#part"
    async with LoopbackWeb(SERVED | pages) as web, web.client() as client:
        found = await expand(given, client)
    assert (found.outcome, found.url, found.is_cached) == (ExpansionOutcome.FAILED, given, False)
    assert found.failure is failure and found.reason
    assert len(web.requests) <= 10 and TARGET not in {url for _, url in web.requests}


@in_a_loop
async def test_the_reason_names_the_host_and_its_status() -> None:
    pages = {SHORT: redirect("https://t.co/y"), "https://t.co/y": {"status": 410}}
    async with LoopbackWeb(pages) as web, web.client() as client:
        found = await expand(SHORT, client)
    assert found.reason == "t.co answered 410 without a redirect"


REFUSED = [
    # target                            failure
    ("file:///etc/passwd",              FailureKind.REFUSED),
    ("javascript:alert(1)",             FailureKind.REFUSED),
    ("data:text/html,x",                FailureKind.REFUSED),
    ("ftp://example.com/",              FailureKind.REFUSED),
    ("http://127.0.0.1/",               FailureKind.REFUSED),
    (f"http://{ADDRESS}/",              FailureKind.REFUSED),  # the settings allow it, but only for typed URLs
    ("http://10.1.2.3/",                FailureKind.REFUSED),
    ("http://2130706433/",              FailureKind.REFUSED),
    ("http://0x7f.1/",                  FailureKind.REFUSED),
    ("http://[::1]/",                   FailureKind.REFUSED),
    ("http://[::ffff:10.0.0.1]/",       FailureKind.REFUSED),
    ("http://169.254.169.254/latest/",  FailureKind.REFUSED),
    ("http://metadata.google.internal/", FailureKind.REFUSED),
    ("http://localhost/",               FailureKind.REFUSED),
    ("http://a.localhost./",            FailureKind.REFUSED),
    ("http://printer.local/",           FailureKind.REFUSED),
    ("http://example.com@10.1.2.3/",    FailureKind.REFUSED),
    ("http://exa mple.com/",            FailureKind.BAD_REDIRECT),
    ("http://",                         FailureKind.BAD_REDIRECT),
]  # fmt: skip


@pytest.mark.parametrize("way", ["location", "refresh", "meta"])
@pytest.mark.parametrize(("target", "failure"), REFUSED)
@in_a_loop
async def test_a_redirect_to_a_refused_target_fails(target: str, failure: FailureKind, way: str) -> None:
    pages = {
        "location": redirect(target),
        "refresh": {"headers": {"Refresh": f"0;url={target}"}},
        "meta": page(f'<meta http-equiv="refresh" content="0;url={target}">'),
    }
    async with LoopbackWeb({SHORT: pages[way]}) as web, web.client() as client:
        found = await expand(SHORT, client)
    assert (found.outcome, found.url, found.failure) == (ExpansionOutcome.FAILED, SHORT, failure)


@in_a_loop
async def test_a_shortener_with_a_private_address_is_refused() -> None:
    async def lookup(_: str, port: int) -> list[tuple[str, int]]:
        return [("127.0.0.1", port)]

    async with loopback.make_client(lookup=lookup) as client:
        found = await expand(SHORT, client)
    assert (found.outcome, found.url, found.failure) == (ExpansionOutcome.FAILED, SHORT, FailureKind.REFUSED)
    assert not loopback.CONNECTS


@in_a_loop
async def test_all_hops_share_one_timeout() -> None:
    slow = {url: answer | {"delay_ms": 300} for url, answer in chain(5).items()}
    async with LoopbackWeb(slow) as web, web.client() as client:
        found = await expand("https://bit.ly/0", client, seconds=1)
    assert (found.outcome, found.failure) == (ExpansionOutcome.FAILED, FailureKind.TIMEOUT)
    assert len(found.hops) < 5


@in_a_loop
async def test_get_is_tried_if_head_is_never_answered() -> None:
    answers = answer_head_and_get({"delay_ms": 600_000}, redirect(TARGET))
    async with LoopbackWeb({SHORT: answers}) as web, web.client() as client:
        found = await expand(SHORT, client, seconds=20)
    assert found.url == TARGET
    assert web.requests == [("HEAD", SHORT), ("GET", SHORT)]


@in_a_loop
async def test_an_endless_body_is_cut() -> None:
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
    assert found.failure is FailureKind.STATUS


@in_a_loop
async def test_a_target_is_cached_for_five_minutes() -> None:
    cache = DictCache()
    async with LoopbackWeb({SHORT: redirect(TARGET)}) as web, web.client() as client:
        first = await expand(SHORT, client, cache)
        assert cache.entries == {
            cache_name(SHORT): (json.dumps({"version": 2, "url": TARGET}).encode(), TARGET_CACHE_SECONDS)
        }
        again = [await expand(url, client, cache) for url in (SHORT, "HTTPS://bit.ly/x", "https://ann:b@bit.ly/x#part")]
    assert (first.is_cached, web.requests) == (False, [("HEAD", SHORT)])
    assert [(found.outcome, found.is_cached, found.hops) for found in again] == [
        (ExpansionOutcome.EXPANDED, True, ())
    ] * 3
    assert [found.url for found in again] == [TARGET, TARGET, f"{TARGET}#part"]
    assert TARGET_CACHE_SECONDS == 300


@in_a_loop
async def test_a_failure_is_cached_for_a_minute() -> None:
    cache = DictCache()
    async with LoopbackWeb({SHORT: {"status": 404}}) as web, web.client() as client:
        first = await expand(SHORT, client, cache)
        again = await expand(f"{SHORT}#part", client, cache)
    assert [seconds for _, seconds in cache.entries.values()] == [FAILURE_CACHE_SECONDS] == [60]
    assert (first.outcome, first.is_cached) == (ExpansionOutcome.FAILED, False)
    assert again == Expansion(
        f"{SHORT}#part", ExpansionOutcome.FAILED, FailureKind.STATUS, first.reason, is_cached=True
    )
    assert web.requests == [("HEAD", SHORT), ("GET", SHORT)]


INVALID_ENTRIES: list[bytes] = [
    b"",
    b"\x00\xff\xfe",
    b"null",
    b"[]",
    b'"https://evil.example.com/"',
    b"{",
    b"[" * 100_000,
    b"{}",
    b'{"url": "https://example.com/old"}',
    b'{"version": 1, "url": "https://example.com/old"}',
    b'{"version": "2", "url": "https://example.com/old"}',
    b'{"version": 2, "url": null}',
    b'{"version": 2, "url": ["https://example.com/old"]}',
    b'{"version": 2, "url": ""}',
    b'{"version": 2, "url": "example.com/old"}',
    b'{"version": 2, "url": "javascript:alert(1)"}',
    b'{"version": 2, "url": "file:///etc/passwd"}',
    b'{"version": 2, "url": "http://127.0.0.1/"}',
    b'{"version": 2, "url": "http://127.0.0.2/"}',
    b'{"version": 2, "url": "http://localhost/"}',
    b'{"version": 2, "url": "http://169.254.169.254/"}',
    b'{"version": 2, "url": "https://ann:secret@example.com/"}',
    b'{"version": 2, "url": "https://bit.ly/y"}',
    b'{"version": 2, "url": "https://example.com\\ud800/"}',
    b'{"version": 2, "failure": "status", "reason": ""}',
    b'{"version": 2, "failure": "status", "reason": 404}',
    b'{"version": 2, "failure": "status", "reason": "a\\nb"}',
    b'{"version": 2, "failure": "status", "reason": "\\ud800"}',
    b'{"version": 2, "reason": "no kind"}',
    b'{"version": 2, "failure": "unheard_of", "reason": "x"}',
    json.dumps({"version": 2, "failure": "status", "reason": "x" * 10_000}).encode(),
]


@pytest.mark.parametrize("value", INVALID_ENTRIES, ids=lambda value: repr(value[:40]))
@in_a_loop
async def test_an_invalid_cache_entry_is_a_miss_and_is_replaced(value: bytes) -> None:
    cache = DictCache(value)
    async with LoopbackWeb({SHORT: redirect(TARGET)}) as web, web.client() as client:
        found = await expand(SHORT, client, cache)
    assert (found.url, found.is_cached, web.requests) == (TARGET, False, [("HEAD", SHORT)])
    assert json.loads(cache.entries[cache_name(SHORT)][0])["url"] == TARGET


@in_a_loop
async def test_a_cancelled_expansion_caches_nothing() -> None:
    cache = DictCache()
    async with LoopbackWeb({SHORT: redirect(TARGET) | {"delay_ms": 60_000}}) as web, web.client() as client:
        task = asyncio.create_task(expand(SHORT, client, cache, seconds=60.0))
        async with asyncio.timeout(60):
            while not web.requests:
                await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await web.wait_until_disconnected()
    assert not cache.entries


@in_a_loop
async def test_a_short_timeout_is_not_cached_as_a_failure() -> None:
    cache = DictCache()
    async with LoopbackWeb({SHORT: redirect(TARGET) | {"delay_ms": 600_000}}) as web, web.client() as client:
        assert (await expand(SHORT, client, cache, seconds=0.1)).failure is FailureKind.TIMEOUT
    assert not cache.entries


@in_a_loop
async def test_a_failure_is_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    location = "http://ann:secret@10.1.2.3/?token=secret"
    async with LoopbackWeb({SHORT: redirect(location)}) as web, web.client() as client:
        found = await expand("https://bob:secret@bit.ly/x", client)
    [record] = [record for record in caplog.records if record.name == "canonry.expand"]
    assert record.levelno == logging.WARNING
    facts = vars(record)
    assert (facts["short_host"], facts["failure"], facts["is_cached"]) == ("bit.ly", FailureKind.REFUSED, False)
    assert facts["reason"] == found.reason
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
def test_the_target_of_a_refresh_is_parsed(content: str, wanted: str) -> None:
    assert parse_refresh(content) == wanted


def test_a_hostile_refresh_is_parsed_in_linear_time() -> None:
    begun = time.process_time()
    for hostile in ("0" + " " * 60_000, "0;" + " " * 60_000 + "\n", "0" * 60_000, "0;url" + " " * 60_000):
        parse_refresh(hostile)
    assert time.process_time() - begun < 5  # seconds of CPU; quadratic time takes minutes
