"""The API reference as a page, from the OpenAPI description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response

from canonry.server.pages.forms import page_router
from canonry.server.pages.rendering import render

router = page_router()
_ANCHOR = str.maketrans("/{}_.", "-----")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a request."""

    name: str
    place: str
    is_required: bool
    kind: str
    description: str


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A field of a body or an answer."""

    name: str
    kind: str
    is_required: bool
    description: str


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """A kind of value, with its fields; `id` is its anchor on the page."""

    name: str
    description: str
    fields: tuple[SchemaField, ...] = ()
    values: tuple[str, ...] = ()  # of which it is one

    @property
    def id(self) -> str:
        return f"schema-{self.name}"


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
    topic: str = ""

    @property
    def id(self) -> str:
        """The anchor of the operation: it stays the same when others are added."""
        return f"{self.method}{self.path}".lower().translate(_ANCHOR)


# Sessions are not accepted under /api/, so people who are signed in find the same page at /reference.
@router.get("/reference")
@router.get("/api/docs")
async def show_reference(request: Request) -> Response:
    schema: dict[str, Any] = request.app.openapi()
    operations = list_operations(schema)
    topics: dict[str, list[Operation]] = {}
    for operation in operations:
        topics.setdefault(operation.topic, []).append(operation)
    schemas = list_schemas(schema)
    return render(
        request,
        "api.html",
        topics=topics,
        schemas=schemas,
        schema_names={each.name for each in schemas},
        about=schema["info"].get("description", ""),
    )


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
            next(iter(operation.get("tags", ())), "other"),
        )
        for path, item in schema["paths"].items()
        for method, operation in item.items()
    ]


def list_schemas(schema: dict[str, Any]) -> list[SchemaEntry]:
    """Return every kind of value that has fields or is one of a few values, by name."""
    return [
        SchemaEntry(
            name,
            found.get("description", ""),
            tuple(
                SchemaField(
                    field, _describe_kind(each), field in found.get("required", ()), each.get("description", "")
                )
                for field, each in found.get("properties", {}).items()
            ),
            tuple(map(str, found.get("enum", ()))),
        )
        for name, found in sorted(schema["components"]["schemas"].items())
        if found.get("properties") or found.get("enum")
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
