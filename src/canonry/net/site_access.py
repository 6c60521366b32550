"""Credentials for one site: headers, cookies, basic authentication. They go to its origin only and are not stored."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass, field
from http.cookiejar import LoadError, MozillaCookieJar
from typing import TYPE_CHECKING, Any

from canonry.core.url import parse
from canonry.errors import CanonryError, InvalidUrl

if TYPE_CHECKING:
    from collections.abc import Mapping
    from http.cookiejar import Cookie
    from pathlib import Path

    from canonry.core.url import Parts
    from canonry.net.response import Fetch, Response

_FORBIDDEN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection"})  # the client sets them


@dataclass(frozen=True, slots=True)
class SiteAccess:
    """Headers and cookies for the origin of `site`, and for its https origin if `site` is http on the usual port."""

    site: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cookies: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __post_init__(self) -> None:
        for name, value in self.headers.items():
            if name.lower() == "cookie":
                raise CanonryError("The header Cookie cannot be set. Send cookies with --cookie-file or --login.")
            if name.lower() in _FORBIDDEN_HEADERS:
                raise CanonryError(f"The header {name!r} cannot be set: the client sets it itself.")
            if not name or not _is_header_text(name + value):
                raise CanonryError(f"The header {name!r} has characters that a header cannot have.")
        for name, value in self.cookies.items():
            if not name or set("=; \t") & set(name) or ";" in value or not _is_header_text(name + value):
                raise CanonryError(f"The cookie {name!r} has characters that a cookie cannot have.")

    @property
    def is_empty(self) -> bool:
        return not self.headers and not self.cookies

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins that get the credentials."""
        origin = parse(self.site).get_origin()
        is_usual = origin.startswith("http://") and ":" not in origin.removeprefix("http://").rpartition("]")[2]
        return (origin, "https" + origin.removeprefix("http")) if is_usual else (origin,)

    def applies_to(self, url: str) -> bool:
        """Return whether a URL gets the credentials."""
        try:
            return parse(url).get_origin() in self.origins
        except InvalidUrl:
            return False

    def get_headers(self, url: str) -> dict[str, str]:
        """Return the headers of a request, cookies included; none for URLs of other origins."""
        if not self.applies_to(url):
            return {}
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {**self.headers, "Cookie": cookies} if cookies else dict(self.headers)


def add_access(fetch: Fetch, access: SiteAccess) -> Fetch:
    """Return a fetch function that sends the credentials to their site."""

    async def fetch_with_access(url: str, **options: Any) -> Response:
        headers = access.get_headers(url)
        if headers:
            options["headers"] = headers | dict(options.get("headers") or {})
        return await fetch(url, **options)

    return fetch_with_access


def make_basic_auth(user_and_password: str) -> dict[str, str]:
    """Return the header for `user:password`."""
    if ":" not in user_and_password:
        raise CanonryError("Write the user and the password as user:password.")
    return {"Authorization": f"Basic {b64encode(user_and_password.encode()).decode()}"}


def read_cookie_file(file: Path, site: str) -> dict[str, str]:
    """Return the cookies of a Netscape `cookies.txt` that a browser would send to the start page `site`."""
    jar = MozillaCookieJar()
    try:
        jar.load(str(file), ignore_discard=True, ignore_expires=False)
    except (LoadError, OSError, UnicodeDecodeError) as error:
        raise CanonryError(f"{file}: not a cookie file in Netscape format ({type(error).__name__})") from None
    page = parse(site)
    return {cookie.name: cookie.value or "" for cookie in jar if _is_sent(cookie, page)}


def _is_sent(cookie: Cookie, site: Parts) -> bool:
    """Return whether a browser sends a cookie to a page (RFC 6265, 5.4)."""
    domain = cookie.domain.lstrip(".").lower()
    is_inside = cookie.domain.startswith(".") and site.host.endswith(f".{domain}")
    path = site.path or "/"
    is_path = path == cookie.path or path.startswith(cookie.path.rstrip("/") + "/")
    is_secret = cookie.secure and site.scheme != "https"
    return (site.host == domain or is_inside) and is_path and not is_secret and not cookie.is_expired()


def parse_login(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return headers and cookies from the output of a login command: `{"headers": {…}, "cookies": {…}}`."""
    try:
        answer = json.loads(text)
        headers, cookies = dict(answer.get("headers", {})), dict(answer.get("cookies", {}))
        is_text = all(isinstance(each, str) for values in (headers, cookies) for each in (*values, *values.values()))
    except (ValueError, TypeError, AttributeError):
        headers, cookies, is_text = {}, {}, False
    if not is_text:
        wanted = '{"headers": {"Name": "value"}, "cookies": {"name": "value"}}'
        raise CanonryError(f"The login command must print one JSON object: {wanted}")
    return headers, cookies


def _is_header_text(text: str) -> bool:
    return all(32 <= ord(character) < 256 and ord(character) != 127 for character in text)
