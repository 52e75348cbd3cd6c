"""Logs of runs with many events, made without agents. No two responses are the same, as with real agents."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from measure import NOWHERE, PROMPT, settings_for

from logos.adapters.hosts.scripted import good_report
from logos.adapters.store.sqlite import SqliteLog
from logos.app.run_start import make_plan
from logos.app.run_state import write_run_state
from logos.app.runs import read_report
from logos.app.settings import Settings
from logos.app.workdir import driving
from logos.domain.events import CheckRan, Event, RunStarted, TurnAnswered, TurnAsked, TurnSent, WorkGathered, WorkMerged
from logos.domain.levels import ALL_LEVELS, Level
from logos.domain.plans import CURRENT_RULES, LevelsPlan, Plan
from logos.domain.reports import TurnKind
from logos.domain.specs import Tool, TouchedFile
from logos.domain.turns import Action, Check, Gather, Merge, RunId, Turn
from logos.engine.journal import Journal
from logos.flows.fold import RunFold, flow_for
from logos.flows.levels.turn_ids import level_turn
from logos.prompts import render
from logos.testing import FAIL, script

COMPONENTS = tuple(f"part{number:02}" for number in range(20))
_DIVISION = [
    {"name": name, "purpose": "a part", "files": [f"src/{name}.py"], "provides": [], "depends_on": []}
    for name in COMPONENTS
]


def long_run(wd: Path, events: int) -> Settings:
    """A cycle of so many events: one FAIL after the other."""
    settings = settings_for(wd, NOWHERE, MAX_ROUNDS="1000000", MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1")
    said = {answer: texts[0] for answer, texts in script(tester=[FAIL]).items()}
    fold = _written(settings, make_plan(settings, PROMPT), events, lambda turn: f"{said[turn.answer]}\n- in {turn.id}")
    write_run_state(settings, fold)
    return settings


def long_build(wd: Path, events: int) -> Settings:
    """A build of twenty components of so many events: L4 fails each sweep, and all components are worked on again."""
    settings = settings_for(wd, NOWHERE)
    telos = tuple((level, f"what is known at {level.name}") for level in ALL_LEVELS)
    tools = (Tool(Level.L1, "ruff", "ruff check"), Tool(Level.L2, "pytest", "pytest -q"))
    plan = LevelsPlan("measure it", str(wd), "0" * 40, telos, tools=tools, max_reconciliations=1_000_000)
    _written(settings, replace(plan, rules=CURRENT_RULES), events, _report)
    return settings


def _written(settings: Settings, plan: Plan, events: int, respond: Callable[[Turn], str]) -> RunFold[object]:
    """Write a run as a driver would, with its mirror."""
    log = SqliteLog(settings.telos_dir / "logos.db")
    log._db.execute("PRAGMA synchronous = OFF")  # pyright: ignore[reportPrivateUsage]
    started = RunStarted(plan)
    journal = Journal(log, RunFold(RunId("long"), flow_for(started, read_report)))
    journal.record(started)
    while journal.fold.seq < events:
        due = journal.fold.flow.due(journal.state)
        assert due, journal.state.reason
        for action in due:
            for event in _events_of(action, respond):
                journal.record(event)
    log.close()
    with driving(settings.work_dir, lambda _text: None):
        pass  # Makes the mirror.
    return journal.fold


def _events_of(action: Action, respond: Callable[[Turn], str]) -> tuple[Event, ...]:
    match action:
        case Turn():
            asked = TurnAsked(action.id, action.agent, _prompt(action))
            return asked, TurnSent(action.id), TurnAnswered(action.id, respond(action))
        case Gather():
            touched = tuple(TouchedFile(path, f"blob of {action.id}") for path in action.declared)
            return (WorkGathered(action.id, action.place.name, f"work of {action.id}", touched),)
        case Merge():
            return (WorkMerged(action.id, f"all of {action.id}"),)
        case Check():
            return (CheckRan(action.id, action.command, 0, f"output of {action.id}"),)
        case _:
            raise TypeError(action)


def _prompt(turn: Turn) -> str:
    """The driver adds the paths of an agent's own worktree."""
    return render(turn.document, {"wd": "/repository", "response_path": f"/responses/{turn.id}.md", **turn.facts})


def _report(turn: Turn) -> str:
    known = level_turn(turn.id)
    assert known is not None
    changes: dict[str, object] = {"executive_summary": f"{turn.id} is done"}
    if (known.level, known.kind) == (Level.L3, TurnKind.DECOMPOSE):
        changes["components"] = _DIVISION
    if (known.level, known.kind) == (Level.L4, TurnKind.VALIDATE):
        changes |= {"verdict": "FAIL", "failures": [{"what": turn.id, "expected": "a part", "observed": "none"}]}
    if known.kind is TurnKind.PROPOSE:
        changes["proposal"] = {
            "summary": turn.id,
            "changes": [{"level": "L3", "change": "divide it"}],
            "rework": [*COMPONENTS],
        }
    edit = {f"src/{known.component}.py": "def part(): ...\n"} if known.component else {}
    return json.dumps(good_report(known, edit, changes), indent=2)
