"""FastAPI dependencies of API and pages: the service, the owner of a request, admin rights, row ids."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request
from starlette.datastructures import URL

from canonry.server.problems import RequestRefused
from canonry.server.service import Service

RowId = Annotated[int, Path(ge=1, le=2**63 - 1)]
GroupId = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="The id of a group of duplicates.")]


def get_service(request: Request) -> Service:
    """Return the service the application was made with."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


def get_public_url(request: Request) -> URL:
    """Return the URL of a request as the client has sent it, also if a proxy has removed the root path."""
    return request.url.replace(path=get_service(request).options.root_path + request.url.path)


def get_owner_id(request: Request) -> int:
    """Return the id of the user whose bookmarks this request reads or writes."""
    return int(request.state.user.id)


def require_admin(request: Request) -> None:
    """Raise RequestRefused (403) unless the user is an admin."""
    if not request.state.user.is_admin:
        raise RequestRefused(403, "Only admins may do this.")
