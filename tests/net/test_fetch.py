"""contract F3, F9, G1, G3, G4: what a fetch returns and sends, and that no connection remains, over real connections."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import threading
import traceback
import zlib
from base64 import b64encode
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import brotli  # type: ignore[import-untyped,unused-ignore]
import pytest
import trustme
from backports import zstd

import canonry
import loopback
from canonry.errors import FailureKind, RefusalKind
from canonry.net.dns import resolve_name
from canonry.net.fetch import MAX_CONNECTIONS_PER_HOST, Client
from canonry.net.guard import DEFAULT_PORTS, Guard, make_guard
from canonry.net.origin import Origin
from canonry.net.response import Hop, Response, Validators
from canonry.net.shared_client import use_shared_client
from canonry.settings import Settings
from loopback import (
    ADDRESS,
    EVERY_PORT,
    Listener,
    LoopbackWeb,
    fails,
    in_a_loop,
    make_client,
    make_http_response,
    read_request,
    refuses,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from loopback import Request, Talk

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def connects() -> Iterator[set[str]]:
    """The addresses that this test may connect to; the test fails if it connected to any other."""
    loopback.CONNECTS.clear()
    permitted = {ADDRESS}
    yield permitted
    assert set(loopback.CONNECTS) <= permitted


@in_a_loop
async def test_connections_are_recorded(connects: set[str]) -> None:
    """The fixture works: connections are recorded, and a server on 127.0.0.1 can be reached."""
    connects.add("127.0.0.1")
    async with Listener(answer_with_bytes(make_http_response(200, {})), address="127.0.0.1") as secret:
        async with make_client(guard=Guard(["127.0.0.0/8"], EVERY_PORT)) as client:
            await client.fetch(f"http://127.0.0.1:{secret.port}/", origin=Origin.PERSON)
        with socket.socket() as plain:
            plain.connect_ex(("127.0.0.1", secret.port))
        assert secret.accepted >= 1
    assert loopback.CONNECTS == ["127.0.0.1", "127.0.0.1"]


# Redirects


@pytest.mark.parametrize(
    ("statuses", "permanent"),
    [((), 0), ((301, 308), 2), ((301, 302, 301), 1), ((302, 301), 0), ((303,), 0), ((307,), 0), ((308,), 1)],
)
@in_a_loop
async def test_permanent_url_is_the_target_of_the_leading_permanent_redirects(
    statuses: tuple[int, ...], permanent: int
) -> None:
    urls = [f"https://example.com/{n}" for n in range(len(statuses) + 1)]
    pages: dict[str, Any] = {urls[n]: make_redirect(f"/{n + 1}", status) for n, status in enumerate(statuses)}
    async with LoopbackWeb(pages | {urls[-1]: {"body": "end"}}) as web, web.client() as client:
        response = await client.fetch(urls[0], origin=Origin.PERSON)
    assert (response.body, response.url, response.permanent_url) == (b"end", urls[-1], urls[permanent])
    assert response.hops == tuple(Hop(status, urls[n], urls[n + 1]) for n, status in enumerate(statuses))
    assert web.requests == [("GET", url) for url in urls]


@in_a_loop
async def test_a_location_is_resolved_like_a_link() -> None:
    pages = {
        "http://example.com/a/b?c=1": make_redirect("../d?e=%C3%A9#part"),
        "http://example.com/d?e=%C3%A9": make_redirect("//other.example.com:8080/é ü"),
        "http://other.example.com:8080/%C3%A9%20%C3%BC": make_redirect("?"),
        "http://other.example.com:8080/empty": {"status": 302, "headers": {"location": ""}, "body": "nowhere"},
        "http://other.example.com:8080/none": {"status": 301, "body": "none"},
        "http://other.example.com:8080/choice": {"status": 300, "headers": {"location": "/none"}, "body": "choose"},
    }
    async with LoopbackWeb(pages) as web, web.client() as client:
        with fails(FailureKind.REDIRECT_LOOP):
            await client.fetch("http://example.com/a/b?c=1#fragment", origin=Origin.PERSON)
        assert [url for _, url in web.requests] == list(pages)[:3]
        for page, body in {"empty": b"nowhere", "none": b"none", "choice": b"choose"}.items():
            assert (await client.fetch(f"http://other.example.com:8080/{page}", origin=Origin.PERSON)).body == body
        assert not web.refused


@in_a_loop
async def test_a_location_that_is_not_a_url_is_an_error() -> None:
    async with LoopbackWeb({"http://example.com/": make_redirect("http://[oops/")}) as web, web.client() as client:
        with fails(FailureKind.BAD_REDIRECT):
            await client.fetch("http://example.com/", origin=Origin.PERSON)


@in_a_loop
async def test_an_allowed_address_may_redirect_to_an_allowed_address(connects: set[str]) -> None:
    """Any other address may not."""
    connects.add("127.0.0.3")
    guard = Guard([f"{ADDRESS}/32", "127.0.0.3/32"], EVERY_PORT)
    async with Listener(answer_with_bytes(make_http_response(200, {}, body=b"inside")), address="127.0.0.3") as inner:
        location = f"http://127.0.0.3:{inner.port}/"
        async with (
            Listener(answer_with_bytes(make_http_response(302, {"Location": location}))) as outer,
            make_client(guard=guard) as client,
        ):
            response = await client.fetch(f"http://{ADDRESS}:{outer.port}/", origin=Origin.PERSON)
            assert (response.body, response.address) == (b"inside", "127.0.0.3")
            assert (await client.fetch(location, origin=Origin.from_server(ADDRESS))).body == b"inside"
            assert (await client.fetch(location, origin=Origin.from_server(f"::ffff:{ADDRESS}"))).body == b"inside"
            for stranger in ("93.184.216.34", "2606:2800::1", "127.0.0.9", ""):
                with refuses(RefusalKind.LOOPBACK):
                    await client.fetch(location, origin=Origin.from_server(stranger))
            assert inner.accepted == 1, "the connection is kept, and refused requests made none"


@in_a_loop
async def test_a_public_address_may_not_redirect_to_an_allowed_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this test 127.0.0.2 counts as public; only 127.0.0.3 is allowed."""
    real = Guard.check_address

    def check_address(self: Guard, address: Any, *, port: int | None = None) -> Any:
        return real(self, "93.184.216.34" if str(address) == ADDRESS else address, port=port)

    monkeypatch.setattr(Guard, "check_address", check_address)
    async with Listener(answer_with_bytes(make_http_response(200, {}, body=b"inside")), address="127.0.0.3") as inner:
        locations = [f"http://127.0.0.3:{inner.port}/", f"http://inside.example.com:{inner.port}/"]
        pages = {f"http://example.com/{n}": make_redirect(location) for n, location in enumerate(locations)}
        async with LoopbackWeb(pages) as web:

            async def lookup(host: str, port: int) -> list[tuple[str, int]]:
                return [("127.0.0.3", port)] if host.startswith("inside") else await web.lookup(host, port)

            async with web.client(guard=Guard(["127.0.0.3/32"], EVERY_PORT), lookup=lookup) as client:
                for url in pages:
                    with refuses(RefusalKind.LOOPBACK):
                        await client.fetch(url, origin=Origin.PERSON)
        assert (inner.accepted, len(web.requests)) == (0, 2)


