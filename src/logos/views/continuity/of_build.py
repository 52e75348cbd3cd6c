"""The sections of a build's report: specs, components and levels that stand, what is unproven, what waits for what."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from logos.domain.events import ProofRan, QuestionResolved, WorkMerged
from logos.domain.gates import GateKind
from logos.domain.levels import LEVELS, Level
from logos.domain.reports import TurnKind
from logos.domain.turns import Outcome
from logos.flows.levels.reconcile import Cause
from logos.flows.levels.state import LevelsState, LevelStatus, Stage
from logos.views.continuity.entries import Entry, Sections, Transition, entry, printable
from logos.views.events import Severity, proposal_in_short
from logos.views.proof import failure_of
from logos.views.text import count, listed
from logos.views.turns import PROOF_STEPS, proof_in_words

Steps = Sequence[Transition[LevelsState]]

_CLASHES = 3


def sections(state: LevelsState, steps: Steps) -> Sections:
    return Sections(
        tuple(completed(state, steps)),
        tuple(pending(state)),
        tuple(blocked(state)),
        tuple(decisions(state, steps)),
        tuple(specs(steps)),
        tuple(merges(steps)),
    )


def completed(state: LevelsState, steps: Steps) -> Iterator[Entry]:
    """Specs in force from the purpose down, components that are built, and valid levels from syntax up."""
    origins = _origins(steps)
    for level in state.levels:
        spec = state.spec_of(level)
        if spec is not None:
            yield entry("spec", title(level), f"v{spec.version}: {spec.summary}", step=origins.get(spec.id))
    for component in state.components:
        contribution = state.contributions.get(component.name)
        if contribution is not None and not _again(state, component.name):
            done = "merged" if contribution.merged else "built, not merged yet"
            why = contribution.report.why_no_tests
            untested = f", no tests: {why}" if why else ""
            tests = f", {count(len(contribution.tests), 'test')}" if contribution.tests else untested
            how = f"{done}; {count(len(contribution.files), 'file')}{tests}"
            severity = Severity.GOOD if contribution.merged else Severity.NORMAL
            yield entry("component", component.name, how, severity, step=origins.get(component.name))
    for level in reversed(state.levels):
        if state.standing.get(level) in (LevelStatus.PROVEN, LevelStatus.PASSED):
            yield entry("validation", title(level), _valid(state, level), Severity.GOOD, step=origins.get(level))
    yield from proof_steps(steps)


def proof_steps(steps: Steps) -> Iterator[Entry]:
    """What Logos ran in clean rooms, in order."""
    for step in steps:
        ran, progress = step.record.event, step.before.proof
        if isinstance(ran, ProofRan) and progress is not None and progress.step is ran.step:
            why = failure_of(step.before, ran)
            severity = Severity.BAD if why else Severity.GOOD
            yield entry("proof", PROOF_STEPS[ran.step], proof_in_words(ran), severity, why, step)


def title(level: Level) -> str:
    return f"{level.name} {LEVELS[level].title}"


def _origins(steps: Steps) -> Mapping[str | Level, Transition[LevelsState]]:
    """The last transition of each spec, component and level, by the spec's id, the name and the level."""
    found: dict[str | Level, Transition[LevelsState]] = {}
    for step in steps:
        before, after = step.before, step.after
        found |= dict.fromkeys((spec.id for spec in after.specs[len(before.specs) :]), step)
        for name, contribution in after.contributions.items():
            old = before.contributions.get(name)
            if old is None or (old.commit, old.merged) != (contribution.commit, contribution.merged):
                found[name] = step
        for level, standing in after.standing.items():
            if before.standing.get(level) is not standing:
                found[level] = step
    return found


def _again(state: LevelsState, name: str) -> bool:
    """Whether a component that was built before is being worked on again."""
    return state.stage is Stage.BUILD and name in state.todo and name not in state.gathered


def _valid(state: LevelsState, level: Level) -> str:
    ran = listed(f"`{proof.command}`" for proof in state.proofs if proof.level is level)
    if state.standing.get(level) is LevelStatus.PROVEN:
        return f"proven by {ran}, run by Logos"
    return f"finds its spec satisfied{f'; Logos itself ran {ran}' if ran else ''}"


def pending(state: LevelsState) -> Iterator[Entry]:
    """The levels that are not valid yet in this sweep, from syntax up."""
    if state.outcome is Outcome.REJECTED:
        return
    part = f"sweep {state.sweep}"
    for level in reversed(state.levels):
        match state.standing.get(level):
            case LevelStatus.FAILED:
                left = f"; reconciliation {state.dispute.id} is to settle it" if state.dispute else ""
                yield entry(part, title(level), f"FAILED{left}", Severity.BAD)
            case LevelStatus.UNPROVEN:
                yield entry(part, title(level), "unproven: telos.toml names no tool for it", Severity.WARNING)
            case None:
                yield entry(part, title(level), _awaited(state, level))
            case LevelStatus.PROVEN | LevelStatus.PASSED:
                pass
    gate = state.gates.reached
    if gate is not None:
        yield entry(part, f"a person's decision about {gate.id}", "due now")
    proven = state.approved or (gate is not None and gate.at is GateKind.BEFORE_PASS)
    if state.plan.proof is not None and state.baseline is not None and state.outcome is None and not proven:
        when = "due now" if state.stage is Stage.PROVE else "when every level is satisfied"
        yield entry(part, f"proof with `{state.plan.proof.command}`, by Logos in clean rooms", when)


