"""What forms send: only our own forms, which carry the token of the browser's cookie (contract B6)."""

from __future__ import annotations

import hmac
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse

from canonry.server.pages.rendering import CSRF_COOKIE, CSRF_FIELD
from canonry.server.problems import RequestRefused

if TYPE_CHECKING:
    from starlette.datastructures import FormData, UploadFile


async def require_own_form(request: Request) -> AsyncGenerator[None]:
    """RequestRefused for a write that no form of ours has sent; what it sent is open until it is answered."""
    if request.method in {"GET", "HEAD"}:
        yield
        return
    wanted = request.cookies.get(CSRF_COOKIE, "")
    async with request.form() as form:
        if not wanted or not hmac.compare_digest(wanted.encode(), text_of(form, CSRF_FIELD).encode()):
            raise RequestRefused(
                403, "this form is not one of ours, or it is too old: open the page again, and send it there"
            )
        yield


def page_router() -> APIRouter:
    """A router for pages: none of its writes goes without the token."""
    return APIRouter(include_in_schema=False, dependencies=[Depends(require_own_form)])


def text_of(form: FormData, name: str) -> str:
    """The text of a field; empty where there is none, or a file."""
    value = form.get(name)
    return value if isinstance(value, str) else ""


def file_of(form: FormData, name: str) -> UploadFile | None:
    """The file of a field, where one was chosen."""
    value = form.get(name)
    return None if value is None or isinstance(value, str) or not value.filename else value


def see(path: str) -> RedirectResponse:
    """After a write: go on there."""
    return RedirectResponse(path, 303)
