"""The engine without a browser: one guarded request for each page, and the links of its HTML (contract C5)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from canonry.core.url import parse
from canonry.errors import FailureKind, FetchFailed, InvalidUrl, UnsafeUrl, mask_credentials
from canonry.net.engine import Opened, PageFailure
from canonry.net.html import is_html
from canonry.net.links import PageContent, read_page

if TYPE_CHECKING:
    from canonry.net.origin import Origin
    from canonry.net.response import Fetch, Response

MAX_PAGE_BYTES = 5 * 1024 * 1024
_MIN_THREAD_BYTES = 100_000  # larger pages are parsed in a thread


class HttpEngine:
    """Opens pages with a `fetch` function; only the first `max_page_bytes` of a page are read."""

    name = "http"

    def __init__(self, fetch: Fetch, *, max_page_bytes: int = MAX_PAGE_BYTES) -> None:
        self._fetch = fetch
        self._max_page_bytes = max_page_bytes

    async def open(self, url: str, *, origin: Origin) -> Opened:
        """Fetch a page and read its links."""
        try:
            response = await self._fetch(url, origin=origin)
        except UnsafeUrl as error:
            return Opened(url, failure=PageFailure(FailureKind.REFUSED, str(error)))
        except InvalidUrl as error:
            return Opened(url, failure=PageFailure(FailureKind.INVALID_URL, str(error)))
        except FetchFailed as error:
            return Opened(url, failure=PageFailure(error.kind, str(error)))
        except OSError as error:  # a caller's own fetch may raise these
            detail = f"could not fetch: {type(error).__name__}: {mask_credentials(str(error))}"
            return Opened(url, failure=PageFailure(FailureKind.OTHER, detail))
        content = await self._read_content(response)
        return Opened(
            url,
            response.hops[-1].location if _is_unfollowed_redirect(response) else response.url,
            response.status,
            content.title,
            content.links,
            content_type=response.header("content-type"),
            hops=response.hops,
            address=response.address,
            retry_after=response.retry_after(datetime.now(UTC)) if response.header("retry-after") else None,
            failure=content.failure,
            origin=response.origin,
            added_links=content.added_links,
        )

    async def _read_content(self, response: Response) -> PageContent:
        content_type = response.header("content-type")
        if not response.is_ok:
            if _is_unfollowed_redirect(response):
                return PageContent("")
            kind = FailureKind.UNAVAILABLE if response.is_unavailable else FailureKind.STATUS
            return PageContent("", failure=PageFailure(kind, f"the server answered {response.status}"))
        if not is_html(content_type):
            return PageContent("")
        body = response.body[: self._max_page_bytes]
        read = partial(read_page, body, url=_drop_userinfo(response.url), content_type=content_type)
        content = await asyncio.to_thread(read) if len(body) > _MIN_THREAD_BYTES else read()
        if len(body) == self._max_page_bytes:
            detail = f"only the first {self._max_page_bytes} bytes were read"
            return replace(content, failure=PageFailure(FailureKind.TRUNCATED, detail))
        return content


def _drop_userinfo(url: str) -> str:
    """Return a URL without credentials, which the URLs of links must not repeat."""
    if "@" not in url:
        return url
    parts = parse(url)
    parts.userinfo = None
    return str(parts)


def _is_unfollowed_redirect(response: Response) -> bool:
    """Return whether a response is a redirect that was not followed."""
    return bool(response.hops) and response.hops[-1].url == response.url
