"""Errors as problem documents (RFC 9457): what is wrong, in which field, and the id of the request."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from canonry.errors import (
    AlreadySaved,
    BookmarkNotFound,
    CanonryError,
    CrawlNotFound,
    DuplicatesNotFound,
    EtagMismatch,
    FeedNotFound,
    FetchFailed,
    ImportNotFound,
    InvalidFields,
    InvalidUrl,
    MergeNotFound,
    NotAFeed,
    PolicyError,
    RekeyNotFound,
    StoreError,
    UndoConflict,
    UnsafeUrl,
    mask_credentials,
)
from canonry.feeds.canonicalize.result import Candidate, CandidateVerdict, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import FastAPI, Request

MEDIA_TYPE = "application/problem+json"
_SCHEMAS = "#/components/schemas/"


class FieldError(BaseModel):
    """A field that cannot be used."""

    field: str
    reason: str


class CandidateOut(BaseModel):
    """A URL that was put to the test; `milliseconds` is 0 where no request was needed."""

    model_config = ConfigDict(from_attributes=True)

    url: str
    source: Source
    preset: str | None
    score: float
    verdict: CandidateVerdict
    reason: str
    milliseconds: int


class Problem(BaseModel):
    """Why a request was not carried out."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[FieldError] = Field(default_factory=list[FieldError])
    bookmark_id: int | None = Field(None, description="The bookmark that is in the way.")
    candidates: list[CandidateOut] = Field(
        default_factory=list[CandidateOut], description="What was tried in the search for a feed."
    )
    request_id: str = ""


class Refused(CanonryError):
    """A request that is not carried out, with its status and headers."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers or {}


STATUSES: dict[type[Exception], int] = {
    AlreadySaved: 409,
    UndoConflict: 409,
    EtagMismatch: 412,
    FetchFailed: 424,  # a URL that does not answer is no failure of ours: monitors look at 5xx
    BookmarkNotFound: 404,
    CrawlNotFound: 404,
    DuplicatesNotFound: 404,
    MergeNotFound: 404,
    ImportNotFound: 404,
    RekeyNotFound: 404,
    FeedNotFound: 404,
    NotAFeed: 422,
    PolicyError: 400,
    StoreError: 503,
    UnsafeUrl: 400,
}


def said(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route may answer besides success, for its description.

    The schema is named, not given as a model: FastAPI would prepare to write it, once for every status and route.
    """
    content = {MEDIA_TYPE: {"schema": {"$ref": f"{_SCHEMAS}Problem"}}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


def schemas() -> dict[str, Any]:
    """The schemas of what `said` describes, by name."""
    described = Problem.model_json_schema(mode="serialization", ref_template=_SCHEMAS + "{model}")
    return {**described.pop("$defs"), "Problem": described}


def problem(
    status: int,
    detail: str,
    *,
    request_id: str = "",
    errors: Sequence[FieldError] = (),
    headers: dict[str, str] | None = None,
    bookmark_id: int | None = None,
    candidates: Sequence[Candidate] = (),
) -> JSONResponse:
    """An answer that says what is wrong."""
    told = Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=mask_credentials(detail).encode(errors="replace").decode(),
        errors=list(errors),
        bookmark_id=bookmark_id,
        candidates=[_shown(each) for each in candidates],
        request_id=request_id,
    )
    return JSONResponse(told.model_dump(), status, headers, MEDIA_TYPE)


def problem_of(error: Exception, request_id: str = "") -> JSONResponse:
    """The problem document of an exception of ours."""
    if isinstance(error, Refused):
        return problem(error.status, error.detail, request_id=request_id, headers=error.headers)
    if isinstance(error, InvalidUrl):
        errors = [FieldError(field="url", reason=error.reason)]
        return problem(400, f"not a usable URL: {error.reason}", request_id=request_id, errors=errors)
    if isinstance(error, InvalidFields):
        errors = [FieldError(field=field, reason=reason) for field, reason in error.reasons.items()]
        return problem(400, "some fields cannot be kept", request_id=request_id, errors=errors)
    status = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 400)
    other = error.bookmark_id if isinstance(error, AlreadySaved) else None
    tried: tuple[Candidate, ...] = getattr(error, "tried", ())
    return problem(status, str(error), request_id=request_id, bookmark_id=other, candidates=tried)


def add_handlers(app: FastAPI) -> None:
    """Have every error answered with a problem document."""

    async def ours(request: Request, error: Exception) -> JSONResponse:
        return problem_of(error, _id(request))

    async def validation(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        errors = [
            FieldError(field="body" if each["type"] == "json_invalid" else _place(each["loc"]), reason=str(each["msg"]))
            for each in error.errors()
        ]
        return problem(400, "the request is not what this route takes", request_id=_id(request), errors=errors)

    async def plain(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        if isinstance(error.__cause__, Refused):  # while the body was read, which FastAPI calls a 400
            return problem_of(error.__cause__, _id(request))
        headers = dict(error.headers) if error.headers else {}
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            headers |= _allowed(request)
        return problem(error.status_code, str(error.detail), request_id=_id(request), headers=headers)

    app.add_exception_handler(CanonryError, ours)
    app.add_exception_handler(RequestValidationError, validation)
    app.add_exception_handler(HTTPException, plain)


def _shown(candidate: Candidate) -> CandidateOut:
    return CandidateOut.model_validate(replace(candidate, url=mask_credentials(candidate.url)))


def _allowed(request: Request) -> dict[str, str]:
    """All methods of a path: Starlette names those of its first route."""
    path = getattr(request.scope.get("route"), "path", "")
    methods = request.app.openapi()["paths"].get(path, {})
    return {"Allow": ", ".join(sorted(method.upper() for method in methods))} if methods else {}


def _id(request: Request) -> str:
    return str(request.scope.get("state", {}).get("request_id", ""))


def _place(where: Sequence[Any]) -> str:
    """`("body", "archive_urls", 1)` → `archive_urls[1]`."""
    text = ""
    for part in where[1:] or where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text.encode(errors="replace").decode()