# Names and requests


@pytest.mark.parametrize("addresses", [[ADDRESS, "10.0.0.1"], ["127.0.0.1", ADDRESS], [ADDRESS, "::1"], ["nonsense"]])
@in_a_loop
async def test_one_refused_address_refuses_the_name(addresses: list[str]) -> None:
    async with Listener(answer_with_bytes(make_http_response(200, {}))) as server:

        async def lookup(host: str, port: int) -> list[tuple[str, int]]:
            return [(address, server.port) for address in addresses]

        async with make_client(lookup=lookup) as client:
            with pytest.raises(canonry.UnsafeUrl) as caught:
                await client.fetch("http://user:secret@mixed.example.com/", origin=Origin.PERSON)
    assert server.accepted == 0
    assert caught.value.target == "http://***@mixed.example.com/"


@in_a_loop
async def test_the_next_address_is_tried_if_one_does_not_answer() -> None:
    with socket.socket() as dead:
        dead.bind((ADDRESS, 0))
        async with Listener(answer_with_bytes(make_http_response(200, {}, body=b"alive"))) as server:

            async def lookup(host: str, port: int) -> list[tuple[str, int]]:
                return [(ADDRESS, dead.getsockname()[1]), (ADDRESS, server.port)]

            async with make_client(lookup=lookup) as client:
                assert (await client.fetch("http://example.com/", origin=Origin.PERSON)).body == b"alive"


