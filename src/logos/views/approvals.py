"""Who approved what of a run: reviewers, levels, and a person at a gate; only what still holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from logos.domain.events import GateDecided, Recorded, TurnAnswered
from logos.domain.gates import GateKind
from logos.domain.levels import LEVELS, Level
from logos.domain.roles import Phase, phase_def
from logos.flows.cycle.flow import CycleState
from logos.flows.cycle.verdicts import is_approved
from logos.flows.levels.state import LevelsState, LevelStatus
from logos.views.run import RunView

PERSON = "a person"
_AT_GATES = {GateKind.AFTER_PLAN: "the plan", GateKind.BEFORE_PASS: "the result"}


@dataclass(frozen=True, slots=True)
class Approval:
    """A verdict that counted: of an agent's turn, or of a person at a gate."""

    turn: str
    who: str
    what: str
    at: float


def approvals_in(view: RunView) -> Iterator[Approval]:
    """The last approval of each thing; what a person has rejected since is not approved."""
    yield from _validations(view) if isinstance(view.state, LevelsState) else _reviews(view)
    yield from _at_gates(view).values()


def _at_gates(view: RunView) -> dict[GateKind, Approval]:
    found: dict[GateKind, Approval] = {}
    before: Any = view.fold.flow.start()
    for record, after in zip(view.records, view.states, strict=True):
        event, gate = record.event, before.gate
        if after.position.round != before.position.round:
            # A result of an earlier round is not the one that there is now.
            found.pop(GateKind.BEFORE_PASS, None)
        if isinstance(event, GateDecided) and gate is not None and gate.id == event.gate:
            found.pop(gate.at, None)
            if event.approved:
                found[gate.at] = Approval(gate.id, PERSON, _AT_GATES[gate.at], record.at)
        before = after
    return found


def _reviews(view: RunView) -> Iterator[Approval]:
    before: Any = view.fold.flow.start()
    found: dict[Phase, Approval] = {}
    for record, after in zip(view.records, view.states, strict=True):
        if isinstance(after, CycleState) and isinstance(before, CycleState):
            if after.round != before.round:
                # What was approved in an earlier round has failed.
                found.pop(Phase.PROGRAMMER, None)
            event, gate = record.event, before.gate
            if isinstance(event, GateDecided) and not event.approved and gate is not None and gate.id == event.gate:
                found.pop(before.phase, None)
            approval = _approval(record, before)
            if approval is not None:
                found[before.phase] = approval
        before = after
    yield from found.values()


def _approval(record: Recorded, before: CycleState) -> Approval | None:
    """The approval that a reviewer's answer is, if it counted."""
    event, plan = record.event, before.plan
    if not isinstance(event, TurnAnswered) or event.turn != before.turn_id or before.phase is Phase.DONE:
        return None
    stage = phase_def(before.phase)
    if before.role is not stage.reviewer:
        return None
    strict = plan.quoted_verdicts_ignored
    counted = is_approved(event.text, before.cycle, before.phase, plan.review, strict=strict)
    if not counted or before.overstepped or not before.said(stage.author):
        return None
    return Approval(event.turn, before.role.replace("_", " "), f"the {stage.author}'s work", record.at)


def _validations(view: RunView) -> Iterator[Approval]:
    """The levels that found their spec satisfied, each by its last report."""
    build = view.build
    found: dict[Level, Approval] = {}
    before: Any = view.fold.flow.start()
    for record, after in zip(view.records, view.states, strict=True):
        for level, standing in after.standing.items() if isinstance(after, LevelsState) else ():
            answered = isinstance(record.event, TurnAnswered) and before.standing.get(level) is not standing
            if standing is LevelStatus.PASSED and answered and isinstance(record.event, TurnAnswered):
                who = f"{level.name} {LEVELS[level].title}"
                found[level] = Approval(record.event.turn, who, "its spec is satisfied", record.at)
        before = after
    if build is not None:
        yield from (found[level] for level in sorted(found) if build.standing.get(level) is LevelStatus.PASSED)
