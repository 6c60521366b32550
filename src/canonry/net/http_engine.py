"""The engine without a browser: one guarded request for each page, and the links of its HTML (contract C5)."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from canonry.core.url import parse
from canonry.errors import FailureKind, FetchFailed, InvalidUrl, UnsafeUrl, mask_credentials
from canonry.net.engine import ENDLESS_NAVIGATION, MAX_DOCUMENTS, MAX_REFRESH_SECONDS, OpenedPage, PageFailure
from canonry.net.html import find_meta_refresh, is_html
from canonry.net.links import PageContent, read_page
from canonry.net.page_facts import read_declarations
from canonry.net.page_kind import DOWNLOAD, explain_status, has_links, is_download
from canonry.net.response import NO_VALIDATORS, drop_userinfo
from canonry.net.visible_text import extract_visible_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.net.origin import Origin
    from canonry.net.response import Fetch, Response, Validators

MAX_PAGE_BYTES = 5 * 1024 * 1024
# In a body in lower case: a search without regard to case takes ten times as long.
_REFRESH_HINT = re.compile(rb"http-equiv\s*+=\s*+[\"']?\s*+refresh")
_REFRESH_IN_UTF_16 = "refresh".encode("utf-16-le")
_MIN_THREAD_BYTES = 100_000  # larger pages are parsed in a thread


class HttpEngine:
    """Opens pages with a `fetch` function; only the first `max_page_bytes` of a page are read."""

    name = "http"

    def __init__(
        self,
        fetch: Fetch,
        *,
        max_page_bytes: int = MAX_PAGE_BYTES,
        may_open: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._fetch = fetch
        self._max_page_bytes = max_page_bytes
        self._may_open = may_open  # whether the target of a refresh is fetched

    async def open(self, url: str, *, origin: Origin) -> OpenedPage:
        """Fetch a page and read its links; like a browser, follow a refresh after at most one second."""
        return await self.open_if_changed(url, origin=origin, validators=NO_VALIDATORS)

    async def open_if_changed(self, url: str, *, origin: Origin, validators: Validators) -> OpenedPage:
        """Open a page; if it still has these validators, the status is 304 and there are no links."""
        opened, target = await self._open(url, origin, validators)
        first_status, hops = opened.status, opened.hops
        seen = {opened.final_url}
        while target:
            if target in seen or len(seen) > MAX_DOCUMENTS:
                return replace(opened, requested_url=url, hops=hops, failure=ENDLESS_NAVIGATION)
            seen.add(target)
            if not self._may_open(target):
                return replace(
                    OpenedPage(url, target, opened.status, content_type=opened.content_type, hops=hops),
                    address=opened.address,
                    origin=opened.origin,
                    first_status=first_status,
                    is_target_unread=True,
                )
            opened, target = await self._open(_copy_userinfo(url, target), opened.origin)
            hops += opened.hops
        return replace(opened, requested_url=url, hops=hops, first_status=first_status)

    async def _open(self, url: str, origin: Origin, validators: Validators = NO_VALIDATORS) -> tuple[OpenedPage, str]:
        """Return a page and the URL that it refreshes to, which is empty for most pages."""
        try:
            if validators:
                response = await self._fetch(url, origin=origin, validators=validators)
            else:
                response = await self._fetch(url, origin=origin)
        except UnsafeUrl as error:
            return OpenedPage(url, failure=PageFailure(FailureKind.REFUSED, str(error))), ""
        except InvalidUrl as error:
            return OpenedPage(url, failure=PageFailure(FailureKind.INVALID_URL, str(error))), ""
        except FetchFailed as error:
            return OpenedPage(url, failure=PageFailure(error.kind, str(error))), ""
        except OSError as error:  # a caller's own fetch may raise these
            detail = f"could not fetch: {type(error).__name__}: {mask_credentials(str(error))}"
            return OpenedPage(url, failure=PageFailure(FailureKind.OTHER, detail)), ""
        content = await self._read_content(response)
        declared = read_declarations(
            content.head,
            url=drop_userinfo(response.url),
            link_header=response.header("link"),
            robots_header=response.header("x-robots-tag"),
        )
        opened = OpenedPage(
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
            size=_find_size(response),
            text=content.text,
            validators=response.validators,
            **declared._asdict(),
        )
        return opened, _find_refresh(response)

    async def _read_content(self, response: Response) -> PageContent:
        content_type = response.header("content-type")
        if _is_unfollowed_redirect(response):
            return PageContent("")
        failure = explain_status(response.status)
        if failure is None and is_download(content_type, response.header("content-disposition")):
            failure = DOWNLOAD
        if failure is DOWNLOAD or not is_html(content_type) or not has_links(response.status):
            return PageContent("", failure=failure)
        body = response.body[: self._max_page_bytes]
        url = drop_userinfo(response.url)
        read = partial(read_page, body, url=url, content_type=content_type, read_text=extract_visible_text)
        content = await asyncio.to_thread(read) if len(body) > _MIN_THREAD_BYTES else read()
        if len(body) == self._max_page_bytes:
            detail = f"only the first {self._max_page_bytes} bytes were read"
            content = replace(content, failure=PageFailure(FailureKind.TRUNCATED, detail))
        return content if failure is None else replace(content, failure=failure)


def _find_refresh(response: Response) -> str:
    """Return the URL that a page asks a browser to open instead of it at once; empty for most pages."""
    header, content_type = response.header("refresh"), response.header("content-type")
    is_page = is_html(content_type) and has_links(response.status)
    if not is_page or not (header or _may_refresh(response.body.lower())):
        return ""
    url = drop_userinfo(response.url)
    target = find_meta_refresh(
        response.body,
        url=url,
        content_type=content_type,
        header=header,
        max_seconds=MAX_REFRESH_SECONDS,
        scripting=True,
    )
    return target.partition("#")[0] if target.startswith(("http://", "https://")) else ""


def _may_refresh(lower_body: bytes) -> bool:
    return _REFRESH_IN_UTF_16 in lower_body or _REFRESH_HINT.search(lower_body) is not None


def _copy_userinfo(url: str, target: str) -> str:
    """Return the target with the credentials of the URL, if both have the same origin."""
    if "@" not in url:
        return target
    source, parts = parse(url), parse(target)
    if source.get_origin() == parts.get_origin():
        parts.userinfo = source.userinfo
    return str(parts)


def _find_size(response: Response) -> int | None:
    """Return the bytes of the body; of a body that was not read, what the server says."""
    length = response.header("content-length")
    if response.body or not length.isdecimal() or response.header("content-encoding"):
        return len(response.body) if response.body or length == "0" else None
    return int(length[:18])


def _is_unfollowed_redirect(response: Response) -> bool:
    """Return whether a response is a redirect that was not followed."""
    return bool(response.hops) and response.hops[-1].url == response.url
