"""The cycle: analyst → peer analyst → programmer → peer programmer → tester, and a short retry on FAIL."""

from dataclasses import asdict
from types import MappingProxyType

from logos.domain import events
from logos.domain.events import Event, ProofRan
from logos.domain.gates import GateKind
from logos.domain.plans import CyclePlan, CycleSeed, OnExhausted, OnNoProgress
from logos.domain.proof import ProofStep
from logos.domain.records import replace
from logos.domain.roles import ROLE_DEFS, Phase, Role, phase_after, phase_def, phase_def_of
from logos.domain.turns import Action, Check, Compare, Outcome, TurnId
from logos.flows import condense, guidance
from logos.flows.cycle import blind
from logos.flows.cycle import findings as ledger
from logos.flows.cycle.briefing import turn_for
from logos.flows.cycle.conversations import asked, new_conversation, remembered
from logos.flows.cycle.gating import analysis_in_question, result_in_question
from logos.flows.cycle.progress import MOST_ROUNDS, FailedRound, blocked_reason, failed_round, standstill
from logos.flows.cycle.proving import new_proof
from logos.flows.cycle.state import NO_OUTPUTS, CycleState
from logos.flows.cycle.verdicts import ReportedResult, is_approved, read_result
from logos.flows.gates import rejection
from logos.flows.proof.verdict import action_for, failed_tests, in_words, judged

NOTHING_CHANGED = (
    "The tester reported PASS, but no file outside the specs has changed since the run started: nothing is implemented."
)

NOT_STORED = "the work tree cannot be stored as a snapshot, so nothing can be proven; the warning before this says why"

# A tester without a verdict, and a reviewer that changed files, are asked once more.
TESTER_TRIES = 2
REVIEW_TRIES = 2
OVERSTEPPED = (
    "REVISE: the reviewer changed files that it was to review. They were put back; its approval does not count."
)


class Cycle:
    def __init__(self, plan: CyclePlan, seed: CycleSeed | None = None) -> None:
        self.plan = plan
        self.seed = seed

    def start(self) -> CycleState:
        if self.seed is not None:
            return _imported(self.plan, self.seed)
        first = self.plan.start
        return CycleState(self.plan, phase=phase_def_of(first).phase, role=first)

    def due(self, state: CycleState) -> tuple[Action, ...]:
        if state.outcome is not None or state.stalled is not None:
            return ()
        if state.gates.reached is not None:
            return state.gates.due
        if state.writes_blind_tests:
            return (blind.due(state),)
        if state.comparing:
            return (Compare(state.action_id),)
        if state.checking:
            return (Check(state.action_id, state.plan.test_command),)
        if state.proof is not None and state.baseline is not None and state.plan.proof is not None:
            return (action_for(state.proof, state.baseline, state.plan.proof, f"r{state.round}"),)
        return (turn_for(state),)

    def apply(self, state: CycleState, event: Event) -> CycleState:
        match event:
            case events.TurnAsked(turn, agent, prompt):
                return asked(state, turn, agent, prompt)
            case events.TurnAnswered(turn, text):
                return _answered(state, text) if state.awaits(turn) else state
            case events.TurnFailed(_, trouble, message):
                return replace(state, stalled=message, trouble=trouble) if state.outcome is None else state
            case events.RunResumed(CyclePlan() as plan):
                return _resumed(state, plan)
            case events.RunForked(_, _, CyclePlan() as plan):
                none = frozenset[Role]()
                return _resumed(replace(state, briefed=none, begun=none, profiled=none), plan)
            case events.RunAbandoned(why):
                if state.outcome not in (None, Outcome.BLOCKED):
                    return state
                return replace(state, outcome=Outcome.ABANDONED, reason=why, stalled=None, trouble=None)
            case events.WorkUndone(turn):
                return replace(state, overstepped=True) if state.awaits(turn) else state
            case events.CheckRan(turn, command, exit_code, output):
                awaited = state.checking and turn == state.action_id and state.outcome is None
                return _checked(state, command, exit_code, output) if awaited else state
            case events.WorkCompared(turn, files, commit, tree):
                awaited = state.comparing and turn == state.action_id and state.outcome is None
                return _compared(replace(state, tree=tree), files, commit) if awaited else state
            case ProofRan(_, ProofStep.BASELINE):
                return replace(state, baseline=event)
            case ProofRan(_, ProofStep.BLIND_BASE):
                return blind.tried(state, event)
            case events.AcceptanceWritten():
                return blind.written(state, event)
            case ProofRan(turn):
                awaited = state.proof is not None and turn == state.action_id and state.outcome is None
                return _proven(state, event) if awaited else state
            case events.TerminalOpened(agent):
                return new_conversation(state, Role(agent), event)
            case events.RunStarted() | events.TerminalClosed() | events.TurnSent() | events.Noted() | events.RunEnded():
                return state
            case events.WorkGathered() | events.WorkMerged() | events.QuestionResolved() | events.RecordsTampered():
                return state
            case events.GateOpened():
                return replace(state, gates=state.gates.after(event)) if state.outcome is None else state
            case events.GateDecided(gate):
                return _decided(state, event) if state.gate is not None and state.gate.id == gate else state
            case events.PersonSaid():
                return replace(state, guidance=guidance.kept(state.guidance, event))
            case events.PermissionDecided() | events.RunResumed() | events.RunForked():
                # A plan of the other flow changes nothing.
                return state

    def outcome(self, state: CycleState) -> Outcome | None:
        return state.outcome


