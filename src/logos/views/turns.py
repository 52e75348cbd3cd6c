"""The turns of a run, with their verdicts, built from its events."""

import re
from dataclasses import dataclass
from functools import reduce

from logos.domain import events
from logos.domain.events import Noted, ProofRan, Recorded, Topic, WorkGathered
from logos.domain.plans import CyclePlan, Plan
from logos.domain.proof import ProofStep
from logos.domain.records import replace
from logos.domain.reports import ActionKind, Refused, Report, TurnKind, Verdict
from logos.domain.roles import ACCEPTANCE_TESTER, Role, phase_def_of
from logos.domain.turns import TurnId
from logos.domain.usage import Usage
from logos.flows.cycle.verdicts import ReportedResult, evidence_found, is_approved, read_result, says_approved
from logos.flows.levels.flow import ReadReport
from logos.flows.levels.turn_ids import GATHER, LevelTurn, level_turn
from logos.flows.proof.test_ids import function_of
from logos.flows.proof.verdict import ProofProgress, unnoticed_in
from logos.views.text import count, cut

_ROLES = frozenset(Role)
_TURN = re.compile(r"r\d+\.(?P<role>[a-z_]+)\.c(?P<cycle>\d+)(\.t\d+)?")
# The agent of steps that Logos does itself.
LOGOS = "logos"
# A verdict is a few words; the log has the whole reason on a line of its own.
REASON = 80
SEALED = "(kept outside the log, which agents can read; `logos proof` tells the tests once the run has ended)"
PROOF_STEPS = {
    ProofStep.BASELINE: "the tests before the run",
    ProofStep.RESULT: "the result's own tests, in a clean room",
    ProofStep.GUARDED: "the result with the tests of before the run",
    ProofStep.CANARY: "planted tests, which must fail",
    ProofStep.RED: "new tests without the change",
    ProofStep.BLIND: "acceptance tests that no author has seen",
    ProofStep.BLIND_BASE: "acceptance tests on the files before the run",
}


@dataclass(frozen=True)
class TurnView:
    """One turn of an agent, or a step of Logos itself: a check, a gathering, a merge."""

    turn: str
    agent: str
    asked: float
    prompt: str
    response: str = ""
    ended: float | None = None
    verdict: str = ""
    failure: str = ""
    waits: str = ""
    rests: str = ""
    bills: tuple[Usage | None, ...] = ()
    # Answered in the run that this one was forked from, and paid there.
    inherited: bool = False

    @property
    def who(self) -> str:
        """The agent's name for people; names of components stay as they are."""
        return self.agent.replace("_", " ") if self.agent in (*_ROLES, ACCEPTANCE_TESTER) else self.agent

    @property
    def in_build(self) -> LevelTurn | None:
        """What its id says, if it is a turn of a build."""
        return level_turn(self.turn)

    @property
    def answered(self) -> bool:
        """Whether an agent answered it."""
        return self.ended is not None and self.agent != LOGOS

    @property
    def usage(self) -> Usage | None:
        """The usage that its host reported, of all attempts together."""
        known = [usage for usage in self.bills if usage is not None]
        return reduce(Usage.plus, known) if known else None

    @property
    def seconds(self) -> float | None:
        """Never negative, also where the clock was set back in between."""
        return None if self.ended is None else max(self.ended - self.asked, 0.0)


