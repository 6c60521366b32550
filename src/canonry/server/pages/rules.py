"""The page /rules: every rule, every known site with examples, and the tracking parameters."""

from __future__ import annotations

import asyncio

from fastapi import Request, Response

from canonry.core.catalog import RULE_DESCRIPTIONS
from canonry.server.pages.forms import page_router
from canonry.server.pages.rendering import render
from canonry.site_files import describe_sites, list_tracking_parameters

router = page_router()


@router.get("/rules")
async def show_rules(request: Request) -> Response:
    """Show what canonry knows, from its own tables; the same for everyone."""
    return render(
        request,
        "rules.html",
        rules=RULE_DESCRIPTIONS,
        sites=await asyncio.to_thread(describe_sites),
        parameters=sorted(await asyncio.to_thread(list_tracking_parameters), key=lambda each: each.label),
    )
