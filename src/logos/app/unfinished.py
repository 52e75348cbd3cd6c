"""What is unfinished here, in a few lines: what it was to do, its sessions, where it stands, and what to do next."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from logos.app.workdir import driver_at, has_log, reading, wd_flag
from logos.errors import LogError, StateError, UsageError
from logos.views.status import BUDGET, RunStatus

if TYPE_CHECKING:
    from pathlib import Path

    from logos.app.settings import Settings
    from logos.domain.plans import Plan
    from logos.views.run import RunView
    from logos.views.sessions import Session

Tell = Callable[[str], None]

# As many sessions are told one by one.
SHOWN = 3
ANSWERS = {"r": "resume", "s": "reset", "f": "fork", "q": "quit"}


def in_words(standing: RunStatus) -> list[str]:
    """A summary for whoever comes back to it after hours or days."""
    from logos.views.text import count
    from logos.views.usage import sum_in_words

    story = standing.view
    what = "run" if story.build is None else "build"
    of = f", from {story.came_from}" if story.came_from else ""
    before = f" (and {story.inherited} before the fork)" if story.inherited else ""
    return [
        f"unfinished {what} {story.run}{of}: {story.asked_for}",
        *_sessions(story),
        f"{count(story.answered, 'turn')} answered{before}, {sum_in_words(story.bill, story.characters)}",
        f"it stands at {standing.where}; {_next(story)}",
        *([f"it stopped: {stopped}"] if (stopped := story.state.stalled or story.left) else []),
        f"recommended: {recommended(standing)}",
    ]


def _sessions(story: RunView) -> list[str]:
    from logos.views.text import count

    own = [session for session in story.sessions if not session.inherited]
    earlier = len(own) - SHOWN
    told = [f"session {session.number}, {_when(session)}" for session in own[-SHOWN:]]
    return [*([f"{count(earlier, 'earlier session')}"] if earlier > 0 else []), *told]


def _when(session: Session) -> str:
    from logos.views.text import count, date, duration

    return f"{date(session.began)}: {duration(session.seconds)}, {count(len(session.answered), 'turn')} answered"


def _next(story: RunView) -> str:
    from logos.views.text import listed

    due = next_turns(story)
    return f"next comes {listed(due[:SHOWN])}" if due else "nothing is due"


def next_turns(story: RunView) -> list[str]:
    """The turns and checks that a driver would begin with."""
    from logos.flows.cycle.flow import CycleState

    state = story.state
    if state.outcome is not None:
        return []
    if isinstance(state, CycleState):
        return [state.check_id if state.checking else state.turn_id]
    return [ask.turn for ask in state.in_progress] or [f"{state.stage} at {state.level.name}"]


def recommended(standing: RunStatus) -> str:
    """The next action, and its command."""
    story, at = standing.view, wd_flag(standing.work_dir)
    if story.question is not None:
        return f"decide what it asks (logos resolve{at})"
    budget = BUDGET.match(story.left)
    if budget is not None:
        return f"resume it with a larger {budget[1]} ({story.resumes_with}{at} --set {budget[1]}=…)"
    return f"resume it ({story.resumes_with}{at})"


def unfinished_of(place: Path, flow: type[Plan]) -> RunStatus | None:
    """The newest run of a flow here, if it can go on and nobody is at work on it.

    What cannot be read is for whoever opens the log to say.
    """
    from logos.app.runs import load_run, runs_with
    from logos.flows.fold import UNFINISHED

    if not has_log(place) or driver_at(place) is not None:
        return None
    try:
        with reading(place) as log:
            runs = runs_with(log, flow)
            story = load_run(log, runs[-1]) if runs else None
    except LogError:
        return None
    if story is None or story.damage or story.outcome not in UNFINISHED:
        return None
    return RunStatus(place, story, None)


def present(standing: RunStatus | None, tell: Tell) -> None:
    for line in in_words(standing) if standing is not None else ():
        tell(line)


def decide(settings: Settings, feature: str, tell: Tell, *, ask: bool) -> tuple[Settings, str]:
    """Settings and feature with which a build goes on where one is unfinished: resumed, reset or forked.

    Where nobody can be asked, it stops before anything is touched.
    """
    from logos.domain.plans import LevelsPlan

    standing = unfinished_of(settings.work_dir, LevelsPlan) if settings.resume is not False else None
    present(standing, tell)
    if standing is not None and standing.view.question is not None:
        refuse_to_guess(standing)
    if standing is None or settings.resume:
        return settings, feature
    run, at = standing.view.run, wd_flag(standing.work_dir)
    if not ask:
        raise UsageError(
            f"an unfinished build is here ({run}: {standing.view.asked_for!r}): --resume goes on with it, "
            f"--fresh gives it up and begins anew, `logos fork {run}{at}` goes on beside it"
        )
    match _asked(feature, tell):
        case "reset":
            plan = standing.view.plan
            return settings.model_copy(update={"resume": False}), feature or getattr(plan, "feature", "")
        case "fork":
            return _forked_off(settings, standing, tell), ""
        case _:
            return settings.model_copy(update={"resume": True}), ""


def refuse_to_guess(standing: RunStatus) -> None:
    raise StateError(
        f"build {standing.view.run} waits for a decision of yours; "
        f"`logos resolve{wd_flag(standing.work_dir)}` shows it and takes it, --fresh begins a new build"
    )


def _forked_off(settings: Settings, standing: RunStatus, tell: Tell) -> Settings:
    from logos.app.revisiting import find_checkpoint, fork_here

    with reading(standing.work_dir) as log:
        at = find_checkpoint(standing.work_dir, log, standing.view.run, None)
        begun = fork_here(settings, log, at, None, tell)
    tell(f"build {begun.run} is forked from {at.run}@{at.seq} and goes on in {begun.wd}")
    return settings.model_copy(update={"wd": str(begun.wd), "resume": True})


def _asked(feature: str, tell: Tell) -> str:
    anew = "give it up and begin the new one" if feature else "give it up and begin it anew"
    while True:
        tell(f"[r]esume it, re[s]et: {anew}, [f]ork it and go on beside it, or [q]uit? (r)")
        line = sys.stdin.readline()
        said = line.strip().lower() or "r"
        if not line or said in ("q", "quit"):
            raise StateError("nothing was done: the build is still unfinished")
        for letter, answer in ANSWERS.items():
            if said in (letter, answer):
                return answer
        tell(f"{said!r} is none of {', '.join(ANSWERS.values())}")