def _resumed(state: CycleState, plan: CyclePlan) -> CycleState:
    """New settings may change what follows the tester's PASS."""
    before = state.plan.proof
    state = replace(state, plan=replace(plan, rules=state.plan.rules), stalled=None, trouble=None)
    state = blind.resumed(state)
    if state.outcome is Outcome.BLOCKED and state.phase is Phase.TESTER and plan.on_no_progress is OnNoProgress.GO_ON:
        return _retry(replace(state, outcome=None, reason=""))
    if state.outcome is None and (state.gates.reached is not None or state.approved):
        return _resumed_at_gate(state, same_proof=plan.proof == before)
    if state.outcome is not None or not state.proving:
        return state
    if state.failing is not None:
        return state if plan.on_no_progress is not None else _round_failed(state, state.failing)
    # The work tree may have changed since then. Where it has not, steps that ran are not repeated.
    kept = state.proof if plan.proof == before else None
    return _claimed(replace(state, comparing=False, checking=False, proof=kept))


def _imported(plan: CyclePlan, seed: CycleSeed) -> CycleState:
    """The state of an imported run; a phase whose upstream output is missing falls back to that phase."""
    outputs = MappingProxyType({**NO_OUTPUTS, **dict(seed.outputs)})
    state = replace(CycleState(plan, **asdict(seed), fresh=False), outputs=outputs)
    # A file that says "done" but RUNNING was written between verdict and status: test again.
    stage = phase_def(Phase.TESTER if seed.phase is Phase.DONE else seed.phase)
    while stage.upstream is not None and not state.said(stage.upstream):
        stage = phase_def_of(stage.upstream)
    # An author whose answer is not reviewed yet is not asked again.
    reviewed = stage.reviewer is None or not state.said(stage.author) or bool(state.said(stage.reviewer))
    role = stage.author if reviewed or stage.reviewer is None else stage.reviewer
    return replace(state, phase=stage.phase, role=role)


def _resumed_at_gate(state: CycleState, *, same_proof: bool) -> CycleState:
    """A person may have taken the gate away. By other rules, the result must be proven again."""
    gate = state.gates.reached
    if not same_proof and (gate is None or gate.at is GateKind.BEFORE_PASS):
        return _claimed(replace(state, gates=state.gates.left, proof=None, verified=False, approved=False))
    return _go_on(state, gate.at) if gate is not None and gate.at not in state.plan.gates else state


