"""The sections of a cycle's report: phases round by round, reviews and tests that are due, and decisions."""

from collections.abc import Iterator, Sequence

from logos.domain.events import CheckRan, ProofRan, TurnAnswered, WorkCompared, WorkUndone
from logos.domain.gates import GateKind
from logos.domain.roles import PHASE_DEFS, Phase, PhaseDef, phase_def
from logos.domain.turns import Outcome
from logos.flows.cycle.flow import CycleState
from logos.flows.cycle.verdicts import ReportedResult, read_result
from logos.views.continuity.entries import Entry, Sections, Transition, entry
from logos.views.events import Severity, approval
from logos.views.proof import failure_of
from logos.views.text import listed
from logos.views.turns import PROOF_STEPS, proof_in_words

Steps = Sequence[Transition[CycleState]]

# A line names no more files than this.
_FILES = 5


def sections(state: CycleState, steps: Steps) -> Sections:
    return Sections(tuple(completed(steps)), tuple(pending(state)), tuple(blocked(state)), tuple(decisions(steps)))


def completed(steps: Steps) -> Iterator[Entry]:
    """Every phase that ended, in order."""
    for step in steps:
        before, after, part = step.before, step.after, f"round {step.before.round}"
        match step.record.event:
            case TurnAnswered(_, text) if before.phase is Phase.TESTER and _went_on(before, after):
                passed = read_result(text, strict=before.plan.quoted_verdicts_ignored) is ReportedResult.PASS
                yield entry(part, "test", "PASS" if passed else "FAIL", _severity(passed), step=step)
            case TurnAnswered(_, text) if before.phase is not after.phase or _reached_gate(before, after):
                yield entry(part, f"{before.phase}'s work", *approval(before, text), step=step)
            case CheckRan(_, command, exit_code) if before.checking and not after.checking:
                what, severity = f"`{command}`, run by Logos", _severity(exit_code == 0)
                yield entry(part, what, f"exit {exit_code}", severity, step=step)
            case ProofRan(_, kind) if before.proof is not None and before.proof.step is kind:
                why = failure_of(before, step.record.event)
                yield entry(part, PROOF_STEPS[kind], proof_in_words(step.record.event), _severity(not why), why, step)
            case _:
                pass


def _went_on(before: CycleState, after: CycleState) -> bool:
    """A tester without a verdict is asked once more: then the phase has not ended."""
    moved = (before.round, before.phase, before.proving) != (after.round, after.phase, after.proving)
    return moved or _reached_gate(before, after)


def _reached_gate(before: CycleState, after: CycleState) -> bool:
    return before.gates.reached is None and after.gates.reached is not None


def _objections(state: CycleState, phase: Phase) -> str:
    return state.analyst_feedback if phase is Phase.ANALYST else state.programmer_feedback


def pending(state: CycleState) -> Iterator[Entry]:
    """The reviews and tests that this round still needs."""
    if state.phase is Phase.DONE:
        return
    part, plan, gate = f"round {state.round}", state.plan, state.gates.reached
    # At a gate, the phase is over.
    over = 1 if gate is not None else 0
    left = () if state.proving else PHASE_DEFS[PHASE_DEFS.index(phase_def(state.phase)) + over :]
    if gate is not None:
        yield entry(part, f"a person's decision about {gate.id}", "due now")
    for stage in left:
        what = "test" if stage.reviewer is None else f"review of the {stage.author}'s work"
        who = (stage.reviewer or stage.author).replace("_", " ")
        yield entry(part, f"{what} by the {who}", _when(state, stage))
    if gate is not None and gate.at is GateKind.BEFORE_PASS:
        return
    if plan.proof is not None and state.baseline is not None:
        when = "due now" if state.proving else "after the tester's PASS"
        yield entry(part, f"proof with `{plan.proof.command}`, by Logos in clean rooms", when)
    elif plan.verify_pass and plan.test_command:
        when = "due now" if state.checking else "after the tester's PASS"
        yield entry(part, f"`{plan.test_command}`, run by Logos", when)


def _when(state: CycleState, stage: PhaseDef) -> str:
    if state.outcome is not None:
        return "not run"
    if state.phase is not stage.phase:
        return "to come"
    if stage.reviewer is None:
        return "due now"
    around = f"cycle {state.cycle} of at most {state.last_cycle}"
    return f"due now, {around}" if state.role is stage.reviewer else f"after the {stage.author}'s turn, {around}"


def blocked(state: CycleState) -> Iterator[Entry]:
    if state.outcome is Outcome.BLOCKED and state.phase is Phase.TESTER:
        yield entry("progress", f"round {state.round}", state.reason, Severity.BAD, state.feedback)
    elif state.outcome is Outcome.BLOCKED:
        phase = state.phase
        yield entry("review", f"{phase}'s work", state.reason, Severity.BAD, _objections(state, phase))


def decisions(steps: Steps) -> Iterator[Entry]:
    """Where the run continued despite objections, and where a verdict was overruled by a check."""
    for step in steps:
        before, after = step.before, step.after
        match step.record.event:
            case CheckRan(_, command, exit_code) if before.checking and exit_code != 0:
                how = f"the tester's PASS is not believed: `{command}` exits {exit_code}"
                yield entry("verdict", f"round {before.round}", how, Severity.BAD, step=step)
            case ProofRan() if why := _disbelief(before, step.record.event):
                yield entry("verdict", f"round {before.round}", why, Severity.BAD, step=step)
            case WorkUndone(turn, files):
                how = f"{listed(files[:_FILES])}, changed by an agent that was to judge, put back"
                yield entry("role", turn, how, Severity.BAD, step=step)
            case WorkCompared(_, ()) if before.comparing and before.failing is None:
                how = "the tester's PASS is not believed: no file has changed since the run started"
                yield entry("verdict", f"round {before.round}", how, Severity.BAD, step=step)
            case TurnAnswered(_, text) if before.phase not in (after.phase, Phase.TESTER):
                if approval(before, text)[1] is Severity.WARNING:
                    how = f"the run goes on without approval of the {before.phase}'s work"
                    objections = _objections(after, before.phase)
                    yield entry("review", f"round {before.round}", how, Severity.WARNING, objections, step)
            case _:
                pass


def _disbelief(before: CycleState, ran: ProofRan) -> str:
    why = failure_of(before, ran)
    return f"the tester's PASS is not believed: {why}" if why else ""


def _severity(good: bool) -> Severity:
    return Severity.GOOD if good else Severity.BAD
