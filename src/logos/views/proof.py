"""The certificate of a run: what was proven of its result, by which steps, on which files, and who approved what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from logos.domain.events import CheckRan, ProofRan, Recorded
from logos.domain.levels import Level
from logos.domain.plans import CyclePlan
from logos.domain.proof import AcceptanceTests, CountedTests, ProofRules, ProofStep, RoomReport
from logos.domain.roles import Role
from logos.domain.turns import Outcome
from logos.flows.cycle.flow import CycleState
from logos.flows.proof.declared import Declared, NamedTest, declared_in, unrelated_in
from logos.flows.proof.guarded import allowed, is_guarded
from logos.flows.proof.verdict import ProofProgress, guarded_changes, judged, still_failing
from logos.views.approvals import Approval, approvals_in
from logos.views.run import RunView, State
from logos.views.text import first_line

# What a step shows when it supports the PASS.
_SHOWS = {
    ProofStep.BASELINE: "The tests run in a clean room on the files as they were before the run.",
    ProofStep.RESULT: "The result passes its own tests, and every test of before the run still runs.",
    ProofStep.GUARDED: "The result passes the tests, and what steers them, as they were before the run.",
    ProofStep.CANARY: "Planted tests that must fail are reported as failed: nothing hides failures.",
    ProofStep.RED: "New or changed tests fail without the change: they test it.",
    ProofStep.BLIND_BASE: "Acceptance tests ran on the files before the run, when they were written.",
    ProofStep.BLIND: "The result passes acceptance tests that no author of it has seen.",
}
_NOT_RED = "No new or changed test fails without the change: it is untested, as a refactoring may be."
_NOTHING_PUT_BACK = "No file that steers the tests differs from before the run, so the result stands for itself."
_NOTHING_PLANTED = "No test could be made to fail, so it is not known whether failures are noticed."
_LINE = 300
PERSON = "a person (--may-change, proof.may_change)"
# The levels whose specs may declare that tests must change.
_DECLARING = (Level.L3, Level.L2)


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of a proof. `failure` says why it does not support a PASS; empty if it does."""

    turn: str
    step: ProofStep
    at: float
    commit: str
    tree: str
    command: str
    exit_code: int
    tests: CountedTests | None
    subject: tuple[str, ...]
    problem: str
    failure: str
    room: RoomReport
    output: str

    @property
    def shows(self) -> str:
        """What it shows, in one sentence."""
        if self.problem or self.failure:
            return first_line(self.problem or self.failure, _LINE)
        if self.step is ProofStep.RED and not _is_red(self):
            return _NOT_RED
        if self.step is ProofStep.GUARDED and not self.subject:
            return _NOTHING_PUT_BACK
        if self.step is ProofStep.CANARY and not self.subject:
            return _NOTHING_PLANTED
        return _SHOWS[self.step]

    @property
    def supports(self) -> bool:
        return not (self.problem or self.failure)