def _answered(state: CycleState, text: str) -> CycleState:
    outputs = {**state.outputs, ROLE_DEFS[state.role].answer: text}
    stage = phase_def(state.phase)
    if state.role is stage.author and stage.reviewer is not None:
        outputs[ROLE_DEFS[stage.reviewer].answer] = ""
    overstepped, again = state.overstepped, state.attempt
    state = replace(
        state,
        guidance=guidance.after_answer(state.guidance, state.turn_id),
        outputs=MappingProxyType(outputs),
        memory=remembered(state, text),
        begun=(state.begun | {state.role}) - state.forgetful,
        fresh=False,
        overstepped=False,
        attempt=1,
    )
    if state.role is stage.reviewer:
        if overstepped and again < REVIEW_TRIES:
            return replace(state, attempt=again + 1)
        return _reviewed(state, f"{OVERSTEPPED}\n\n{text}" if overstepped else text, counts=not overstepped)
    if stage.reviewer is not None:
        return replace(state, role=stage.reviewer)
    return _tested(state, text)


def _reviewed(state: CycleState, text: str, *, counts: bool = True) -> CycleState:
    stage, rules = phase_def(state.phase), state.plan.review
    raised = ledger.in_review(text, state.role, state.findings)
    state = replace(state, findings=ledger.updated(state.findings, state.role, state.role, state.turn_id, raised))
    nothing_reviewed = not state.said(stage.author)
    if (
        counts
        and not nothing_reviewed
        and is_approved(text, state.cycle, state.phase, rules, strict=state.plan.quoted_verdicts_ignored)
    ):
        state = replace(state, analysis_approved=state.analysis_approved or state.phase is Phase.ANALYST)
        return _reviews_over(_object(state, ""))
    state = _object(state, condense.review_notes(text, state.plan.condense))
    # A run that starts at a reviewer has nothing to review: its author gets a turn whatever the limit.
    if state.cycle < state.last_cycle or (nothing_reviewed and state.cycle == 1):
        return replace(state, role=stage.author, cycle=state.cycle + 1)
    if rules.on_exhausted is OnExhausted.BLOCK:
        reason = f"the {stage.reviewer} did not approve in {state.cycle} review cycles"
        return replace(state, outcome=Outcome.BLOCKED, reason=reason)
    return _reviews_over(state)


def _reviews_over(state: CycleState) -> CycleState:
    """The phase is over; after the analysis, a person may have to approve it."""
    if state.phase is not Phase.ANALYST:
        return _enter(state, phase_after(state.phase))
    if GateKind.AFTER_PLAN in state.plan.gates:
        return _at_gate(state, GateKind.AFTER_PLAN, analysis_in_question(state))
    return _go_on(state, GateKind.AFTER_PLAN)


def _at_gate(state: CycleState, at: GateKind, question: str) -> CycleState:
    return replace(state, gates=state.gates.reach(f"r{state.round}", at, question))


def _decided(state: CycleState, decided: events.GateDecided) -> CycleState:
    """A rejection gives a review cycle, or a round, of its own: it costs what it costs, but uses up no limit."""
    assert state.gate is not None
    at = state.gate.at
    if decided.approved:
        return _go_on(state, at)
    state = replace(state, gates=state.gates.left)
    if at is GateKind.AFTER_PLAN:
        words = rejection("this analysis", decided)
        state = replace(state, rejected=words, analyst_feedback=words, analysis_approved=False)
        return replace(state, role=phase_def(state.phase).author, given_cycles=state.cycle, cycle=state.cycle + 1)
    words, rounds = rejection("this result, which had passed its tests", decided), state.given_rounds + 1
    state = replace(state, rejected=words, given_rounds=rounds, proof=None, verified=False, passing="", no_progress="")
    return _retry(_heard(state, ""))


def _go_on(state: CycleState, at: GateKind) -> CycleState:
    """The gate is behind the run. Before a PASS the files are compared once more: they may have changed meanwhile."""
    state = replace(state, gates=state.gates.left)
    if at is GateKind.BEFORE_PASS:
        return replace(state, approved=True, comparing=True)
    return _enter(replace(state, rejected=""), phase_after(state.phase))


