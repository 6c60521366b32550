"""Parse URLs as browsers do, into parts that can be edited without re-encoding them.

This module is loaded by `canonry normalize`, so it imports nothing heavy: ada-url is imported when the
first URL needs it (docs/decisions/0001-parser.md).
"""

from __future__ import annotations

import re

from canonry.url_errors import InvalidUrl

TYPE_CHECKING = False  # importing typing would cost start-up time
if TYPE_CHECKING:
    from collections.abc import Callable

SCHEME_PORTS = {"http": 80, "https": 443}
_PORT_TEXTS = {scheme: str(port) for scheme, port in SCHEME_PORTS.items()}
# A URL that the parser returns unchanged, proved by its characters: no upper case, punycode, user,
# default port, segment that starts with a dot, empty query or empty fragment, and nothing to encode.
# As text: other modules compile it at its first use, because compiling would slow down every start.
UNCHANGED_URL = (
    r"https?://(?>(?!xn--)[a-z0-9_-]++\.)*+(?!xn--)[a-z][a-z0-9_-]*+"
    r"(?>:(?!80/|443/)[1-9][0-9]{0,3}+)?+"
    r"(?>/(?!\.)[A-Za-z0-9\-._~!$&()*+,;=:@]*+)++"
    r"(?>\?[A-Za-z0-9\-._~!$&()*+,;=:@/?%]++)?+(?>#[A-Za-z0-9\-._~!$&()*+,;=:@/?%]++)?+"
)
# A URL in which the parser would at most lower-case scheme and host and drop the default port, proved by
# its characters: no user, nothing to encode. `parse` checks for dot segments and punycode afterwards.
_PLAIN = re.compile(
    r"([Hh][Tt][Tt][Pp][Ss]?)://"
    r"((?:[A-Za-z0-9_-]++\.)*+[A-Za-z][A-Za-z0-9_-]*+)"
    r"(?::([1-9][0-9]{0,3}+))?+"
    r"(/[A-Za-z0-9\-._~!$&'()*+,;=:@/|\[\]%]*+)?+"
    r"(?:\?([A-Za-z0-9\-._~!$&()*+,;=:@%/?|\[\]\\^`{}]*+))?+"
    r"(?:#([A-Za-z0-9\-._~!$&'()*+,;=:@%/?|\[\]\\^{}#]*+))?+"
)
_HREF = re.compile(r"(https?)://(?:([^/@]*)@)?(\[[^\]]*\]|[^/:]*)(?::([0-9]+))?(/[^?#]*)(?:\?([^#]*))?(?:#(.*))?")
# These are compiled by `re.match` when a URL first needs them.
_SCHEME = r"([A-Za-z][A-Za-z0-9+.-]*):"
_FEED_SCHEME = r"(?i:feed|rss|pcast|itpc|podcast):"
C0_AND_SPACE = "".join(map(chr, range(33)))  # the parser removes these at both ends of a URL
# Characters that people paste around a URL: C0 controls, Unicode spaces, zero-width space, BOM.
_SURROUNDING = C0_AND_SPACE + (
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u200b"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_TABS_AND_LINE_BREAKS = {9: None, 10: None, 13: None}  # the parser removes these anywhere in a URL
_ada: Callable[[str], str] | None = None


class Parts:
    """A parsed URL. Its parts are written as in the text, not decoded; None for a missing part."""

    __slots__ = ("fragment", "host", "path", "port", "query", "scheme", "userinfo")

    def __init__(
        self,
        scheme: str,
        userinfo: str | None,
        host: str,
        port: str | None,
        path: str,
        query: str | None,
        fragment: str | None,
    ) -> None:
        self.scheme = scheme
        self.userinfo = userinfo
        self.host = host
        self.port = port
        self.path = path
        self.query = query
        self.fragment = fragment

    def __str__(self) -> str:
        text = f"{self.scheme}://{self.host}"
        if self.userinfo is not None or self.port is not None:
            user = "" if self.userinfo is None else f"{self.userinfo}@"
            port = "" if self.port is None else f":{self.port}"
            text = f"{self.scheme}://{user}{self.host}{port}"
        text += self.path
        if self.query is not None:
            text += f"?{self.query}"
        if self.fragment is not None:
            text += f"#{self.fragment}"
        return text

    def get_port(self) -> int:
        """Return the port, or the default one of the scheme."""
        return int(self.port) if self.port else SCHEME_PORTS[self.scheme]

    def get_origin(self) -> str:
        """Return scheme, host and port, the default port left out: `https://example.com:8443`."""
        return f"{self.scheme}://{self.host}:{self.port}" if self.port else f"{self.scheme}://{self.host}"

    def copy(self) -> Parts:
        """Return the same parts in a new object."""
        return Parts(self.scheme, self.userinfo, self.host, self.port, self.path, self.query, self.fragment)

    def set_all(self, other: Parts) -> None:
        """Take over every part of another URL."""
        self.scheme, self.userinfo, self.host, self.port = other.scheme, other.userinfo, other.host, other.port
        self.path, self.query, self.fragment = other.path, other.query, other.fragment

    def set_scheme(self, scheme: str) -> None:
        """Change the scheme, and drop the port if it is the default one of the scheme."""
        self.scheme = scheme
        if self.port == _PORT_TEXTS[scheme]:
            self.port = None


def parse(text: str) -> Parts:
    """Parse an http(s) URL by the WHATWG standard; an empty query or fragment is dropped."""
    try:
        plain = _PLAIN.fullmatch(text)
    except TypeError:
        raise InvalidUrl(text, f"not a string but {type(text).__name__}") from None
    if plain is not None:
        scheme, host, port, path, query, fragment = plain.groups()
        scheme, host, path = scheme.lower(), host.lower(), path or "/"
        if "/." not in path and "/%2" not in path and "xn--" not in host:
            if port is not None and port == _PORT_TEXTS[scheme]:
                port = None
            return Parts(scheme, None, host, port, path, query or None, fragment or None)
    match = _HREF.fullmatch(_parse_with_ada(text))
    if match is None:
        raise InvalidUrl(text, describe_invalid(text))
    scheme, userinfo, host, port, path, query, fragment = match.groups()
    return Parts(scheme, userinfo, host, port, path, query or None, fragment or None)


def join(base: str, reference: str) -> str:
    """Resolve a link on the page `base` to an absolute URL of any scheme; InvalidUrl if that fails."""
    from ada_url import join_url

    try:
        return join_url(base, reference)
    except ValueError:
        raise InvalidUrl(reference, f"cannot be resolved against {base}") from None


def read_url(text: str) -> str:
    """Read what a person typed or pasted as an http(s) URL: `example.com/feed` → `https://example.com/feed`.

    Changes only the scheme and what surrounds the URL; InvalidUrl if the result is not an http(s) URL.
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidUrl(text, f"not a string but {type(text).__name__}")
    url = text.strip(_SURROUNDING).translate(_TABS_AND_LINE_BREAKS)
    if not url[:8].lower().startswith(("http://", "https://")):
        url = _add_scheme(text, url)
    try:
        parse(url)
    except InvalidUrl as error:
        raise InvalidUrl(text, error.reason) from None
    return url


def describe_invalid(text: str) -> str:
    """Return in a few words why a text is not an http(s) URL; ada-url itself gives no reason."""
    stripped = text.strip(C0_AND_SPACE).translate(_TABS_AND_LINE_BREAKS)
    if not stripped:
        return "empty"
    try:
        stripped.encode()
    except UnicodeEncodeError:
        return "contains a lone surrogate, which is not text"
    scheme = re.match(_SCHEME, stripped)
    if scheme is None:
        return "no scheme"
    if scheme[1].lower() not in SCHEME_PORTS:
        return f"scheme {scheme[1].lower()[:40]}: is not http or https"
    return _describe_invalid_authority(_cut_authority(stripped[scheme.end() :].lstrip("/\\")))


def _describe_invalid_authority(authority: str) -> str:
    host_and_port = authority.rpartition("@")[2]
    split = re.fullmatch(r"(\[[^\]]*\]?|[^:]*)(?::(.*))?", host_and_port, re.DOTALL)
    host, port = split.groups() if split else (host_and_port, None)
    if not host:
        return "no host"
    if port and not re.fullmatch("[0-9]+", port):
        return "port is not a number"
    if port and (len(digits := port.lstrip("0")) > 5 or int(digits or "0") > 65535):
        return "port out of range"
    if host.startswith("["):
        return "not an IPv6 address"
    if re.search(r"(?:^|\.)(?:[0-9]+|0[xX][0-9A-Fa-f]*)\.?$", host):
        return "not an IPv4 address"
    if re.search(r"[\x00-\x20#/<>?@\[\\\]^|%\x7f]", host):
        return "a character that no host may contain"
    return "not a host name (IDNA)"


def _parse_with_ada(text: str) -> str:
    """Return the text as ada-url writes it; InvalidUrl with the reason if it is not a URL."""
    global _ada  # noqa: PLW0603 – importing ada_url takes longer than starting Python
    if _ada is None:
        from ada_url import normalize_url

        _ada = normalize_url
    try:
        return _ada(text)
    except ValueError:
        raise InvalidUrl(text, describe_invalid(text)) from None


def _add_scheme(text: str, url: str) -> str:
    """Convert feed schemes, and assume https if a typed URL has no scheme."""
    for _ in range(2):  # `feed:feed:` is accepted, a longer chain is not
        feed = re.match(_FEED_SCHEME, url)
        if feed is None:
            break
        url = url[feed.end() :].lstrip("/ ")
        if re.match(_FEED_SCHEME, url) is None:
            return url if re.match(f"{_SCHEME}//", url) else f"https://{url}"
    if url.startswith(("//", "\\\\")):
        return f"https:{url}"
    if _is_host_and_port(_cut_authority(url)) or not re.match(_SCHEME, url):
        return _assume_https(text, url)
    return url


def _cut_authority(url: str) -> str:
    return re.split(r"[/\\?#]", url, maxsplit=1)[0]


def _is_host_and_port(authority: str) -> bool:
    """Return whether this is a host and a port: `example.com:8080`, but not `tel:5551234`."""
    host, colon, port = authority.rpartition(":")
    is_host = "." in host or host.lower() == "localhost"
    return bool(colon) and is_host and ":" not in host and port.isdecimal()


def _assume_https(text: str, url: str) -> str:
    authority = _cut_authority(url)
    if not url:
        raise InvalidUrl(text, "empty")
    if not authority:
        raise InvalidUrl(text, "no host")
    if "@" in authority:
        raise InvalidUrl(text, "looks like an e-mail address; write https:// before it if it is a URL")
    try:
        host = parse(f"https://{url}").host
    except InvalidUrl as error:
        raise InvalidUrl(text, error.reason) from None
    # Parsed as a URL, a number such as 1.5 would become the address 1.0.0.5.
    is_number = re.fullmatch("[0-9.]+", host) and authority.partition(":")[0] != host
    if is_number or not (re.search(r"[^.]\.[^.]", host) or host == "localhost" or host.startswith("[")):
        raise InvalidUrl(text, "no scheme and no host name")
    return f"https://{url}"
