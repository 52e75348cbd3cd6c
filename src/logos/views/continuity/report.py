"""The continuity report: a run across its sessions, for every flow. Every text in it may be shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeVar

from logos.domain.events import CheckRan, RunAbandoned, RunForked, RunResumed
from logos.domain.levels import Level
from logos.domain.turns import FailureKind
from logos.views.continuity import of_build, of_cycle
from logos.views.continuity.entries import (
    Entry,
    Sections,
    Transition,
    entry,
    printable,
    printable_columns,
    transitions,
)
from logos.views.continuity.plan_changes import changed_settings
from logos.views.continuity.turns import Effort, TurnSpan, efforts_of, lanes_of, spans_of
from logos.views.events import Severity
from logos.views.run import LOGOS, RunView
from logos.views.sessions import Session
from logos.views.status import BUDGET, SEVERITIES, RunStatus
from logos.views.text import first_line

Steps = tuple[Transition[Any], ...]

_ASKED_FOR = 200
_END = 120
# Changes that the report also lists elsewhere, and parts that a heading names already.
LISTED_ELSEWHERE = ("Completed", "Decisions")
HEADED = ("outcome", "check", "merge", "setting")
_HEADINGS = {"spec": "specs in force", "component": "components", "validation": "levels found valid"}
_FAILURES = {
    FailureKind.ERROR: "an agent's error",
    FailureKind.TIMEOUT: "an agent that takes too long",
    FailureKind.NO_FILE: "a response that did not come",
    FailureKind.DIED: "an agent that died",
    FailureKind.PROVIDER: "a provider's error",
    FailureKind.LIMIT: "a provider's limit",
    FailureKind.TRANSIENT: "a provider's transient error",
    FailureKind.PERMISSION: "a permission prompt",
    FailureKind.UNFIT: "a response that cannot be used",
}
_SECTIONS: dict[str, Callable[[Any, Any], Sections]] = {"cycle": of_cycle.sections, "levels": of_build.sections}


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened since the beginning of a session."""

    sections: Sections
    turns: tuple[TurnSpan, ...]
    files: tuple[str, ...]

    @property
    def nothing(self) -> bool:
        return not (self.turns or self.lists or self.files)

    @property
    def lists(self) -> tuple[tuple[str, tuple[Entry, ...]], ...]:
        """The sections that have entries, under their headings; specs are listed once."""
        sections = self.sections
        named = (
            ("Outcome", sections.outcomes),
            ("Completed", tuple(own for own in sections.completed if own.part != "spec")),
            ("Decisions", sections.decisions),
            ("Specs", sections.specs),
            ("Merged", sections.merges),
            ("Checks", sections.checks),
            ("Settings", sections.settings),
        )
        return tuple((name, entries) for name, entries in named if entries)


@dataclass(frozen=True, slots=True)
class ContinuityReport:
    """A run across its sessions. `since` is the session from which on things count as new."""

    status: RunStatus
    next: str
    since: Session
    sessions: tuple[Session, ...]
    spans: tuple[TurnSpan, ...]
    sections: Sections
    files: tuple[str, ...] = ()

    @property
    def view(self) -> RunView:
        return self.status.view

    @property
    def flow(self) -> str:
        return self.view.plan.flow

    @property
    def run(self) -> str:
        return printable(self.view.run)

    @property
    def wd(self) -> str:
        return printable(self.status.work_dir)

    @property
    def asked_for(self) -> str:
        return printable(first_line(self.view.plan.request, _ASKED_FOR))

    @property
    def reason(self) -> str:
        return printable(self.status.reason)

    @property
    def damage(self) -> str:
        return printable(self.view.damage)

    @property
    def origin(self) -> str:
        return _origin(self.view.fork) if self.view.fork is not None else ""

    @property
    def by(self) -> str:
        """What efforts are added up by: role or level."""
        return self.view.words.group

    @property
    def driven(self) -> float:
        """The seconds in which this run itself had a driver."""
        return sum(session.seconds for session in self.sessions if not session.inherited)

    @property
    def days(self) -> int:
        return len({session.date.partition(" ")[0] for session in self.sessions})

    @property
    def lanes(self) -> tuple[str, ...]:
        return lanes_of(self.spans, self.view.build.levels if self.view.build else None)

    @property
    def efforts(self) -> tuple[Effort, ...]:
        return efforts_of(self.spans, self.lanes)

    @property
    def total(self) -> Effort:
        """All agents together, without the steps of Logos itself."""
        own = (span for span in self.spans if not (span.inherited or span.by_logos))
        return reduce(Effort.plus, own, Effort("total"))

    @property
    def in_flight(self) -> tuple[TurnSpan, ...]:
        return () if self.view.outcome else tuple(span for span in self.spans if span.in_flight)

    @property
    def all_new(self) -> bool:
        """Whether nothing happened before `since`."""
        return self.since.number == 1

    @property
    def changed(self) -> Changes:
        first = self.since.number
        answered = (span for span in self.spans if not (span.by_logos or span.in_flight))
        return Changes(self.sections.since(first), tuple(s for s in answered if s.over[0] >= first), self.files)


