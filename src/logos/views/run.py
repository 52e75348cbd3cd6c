"""A run as a person wants to hear of it: its turns with their verdicts, and where it stands. Read from the log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
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
from logos.domain.plans import CyclePlan, LevelsPlan, Plan
from logos.domain.reports import ActionKind, Refused, Report, TurnKind, Verdict
from logos.domain.roles import Role, phase_def_of
from logos.domain.specs import Question
from logos.domain.turns import Outcome, RunId, TurnId
from logos.domain.usage import Usage
from logos.errors import LogDamaged, LogError
from logos.flows.cycle.flow import CycleState
from logos.flows.cycle.verdicts import TesterVerdict, evidence_found, is_approved, read_result, says_approved
from logos.flows.fold import RunFold, flow_for, started_by
from logos.flows.levels.flow import ReadReport
from logos.flows.levels.state import LevelsState, LevelStatus
from logos.flows.levels.turn_ids import GATHER, LevelTurn, level_turn
from logos.views.sessions import Session, sessions_of
from logos.views.text import count, cut, first_line
from logos.views.usage import Bill, bill_for, usage_as_json

State = CycleState | LevelsState

_TURN = re.compile(r"r\d+\.(?P<role>[a-z_]+)\.c(?P<cycle>\d+)")
LOGOS = "logos"
# What scripted agents call their session.
SCRIPTED = "scripted"
# What a driver that could not go on without terminals names in its last word.
RECREATE = "--recreate"
# A verdict is a few words; the whole reason is a line of its own in the log.
REASON = 80


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn, or something that Logos did itself: a check, a gathering, a merge."""

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
    # Of the run that this one was forked from, and on its bill.
    inherited: bool = False

    @property
    def who(self) -> str:
        """Whom a person reads; names of components stay as they are."""
        return self.agent.replace("_", " ") if self.agent in set(Role) else self.agent

    @property
    def usage(self) -> Usage | None:
        """What it cost as far as its host told, all tries together."""
        known = [usage for usage in self.bills if usage is not None]
        return reduce(Usage.plus, known) if known else None

    @property
    def seconds(self) -> float | None:
        """A clock that was set back in between tells nothing."""
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
    # The state after each of the records.
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
        """Where it stands, if it is a build."""
        return self.state if isinstance(self.state, LevelsState) else None

    @property
    def outcome(self) -> Outcome | None:
        return self.state.outcome

    @property
    def reason(self) -> str:
        return self.state.reason

    @property
    def question(self) -> Question | None:
        """What a person must decide before it goes on."""
        return self.state.question

    @property
    def branch(self) -> str:
        """Where a build left what was merged; empty when nothing was."""
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
        return count(self.rounds, "round" if self.build is None else "sweep")

    @property
    def asked_for(self) -> str:
        """The first line of what it was to do."""
        return first_line(self.plan.feature if isinstance(self.plan, LevelsPlan) else self.plan.explore)

    @property
    def answered(self) -> int:
        return sum(1 for told in self.turns if told.ended is not None and told.agent != LOGOS and not told.inherited)

    @property
    def inherited(self) -> int:
        """Turns that were answered in the run this one was forked from."""
        return sum(1 for told in self.turns if told.ended is not None and told.agent != LOGOS and told.inherited)

    @property
    def seconds(self) -> float:
        return max(self.last - self.started, 0.0)

    @property
    def forked(self) -> Recorded | None:
        """Where it became a run of its own, if it was forked from another."""
        return next((record for record in reversed(self.records) if isinstance(record.event, RunForked)), None)

    @property
    def came_from(self) -> str:
        """The checkpoint it was forked from, as a person names it."""
        event = self.forked.event if self.forked is not None else None
        return f"{event.parent}@{event.at}" if isinstance(event, RunForked) else ""

    @property
    def sessions(self) -> tuple[Session, ...]:
        return sessions_of(self.records)

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
        event = self.forked.event if self.forked is not None else None
        return SCRIPTED in (sessions or ({event.host} if isinstance(event, RunForked) else set[str]()))

    @property
    def bill(self) -> Bill:
        return bill_for(self.turns)

    @property
    def left(self) -> str:
        """Why the last driver left, when none took over since."""
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
        """The command that resumes it."""
        command = "run" if self.build is None else "build"
        return f"logos {command}{' --simulate SCRIPT' if self.simulated else ''}"

    @property
    def resumes_with(self) -> str:
        """The same, whichever flow it is; with new terminals where the old ones were found to be gone."""
        simulated = " --simulate SCRIPT" if self.simulated else ""
        return f"logos resume{simulated}{' --recreate' if RECREATE in self.left else ''}"

    def last_of(self, *roles: Role) -> TurnView | None:
        return next((told for told in reversed(self.turns) if told.agent in roles), None)