def _awaited(state: LevelsState, level: Level) -> str:
    judging = [ask.turn for ask in state.pending_turns if (ask.level, ask.kind) == (level, TurnKind.VALIDATE)]
    if judging:
        return f"is judging its spec now ({judging[0]})"
    tools = state.tools_of(level)
    left = state.unproven_tools(level) if state.stage is Stage.UP else tools
    to_run = f"{listed(f'`{tool.command}`' for tool in left)} not run yet" if left else ""
    judge = "" if level <= Level.L2 else "has not judged its spec yet"
    return "; ".join(part for part in (to_run, judge) if part) or "not reached yet"


def blocked(state: LevelsState) -> Iterator[Entry]:
    """What cannot continue, and what it waits for."""
    if state.outcome is Outcome.REJECTED:
        instead = "; ".join(state.alternatives)
        about = f"instead: {instead}" if instead else ""
        yield entry("purpose", "the request", state.violation or state.reason, Severity.BAD, about)
    question = state.question
    if question is not None:
        options = [f"{place}. {proposal_in_short(option)}" for place, option in enumerate(question.options, 1)]
        how = f"a person must decide: {question.text}"
        yield entry("question", question.id, how, Severity.ALARM, " ".join(options))
    else:
        for name, why in sorted(state.stuck.items()):
            yield entry("stuck", name, f"waits for a person: {why}", Severity.WARNING)
    yield from _waiting(state) if state.outcome in (None, Outcome.BLOCKED) else ()


def _waiting(state: LevelsState) -> Iterator[Entry]:
    """Components that cannot be built yet: others come first, or a conflict must be settled."""
    components = state.components
    missing = {part.name for part in components if part.name not in state.contributions or _again(state, part.name)}
    for component in (part for part in components if part.name in missing):
        first = listed(name for name in component.depends_on if name in missing)
        waits = first or (f"reconciliation {state.dispute.id}" if state.dispute is not None else "")
        if waits:
            yield entry("component", component.name, f"waits for {waits}", Severity.WARNING, component.purpose)


def decisions(state: LevelsState, steps: Steps) -> Iterator[Entry]:
    """Reconciliations, ended and open, and what a person decided."""
    for step in steps:
        before, after, event = step.before, step.after, step.record.event
        for settled in after.settled[len(before.settled) :]:
            rounds = "" if settled.by == "a person" else f" in {count(settled.round, 'round')}"
            how = f"decided by {settled.by}{rounds}: {proposal_in_short(settled.proposal)}"
            what = f"{settled.id}, {settled.cause} at {settled.level.name}"
            part = "rejection" if settled.cause is Cause.REJECTED else "reconciliation"
            yield entry(part, what, how, Severity.GOOD, settled.question, step)
        answered = before.question is not None and after.question is None and after.settled == before.settled
        if isinstance(event, QuestionResolved) and answered and before.question is not None:
            how = f"a person answered: {event.text}"
            yield entry("answer", event.question, how, Severity.GOOD, before.question.text, step)
        now = after.dispute
        if now is not None and before.dispute is None and state.dispute is not None and state.dispute.id == now.id:
            how = f"open, round {state.dispute.round} of at most {state.plan.max_rounds}"
            what = f"{now.id}, {now.cause} at {now.level.name}"
            yield entry("reconciliation", what, how, Severity.WARNING, now.question, step)


def specs(steps: Steps) -> Iterator[Entry]:
    """Every spec that was written, and which replaced another."""
    for step in steps:
        for spec in step.after.specs[len(step.before.specs) :]:
            part = "spec revised" if spec.version > 1 else "spec written"
            # Authors' specs are written together, when all of them are done.
            yield replace(entry(part, spec.id, spec.summary, step=step), turn=printable(spec.turn))


def merges(steps: Steps) -> Iterator[Entry]:
    for step in steps:
        event = step.record.event
        if isinstance(event, WorkMerged) and event.clashes:
            shown = "; ".join(clash.words for clash in event.clashes[:_CLASHES])
            how = f"nothing merged, {count(len(event.clashes), 'conflict')}: {shown}"
            yield entry("merge", event.turn, how, Severity.BAD, step=step)
        elif isinstance(event, WorkMerged):
            names = listed(contribution.component.name for contribution in step.before.unmerged)
            how = f"{names or 'work'} merged, commit {event.commit[:7]}"
            yield entry("merge", event.turn, how, Severity.GOOD, step=step)