def _object(state: CycleState, notes: str) -> CycleState:
    """Set the reviewer's objections to this phase; they outlive the phase when it was not approved."""
    if state.phase is Phase.ANALYST:
        notes = _with_rejection(state, notes) if notes else notes
        return replace(state, analyst_feedback=notes)
    return replace(state, programmer_feedback=notes)


def _enter(state: CycleState, phase: Phase) -> CycleState:
    state = replace(state, phase=phase, role=phase_def(phase).author, cycle=1, given_cycles=0)
    return blind.entered_programming(state)


def _tested(state: CycleState, text: str) -> CycleState:
    verdict = read_result(text, strict=state.plan.quoted_verdicts_ignored)
    if verdict is ReportedResult.UNCLEAR and state.cycle < TESTER_TRIES:
        return replace(state, cycle=state.cycle + 1)
    if verdict is not ReportedResult.PASS:
        return _failed(state, condense.test_evidence(text, state.plan.condense), state.turn_id, Role.TESTER)
    return _claimed(state)


def _claimed(state: CycleState) -> CycleState:
    """The tester reported PASS. A run that starts at the tester, or never asked the programmer, may change nothing."""
    if _expects_change(state) or _can_prove(state):
        return replace(state, comparing=True)
    return _verify(state)


def _expects_change(state: CycleState) -> bool:
    plan = state.plan
    return plan.expect_change and plan.start is not Role.TESTER and bool(state.said(Role.PROGRAMMER))


def _can_prove(state: CycleState) -> bool:
    return state.plan.proof is not None and state.baseline is not None


def _compared(state: CycleState, files: tuple[str, ...] | None, commit: str) -> CycleState:
    if state.failing is not None:
        return _round_failed(state, state.failing)
    if state.approved:
        proven = state.proof.result if state.proof is not None else commit
        if proven == commit:
            return _done(replace(state, comparing=False), state.passing)
        if not commit:
            return replace(state, stalled=NOT_STORED)
        state = replace(state, approved=False, verified=False)
    if files == () and _expects_change(state):
        return _failed(state, f"RESULT: FAIL\nEVIDENCE:\n{NOTHING_CHANGED}", state.action_id)
    if not _can_prove(state):
        return _verify(replace(state, comparing=False, proof=None))
    if not commit:
        return replace(state, stalled=NOT_STORED)
    kept = state.proof if state.proof is not None and state.proof.result == commit else None
    return replace(state, comparing=False, proof=kept or new_proof(state, commit, files))


def _proven(state: CycleState, ran: ProofRan) -> CycleState:
    progress, baseline, rules = state.proof, state.baseline, state.plan.proof
    if progress is None or baseline is None or rules is None:
        return state
    judgement = judged(progress, ran, baseline, rules)
    if judgement.pause:
        return replace(state, stalled=judgement.pause)
    state = replace(state, proof=judgement.progress)
    if judgement.failure:
        told = condense.tail(judgement.failure, max(state.plan.condense.test_evidence_lines - 3, 1))
        first = judgement.failure.splitlines()[0]
        told = "The tester reported PASS, but the proof fails.\n" + (told if told == first else f"{first}\n{told}")
        planted = ran.subject if ran.step is ProofStep.CANARY else ()
        # Of blind tests only the requirements are told.
        failing = ran.subject if ran.step is ProofStep.BLIND else failed_tests(ran, baseline, rules, progress.unrelated)
        raised = ledger.of_tests(failing) or ledger.in_failed_step(judgement.failure, planted)
        return _failed(replace(state, proof=None), f"RESULT: FAIL\nEVIDENCE:\n{told}", ran.turn, raised=raised)
    if judgement.progress.step is not None:
        return state
    words = in_words(judgement.progress, baseline)
    return _passed(replace(state, verified=True), f"the tester reported PASS, and Logos has proven it: {words}")


def _verify(state: CycleState) -> CycleState:
    """An empty command proves nothing."""
    if state.plan.verify_pass and state.plan.test_command:
        return replace(state, checking=True)
    return _passed(state, "the tester reported PASS")


