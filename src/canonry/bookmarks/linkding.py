"""Read all bookmarks of a linkding service through its REST API, as a JSON file for an import (contract B8)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, cast

from canonry.bookmarks.exchange import MAX_BYTES, MAX_ROWS
from canonry.core.url import read_url
from canonry.errors import CanonryError, mask_credentials
from canonry.net.origin import Origin

if TYPE_CHECKING:
    from canonry.net.response import Fetch, Response

_PAGE_ROWS = 500
_TIMEOUT_SECONDS = 120.0  # for all requests together
_LISTS = ("/api/bookmarks/", "/api/bookmarks/archived/")


class LinkdingProblem(StrEnum):
    """Why the bookmarks of a linkding service could not be read."""

    REFUSED_TOKEN = "refused_token"  # noqa: S105
    REDIRECTED = "redirected"
    STATUS = "status"
    NOT_LINKDING = "not_linkding"
    TOO_MANY = "too_many"
    TIMEOUT = "timeout"


_SENTENCES = {
    LinkdingProblem.REFUSED_TOKEN: "{address} refused the token. Copy it again from linkding: Settings, Integrations.",
    LinkdingProblem.REDIRECTED: "{address} redirects elsewhere. Give the address that linkding has now.",
    LinkdingProblem.STATUS: "{address} answered with HTTP status {status}. Check the address.",
    LinkdingProblem.NOT_LINKDING: "{address} does not answer as linkding does. Check the address.",
    LinkdingProblem.TOO_MANY: "{address} has more bookmarks than one import can have. Import its HTML export in parts.",
    LinkdingProblem.TIMEOUT: "{address} did not send all bookmarks in time. Import its HTML export instead.",
}


class LinkdingError(CanonryError):
    """The bookmarks of a linkding service could not be read; nothing was imported."""

    def __init__(self, kind: LinkdingProblem, address: str, *, status: int = 0) -> None:
        super().__init__(_SENTENCES[kind].format(address=mask_credentials(address), status=status))
        self.kind = kind
        self.status = status


async def download_linkding(address: str, token: str, fetch: Fetch, *, timeout: float = _TIMEOUT_SECONDS) -> bytes:
    """Return all bookmarks, the archived ones included, as `{"bookmarks": [...]}`.

    A person gave the address, so it may be in an allowed network. The token is sent to this address only, and a
    redirect is an error.
    """
    base = read_url(address).partition("#")[0].partition("?")[0].rstrip("/")
    headers = {"Authorization": f"Token {token}", "Accept": "application/json"}
    found: list[object] = []
    size = 0
    try:
        async with asyncio.timeout(timeout):
            for path in _LISTS:
                offset, has_more = 0, True
                while has_more:
                    url = f"{base}{path}?limit={_PAGE_ROWS}&offset={offset}"
                    response = await fetch(url, origin=Origin.PERSON, headers=headers)
                    page = _read_page(response, address)
                    size += len(response.body)
                    if size > MAX_BYTES or len(found) + len(page.rows) > MAX_ROWS:
                        raise LinkdingError(LinkdingProblem.TOO_MANY, address)
                    found += page.rows
                    offset += len(page.rows)
                    has_more = page.has_next and bool(page.rows)
    except TimeoutError:
        raise LinkdingError(LinkdingProblem.TIMEOUT, address) from None
    return json.dumps({"bookmarks": found}, ensure_ascii=True).encode()


@dataclass(frozen=True, slots=True)
class _LinkdingPage:
    rows: list[object]
    has_next: bool  # a service may give fewer rows than were asked for


def _read_page(response: Response, address: str) -> _LinkdingPage:
    if response.hops:
        raise LinkdingError(LinkdingProblem.REDIRECTED, address)
    if response.status in {401, 403}:
        raise LinkdingError(LinkdingProblem.REFUSED_TOKEN, address)
    if response.status != 200:
        raise LinkdingError(LinkdingProblem.STATUS, address, status=response.status)
    try:
        page: object = json.loads(response.body)
    except (ValueError, RecursionError):
        page = None
    if isinstance(page, dict):
        fields = cast("dict[str, object]", page)
        rows = fields.get("results")
        if isinstance(rows, list):
            return _LinkdingPage(cast("list[object]", rows), bool(fields.get("next")))
    raise LinkdingError(LinkdingProblem.NOT_LINKDING, address)
