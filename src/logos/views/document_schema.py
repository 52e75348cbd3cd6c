"""The JSON Schema of the documents that commands print with `--json`."""

from __future__ import annotations

from typing import Any, get_type_hints

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from logos.views import document_shapes

_MODE: JsonSchemaMode = "serialization"


def output_schema() -> dict[str, Any]:
    """One definition per document; `anyOf` says which command prints which."""
    shapes: dict[str, Any] = document_shapes.DOCUMENTS
    inputs: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        (command, _MODE, TypeAdapter(shape)) for command, shape in shapes.items()
    ]
    refs, schema = TypeAdapter.json_schemas(inputs)
    definitions: dict[str, Any] = schema["$defs"]
    for name, definition in definitions.items():
        for field, text in _descriptions(name).items():
            definition["properties"][field]["description"] = text
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Logos output",
        "description": "The documents that commands print with --json. Fields may be added without a new version.",
        "anyOf": [{"title": command, **refs[command, _MODE]} for command in document_shapes.DOCUMENTS],
        "$defs": definitions,
    }


def _descriptions(name: str) -> dict[str, str]:
    """The texts that annotate the fields of a document."""
    hints = get_type_hints(getattr(document_shapes, name), include_extras=True)
    return {field: hint.__metadata__[0] for field, hint in hints.items() if hasattr(hint, "__metadata__")}
