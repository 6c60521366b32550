"""The engine without a browser: one guarded request a page, its links from the HTML that came (contract C5)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from canonry.core.url import parse
from canonry.errors import FailureKind, FetchFailed, InvalidUrl, UnsafeUrl, mask_credentials
from canonry.net.engine import Opened, PageFailure
from canonry.net.html import is_html
from canonry.net.links import PageContent, read_page

if TYPE_CHECKING:
    from canonry.net.response import Fetch, Response

MAX_PAGE = 5 * 1024 * 1024  # bytes of a page that are looked at
_THREAD_FROM = 100_000  # bytes from which a page is read in a thread


class HttpEngine:
    """Opens pages with a fetch, as every use-case takes one; `max_page` is where it cuts a body."""

    name = "http"

    def __init__(self, fetch: Fetch, *, max_page: int = MAX_PAGE) -> None:
        self._fetch = fetch
        self._max_page = max_page

    async def open(self, url: str, *, came_from: str | None = None) -> Opened:
        try:
            response = await self._fetch(url, **({} if came_from is None else {"came_from": came_from}))
        except UnsafeUrl as error:
            return Opened(url, failure=PageFailure(FailureKind.REFUSED, str(error)))
        except InvalidUrl as error:
            return Opened(url, failure=PageFailure(FailureKind.INVALID_URL, str(error)))
        except FetchFailed as error:
            return Opened(url, failure=PageFailure(error.kind, str(error)))
        except OSError as error:  # a caller's own fetch may raise these
            detail = f"not fetched: {type(error).__name__}: {mask_credentials(str(error))}"
            return Opened(url, failure=PageFailure(FailureKind.OTHER, detail))
        content = await self._content(response)
        return Opened(
            url,
            response.hops[-1].location if _is_left(response) else response.url,
            response.status,
            content.title,
            content.links,
            content_type=response.header("content-type"),
            hops=response.hops,
            address=response.address,
            retry_after=response.retry_after(datetime.now(UTC)) if response.header("retry-after") else None,
            failure=content.failure,
        )

    async def _content(self, response: Response) -> PageContent:
        kind = response.header("content-type")
        if not response.is_ok:
            if _is_left(response):
                return PageContent("", ())
            kind = FailureKind.UNAVAILABLE if response.is_unavailable else FailureKind.STATUS
            return PageContent("", (), PageFailure(kind, f"the server answered {response.status}"))
        if not is_html(kind):
            return PageContent("", ())
        body = response.body[: self._max_page]
        read = partial(read_page, body, url=_document_url(response.url), content_type=kind)
        content = await asyncio.to_thread(read) if len(body) > _THREAD_FROM else read()
        if len(body) == self._max_page:
            detail = f"only the first {self._max_page} bytes were read"
            return PageContent(content.title, content.links, PageFailure(FailureKind.TRUNCATED, detail))
        return content


def _document_url(url: str) -> str:
    """What links are relative to: the address without the credentials it was asked with."""
    if "@" not in url:
        return url
    parts = parse(url)
    parts.userinfo = None
    return str(parts)


def _is_left(response: Response) -> bool:
    """Is it the redirect itself, one that was not followed?"""
    return bool(response.hops) and response.hops[-1].url == response.url
