"""Find out who sent a request, and whether it came from this machine (contract B6, O).

Forwarded headers can be written by anyone. They name the client only if the peer is a configured proxy; in personal
mode they can only take rights away.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from canonry.settings import UNIX_SOCKET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.datastructures import Headers

    Address = ipaddress.IPv4Address | ipaddress.IPv6Address
    Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_PORT = re.compile(r":\d{1,5}\Z")
_FORWARDED_FOR = re.compile(r'(?:^|[;,])\s*for\s*=\s*("[^"]*"|[^;,\s]*)', re.IGNORECASE)
_ADDRESS_HEADERS = ("x-forwarded-for", "x-real-ip")
_FORWARDED_NAMES = frozenset({b"forwarded", *(name.encode() for name in _ADDRESS_HEADERS)})
_MAX_ADDRESS_CHARACTERS = 100  # the cache must not fill with long headers
_IPV6_CUSTOMER_BITS = 64  # one customer of a provider usually has a whole /64


class PersonalRefusal(StrEnum):
    """Why a request must not act as the owner of a store without users."""

    BIND = "bind"  # the service listens on an address that other machines reach
    PEER = "peer"  # the request came from another machine
    FORWARDED = "forwarded"  # a proxy on this machine forwarded it for another one


@dataclass(frozen=True, slots=True)
class RequestSender:
    """The sender of a request: its address, None on a Unix socket, and the scheme it used."""

    address: str | None
    scheme: str


class TrustedProxies:
    """The peers whose forwarded headers are trusted."""

    def __init__(self, names: Sequence[str]) -> None:
        """`names` are networks, and the word `unix` for peers of a Unix socket."""
        self._trusts_unix = UNIX_SOCKET in names
        self._networks: tuple[Network, ...] = tuple(ipaddress.ip_network(name) for name in names if name != UNIX_SOCKET)

    def trusts(self, peer: str | None) -> bool:
        """Return whether forwarded headers of this peer are trusted; None is a peer on a Unix socket."""
        if peer is None:
            return self._trusts_unix
        address = parse_address(peer) if self._networks else None
        return address is not None and any(address in network for network in self._networks)

    def find_client(self, peer: str | None, scheme: str, headers: Headers) -> RequestSender:
        """Return the client that a trusted proxy names, else the peer itself."""
        if not self.trusts(peer):
            return RequestSender(peer, scheme)
        proto = headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
        scheme = proto if proto in {"http", "https"} else scheme
        client = peer
        # Each proxy appends the address it sees, so everything before the first untrusted one may be invented.
        for name in reversed(_list_addresses(headers, ("x-forwarded-for",))):
            address = parse_address(name)
            if address is None:
                break
            client = str(address)
            if not self.trusts(client):
                break
        return RequestSender(client, scheme)


def judge_personal_request(
    host: str, peer: str | None, forwarded: Sequence[str], *, socket_path: str = ""
) -> PersonalRefusal | None:
    """Return why a request must not act as the owner, None if it may.

    `host` is the address the service listens on, `peer` the other end of the connection, None on a Unix socket, and
    `forwarded` every address that forwarded headers name.
    """
    if not socket_path:
        if not is_loopback(host):
            return PersonalRefusal.BIND
        if peer is None or not is_loopback(peer):
            return PersonalRefusal.PEER
    if not all(is_loopback(name) for name in forwarded):
        return PersonalRefusal.FORWARDED
    return None


def list_forwarded(headers: Headers) -> list[str]:
    """Return every address that a forwarded header names, of whatever kind."""
    if not any(name in _FORWARDED_NAMES for name, _ in headers.raw):
        return []  # most requests
    found = _list_addresses(headers, _ADDRESS_HEADERS)
    for value in headers.getlist("forwarded"):
        found += [match.strip('"') for match in _FORWARDED_FOR.findall(value)]
    return found


def is_loopback(host: str) -> bool:
    """Return whether a host or address can be reached from this machine only."""
    if host == "localhost":
        return True
    address = parse_address(host)
    return address is not None and address.is_loopback


def parse_address(text: str) -> Address | None:
    """Parse an address as peers and headers write it: `127.0.0.1:80`, `[::1]:80`, `::ffff:127.0.0.1`."""
    return _parse_address(text) if len(text) <= _MAX_ADDRESS_CHARACTERS else None


@lru_cache(1000)
def _parse_address(text: str) -> Address | None:
    name = text.strip()
    if name.startswith("[") or name.count(":") == 1:
        name = _PORT.sub("", name)
    name = name.removeprefix("[").removesuffix("]")
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return address if mapped is None else mapped


def name_customer(address: str | None) -> str:
    """Return the name under which attempts of an address are counted: for IPv6 its /64, which one customer has."""
    parsed = parse_address(address or "")
    if parsed is None:
        return address or UNIX_SOCKET
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((int(parsed), _IPV6_CUSTOMER_BITS), strict=False))


def _list_addresses(headers: Headers, names: Sequence[str]) -> list[str]:
    values = (value for name in names for value in headers.getlist(name))
    return [part.strip() for value in values for part in value.split(",")]
