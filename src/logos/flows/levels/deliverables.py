"""What a valid report must deliver in the current state of the build."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from logos.domain.levels import Level
from logos.domain.reports import ActionKind, Report, TurnKind
from logos.flows.levels.state import MAIN, LevelsState, PendingTurn

Look = Callable[[LevelsState, PendingTurn, Report], Iterator[str]]


def problems_with(state: LevelsState, pending: PendingTurn, report: Report) -> tuple[str, ...]:
    """Every reason to refuse a report, each a line that the agent can act on."""
    looks: tuple[Look, ...] = (_next_step, *_BY_KIND.get(pending.kind, ()))
    return tuple(problem for look in looks for problem in look(state, pending, report))


def _next_step(state: LevelsState, pending: PendingTurn, report: Report) -> Iterator[str]:
    step = report.next
    if step.step is not ActionKind.HAND_BACK:
        return
    if pending.kind is not TurnKind.DECOMPOSE:
        instead = _INSTEAD.get(pending.kind, "say it in this report's own fields")
        yield f"next_recommended_action.action = hand_back: not possible in this turn; {instead}"
    elif step.to is None or step.to not in state.levels or step.to <= pending.level:
        higher = ", ".join(level.name for level in state.levels if level > pending.level) or "none, ask_person instead"
        yield f"next_recommended_action.to = {_name(step.to)}: must be a level above that takes part: {higher}"


_INSTEAD = {
    TurnKind.AUTHOR: "report a constraint",
    TurnKind.VALIDATE: "give the verdict FAIL with failures",
}


def _changes_take_part(state: LevelsState, pending: PendingTurn, report: Report) -> Iterator[str]:  # noqa: ARG001
    if report.proposal is None:
        yield "proposal: is missing"
        return
    for place, change in enumerate(report.proposal.changes):
        if change.level not in state.levels:
            taking = ", ".join(level.name for level in state.levels)
            yield f"proposal.changes[{place}].level = {change.level.name}: takes no part; taking part: {taking}"


def _rework_is_known(state: LevelsState, pending: PendingTurn, report: Report) -> Iterator[str]:  # noqa: ARG001
    proposal, known = report.proposal, [component.name for component in state.components]
    if proposal is None:
        return
    for place, name in enumerate(proposal.rework):
        if name not in known:
            named = ", ".join(known) or "none yet: leave `rework` empty"
            yield f"proposal.rework[{place}] = {name[:80]!r}: there is no such component; there are: {named}"
    highest = max((change.level for change in proposal.changes), default=Level.L2)
    if known and not proposal.rework and highest is Level.L2:
        yield f"proposal.rework: code changes, so name the components to work on again, of: {', '.join(known)}"


def _main_is_taken(state: LevelsState, pending: PendingTurn, report: Report) -> Iterator[str]:  # noqa: ARG001
    for place, component in enumerate(report.components):
        if component.name == MAIN:
            yield f"components[{place}].name = {MAIN!r}: this is where all work is merged; choose another name"


_BY_KIND: dict[TurnKind, tuple[Look, ...]] = {
    TurnKind.DECOMPOSE: (_main_is_taken,),
    TurnKind.PROPOSE: (_changes_take_part, _rework_is_known),
}


def _name(level: Level | None) -> str:
    return "null" if level is None else level.name
