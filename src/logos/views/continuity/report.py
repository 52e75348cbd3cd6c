"""What a continuity report tells, of both flows: a pure look at a run's story. Everything in it may be shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from logos.domain.events import CheckRan, RunAbandoned, RunForked, RunResumed
from logos.domain.levels import Level
from logos.domain.plans import LevelsPlan
from logos.domain.turns import FailureKind
from logos.flows.cycle.flow import CycleState
from logos.flows.levels.state import LevelsState
from logos.views.continuity import of_build, of_cycle
from logos.views.continuity.entries import Entry, Transition, laid_out, moments, said
from logos.views.continuity.plan_changes import changed_settings
from logos.views.continuity.turns import Effort, SessionSpan, TurnSpan, acts_of, efforts_of, lanes_of, stretches_of
from logos.views.events import Severity
from logos.views.run import LOGOS, RunView
from logos.views.status import BUDGET, RunStatus
from logos.views.usage import Bill

Moments = tuple[Transition[Any], ...]

_ASKED_FOR = 200
_TONES = {
    "PASSED": Severity.GOOD,
    "RUNNING": Severity.NORMAL,
    "WAITING FOR YOU": Severity.ALARM,
    "STOPPED": Severity.WARNING,
    "BLOCKED": Severity.ALARM,
    "ABANDONED": Severity.WARNING,
}
# Parts of what changed that are elsewhere in the report as well; and what a heading says already.
TOLD_ANYWAY = ("Completed", "Decisions")
HEADED = ("outcome", "check", "merge", "setting")
_HEADINGS = {"spec": "specs in force", "component": "components", "validation": "levels found valid"}
_TROUBLES = {
    FailureKind.ERROR: "an agent's error",
    FailureKind.TIMEOUT: "an agent that takes too long",
    FailureKind.NO_FILE: "a response that did not come",
    FailureKind.DIED: "an agent that died",
    FailureKind.PROVIDER: "a provider's error",
    FailureKind.LIMIT: "a provider's limit",
    FailureKind.TRANSIENT: "a provider's hiccup",
    FailureKind.PERMISSION: "a permission prompt",
    FailureKind.UNFIT: "a response that cannot be used",
}


@dataclass(frozen=True, slots=True)
class Parts:
    """The lines of a report that the two flows fill in, each in its own way."""

    completed: tuple[Entry, ...]
    pending: tuple[Entry, ...]
    blocked: tuple[Entry, ...]
    decisions: tuple[Entry, ...]
    specs: tuple[Entry, ...] = ()
    merges: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened since the beginning of a session."""

    completed: tuple[Entry, ...]
    turns: tuple[TurnSpan, ...]
    checks: tuple[Entry, ...]
    merges: tuple[Entry, ...]
    specs: tuple[Entry, ...]
    decisions: tuple[Entry, ...]
    settings: tuple[Entry, ...]
    outcomes: tuple[Entry, ...]
    files: tuple[str, ...]

    @property
    def nothing(self) -> bool:
        return not (self.turns or self.lists or self.files)

    @property
    def lists(self) -> tuple[tuple[str, tuple[Entry, ...]], ...]:
        """The parts that are lines, under their headings, as far as there are any; specs are told once."""
        completed = tuple(entry for entry in self.completed if entry.part != "spec")
        named = (
            ("Outcome", self.outcomes),
            ("Completed", completed),
            ("Decisions", self.decisions),
            ("Specs", self.specs),
            ("Merged", self.merges),
            ("Checks", self.checks),
            ("Settings", self.settings),
        )
        return tuple((name, entries) for name, entries in named if entries)


