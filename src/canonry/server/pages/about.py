"""The about page and the bookmarklet."""

from __future__ import annotations

import json

from fastapi import Request, Response

from canonry.server.pages.forms import page_router
from canonry.server.pages.rendering import render

router = page_router()


@router.get("/about")
async def about(request: Request) -> Response:
    return render(request, "about.html")


@router.get("/bookmarklet")
async def bookmarklet(request: Request) -> Response:
    """Show a link for the bookmarks bar; it only opens the form, filled with the current page."""
    origin = json.dumps(f"{request.url.scheme}://{request.url.netloc}/add?url=")
    script = (
        f"javascript:void(open({origin}+encodeURIComponent(location.href)"
        "+'&title='+encodeURIComponent(document.title)))"
    )
    return render(request, "bookmarklet.html", script=script)