def view_run(run: RunId, records: Iterable[Recorded], read_report: ReadReport) -> RunView:
    """Everything the log tells of a run; of a damaged one, what comes before the damage."""
    read, damage = list[Recorded](), ""
    try:
        for record in records:
            read.append(record)
    except LogDamaged as error:
        damage = str(error)
    if damage and not read:
        raise LogError(damage)
    fold = RunFold[Any](run, flow_for(started_by(run, read[0] if read else None), read_report))
    builder, states = TurnViewBuilder(read_report), list[State]()
    for record in read:
        fold.add(record)
        states.append(fold.state)
        builder.add(record)
    began = next((record.at for record in reversed(read) if isinstance(record.event, RunForked)), read[0].at)
    return RunView(fold, began, read[-1].at, builder.turns, damage, tuple(read), tuple(states))


class TurnViewBuilder:
    """The turns in the order they were asked, as events come in. One that was asked again after a crash stays one."""

    def __init__(self, read_report: ReadReport) -> None:
        self._read_report = read_report
        self._told: dict[str, TurnView] = {}
        self._plan: Plan | None = None
        self._before = 0.0

    @property
    def turns(self) -> tuple[TurnView, ...]:
        return tuple(self._told.values())

    def add(self, record: Recorded) -> None:
        told = self._after(record)
        if told is not None:
            self._told[told.turn] = told
        self._before = record.at

    def _after(self, record: Recorded) -> TurnView | None:
        """What an event makes of a turn."""
        event, at = record.event, record.at
        match event:
            case RunStarted() | RunResumed():
                self._plan = event.plan
            case RunForked(_, _, plan):
                self._plan = plan
                self._inherit()
            case TurnAsked(turn, agent, prompt):
                self._sent_back(turn)
                return self._told.get(turn) or TurnView(turn, _agent_of(turn) or agent, at, prompt)
            case TurnSent(turn) if turn in self._told:
                return replace(self._told[turn], rests="")
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
                said = "\n".join(clash.words for clash in clashes) or f"commit {commit}"
                verdict = count(len(clashes), "conflict") if clashes else "merged"
                return TurnView(turn, LOGOS, self._before, "merge the authors' work", said, at, verdict)
            case _:
                pass
        return None

    def _verdict(self, turn: TurnId, text: str) -> str:
        return verdict_of(self._plan, turn, text, self._read_report)

    def _of(self, turn: TurnId, at: float) -> TurnView:
        # Who joins in the middle hears of answers to turns that were asked before.
        return self._told.get(turn) or TurnView(turn, _agent_of(turn), at, "")

    def _inherit(self) -> None:
        """What was answered stays; what was in an agent's hands is asked of another."""
        done = (told for told in self._told.values() if told.ended is not None)
        self._told = {told.turn: replace(told, bills=(), inherited=True) for told in done}

    def _sent_back(self, turn: TurnId) -> None:
        """Who is asked for another attempt did not get through with the last, whatever its report says."""
        again = level_turn(turn)
        last = self._told.get(again.before) if again is not None else None
        if last is not None and not last.verdict.startswith("refused"):
            self._told[last.turn] = replace(last, verdict="sent back")

    def _gathered(self, event: WorkGathered, at: float) -> TurnView:
        of = self._told.get(event.turn.removesuffix(GATHER))
        since = of.ended if of is not None and of.ended is not None else self._before
        files = [f"{'changed' if touched.blob else 'deleted'} {touched.path}" for touched in event.touched]
        said = "\n".join([f"commit {event.commit}", *files, *(f"problem: {own}" for own in event.problems)])
        verdict = (
            f"refused: {cut(event.problems[0], REASON)}" if event.problems else f"gathered {count(len(files), 'file')}"
        )
        return TurnView(event.turn, LOGOS, since, f"gather the work in {event.place}", said, at, verdict)


def _agent_of(turn: str) -> str:
    """Whose turn it is, as a person says it; empty when the id does not tell."""
    level, parts = level_turn(turn), _TURN.fullmatch(turn)
    return level.who if level is not None else parts["role"] if parts else ""


def verdict_of(plan: Plan | None, turn: str, text: str, read_report: ReadReport) -> str:
    """What a response decides, in a few words; authors decide nothing."""
    level = level_turn(turn)
    if level is not None:
        return _level_verdict(level, read_report(level.kind, level.level, text))
    return _role_verdict(plan, turn, text) if isinstance(plan, CyclePlan) else ""


def _level_verdict(turn: LevelTurn, report: Report | Refused) -> str:
    """In the order in which the flow heeds what a report says."""
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
        return "no verdict" if verdict is TesterVerdict.UNCLEAR else verdict.value
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


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def agent_as_json(told: TurnView) -> dict[str, Any]:
    """Who was asked; of a build also the level, the component and what for."""
    turn = level_turn(told.turn)
    if turn is None:
        return {"agent": told.agent}
    return {"agent": told.agent, "level": turn.level.name, "kind": turn.kind.value, "component": turn.component or None}


def turns_as_json(story: RunView) -> list[dict[str, Any]]:
    return [
        {
            "turn": told.turn,
            **agent_as_json(told),
            "asked_at": iso(told.asked),
            "seconds": None if told.seconds is None else round(told.seconds, 3),
            "verdict": told.verdict or None,
            "failure": told.failure or None,
            "inherited": told.inherited,
            "prompt_characters": len(told.prompt),
            "response_characters": len(told.response),
            "usage": usage_as_json(told.usage),
        }
        for told in story.turns
    ]
