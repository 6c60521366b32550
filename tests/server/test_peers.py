"""Who sent a request: peers, trusted proxies, and personal mode for this machine only (contract B6, O)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from starlette.datastructures import Headers

from canonry.accounts import UserStore
from canonry.server.peers import (
    PersonalRefusal,
    RequestSender,
    TrustedProxies,
    judge_personal_request,
    list_forwarded,
    name_customer,
)
from canonry.server.service import ServiceOptions
from service import serving, until

if TYPE_CHECKING:
    from pathlib import Path

BIND, PEER, FORWARDED = PersonalRefusal.BIND, PersonalRefusal.PEER, PersonalRefusal.FORWARDED
PERSONAL = [
    # listens on            peer                     forwarded for                      refused because
    ("127.0.0.1", "127.0.0.1", [], None),
    ("127.0.0.1", "127.8.8.8", [], None),
    ("localhost", "::1", [], None),
    ("::1", "::1", [], None),
    ("[::1]", "::1", [], None),
    ("::ffff:127.0.0.1", "::ffff:127.0.0.1", [], None),
    ("127.0.0.1", "127.0.0.1", ["127.0.0.1"], None),
    ("127.0.0.1", "127.0.0.1", ["[::1]:5000", "127.0.0.1:80"], None),
    ("0.0.0.0", "127.0.0.1", [], BIND),
    ("::", "::1", [], BIND),
    ("", "127.0.0.1", [], BIND),
    ("192.168.1.5", "192.168.1.5", [], BIND),
    ("example.com", "127.0.0.1", [], BIND),
    ("127.0.0.1", "192.168.1.5", [], PEER),
    ("::1", "::ffff:192.168.1.5", [], PEER),
    ("::1", "::ffff:0:127.0.0.1", [], PEER),
    ("::1", "fe80::1%eth0", [], PEER),
    ("127.0.0.1", None, [], PEER),
    ("127.0.0.1", "", [], PEER),
    ("127.0.0.1", "127.0.0.1", ["203.0.113.9"], FORWARDED),
    ("127.0.0.1", "127.0.0.1", ["127.0.0.1", "203.0.113.9"], FORWARDED),
    ("127.0.0.1", "127.0.0.1", ["203.0.113.9", "127.0.0.1"], FORWARDED),
    ("127.0.0.1", "127.0.0.1", ["unknown"], FORWARDED),
    ("127.0.0.1", "127.0.0.1", [""], FORWARDED),
    ("127.0.0.1", "127.0.0.1", ["_hidden"], FORWARDED),
    ("127.0.0.1", "127.0.0.1", ["1" * 5000], FORWARDED),
]


@pytest.mark.parametrize(("host", "peer", "forwarded", "refusal"), PERSONAL)
def test_personal_mode_is_for_this_machine(
    host: str, peer: str | None, forwarded: list[str], refusal: PersonalRefusal | None
) -> None:
    assert judge_personal_request(host, peer, forwarded) is refusal


def test_personal_mode_on_a_unix_socket() -> None:
    assert judge_personal_request("0.0.0.0", None, [], socket_path="/run/s") is None
    assert judge_personal_request("127.0.0.1", None, ["127.0.0.1"], socket_path="/run/s") is None
    assert judge_personal_request("127.0.0.1", None, ["203.0.113.9"], socket_path="/run/s") is FORWARDED


FORWARDED_HEADERS = [
    ([], []),
    ([("X-Forwarded-For", "a, b"), ("x-forwarded-for", "c")], ["a", "b", "c"]),
    ([("X-Real-IP", "a")], ["a"]),
    ([("Forwarded", 'for=192.0.2.60;proto=http;by=203.0.113.43, For="[2001:db8::1]:4711"')], ["192.0.2.60", "[2001:db8::1]:4711"]),
    ([("Forwarded", "by=a;for=_hidden")], ["_hidden"]),
]  # fmt: skip


@pytest.mark.parametrize(("given", "found"), FORWARDED_HEADERS)
def test_forwarded_headers_of_every_kind_are_read(given: list[tuple[str, str]], found: list[str]) -> None:
    raw = [(name.lower().encode(), value.encode()) for name, value in given]
    assert list_forwarded(Headers(raw=raw)) == found


CLIENTS = [
    # trusted                    peer             X-Forwarded-For               X-Forwarded-Proto  client
    ((), "127.0.0.1", "203.0.113.9", "https", ("127.0.0.1", "http")),
    (("10.0.0.0/8",), "127.0.0.1", "203.0.113.9", "https", ("127.0.0.1", "http")),
    (("127.0.0.1/32",), "127.0.0.1", "203.0.113.9", "https", ("203.0.113.9", "https")),
    (("127.0.0.1/32",), "::ffff:127.0.0.1", "203.0.113.9", "", ("203.0.113.9", "http")),
    (("127.0.0.1/32",), "127.0.0.1", "6.6.6.6, 203.0.113.9", "http, https", ("203.0.113.9", "https")),
    (("127.0.0.1/32", "10.0.0.0/8"), "127.0.0.1", "6.6.6.6, 203.0.113.9, 10.1.1.1", "", ("203.0.113.9", "http")),
    (("127.0.0.1/32", "10.0.0.0/8"), "127.0.0.1", "10.2.2.2, 10.1.1.1", "", ("10.2.2.2", "http")),
    (("127.0.0.1/32",), "127.0.0.1", "203.0.113.9, nonsense", "", ("127.0.0.1", "http")),
    (("127.0.0.1/32",), "127.0.0.1", "", "gopher", ("127.0.0.1", "http")),
    (("::1/128",), "::1", "[2001:db8::1]:4711", "https", ("2001:db8::1", "https")),
    (("unix",), None, "203.0.113.9", "https", ("203.0.113.9", "https")),
    (("127.0.0.1/32",), None, "203.0.113.9", "https", (None, "http")),
    (("unix",), "127.0.0.1", "203.0.113.9", "https", ("127.0.0.1", "http")),
]


@pytest.mark.parametrize(("trusted", "peer", "addresses", "scheme", "client"), CLIENTS)
def test_only_configured_proxies_name_the_client(
    trusted: tuple[str, ...], peer: str | None, addresses: str, scheme: str, client: tuple[str | None, str]
) -> None:
    given = {"x-forwarded-for": addresses, "x-forwarded-proto": scheme}
    headers = Headers({name: value for name, value in given.items() if value})
    assert TrustedProxies(trusted).find_client(peer, "http", headers) == RequestSender(*client)


def test_addresses_of_one_customer_have_one_name() -> None:
    assert name_customer("2001:db8::1") == name_customer("2001:db8::ffff:1") != name_customer("2001:db8:0:1::1")
    assert name_customer("192.0.2.1") == name_customer("::ffff:192.0.2.1") != name_customer("192.0.2.2")
    assert name_customer(None) == "unix"


def test_without_users_only_probes_answer_other_machines(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    with serving(url, ServiceOptions(host="0.0.0.0", runs_jobs=False)) as service:
        for path in ("/", "/api/bookmarks", "/v1/posts/all", "/signin", "/metrics", "/static/style.css", "/nowhere"):
            assert service.get(path).status == 403, path
        refused = service.ask("PUT", "/api/bookmarks", {"url": "https://e.com/"})
        assert (refused.status, refused.json()["type"]) == (403, "urn:canonry:problem:personal-mode-refused")
        assert service.get("/healthz").status == service.get("/readyz").status == 200
        _, token = asyncio.run(UserStore(service.service.database).add("ada", service.service.clock()))
        until(lambda: service.get("/api/bookmarks").status == 401)
        assert service.get("/api/bookmarks", token=token).json() == []


FORWARDED_REQUESTS = [
    {"X-Forwarded-For": "203.0.113.9"},
    {"X-Forwarded-For": "127.0.0.1, 203.0.113.9"},
    {"Forwarded": "for=203.0.113.9"},
    {"X-Real-IP": "203.0.113.9"},
]


@pytest.mark.parametrize("trusted", [(), ("127.0.0.1/32",)], ids=["untrusted", "trusted"])
def test_a_proxy_on_this_machine_does_not_make_others_the_owner(tmp_path: Path, trusted: tuple[str, ...]) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    with serving(url, ServiceOptions(runs_jobs=False), trusted_proxies=trusted) as service:
        for headers in FORWARDED_REQUESTS:
            assert service.get("/api/bookmarks", headers=headers).status == 403, headers
        assert service.get("/api/bookmarks", headers={"X-Forwarded-For": "127.0.0.1"}).status == 200


def test_cookies_are_secure_behind_a_trusted_proxy_with_tls(tmp_path: Path) -> None:
    headers = {"X-Forwarded-Proto": "https"}
    for trusted, is_secure in (((), False), (("127.0.0.1/32",), True)):
        with serving(
            f"sqlite:///{tmp_path / 'x.db'}",
            ServiceOptions(runs_jobs=False, require_token=True),
            trusted_proxies=trusted,
        ) as service:
            for path in ("/signin", "/nowhere?x"):
                cookie = service.get(path, headers=headers).headers["set-cookie"].lower()
                assert ("secure" in cookie, "httponly" in cookie, "samesite=lax" in cookie) == (is_secure, True, True)
