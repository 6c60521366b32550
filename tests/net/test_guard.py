"""contract G2, G4, G5: what the guard refuses, what it allows, and its messages."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import canonry
from canonry.errors import FailureKind, RefusalKind, mask_credentials
from canonry.net.guard import Guard
from canonry.net.origin import Origin
from loopback import refuses

VECTORS = json.loads((Path(__file__).parent.parent / "cases" / "ssrf_vectors.json").read_text())


def select_vectors(kind: str) -> list[object]:
    return [pytest.param(row, id=row["id"]) for row in VECTORS if row["kind"] == kind]


@pytest.mark.parametrize("row", select_vectors("url"))
def test_every_url_vector_is_refused_or_allowed_as_expected(row: dict[str, str]) -> None:
    if row["expect"] == "block":
        with pytest.raises(canonry.UnsafeUrl) as caught:
            Guard().check_url(row["vector"])
        assert caught.value.reason
    else:
        host = Guard().check_url(row["vector"]).host
        if row["expect"] != "allow":
            assert host == row["expect"].removeprefix("allow-as:")


@pytest.mark.parametrize("row", select_vectors("resolved"))
def test_every_address_vector_is_refused_or_allowed_as_expected(row: dict[str, Any]) -> None:
    if row["expect"] == "block":
        with pytest.raises(canonry.UnsafeUrl):
            Guard().check_addresses("name", row["vector"])
    else:
        assert len(Guard().check_addresses("name", row["vector"])) == len(row["vector"])


@pytest.mark.parametrize(
    "address",
    ["::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::1", "2001:20::1", "1.2.3", "", "fe80::1%1", "2606::1%1"],
)
def test_more_addresses_are_refused(address: str) -> None:
    with pytest.raises(canonry.UnsafeUrl):
        Guard().check_address(address)


def test_allowed_networks_are_open_to_people_and_to_each_other() -> None:
    guard = Guard(allow_networks=["127.0.0.0/8", "fd00::/8"], allow_ports=range(1, 65536))
    assert str(guard.check_address("127.0.0.1")) == "127.0.0.1"
    assert str(guard.for_origin(Origin.from_server("fd00::1")).check_address("127.0.0.1")) == "127.0.0.1"
    assert guard.check_url("http://localhost:5000/").host == "localhost"
    assert guard.check_url("http://127.0.0.1:5000/").port == "5000"
    for address in ("93.184.216.34", "10.0.0.1", ""):
        with refuses(RefusalKind.LOOPBACK):
            guard.for_origin(Origin.from_server(address)).check_address("127.0.0.1")
        with refuses(RefusalKind.LOCAL_NAME):
            guard.for_origin(Origin.from_server(address)).check_url("http://intranet/")
    with refuses(RefusalKind.PRIVATE):
        guard.check_address("10.0.0.1")


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "168.63.129.16", "192.0.0.192", "100.100.100.200", "fd00:ec2::254"),
        *("64:ff9b::a9fe:a9fe", "64:ff9b::a83f:8110", "64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::1"),  # through gateways
        *("2001:0:1:2:3:4:5601:5601", "::a9fe:a9fe", "fd00::5efe:a9fe:a9fe"),
        *("fd00:1:a9fe:a9fe::", "fd00:1:a9:fea9:fe::", "fd00:1:2:a9fe:a9:fe00::", "fd00:1:2:a9:fe:a9fe::"),
        "fd00:1:2:3:a9:fea9:fe00:0",
    ],
)
def test_metadata_is_never_allowed(address: str) -> None:
    guard = Guard(allow_networks=["0.0.0.0/0", "::/0"])
    with refuses(RefusalKind.METADATA):
        guard.check_address(address)
    with refuses(RefusalKind.METADATA):
        guard.check_url("http://metadata.google.internal/")


def test_the_guard_is_reached_from_the_package() -> None:
    assert canonry.net.guard.Guard is Guard
    code = "import canonry; canonry.net.guard.Guard; print(canonry.bulk.arrow.normalize.__name__)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "normalize\n"
    )


def test_canonry_itself_is_never_allowed() -> None:
    guard = Guard(allow_networks=["127.0.0.0/8"], own_addresses=[("127.0.0.1", 8000)])
    with refuses(RefusalKind.OWN_SERVICE):
        guard.check_url("http://127.0.0.1:8000/")
    assert guard.check_url("http://127.0.0.1:8001/").port == "8001"
    guard = Guard(allow_networks=["::/0"], own_addresses=[("10.0.0.1", 8000), ("0.0.0.0", 8000)])
    with refuses(RefusalKind.OWN_SERVICE):
        guard.check_address("64:ff9b::a00:1", port=8000)
    assert str(guard.check_address("fd00::1", port=8000)) == "fd00::1"


@pytest.mark.parametrize("wildcard", ["0.0.0.0", "::"])
def test_a_service_on_all_addresses_is_refused_at_every_address_of_the_machine(wildcard: str) -> None:
    guard = Guard(allow_networks=["0.0.0.0/0", "::/0"], own_addresses=[(wildcard, 8000)])
    for address in ("127.0.0.1", "127.0.0.77", "0.0.0.0", "::ffff:127.0.0.1", "::", "64:ff9b::7f00:1"):
        with refuses(RefusalKind.OWN_SERVICE):
            guard.check_address(address, port=8000)
        guard.check_address(address, port=8001)
    with refuses(RefusalKind.OWN_SERVICE):
        guard.check_url("http://127.1:8000/")
    assert str(guard.check_address("192.0.2.1", port=8000)) == "192.0.2.1", "an address of another machine"


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_an_unspecified_address_leads_to_canonry_itself(address: str) -> None:
    guard = Guard(allow_networks=["0.0.0.0/0", "::/0"], own_addresses=[("127.0.0.1", 8000)])
    with refuses(RefusalKind.OWN_SERVICE):
        guard.check_address(address, port=8000)


LOCAL_NAMES = [
    *("localhost", "LOCALHOST.", "a.localhost", "printer.local", "build.internal", "x.intranet", "nas", "ip6-loopback"),
    *(
        "web.default.svc",
        "web.default.svc.cluster.local",
        "db.service.consul",
        "job.nomad",
        "db.docker",
        "pc.mshome.net",
    ),
    *("router.home.arpa", "1.0.0.127.in-addr.arpa", "host.docker.internal", "wiki.corp", "x.lan"),
]


@pytest.mark.parametrize("name", LOCAL_NAMES)
@pytest.mark.parametrize("guard", [Guard(), Guard(behind_proxy=True), Guard(["10.0.0.0/8"]).use_proxy()])
def test_names_of_local_networks_are_refused(guard: Guard, name: str) -> None:
    with refuses(RefusalKind.LOCAL_NAME):
        guard.check_url(f"http://{name}/")


@pytest.mark.parametrize(
    "name", ["example.com", "localhost.example.com", "svc.com", "consul.io", "local.dev", "a.host"]
)
def test_names_that_only_look_local_are_allowed(name: str) -> None:
    assert Guard(behind_proxy=True).check_url(f"http://{name}/").host == name


def test_allowed_names_are_open_to_people_and_to_each_other_behind_a_proxy() -> None:
    guard = Guard(allow_names=["wiki.corp", "*.Internal"], behind_proxy=True)
    for name in ("wiki.corp", "WIKI.corp.", "a.internal", "a.b.internal"):
        guard.check_url(f"http://{name}/")
        guard.for_origin(Origin.from_server("wiki.corp")).check_url(f"http://{name}/")
    for name in ("a.wiki.corp", "internal", "docs.corp"):
        with refuses(RefusalKind.LOCAL_NAME):
            guard.check_url(f"http://{name}/")
    for origin in (Origin.UNKNOWN, Origin.from_server("example.com"), Origin.from_server("10.0.0.1")):
        with refuses(RefusalKind.LOCAL_NAME):
            guard.for_origin(origin).check_url("http://wiki.corp/")
    with refuses(RefusalKind.LOCAL_NAME):  # without a proxy, networks decide
        Guard(allow_names=["wiki.corp"]).check_url("http://wiki.corp/")
    with refuses(RefusalKind.METADATA):
        Guard(allow_names=["*.internal"], behind_proxy=True).check_url("http://metadata.google.internal/")


def test_credentials_are_allowed_and_never_shown() -> None:
    assert Guard().check_url("https://user:pw@example.com/").userinfo == "user:pw"
    for url in (
        "https://user:secret@10.0.0.1/",
        "https://user:secret@example.com:22/",
        "ftp://user:secret@example.com/",
    ):
        with pytest.raises(canonry.UnsafeUrl) as caught:
            Guard().check_url(url)
        assert "secret" not in str(caught.value)
    assert mask_credentials("https://user:p@ss@example.com/a@b") == "https://***@example.com/a@b"
    assert mask_credentials("https://example.com/a@b") == "https://example.com/a@b"


@pytest.mark.parametrize("unit", ["a", "a:", "https://", "@", ":", "http:\\\\a "])
def test_masking_takes_linear_time_and_changes_only_credentials(unit: str) -> None:
    assert mask_credentials(unit * 1_000_000) == unit * 1_000_000
    assert mask_credentials(f"a:{'@' * 1_000_000}b") == "a:***@b"


MESSAGES = [
    # guard, URL, kind, message
    (
        Guard(),
        "http://127.0.0.1/",
        RefusalKind.LOOPBACK,
        "Refused: 127.0.0.1 is a loopback address. To allow it, set CANONRY_ALLOW_NETWORKS=127.0.0.0/8.",
    ),
    (
        Guard(["127.0.0.0/8"]),
        "http://[fd00::1]/",
        RefusalKind.PRIVATE,
        "Refused: fd00::1 is a private address. To allow it, add fc00::/7 to CANONRY_ALLOW_NETWORKS.",
    ),
    (
        Guard(["127.0.0.0/8"]).for_origin(Origin.from_server("93.184.216.34")),
        "http://127.0.0.1/",
        RefusalKind.LOOPBACK,
        "Refused: 127.0.0.1 is a loopback address.",
    ),
    (
        Guard(),
        "http://169.254.169.254/latest",
        RefusalKind.METADATA,
        "Refused: 169.254.169.254 is a metadata service, which hands out credentials of the machine.",
    ),
    (
        Guard(),
        "https://me:secret@example.com:22/",
        RefusalKind.PORT,
        (
            "Refused: 'https://***@example.com:22/': port 22 is not one of the allowed ports. "
            "To allow it, add it to CANONRY_ALLOW_PORTS (default: 80, 443, 8000-8999)."
        ),
    ),
    (
        Guard(),
        "http://printer.local/",
        RefusalKind.LOCAL_NAME,
        (
            "Refused: 'http://printer.local/': printer.local is a name of a local network. "
            "To allow it, set CANONRY_ALLOW_NETWORKS to a network that contains its address."
        ),
    ),
    (
        Guard(),
        "ftp://example.com/",
        RefusalKind.SCHEME,
        "Refused: 'ftp://example.com/': scheme ftp: is not http or https.",
    ),
]


@pytest.mark.parametrize(("guard", "url", "kind", "message"), MESSAGES)
def test_a_refusal_names_the_setting_that_would_allow_it(
    guard: Guard, url: str, kind: RefusalKind, message: str
) -> None:
    with refuses(kind) as caught:
        guard.check_url(url)
    assert str(caught.value) == message


def test_the_network_that_a_refusal_names_allows_the_address() -> None:
    addresses = ["127.0.0.1", "10.0.0.1", "::1", "fe80::1", "ff02::1", "64:ff9b::808:808", "2001:20::1", "4000::1"]
    for address in addresses:
        with pytest.raises(canonry.UnsafeUrl) as caught:
            Guard().check_address(address)
        network = caught.value.advice.partition("=")[2].removesuffix(".")
        assert str(Guard([network]).check_address(address)) == address


@pytest.mark.parametrize(
    "error",
    [
        canonry.UnsafeUrl("http://a.example/", "why", (), RefusalKind.PORT, "advice"),
        canonry.FetchFailed("http://a.example/", "why", (), 503, 7.0, FailureKind.STATUS),
        canonry.NotAFeed("http://a.example/", "why"),
    ],
)
def test_errors_survive_pickling(error: Exception) -> None:
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), vars(copied), str(copied)) == (type(error), vars(error), str(error))