@dataclass(frozen=True, slots=True)
class ContinuityReport:
    """A run across its sessions. `since` is the session from which on things count as new."""

    run: str
    flow: str
    wd: str
    asked_for: str
    word: str
    tone: Severity
    outcome: str
    reason: str
    next: str
    where: str
    rounds: str
    simulated: bool
    damage: str
    forked: RunForked | None
    started: float
    last: float
    events: int
    answered: int
    inherited: int
    characters: int
    bill: Bill
    since: SessionSpan
    sessions: tuple[SessionSpan, ...]
    lanes: tuple[str, ...]
    acts: tuple[TurnSpan, ...]
    efforts: tuple[Effort, ...]
    parts: Parts
    checks: tuple[Entry, ...]
    settings: tuple[Entry, ...]
    outcomes: tuple[Entry, ...]
    files: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        return _origin(self.forked) if self.forked is not None else ""

    @property
    def what(self) -> str:
        return "build" if self.flow == "levels" else "run"

    @property
    def by(self) -> str:
        """Whose effort is added up."""
        return "level" if self.flow == "levels" else "role"

    @property
    def driven(self) -> float:
        """The time in which somebody drove this run itself."""
        return sum(session.seconds for session in self.sessions if not session.inherited)

    @property
    def days(self) -> int:
        return len({session.date.partition(" ")[0] for session in self.sessions})

    @property
    def total(self) -> Effort:
        """All agents together; what Logos did itself is no turn."""
        whole = Effort("total")
        for act in self.acts:
            whole = whole.plus(act) if not (act.inherited or act.by_logos) else whole
        return whole

    @property
    def in_flight(self) -> tuple[TurnSpan, ...]:
        return () if self.outcome else tuple(act for act in self.acts if act.in_flight)

    @property
    def all_new(self) -> bool:
        """Whether nothing happened before what is to be told as new."""
        return self.since.number == 1

    @property
    def changed(self) -> Changes:
        parts, first = self.parts, self.since.number
        return Changes(
            _new(parts.completed, first),
            tuple(act for act in self.acts if not (act.by_logos or act.in_flight) and act.over[0] >= first),
            _new(self.checks, first),
            _new(parts.merges, first),
            _new(parts.specs, first),
            _new(parts.decisions, first),
            _new(self.settings, first),
            _new(self.outcomes, first),
            self.files,
        )


def _new(entries: Iterable[Entry], first: int) -> tuple[Entry, ...]:
    return tuple(entry for entry in entries if entry.session is not None and entry.session >= first)


def continuity(standing: RunStatus, since: int, next_step: str, files: tuple[str, ...] = ()) -> ContinuityReport:
    """`since` is a session's number; `files` are lines of a diff that somebody else made."""
    story = standing.view
    sessions = stretches_of(story, driven=standing.driver is not None and story.outcome is None)
    acts, told = acts_of(story, sessions), tuple(moments(story))
    lanes = lanes_of(acts, story.build.levels if story.build else None)
    return ContinuityReport(
        run=said(story.run),
        flow=story.plan.flow,
        wd=said(str(standing.work_dir)),
        asked_for=said(_wanted(story), _ASKED_FOR),
        word=standing.word,
        tone=_TONES.get(standing.word, Severity.BAD),
        outcome=story.outcome.value if story.outcome else "",
        reason=said(standing.reason),
        next=said(next_step),
        where=standing.where,
        rounds=story.rounds_in_words,
        simulated=story.simulated,
        damage=said(story.damage),
        forked=_fork_of(story),
        started=story.started,
        last=story.last,
        events=story.records[-1].seq,
        answered=story.answered,
        inherited=story.inherited,
        characters=story.characters,
        bill=story.bill,
        since=sessions[since - 1],
        sessions=sessions,
        lanes=lanes,
        acts=acts,
        efforts=efforts_of(acts, lanes),
        parts=_parts(standing, story, told),
        checks=tuple(_checks(told)),
        settings=tuple(_settings(told)),
        outcomes=tuple(_outcomes(told)),
        files=tuple(map(laid_out, files)),
    )


def _wanted(story: RunView) -> str:
    """What it was to do, in a line."""
    plan = story.plan
    text = plan.feature if isinstance(plan, LevelsPlan) else plan.explore
    return next((line for line in text.splitlines() if line.strip()), "")


