"""The API reference as a page, from the OpenAPI description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response

from canonry.server.pages.forms import page_router
from canonry.server.pages.rendering import render

router = page_router()


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a request."""

    name: str
    place: str
    is_required: bool
    kind: str
    description: str


@dataclass(frozen=True, slots=True)
class OperationResponse:
    """A possible response."""

    status: str
    description: str
    kinds: tuple[tuple[str, str], ...]  # media type and schema


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    summary: str
    description: str
    parameters: tuple[Parameter, ...]
    body: tuple[tuple[str, str], ...]
    responses: tuple[OperationResponse, ...]


# Sessions are not accepted under /api/, so people who are signed in find the same page at /reference.
@router.get("/reference")
@router.get("/api/docs")
async def show_reference(request: Request) -> Response:
    schema: dict[str, Any] = request.app.openapi()
    return render(request, "api.html", operations=list_operations(schema), about=schema["info"].get("description", ""))


def list_operations(schema: dict[str, Any]) -> list[Operation]:
    """Return every operation of an OpenAPI description, in its order."""
    return [
        Operation(
            method.upper(),
            path,
            operation.get("summary", ""),
            operation.get("description", ""),
            tuple(_parse_parameter(each) for each in operation.get("parameters", ())),
            _list_kinds(operation.get("requestBody", {})),
            tuple(
                OperationResponse(status, answer.get("description", ""), _list_kinds(answer))
                for status, answer in operation.get("responses", {}).items()
            ),
        )
        for path, item in schema["paths"].items()
        for method, operation in item.items()
    ]


def _parse_parameter(found: dict[str, Any]) -> Parameter:
    kind = _describe_kind(found.get("schema", {}))
    return Parameter(found["name"], found["in"], bool(found.get("required")), kind, found.get("description", ""))


def _list_kinds(found: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (media_type, _describe_kind(each.get("schema", {}))) for media_type, each in found.get("content", {}).items()
    )


def _describe_kind(schema: dict[str, Any]) -> str:
    """Describe a schema in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_describe_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_describe_kind(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))