class TurnViewBuilder:
    """Builds turns from events, in the order they were asked. A turn that was asked again after a crash stays one."""

    def __init__(self, read_report: ReadReport) -> None:
        self._read_report = read_report
        self._turns: dict[str, TurnView] = {}
        self._plan: Plan | None = None
        self._before = 0.0

    @property
    def turns(self) -> tuple[TurnView, ...]:
        return tuple(self._turns.values())

    def copy(self) -> "TurnViewBuilder":
        """A builder that goes on from here; turns are never changed in place."""
        other = TurnViewBuilder(self._read_report)
        other._turns, other._plan, other._before = dict(self._turns), self._plan, self._before
        return other

    def add(self, record: Recorded) -> None:
        changed = self._after(record)
        if changed is not None:
            self._turns[changed.turn] = changed
        self._before = record.at

    def _after(self, record: Recorded) -> TurnView | None:
        """The turn that an event changes, after it."""
        event, at = record.event, record.at
        match event:
            case events.RunStarted() | events.RunResumed():
                self._plan = event.plan
            case events.RunForked(_, _, plan):
                self._plan = plan
                # Answered turns stay; turns in flight are asked again in the fork.
                done = (turn for turn in self._turns.values() if turn.ended is not None)
                self._turns = {turn.turn: replace(turn, bills=(), inherited=True) for turn in done}
            case events.TurnAsked(turn, agent, prompt):
                self._sent_back(turn)
                return self._turns.get(turn) or TurnView(turn, _agent_of(turn) or agent, at, prompt)
            case events.TurnSent(turn) if turn in self._turns and self._turns[turn].rests:
                return replace(self._turns[turn], rests="")
            case events.TurnAnswered(turn, text, _, usage):
                verdict = verdict_of(self._plan, turn, text, self._read_report)
                return self._answered(turn, at, text, verdict, usage)
            case events.AcceptanceWritten(turn, tests, usage):
                refused = f"refused: {cut(event.problem, REASON)}" if event.problem else ""
                return self._answered(turn, at, SEALED, refused or f"wrote {count(len(tests.files), 'file')}", usage)
            case events.TurnFailed(turn, _, message, usage):
                failed = self._of(turn, at)
                return replace(failed, failure=message, waits="", rests="", bills=(*failed.bills, usage))
            case Noted(Topic.TRIED_AGAIN, text, str(turn)):
                return replace(self._of(turn, at), rests=text)
            case Noted(Topic.PERMISSION_ASKED, text, str(turn)):
                return replace(self._of(turn, at), waits=text)
            case Noted(Topic.PERMISSION_GIVEN, _, str(turn)) | events.PermissionDecided(turn):
                return replace(self._of(turn, at), waits="")
            case events.CheckRan(turn, command, exit_code, output):
                return TurnView(turn, LOGOS, self._before, command, output, at, f"exit {exit_code}")
            case ProofRan():
                verdict = proof_in_words(event)
                return TurnView(event.turn, LOGOS, self._before, event.command, event.output, at, verdict)
            case events.WorkCompared(turn, files):
                verdict, text = changed_in_words(files), "\n".join(files or ())
                return TurnView(turn, LOGOS, self._before, "compare the work tree", text or verdict, at, verdict)
            case WorkGathered():
                return self._gathered(event, at)
            case events.WorkMerged(turn, commit, clashes):
                text = "\n".join(clash.words for clash in clashes) or f"commit {commit}"
                verdict = count(len(clashes), "conflict") if clashes else "merged"
                return TurnView(turn, LOGOS, self._before, "merge the authors' work", text, at, verdict)
            case _:
                pass
        return None

    def _of(self, turn: TurnId, at: float) -> TurnView:
        # A view that starts in the middle sees answers to turns that were asked before.
        return self._turns.get(turn) or TurnView(turn, _agent_of(turn), at, "")

    def _answered(self, turn: TurnId, at: float, text: str, verdict: str, usage: Usage | None) -> TurnView:
        asked = self._of(turn, at)
        told = {"response": text, "ended": at, "verdict": verdict, "bills": (*asked.bills, usage)}
        return replace(asked, **told, failure="", waits="", rests="")

    def _sent_back(self, turn: TurnId) -> None:
        """Another attempt means that the last one was not accepted, whatever its report says."""
        again = level_turn(turn)
        last = self._turns.get(again.before) if again is not None else None
        if last is not None and not last.verdict.startswith("refused"):
            self._turns[last.turn] = replace(last, verdict="sent back")

    def _gathered(self, event: WorkGathered, at: float) -> TurnView:
        of = self._turns.get(event.turn.removesuffix(GATHER))
        since = of.ended if of is not None and of.ended is not None else self._before
        files = [f"{'changed' if touched.blob else 'deleted'} {touched.path}" for touched in event.touched]
        text = "\n".join([f"commit {event.commit}", *files, *(f"problem: {problem}" for problem in event.problems)])
        refused = f"refused: {cut(event.problems[0], REASON)}" if event.problems else ""
        verdict = refused or f"gathered {count(len(files), 'file')}"
        return TurnView(event.turn, LOGOS, since, f"gather the work in {event.place}", text, at, verdict)


