"""The API as a page, from its own OpenAPI description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response

from canonry.server.pages.forms import page_router
from canonry.server.pages.rendering import render

router = page_router()


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a request may say, and where."""

    name: str
    place: str
    is_required: bool
    kind: str
    said: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What may come back."""

    status: str
    said: str
    kinds: tuple[tuple[str, str], ...]  # media type and schema


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    summary: str
    said: str
    parameters: tuple[Parameter, ...]
    body: tuple[tuple[str, str], ...]
    answers: tuple[Answer, ...]


# A session does not open what is under /api/, so people who sign in find the same page here.
@router.get("/reference")
@router.get("/api/docs")
async def api_docs(request: Request) -> Response:
    schema: dict[str, Any] = request.app.openapi()
    return render(request, "api.html", operations=operations_of(schema), about=schema["info"].get("description", ""))


def operations_of(schema: dict[str, Any]) -> list[Operation]:
    """Every operation of an OpenAPI description, in its order."""
    return [
        Operation(
            method.upper(),
            path,
            operation.get("summary", ""),
            operation.get("description", ""),
            tuple(_parameter(each) for each in operation.get("parameters", ())),
            _kinds(operation.get("requestBody", {})),
            tuple(
                Answer(status, answer.get("description", ""), _kinds(answer))
                for status, answer in operation.get("responses", {}).items()
            ),
        )
        for path, item in schema["paths"].items()
        for method, operation in item.items()
    ]


def _parameter(found: dict[str, Any]) -> Parameter:
    kind = _kind(found.get("schema", {}))
    return Parameter(found["name"], found["in"], bool(found.get("required")), kind, found.get("description", ""))


def _kinds(found: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((media_type, _kind(each.get("schema", {}))) for media_type, each in found.get("content", {}).items())


def _kind(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))
