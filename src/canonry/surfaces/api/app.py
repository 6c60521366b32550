"""The application: routes, the door in front of them, and the service behind."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

import canonry
from canonry.surfaces.api import bookmarks
from canonry.surfaces.api.access import Access
from canonry.surfaces.api.problems import add_handlers, said

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import ASGIApp

    from canonry.surfaces.api.service import Service

_COMMON = said(400, 401, 403, 413, 415, 421, 429, 503)


def make_app(service: Service) -> ASGIApp:
    """The service as an ASGI application; it opens the service when it starts, and closes it when it ends."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with service:
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
    )
    app.state.service = service
    for router in (bookmarks.router,):
        app.include_router(router, responses=_COMMON)
    add_handlers(app)
    _describe_as_it_is(app)
    app.add_middleware(Access, service=service)
    return app


def _describe_as_it_is(app: FastAPI) -> None:
    """FastAPI describes a 422 for wrong requests; ours is a 400 with a problem document."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = described()
            for path in schema["paths"].values():
                for operation in path.values():
                    operation.get("responses", {}).pop("422", None)
                    operation["security"] = [{"token": []}]
            schemes = {"token": {"type": "http", "scheme": "bearer"}}
            schema.setdefault("components", {})["securitySchemes"] = schemes
            for unused in ("HTTPValidationError", "ValidationError"):
                schema["components"].get("schemas", {}).pop(unused, None)
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
