"""The OpenAPI document of the HTTP API, made from a table of its operations and the documents that they answer with."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from logos import __version__
from logos.views.document import EventsDocument, TimelineDocument, TurnTextDocument
from logos.views.proof_document import CertificateDocument
from logos.web.bodies import Body, StartBody
from logos.web.documents import (
    DeliveredDocument,
    DiffDocument,
    ErrorDocument,
    LinkDocument,
    MomentDocument,
    RunListDocument,
    SignedInDocument,
    WriteTokenDocument,
)
from logos.web.security import TOKEN_HEADER
from logos.web.verbs import VERBS

Json = dict[str, Any]
_ANSWERS: JsonSchemaMode = "serialization"
_BODIES: JsonSchemaMode = "validation"
AT = {"at": ("integer", "show the run as it was after this event"), "wd": ("string", "which copy of the run")}
WD = {"wd": AT["wd"]}
SIDES = {**AT, "a": ("string", "a checkpoint: an event's number, a turn's id"), "b": ("string", "another one")}
FOLLOWED = {"runs": ("string", "ids of runs"), "list": ("string", "1: also changes of the list"), **WD}
SLICE = {"from": ("integer", "the first event"), "limit": ("integer", "at most 1000"), **WD}
ERRORS = {400: "cannot be understood", 401: "no session", 403: "refused", 404: "not there", 409: "does not fit the run"}


@dataclass(frozen=True, slots=True)
class Operation:
    """`answer` is None for a stream or an answer without a body."""

    method: str
    path: str
    summary: str
    answer: Any = None
    body: type[Body] | None = None
    query: Mapping[str, tuple[str, str]] | None = None
    status: int = 200
    kind: str = "application/json"


_STREAM = "text/event-stream"
_EVENTS = "The events of a run; a client that accepts text/event-stream gets the stream"
OPERATIONS: tuple[Operation, ...] = (
    Operation("get", "/api/runs", "Every run of every work dir", RunListDocument),
    Operation("post", "/api/runs", "Start a run or a build in the background", DeliveredDocument, StartBody),
    Operation("get", "/api/runs/{run}", "A run, now or at one of its events", MomentDocument, query=AT),
    Operation("get", "/api/runs/{run}/turns", "Its turns", TimelineDocument, query=AT),
    Operation("get", "/api/runs/{run}/turns/{turn}", "A turn with its texts and steps", TurnTextDocument, query=AT),
    Operation("get", "/api/runs/{run}/events", _EVENTS, EventsDocument, query=SLICE),
    Operation("get", "/api/runs/{run}/events/stream", "Its events as they come", query=SLICE, kind=_STREAM),
    Operation("get", "/api/runs/{run}/diff", "What changed between two checkpoints", DiffDocument, query=SIDES),
    Operation("get", "/api/runs/{run}/proof", "What was proven of its result", CertificateDocument, query=AT),
    *(
        Operation("post", f"/api/runs/{{run}}/{name}", verb.body.__doc__ or name, DeliveredDocument, verb.body, WD)
        for name, verb in VERBS.items()
    ),
    Operation("get", "/api/stream", "What happens in several runs and in the list", query=FOLLOWED, kind=_STREAM),
    Operation("get", "/api/settings-schema", "The JSON Schema of the settings", Json),
    Operation("get", "/api/openapi.json", "This document", Json),
    Operation("get", "/api/session", "Whether there is a session", SignedInDocument),
    Operation("post", "/api/logout", "End the session", body=Body, status=204),
    Operation("post", "/api/rotate", "End every session and open a new one", WriteTokenDocument, Body),
    Operation("post", "/api/link", "A link for another browser, which works once", LinkDocument, Body),
)


@cache
def openapi() -> Json:
    models: dict[Any, JsonSchemaMode] = {ErrorDocument: _ANSWERS}
    for operation in OPERATIONS:
        models |= {operation.answer: _ANSWERS} if operation.answer is not None else {}
        models |= {operation.body: _BODIES} if operation.body is not None else {}
    inputs: list[tuple[Any, JsonSchemaMode, TypeAdapter[Any]]] = [
        (model, mode, TypeAdapter(model)) for model, mode in models.items()
    ]
    refs, schema = TypeAdapter[Any].json_schemas(inputs, ref_template="#/components/schemas/{model}")
    paths: dict[str, Json] = {}
    for operation in OPERATIONS:
        shapes = {model: refs[model, mode] for model, mode in models.items()}
        paths.setdefault(operation.path, {})[operation.method] = _described(operation, shapes)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Logos", "version": __version__, "description": "The page's own API. Fields may be added."},
        "security": [{"session": []}, {"program": []}],
        "paths": paths,
        "components": {"schemas": schema.get("$defs", {}), "securitySchemes": _SCHEMES},
    }


_SCHEMES = {
    "session": {"type": "apiKey", "in": "cookie", "name": "logos-PORT"},
    "program": {"type": "http", "scheme": "bearer"},
}


def _described(operation: Operation, shapes: Mapping[Any, Json]) -> Json:
    own: Json = {"description": operation.summary}
    if operation.kind != "application/json":
        own["content"] = {operation.kind: {"schema": {"type": "string"}}}
    elif operation.answer is not None:
        own["content"] = {"application/json": {"schema": shapes[operation.answer]}}
    error = {"application/json": {"schema": shapes[ErrorDocument]}}
    described: Json = {
        "summary": operation.summary,
        "parameters": _parameters(operation),
        "responses": {
            str(operation.status): own,
            **{str(status): {"description": why, "content": error} for status, why in ERRORS.items()},
        },
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": shapes[operation.body]}},
        }
    return described


def _parameters(operation: Operation) -> list[Json]:
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    path = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    query = [
        {"name": name, "in": "query", "description": about, "schema": {"type": kind}}
        for name, (kind, about) in (operation.query or {}).items()
    ]
    token = {"name": TOKEN_HEADER, "in": "header", "description": "with a session", "schema": {"type": "string"}}
    return [*path, *query, *([token] if operation.method == "post" else [])]


def document(_: Request) -> Response:
    return JSONResponse(openapi())


ROUTES = [Route("/api/openapi.json", document, methods=["GET"])]
