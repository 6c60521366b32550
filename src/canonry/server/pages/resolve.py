"""Find the URL that stands for a page: every candidate with its verdict and evidence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import Query, Request, Response

from canonry.bookmarks.url_pipeline import MAX_URL_CHARS, read_http_url
from canonry.core.presets import policy
from canonry.errors import FetchFailed, InvalidUrl, UnsafeUrl, mask_credentials
from canonry.evidence.resolve import resolve
from canonry.evidence.resolved import PageCandidate, PageSource, Resolved, ResolveReason
from canonry.evidence.same_page import Evidence
from canonry.server.dependencies import get_service
from canonry.server.pages.forms import get_text, page_router
from canonry.server.pages.rendering import render, wants_fragment

router = page_router()
_MAX_BYTES = 10 * 1024 * 1024
_TIMEOUT_SECONDS = 10.0
_REASONS = {
    ResolveReason.RESPONSE_URL: "No other URL was proven, so the URL stands for its page.",
    ResolveReason.REDIRECT_VERIFIED: "The URL redirects permanently here.",
    ResolveReason.DECLARED_VERIFIED: "The page declares this URL, and it shows the same page.",
    ResolveReason.TEXT_VERIFIED: "This cleaner form of the URL shows the same page.",
    ResolveReason.UPGRADE_HTTPS: "The page is the same over https.",
}
_SOURCES = {
    PageSource.INPUT: "as given",
    PageSource.REDIRECT: "redirect",
    PageSource.DECLARED: "declared by the page",
    PageSource.NO_VARY_SEARCH: "No-Vary-Search header",
    PageSource.NORMAL_FORM: "normal form",
    PageSource.HTTPS: "over https",
    PageSource.NO_WWW: "without www.",
    PageSource.NO_SLASH: "without slash or index file",
    PageSource.REPEAT: "control: the page once more",
    PageSource.CONTROL: "control: a made-up URL",
}
_EVIDENCE = {
    Evidence.REDIRECT: "redirects to",
    Evidence.DECLARED: "declares",
    Evidence.SAME_TEXT: "same text",
    Evidence.SIMILAR_TEXT: "nearly the same text",
    Evidence.SAME_BYTES: "same bytes",
}


@dataclass(frozen=True, slots=True)
class PageSearchOutcome:
    """The result of a search: the URL or an error, and every URL that was tested."""

    found: Resolved | None
    error: str
    tried: tuple[PageCandidate, ...]


@router.get("/resolve")
async def show_page_form(request: Request, url: Annotated[str, Query(max_length=MAX_URL_CHARS)] = "") -> Response:
    return render(request, "resolve.html", url=url, error="", outcome=None)


@router.post("/resolve")
async def resolve_page(request: Request) -> Response:
    """Search and show the result; htmx gets only the outcome."""
    url = get_text(await request.form(), "url")
    words: dict[str, Any] = {"reasons": _REASONS, "sources": _SOURCES, "evidence": _EVIDENCE}
    try:
        read_http_url(url)
    except InvalidUrl as error:
        if wants_fragment(request):
            return render(request, "_resolved.html", outcome=PageSearchOutcome(None, error.reason, ()), **words)
        return render(request, "resolve.html", status=400, url=url, error=error.reason, outcome=None)
    outcome = await _search(request, url)
    if wants_fragment(request):
        return render(request, "_resolved.html", outcome=outcome, **words)
    return render(request, "resolve.html", url=url, error="", outcome=outcome, **words)


async def _search(request: Request, url: str) -> PageSearchOutcome:
    service = get_service(request)
    client = service.client
    try:
        found = await resolve(
            url,
            policy(await service.bookmarks.pipeline.get_policy()),
            fetch=partial(client.fetch, timeout=_TIMEOUT_SECONDS, max_bytes=_MAX_BYTES),
            guard=client.guard,
        )
    except InvalidUrl as error:
        return PageSearchOutcome(None, f"Invalid URL: {mask_credentials(error.reason)}", ())
    except (FetchFailed, UnsafeUrl) as error:
        tried = tuple(each for each in error.tried if isinstance(each, PageCandidate))
        return PageSearchOutcome(None, mask_credentials(str(error)), tried)
    return PageSearchOutcome(found, "", found.candidates)
