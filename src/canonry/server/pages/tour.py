"""The tour of `canonry demo`, as a page."""

from __future__ import annotations

import asyncio

from fastapi import Request, Response

from canonry.demo.tour import Stop, tour
from canonry.server.pages.forms import page_router
from canonry.server.pages.rendering import render

router = page_router()
_walking = asyncio.Lock()
_stops: list[Stop] = []  # the web it shows is always the same: once is enough


@router.get("/tour")
async def take_the_tour(request: Request) -> Response:
    async with _walking:
        if not _stops:
            _stops.extend([stop async for stop in tour()])
    return render(request, "tour.html", stops=_stops)
