"""What a report tells of the cycle: phases round by round, reviews and tests that are due, and what was decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from logos.domain.events import CheckRan, TurnAnswered
from logos.domain.roles import PHASE_DEFS, Phase, PhaseDef, Role, phase_def
from logos.domain.turns import Outcome
from logos.flows.cycle.flow import CycleState
from logos.flows.cycle.verdicts import TesterVerdict, is_approved, read_result
from logos.views.continuity.entries import Entry, Transition, said
from logos.views.events import Severity

Moments = Iterable[Transition[CycleState]]


def completed(moments: Moments) -> Iterator[Entry]:
    """Every phase that came to an end, in the order in which it did."""
    for moment in moments:
        before, after, part = moment.before, moment.after, f"round {moment.before.round}"
        match moment.record.event:
            case TurnAnswered(_, text) if before.phase is Phase.TESTER and _went_on(before, after):
                passed = read_result(text) is TesterVerdict.PASS
                yield moment.entry(
                    part, "test", "PASS" if passed else "FAIL", Severity.GOOD if passed else Severity.BAD
                )
            case TurnAnswered(_, text) if before.phase is not after.phase:
                yield moment.entry(part, f"{before.phase}'s work", *_approval(before, text))
            case CheckRan(_, command, exit_code) if before.checking and not after.checking:
                good = exit_code == 0
                yield moment.entry(
                    part, f"`{command}`, run by Logos", f"exit {exit_code}", Severity.GOOD if good else Severity.BAD
                )
            case _:
                pass


def _went_on(before: CycleState, after: CycleState) -> bool:
    """A tester without a verdict is asked once more; then nothing has come to an end yet."""
    return (before.round, before.phase, before.checking) != (after.round, after.phase, after.checking)


def _approval(before: CycleState, review: str) -> tuple[str, Severity]:
    reviewer = _name(phase_def(before.phase).reviewer or before.role)
    if _approved(before, review):
        return f"approved by the {reviewer} in cycle {before.cycle}", Severity.GOOD
    return f"not approved by the {reviewer} in {before.cycle} cycles; its objections went along", Severity.WARNING


def _approved(before: CycleState, review: str) -> bool:
    return is_approved(review, before.cycle, before.phase, before.plan.review)


def _objections(state: CycleState, phase: Phase) -> str:
    return state.analyst_feedback if phase is Phase.ANALYST else state.programmer_feedback


def pending(state: CycleState) -> Iterator[Entry]:
    """The reviews and tests that this round still needs."""
    if state.phase is Phase.DONE:
        return
    part, plan = f"round {state.round}", state.plan
    left = () if state.checking else PHASE_DEFS[PHASE_DEFS.index(phase_def(state.phase)) :]
    for stage in left:
        what = "test" if stage.reviewer is None else f"review of the {stage.author}'s work"
        yield Entry(part, f"{what} by the {_name(stage.reviewer or stage.author)}", _when(state, stage))
    if plan.verify_pass and plan.test_command:
        when = "due now" if state.checking else "after the tester's PASS"
        yield Entry(part, f"`{said(plan.test_command)}`, run by Logos", when)


def _when(state: CycleState, stage: PhaseDef) -> str:
    if state.outcome is not None:
        return "did not come about"
    if state.phase is not stage.phase:
        return "to come"
    if stage.reviewer is None:
        return "due now"
    around = f"cycle {state.cycle} of at most {state.plan.review.max_cycles}"
    return f"due now, {around}" if state.role is stage.reviewer else f"after the {stage.author}'s turn, {around}"


def blocked(state: CycleState) -> Iterator[Entry]:
    if state.outcome is Outcome.BLOCKED:
        phase = state.phase
        yield Entry("review", f"{phase}'s work", said(state.reason), Severity.BAD, said(_objections(state, phase)))


def decisions(moments: Moments) -> Iterator[Entry]:
    """Where the run went on although somebody had objections, and where a verdict was not believed."""
    for moment in moments:
        before, after = moment.before, moment.after
        match moment.record.event:
            case CheckRan(_, command, exit_code) if before.checking and exit_code != 0:
                how = f"the tester's PASS is not believed: `{command}` exits {exit_code}"
                yield moment.entry("verdict", f"round {before.round}", how, Severity.BAD)
            case TurnAnswered(_, text) if before.phase not in (after.phase, Phase.TESTER):
                if not _approved(before, text):
                    how = f"the run goes on without approval of the {before.phase}'s work"
                    objections = _objections(after, before.phase)
                    yield moment.entry("review", f"round {before.round}", how, Severity.WARNING, objections)
            case _:
                pass


def _name(role: Role) -> str:
    return role.replace("_", " ")
