"""The guard decides which addresses, names, ports and schemes a request may reach (contract G2, G4).

The guard makes no requests. The client calls it for every URL, every address a name resolves to, and every redirect.
"""

from __future__ import annotations

import re
import socket
from copy import copy
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, NamedTuple

from canonry.core.url import SCHEME_PORTS, Parts, parse
from canonry.errors import InvalidUrl, RefusalKind, UnsafeUrl
from canonry.net.origin import OriginKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from canonry.net.origin import Origin
    from canonry.settings import Settings

    Address = IPv4Address | IPv6Address
    Network = IPv4Network | IPv6Network

DEFAULT_PORTS = frozenset({*SCHEME_PORTS.values(), *range(8000, 9000)})
# Never reachable, whatever an operator allows: these services hand out credentials of the machine.
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
_METADATA_ADDRESSES = frozenset(
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
# Names that never lead to a public web server: RFC 6761, 6762, 7686, 8375, and names that routers, Kubernetes, Consul
# and Docker use. None of them is a top-level domain.
_LOCAL_DOMAINS = (
    "localhost", "localdomain", "local", "internal", "intranet", "intra", "lan", "home", "corp", "private", "priv",
    "home.arpa", "in-addr.arpa", "ip6.arpa", "svc", "consul", "nomad", "cluster", "docker", "workgroup", "mshome.net",
    "test", "invalid", "example", "onion", "alt",
)  # fmt: skip
_LOCAL_NAMES = frozenset({"ip6-localhost", "ip6-loopback"})


class _Range(NamedTuple):
    """A range of addresses that is not the public internet."""

    network: Network
    kind: RefusalKind
    description: str


def _make_range(network: str, kind: RefusalKind, description: str) -> _Range:
    return _Range(ip_network(network), kind, description)


# The IANA special-purpose registries. Python's is_global differs between versions.
# The first range that contains an address describes it, so narrow ranges come first.
_NOT_PUBLIC: tuple[_Range, ...] = (
    _make_range("0.0.0.0/8", RefusalKind.RESERVED, "an address of this host"),
    _make_range("10.0.0.0/8", RefusalKind.PRIVATE, "a private address"),
    _make_range("100.64.0.0/10", RefusalKind.CARRIER, "an address that providers share among customers"),
    _make_range("127.0.0.0/8", RefusalKind.LOOPBACK, "a loopback address"),
    _make_range("169.254.0.0/16", RefusalKind.LINK_LOCAL, "a link-local address"),
    _make_range("172.16.0.0/12", RefusalKind.PRIVATE, "a private address"),
    _make_range("192.0.0.0/24", RefusalKind.RESERVED, "reserved for protocols"),
    _make_range("192.0.2.0/24", RefusalKind.DOCUMENTATION, "reserved for documentation"),
    _make_range("192.88.99.0/24", RefusalKind.TUNNEL, "a 6to4 relay address"),
    _make_range("192.168.0.0/16", RefusalKind.PRIVATE, "a private address"),
    _make_range("198.18.0.0/15", RefusalKind.RESERVED, "reserved for benchmarks"),
    _make_range("198.51.100.0/24", RefusalKind.DOCUMENTATION, "reserved for documentation"),
    _make_range("203.0.113.0/24", RefusalKind.DOCUMENTATION, "reserved for documentation"),
    _make_range("224.0.0.0/4", RefusalKind.MULTICAST, "a multicast address"),
    _make_range("240.0.0.0/4", RefusalKind.RESERVED, "a reserved address"),
    _make_range("::/128", RefusalKind.RESERVED, "an address of this host"),
    _make_range("::1/128", RefusalKind.LOOPBACK, "a loopback address"),
    _make_range("::/96", RefusalKind.TUNNEL, "an IPv4-compatible IPv6 address"),
    _make_range("64:ff9b::/96", RefusalKind.TUNNEL, "a NAT64 address"),
    _make_range("64:ff9b:1::/48", RefusalKind.TUNNEL, "a NAT64 address"),
    _make_range("2001::/32", RefusalKind.TUNNEL, "a Teredo address"),
    _make_range("2001:db8::/32", RefusalKind.DOCUMENTATION, "reserved for documentation"),
    _make_range("2002::/16", RefusalKind.TUNNEL, "a 6to4 address"),
    _make_range("3fff::/20", RefusalKind.DOCUMENTATION, "reserved for documentation"),
    _make_range("fc00::/7", RefusalKind.PRIVATE, "a private address"),
    _make_range("fe80::/10", RefusalKind.LINK_LOCAL, "a link-local address"),
    _make_range("ff00::/8", RefusalKind.MULTICAST, "a multicast address"),
)
_PUBLIC_V6 = IPv6Network("2000::/3")
_PROTOCOLS_V6 = IPv6Network("2001::/23")
_AS112_V6 = IPv6Network("2001:4:112::/48")  # the one part of 2001::/23 that is public


class Guard:
    """Allows the public internet on web ports, and the networks and ports that an operator adds.

    `own_addresses` are the addresses and ports that canonry itself listens on; they are always refused. With
    `behind_proxy`, an upstream proxy resolves names: local names are refused unless `allow_names` has them, because
    their addresses cannot be checked. `*.corp` stands for all names that end in `.corp`.
    """

    def __init__(
        self,
        allow_networks: Iterable[str] = (),
        allow_ports: Collection[int] = DEFAULT_PORTS,
        own_addresses: Collection[tuple[str, int]] = (),
        *,
        allow_names: Iterable[str] = (),
        behind_proxy: bool = False,
    ) -> None:
        self._networks = tuple(ip_network(network) for network in allow_networks)
        self._names = tuple(name.lower().rstrip(".") for name in allow_names)
        self._ports = allow_ports
        own = [(ip_address(address), port) for address, port in own_addresses]
        self._own_addresses = frozenset(own)
        self._own_ports = frozenset(port for _, port in own)
        # A service that listens on 0.0.0.0 or :: is reached at every address of the machine.
        self._wildcard_ports = frozenset(port for address, port in own if address.is_unspecified)
        self.is_behind_proxy = behind_proxy
        # `_for_public` is the guard for URLs that a public server named: they never reach an allowed network,
        # so no setting is suggested for them.
        self.suggests_networks = True
        self._for_public = copy(self)
        self._for_public._networks = ()  # noqa: SLF001
        self._for_public._names = ()  # noqa: SLF001
        self._for_public.suggests_networks = False
        self._for_public._for_public = self._for_public  # noqa: SLF001

    @property
    def networks(self) -> tuple[Network, ...]:
        """The networks that this guard allows besides the public internet."""
        return self._networks

    def check_url(self, url: str) -> Parts:
        """Return the parts of a URL that may be requested; raise UnsafeUrl otherwise.

        If the host is a name, its addresses have to be checked after it is resolved.
        """
        try:
            parts = parse(url)
        except InvalidUrl as error:
            scheme = re.match(r"\s*([A-Za-z][A-Za-z0-9+.-]*):", url)
            is_other = scheme is not None and scheme[1].lower() not in SCHEME_PORTS
            kind = RefusalKind.SCHEME if is_other else RefusalKind.INVALID_URL
            raise UnsafeUrl(url, error.reason, kind=kind) from None
        if re.match(r"[^:]*:[/\\]*[^/?#]*\\", url):
            reason = "it has a backslash before the path, which programs read differently"
            raise UnsafeUrl(url, reason, kind=RefusalKind.AMBIGUOUS)
        if "." in (parts.userinfo or "") and ":" not in (parts.userinfo or ""):
            raise UnsafeUrl(url, "its user name looks like a host", kind=RefusalKind.AMBIGUOUS)
        port = parts.get_port()
        if port not in self._ports:
            reason = f"port {port} is not one of the allowed ports"
            advice = "To allow it, add it to CANONRY_ALLOW_PORTS (default: 80, 443, 8000-8999)."
            raise UnsafeUrl(url, reason, kind=RefusalKind.PORT, advice=advice)
        address = parse_address(parts.host)
        if address is None:
            self._check_name(parts.host, url)
        else:
            self.check_address(address, port=port)
        return parts

    def for_origin(self, origin: Origin) -> Guard:
        """Return the guard for a URL by who named it.

        Allowed networks are open to URLs that a person typed and to each other, not to public or unknown servers.
        """
        if origin.kind is OriginKind.PERSON or (origin.kind is OriginKind.SERVER and self._is_trusted(origin.server)):
            return self
        return self._for_public

    def use_proxy(self) -> Guard:
        """Return this guard for names that an upstream proxy resolves."""
        if self.is_behind_proxy:
            return self
        guard = copy(self)
        guard._for_public = copy(self._for_public)  # noqa: SLF001
        guard._for_public._for_public = guard._for_public  # noqa: SLF001
        guard.is_behind_proxy = guard._for_public.is_behind_proxy = True  # noqa: SLF001
        return guard

    def check_address(self, address: str | Address, *, port: int | None = None) -> Address:
        """Return the address that a connection may go to; raise UnsafeUrl otherwise."""
        shown = str(address)
        try:
            found = _unmap(ip_address(address))
        except ValueError:
            raise UnsafeUrl(shown, f"{shown!r} is not an IP address", kind=RefusalKind.NO_ADDRESS) from None
        targets = {found, *_find_embedded_ipv4(found)}
        if targets & _METADATA_ADDRESSES:
            reason = f"{shown} is a metadata service, which hands out credentials of the machine"
            raise UnsafeUrl(shown, reason, kind=RefusalKind.METADATA)
        if port in self._own_ports and any(self._is_own(each, port) for each in targets):
            raise UnsafeUrl(shown, f"{shown} port {port} is canonry itself", kind=RefusalKind.OWN_SERVICE)
        if self._is_allowed(found):
            return found
        if (refused := _find_range(found)) is not None:
            advice = self._suggest_setting(refused.network) if not getattr(found, "scope_id", None) else ""
            raise UnsafeUrl(shown, f"{shown} is {refused.description}", kind=refused.kind, advice=advice)
        return found

    def check_addresses(
        self, name: str, addresses: Iterable[str | Address], *, port: int | None = None
    ) -> list[Address]:
        """Return all addresses of a name; raise UnsafeUrl if one of them is refused or there is none."""
        found = [self.check_address(address, port=port) for address in addresses]
        if not found:
            raise UnsafeUrl(name, f"{name} has no address", kind=RefusalKind.NO_ADDRESS)
        return found

    def _is_allowed(self, address: Address) -> bool:
        return any(address in network for network in self._networks)

    def _is_trusted(self, server: str) -> bool:
        """Return whether a server may name URLs in allowed networks: it is inside them itself."""
        try:
            address = ip_address(server)
        except ValueError:
            return self.is_behind_proxy and self._is_allowed_name(server.rstrip("."))
        return self._is_allowed(_unmap(address))

    def _is_allowed_name(self, name: str) -> bool:
        return any(
            name.endswith(allowed[1:]) if allowed.startswith("*.") else name == allowed for allowed in self._names
        )

    def _is_own(self, address: Address, port: int | None) -> bool:
        """Return whether canonry itself listens there; 0.0.0.0 and :: lead to every address of this machine."""
        if (address, port) in self._own_addresses or address.is_unspecified:
            return True
        return port in self._wildcard_ports and _is_of_this_machine(address)

    def _suggest_setting(self, network: Network) -> str:
        if not self.suggests_networks:
            return ""
        if self._networks:
            return f"To allow it, add {network} to CANONRY_ALLOW_NETWORKS."
        return f"To allow it, set CANONRY_ALLOW_NETWORKS={network}."

    def _check_name(self, host: str, url: str) -> None:
        name = host.rstrip(".")
        if name in _METADATA_NAMES:
            reason = f"{host} is a metadata service, which hands out credentials of the machine"
            raise UnsafeUrl(url, reason, kind=RefusalKind.METADATA)
        is_local = (
            "." not in name or name in _LOCAL_NAMES or any(name.endswith(f".{domain}") for domain in _LOCAL_DOMAINS)
        )
        if not is_local:
            return
        if self._is_allowed_name(name) if self.is_behind_proxy else self._networks:
            return  # without a proxy, an intranet may use any name: its addresses are checked after the lookup
        advice = ""
        if self.suggests_networks and self.is_behind_proxy:
            advice = (
                f"To allow it, add {name} to CANONRY_ALLOW_NAMES: the proxy resolves it, so its address is unknown."
            )
        elif self.suggests_networks:
            advice = "To allow it, set CANONRY_ALLOW_NETWORKS to a network that contains its address."
        raise UnsafeUrl(url, f"{host} is a name of a local network", kind=RefusalKind.LOCAL_NAME, advice=advice)


def make_guard(settings: Settings, own_addresses: Collection[tuple[str, int]] = ()) -> Guard:
    """Return the guard for an operator's settings; `own_addresses` are refused too."""
    ports = DEFAULT_PORTS if settings.allow_ports is None else settings.allow_ports
    return Guard(
        settings.allow_networks,
        ports,
        own_addresses,
        allow_names=settings.allow_names,
        behind_proxy=bool(settings.proxy),
    )


def parse_address(host: str) -> Address | None:
    """Return the address that the host of a parsed URL is; the URL parser has normalized unusual spellings."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def _unmap(address: Address) -> Address:
    """Return the IPv4 address inside `::ffff:a.b.c.d`, any other address unchanged."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _is_of_this_machine(address: Address) -> bool:
    """Return whether an address belongs to this machine: only its own addresses can be bound."""
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


def _find_embedded_ipv4(address: Address) -> set[IPv4Address]:
    """Return what gateways may read in an IPv6 address: 6to4, Teredo, NAT64 with a prefix of any length (RFC 6052)."""
    if isinstance(address, IPv4Address):
        return set()
    packed = address.packed
    spread = packed[:8] + packed[9:]  # RFC 6052 leaves byte 8 out
    inside = {packed[2:6], packed[12:], bytes(255 - byte for byte in packed[12:])}
    inside |= {spread[start : start + 4] for start in range(4, 9)}
    return {IPv4Address(each) for each in inside if any(each)}


def _find_range(address: Address) -> _Range | None:
    """Return the range that makes an address not public, None for a public address."""
    if isinstance(address, IPv6Address) and address.scope_id:
        return _Range(IPv6Network((int(address), 128)), RefusalKind.LINK_LOCAL, "tied to one network interface")
    found = next((each for each in _NOT_PUBLIC if address in each.network), None)
    if found is not None or isinstance(address, IPv4Address):
        return found
    if address in _PROTOCOLS_V6 and address not in _AS112_V6:
        return _Range(_PROTOCOLS_V6, RefusalKind.RESERVED, "reserved for protocols")
    if address not in _PUBLIC_V6:
        return _Range(IPv6Network((int(address), 128)), RefusalKind.RESERVED, "outside 2000::/3, the public IPv6 range")
    return None
