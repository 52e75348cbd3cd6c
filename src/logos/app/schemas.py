"""The JSON Schemas that Logos publishes, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logos.adapters.hosts.script import Script
from logos.adapters.reports import report_schemas
from logos.app.setting_sources import json_schema
from logos.app.telos_file import telos_schema
from logos.errors import UsageError
from logos.views.build_state import state_schema
from logos.views.document import output_schema


def script_schema() -> dict[str, Any]:
    schema = Script.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Logos script"}


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "config": json_schema,
    "script": script_schema,
    "state": state_schema,
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
