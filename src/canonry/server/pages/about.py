"""The about page and the bookmarklet."""

from __future__ import annotations

import json

from fastapi import Request, Response

from canonry.server.dependencies import get_public_url, get_service
from canonry.server.pages.forms import page_router
from canonry.server.pages.rendering import render

router = page_router()


@router.get("/about")
async def about(request: Request) -> Response:
    return render(request, "about.html")


@router.get("/bookmarklet")
async def bookmarklet(request: Request) -> Response:
    """Show a link for the bookmarks bar; it only opens the form, filled with the current page."""
    form = get_public_url(request).replace(path=f"{get_service(request).options.root_path}/add", query="url=")
    script = (
        f"javascript:void(open({json.dumps(str(form))}+encodeURIComponent(location.href)"
        "+'&title='+encodeURIComponent(document.title)))"
    )
    return render(request, "bookmarklet.html", script=script)
