"""The HTTP API that acts: one POST per verb, through the same use cases as the command line."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from logos.app.detach import Detached, start_detached, stop
from logos.app.person import require_person
from logos.app.rollback import NewRun, fork, reset, rollback
from logos.app.start import newest_unfinished
from logos.app.steering import Delivered, answer, approve, grant, reject, say_to
from logos.app.workdir import driver_at
from logos.domain.plans import CyclePlan, LevelsPlan
from logos.domain.turns import RunId
from logos.errors import LogosError, UsageError
from logos.flows.fold import UNFINISHED
from logos.views.redact import redacted
from logos.views.run import SCRIPTED, RunView
from logos.web.asked import histories_of, overview_of, place_of_run
from logos.web.bodies import (
    AbandonBody,
    AnswerBody,
    ApproveBody,
    Body,
    ForkBody,
    GoOn,
    GrantBody,
    RejectBody,
    ResumeBody,
    RollbackBody,
    StartBody,
    StopBody,
    TellBody,
)
from logos.web.documents import DeliveredDocument
from logos.web.errors import BadRequest

STOP_SECONDS = 60.0
_FLOWS = {"cycle": ("run", CyclePlan), "levels": ("build", LevelsPlan)}
Read = TypeVar("Read", bound=Body)


@dataclass(frozen=True, slots=True)
class VerbTarget:
    """The run that a verb acts on, as it is now."""

    place: Path
    run: RunId
    view: RunView


@dataclass(frozen=True, slots=True)
class Done:
    """What a verb did, and the driver that was started for it."""

    place: Path
    run: RunId
    text: str
    event: int | None = None
    driver_pid: int | None = None
    next: str | None = None

    @property
    def wd(self) -> str:
        return str(self.place)


def quiet(_: str) -> None:
    """What commands tell a terminal is in the log as well."""


def _approve(target: VerbTarget, body: ApproveBody) -> Done:
    done = approve(target.run, gate=body.gate, wd=target.place, tell=quiet)
    return _gone_on(done, target.view, body)


def _reject(target: VerbTarget, body: RejectBody) -> Done:
    done = reject(target.run, body.words, gate=body.gate, wd=target.place, tell=quiet)
    return _gone_on(done, target.view, body)


def _answer(target: VerbTarget, body: AnswerBody) -> Done:
    return _gone_on(answer(target.run, body.words, wd=target.place, tell=quiet), target.view, body)


def _tell(target: VerbTarget, body: TellBody) -> Done:
    return _recorded(say_to(target.run, body.text, body.agent, wd=target.place, tell=quiet))


def _grant(target: VerbTarget, body: GrantBody) -> Done:
    return _recorded(grant(target.run, body.turn, body.granted, wd=target.place, tell=quiet))


def _stop(target: VerbTarget, _: StopBody) -> Done:
    done = stop(target.run, wd=target.place, timeout=STOP_SECONDS, tell=quiet)
    return Done(target.place, target.run, f"the driver (pid {done.pid}) has ended; the run can be resumed")


def _resume(target: VerbTarget, body: ResumeBody) -> Done:
    recreate = ["--recreate"] if body.recreate else []
    script = _script(target.view, body.simulate)
    started = _start(target.place, ["resume", target.run, *recreate, *_set(body.settings), *script])
    return Done(target.place, started.run, f"pid {started.pid} continues the run", driver_pid=started.pid)


def _fork(target: VerbTarget, body: ForkBody) -> Done:
    to = Path(body.to).expanduser() if body.to else None
    at = str(body.at) if body.at is not None else None
    return _new_run(fork(target.run, at=at, to=to, wd=target.place, tell=quiet), body)


def _rollback(target: VerbTarget, body: RollbackBody) -> Done:
    return _new_run(rollback(f"{target.run}@{body.at}", wd=target.place, tell=quiet), body)


def _abandon(target: VerbTarget, body: AbandonBody) -> Done:
    done = reset(target.run, files=body.files, wd=target.place, tell=quiet)
    restored = "; the files it started with are restored" if done.kept else ""
    return Done(done.wd, done.run, f"run {done.run} is abandoned{restored}")


def _recorded(done: Delivered) -> Done:
    return Done(done.place, done.run, done.text, done.seq)


def _gone_on(done: Delivered, before: RunView, body: GoOn) -> Done:
    """After a decision: a driver that has left is started again. The decision stays if that fails."""
    recorded = _recorded(done)
    if not body.resume or driver_at(done.place) is not None:
        return recorded
    return _with_driver(recorded, before, body.simulate)


def _with_driver(done: Done, view: RunView, simulate: str | None) -> Done:
    try:
        started = _start(done.place, ["resume", done.run, *_script(view, simulate)])
    except LogosError as error:
        resume = f"logos resume {done.run}"
        return Done(done.place, done.run, f"{done.text}; no driver was started: {error}", done.event, next=resume)
    return Done(done.place, done.run, done.text, done.event, started.pid)


def _new_run(new: NewRun, body: GoOn) -> Done:
    done = Done(new.wd, new.run, f"run {new.run} starts from event {new.at.seq} of {new.at.run}", next=new.next_command)
    goes_on = body.resume and not new.blocked and new.at.state.outcome in UNFINISHED
    return _with_driver(done, new.at.view, body.simulate) if goes_on else done


def _script(view: RunView, simulate: str | None) -> list[str]:
    """A simulated run never gets real agents because its script was forgotten."""
    if simulate is None and view.simulated:
        raise UsageError(f"the agents of run {view.run} are {SCRIPTED}: name their script with `simulate`")
    return ["--simulate", simulate] if simulate is not None else []


def _set(settings: Mapping[str, str]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def _start(place: Path, arguments: list[str]) -> Detached:
    """A driver of its own, which outlives this server."""
    return start_detached(place, [*arguments, "--wd", str(place)], quiet, folder=place)


@dataclass(frozen=True, slots=True)
class Verb:
    """A row of the table of verbs: its body, and what it does."""

    body: type[Body]
    act: Callable[[VerbTarget, Any], Done]


VERBS: dict[str, Verb] = {
    "approve": Verb(ApproveBody, _approve),
    "reject": Verb(RejectBody, _reject),
    "answer": Verb(AnswerBody, _answer),
    "tell": Verb(TellBody, _tell),
    "grant": Verb(GrantBody, _grant),
    "stop": Verb(StopBody, _stop),
    "resume": Verb(ResumeBody, _resume),
    "fork": Verb(ForkBody, _fork),
    "rollback": Verb(RollbackBody, _rollback),
    "abandon": Verb(AbandonBody, _abandon),
}


def start(request: Request, body: StartBody) -> Done:
    """Start a run in the background. An unfinished one is neither continued nor given up by accident."""
    place = next((place for place in overview_of(request).places if str(place) == body.wd), None)
    if place is None:
        raise UsageError(f"{body.wd[:200]!r} is none of the work dirs of this server: see --wd")
    require_person(place, "start a run")
    command, kind = _FLOWS[body.flow]
    unfinished = newest_unfinished(place, kind)
    if unfinished is not None and not body.fresh:
        raise UsageError(f"run {unfinished.run} is unfinished in {place}: resume it, or abandon it with `fresh`")
    script = ["--simulate", body.simulate] if body.simulate is not None else []
    fresh = ["--fresh"] if body.fresh else []
    words = ["--", body.text] if body.text.strip() else []
    given = [command, *fresh, *_set(body.settings), *script, "--wd", str(place), *words]
    started = start_detached(place, given, quiet, folder=place)
    return Done(place, started.run, f"pid {started.pid} drives run {started.run}", driver_pid=started.pid)


def act(verb: Verb, request: Request, body: Body) -> Done:
    place, run = place_of_run(request)
    require_person(place, "decide this")
    view = histories_of(request).known(place, run).history.now()
    return verb.act(VerbTarget(place, run, view), body)


async def _read(request: Request, kind: type[Read]) -> Read:
    content = await request.body()
    try:
        return kind.model_validate_json(content or b"{}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadRequest(f"{where + ': ' if where else ''}{first['msg']}") from error


def _endpoint(kind: type[Body], do: Callable[[Request, Any], Done]) -> Any:
    async def endpoint(request: Request) -> Response:
        body = await _read(request, kind)
        done = await run_in_threadpool(do, request, body)
        return JSONResponse(redacted(DeliveredDocument.of(done)))

    return endpoint


ROUTES = [
    Route("/api/runs", _endpoint(StartBody, start), methods=["POST"]),
    *(
        Route(f"/api/runs/{{run}}/{name}", _endpoint(verb.body, partial(act, verb)), methods=["POST"])
        for name, verb in VERBS.items()
    ),
]
