"""Read forms, and accept only our own: they carry the CSRF token of the browser's cookie (contract B6)."""

from __future__ import annotations

import hmac
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse

from canonry.server.pages.rendering import CSRF_COOKIE, CSRF_FIELD
from canonry.server.problems import RequestRefused

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails
    from starlette.datastructures import FormData, UploadFile


async def require_csrf_token(request: Request) -> AsyncGenerator[None]:
    """Raise RequestRefused (403) for a write without our CSRF token; uploaded files stay open until the response."""
    if request.method in {"GET", "HEAD"}:
        yield
        return
    wanted = request.cookies.get(CSRF_COOKIE, "")
    async with request.form() as form:
        if not wanted or not hmac.compare_digest(wanted.encode(), get_text(form, CSRF_FIELD).encode()):
            raise RequestRefused(403, "This form has expired or is not ours. Reload the page and send it again.")
        yield


def page_router() -> APIRouter:
    """Return a router for pages; all of its writes require the CSRF token."""
    return APIRouter(include_in_schema=False, dependencies=[Depends(require_csrf_token)])


def get_text(form: FormData, name: str) -> str:
    """Return the text of a field; empty if it is missing or a file."""
    value = form.get(name)
    return value if isinstance(value, str) else ""


def get_file(form: FormData, name: str) -> UploadFile | None:
    """Return the file of a field; None if no file was chosen."""
    value = form.get(name)
    return None if value is None or isinstance(value, str) or not value.filename else value


def explain_invalid(error: ErrorDetails) -> str:
    """Return what to change about an invalid field; pydantic describes it for programs."""
    limits: dict[str, float] = error.get("ctx", {})
    match error["type"]:
        case "int_parsing":
            return "Enter a whole number."
        case "float_parsing" | "finite_number":
            return "Enter a number."
        case "greater_than_equal":
            return f"Enter at least {limits['ge']:,}."
        case "less_than_equal":
            return f"Enter at most {limits['le']:,}."
        case "string_too_long":
            return f"Too long: enter at most {limits['max_length']:,} characters."
        case "too_long":
            return f"Too many: enter at most {limits['max_length']:,}."
        case _:
            return error["msg"]


def choose_own_path(path: str, default: str = "/") -> str:
    """Return a page to go to that a request names; anything but a path of this service becomes the default."""
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_ours else default


def redirect(path: str) -> RedirectResponse:
    """Return the redirect after a write."""
    return RedirectResponse(path, 303)