def continuity(status: RunStatus, since: int, next_step: str, files: Iterable[str] = ()) -> ContinuityReport:
    """`since` is a session's number; `files` are lines of a diff."""
    view = status.view
    sessions = tuple(replace(session, left=printable(session.left, _END)) for session in view.sessions)
    if status.driver is not None and view.outcome is None:
        sessions = (*sessions[:-1], replace(sessions[-1], outcome="", left="at work now"))
    steps = tuple(transitions(view))
    spans, lines = spans_of(view, sessions), tuple(map(printable_columns, files))
    return ContinuityReport(
        status, printable(next_step), sessions[since - 1], sessions, spans, _all(status, steps), lines
    )


def _all(status: RunStatus, steps: Steps) -> Sections:
    """The sections of the flow, with what is common to every flow."""
    view = status.view
    own = _SECTIONS[view.plan.flow](view.state, steps)
    decisions = (*own.decisions, *_by_persons(steps))
    return replace(
        own,
        blocked=(*own.blocked, *_stopped(status)),
        # By session; within one, the clock is good enough.
        decisions=tuple(sorted(decisions, key=lambda line: (line.session or 0, line.at or 0.0))),
        checks=tuple(_checks(steps)),
        settings=tuple(_settings(steps)),
        outcomes=tuple(_outcomes(steps)),
    )


def _stopped(status: RunStatus) -> Iterator[Entry]:
    """What keeps a run from continuing, whatever its flow."""
    view, state = status.view, status.view.state
    if state.outcome is not None:
        return
    if state.stalled:
        what = _FAILURES[state.trouble] if state.trouble is not None else "an agent"
        yield entry("stopped", what, state.stalled, Severity.BAD)
    elif status.driver is None and BUDGET.match(view.left):
        yield entry("budget", "this run's budget", view.left, Severity.WARNING)
    for turn in status.in_flight:
        name = printable(turn.turn)
        if turn.waits:
            waits = entry("permission", turn.who, f"waits for you: {turn.waits}", Severity.ALARM)
            yield replace(waits, turn=name)
        if turn.rests:
            yield replace(entry("rest", turn.who, f"rests: {turn.rests}", Severity.WARNING), turn=name)


def _by_persons(steps: Steps) -> Iterator[Entry]:
    """What a person did with the run as a whole."""
    for step in steps:
        match step.record.event:
            case RunForked() as forked:
                yield step.entry("person", forked.way, _origin(forked))
            case RunAbandoned(why):
                yield step.entry("person", "given up", why, Severity.WARNING)
            case _:
                pass


def _origin(forked: RunForked) -> str:
    verb = "forked from" if forked.way == "fork" else "rolled back to"
    return printable(f"{verb} {forked.parent}@{forked.at}")


def _checks(steps: Steps) -> Iterator[Entry]:
    for step in steps:
        match step.record.event:
            case CheckRan(turn, command, exit_code):
                severity = Severity.GOOD if exit_code == 0 else Severity.BAD
                yield step.entry("check", turn, f"`{command}` exits {exit_code}", severity)
            case _:
                pass


def _settings(steps: Steps) -> Iterator[Entry]:
    """Settings that a new driver changed."""
    for step in steps:
        if isinstance(step.record.event, RunResumed | RunForked):
            for name, how in changed_settings(step.before.plan, step.after.plan):
                yield step.entry("setting", name, how)


def _outcomes(steps: Steps) -> Iterator[Entry]:
    for step in steps:
        before, after = step.before.outcome, step.after.outcome
        if after is not None and after is not before:
            severity = SEVERITIES.get(after.value, Severity.BAD)
            yield step.entry("outcome", after.value, step.after.reason, severity)


def heading(part: str) -> str:
    return _HEADINGS.get(part, part)


ReportRow = TypeVar("ReportRow")


def newest(rows: tuple[ReportRow, ...], at_most: int) -> tuple[int, tuple[ReportRow, ...]]:
    """How many are left out, and the others."""
    left_out = max(len(rows) - at_most, 0)
    return left_out, rows[left_out:]


def lane_title(lane: str) -> str:
    """The name of a lane for people."""
    if lane in Level.__members__:
        return of_build.title(Level[lane])
    return "Logos" if lane == LOGOS else lane.replace("_", " ")
