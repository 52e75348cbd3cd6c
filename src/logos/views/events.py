"""Events as text, one line each, with what they changed: for the log, the live view and piped output."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from logos.domain import events
from logos.domain.events import Recorded, RunStarted, Topic, TurnAnswered, WorkGathered, WorkMerged
from logos.domain.levels import LEVELS
from logos.domain.plans import CyclePlan, LevelsPlan, Plan, ReviewRules
from logos.domain.proof import ProofStep
from logos.domain.reports import Failure, Proposal, Report, TurnKind, Verdict
from logos.domain.roles import Phase, Role, phase_def
from logos.domain.turns import Outcome, RunId
from logos.flows import Flow
from logos.flows.cycle.flow import CycleState
from logos.flows.cycle.verdicts import is_approved
from logos.flows.fold import flow_for
from logos.flows.levels.flow import ATTEMPTS, ReadReport
from logos.flows.levels.reconcile import Cause, Dispute
from logos.flows.levels.state import LevelsState
from logos.flows.levels.turn_ids import level_turn
from logos.views.proof import failure_of
from logos.views.run import FLOW_WORDS, RunView, State
from logos.views.text import count, cut, duration, first_line, listed, number, stop_in_words
from logos.views.turns import PROOF_STEPS, changed_in_words, proof_in_words, verdict_of
from logos.views.usage import in_short


class Severity(StrEnum):
    """How a line is meant; the console gives each a colour."""

    QUIET = "quiet"
    NORMAL = "normal"
    GOOD = "good"
    BAD = "bad"
    WARNING = "warning"
    ALARM = "alarm"


@dataclass(frozen=True, slots=True)
class EventLine:
    at: float
    text: str
    severity: Severity = Severity.NORMAL


Words = tuple[str, Severity]

_TOPICS: dict[Topic, Words] = {
    Topic.WARNING: ("warning: ", Severity.WARNING),
    Topic.REMINDED: ("", Severity.WARNING),
    Topic.PERMISSION_ASKED: ("PERMISSION NEEDED: ", Severity.ALARM),
    Topic.PERMISSION_GIVEN: ("permission given: ", Severity.WARNING),
    Topic.TRIED_AGAIN: ("resting: ", Severity.WARNING),
    Topic.AFTERWARDS: ("afterwards: ", Severity.NORMAL),
    Topic.POST_PROCESSED: ("", Severity.QUIET),
    Topic.FILES_CHANGED: ("", Severity.ALARM),
}
_TAMPERED = "somebody has changed the records of this run, so a PASS will not be believed"
_NOTICED = re.compile(r"(\d+) of \1 planted failures noticed")
_GOOD = ("PASS", "APPROVED", "exit 0", "ALIGNED", "AGREE", "merged")
# Results of steps in which tests may fail, or must.
_PLAIN = re.compile(
    r"(\d+ (passed|failed|flaky|skipped)(, )?)+|\d+ tests? of \d+ failed without the change"
    r"|\d+ acceptance tests? failed without the change, \d+ passed"
)
_JUDGES = (TurnKind.VALIDATE, TurnKind.AGREE, TurnKind.ALIGN)
# Longer texts are cut; `logos show` prints them whole.
_MAX_FAILURES = 5
_LONGEST = 600
_LAST_LINES = 3


def severity_of(verdict: str) -> Severity:
    if verdict in _GOOD or verdict.startswith("exit 0,") or _NOTICED.fullmatch(verdict):
        return Severity.GOOD
    if _PLAIN.fullmatch(verdict):
        return Severity.NORMAL
    if verdict.startswith(("FAIL", "exit", "MISALIGNED")):
        return Severity.BAD
    return Severity.WARNING if verdict and not verdict.startswith(("gathered", "wrote")) else Severity.NORMAL


class EventFormatter:
    """Formats the events of one run; remembers the plan, when each turn was asked, and the state so far."""

    def __init__(self, read_report: ReadReport, plan: Plan | None = None) -> None:
        self._read_report = read_report
        self._plan = plan
        self._asked: dict[str, float] = {}
        self._failed = ""
        self._flow: Flow[Any] | None = None
        self._state: State | None = None

    def lines(self, record: Recorded, state: State | None = None) -> list[EventLine]:
        """The event, then what it changed. `state` is the one after it; without it, every event must be passed."""
        before, after = self._state, state or self._folded(record)
        self._state = after
        first = EventLine(record.at, *self._words(record))
        news: Iterable[Words] = _how_to_decide(record)
        if isinstance(before, CycleState) and isinstance(after, CycleState):
            news = (*news, *_unapproved(record, before, after), *_disbelieved(record, before))
        if isinstance(before, LevelsState) and isinstance(after, LevelsState):
            news = (*news, *_objections(record, after, self._read_report), *changes(before, after))
        return [first, *(EventLine(record.at, cut(text, _LONGEST), severity) for text, severity in news)]

    def _folded(self, record: Recorded) -> State | None:
        if isinstance(record.event, RunStarted):
            self._flow = flow_for(record.event, self._read_report)
            self._state = self._flow.start()
        return self._flow.apply(self._state, record.event) if self._flow is not None else None

    def _words(self, record: Recorded) -> Words:
        match record.event:
            case RunStarted() | events.RunResumed() | events.RunForked():
                return self._began(record.run, record.event)
            case events.RunAbandoned(why):
                return f"{_what(self._plan)} {record.run} abandoned: {why}", Severity.WARNING
            case events.TerminalOpened(agent, terminal, provider):
                return f"terminal {terminal} opened for {_name(agent)} ({provider})", Severity.QUIET
            case events.TerminalClosed(agent, terminal):
                return f"terminal {terminal} of {_name(agent)} closed", Severity.QUIET
            case events.TurnAsked(turn, _, prompt):
                self._asked.setdefault(turn, record.at)
                return f"{turn} asked, {number(len(prompt))} characters", Severity.NORMAL
            case events.TurnSent(turn):
                return f"{turn} prompt delivered", Severity.QUIET
            case TurnAnswered():
                return self._answered(record.event, record.at)
            case events.TurnFailed(_, _, message):
                self._failed = message
                return f"no response: {message}", Severity.BAD
            case events.CheckRan(turn, command, exit_code):
                severity = Severity.GOOD if exit_code == 0 else Severity.BAD
                return f"{turn} Logos ran `{command}` itself: exit {exit_code}", severity
            case events.ProofRan():
                return _proven(record.event)
            case events.WorkCompared(turn, files):
                severity = Severity.NORMAL if files else Severity.WARNING if files is None else Severity.BAD
                return f"{turn} {changed_in_words(files)} since the run started", severity
            case events.AcceptanceWritten():
                return _accepted(record.event)
            case events.WorkUndone():
                return _undone(record.event)
            case WorkGathered():
                return _gathered(record.event)
            case WorkMerged():
                return _merged(record.event)
            case events.QuestionResolved():
                return _resolved(record.event)
            case events.GateOpened(gate, _, question):
                return f"{gate} waits for you: {question}", Severity.ALARM
            case events.GateDecided() | events.PermissionDecided() | events.PersonSaid():
                return _decided(record.event), Severity.NORMAL
            case events.Noted(Topic.INTERRUPTED, why):
                # What has stopped it was said by the event before.
                because = "" if why == self._failed else f": {stop_in_words(why)}"
                return f"the driver left{because}", Severity.WARNING
            case events.Noted(topic, text):
                prefix, severity = _TOPICS[topic]
                return prefix + text, severity
            case events.RecordsTampered(evidence):
                return f"{_TAMPERED}: {evidence}", Severity.ALARM
            case events.RunEnded(outcome, verified):
                ended = f"{_what(self._plan)} {record.run} ended: {outcome.in_words(verified)}"
                return ended, Severity.GOOD if outcome is Outcome.PASSED else Severity.BAD

    def _began(self, run: RunId, event: RunStarted | events.RunResumed | events.RunForked) -> Words:
        self._plan = plan = event.plan
        match event:
            case RunStarted():
                return _started(run, event), Severity.NORMAL
            case events.RunResumed():
                where = f" in another folder, {plan.wd}" if event.moved else ""
                return f"{_what(plan)} {run} resumed by a new driver{where}", Severity.NORMAL
            case events.RunForked():
                self._asked.clear()
                how = "forked from" if event.way == "fork" else "goes back to"
                return f"{_what(plan)} {run} {how} event {event.at} of {event.parent}", Severity.NORMAL

    def _answered(self, event: TurnAnswered, at: float) -> Words:
        verdict = verdict_of(self._plan, event.turn, event.text, self._read_report)
        text = f"{event.turn} answered{f' {verdict}' if verdict else ''}, {number(len(event.text))} characters"
        took = f" after {duration(at - self._asked[event.turn])}" if event.turn in self._asked else ""
        where = ", read from its screen" if event.source is events.Source.SCREEN else ""
        cost = in_short(event.usage)
        return text + took + where + (f", {cost}" if cost else ""), severity_of(verdict)


def _proven(ran: events.ProofRan) -> Words:
    """Planted and new tests are to fail; what a step means for the PASS is said by what follows."""
    told = f"{ran.turn} {PROOF_STEPS[ran.step]}: {proof_in_words(ran)}"
    if ran.problem:
        return f"{told}: {ran.problem}", Severity.BAD
    if ran.step in (ProofStep.CANARY, ProofStep.RED, ProofStep.BASELINE, ProofStep.BLIND_BASE):
        return told, Severity.NORMAL
    return told, Severity.GOOD if ran.exit_code == 0 else Severity.BAD


def _accepted(event: events.AcceptanceWritten) -> Words:
    """What the tests are is not in the log."""
    tests, cost = event.tests, f", {in_short(event.usage)}" if event.usage is not None else ""
    if event.problem:
        return f"{event.turn} wrote acceptance tests that cannot be used: {event.problem}{cost}", Severity.WARNING
    told = f"{count(len(tests.files), 'file')}, {count(tests.requirements, 'requirement')}"
    return f"{event.turn} wrote acceptance tests ({told}), kept outside the work dir{cost}", Severity.NORMAL


def _undone(event: events.WorkUndone) -> Words:
    commit = event.commit[:12]
    text = (
        f"{event.turn} changed {listed(event.files[:_MAX_FAILURES])}, which is not its role: put back; its version is "
        f"commit {commit} (`git show {commit}:FILE` prints a file of it)"
    )
    return text, Severity.BAD


def _resolved(event: events.QuestionResolved) -> Words:
    chosen = ", ".join(filter(None, (f"option {event.option}" if event.option else "", event.text)))
    return f"a person decided {event.question}: {chosen}", Severity.NORMAL


def _how_to_decide(record: Recorded) -> Iterator[Words]:
    if isinstance(record.event, events.GateOpened):
        told = f'`logos approve {record.run}` lets it go on, `logos reject {record.run} "why"` sends it back'
        yield told, Severity.NORMAL


def _decided(event: events.GateDecided | events.PermissionDecided | events.PersonSaid) -> str:
    match event:
        case events.GateDecided(gate, approved, words):
            return f"a person {'approved' if approved else 'rejected'} {gate}{f': {words}' if words else ''}"
        case events.PermissionDecided(turn, granted):
            return f"a person {'gave' if granted else 'refused'} the permission that {turn} asked for"
        case events.PersonSaid(text, agent):
            return f"a person says to {_name(agent) if agent else 'the next agent'}: {text}"


def _what(plan: Plan | None) -> str:
    return FLOW_WORDS[plan.flow].run if plan is not None else "run"


def _name(agent: str) -> str:
    return f"the {agent.replace('_', ' ')}" if agent in set(Role) else agent


def _started(run: RunId, event: RunStarted) -> str:
    match event.plan:
        case CyclePlan(wd=wd, start=start):
            seed = event.seed
            return f"run {run} started in {wd}, " + (
                f"from a state file, round {seed.round}" if seed else f"at {_name(start)}"
            )
        case LevelsPlan() as plan:
            skipped = listed(level.name for level in LEVELS if level not in plan.levels)
            without = f", without {skipped}" if skipped else ""
            wanted = first_line(plan.feature, 200)
            return f"build {run} started in {plan.wd}, at {max(plan.levels).name}{without}: {wanted}"


def _gathered(event: WorkGathered) -> Words:
    if event.problems:
        return f"{event.turn}: not accepted: {'; '.join(event.problems)}", Severity.BAD
    if not event.touched:
        return f"{event.turn}: nothing was changed", Severity.NORMAL
    return f"{event.turn}: {count(len(event.touched), 'file')} in commit {event.commit[:7]}", Severity.NORMAL


def _merged(event: WorkMerged) -> Words:
    if not event.clashes:
        return f"{event.turn}: merged, commit {event.commit[:7]}", Severity.GOOD
    found = "; ".join(clash.words for clash in event.clashes)
    return f"{event.turn}: nothing merged, {count(len(event.clashes), 'conflict')}: {found}", Severity.BAD


def _unapproved(record: Recorded, before: CycleState, after: CycleState) -> Iterator[Words]:
    if isinstance(record.event, TurnAnswered) and before.phase not in (after.phase, Phase.TESTER):
        words, severity = approval(before, record.event.text)
        if severity is Severity.WARNING:
            yield f"{words}; the run goes on without an approval (limits.on_review_exhausted)", severity


def unapproved_in(view: RunView) -> list[str]:
    """The phases that the run went on from without an approval, in words: `the analyst's work in round 1, …`."""
    found: list[str] = []
    for before, record, after in zip(view.states, view.records[1:], view.states[1:], strict=False):
        if not (isinstance(before, CycleState) and isinstance(after, CycleState)):
            break
        event = record.event
        if isinstance(event, TurnAnswered) and before.phase not in (after.phase, Phase.TESTER):
            words, severity = approval(before, event.text)
            if severity is Severity.WARNING:
                found.append(f"the {before.phase}'s work in round {before.round} was {words}")
    return found


def _disbelieved(record: Recorded, before: CycleState) -> Iterator[Words]:
    why = failure_of(before, record.event) if isinstance(record.event, events.ProofRan) else ""
    if why:
        yield f"the tester's PASS is not believed: {why}", Severity.BAD


def approval(before: CycleState, review: str) -> Words:
    """What became of the review that ended a phase; `before` is the state in which it was asked for."""
    reviewer = _name(phase_def(before.phase).reviewer or before.role)
    strict = before.plan.quoted_verdicts_ignored
    if _is_approved(review, before.cycle, before.phase, before.plan.review, strict):
        return f"approved by {reviewer} in cycle {before.cycle}", Severity.GOOD
    cycles = count(before.cycle, "cycle")
    return f"not approved by {reviewer} in {cycles}; its objections go along", Severity.WARNING


@lru_cache(maxsize=16_384)
def _is_approved(review: str, cycle: int, phase: Phase, rules: ReviewRules, strict: bool) -> bool:
    """A server shows the same run again and again; each review is read once."""
    return is_approved(review, cycle, phase, rules, strict=strict)


def _objections(record: Recorded, after: LevelsState, read_report: ReadReport) -> Iterator[Words]:
    """Which failures a level reports, or what it objects to in a proposal."""
    event = record.event
    turn = level_turn(event.turn) if isinstance(event, TurnAnswered) else None
    if not isinstance(event, TurnAnswered) or turn is None or turn.kind not in _JUDGES:
        return
    report = read_report(turn.kind, turn.level, event.text)
    # A report that was sent back does not count yet.
    if not isinstance(report, Report) or turn.key in (*after.stuck, *(ask.key for ask in after.pending_turns)):
        return
    name = turn.level.name
    yield from ((f"{name} FAILED: {_failure(failure)}", Severity.BAD) for failure in report.failures[:_MAX_FAILURES])
    if len(report.failures) > _MAX_FAILURES:
        yield f"{name} FAILED: {len(report.failures) - _MAX_FAILURES} more failures", Severity.BAD
    against = report.objection or report.violation
    if against and report.verdict in (Verdict.OBJECT, Verdict.MISALIGNED):
        yield f"{name} objects: {'; instead: '.join((against, *report.alternatives))}", Severity.WARNING


def _failure(failure: Failure) -> str:
    parts = (("expected", failure.expected), ("observed", failure.observed))
    detail = "; ".join(f"{what}: {words}" for what, words in parts if words)
    return f"{failure.what}{f' ({detail})' if detail else ''}"


def changes(before: LevelsState, after: LevelsState) -> Iterator[Words]:
    """What changed in a build between two states, in words."""
    for ask in after.pending_turns:
        if ask.errors and ask not in before.pending_turns:
            errors = "; ".join(ask.errors)
            yield f"{ask.key} is sent back, attempt {ask.attempt} of {ATTEMPTS}: {errors}", Severity.WARNING
    for proof in after.proofs[len(before.proofs) :]:
        if not proof.passed:
            # A tool that fails usually says why at the end of its output.
            last = " / ".join([line.strip() for line in proof.output.splitlines() if line.strip()][-_LAST_LINES:])
            ends = f"; its output ends: {last}" if last else ""
            yield f"{proof.level.name} FAILED: `{proof.command}` exits {proof.exit_code}{ends}", Severity.BAD
    for settled in after.settled[len(before.settled) :]:
        how = f"by {settled.by}" + ("" if settled.by == "a person" else f" in {count(settled.round, 'round')}")
        decided = proposal_in_short(settled.proposal)
        if settled.cause is Cause.REJECTED:
            yield f"{settled.id}: {settled.question}: {decided}; sweep {after.sweep} begins", Severity.WARNING
            continue
        yield f"reconciliation {settled.id} settled {how}: {decided}; sweep {after.sweep} begins", Severity.GOOD
    if after.dispute is not None:
        yield from _disputed(before.dispute, after.dispute, after.plan.max_rounds)
    if after.outcome is not None and before.outcome is None:
        yield from _ended(after)


def _disputed(before: Dispute | None, after: Dispute, max_rounds: int) -> Iterator[Words]:
    if before is None or before.id != after.id:
        others = listed(level.name for level in after.participants if level is not after.level)
        beside = f" with {others}" if others else ""
        opens = f"reconciliation {after.id} opens at {after.level.name}{beside} ({after.cause}): {after.question}"
        yield opens, Severity.WARNING
    elif after.round != before.round:
        yield f"{after.id}: no agreement in round {before.round} of {max_rounds}", Severity.WARNING


def _ended(state: LevelsState) -> Iterator[Words]:
    match state.outcome:
        case Outcome.REJECTED:
            yield f"REJECTED: {state.violation or state.reason}", Severity.BAD
            yield from ((f"instead: {alternative}", Severity.NORMAL) for alternative in state.alternatives)
        case Outcome.BLOCKED if state.question is not None:
            yield f"BLOCKED, a person must decide {state.question.id}: {state.question.text}", Severity.ALARM
            for place, option in enumerate(state.question.options, 1):
                yield f"option {place}: {proposal_in_short(option)}", Severity.NORMAL
            yield "`logos resolve` shows the question and takes the decision", Severity.NORMAL
        case Outcome() as outcome:
            severity = Severity.GOOD if outcome is Outcome.PASSED else Severity.BAD
            yield f"{outcome.in_words(state.verified)}: {state.reason}", severity
        case None:
            pass


def proposal_in_short(proposal: Proposal) -> str:
    """`prices in cents (changes L4 and L3; works again on cart)`."""
    changed = listed(dict.fromkeys(change.level.name for change in proposal.changes))
    again = listed(proposal.rework)
    parts = [f"changes {changed}" if changed else "", f"works again on {again}" if again else ""]
    effect = "; ".join(part for part in parts if part)
    return f"{proposal.summary}{f' ({effect})' if effect else ''}"