@pytest.mark.parametrize("error", [OSError("no such name"), UnicodeError("label too long")])
@in_a_loop
async def test_a_name_without_an_address_is_an_error(error: Exception) -> None:
    async def lookup(host: str, port: int) -> list[tuple[str, int]]:
        raise error

    async def empty(host: str, port: int) -> list[tuple[str, int]]:
        return []

    async with make_client(lookup=lookup) as client:
        with fails(FailureKind.DNS):
            await client.fetch("http://example.com/", origin=Origin.PERSON)
    async with make_client(lookup=empty) as client:
        with refuses(RefusalKind.NO_ADDRESS):
            await client.fetch("http://example.com/", origin=Origin.PERSON)


def test_a_lookup_in_the_system_may_outlive_its_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the end of the loop nor the end of the process waits for it, and it ends without an error."""
    may_end = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: may_end.wait(120) and [])

    async def fetch() -> None:
        async with make_client(lookup=resolve_name, timeout=1) as client:
            with fails(FailureKind.TIMEOUT):
                await client.fetch("https://outlives.example.com/", origin=Origin.PERSON)

    asyncio.run(fetch())
    threads = [thread for thread in threading.enumerate() if thread.name == "lookup outlives.example.com"]
    assert [(thread.is_alive(), thread.daemon) for thread in threads] == [(True, True)]
    may_end.set()
    threads[0].join(60)
    assert not threads[0].is_alive()


@in_a_loop
async def test_a_request_sends_these_headers_and_no_others() -> None:
    settings = Settings(user_agent="feeds/1 (+https://example.org/bot)")
    async with LoopbackWeb({"http://example.com:8080/p?q=a|b'c": {}}) as web, web.client(settings=settings) as client:
        await client.fetch("http://EXAMPLE.com:8080/x/../p?q=a|b'c#fragment", origin=Origin.PERSON)
    headers = dict(web.seen[0].headers)
    assert headers.pop("accept").startswith("application/atom+xml, application/rss+xml")
    assert headers == {
        "host": "example.com:8080",
        "accept-encoding": "gzip, deflate, br, zstd",
        "user-agent": "feeds/1 (+https://example.org/bot)",
    }


@in_a_loop
async def test_a_head_request_follows_redirects_and_reads_no_body() -> None:
    page = {"status": 200, "headers": {"content-length": "99999999", "content-type": "text/html", "etag": '"1"'}}
    async with LoopbackWeb({"https://example.com/": make_redirect("/big"), "https://example.com/big": page}) as web:
        async with web.client() as client:
            response = await client.fetch("https://example.com/", method="HEAD", origin=Origin.PERSON)
            assert (response.status, response.body, response.validators.etag) == (200, b"", '"1"')
        assert web.requests == [("HEAD", "https://example.com/"), ("HEAD", "https://example.com/big")]


@in_a_loop
async def test_an_ipv6_literal_is_checked_and_reached(connects: set[str]) -> None:
    requests: list[Request] = []
    async with Listener(answer_with_bytes(make_http_response(200, {}, body=b"six"), requests), address="::1") as server:
        url = f"http://[::1]:{server.port}/"
        async with make_client() as client:
            with refuses(RefusalKind.LOOPBACK):
                await client.fetch(url, origin=Origin.PERSON)
        assert server.accepted == 0
        connects.add("::1")
        async with make_client(guard=Guard(["::1/128"], EVERY_PORT)) as client:
            response = await client.fetch(url, origin=Origin.PERSON)
    assert (response.body, response.address, response.url) == (b"six", "::1", url)
    assert requests[0].headers["host"] == f"[::1]:{server.port}"


# Conditional requests and Retry-After


@in_a_loop
async def test_validators_are_returned_and_sent_on_every_hop() -> None:
    date = "Mon, 01 Jun 2026 10:00:00 GMT"
    fresh = {"headers": {"ETag": 'W/"v1"', "Last-Modified": date}, "body": "feed"}
    pages = {
        "https://example.com/": make_redirect("/feed"),
        "https://example.com/feed": {"sequence": [fresh, {"status": 304, "headers": {"ETag": 'W/"v2"'}}]},
    }
    async with LoopbackWeb(pages) as web, web.client() as client:
        first = await client.fetch("https://example.com/", origin=Origin.PERSON)
        assert (first.validators, first.is_ok, first.is_not_modified) == (Validators('W/"v1"', date), True, False)
        second = await client.fetch("https://example.com/", validators=first.validators, origin=Origin.PERSON)
    assert (second.status, second.body, second.is_not_modified, second.is_ok) == (304, b"", True, False)
    assert second.validators == Validators('W/"v2"', "")
    sent = [(seen.headers.get("if-none-match"), seen.headers.get("if-modified-since")) for seen in web.seen]
    assert sent == [(None, None), (None, None), ('W/"v1"', date), ('W/"v1"', date)]


@in_a_loop
async def test_a_header_that_is_not_text_can_be_stored_and_sent_back() -> None:
    requests: list[Request] = []
    answer = b'HTTP/1.1 200 OK\r\nETag: "\xe9"\r\nContent-Length: 0\r\n\r\n'
    async with Listener(answer_with_bytes(answer, requests)) as server, make_client() as client:
        url = f"http://{ADDRESS}:{server.port}/"
        validators = (await client.fetch(url, origin=Origin.PERSON)).validators
        assert validators.etag == '"é"'
        assert (await client.fetch(url, validators=validators, origin=Origin.PERSON)).status == 200
    assert "if-none-match" in requests[1].headers


@in_a_loop
async def test_validators_with_line_breaks_are_not_sent() -> None:
    async with LoopbackWeb({"http://example.com/": {}}) as web, web.client() as client:
        with pytest.raises(canonry.FetchFailed):
            await client.fetch(
                "http://example.com/", validators=Validators('"1"\r\nX-Injected: 1'), origin=Origin.PERSON
            )
        assert not web.requests


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("Mon, 01 Jun 2026 12:01:30 GMT", 90.0),
        ("Mon, 01 Jun 2026 11:00:00 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("²", None),
        ("Mon, 99 Jun 2026 12:00:00 GMT", None),
        ("Mon, 01 Jun 2026 12:00:00", None),
        ("9" * 400, 999999999.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, seconds: float | None) -> None:
    assert Response(429, "https://example.com/", {"Retry-After": text}).retry_after(NOW) == seconds


@in_a_loop
async def test_a_response_of_any_status_is_returned() -> None:
    statuses = [200, 204, 401, 404, 410, 429, 500, 503, 599, 999]
    pages = {
        f"http://example.com/{status}": {"status": status, "headers": {"Retry-After": "7"}, "body": "x"}
        for status in statuses
    }
    async with LoopbackWeb(pages) as web, web.client() as client:
        for status, url in zip(statuses, pages, strict=True):
            response = await client.fetch(url, origin=Origin.PERSON)
            assert (response.status, response.is_ok) == (status, status < 300)
            assert response.retry_after(NOW) == 7
            assert response.body == (b"" if status == 204 else b"x")


def test_headers_are_found_in_any_case() -> None:
    response = Response(200, "https://example.com/", {"Content-Type": "text/html"})
    assert response.header("content-TYPE") == "text/html"
    assert response.header("etag") == ""


# Credentials and cookies


@in_a_loop
async def test_credentials_go_to_their_origin_only() -> None:
    """A redirect back to their origin gets them again."""
    steps = [
        "https://example.com/start",
        "https://example.com/same",
        "https://example.com:8443/port",
        "https://sub.example.com/host",
        "http://example.com/downgraded",
        "https://example.com/back",
    ]
    pages: dict[str, Any] = {url: make_redirect(then) for url, then in pairwise(steps)}
    async with LoopbackWeb(pages | {steps[-1]: {}}) as web, web.client() as client:
        response = await client.fetch("https://us%40er:p%3Aw%C3%A9@example.com/start", origin=Origin.PERSON)
    sent = [request.headers.get("authorization") for request in web.seen]
    basic = f"Basic {b64encode('us@er:p:wé'.encode()).decode()}"
    assert sent == [basic, basic, None, None, None, basic]
    assert response.url == "https://us%40er:p%3Aw%C3%A9@example.com/back"


@in_a_loop
async def test_credentials_without_a_user_or_without_a_password_are_sent() -> None:
    async with LoopbackWeb({"https://example.com/": {}}) as web, web.client() as client:
        for userinfo in ("user", "user:", ":pw"):
            await client.fetch(f"https://{userinfo}@example.com/", origin=Origin.PERSON)
    sent = [request.headers["authorization"].removeprefix("Basic ") for request in web.seen]
    assert sent == [b64encode(pair).decode() for pair in (b"user:", b"user:", b":pw")]


@in_a_loop
async def test_credentials_are_in_no_error() -> None:
    """Neither as written nor as sent, neither in a traceback nor in the fields of the error."""
    pages: dict[str, Any] = {
        "https://example.com/circle": make_redirect("/circle"),
        "https://example.com/many": make_redirect("/many2"),
        "https://example.com/many2": make_redirect("/many3"),
        "https://example.com/inside": make_redirect("http://127.0.0.1/"),
        "https://example.com/userinfo": make_redirect("http://name:hidden@127.0.0.1/"),
        "https://example.com/port": make_redirect("http://name:hidden@example.com:99999/"),
        "https://example.com/scheme": make_redirect("ftp://name:hidden@example.com/"),
        "https://example.com/control": make_redirect("/\x01"),
        "https://example.com/big": {"body": "x" * 100},
        "https://example.com/short": {"headers": {"content-length": "5"}, "body": "x"},
        "https://example.com/slow": {"delay_ms": 120_000},
        "https://example.com/line": {"headers": {"x-long": "x" * 10_000}},
        "https://example.com/encoded": {"headers": {"content-encoding": "br"}, "body": "x"},
    }
    urls = [*pages, "https://example.com/none", "https://closed.example.com/", "https://127.0.0.1/", "ftp://a.example/"]
    options: dict[str, Any] = {"max_redirects": 1, "max_bytes": 50, "timeout": 60}
    secret = "hidden"
    secrets = (secret, b64encode(f"name:{secret}".encode()).decode())
    async with LoopbackWeb(pages) as web, web.client(**options) as client:
        for url in urls:
            timeout = 0.5 if url.endswith(("/slow", "/short", "/many2", "/none")) else None  # no complete answer comes
            with pytest.raises((canonry.FetchFailed, canonry.UnsafeUrl)) as caught:
                await client.fetch(url.replace("://", f"://name:{secret}@"), timeout=timeout, origin=Origin.PERSON)
            shown = "".join(traceback.format_exception(caught.value))
            cause = caught.value.__cause__
            for text in (str(caught.value), repr(caught.value), str(vars(caught.value)), shown, repr(cause)):
                assert not [secret for secret in secrets if secret in text], url


@in_a_loop
async def test_cookies_are_not_sent_back() -> None:
    cookie = {"Set-Cookie": "session=1; Path=/"}
    pages: dict[str, dict[str, Any]] = {
        "https://example.com/": {"status": 302, "headers": {"location": "/in", **cookie}},
        "https://example.com/in": {"headers": cookie},
    }
    async with LoopbackWeb(pages) as web, web.client() as client:
        await client.fetch("https://example.com/", origin=Origin.PERSON)
        await client.fetch("https://example.com/in", origin=Origin.PERSON)
    assert len(web.seen) == 3
    assert not any("cookie" in request.headers for request in web.seen)


# Bodies


def compress_with_large_window(body: bytes) -> bytes:
    """Return a zstd frame that asks for a window of 128 MiB, which is more than a body may ask for."""
    compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 27})
    return compressor.compress(body) + compressor.flush()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"feed" * 250)),
        ("GZip", gzip.compress(b"feed" * 250)),
        ("x-gzip", gzip.compress(b"feed" * 250)),
        ("deflate", zlib.compress(b"feed" * 250)),
        ("deflate", zlib.compress(b"feed" * 250)[2:-4]),
        ("br", brotli.compress(b"feed" * 250)),
        ("zstd", zstd.compress(b"feed" * 250)),
        ("zstd", zstd.compress(b"feed" * 100) + zstd.compress(b"feed" * 150)),
        ("gzip", gzip.compress(b"feed" * 100) + gzip.compress(b"") + gzip.compress(b"feed" * 150)),
        ("gzip", gzip.compress(b"feed" * 250) + b"ignored"),
        ("identity", b"feed" * 250),
        ("UTF-8", b"feed" * 250),
        ("none", b"feed" * 250),
        ("aws-chunked", b"feed" * 250),
        ("gzip, aws-chunked", gzip.compress(b"feed" * 250)),
        ("identity, gzip,", gzip.compress(b"feed" * 250)),
    ],
    # The bytes of gzip contain the time.
    ids=[
        "gzip",
        "GZip",
        "x-gzip",
        "deflate",
        "deflate, raw",
        "br",
        "zstd",
        "2 frames",
        "3 members",
        "a trailer",
        "identity",
        "a charset",
        "none",
        "an upload to S3",
        "gzip, an upload to S3",
        "a list",
    ],
)
@in_a_loop
async def test_bodies_are_decoded_up_to_the_cap(encoding: str, body: bytes) -> None:
    answer = make_http_response(200, {"Content-Encoding": encoding}, body=body)
    async with Listener(answer_with_bytes(answer)) as server, make_client(max_bytes=1000) as client:
        url = f"http://{ADDRESS}:{server.port}/"
        assert (await client.fetch(url, origin=Origin.PERSON)).body == b"feed" * 250
        with fails(FailureKind.TOO_LARGE):
            await client.fetch(url, max_bytes=999, origin=Origin.PERSON)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", b"plain"),
        ("deflate", b"\x78\x9c???"),
        ("br", b"plain"),
        ("zstd", b"plain"),
        ("gzip", gzip.compress(b"") * 2000),
        ("zstd", zstd.compress(b"") * 2000),
        ("deflate", zlib.compress(b"feed" * 250)[:-6]),
        ("br", brotli.compress(b"feed" * 250)[:-1]),
        ("zstd", zstd.compress(b"feed" * 250)[:-3]),
        ("zstd", compress_with_large_window(bytes(1000))),
    ],
    ids=range(10),
)
@in_a_loop
async def test_a_body_in_another_encoding_than_named_is_an_error(encoding: str, body: bytes) -> None:
    answer = make_http_response(200, {"Content-Encoding": encoding}, body=body)
    async with Listener(answer_with_bytes(answer)) as server, make_client() as client:
        with fails(FailureKind.ENCODING):
            await client.fetch(f"http://{ADDRESS}:{server.port}/", origin=Origin.PERSON)


@pytest.mark.parametrize("encoding", ["x-br", "compress", "br", "gzip, br", "\x01" * 60])
@in_a_loop
async def test_an_encoding_that_was_not_requested_is_an_error(encoding: str) -> None:
    answer = make_http_response(200, {"Content-Encoding": encoding}, body=b"x")
    async with Listener(answer_with_bytes(answer)) as server, make_client() as client:
        with fails(FailureKind.ENCODING) as caught:
            await client.fetch(f"http://{ADDRESS}:{server.port}/", origin=Origin.PERSON)
    assert str(caught.value).isprintable()


BROKEN = [
    # what                   the server's bytes                                                    kind
    ("length too long", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", FailureKind.DISCONNECTED),
    ("length huge", b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\nx", FailureKind.TOO_LARGE),
    ("length negative", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nx", FailureKind.PROTOCOL),
    ("two lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", FailureKind.PROTOCOL),
    ("chunk cut off", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", FailureKind.DISCONNECTED),
    (
        "chunks without end",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
        FailureKind.DISCONNECTED,
    ),
    ("chunk size nonsense", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", FailureKind.PROTOCOL),
    ("closed at once", b"", FailureKind.DISCONNECTED),
    ("closed in the headers", b"HTTP/1.1 200 OK\r\nContent-", FailureKind.DISCONNECTED),
    ("not HTTP", b"220 mail.example.com ESMTP\r\n", FailureKind.PROTOCOL),
    ("not even text", bytes(range(256)), FailureKind.PROTOCOL),
    ("a header of 1 MB", b"HTTP/1.1 200 OK\r\nX-Big: " + b"x" * 1_000_000 + b"\r\n\r\n", FailureKind.PROTOCOL),
    ("a status of words", b"HTTP/1.1 OK OK\r\n\r\n", FailureKind.PROTOCOL),
]


@pytest.mark.parametrize(("answer", "kind"), [pytest.param(*row[1:], id=row[0]) for row in BROKEN])
@in_a_loop
async def test_a_broken_response_is_an_error(answer: bytes, kind: FailureKind) -> None:
    async with Listener(answer_with_bytes(answer, once=True)) as server, make_client() as client:
        with fails(kind) as caught:
            await client.fetch(f"http://{ADDRESS}:{server.port}/", origin=Origin.PERSON)
        await server.wait_until_disconnected()
    assert caught.value.target == f"http://{ADDRESS}:{server.port}/"
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


@in_a_loop
async def test_what_follows_a_body_is_not_part_of_it() -> None:
    """If Content-Length is too small, the rest is not the next response either."""
    answer = make_http_response(
        200, {"Content-Length": "2"}, body=b"ok" + make_http_response(200, {}, body=b"smuggled")
    )
    async with Listener(answer_with_bytes(answer)) as server, make_client() as client:
        for _ in range(2):
            assert (await client.fetch(f"http://{ADDRESS}:{server.port}/", origin=Origin.PERSON)).body == b"ok"
        assert server.accepted == 2


@in_a_loop
async def test_a_body_without_length_ends_with_the_connection() -> None:
    async with (
        Listener(answer_with_bytes(b"HTTP/1.0 200 OK\r\n\r\nold but whole", once=True)) as server,
        make_client() as client,
    ):
        assert (await client.fetch(f"http://{ADDRESS}:{server.port}/", origin=Origin.PERSON)).body == b"old but whole"


# TLS


@in_a_loop
async def test_certificates_must_be_valid() -> None:
    stranger = trustme.CA().issue_cert("example.com")
    unknown = loopback.make_server_tls("unused")
    stranger.configure_cert(unknown)
    for tls in (loopback.make_server_tls("other.example.com"), unknown):
        async with Listener(answer_with_bytes(make_http_response(200, {})), tls=tls) as server:

            async def lookup(host: str, port: int, to: int = server.port) -> list[tuple[str, int]]:
                return [(ADDRESS, to)]

            async with make_client(lookup=lookup) as client:
                with fails(FailureKind.CERTIFICATE):
                    await client.fetch("https://example.com/", origin=Origin.PERSON)


@in_a_loop
async def test_the_test_ca_is_not_trusted_without_the_setting() -> None:
    async with (
        LoopbackWeb({"https://example.com/": {}}) as web,
        Client(Guard([f"{ADDRESS}/32"]), settings=Settings(), lookup=web.lookup) as client,
    ):
        with fails(FailureKind.CERTIFICATE):
            await client.fetch("https://example.com/", origin=Origin.PERSON)


@in_a_loop
async def test_a_server_without_tls_is_an_error() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        await reader.read(-1)  # until the client disconnects

    async with Listener(talk) as server, make_client() as client:
        with fails(FailureKind.TLS):
            await client.fetch(f"https://{ADDRESS}:{server.port}/", origin=Origin.PERSON)


def test_a_ca_file_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(canonry.CanonryError, match="CANONRY_CA_FILE: /nowhere/ca.pem: No such file"):
        Client(settings=Settings(ca_file="/nowhere/ca.pem"))
    (tmp_path / "ca.pem").write_text("not a certificate")
    with pytest.raises(canonry.CanonryError, match="CANONRY_CA_FILE: .*ca.pem: "):
        Client(settings=Settings(ca_file=str(tmp_path / "ca.pem")))


# An operator's proxy


@in_a_loop
async def test_the_proxy_of_the_settings_is_used_for_both_schemes() -> None:
    pages = {"http://example.com/": {"body": "plain"}, "https://example.com/": {"body": "tls"}}
    seen: list[str] = []
    async with LoopbackWeb(pages) as web, Listener(answer_as_proxy(web, seen)) as proxy:
        settings = Settings(proxy=f"http://op:secret@{ADDRESS}:{proxy.port}")
        async with web.client(settings=settings, lookup=loopback.resolve_nothing) as client:
            response = await client.fetch("http://example.com/", origin=Origin.PERSON)
            assert (response.body, response.address) == (b"plain", "")
            assert (await client.fetch("https://example.com/", origin=Origin.PERSON)).body == b"tls"
            # The proxy resolves names, but the guard still checks the URL.
            for url in ("http://127.0.0.1/", "https://169.254.169.254/", "http://metadata.google.internal/"):
                with pytest.raises(canonry.UnsafeUrl):
                    await client.fetch(url, origin=Origin.PERSON)
    assert seen == ["GET http://example.com/", "CONNECT example.com:443"]


@in_a_loop
async def test_behind_a_proxy_no_redirect_leads_to_an_allowed_network() -> None:
    """The address of the server is unknown, so it counts as public."""
    seen: list[str] = []
    pages = {"http://example.com/": make_redirect(f"http://{ADDRESS}/")}
    async with (
        LoopbackWeb(pages) as web,
        Listener(answer_as_proxy(web, seen)) as proxy,
        web.client(settings=Settings(proxy=f"http://{ADDRESS}:{proxy.port}")) as client,
    ):
        with refuses(RefusalKind.LOOPBACK):
            await client.fetch("http://example.com/", origin=Origin.PERSON)
    assert seen == ["GET http://example.com/"]


@pytest.mark.parametrize(
    ("proxy", "kind"),
    [
        ("http://op:secret@127.0.0.2:1", FailureKind.PROXY),
        ("socks5://op:secret@127.0.0.2:1", FailureKind.PROXY),
        ("op:secret@x", FailureKind.PROXY),
    ],
)
@in_a_loop
async def test_a_proxy_that_does_not_work_is_an_error_without_its_password(proxy: str, kind: FailureKind) -> None:
    async with make_client(settings=Settings(proxy=proxy)) as client:
        with fails(kind) as caught:
            await client.fetch("http://example.com/", origin=Origin.PERSON)
    assert "secret" not in str(caught.value)


# Connections


@pytest.mark.parametrize("where", ["lookup", "handshake", "headers", "body", "second hop"])
@pytest.mark.parametrize("how", ["cancelled", "closed"])
@in_a_loop
async def test_a_fetch_that_is_stopped_leaves_no_connection(where: str, how: str) -> None:
    hung = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if where != "handshake":
            request = await read_request(reader)
            if request is not None and request.target == "/" and where == "second hop":
                writer.write(make_http_response(302, {"Location": "/second"}))
                await read_request(reader)
            elif where == "body":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        hung.set()
        await reader.read()  # until the client leaves

    async def lookup(host: str, port: int) -> list[tuple[str, int]]:
        if where == "lookup":
            hung.set()
            await asyncio.Event().wait()
        return [(ADDRESS, server.port)]

    # Closing the client does not end a lookup or a handshake; the timeout does.
    async with Listener(talk) as server, make_client(lookup=lookup, timeout=5) as client:
        scheme = "https" if where == "handshake" else "http"
        fetching = asyncio.create_task(client.fetch(f"{scheme}://example.com/", origin=Origin.PERSON))
        await hung.wait()
        if how == "cancelled":
            fetching.cancel()
            with pytest.raises(asyncio.CancelledError):
                await fetching
        else:
            await client.close()
            with pytest.raises(canonry.FetchFailed):
                await asyncio.wait_for(fetching, 60)
        await server.wait_until_disconnected()
        assert server.accepted == (where != "lookup")
    gc.collect()


@in_a_loop
async def test_many_fetches_share_a_few_connections() -> None:
    pages = {f"https://example.com/{n}": {"body": str(n), "delay_ms": 2} for n in range(200)}
    async with LoopbackWeb(pages) as web, web.client() as client:
        responses = await asyncio.gather(*(client.fetch(url, origin=Origin.PERSON) for url in pages))
        assert [response.body.decode() for response in responses] == [str(n) for n in range(200)]
        assert 1 < web.peak <= MAX_CONNECTIONS_PER_HOST
        assert len(web.requests) == 200
        await client.close()
        await web.wait_until_disconnected()
    gc.collect()


@in_a_loop
async def test_a_client_without_a_guard_uses_that_of_its_settings() -> None:
    settings = Settings(allow_networks=("127.0.0.3/32",), allow_ports=range(1, 65536))
    async with Client(settings=settings, lookup=loopback.resolve_nothing) as client:
        with refuses(RefusalKind.LOOPBACK):
            await client.fetch(f"http://{ADDRESS}:1/", origin=Origin.PERSON)
    guard = make_guard(settings)
    assert str(guard.check_address("127.0.0.3")) == "127.0.0.3"
    assert guard.check_url("http://127.0.0.3:22/").port == "22"
    with refuses(RefusalKind.PORT):
        make_guard(Settings(allow_networks=("127.0.0.3/32",))).check_url("http://127.0.0.3:22/")
    assert {80, 443, 8000, 8999} <= DEFAULT_PORTS


@in_a_loop
async def test_the_shared_client_is_the_same_while_it_is_in_use() -> None:
    async with use_shared_client("e.com") as first:
        async with use_shared_client("e.com") as second:
            assert first is second
        with pytest.raises(canonry.UnsafeUrl):
            await first.fetch("http://127.0.0.1/", origin=Origin.PERSON)
    async with use_shared_client("e.com") as third:
        assert third is not first


def make_redirect(location: str, status: int = 302) -> dict[str, Any]:
    return {"status": status, "headers": {"location": location}}


def answer_with_bytes(answer: bytes, requests: list[Request] | None = None, *, once: bool = False) -> Talk:
    """Return a conversation that answers every request with the same bytes; with `once`, only the first."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader)) is not None:
            if requests is not None:
                requests.append(request)
            writer.write(answer)
            await writer.drain()
            if once:
                return

    return talk


def answer_as_proxy(web: LoopbackWeb, seen: list[str]) -> Talk:
    """Return the conversation of an HTTP proxy that resolves the names of a web."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        assert request is not None
        seen.append(f"{request.method} {request.target}")
        if request.method == "CONNECT":
            host, _, port = request.target.rpartition(":")
            there, back = await asyncio.open_connection(*(await web.lookup(host, int(port)))[0])
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            there, back = await asyncio.open_connection(*(await web.lookup(request.headers["host"], 80))[0])
            back.write(f"GET / HTTP/1.0\r\nHost: {request.headers['host']}\r\n\r\n".encode())
        try:
            await asyncio.gather(copy_bytes(reader, back), copy_bytes(there, writer))
        finally:
            back.close()
            await back.wait_closed()

    return talk


async def copy_bytes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