def _agent_of(turn: str) -> str:
    """The name of the agent of a turn, for people; empty when the id does not say."""
    level, parts = level_turn(turn), _TURN.fullmatch(turn)
    return level.who if level is not None else parts["role"] if parts else ""


def verdict_of(plan: Plan | None, turn: str, text: str, read_report: ReadReport) -> str:
    """The verdict of a response in a few words; empty for authors."""
    level = level_turn(turn)
    if level is not None:
        return _level_verdict(level, read_report(level.kind, level.level, text))
    return _role_verdict(plan, turn, text) if isinstance(plan, CyclePlan) else ""


def _level_verdict(turn: LevelTurn, report: Report | Refused) -> str:
    """In the order in which the flow acts on a report."""
    if isinstance(report, Refused):
        return f"refused: {cut(report.errors[0], REASON)}"
    if report.next.step is ActionKind.ASK_PERSON:
        return "asks a person"
    if report.verdict is Verdict.MISALIGNED:
        return report.verdict.value
    if turn.kind is TurnKind.DECOMPOSE and report.next.step is ActionKind.HAND_BACK and report.next.to is not None:
        return f"hands back to {report.next.to.name}"
    if report.constraint is not None:
        return "constraint"
    return report.verdict.value if report.verdict is not None else ""


def _role_verdict(plan: CyclePlan, turn: str, text: str) -> str:
    parts = _TURN.fullmatch(turn)
    if parts is None or parts["role"] not in _ROLES:
        return ""
    role, cycle = Role(parts["role"]), int(parts["cycle"])
    stage, strict = phase_def_of(role), plan.quoted_verdicts_ignored
    if role is Role.TESTER:
        verdict = read_result(text, strict=strict)
        return "no verdict" if verdict is ReportedResult.UNCLEAR else verdict.value
    if role is not stage.reviewer:
        return ""
    if not says_approved(text, strict=strict):
        return "REVISE" if "REVISE" in text else "no verdict"
    rules = plan.review
    if is_approved(text, cycle, stage.phase, rules, strict=strict):
        return "APPROVED"
    if cycle < rules.min_cycles_before_approval:
        return f"APPROVED, but cycle {cycle} is too early to count"
    found = evidence_found(text, stage.phase)
    return f"APPROVED, but with too little evidence to count ({found} of {rules.evidence_min_match})"


def changed_in_words(files: tuple[str, ...] | None) -> str:
    return "changes unknown" if files is None else f"{count(len(files), 'file')} changed"


def proof_step_in_words(progress: ProofProgress | None) -> str:
    """The step that Logos runs now."""
    if progress is None or progress.step is None:
        return "Logos compares the result with the work tree before the run"
    return f"Logos runs {PROOF_STEPS[progress.step]}"


def proof_in_words(ran: ProofRan) -> str:
    """The result of a step in a few words."""
    if ran.problem:
        return "proves nothing"
    tests = ran.tests
    if ran.step is ProofStep.CANARY and not ran.subject:
        return "no test could be made to fail"
    if tests is None and ran.step is ProofStep.CANARY:
        return f"exit {ran.exit_code} where {', '.join(ran.subject)} was made to fail"
    if tests is None:
        return f"exit {ran.exit_code}, tests not counted"
    if ran.step is ProofStep.CANARY:
        unnoticed = {*unnoticed_in(ran)}
        noticed = sum(function_of(planted) not in unnoticed for planted in ran.subject)
        return f"{noticed} of {len(ran.subject)} planted failures noticed"
    if ran.step is ProofStep.BLIND_BASE:
        return f"{count(len(tests.failed), 'acceptance test')} failed without the change, {len(tests.passed)} passed"
    if ran.step is ProofStep.RED:
        return f"{count(len(tests.failed), 'test')} of {len(tests.executed)} failed without the change"
    parts = {"passed": tests.passed, "failed": tests.failed, "flaky": tests.flaky, "skipped": tests.skipped}
    counted = ", ".join(f"{len(ids)} {word}" for word, ids in parts.items() if ids) or "no tests"
    # That tests fail before the run is no verdict.
    return counted if ran.step is ProofStep.BASELINE else f"exit {ran.exit_code}, {counted}"
