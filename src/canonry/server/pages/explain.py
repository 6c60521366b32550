"""Explain a URL: every step with its reason, the score of the result, and its variants under other policies."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request, Response

from canonry.bookmarks.url_pipeline import MAX_URL_CHARS, read_http_url
from canonry.core.explain import explain
from canonry.core.presets import policies, policy
from canonry.core.score import score
from canonry.core.variants import variants
from canonry.errors import InvalidUrl, PolicyError
from canonry.server.dependencies import get_service
from canonry.server.pages.forms import page_router
from canonry.server.pages.rendering import render
from canonry.server.problems import RequestRefused, describe_error

router = page_router()
_MAX_SCORE = 270  # the best score, see core/score.py


@router.get("/explain")
async def explain_url(
    request: Request,
    url: Annotated[str, Query(max_length=MAX_URL_CHARS)] = "",
    under: Annotated[str, Query(alias="policy", max_length=100)] = "",
) -> Response:
    pinned = await get_service(request).bookmarks.pipeline.get_policy()
    try:
        chosen = policy(under or pinned)
    except PolicyError as error:
        raise RequestRefused(400, describe_error(error)) from None
    shipped = [each.id for each in policies()]
    page: dict[str, Any] = {
        "url": url,
        "policy": chosen.id,
        "pinned": pinned,
        "shipped": shipped,
        "max_score": _MAX_SCORE,
    }
    if not url.strip():
        return render(request, "explain.html", **page, explanation=None, error="", variants=[], score=None)
    try:
        given = read_http_url(url)
        explanation = explain(url if given == url.strip() else given, chosen)
        others = variants(explanation.url, [chosen, *shipped])
    except InvalidUrl as error:
        page["error"] = error.reason
        return render(request, "explain.html", status=400, **page, explanation=None, variants=[], score=None)
    return render(
        request,
        "explain.html",
        **page,
        explanation=explanation,
        error="",
        variants=others,
        score=score(explanation.url),
    )
