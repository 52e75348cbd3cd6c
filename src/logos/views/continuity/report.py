"""The continuity report: a run across its sessions, for every flow. Every text in it may be shown."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import reduce
from typing import Any, cast

from logos.domain.events import (
    CheckRan,
    Event,
    GateDecided,
    PermissionDecided,
    PersonSaid,
    ProofRan,
    RunAbandoned,
    RunForked,
    RunResumed,
)
from logos.domain.levels import Level
from logos.domain.turns import FailureKind
from logos.flows.cycle.findings import FindingState
from logos.views.continuity import of_build, of_cycle
from logos.views.continuity.entries import Entry, Sections, Steps, entry, printable, printable_columns, transitions
from logos.views.continuity.turns import Effort, TurnSpan, efforts_of, lanes_of, spans_of
from logos.views.document import EffortDocument, ReportParts, RunDocument
from logos.views.events import Severity
from logos.views.findings import FindingView
from logos.views.proof import certificate_of, failure_of
from logos.views.run import RunView
from logos.views.sessions import Session
from logos.views.status import BUDGET, SEVERITIES, RunStatus
from logos.views.text import first_line, number
from logos.views.turns import LOGOS, PROOF_STEPS, proof_in_words

_ASKED_FOR = 200
_END = 120
# Of longer values of settings only the length is shown.
_VALUE = 60
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
    FailureKind.CUT_OFF: "a response of an agent that did not end well",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuityReport:
    """A run across its sessions. `since` is the session from which on things count as new."""

    status: RunStatus
    view: RunView
    next: str
    run: str
    wd: str
    asked_for: str
    reason: str
    damage: str
    # The checkpoint that it was forked from, in words.
    origin: str
    since: Session
    sessions: tuple[Session, ...]
    days: int
    spans: tuple[TurnSpan, ...]
    in_flight: tuple[TurnSpan, ...]
    sections: Sections
    findings: tuple[Entry, ...]
    changed: Changes
    lanes: tuple[str, ...]
    efforts: tuple[Effort, ...]
    # All agents together, without the steps of Logos itself.
    total: Effort


def continuity(status: RunStatus, since: int, next_step: str, files: Iterable[str] = ()) -> ContinuityReport:
    """`since` is a session's number; `files` are lines of a diff."""
    view, steps = status.view, tuple(transitions(status.view))
    sessions = tuple(replace(session, left=printable(session.left, _END)) for session in view.sessions)
    if status.driver is not None and view.outcome is None:
        sessions = (*sessions[:-1], replace(sessions[-1], outcome="", left="at work now"))
    spans, sections = spans_of(view, sessions, steps), _sections(status, steps)
    agents = [span for span in spans if span.lane != LOGOS]
    lanes = lanes_of(spans, view.build.levels if view.build else None)
    new = tuple(span for span in agents if not span.in_flight and span.over[0] >= since)
    return ContinuityReport(
        status=status,
        view=view,
        next=printable(next_step),
        run=printable(view.run),
        wd=printable(status.work_dir),
        asked_for=printable(first_line(view.plan.request, _ASKED_FOR)),
        reason=printable(status.reason),
        damage=printable(view.damage),
        origin=_origin(view.fork) if view.fork is not None else "",
        since=sessions[since - 1],
        sessions=sessions,
        days=len({session.date.partition(" ")[0] for session in sessions}),
        spans=spans,
        in_flight=() if view.outcome else tuple(span for span in spans if span.in_flight),
        sections=sections,
        findings=tuple(_finding(own) for own in view.findings),
        changed=Changes(sections.since(since), new, tuple(map(printable_columns, files))),
        lanes=lanes,
        efforts=efforts_of(spans, lanes),
        total=reduce(Effort.plus, (span for span in agents if not span.view.inherited), Effort("total")),
    )


def _sections(status: RunStatus, steps: Steps) -> Sections:
    """The sections of the flow, with what is common to every flow."""
    own = _SECTIONS[status.view.plan.flow](status.view.state, steps)
    decisions, checks, settings, outcomes = [*own.decisions], list[Entry](), list[Entry](), list[Entry]()
    for step in steps:
        event, before, after = step.record.event, step.before.outcome, step.after.outcome
        if isinstance(event, RunForked):
            decisions.append(entry("person", event.way, _origin(event), step=step))
        if (said := _by_a_person(event)) is not None:
            decisions.append(entry("person", *said, step=step))
        if isinstance(event, RunAbandoned):
            decisions.append(entry("person", "given up", event.why, Severity.WARNING, step=step))
        if isinstance(event, CheckRan):
            severity = Severity.GOOD if event.exit_code == 0 else Severity.BAD
            how = f"`{event.command}` exits {event.exit_code}"
            checks.append(entry("check", event.turn, how, severity, step=step))
        if isinstance(event, ProofRan):
            why = failure_of(step.before, event)
            how = f"{PROOF_STEPS[event.step]}: {proof_in_words(event)}"
            checks.append(entry("check", event.turn, how, Severity.BAD if why else Severity.GOOD, why, step))
        if isinstance(event, RunResumed | RunForked):
            changed = _changed_settings(step.before.plan, step.after.plan)
            settings += [entry("setting", name, how, step=step) for name, how in changed]
        if after is not None and after is not before:
            severity = SEVERITIES.get(after.value, Severity.BAD)
            outcomes.append(entry("outcome", after.value, step.after.reason, severity, step=step))
    certificate = certificate_of(status.view)
    for failure in certificate.unrelated:
        how = f"failed before the run, declared unrelated by {failure.by}"
        decisions.append(entry("tests", failure.test, how, Severity.WARNING, failure.why))
    for declared in certificate.declared:
        if declared.files:
            how = f"{', '.join(declared.files)} changed as declared by {declared.by}"
            decisions.append(entry("tests", declared.path, how, Severity.WARNING, declared.why))
    return replace(
        own,
        blocked=(*own.blocked, *_stopped(status)),
        # By session; within one, the clock is good enough.
        decisions=tuple(sorted(decisions, key=lambda line: (line.session or 0, line.at or 0.0))),
        checks=tuple(checks),
        settings=tuple(settings),
        outcomes=tuple(outcomes),
    )


