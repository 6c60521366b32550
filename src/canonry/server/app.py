"""The ASGI application: routes, pages, and the middleware around them."""

from __future__ import annotations

import gc
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

import canonry
from canonry.errors import CanonryError
from canonry.server import metrics
from canonry.server.access import Access, RateLimiter
from canonry.server.api import (
    admin,
    bookmarks,
    changes,
    crawls,
    duplicates,
    exchange,
    feeds,
    google_reader,
    items,
    learned,
    pinboard,
    tools,
    websub,
)
from canonry.server.field_descriptions import add_field_descriptions
from canonry.server.head_requests import HeadRequests
from canonry.server.pages.routes import add_pages
from canonry.server.problems import add_error_handlers, describe_problems, make_problem_schemas
from canonry.server.request_log import RequestLog
from canonry.server.root_path import RootPath

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from canonry.server.service import Service

_COMMON_PROBLEMS = describe_problems(400, 401, 403, 413, 415, 421, 429, 503)
_ROUTERS = (
    bookmarks.router,
    tools.router,
    duplicates.router,
    feeds.router,
    changes.router,
    items.router,
    crawls.router,
    exchange.router,
    admin.router,
    learned.router,
    metrics.router,
    pinboard.router,
    google_reader.router,
    websub.router,
)
# Fields of dataclasses that are for Python callers only; no response has them.
_UNSERVED_FIELDS = {"Canonical": "data", "Page": "failure"}
_SECURITY_SCHEMES = {
    "token": {"type": "http", "scheme": "bearer", "description": "Required once the service has users."},
    "auth_token": {"type": "apiKey", "in": "query", "name": "auth_token", "description": "NAME:TOKEN"},
}


def make_app(service: Service, *, owns_process: bool = False) -> ASGIApp:
    """Return the ASGI application; its lifespan opens and closes the service.

    `owns_process` tunes the garbage collector of the process, which a test must not.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with service:
            if owns_process:
                # Objects made at start-up live as long as the process. Collections, which pause requests, skip them.
                gc.collect()
                gc.freeze()
            yield

    app = FastAPI(
        title="canonry",
        version=canonry.__version__,
        description="Bookmarks without duplicates, and canonry's answers about URLs, over HTTP.",
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        servers=[{"url": service.options.root_path}] if service.options.root_path else None,
        separate_input_output_schemas=False,
        # Traces would contain whole URLs with their tokens; /metrics and the log do not.
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
    )
    app.state.service = service
    app.state.pinboard_limits = RateLimiter(service.options.requests_per_minute, clock=service.monotonic)
    app.state.reader_limits = RateLimiter(service.options.requests_per_minute, clock=service.monotonic)
    for router in _ROUTERS:
        app.include_router(router, responses=_COMMON_PROBLEMS)
    add_error_handlers(app)
    _correct_openapi(app)
    app.add_middleware(HeadRequests)
    app.add_middleware(Access, service=service)
    app.add_middleware(RequestLog, service=service)  # added last, so it is the first to see a request
    app.add_middleware(_StartFailures, service=service)
    add_pages(app)
    return RootPath(app, service.options.root_path) if service.options.root_path else app


class _StartFailures:
    """Middleware: what keeps the service from starting, such as a wrong setting, is one line of the log.

    Starlette reports a traceback.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan" or self._service.options.debug:
            await self._app(scope, receive, send)
            return

        async def send_line(message: Message) -> None:
            error = self._service.start_error
            if message["type"] == "lifespan.startup.failed" and isinstance(error, CanonryError | OSError):
                message["message"] = str(error)
            await send(message)

        await self._app(scope, receive, send_line)


def _correct_openapi(app: FastAPI) -> None:
    """Describe errors as they are: FastAPI documents a 422 for invalid requests, we answer 400 with a problem."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = generate()
            for path in schema["paths"].values():
                for operation in path.values():
                    if "application/json" in operation["responses"].get("422", {}).get("content", ()):
                        del operation["responses"]["422"]
                    operation.setdefault("security", [{"token": []}, {}])
            components = schema["components"]
            components["securitySchemes"] = _SECURITY_SCHEMES
            for unused in ("HTTPValidationError", "ValidationError"):
                components["schemas"].pop(unused, None)
            components["schemas"].update(make_problem_schemas())
            for name, unserved in _UNSERVED_FIELDS.items():
                del components["schemas"][name]["properties"][unserved]
            add_field_descriptions(components["schemas"])
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
