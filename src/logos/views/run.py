"""The read model of a run: its turns with their verdicts, and where it stands, read from the log."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

from logos.domain.events import Noted, Recorded, RunForked, RunResumed, TerminalOpened, Topic
from logos.domain.ledger import Ledger
from logos.domain.plans import Plan
from logos.domain.roles import Role
from logos.domain.specs import Question
from logos.domain.turns import Outcome, RunId
from logos.domain.usage import Spent
from logos.errors import LogDamaged
from logos.flows.cycle.flow import CycleState
from logos.flows.fold import RunFold, flow_for, started_by
from logos.flows.levels.flow import ReadReport
from logos.flows.levels.state import LevelsState, LevelStatus
from logos.views.findings import FindingView, findings_of
from logos.views.sessions import Session, sessions_of
from logos.views.text import count, first_line, stop_in_words
from logos.views.turns import TurnView, TurnViewBuilder

State = CycleState | LevelsState

# The name of the session of scripted agents.
SCRIPTED = "scripted"
# A driver that found its terminals gone names this flag as its reason for stopping.
RECREATE = "--recreate"


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


@dataclass(frozen=True)
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
    def changed_files(self) -> str:
        """Which files that later runs take their settings from were changed during it, in words."""
        notes = (record.event for record in reversed(self.records) if isinstance(record.event, Noted))
        return next((note.text for note in notes if note.topic is Topic.FILES_CHANGED), "")

    @cached_property
    def findings(self) -> tuple[FindingView, ...]:
        """What reviewers and tests have found so far, and what became of it."""
        return findings_of(self.state, self.records, self.turns)

    @property
    def before_tampering(self) -> str:
        """The last checkpoint before the records of a blocked run were found changed: `RUN@EVENT`."""
        tampered = self.fold.tampered if self.outcome is Outcome.BLOCKED and self.question is None else None
        return f"{self.run}@{tampered[0] - 1}" if tampered is not None else ""

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
    def rounds_in_words(self) -> str:
        """Rounds of a cycle, sweeps of a build."""
        return count(self.state.position.round, self.words.round)

    @property
    def asked_for(self) -> str:
        """The first line of the request."""
        return first_line(self.plan.request)

    @cached_property
    def answered(self) -> int:
        return sum(turn.answered and not turn.inherited for turn in self.turns)

    @property
    def inherited(self) -> int:
        """Turns that were answered in the run this one was forked from."""
        return sum(turn.answered and turn.inherited for turn in self.turns)

    @property
    def seconds(self) -> float:
        return max(self.last - self.started, 0.0)

    @cached_property
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

    @cached_property
    def sessions(self) -> tuple[Session, ...]:
        return sessions_of(self.records)

    @property
    def own_sessions(self) -> tuple[Session, ...]:
        return tuple(session for session in self.sessions if not session.inherited)

    @property
    def driven(self) -> float:
        """The seconds with a driver attached."""
        return sum(session.seconds for session in self.own_sessions)

    @property
    def characters(self) -> int:
        return self.ledger.characters

    @cached_property
    def simulated(self) -> bool:
        """Whether its agents followed a script."""
        opened = [record for record in self.records if isinstance(record.event, TerminalOpened)]
        since = self.forked.seq if self.forked is not None else 0
        own = [record.event for record in opened if record.seq > since] or [record.event for record in opened]
        sessions = {event.session for event in own if isinstance(event, TerminalOpened)}
        return SCRIPTED in (sessions or ({self.fork.host} if self.fork is not None else set[str]()))

    @cached_property
    def bill(self) -> Spent:
        """Every turn that ended, well or not; checks cost nothing."""
        return reduce(lambda spent, turn: spent.plus(*turn.bills), (turn for turn in self.turns if turn.bills), Spent())

    @cached_property
    def left(self) -> str:
        """Why the last driver left, if no other took over since."""
        for event in (record.event for record in reversed(self.records)):
            if isinstance(event, Noted) and event.topic is Topic.INTERRUPTED:
                return stop_in_words(event.text)
            if isinstance(event, RunResumed | RunForked):
                break
        return ""

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
    # Together: fold and view read the same verdicts and reports, and each text is read once while it is known.
    for record in read:
        fold.add(record)
        builder.add(record)
        states.append(fold.state)
    began = next((record.at for record in reversed(read) if isinstance(record.event, RunForked)), read[0].at)
    return RunView(fold, began, read[-1].at, builder.turns, damage, (*read,), (*states,))


def extended(view: RunView, added: Iterable[tuple[Recorded, State]], read_report: ReadReport) -> RunView:
    """A view with records that were added to its run, and to its fold, since; each with the state after it."""
    new_records, new_states = zip(*added, strict=True)
    records, builder = (*view.records, *new_records), TurnViewBuilder(read_report)
    for record in records:
        builder.add(record)
    states = (*view.states, *new_states)
    return replace(view, last=records[-1].at, turns=builder.turns, records=records, states=states)