def _parts(standing: RunStatus, story: RunView, told: Moments) -> Parts:
    state, common = story.state, tuple(_persons(told))
    held_up = tuple(_held_up(standing))
    match state:
        case CycleState():
            return Parts(
                tuple(of_cycle.completed(told)),
                tuple(of_cycle.pending(state)),
                (*of_cycle.blocked(state), *held_up),
                _in_order((*of_cycle.decisions(told), *common)),
            )
        case LevelsState():
            return Parts(
                tuple(of_build.completed(state, told)),
                tuple(of_build.pending(state)),
                (*of_build.blocked(state), *held_up),
                _in_order((*of_build.decisions(state, told), *common)),
                tuple(of_build.specs(told)),
                tuple(of_build.merges(told)),
            )


def _in_order(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """By session; within one, a clock is good enough."""
    return tuple(sorted(entries, key=lambda entry: (entry.session or 0, entry.at or 0.0)))


def _held_up(standing: RunStatus) -> Iterator[Entry]:
    """What keeps a run from going on, whatever its flow."""
    story, state = standing.view, standing.view.state
    if state.outcome is not None:
        return
    if state.stalled:
        what = _TROUBLES[state.trouble] if state.trouble is not None else "an agent"
        yield Entry("stopped", what, said(state.stalled), Severity.BAD)
    elif standing.driver is None and BUDGET.match(story.left):
        yield Entry("budget", "this run's budget", said(story.left), Severity.WARNING)
    for told in standing.in_flight:
        turn = said(told.turn)
        if told.waits:
            yield Entry("permission", said(told.who), said(f"waits for you: {told.waits}"), Severity.ALARM, turn=turn)
        if told.rests:
            yield Entry("rest", said(told.who), said(f"rests: {told.rests}"), Severity.WARNING, turn=turn)


def _persons(told: Moments) -> Iterator[Entry]:
    """What a person did with a run as a whole."""
    for moment in told:
        match moment.record.event:
            case RunForked() as forked:
                yield moment.entry("person", forked.way, _origin(forked))
            case RunAbandoned(why):
                yield moment.entry("person", "given up", why, Severity.WARNING)
            case _:
                pass


def _fork_of(story: RunView) -> RunForked | None:
    event = story.forked.event if story.forked is not None else None
    return event if isinstance(event, RunForked) else None


def _origin(forked: RunForked) -> str:
    verb = "forked from" if forked.way == "fork" else "rolled back to"
    return said(f"{verb} {forked.parent}@{forked.at}")


def _checks(told: Moments) -> Iterator[Entry]:
    for moment in told:
        match moment.record.event:
            case CheckRan(turn, command, exit_code):
                tone = Severity.GOOD if exit_code == 0 else Severity.BAD
                yield moment.entry("check", turn, f"`{command}` exits {exit_code}", tone)
            case _:
                pass


def _settings(told: Moments) -> Iterator[Entry]:
    """Settings that a new driver brought along and that hold now."""
    for moment in told:
        if isinstance(moment.record.event, RunResumed | RunForked):
            for name, how in changed_settings(moment.before.plan, moment.after.plan):
                yield moment.entry("setting", name, how)


def _outcomes(told: Moments) -> Iterator[Entry]:
    for moment in told:
        before, after = moment.before.outcome, moment.after.outcome
        if after is not None and after is not before:
            tone = _TONES.get(after.value, Severity.BAD)
            yield moment.entry("outcome", after.value, moment.after.reason, tone)


def heading(part: str) -> str:
    return _HEADINGS.get(part, part)


Row = TypeVar("Row")


def newest(rows: tuple[Row, ...], at_most: int) -> tuple[int, tuple[Row, ...]]:
    """How many are left out, and the others."""
    left_out = max(len(rows) - at_most, 0)
    return left_out, rows[left_out:]


def lane_title(lane: str, flow: str) -> str:
    """A lane as a person calls it."""
    if flow == "levels" and lane in Level.__members__:
        return of_build.title(Level[lane])
    return "Logos" if lane == LOGOS else lane.replace("_", " ")
