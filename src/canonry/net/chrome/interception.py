"""Requests of a tab that are changed or stopped on their way: no pictures, and credentials for their site only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from canonry.net.engine import ReadOptions

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCKED_TYPES = ("Image", "Media", "Font")  # they make most of the traffic of a page, and no links


@dataclass(slots=True)
class Interception:
    """The rules of one tab. Chrome pauses only the requests that a rule concerns."""

    _options: ReadOptions = field(default_factory=ReadOptions)
    _patterns: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def start_page(self, options: ReadOptions, send: Callable[..., object]) -> None:
        """Tell Chrome the rules and the cookies for the next page."""
        self._options = options
        patterns = [] if options.load_images else [{"resourceType": name} for name in BLOCKED_TYPES]
        access = options.access
        site = "" if access is None else access.origins[0]
        if access is not None and access.headers:
            patterns += [{"urlPattern": f"{origin}/*"} for origin in access.origins]
        if access is not None and access.cookies:
            cookies = [
                {"name": name, "value": value, "url": f"{site}/", "secure": site.startswith("https:")}
                for name, value in access.cookies.items()
            ]
            send("Network.setCookies", cookies=cookies)
        if patterns != self._patterns:
            self._patterns = patterns
            if patterns:
                send("Fetch.enable", patterns=patterns)
            else:
                send("Fetch.disable")

    def answer(self, params: dict[str, Any], send: Callable[..., object]) -> None:
        """Continue, change or stop a request that Chrome has paused."""
        request_id = params["requestId"]
        if params.get("resourceType") in BLOCKED_TYPES and self._patterns and not self._options.load_images:
            send("Fetch.failRequest", requestId=request_id, errorReason="BlockedByClient")
            return
        request, access = params["request"], self._options.access
        if access is None or not access.headers or not access.applies_to(request["url"]):
            send("Fetch.continueRequest", requestId=request_id)
            return
        own = {name.lower() for name in access.headers}
        headers = {name: value for name, value in request["headers"].items() if name.lower() not in own}
        entries = [{"name": name, "value": value} for name, value in {**headers, **access.headers}.items()]
        send("Fetch.continueRequest", requestId=request_id, headers=entries)
