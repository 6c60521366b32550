"""The tour of `canonry demo`, as a page."""

from __future__ import annotations

import asyncio

from fastapi import Request, Response

from canonry.demo.tour import TourStep, run_tour
from canonry.server.pages.forms import page_router
from canonry.server.pages.rendering import render

router = page_router()
_lock = asyncio.Lock()
_steps: list[TourStep] = []  # run once: the demo web never changes


@router.get("/tour")
async def show_tour(request: Request) -> Response:
    async with _lock:
        if not _steps:
            _steps.extend([step async for step in run_tour()])
    return render(request, "tour.html", steps=_steps)