def _by_a_person(event: Event) -> tuple[str, str, Severity] | None:
    """What a person decided or said: about what, how, and how good that is."""
    match event:
        case GateDecided(gate, True):
            return gate, "approved", Severity.GOOD
        case GateDecided(gate, False, words):
            return gate, f"rejected: {words}" if words else "rejected", Severity.WARNING
        case PermissionDecided(turn, granted):
            return turn, f"a permission was {'given' if granted else 'refused'}", Severity.NORMAL
        case PersonSaid(text, agent):
            return f"guidance for {agent.replace('_', ' ') if agent else 'the next agent'}", text, Severity.NORMAL
        case _:
            return None


_FINDING_SEVERITIES = {FindingState.SETTLED: Severity.GOOD, FindingState.AGAIN: Severity.BAD}


def _finding(found: FindingView) -> Entry:
    """One finding, under its state."""
    severity = _FINDING_SEVERITIES.get(found.state, Severity.WARNING)
    since = f"{found.first} to {found.last}" if found.last != found.first else ""
    who = ", ".join(part for part in (found.raised_by.replace("_", " "), since) if part)
    own = entry(found.state, f"{found.id} {found.text}", who, severity)
    return replace(own, turn=printable(found.last), at=found.last_at)


def _changed_settings(before: object, after: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Each field that differs, by its whole name, and how: `review.max_cycles`, `3 → 5`."""
    if before == after:
        return
    parts, others = _parts(before), _parts(after)
    if parts is None or others is None:
        yield name, f"{_setting(before, after)} → {_setting(after, before)}"
        return
    for key in dict.fromkeys((*parts, *others)):
        yield from _changed_settings(parts.get(key), others.get(key), f"{name}.{key}" if name else key)


def _parts(value: object) -> dict[str, object] | None:
    """The parts of a value by name; None for a value that has none."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    rows = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()
    if rows and all(is_dataclass(row) and hasattr(row, "name") for row in rows):
        return {str(row.name): row for row in rows}
    if rows and all(isinstance(row, tuple) and len(cast("tuple[Any, ...]", row)) == 2 for row in rows):
        return {_setting(key): text for key, text in rows}
    return None


def _setting(value: object, beside: object = None) -> str:
    """Short values as they are; of long ones only the length."""
    if value is None or value == () or value == "":
        return "none"
    if is_dataclass(value) and not isinstance(value, type):
        return ", ".join(_setting(getattr(value, field.name)) for field in fields(value) if field.name != "name")
    if isinstance(value, tuple):
        return ", ".join(map(_setting, cast("tuple[object, ...]", value)))
    if isinstance(value, Enum):
        return value.name if isinstance(value, int) else str(value.value)
    text = str(value)
    return f"{number(len(text))} characters" if max(len(text), len(str(beside))) > _VALUE else text


def _stopped(status: RunStatus) -> Iterator[Entry]:
    """What keeps a run from continuing, whatever its flow."""
    view, state = status.view, status.view.state
    if state.outcome is not None:
        return
    if state.gate is not None:
        waits = entry("gate", state.gate.id, f"waits for you: {state.gate.question}", Severity.ALARM)
        yield replace(waits, turn=state.gate.id)
    if state.stalled:
        what = _FAILURES[state.trouble] if state.trouble is not None else "an agent"
        yield entry("stopped", what, state.stalled, Severity.BAD)
    elif status.driver is None and BUDGET.match(view.left):
        yield entry("budget", "this run's budget", view.left, Severity.WARNING)
    for turn in status.in_flight:
        if turn.waits:
            waits = entry("permission", turn.who, f"waits for you: {turn.waits}", Severity.ALARM)
            yield replace(waits, turn=printable(turn.turn))
        if turn.rests:
            rests = entry("rest", turn.who, f"rests: {turn.rests}", Severity.WARNING)
            yield replace(rests, turn=printable(turn.turn))


def _origin(forked: RunForked) -> str:
    verb = "forked from" if forked.way == "fork" else "rolled back to"
    return printable(f"{verb} {forked.parent}@{forked.at}")


def heading(part: str) -> str:
    return _HEADINGS.get(part, part)


def lane_title(lane: str) -> str:
    if lane in Level.__members__:
        return of_build.title(Level[lane])
    return "Logos" if lane == LOGOS else lane.replace("_", " ")


def report_document(report: ContinuityReport) -> dict[str, Any]:
    parts = {**ReportParts.of(report), "effort": EffortDocument.of(report)}
    return {**RunDocument.of(report.status), **parts}
