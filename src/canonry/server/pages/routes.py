"""Add all pages, their static files and their middleware to the application."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI, Response
from starlette.staticfiles import StaticFiles

from canonry.server.pages import (
    about,
    account,
    admin,
    bookmarks,
    canonicalize,
    crawls,
    duplicates,
    exchange,
    explain,
    feed_list,
    feed_page,
    follow_feed,
    home,
    learned,
    library,
    reading,
    reference,
    resolve,
    rules,
    settings,
    sign_in,
    tour,
    webhook_page,
)
from canonry.server.pages.problem_pages import ProblemPages

if TYPE_CHECKING:
    from starlette.types import Scope

TOPICS = (
    home,
    reading,
    feed_list,
    follow_feed,
    webhook_page,
    feed_page,  # after the others: its paths have an id where theirs have a word
    library,
    bookmarks,
    duplicates,
    exchange,
    explain,
    resolve,
    canonicalize,
    crawls,
    admin,
    learned,
    account,
    settings,
    sign_in,
    about,
    tour,
    reference,
    rules,
)


class _CachedStaticFiles(StaticFiles):
    """Static files, cached for a day: their URLs contain the version."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "max-age=86400"
        return response


def add_pages(app: FastAPI) -> None:
    """Add the pages; call it after all other middleware, so that refused requests get pages as well."""
    for topic in TOPICS:
        app.include_router(topic.router)
    app.mount("/static", _CachedStaticFiles(directory=Path(__file__).parent / "static"), name="static")
    app.add_middleware(ProblemPages)
