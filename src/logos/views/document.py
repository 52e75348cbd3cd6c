"""The JSON documents that commands print: a run is the same object in each of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from logos.domain.specs import Question
from logos.domain.usage import Spent, Usage
from logos.flows.levels.turn_ids import level_turn
from logos.views import document_shapes as shapes
from logos.views.document_shapes import VERSION
from logos.views.run import RunView, TurnView
from logos.views.sessions import Session
from logos.views.status import RunStatus, UnreadableRun


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _seconds(value: float) -> float:
    return round(value, 3)


def run_document(status: RunStatus) -> shapes.RunDocument:
    view, state, fork, position = status.view, status.view.state, status.view.fork, status.view.state.position
    return {
        "version": VERSION,
        "run": view.run,
        "flow": view.plan.flow,
        "wd": str(status.work_dir),
        "asked_for": view.asked_for,
        "status": status.word,
        "outcome": state.outcome.value if state.outcome else None,
        "reason": state.reason,
        "stalled": state.stalled,
        "stopped_because": None if state.outcome or status.driver else view.left or None,
        "driver_pid": status.driver,
        "question": question_document(view.question),
        "simulated": view.simulated,
        "damage": view.damage or None,
        "forked_from": fork.parent if fork else None,
        "forked_at": fork.at if fork else None,
        "forked_by": fork.way if fork else None,
        "started_at": iso(view.started),
        "last_event_at": iso(view.last),
        "last_event": view.records[-1].seq,
        "seconds": _seconds(view.seconds),
        "seconds_driven": _seconds(sum(session.seconds for session in view.own_sessions)),
        "rounds": position.round,
        "phase": position.phase,
        "role": position.agent,
        "cycle": position.cycle,
        "turns": view.answered,
        "inherited_turns": view.inherited,
        "characters": view.characters,
        "usage": spent_document(view.bill),
        "sessions": [session_document(view.run, session) for session in view.sessions],
        "branch": view.branch or None,
        "reconciliations": len(view.build.settled) if view.build else 0,
        "unproven": list(view.unproven),
        "violation": (view.build.violation or None) if view.build else None,
        "alternatives": list(view.build.alternatives) if view.build else [],
    }


def result_document(status: RunStatus, state_file: str, exit_code: int) -> shapes.ResultDocument:
    return {**run_document(status), "exit_code": exit_code, "state_file": state_file}


def status_document(status: RunStatus, next_command: str) -> shapes.StatusDocument:
    in_flight = [_in_flight_document(status, turn) for turn in status.in_flight]
    return {**run_document(status), "in_flight": in_flight, "next": next_command}


def _in_flight_document(status: RunStatus, turn: TurnView) -> shapes.InFlightDocument:
    terminal = status.terminal_of(turn)
    return {
        **turn_document(turn),
        "terminal": terminal.id if terminal else None,
        "waits_for_you": turn.waits or None,
        "rests": turn.rests or None,
    }


def timeline_document(status: RunStatus) -> shapes.TimelineDocument:
    return {**run_document(status), "timeline": [turn_document(turn) for turn in status.view.turns]}


def cost_document(status: RunStatus, groups: dict[str, dict[str, Spent]]) -> shapes.CostDocument:
    by = {name: {key: spent_document(spent) for key, spent in rows.items()} for name, rows in groups.items()}
    return {**run_document(status), "usage_by": by}


def runs_document(wd: str, runs: Sequence[RunStatus | UnreadableRun]) -> shapes.RunsDocument:
    return {
        "version": VERSION,
        "wd": wd,
        "runs": [run_document(run) for run in runs if isinstance(run, RunStatus)],
        "unreadable": [{"wd": wd, "run": run.run, "why": run.why} for run in runs if isinstance(run, UnreadableRun)],
    }


def no_run_document(wd: str) -> shapes.NoRunDocument:
    return {"version": VERSION, "run": None, "wd": wd, "next": "logos run"}


def events_document(run: str, events: list[dict[str, Any]]) -> shapes.EventsDocument:
    return {"version": VERSION, "run": run, "events": events}


def turn_document(turn: TurnView) -> shapes.TurnDocument:
    level = level_turn(turn.turn)
    return {
        "turn": turn.turn,
        "agent": turn.agent,
        "level": level.level.name if level else None,
        "kind": level.kind.value if level else None,
        "component": (level.component or None) if level else None,
        "asked_at": iso(turn.asked),
        "answered_at": None if turn.ended is None else iso(turn.ended),
        "seconds": None if turn.seconds is None else _seconds(turn.seconds),
        "verdict": turn.verdict or None,
        "failure": turn.failure or None,
        "inherited": turn.inherited,
        "prompt_characters": len(turn.prompt),
        "response_characters": len(turn.response),
        "usage": None if turn.usage in (None, Usage()) else usage_document(turn.usage),
    }


def turn_text_document(view: RunView, turn: TurnView) -> shapes.TurnTextDocument:
    return {
        "version": VERSION,
        "run": view.run,
        **turn_document(turn),
        "prompt": turn.prompt,
        "response": turn.response,
    }


def usage_document(usage: Usage | None) -> shapes.UsageDocument:
    known = usage or Usage()
    return {
        "input": known.input,
        "cached": known.cached,
        "output": known.output,
        "tokens": known.tokens,
        # Without the rounding errors of a sum.
        "cost_usd": None if known.cost_usd is None else round(known.cost_usd, 6),
    }


def spent_document(spent: Spent) -> shapes.SpentDocument:
    return {
        **usage_document(spent.usage),
        "turns": spent.turns,
        "tokens_unknown_turns": spent.tokens_unknown,
        "cost_unknown_turns": spent.cost_unknown,
    }


def session_document(run: str, session: Session) -> shapes.SessionDocument:
    return {
        "run": run,
        "session": session.number,
        "began_at": iso(session.began),
        "ended_at": iso(session.ended),
        "seconds": _seconds(session.seconds),
        "first": session.first,
        "last": session.last,
        "turns": len(session.answered),
        "checks": len(session.checked),
        "ended": session.end,
        "inherited": session.inherited,
    }


def question_document(question: Question | None) -> shapes.QuestionDocument | None:
    if question is None:
        return None
    return {
        "id": question.id,
        "text": question.text,
        "options": [
            {
                "number": number,
                "summary": option.summary,
                "changes": [{"level": change.level.name, "change": change.change} for change in option.changes],
                "rework": list(option.rework),
            }
            for number, option in enumerate(question.options, 1)
        ],
        "objections": list(question.objections),
    }
