"""The guard: which addresses, names, ports and schemes a request may reach (contract G2, G4).

It only judges; the fetcher asks it about every URL, every address a name resolves to, and every hop.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING

from canonry.core.url import SCHEME_PORTS, Parts, parse
from canonry.errors import InvalidUrl, UnsafeUrl, mask_credentials

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from canonry.settings import Settings

    Address = IPv4Address | IPv6Address
    Network = IPv4Network | IPv6Network

DEFAULT_PORTS = frozenset({*SCHEME_PORTS.values(), *range(8000, 9000)})
# Never reachable, whatever an operator allows: they hand out credentials of the machine.
_METADATA_NAMES = frozenset(
    {
        "instance-data",
        "instance-data.ec2.internal",
        "metadata",
        "metadata.azure.internal",
        "metadata.goog",
        "metadata.google.internal",
        "metadata.tencentyun.com",
    }
)
_METADATA = frozenset(
    map(
        ip_address,
        (
            "100.100.100.200",
            "168.63.129.16",
            "169.254.0.23",
            "169.254.169.253",
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "192.0.0.192",
            "fd00:ec2::23",
            "fd00:ec2::253",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::a9fe:a9fe",
        ),
    )
)
# Names that never lead to a public web server (RFC 6761, 6762, 7686, 8375, and what routers use).
_LOCAL_DOMAINS = (
    "localhost", "localdomain", "local", "internal", "intranet", "lan", "home", "corp", "private", "home.arpa",
    "test", "invalid", "example", "onion", "alt",
)  # fmt: skip
_LOCAL_NAMES = frozenset({"ip6-localhost", "ip6-loopback"})
# What is not the public internet, by the IANA registries. Python's is_global differs between versions.
_NOT_PUBLIC: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(network), what)
    for network, what in (
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by carriers"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "for protocols"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "6to4"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("2001::/32", "Teredo"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "for documentation"),
    )
)
_PUBLIC_V6 = IPv6Network("2000::/3")
_PROTOCOLS_V6 = IPv6Network("2001::/23")
_AS112_V6 = IPv6Network("2001:4:112::/48")  # the one part of 2001::/23 that is public


class Guard:
    """What may be reached: the public internet on web ports, and what an operator allows besides."""

    def __init__(
        self,
        allow_networks: Iterable[str] = (),
        allow_ports: Collection[int] = DEFAULT_PORTS,
        own_addresses: Collection[tuple[str, int]] = (),
    ) -> None:
        self._networks = tuple(ip_network(network) for network in allow_networks)
        self._ports = allow_ports
        self._own = frozenset((ip_address(address), port) for address, port in own_addresses)
        self._for_public = Guard((), allow_ports, own_addresses) if self._networks else self

    def check_url(self, url: str) -> Parts:
        """The parts of a URL that may be asked for; UnsafeUrl with the reason if it may not.

        A name still has to be resolved, and its addresses checked.
        """
        try:
            parts = parse(url)
        except InvalidUrl as error:
            raise UnsafeUrl(mask_credentials(url), error.reason) from None
        if re.match(r"[^:]*:[/\\]*[^/?#]*\\", url):
            raise UnsafeUrl(mask_credentials(url), "a backslash before the path, which programs read differently")
        if "." in (parts.userinfo or "") and ":" not in (parts.userinfo or ""):
            raise UnsafeUrl(mask_credentials(url), "a user name that looks like a host")
        port = parts.get_port()
        if port not in self._ports:
            raise UnsafeUrl(mask_credentials(url), f"port {port} is not a web port")
        address = _literal(parts.host)
        if address is None:
            self._check_name(parts.host, mask_credentials(url))
        else:
            self.check_address(address, port=port)
        return parts

    def for_links_from(self, address: str | None) -> Guard:
        """The guard for what an answer from this address leads to, by redirect or link.

        Allowed networks are open to what a person typed and to each other, not to the public:
        `None` is a person, the empty text an address nobody knows.
        """
        if address is None or not self._networks:
            return self
        return self if address and self._is_allowed(_plain(ip_address(address))) else self._for_public

    def check_address(self, address: str | Address, *, port: int | None = None) -> Address:
        """The address a connection may go to; UnsafeUrl with the reason if it may not."""
        try:
            found = _plain(ip_address(address))
        except ValueError:
            raise UnsafeUrl(str(address), "not an address") from None
        meant = {found, *_carried(found)}
        if meant & _METADATA:
            raise UnsafeUrl(str(address), "a metadata service of the machine")
        if any((each, port) in self._own for each in meant):
            raise UnsafeUrl(str(address), "this service itself")
        if self._is_allowed(found):
            return found
        if what := _why_not_public(found):
            raise UnsafeUrl(str(address), f"not public: {what}")
        return found

    def check_addresses(
        self, name: str, addresses: Iterable[str | Address], *, port: int | None = None
    ) -> list[Address]:
        """All addresses of a name; one that is refused refuses the name."""
        found = [self.check_address(address, port=port) for address in addresses]
        if not found:
            raise UnsafeUrl(name, "has no address")
        return found

    def _is_allowed(self, address: Address) -> bool:
        return any(address in network for network in self._networks)

    def _check_name(self, host: str, url: str) -> None:
        name = host.rstrip(".")
        if name in _METADATA_NAMES:
            raise UnsafeUrl(url, "the name of a metadata service")
        if self._networks:
            return  # an intranet has names of its own; its addresses decide
        if "." not in name or name in _LOCAL_NAMES:
            raise UnsafeUrl(url, "a name of the local network")
        if any(name.endswith(f".{domain}") for domain in _LOCAL_DOMAINS):
            raise UnsafeUrl(url, "a name that is not on the public internet")


def make_guard(settings: Settings, own_addresses: Collection[tuple[str, int]] = ()) -> Guard:
    """The guard an operator's settings ask for; what the service itself listens at is refused, too."""
    ports = DEFAULT_PORTS if settings.allow_ports is None else settings.allow_ports
    return Guard(settings.allow_networks, ports, own_addresses)


def _literal(host: str) -> Address | None:
    """The address a host of a parsed URL spells; the parser has read odd spellings already."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def _plain(address: Address) -> Address:
    """IPv4 inside IPv6 (`::ffff:a.b.c.d`) is judged as what it is."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _carried(address: Address) -> set[IPv4Address]:
    """What gateways may read in an IPv6 address: 6to4, Teredo, NAT64 with a prefix of any length (RFC 6052)."""
    if isinstance(address, IPv4Address):
        return set()
    packed = address.packed
    spread = packed[:8] + packed[9:]  # byte 8 is left out
    inside = {packed[2:6], packed[12:], bytes(255 - byte for byte in packed[12:])}
    inside |= {spread[start : start + 4] for start in range(4, 9)}
    return {IPv4Address(each) for each in inside if any(each)}


def _why_not_public(address: Address) -> str | None:
    if isinstance(address, IPv6Address):
        if address.scope_id:
            return "tied to one interface"
        if address not in _PUBLIC_V6:
            return "outside of 2000::/3"
        if address in _PROTOCOLS_V6 and address not in _AS112_V6:
            return "for protocols"
    return next((what for network, what in _NOT_PUBLIC if address in network), None)
