"""contract G2: the guard refuses every address that ssrfguard refuses, an independent package with its own tables."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import ssrfguard
from hypothesis import example, given
from hypothesis import strategies as st

import canonry
from canonry.net.guard import DEFAULT_PORTS, Guard

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canonry.net.guard import Address

VECTORS = json.loads((Path(__file__).parent.parent / "cases" / "ssrf_vectors.json").read_text())
# The same choices as ours: the allowed ports, and that a URL may have a user.
THEIRS = ssrfguard.Policy(allowed_ports=DEFAULT_PORTS, allow_userinfo=True)
OURS = Guard()
# URLs and addresses that only they refuse, each with the reason; there are none.
DIFFERENCES: dict[str, str] = {}


def select_vectors(kind: str) -> list[Any]:
    return [row for row in VECTORS if row["kind"] == kind]


def test_every_url_they_refuse_is_refused() -> None:
    refused = [row["vector"] for row in select_vectors("url") if they_refuse_url(row["vector"])]
    assert len(refused) > 50
    assert [url for url in refused if not we_refuse_url(url)] == list(DIFFERENCES)


def test_every_name_they_refuse_is_refused() -> None:
    refused = [row["vector"] for row in select_vectors("resolved") if any(map(they_refuse, row["vector"]))]
    assert len(refused) > 40
    assert [addresses for addresses in refused if not any(map(we_refuse, addresses))] == []


def test_the_edges_of_every_range_they_refuse_are_refused() -> None:
    """The first and last address of each range and their neighbours, also embedded in IPv6."""
    refused = [address for address in iter_edges() if they_refuse(address)]
    assert len(refused) > 200
    assert [str(address) for address in refused if not we_refuse(address)] == list(DIFFERENCES)


@given(st.ip_addresses(v=4))
def test_any_ipv4_address_they_refuse_is_refused(address: IPv4Address) -> None:
    assert we_refuse(address) or not they_refuse(address)
    assert [str(one) for one in iter_embedded(address) if they_refuse(one) and not we_refuse(one)] == []


@given(st.ip_addresses(v=6))
@example(ip_address("2001:4:112::1"))
def test_any_ipv6_address_they_refuse_is_refused(address: Address) -> None:
    assert we_refuse(address) or not they_refuse(address)


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_a_url_with_any_address_they_refuse_is_refused(address: Address) -> None:
    url = f"http://[{address}]/" if isinstance(address, IPv6Address) else f"http://{address}/"
    assert we_refuse_url(url) or not they_refuse_url(url)
    assert we_refuse_url(url) == we_refuse(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "::ffff:8.8.8.8", "2606:4700::1111", "2001:4:112::1", "192.31.196.1"])
def test_both_allow_the_public_internet(address: str) -> None:
    """Two guards that refuse everything would agree as well."""
    assert not they_refuse(address)
    assert not we_refuse(address)


def iter_edges() -> Iterator[Address]:
    for block in ssrfguard.DEFAULT_DENIED.blocks:
        kind = type(block.network.network_address)
        first, last = int(block.network.network_address), int(block.network.broadcast_address)
        for number in (first - 1, first, first + 1, last - 1, last, last + 1):
            if 0 <= number < 2**block.network.max_prefixlen:
                address = kind(number)
                yield address
                if isinstance(address, IPv4Address):
                    yield from iter_embedded(address)


def iter_embedded(address: IPv4Address) -> Iterator[IPv6Address]:
    """Yield the mapped, compatible, NAT64 and 6to4 forms, and Teredo with the address as server and as client."""
    number = int(address)
    yield IPv6Address(0xFFFF << 32 | number)
    yield IPv6Address(number)
    yield IPv6Address(int(IPv6Address("64:ff9b::")) | number)
    yield IPv6Address(0x2002 << 112 | number << 80)
    yield IPv6Address(0x20010000 << 96 | number << 64 | ~0x08080808 & 0xFFFFFFFF)
    yield IPv6Address(0x20010000 << 96 | 0x08080808 << 64 | ~number & 0xFFFFFFFF)


def they_refuse(address: str | Address) -> bool:
    return not THEIRS.permits_address(address)


def they_refuse_url(url: str) -> bool:
    """Include what they refuse only when connecting: the literal address of a URL."""
    try:
        target = THEIRS.check_url(url)
    except ssrfguard.SSRFGuardError:
        return True
    return target.address is not None and they_refuse(target.address)


def we_refuse(address: str | Address) -> bool:
    try:
        OURS.check_address(address)
    except canonry.UnsafeUrl:
        return True
    return False


def we_refuse_url(url: str) -> bool:
    try:
        OURS.check_url(url)
    except canonry.UnsafeUrl:
        return True
    return False
