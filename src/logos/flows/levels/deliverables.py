"""What a valid report must deliver in the current state of the build."""

from __future__ import annotations

from collections.abc import Iterator

from logos.domain.levels import Level
from logos.domain.reports import ActionKind, NextAction, Proposal, Report, TurnKind
from logos.flows.levels.state import MAIN, LevelsState, PendingTurn

_INSTEAD = {
    TurnKind.AUTHOR: "report a constraint",
    TurnKind.VALIDATE: "give the verdict FAIL with failures",
}


def problems_with(state: LevelsState, pending: PendingTurn, report: Report) -> tuple[str, ...]:
    """Every reason to refuse a report, each a line that the agent can act on."""
    problems = list(_wrong_action(state, pending, report.next))
    if pending.kind is TurnKind.DECOMPOSE:
        for place, component in enumerate(report.components):
            if component.name == MAIN:
                name = f"components[{place}].name = {MAIN!r}"
                problems.append(f"{name}: this is where all work is merged; choose another name")
    if pending.kind is TurnKind.PROPOSE:
        problems += _wrong_proposal(state, report.proposal) if report.proposal else ["proposal: is missing"]
    return tuple(problems)


def _wrong_action(state: LevelsState, pending: PendingTurn, action: NextAction) -> Iterator[str]:
    if action.step is not ActionKind.HAND_BACK:
        return
    higher = [level for level in state.levels if level > pending.level]
    if pending.kind is not TurnKind.DECOMPOSE:
        instead = _INSTEAD.get(pending.kind, "say it in this report's own fields")
        yield f"next_recommended_action.action = hand_back: not possible in this turn; {instead}"
    elif action.to not in higher:
        to = "null" if action.to is None else action.to.name
        names = ", ".join(level.name for level in higher) or "none, ask_person instead"
        yield f"next_recommended_action.to = {to}: must be a level above that takes part: {names}"


def _wrong_proposal(state: LevelsState, proposal: Proposal) -> Iterator[str]:
    for place, change in enumerate(proposal.changes):
        if change.level not in state.levels:
            taking = ", ".join(level.name for level in state.levels)
            yield f"proposal.changes[{place}].level = {change.level.name}: takes no part; taking part: {taking}"
    known = [component.name for component in state.components]
    for place, name in enumerate(proposal.rework):
        if name not in known:
            named = ", ".join(known) or "none yet: leave `rework` empty"
            yield f"proposal.rework[{place}] = {name[:80]!r}: there is no such component; there are: {named}"
    highest = max((change.level for change in proposal.changes), default=Level.L2)
    if known and not proposal.rework and highest is Level.L2:
        yield f"proposal.rework: code changes, so name the components to work on again, of: {', '.join(known)}"