def _checked(state: CycleState, command: str, exit_code: int, output: str) -> CycleState:
    turn, state = state.action_id, replace(state, checking=False)
    if exit_code == 0:
        return _passed(replace(state, verified=True), f"the tester reported PASS and `{command}` exited 0")
    told = f"The tester reported PASS, but `{command}`, run by Logos, exited {exit_code}:"
    end = condense.tail(output, max(state.plan.condense.test_evidence_lines - 3, 1))
    return _failed(state, f"RESULT: FAIL\nEVIDENCE:\n{told}\n{end}", turn, raised=ledger.in_evidence(end))


def _passed(state: CycleState, reason: str) -> CycleState:
    state = replace(state, findings=ledger.updated(state.findings, ledger.TESTS, ledger.LOGOS, state.turn_id, ()))
    if GateKind.BEFORE_PASS in state.plan.gates:
        return _at_gate(replace(state, passing=reason), GateKind.BEFORE_PASS, result_in_question(state, reason))
    return _done(state, reason)


def _done(state: CycleState, reason: str) -> CycleState:
    return replace(state, phase=Phase.DONE, outcome=Outcome.PASSED, reason=reason)


def _failed(
    state: CycleState, evidence: str, turn: TurnId, who: str = ledger.LOGOS, raised: ledger.Raised = ()
) -> CycleState:
    """A round has failed; its files are compared with those of earlier rounds, unless they were, or it is the last."""
    raised = raised or ledger.in_evidence(evidence)
    state = replace(state, findings=ledger.updated(state.findings, ledger.TESTS, who, turn, raised), comparing=False)
    how, is_last = failed_round(state.round, evidence, raised), state.round >= state.last_round
    if is_last or state.plan.on_no_progress is None or state.tree is not None:
        return _round_failed(state, how)
    return replace(state, comparing=True, failing=how)


def _round_failed(state: CycleState, how: FailedRound) -> CycleState:
    """A round that ended as an earlier one did gets one more try, in which the programmer is told; then it blocks."""
    how, rule, told = replace(how, tree=state.tree or ""), state.plan.on_no_progress, bool(state.no_progress)
    same = standstill(state.failed_rounds, how) if rule is not None else ""
    rounds = (*state.failed_rounds, replace(how, evidence=""))[-MOST_ROUNDS:]
    state = replace(state, comparing=False, failing=None, failed_rounds=rounds, no_progress=same)
    if same and told and rule is OnNoProgress.BLOCK and state.round < state.last_round:
        return replace(_heard(state, how.evidence), outcome=Outcome.BLOCKED, reason=blocked_reason(same))
    return failed(state, how.evidence)


def failed(state: CycleState, evidence: str) -> CycleState:
    """A FAIL starts the next round at the programmer, with the evidence and a summary of the changes."""
    state = _heard(state, evidence)
    if state.round >= state.last_round:
        reason = f"no PASS in {state.round} round{'s' if state.round > 1 else ''}"
        return replace(state, phase=Phase.DONE, outcome=Outcome.FAILED, reason=reason)
    return _retry(state)


def _with_rejection(state: CycleState, text: str) -> str:
    """What a person rejected stays with the author until it is approved, besides what others find."""
    return "\n\n".join(part for part in (state.rejected, text) if part)


def _heard(state: CycleState, evidence: str) -> CycleState:
    evidence = _with_rejection(state, evidence)
    context = condense.programmer_for_tester(state.said(Role.PROGRAMMER), state.plan.condense)
    return replace(state, feedback=evidence, retry_context=context, fresh=False)


def _retry(state: CycleState) -> CycleState:
    kept = ("analyst", "analyst_review")
    outputs = {answer: text if answer in kept else "" for answer, text in state.outputs.items()}
    state = replace(state, round=state.round + 1, outputs=MappingProxyType(outputs), programmer_feedback="", tree=None)
    return _enter(state, Phase.PROGRAMMER)
