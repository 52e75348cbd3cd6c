"""The pages: each route reads what it shows through app, and renders one template."""

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from logos.app.activity import activities
from logos.app.overview import Overview
from logos.app.setting_sources import json_schema
from logos.web.asked import diff_of, moment_of, overview_of, part_in, proof_of, steps_of, turn_in, whole_of
from logos.web.offers import verbs_of
from logos.web.render import render

Context = dict[str, Any]
Show = Callable[[Request], Context]


def runs_context(request: Request) -> Context:
    """`rows`: RunRow of every run, those that wait for a person first; `unreadable`, `places`; `search`, `state`."""
    overview: Overview = overview_of(request)
    return {
        "rows": overview.rows,
        "unreadable": overview.unreadable,
        "places": overview.places,
        "search": request.query_params.get("search", ""),
        "state": request.query_params.get("state", ""),
    }


def run_context(request: Request) -> Context:
    """`moment`: the run at an event; `whole`: with all events; `does`: what its agents do; `offers`: verbs that fit."""
    moment = moment_of(request)
    does = activities(moment.status) if moment.is_now else {}
    return {"moment": moment, "whole": whole_of(request), "does": does, "offers": verbs_of(moment)}


def turn_context(request: Request) -> Context:
    """`turn`: one turn with prompt and response; `transcript`: its steps, and `why_not` where none are kept."""
    moment = moment_of(request)
    turn = turn_in(moment, request.path_params["turn"])
    transcript, why_not = steps_of(moment, turn)
    return {"moment": moment, "turn": turn, "transcript": transcript, "why_not": why_not}


def diff_context(request: Request) -> Context:
    """`diff`: between the checkpoints `a` and `b` of the query; by default what the run did."""
    moment = moment_of(request)
    asked = {name: request.query_params.get(name, "") for name in ("a", "b")}
    return {"moment": moment, "whole": whole_of(request), "diff": diff_of(moment, request), **asked}


def proof_context(request: Request) -> Context:
    """`proof`: the certificate of the run."""
    moment = moment_of(request)
    return {"moment": moment, "proof": proof_of(moment)}


def start_context(request: Request) -> Context:
    """`places`: work dirs to start in; `schema`: the JSON Schema of the settings."""
    return {"places": overview_of(request).places, "schema": json_schema()}


def _page(show: Show, template: str) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        return render(request, template, **show(request))

    return endpoint


def _parts(show: Show) -> Callable[[Request], Response]:
    """A part of a page by its name, with what the whole page is given: templates/parts/NAME.html."""

    def endpoint(request: Request) -> Response:
        return render(request, part_in(request), **show(request))

    return endpoint


ROUTES = [
    Route("/", _page(runs_context, "runs.html")),
    Route("/parts/{part}", _parts(runs_context)),
    Route("/start", _page(start_context, "start.html")),
    Route("/runs/{run}", _page(run_context, "run.html")),
    Route("/runs/{run}/parts/{part}", _parts(run_context)),
    Route("/runs/{run}/build", _page(run_context, "build.html")),
    Route("/runs/{run}/turns/{turn}", _page(turn_context, "turn.html")),
    Route("/runs/{run}/turns/{turn}/parts/{part}", _parts(turn_context)),
    Route("/runs/{run}/diff", _page(diff_context, "diff.html")),
    Route("/runs/{run}/diff/parts/{part}", _parts(diff_context)),
    Route("/runs/{run}/proof", _page(proof_context, "proof.html")),
]
