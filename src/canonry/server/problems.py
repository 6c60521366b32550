"""Errors as problem documents (RFC 9457): what is wrong, in which field, and the id of the request."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import Field, TypeAdapter
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from canonry.accounts import AccountError
from canonry.errors import (
    AlreadySaved,
    BookmarkNotFound,
    BulkEditNotFound,
    CanonryError,
    ChangesLost,
    CrawlNotFound,
    DuplicatesNotFound,
    EtagMismatch,
    FeedNotFound,
    FetchFailed,
    ImportNotFound,
    InvalidFields,
    InvalidUrl,
    LearnedRuleConflict,
    LearnedRuleNotFound,
    MergeNotFound,
    NotAFeed,
    PolicyError,
    RekeyNotFound,
    RekeyUnfinished,
    StoreError,
    TokenNotFound,
    UndoConflict,
    UnsafeUrl,
    WebhookNotFound,
    mask_credentials,
)
from canonry.evidence.resolved import PageCandidate
from canonry.feeds.canonicalize.result import Candidate
from canonry.rekey.entry_rekey_store import RekeyRefused
from canonry.server.paths import answers_head, is_api

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import FastAPI, Request

_log = logging.getLogger("canonry.service")
MEDIA_TYPE = "application/problem+json"
_SCHEMAS = "#/components/schemas/"
_UNTYPED = "about:blank"  # RFC 9457: the status says everything there is to know
_TYPE_PREFIX = "urn:canonry:problem:"
_PAGE_METHODS = ("GET", "POST")


class ProblemKind(NamedTuple):
    """The HTTP status of an error class, and the stable name that ends the `type` of its problem documents."""

    status: int
    code: str

    @property
    def type(self) -> str:
        return f"{_TYPE_PREFIX}{self.code}"


# Subclasses come before their bases: the first class that matches counts.
PROBLEM_KINDS: dict[type[CanonryError], ProblemKind] = {
    InvalidUrl: ProblemKind(400, "invalid-url"),
    UnsafeUrl: ProblemKind(400, "unsafe-url"),
    InvalidFields: ProblemKind(400, "invalid-fields"),
    PolicyError: ProblemKind(400, "invalid-policy"),
    BookmarkNotFound: ProblemKind(404, "bookmark-not-found"),
    CrawlNotFound: ProblemKind(404, "crawl-not-found"),
    DuplicatesNotFound: ProblemKind(404, "duplicates-not-found"),
    LearnedRuleConflict: ProblemKind(409, "learned-rule-conflict"),
    LearnedRuleNotFound: ProblemKind(404, "learned-rule-not-found"),
    MergeNotFound: ProblemKind(404, "merge-not-found"),
    TokenNotFound: ProblemKind(404, "token-not-found"),
    BulkEditNotFound: ProblemKind(404, "bulk-edit-not-found"),
    ImportNotFound: ProblemKind(404, "import-not-found"),
    RekeyNotFound: ProblemKind(404, "rekey-not-found"),
    FeedNotFound: ProblemKind(404, "feed-not-found"),
    WebhookNotFound: ProblemKind(404, "webhook-not-found"),
    AlreadySaved: ProblemKind(409, "already-saved"),
    UndoConflict: ProblemKind(409, "undo-conflict"),
    ChangesLost: ProblemKind(410, "changes-lost"),
    EtagMismatch: ProblemKind(412, "etag-mismatch"),
    NotAFeed: ProblemKind(422, "not-a-feed"),
    FetchFailed: ProblemKind(424, "fetch-failed"),  # not a 5xx: those alert operators, and the fault is not ours
    StoreError: ProblemKind(503, "store-unavailable"),
    CanonryError: ProblemKind(400, "error"),
}
# Errors of the store that name no file, address or statement.
_PUBLIC_STORE_ERRORS = (AccountError, RekeyRefused, RekeyUnfinished)
_STORE_UNAVAILABLE = "The store cannot be used now. Try again later. The log has the details under this request id."
_INVALID_REQUEST = ProblemKind(400, "invalid-request")


@dataclass(frozen=True, slots=True)
class FieldError:
    """A field with an invalid value."""

    field: str
    reason: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request failed."""

    title: str
    status: int
    detail: str
    type: str = _UNTYPED
    errors: tuple[FieldError, ...] = ()
    bookmark_id: Annotated[int | None, Field(description="The existing bookmark with this URL or page.")] = None
    candidates: Annotated[
        tuple[Candidate | PageCandidate, ...],
        Field(description="URLs that were tested in the search for a feed or page."),
    ] = ()
    continue_after: Annotated[int | None, Field(description="The number of a change after which to go on.")] = None
    request_id: str = ""


