"""`logos status`: where the newest run of this work dir stands, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logos.app.workdir import driver_at, find_run, has_log, place_of, reading, wd_flag
from logos.cli.options import AsJson, WorkDir, examples
from logos.views.status import RunStatus, next_command

if TYPE_CHECKING:
    from logos.views.run import RunView, State

EXAMPLES = examples("logos status", "logos status --json --wd ~/project")


def status(wd: WorkDir = None, as_json: AsJson = False) -> int:
    """Show the newest run: its outcome or where it stands, who is at work, and the command to use next."""
    from logos.app.runs import load_run
    from logos.cli.output import console as show

    place = place_of(wd)
    if not has_log(place):
        if as_json:
            show.document({"run": None, "wd": str(place), "next": "logos run"})
        else:
            show.put(show.console(), f"no run was started in {place} yet; next: logos init, then logos run")
        return 0
    with reading(place) as log:
        standing = RunStatus(place, load_run(log, find_run(log, None)), driver_at(place))
    if as_json:
        show.document(as_document(standing))
    else:
        put_standing(standing)
    return 0


def put_standing(standing: RunStatus) -> None:
    from logos.cli.output import console as show
    from logos.views.events import Severity
    from logos.views.text import clock, count, date, duration
    from logos.views.usage import sum_in_words

    target, story = show.console(), standing.view
    tone = {
        "PASSED": Severity.GOOD,
        "RUNNING": Severity.NORMAL,
        "WAITING FOR YOU": Severity.ALARM,
        "STOPPED": Severity.WARNING,
    }
    simulated = " (simulated)" if story.simulated else ""
    what = "run" if story.build is None else "build"
    head = f"{what} {story.run}{simulated}: {standing.word}, {standing.reason}"
    show.put(target, head, show.STYLES[tone.get(standing.word, Severity.BAD)])
    show.put(
        target,
        f"began {date(story.started)}{_came_from(story)}, last event {date(story.last)}; "
        f"{count(_sessions(story), 'session')}, {story.rounds_in_words}, "
        f"{count(story.answered, 'turn')} answered, {sum_in_words(story.bill, story.characters)}",
    )
    for told in standing.in_flight:
        terminal = standing.terminal_of(told)
        where = f" in terminal {terminal.id} ({terminal.provider})" if terminal else ""
        since = f"since {clock(told.asked)} ({duration(_now() - told.asked)})"
        show.put(target, f"{told.turn} is with {'the ' if story.build is None else ''}{told.who}{where} {since}")
        if told.waits:
            show.put(target, f"it waits for you: {told.waits}", show.STYLES[Severity.ALARM])
        if told.rests and standing.driver is not None:
            show.put(target, f"it rests: {told.rests}", show.STYLES[Severity.WARNING])
    if story.outcome is None:
        driver = f"driver: pid {standing.driver}" if standing.driver else "no driver is at work on it"
        show.put(target, driver)
    if story.damage:
        show.put(target, f"damaged: {story.damage}", show.STYLES[Severity.BAD])
    if story.question is not None:
        show.put_question(target, story.question, wd_flag(standing.work_dir))
        show.put(target, "")
    show.put(target, f"next: {next_command(standing, wd_flag(standing.work_dir))}", "bold")


def _came_from(story: RunView) -> str:
    return f" at {story.came_from}" if story.came_from else ""


def _sessions(story: RunView) -> int:
    return sum(1 for session in story.sessions if not session.inherited)


def as_document(standing: RunStatus) -> dict[str, Any]:
    from logos.cli.output.console import question_as_json
    from logos.views.run import agent_as_json, iso
    from logos.views.usage import bill_as_json

    story, state = standing.view, standing.view.state
    return {
        "run": story.run,
        "flow": story.plan.flow,
        "status": standing.word,
        "outcome": state.outcome.value if state.outcome else None,
        "reason": state.reason,
        "stalled": state.stalled,
        "stopped_because": None if state.outcome or standing.driver else story.left or None,
        "simulated": story.simulated,
        "forked_from": story.came_from or None,
        "sessions": _sessions(story),
        "wd": str(standing.work_dir),
        **_where_as_json(state),
        "turns": story.answered,
        "characters": story.characters,
        "usage": bill_as_json(story.bill),
        "started_at": iso(story.started),
        "last_event_at": iso(story.last),
        "driver_pid": standing.driver,
        "in_hand": [
            {
                "turn": told.turn,
                **agent_as_json(told),
                "terminal": terminal.id if terminal else None,
                "since": iso(told.asked),
                "waits_for_you": told.waits or None,
                "rests": told.rests or None,
            }
            for told in standing.in_flight
            for terminal in (standing.terminal_of(told),)
        ],
        "question": question_as_json(story.question),
        "damage": story.damage or None,
        "next": next_command(standing, wd_flag(standing.work_dir)),
    }


def _where_as_json(state: State) -> dict[str, Any]:
    """The same keys for both flows: a sweep is a build's round, its stage the phase, its level the role."""
    from logos.flows.cycle.flow import CycleState

    if isinstance(state, CycleState):
        return {"round": state.round, "phase": state.phase.value, "role": state.role.value, "cycle": state.cycle}
    dispute = state.dispute
    return {
        "round": state.sweep,
        "phase": state.stage.value,
        "role": state.level.name,
        "cycle": dispute.round if dispute is not None else None,
    }


def _now() -> float:
    import time

    return time.time()
