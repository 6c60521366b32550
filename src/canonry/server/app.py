"""The application: routes, the door in front of them, and the service behind."""

from __future__ import annotations

import gc
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

import canonry
from canonry.server import metrics as operating
from canonry.server.access import Access, Limits
from canonry.server.api import admin, bookmarks, crawls, duplicates, exchange, feeds, pinboard, tools
from canonry.server.pages.pages import add_pages
from canonry.server.problems import add_handlers, said, schemas
from canonry.server.request_log import Watch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import ASGIApp

    from canonry.server.service import Service

_COMMON = said(400, 401, 403, 413, 415, 421, 429, 503)
_ROUTERS = (
    bookmarks.router,
    tools.router,
    duplicates.router,
    feeds.router,
    crawls.router,
    exchange.router,
    admin.router,
    operating.router,
    pinboard.router,
)
_SCHEMES = {
    "token": {"type": "http", "scheme": "bearer", "description": "Needed where the service has users."},
    "auth_token": {"type": "apiKey", "in": "query", "name": "auth_token", "description": "NAME:TOKEN"},
}


def make_app(service: Service, *, owns_process: bool = False) -> ASGIApp:
    """The service as an ASGI application; it opens the service when it starts, and closes it when it ends."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with service:
            if owns_process:
                # What is there now stays; looking for garbage in it again and again would stop all requests meanwhile.
                gc.collect()
                gc.freeze()
            yield

    app = FastAPI(
        title="canonry",
        version=canonry.__version__,
        description="Bookmarks that are kept once, and the answers of canonry, over HTTP.",
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
        # It would tell others whole URLs with their tokens; /metrics and the log have what may be told.
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
    )
    app.state.service = service
    app.state.pinboard_limits = Limits(service.options.requests_per_minute)
    for router in _ROUTERS:
        app.include_router(router, responses=_COMMON)
    add_handlers(app)
    _describe_as_it_is(app)
    app.add_middleware(Access, service=service)
    app.add_middleware(Watch, service=service)  # the last one added is the first one asked
    add_pages(app)
    return app


def _describe_as_it_is(app: FastAPI) -> None:
    """FastAPI describes a 422 for wrong requests; ours is a 400, and every error a problem document."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = described()
            for path in schema["paths"].values():
                for operation in path.values():
                    if "application/json" in operation["responses"].get("422", {}).get("content", ()):
                        del operation["responses"]["422"]
                    operation.setdefault("security", [{"token": []}, {}])
            components = schema["components"]
            components["securitySchemes"] = _SCHEMES
            for unused in ("HTTPValidationError", "ValidationError"):
                components["schemas"].pop(unused, None)
            components["schemas"].update(schemas())
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