class RequestRefused(CanonryError):
    """A request that must not go on, with the status and headers of the response."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None, *, code: str = "") -> None:
        """`code` ends the `type` of the problem document, for refusals that programs must tell apart."""
        super().__init__(detail)
        self.code = code
        self.status = status
        self.detail = detail
        self.headers = headers or {}


def describe_problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route that may fail with these statuses, for its OpenAPI description.

    The schema is referenced, not given as a model: FastAPI would build a serializer for every status and route.
    """
    content = {MEDIA_TYPE: {"schema": {"$ref": f"{_SCHEMAS}Problem"}}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


def make_problem_schemas() -> dict[str, Any]:
    """Return the schemas that `describe_problems` references, by name."""
    schema = _PROBLEM.json_schema(mode="serialization", ref_template=_SCHEMAS + "{model}")
    return {**schema.pop("$defs"), "Problem": schema}


def make_problem(
    status: int,
    detail: str,
    *,
    problem_type: str = _UNTYPED,
    request_id: str = "",
    errors: Sequence[FieldError] = (),
    headers: dict[str, str] | None = None,
    bookmark_id: int | None = None,
    candidates: Sequence[Candidate | PageCandidate] = (),
    continue_after: int | None = None,
) -> JSONResponse:
    """Return a problem document as a response; user names and passwords in it are masked."""
    problem = Problem(
        type=problem_type,
        title=HTTPStatus(status).phrase,
        status=status,
        detail=mask_credentials(detail).encode(errors="replace").decode(),  # a lone surrogate is not JSON
        errors=tuple(replace(each, reason=mask_credentials(each.reason)) for each in errors),
        bookmark_id=bookmark_id,
        candidates=tuple(replace(each, url=mask_credentials(each.url)) for each in candidates),
        continue_after=continue_after,
        request_id=request_id,
    )
    return JSONResponse(_PROBLEM.dump_python(problem, mode="json"), status, headers, MEDIA_TYPE)


def problem_for_error(error: Exception, request_id: str = "") -> JSONResponse:
    """Return the problem document for an error of canonry."""
    if isinstance(error, RequestRefused):
        problem_type = f"{_TYPE_PREFIX}{error.code}" if error.code else _UNTYPED
        return make_problem(
            error.status, error.detail, problem_type=problem_type, request_id=request_id, headers=error.headers
        )
    kind = next((kind for error_class, kind in PROBLEM_KINDS.items() if isinstance(error, error_class)))
    detail, errors = describe_error(error, request_id), list[FieldError]()
    if isinstance(error, InvalidUrl):
        detail, errors = f"Invalid URL: {error.reason}", [FieldError("url", error.reason)]
    elif isinstance(error, InvalidFields):
        detail, errors = "Some fields are invalid.", [FieldError(*each) for each in error.reasons.items()]
    return make_problem(
        kind.status,
        detail,
        problem_type=kind.type,
        request_id=request_id,
        errors=errors,
        bookmark_id=error.bookmark_id if isinstance(error, AlreadySaved) else None,
        candidates=getattr(error, "tried", ()),
        continue_after=error.continue_after if isinstance(error, ChangesLost) else None,
    )


def describe_error(error: Exception, request_id: str = "") -> str:
    """Return the sentence of an error for a client: no path of this machine and no SQL, which go to the log."""
    if isinstance(error, PolicyError):
        return ": ".join(part for part in (os.path.basename(error.file), error.place, error.reason) if part)
    if isinstance(error, StoreError) and not isinstance(error, _PUBLIC_STORE_ERRORS):
        _log.error("request %s: %s", request_id, error)
        return _STORE_UNAVAILABLE
    return str(error)


def add_error_handlers(app: FastAPI) -> None:
    """Answer every error with a problem document."""

    async def answer_canonry_error(request: Request, error: Exception) -> JSONResponse:
        return problem_for_error(error, _get_request_id(request))

    async def answer_invalid_request(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        errors = [
            FieldError("body" if each["type"] == "json_invalid" else format_location(each["loc"]), str(each["msg"]))
            for each in error.errors()
        ]
        return make_problem(
            _INVALID_REQUEST.status,
            "The request is invalid. See `errors` for the fields.",
            problem_type=_INVALID_REQUEST.type,
            request_id=_get_request_id(request),
            errors=errors,
        )

    async def answer_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if isinstance(error.__cause__, RequestRefused):  # raised while the body was read; FastAPI makes it a 400
            return problem_for_error(error.__cause__, _get_request_id(request))
        headers = dict(error.headers) if error.headers else {}
        detail = str(error.detail)
        if error.status_code == HTTPStatus.NOT_FOUND:  # of the router; unknown rows have errors of their own
            detail = "There is no page at this address."
            if is_api(request.scope["path"]):
                detail = "There is no endpoint at this address. The API is described at /api/docs."
        elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            detail = f"This address does not accept {request.method} requests."
            headers |= _find_allowed_methods(request)
            if request.method == "OPTIONS":
                return Response(status_code=HTTPStatus.NO_CONTENT, headers=headers)
        return make_problem(error.status_code, detail, request_id=_get_request_id(request), headers=headers)

    app.add_exception_handler(CanonryError, answer_canonry_error)
    app.add_exception_handler(RequestValidationError, answer_invalid_request)
    app.add_exception_handler(HTTPException, answer_http_error)


def format_location(location: Sequence[int | str]) -> str:
    """`("body", "archive_urls", 1)` → `archive_urls[1]`."""
    text = ""
    for part in location[1:] or location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text.encode(errors="replace").decode()


def _find_allowed_methods(request: Request) -> dict[str, str]:
    """Return an Allow header with all methods of a path: Starlette names only those of its first route."""
    app: FastAPI = request.app
    path = getattr(request.scope.get("route"), "path", "")
    found = [method.upper() for method in app.openapi()["paths"].get(path, ())]
    if not found:  # a page
        names = ("type", "path", "root_path", "headers", "query_string", "app")
        scope = {name: request.scope[name] for name in names}
        found = [
            method
            for method in _PAGE_METHODS
            if any(route.matches(scope | {"method": method})[0] is Match.FULL for route in app.router.routes)
        ]
    if "GET" in found and answers_head(request.scope["path"]):
        found.append("HEAD")
    return {"Allow": ", ".join(sorted(found))} if found else {}


def _get_request_id(request: Request) -> str:
    return str(request.scope.get("state", {}).get("request_id", ""))


_PROBLEM = TypeAdapter(Problem)
