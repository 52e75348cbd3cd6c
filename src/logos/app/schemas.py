"""The JSON Schemas that Logos publishes, by name."""

from collections.abc import Callable
from typing import Any

from logos.adapters.hosts.script import Script
from logos.adapters.reports import report_schemas
from logos.app.setting_sources import json_schema
from logos.app.telos_file import telos_schema
from logos.errors import UsageError
from logos.views.build_state import TelosState
from logos.views.output_schema import output_schema


def _published(schema: dict[str, Any], title: str) -> dict[str, Any]:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "config": json_schema,
    "script": lambda: _published(Script.model_json_schema(), "Logos script"),
    "state": lambda: _published(TelosState.model_json_schema(mode="serialization"), "Logos build state"),
    "telos": telos_schema,
    "output": output_schema,
}


def report_schema(kind: str) -> dict[str, Any]:
    """The schema of one kind of report, or of all of them, by kind."""
    schemas = report_schemas()
    if kind == "all":
        return dict(schemas)
    if kind not in schemas:
        raise UsageError(f"--report {kind}: unknown report; known: {', '.join(schemas)}, all")
    return schemas[kind]
