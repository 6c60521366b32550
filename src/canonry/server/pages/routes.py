"""All pages, and what they need around them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI, Response
from starlette.staticfiles import StaticFiles

from canonry.server.access import RateLimiter
from canonry.server.pages import (
    about,
    admin,
    bookmarks,
    canonicalize,
    crawls,
    duplicates,
    exchange,
    explain,
    reference,
    sign_in,
    tour,
)
from canonry.server.pages.problem_pages import ProblemPages

if TYPE_CHECKING:
    from starlette.types import Scope

TOPICS = (bookmarks, duplicates, exchange, explain, canonicalize, crawls, admin, sign_in, about, tour, reference)
_ATTEMPTS = 10  # to sign in, a minute, from one address


class _Static(StaticFiles):
    """Files that may be kept for a day: their URLs carry the version."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        answer = await super().get_response(path, scope)
        answer.headers["Cache-Control"] = "max-age=86400"
        return answer


def add_pages(app: FastAPI) -> None:
    """Have the application answer people too; after all other middleware, so that its refusals are pages as well."""
    for topic in TOPICS:
        app.include_router(topic.router)
    app.state.sign_in_limits = RateLimiter(_ATTEMPTS, clock=app.state.service.monotonic)
    app.mount("/static", _Static(directory=Path(__file__).parent / "static"), name="static")
    app.add_middleware(ProblemPages)
