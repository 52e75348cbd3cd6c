"""The JSON Schema of what commands print with `--json`."""

from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from logos.views.document import (
    CompareDocument,
    CostDocument,
    EventsDocument,
    NoRunDocument,
    ReportDocument,
    ResultDocument,
    RunsDocument,
    SessionsDocument,
    StatusDocument,
    TimelineDocument,
    TurnTextDocument,
)
from logos.views.proof_document import CertificateDocument, ExportedDocument, RepeatedDocument

DOCUMENTS: dict[str, Any] = {
    "logos run, build, resume": ResultDocument,
    "logos status": StatusDocument,
    "logos status, before the first run": NoRunDocument,
    "logos runs": RunsDocument,
    "logos show RUN": TimelineDocument,
    "logos show RUN TURN": TurnTextDocument,
    "logos log": EventsDocument,
    "logos cost": CostDocument,
    "logos report": ReportDocument,
    "logos sessions": SessionsDocument,
    "logos compare": CompareDocument,
    "logos proof": CertificateDocument,
    "logos proof --again": RepeatedDocument,
    "logos proof --export": ExportedDocument,
}

_MODE: JsonSchemaMode = "serialization"


def output_schema() -> dict[str, Any]:
    """One definition per document; `anyOf` says which command prints which."""
    inputs: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        (command, _MODE, TypeAdapter(shape)) for command, shape in DOCUMENTS.items()
    ]
    refs, schema = TypeAdapter.json_schemas(inputs)
    for definition in schema["$defs"].values():
        for field in definition["properties"].values():
            field.pop("default", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Logos output",
        "description": "The documents that commands print with --json. Fields may be added without a new version.",
        "anyOf": [{"title": command, **refs[command, _MODE]} for command in DOCUMENTS],
        "$defs": schema["$defs"],
    }