@dataclass(frozen=True, slots=True)
class DeclaredChange:
    """A pattern of tests, or of what steers them, that may change; `files` are those that did."""

    path: str
    why: str
    by: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeclaredFailure:
    """A test that failed before the run and may go on failing; `tests` are the ids that it stands for, and still do."""

    test: str
    why: str
    by: str
    tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AcceptanceTexts:
    """What the acceptance tester wrote: its response, and its files by their paths in the project."""

    response: str
    files: Mapping[str, str]
    requirements: tuple[NamedTest, ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenBy:
    """The programs that wrote a certificate."""

    logos: str = ""
    python: str = ""
    git: str = ""
    system: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """`not_proven`: why the result of the run is not proven; empty if it is.

    `changed` are the paths that differ between base and result, None where they are too many to name; `guarded` are
    those of them that steer tests and that nobody declared. `prefix` is the work dir in its repository.
    """

    run: str
    flow: str
    request: str
    outcome: Outcome | None
    verified: bool
    reason: str
    not_proven: str
    rules: ProofRules | None
    baseline: StepRecord | None
    steps: tuple[StepRecord, ...]
    changed: tuple[str, ...] | None
    declared: tuple[DeclaredChange, ...]
    guarded: tuple[str, ...]
    approvals: tuple[Approval, ...]
    started: float
    last: float
    events: int
    fold_rules: int
    head: str = ""
    prefix: str = ""
    # The differences of declared and guarded files, as a patch.
    patch: str = ""
    written_by: WrittenBy = WrittenBy()
    # Failures of before the run that were declared unrelated to it.
    unrelated: tuple[DeclaredFailure, ...] = ()
    # Blind acceptance tests that the result had to pass: their hashes, and the texts once the run has ended.
    acceptance: AcceptanceTests | None = None
    acceptance_texts: AcceptanceTexts | None = None

    @property
    def result(self) -> StepRecord | None:
        """The step that ran the result's own tests; its commit and tree are the result."""
        return next((step for step in self.steps if step.step is ProofStep.RESULT), None)

    @property
    def is_proven(self) -> bool:
        return not self.not_proven


@dataclass(frozen=True, slots=True)
class _LastProof:
    """The steps of the newest proof, and what was known when it began."""

    progress: ProofProgress
    rules: ProofRules
    state: State
    ran: tuple[tuple[Recorded, ProofRan], ...]


def certificate_of(
    view: RunView, *, head: str = "", prefix: str = "", written_by: WrittenBy | None = None
) -> Certificate:
    """The certificate of a run as its log tells it; the rest is known to who writes it."""
    baseline = _baseline(view.records)
    last = _last_proof(view) if baseline is not None else None
    steps = tuple(_judged(last, baseline[1])) if last is not None and baseline is not None else ()
    declared = _declared(last) if last is not None else ()
    return Certificate(
        run=view.run,
        flow=view.plan.flow,
        request=view.plan.request,
        outcome=view.outcome,
        verified=bool(view.state.verified),
        reason=view.reason,
        not_proven=_why_not(view, steps),
        rules=last.rules if last is not None else view.plan.proof,
        baseline=step_record(*baseline) if baseline is not None else None,
        steps=steps,
        changed=last.progress.changed if last is not None else (),
        declared=declared,
        guarded=_guarded(last) if last is not None else (),
        approvals=tuple(approvals_in(view)),
        started=view.started,
        last=view.last,
        events=view.records[-1].seq,
        fold_rules=view.plan.rules,
        head=head,
        prefix=prefix,
        written_by=written_by or WrittenBy(),
        unrelated=_unrelated(last) if last is not None else (),
        acceptance=last.progress.acceptance if last is not None else None,
    )


# -- the steps


def failure_of(before: State, ran: ProofRan) -> str:
    """Why a step that was due in this state does not support a PASS, in one line; empty if it does."""
    progress, baseline, rules = before.proof, before.baseline, before.plan.proof
    if ran.problem:
        return first_line(ran.problem, _LINE)
    if progress is None or baseline is None or rules is None or progress.step is not ran.step:
        return ""
    return first_line(judged(progress, ran, baseline, rules).failure, _LINE)


def _baseline(records: Iterable[Recorded]) -> tuple[Recorded, ProofRan] | None:
    found = None
    for record in records:
        if isinstance(record.event, ProofRan) and record.event.step is ProofStep.BASELINE:
            found = (record, record.event)
    return found


def _last_proof(view: RunView) -> _LastProof | None:
    """The newest proof: it begins with the result's own tests. A step that was repeated counts as it ran last."""
    found: _LastProof | None = None
    before: State | None = None
    for record, after in zip(view.records, view.states, strict=True):
        event = record.event
        if isinstance(event, ProofRan) and event.step is not ProofStep.BASELINE and before is not None:
            if event.step is ProofStep.RESULT and before.proof is not None and before.plan.proof is not None:
                fresh = replace(before.proof, step=ProofStep.RESULT, ran=())
                found = _LastProof(fresh, before.plan.proof, before, ((record, event),))
            elif found is not None and event.step is not ProofStep.BLIND_BASE:
                others = tuple(ran for ran in found.ran if ran[1].step is not event.step)
                found = replace(found, ran=(*others, (record, event)))
        before = after
    return found


def _judged(last: _LastProof, baseline: ProofRan) -> Iterator[StepRecord]:
    progress = last.progress
    for record, ran in last.ran:
        judgement = judged(replace(progress, step=ran.step), ran, baseline, last.rules)
        progress = judgement.progress
        yield replace(step_record(record, ran), failure=judgement.failure)


def step_record(record: Recorded, ran: ProofRan) -> StepRecord:
    """A step as it ran; what it means is not judged."""
    return StepRecord(
        turn=ran.turn,
        step=ran.step,
        at=record.at,
        commit=ran.commit,
        tree=ran.tree,
        command=ran.command,
        exit_code=ran.exit_code,
        tests=ran.tests,
        subject=ran.subject,
        problem=ran.problem,
        failure="",
        room=ran.room,
        output=ran.output,
    )


def _is_red(step: StepRecord) -> bool:
    return bool(step.tests.failed) if step.tests is not None else step.exit_code != 0


@dataclass(frozen=True, slots=True)
class Caught:
    """A step of a proof that did not let a PASS through: `files` are those that it put back."""

    turn: str
    files: tuple[str, ...]
    failed: int


def caught_in(view: RunView) -> tuple[Caught, ...]:
    """The times when the result passed its own tests, and not those of before the run."""
    found: list[Caught] = []
    for record, before in zip(view.records[1:], view.states, strict=False):
        ran, rules = record.event, before.plan.proof
        if not isinstance(ran, ProofRan) or ran.step is not ProofStep.GUARDED or not failure_of(before, ran):
            continue
        files = guarded_changes(before.proof, rules) if before.proof is not None and rules is not None else ()
        found.append(Caught(ran.turn, files or ran.subject, len(ran.tests.failed) if ran.tests is not None else 0))
    return tuple(found)


# -- why it is not proven


def _why_not(view: RunView, steps: tuple[StepRecord, ...]) -> str:
    wrong = next((step for step in steps if not step.supports), None)
    if view.outcome is not Outcome.PASSED:
        ended = f"the {view.words.run} has ended {view.outcome}: {view.reason}" if view.outcome else "it has not ended"
        return f"{ended}; {wrong.turn}: {wrong.shows}" if wrong is not None else ended
    if steps and wrong is None and view.state.verified:
        return ""
    if any(isinstance(record.event, CheckRan) for record in view.records) and view.state.verified:
        return "the tests were run in the work tree, which agents can change, and not in a clean room"
    plan = view.plan
    if plan.proof is None:
        known = plan.test_command if isinstance(plan, CyclePlan) else any(tool.level is Level.L2 for tool in plan.tools)
        if known:
            return "nobody has run the tests but the agents: verification was turned off (VERIFY_PASS=0)"
        none = "telos.toml names no tool of L2" if view.build is not None else "no test command is known (--test CMD)"
        return f"nobody has run the tests but the agents: {none}"
    return f"{wrong.turn}: {wrong.shows}" if wrong is not None else "no step of a proof has run"


# -- declared changes


def _guarded(last: _LastProof) -> tuple[str, ...]:
    """Changed paths that steer tests and that nobody declared: by their names, and those that the proof put back."""
    put_back = (path for _, ran in last.ran if ran.step is ProofStep.GUARDED for path in ran.subject)
    return tuple(dict.fromkeys((*guarded_changes(last.progress, last.rules), *put_back)))


def _declared(last: _LastProof) -> tuple[DeclaredChange, ...]:
    """The patterns of guarded paths that may differ: who declared each, why, and what differs."""
    guarded = [path for path in last.progress.changed or () if is_guarded(path, last.rules)]
    reasons = {f"/{declared.path}": (declared.why, by) for by, declared in _declarations(last.state)}
    reasons |= dict.fromkeys(last.rules.may_change, ("", PERSON))
    return tuple(
        DeclaredChange(
            path.removeprefix("/"),
            *reasons.get(path, ("", "")),
            tuple(file for file in guarded if allowed(file, (path,))),
        )
        for path in dict.fromkeys(last.progress.declared)
    )


def _unrelated(last: _LastProof) -> tuple[DeclaredFailure, ...]:
    """The declarations that excused a test: who declared it, and what still failed in the end."""
    progress = replace(last.progress, ran=tuple(ran for _, ran in last.ran))
    still = still_failing(progress)
    found = ((by, one) for by, text in _declaring(last.state) for one in unrelated_in(text))
    return tuple(
        DeclaredFailure(one.test, one.why, by, tuple(filter(one.names, still)))
        for by, one in found
        if any(map(one.names, progress.unrelated))
    )


def _declarations(state: State) -> Iterator[tuple[str, Declared]]:
    """Who declared which tests that must change."""
    yield from ((by, declared) for by, text in _declaring(state) for declared in declared_in(text))


def _declaring(state: State) -> Iterator[tuple[str, str]]:
    """Who may declare something, and where."""
    if isinstance(state, CycleState):
        yield "the analyst, approved by the peer analyst", state.said(Role.ANALYST)
        return
    for level in _DECLARING:
        for name in ("", *(component.name for component in state.components)):
            spec = state.spec_of(level, name)
            for section in spec.sections if spec is not None else ():
                yield f"the spec of {f'{level.name} {name}'.strip()}", f"{section.name}:\n{section.text}"
