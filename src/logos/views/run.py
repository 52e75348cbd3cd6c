"""The read model of a run: its turns with their verdicts, and where it stands, read from the log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from logos.domain.events import (
    CheckRan,
    Noted,
    Recorded,
    RunForked,
    RunResumed,
    RunStarted,
    TerminalOpened,
    Topic,
    TurnAnswered,
    TurnAsked,
    TurnFailed,
    TurnSent,
    WorkGathered,
    WorkMerged,
)
from logos.domain.ledger import Ledger
from logos.domain.plans import CyclePlan, Plan
from logos.domain.reports import ActionKind, Refused, Report, TurnKind, Verdict
from logos.domain.roles import Role, phase_def_of
from logos.domain.specs import Question
from logos.domain.turns import Outcome, RunId, TurnId
from logos.domain.usage import Spent, Usage
from logos.errors import LogDamaged
from logos.flows.cycle.flow import CycleState
from logos.flows.cycle.verdicts import ReportedResult, evidence_found, is_approved, read_result, says_approved
from logos.flows.fold import RunFold, flow_for, started_by
from logos.flows.levels.flow import ReadReport
from logos.flows.levels.state import LevelsState, LevelStatus
from logos.flows.levels.turn_ids import GATHER, LevelTurn, level_turn
from logos.views.sessions import Session, sessions_of
from logos.views.text import count, cut, first_line

State = CycleState | LevelsState

_TURN = re.compile(r"r\d+\.(?P<role>[a-z_]+)\.c(?P<cycle>\d+)")
LOGOS = "logos"
# The name of the session of scripted agents.
SCRIPTED = "scripted"
# A driver that found its terminals gone names this flag as its reason for stopping.
RECREATE = "--recreate"
# A verdict is a few words; the log has the whole reason on a line of its own.
REASON = 80


@dataclass(frozen=True, slots=True)
class FlowWords:
    """What a flow calls its runs, rounds and agents; `command` starts a run."""

    run: str
    round: str
    agent: str
    group: str
    command: str


FLOW_WORDS = {
    "cycle": FlowWords("run", "round", "role", "role", "logos run"),
    "levels": FlowWords("build", "sweep", "agent", "level", "logos build"),
}


@dataclass(frozen=True, slots=True)
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
        return self.agent.replace("_", " ") if self.agent in set(Role) else self.agent

    @property
    def usage(self) -> Usage | None:
        """The usage that its host reported, of all attempts together."""
        known = [usage for usage in self.bills if usage is not None]
        return reduce(Usage.plus, known) if known else None

    @property
    def seconds(self) -> float | None:
        """Never negative, also where the clock was set back in between."""
        return None if self.ended is None else max(self.ended - self.asked, 0.0)


@dataclass(frozen=True, slots=True)
class RunView:
    # Records and states say the same, and can be compared.
    fold: RunFold[Any] = field(compare=False)
    started: float
    last: float
    turns: tuple[TurnView, ...] = ()
    damage: str = ""
    records: tuple[Recorded, ...] = field(default=(), repr=False)
    # The state after each record.
    states: tuple[State, ...] = field(default=(), repr=False)

    @property
    def run(self) -> RunId:
        return self.fold.run

    @property
    def state(self) -> State:
        return self.fold.state

    @property
    def ledger(self) -> Ledger:
        return self.fold.ledger

    @property
    def plan(self) -> Plan:
        return self.state.plan

    @property
    def build(self) -> LevelsState | None:
        """The state of a build; None for other flows."""
        return self.state if isinstance(self.state, LevelsState) else None

    @property
    def words(self) -> FlowWords:
        return FLOW_WORDS[self.plan.flow]

    @property
    def outcome(self) -> Outcome | None:
        return self.state.outcome

    @property
    def reason(self) -> str:
        return self.state.reason

    @property
    def question(self) -> Question | None:
        """What a person must decide before the run continues."""
        return self.state.question

    @property
    def branch(self) -> str:
        """The branch with the merged work of a build; empty when nothing was merged."""
        return f"logos/{self.run}" if self.state.result else ""

    @property
    def unproven(self) -> tuple[str, ...]:
        """Levels of a passed build that no tool proves."""
        if self.build is None or self.outcome is not Outcome.PASSED:
            return ()
        return tuple(level.name for level, known in self.build.standing.items() if known is LevelStatus.UNPROVEN)

    @property
    def rounds(self) -> int:
        """Rounds of a cycle, sweeps of a build."""
        return self.state.position.round

    @property
    def rounds_in_words(self) -> str:
        return count(self.rounds, self.words.round)

    @property
    def asked_for(self) -> str:
        """The first line of the request."""
        return first_line(self.plan.request)

    @property
    def answered(self) -> int:
        return self._answered(inherited=False)

    @property
    def inherited(self) -> int:
        """Turns that were answered in the run this one was forked from."""
        return self._answered(inherited=True)

    def _answered(self, *, inherited: bool) -> int:
        agents = (turn for turn in self.turns if turn.agent != LOGOS and turn.inherited is inherited)
        return sum(turn.ended is not None for turn in agents)

    @property
    def seconds(self) -> float:
        return max(self.last - self.started, 0.0)

    @property
    def forked(self) -> Recorded | None:
        """The record with which it became a run of its own, if it was forked from another."""
        return next((record for record in reversed(self.records) if isinstance(record.event, RunForked)), None)

    @property
    def fork(self) -> RunForked | None:
        event = self.forked.event if self.forked is not None else None
        return event if isinstance(event, RunForked) else None

    @property
    def came_from(self) -> str:
        """The checkpoint it was forked from: `RUN@EVENT`."""
        return f"{self.fork.parent}@{self.fork.at}" if self.fork is not None else ""

    @property
    def sessions(self) -> tuple[Session, ...]:
        return sessions_of(self.records)

    @property
    def own_sessions(self) -> tuple[Session, ...]:
        return tuple(session for session in self.sessions if not session.inherited)

    @property
    def characters(self) -> int:
        return self.ledger.characters

    @property
    def simulated(self) -> bool:
        """Whether its agents followed a script."""
        opened = [record for record in self.records if isinstance(record.event, TerminalOpened)]
        since = self.forked.seq if self.forked is not None else 0
        own = [record.event for record in opened if record.seq > since] or [record.event for record in opened]
        sessions = {event.session for event in own if isinstance(event, TerminalOpened)}
        return SCRIPTED in (sessions or ({self.fork.host} if self.fork is not None else set[str]()))

    @property
    def bill(self) -> Spent:
        """Every turn that ended, well or not; checks cost nothing."""
        return reduce(lambda spent, turn: spent.plus(*turn.bills), (turn for turn in self.turns if turn.bills), Spent())

    @property
    def left(self) -> str:
        """Why the last driver left, if no other took over since."""
        for record in reversed(self.records):
            match record.event:
                case Noted(Topic.INTERRUPTED, text):
                    return text
                case RunResumed() | RunForked():
                    return ""
                case _:
                    pass
        return ""

    @property
    def goes_on_with(self) -> str:
        """The command of its flow, without `--resume`."""
        return f"{self.words.command}{' --simulate SCRIPT' if self.simulated else ''}"

    @property
    def resumes_with(self) -> str:
        """The command that resumes it, whichever flow it is; with new terminals where the old ones are gone."""
        simulated = " --simulate SCRIPT" if self.simulated else ""
        return f"logos resume{simulated}{' --recreate' if RECREATE in self.left else ''}"

    def last_of(self, *roles: Role) -> TurnView | None:
        return next((turn for turn in reversed(self.turns) if turn.agent in roles), None)


def view_run(run: RunId, records: Iterable[Recorded], read_report: ReadReport) -> RunView:
    """A run read from its log; from a damaged log, what comes before the damage."""
    read, damage = list[Recorded](), ""
    try:
        for record in records:
            read.append(record)
    except LogDamaged as error:
        if not read:
            raise
        damage = str(error)
    fold = RunFold[Any](run, flow_for(started_by(run, read[0] if read else None), read_report))
    builder, states = TurnViewBuilder(read_report), list[State]()
    for record in read:
        fold.add(record)
        states.append(fold.state)
        builder.add(record)
    began = next((record.at for record in reversed(read) if isinstance(record.event, RunForked)), read[0].at)
    return RunView(fold, began, read[-1].at, builder.turns, damage, tuple(read), tuple(states))


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

    def add(self, record: Recorded) -> None:
        changed = self._after(record)
        if changed is not None:
            self._turns[changed.turn] = changed
        self._before = record.at

    def _after(self, record: Recorded) -> TurnView | None:
        """The turn that an event changes, after it."""
        event, at = record.event, record.at
        match event:
            case RunStarted() | RunResumed():
                self._plan = event.plan
            case RunForked(_, _, plan):
                self._plan = plan
                self._inherit()
            case TurnAsked(turn, agent, prompt):
                self._sent_back(turn)
                return self._turns.get(turn) or TurnView(turn, _agent_of(turn) or agent, at, prompt)
            case TurnSent(turn) if turn in self._turns:
                return replace(self._turns[turn], rests="")
            case TurnAnswered(turn, text, _, usage):
                ended = replace(self._of(turn, at), response=text, ended=at, verdict=self._verdict(turn, text))
                return replace(ended, failure="", waits="", rests="", bills=(*ended.bills, usage))
            case TurnFailed(turn, _, message, usage):
                failed = self._of(turn, at)
                return replace(failed, failure=message, waits="", rests="", bills=(*failed.bills, usage))
            case Noted(Topic.TRIED_AGAIN, text, str(turn)):
                return replace(self._of(turn, at), rests=text)
            case Noted(Topic.PERMISSION_ASKED, text, str(turn)):
                return replace(self._of(turn, at), waits=text)
            case Noted(Topic.PERMISSION_GIVEN, _, str(turn)):
                return replace(self._of(turn, at), waits="")
            case CheckRan(turn, command, exit_code, output):
                return TurnView(turn, LOGOS, self._before, command, output, at, f"exit {exit_code}")
            case WorkGathered():
                return self._gathered(event, at)
            case WorkMerged(turn, commit, clashes):
                text = "\n".join(clash.words for clash in clashes) or f"commit {commit}"
                verdict = count(len(clashes), "conflict") if clashes else "merged"
                return TurnView(turn, LOGOS, self._before, "merge the authors' work", text, at, verdict)
            case _:
                pass
        return None

    def _verdict(self, turn: TurnId, text: str) -> str:
        return verdict_of(self._plan, turn, text, self._read_report)

    def _of(self, turn: TurnId, at: float) -> TurnView:
        # A view that starts in the middle sees answers to turns that were asked before.
        return self._turns.get(turn) or TurnView(turn, _agent_of(turn), at, "")

    def _inherit(self) -> None:
        """Answered turns stay; turns in flight are asked again in the fork."""
        done = (turn for turn in self._turns.values() if turn.ended is not None)
        self._turns = {turn.turn: replace(turn, bills=(), inherited=True) for turn in done}

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
        verdict = (
            f"refused: {cut(event.problems[0], REASON)}" if event.problems else f"gathered {count(len(files), 'file')}"
        )
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
    if parts is None or parts["role"] not in set(Role):
        return ""
    role, cycle = Role(parts["role"]), int(parts["cycle"])
    stage = phase_def_of(role)
    if role is Role.TESTER:
        verdict = read_result(text)
        return "no verdict" if verdict is ReportedResult.UNCLEAR else verdict.value
    if role is not stage.reviewer:
        return ""
    if not says_approved(text):
        return "REVISE" if "REVISE" in text else "no verdict"
    rules = plan.review
    if is_approved(text, cycle, stage.phase, rules):
        return "APPROVED"
    if cycle < rules.min_cycles_before_approval:
        return f"APPROVED, but cycle {cycle} is too early to count"
    found = evidence_found(text, stage.phase)
    return f"APPROVED, but with too little evidence to count ({found} of {rules.evidence_min_match})"
