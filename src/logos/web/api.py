"""The HTTP API that reads: the JSON documents of the command line, of every run and at every moment."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from logos.app.activity import activities
from logos.app.checkpoints import Checkpoint
from logos.app.diff import Diff
from logos.app.moments import Moment
from logos.app.runs import event_document
from logos.app.setting_sources import json_schema
from logos.app.workdir import wd_flag
from logos.views.document import (
    VERSION,
    TimelineDocument,
    TranscriptStepDocument,
    TurnDocument,
    UnreadableDocument,
    status_document,
)
from logos.views.proof_document import CertificateDocument
from logos.views.redact import redacted
from logos.views.status import next_command
from logos.web.asked import (
    diff_of,
    histories_of,
    moment_of,
    number_in,
    overview_of,
    place_of_run,
    proof_of,
    steps_of,
    turn_in,
)
from logos.web.offers import offers_of

# So many events at once, unless fewer are asked for.
MOST_EVENTS = 1000
# A longer patch is cut: the command line shows it whole.
LONGEST_PATCH = 2_000_000


def runs(request: Request) -> Response:
    overview = overview_of(request)
    head = {
        "version": VERSION,
        "wds": [str(place) for place in overview.places],
        "unreadable": [redacted(UnreadableDocument.of(run)) for run in overview.unreadable],
    }
    # The documents of the rows are text already.
    text = json.dumps(head).encode().removesuffix(b"}")
    return Response(text + b', "runs": [' + b",".join(row.document for row in overview.rows) + b"]}", media_type=JSON)


JSON = "application/json"


def run(request: Request) -> dict[str, Any]:
    return moment_document(moment_of(request))


def moment_document(moment: Moment) -> dict[str, Any]:
    does = activities(moment.status) if moment.is_now else {}
    document = status_document(moment.status, next_command(moment.status, wd_flag(moment.place)), does)
    past = {} if moment.is_now else {"driver_pid": None}
    verbs = [asdict(offer) for offer in offers_of(moment)]
    return {**document, **past, "at_event": moment.seq, "newest_event": moment.last, "verbs": verbs}


def turns(request: Request) -> dict[str, Any]:
    return TimelineDocument.of(moment_of(request).status)


def turn(request: Request) -> dict[str, Any]:
    moment = moment_of(request)
    found = turn_in(moment, request.path_params["turn"])
    done, _ = steps_of(moment, found)
    steps = [TranscriptStepDocument.of(step) for step in done.steps] if done is not None else None
    texts = {"prompt": found.prompt, "response": found.response, "steps": steps}
    return {"version": VERSION, "run": moment.view.run, **TurnDocument.of(found), **texts}


def events_document(request: Request) -> Response:
    place, name = place_of_run(request)
    first, most = number_in(request, "from") or 1, number_in(request, "limit") or MOST_EVENTS
    history = histories_of(request).known(place, name).history
    records = history.records(first, first + min(most, MOST_EVENTS) - 1)
    events = [event_document(record) for record in records]
    return JSONResponse(redacted({"version": VERSION, "run": name, "events": events}))


def diff(request: Request) -> dict[str, Any]:
    return diff_document(diff_of(moment_of(request), request))


def diff_document(found: Diff) -> dict[str, Any]:
    turns = None if found.turns is None else [TurnDocument.of(turn) for turn in found.turns]
    kept = not found.missing
    patch = found.patch_text() if kept else None
    return {
        "version": VERSION,
        "one": _side(found.one),
        "other": _side(found.other),
        "timeline": turns,
        "files": [asdict(file) for file in found.files()] if kept else None,
        "patch": patch[:LONGEST_PATCH] if patch is not None else None,
        "patch_characters": len(patch) if patch is not None else None,
    }


def _side(side: Checkpoint) -> dict[str, Any]:
    event, not_kept = None if side.now else side.seq, None if side.commit else side.why_not_kept
    return {
        "run": side.run,
        "event": event,
        "commit": side.commit or None,
        "wd": str(side.place),
        "not_kept": not_kept,
    }


def proof(request: Request) -> dict[str, Any]:
    return CertificateDocument.of(proof_of(moment_of(request)))


def settings_schema(_: Request) -> dict[str, Any]:
    return json_schema()


def _json(answer: Callable[[Request], dict[str, Any]]) -> Callable[[Request], Response]:
    """Texts of agents are redacted, as on the command line."""

    def endpoint(request: Request) -> Response:
        return JSONResponse(redacted(answer(request)))

    return endpoint


ROUTES = [
    Route("/api/runs", runs, methods=["GET"]),
    Route("/api/settings-schema", _json(settings_schema), methods=["GET"]),
    Route("/api/runs/{run}", _json(run), methods=["GET"]),
    Route("/api/runs/{run}/turns", _json(turns), methods=["GET"]),
    Route("/api/runs/{run}/turns/{turn}", _json(turn), methods=["GET"]),
    Route("/api/runs/{run}/diff", _json(diff), methods=["GET"]),
    Route("/api/runs/{run}/proof", _json(proof), methods=["GET"]),
]
