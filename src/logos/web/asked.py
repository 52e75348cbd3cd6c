"""What a request asks for, read strictly: runs, events and turns by name."""

import re
from pathlib import Path

from starlette.requests import Request

from logos.app.activity import Transcript, transcript
from logos.app.certificate import certificate
from logos.app.diff import Diff, diff
from logos.app.histories import Histories
from logos.app.moments import Moment, moment_at
from logos.app.overview import Overview, Overviews
from logos.domain.turns import RunId
from logos.errors import LogosError, UsageError
from logos.views.proof import Certificate, certificate_of
from logos.views.turns import TurnView
from logos.web.errors import BadRequest, NotFound
from logos.web.render import is_template

_NUMBER = re.compile(r"\d{1,9}")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,40}")


def overview_of(request: Request) -> Overview:
    return request.app.state.overviews.look()


def histories_of(request: Request) -> Histories:
    return request.app.state.histories


def number_in(request: Request, name: str) -> int | None:
    """A number in the query; None without one."""
    text = request.query_params.get(name)
    if text is None or text == "":
        return None
    if not _NUMBER.fullmatch(text):
        raise BadRequest(f"{name}={text[:40]!r} is not a number")
    return int(text)


def place_of_run(request: Request) -> tuple[Path, RunId]:
    """The work dir of the run that the path names: the one that `wd` names, or of several copies the newest."""
    run = RunId(request.path_params["run"])
    return place_with(request, run), run


def place_with(request: Request, run: RunId) -> Path:
    overviews: Overviews = request.app.state.overviews
    wd = request.query_params.get("wd")
    place = next((place for place in overviews.places_of(run) if wd is None or str(place) == wd), None)
    if place is None:
        raise NotFound(f"there is no run {run[:80]!r}{f' in {wd[:200]}' if wd else ''}")
    return place


def moment_of(request: Request) -> Moment:
    """The run of the path, at the event `at` of the query, or now."""
    place, run = place_of_run(request)
    seq = number_in(request, "at")
    try:
        return moment_at(histories_of(request), place, run, seq)
    except UsageError as error:
        raise NotFound(str(error)) from error


def whole_of(request: Request) -> Moment:
    """The run with all its events, whatever moment is asked for."""
    place, run = place_of_run(request)
    return moment_at(histories_of(request), place, run)


def turn_in(moment: Moment, wanted: str) -> TurnView:
    found = next((turn for turn in moment.view.turns if turn.turn == wanted), None)
    if found is None:
        raise NotFound(f"run {moment.view.run} has no turn {wanted[:80]!r} at event {moment.seq}")
    return found


def diff_of(moment: Moment, request: Request) -> Diff:
    """The difference between the checkpoints `a` and `b` of the query; by default, what the run did."""
    a, b = request.query_params.get("a") or "", request.query_params.get("b") or None
    now = histories_of(request).known(moment.place, moment.view.run).history.now()
    return diff(f"{now.run}@{a}" if a else str(now.run), b, wd=moment.place, known=now)


def proof_of(moment: Moment) -> Certificate:
    """The certificate of a run; of its past, what the log tells."""
    if not moment.is_now:
        return certificate_of(moment.view)
    return certificate(moment.view.run, wd=moment.place, known=moment.view)


def steps_of(moment: Moment, turn: TurnView) -> tuple[Transcript | None, str]:
    """What the agent did in a turn, or why that is not known."""
    try:
        return transcript(moment.place, moment.view, turn), ""
    except LogosError as error:
        return None, str(error)


def part_in(request: Request) -> str:
    """The template of a part of a page."""
    name = f"parts/{request.path_params['part']}.html"
    if not _NAME.fullmatch(request.path_params["part"]) or not is_template(name):
        raise NotFound("there is no such part")
    return name
