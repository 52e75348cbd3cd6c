"""A run for its page: what waits for a person, who is at work, its turns, events and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from logos.app.moments import Moment
from logos.app.runs import read_report
from logos.domain import events
from logos.domain.events import Recorded
from logos.domain.gates import GateKind
from logos.domain.levels import Level
from logos.domain.reports import TurnKind
from logos.domain.roles import Role
from logos.views.events import EventFormatter, proposal_in_short
from logos.views.redact import one_line
from logos.views.run import RunView
from logos.views.status import Activity, RunStatus
from logos.views.text import cut
from logos.views.turns import TurnView
from logos.views.waiting import Waiting, WaitingKind

_ENDS = (events.TurnAnswered, events.ProofRan, events.CheckRan, events.WorkMerged, events.RunEnded)
_MARKS = 500
# So many turns are listed unless a person wants all.
RECENT_TURNS = 60
RECENT_EVENTS = 40
_STEP = 240


@dataclass(frozen=True, slots=True)
class Doing:
    """A turn that an agent works on now."""

    turn: TurnView
    since: float
    where: str
    last: str
    # Why it does not go on: a prompt, a limit, no process.
    problem: str
    alone: bool


@dataclass(frozen=True, slots=True)
class TurnGroup:
    title: str
    turns: tuple[TurnView, ...]


def doing(status: RunStatus, does: Mapping[str, Activity]) -> tuple[Doing, ...]:
    """What each agent does now; an agent may work on when its driver has died."""
    return tuple(_doing(status, turn, does.get(turn.turn)) for turn in status.in_flight)


def _doing(status: RunStatus, turn: TurnView, activity: Activity | None) -> Doing:
    terminal = status.terminal_of(turn)
    where = f"{terminal.provider}, terminal {terminal.id}" if terminal is not None else ""
    ended = activity is not None and not activity.running
    problem = turn.waits or turn.rests or ("its process has ended" if ended and status.driver is None else "")
    last = cut(one_line(activity.last), _STEP) if activity is not None else ""
    return Doing(turn, turn.asked, where, last, one_line(problem), status.driver is None)


def turn_groups(view: RunView, everything: object = "") -> tuple[TurnGroup, ...]:
    """Turns by round or sweep, the newest first."""
    turns = view.turns if everything else view.turns[-RECENT_TURNS:]
    grouped: dict[str, list[TurnView]] = {}
    for turn in reversed(turns):
        grouped.setdefault(_round_of(turn, view), []).append(turn)
    return tuple(TurnGroup(title, tuple(found)) for title, found in grouped.items())


def hidden_turns(view: RunView, everything: object = "") -> int:
    """How many turns are not listed."""
    return 0 if everything else max(len(view.turns) - RECENT_TURNS, 0)


def _round_of(turn: TurnView, view: RunView) -> str:
    first = turn.turn.partition(".")[0]
    return f"{view.words.round.capitalize()} {first[1:]}" if first[1:].isdecimal() else "Before"


def neighbours(view: RunView, turn: TurnView) -> tuple[TurnView | None, TurnView | None]:
    """The turns before and after one."""
    place = next((place for place, own in enumerate(view.turns) if own.turn == turn.turn), 0)
    before = view.turns[place - 1] if place else None
    return before, view.turns[place + 1] if place + 1 < len(view.turns) else None


@dataclass(frozen=True, slots=True)
class EventRow:
    seq: int
    at: float
    text: str
    tone: str


def event_rows(view: RunView, most: int = RECENT_EVENTS) -> tuple[EventRow, ...]:
    """The last events in words, the newest first."""
    first = max(len(view.records) - most, 0)
    formatter = EventFormatter(read_report, view.plan)
    # The formatter says what an event changed, so it needs the state before the first one that is shown.
    rows = list[EventRow]()
    for record, state in zip(view.records[max(first - 1, 0) :], view.states[max(first - 1, 0) :], strict=True):
        lines = formatter.lines(record, state)
        if record.seq > first:
            rows += [EventRow(record.seq, record.at, one_line(line.text), str(line.severity)) for line in lines]
    return tuple(reversed(rows))


def event_words(record: Recorded) -> str:
    """One event in a few words, as the scrubber names it."""
    kind = record.event.kind.replace("_", " ")
    turn = getattr(record.event, "turn", None) or getattr(record.event, "gate", None)
    return f"{turn}: {kind.removeprefix('turn ')}" if turn else kind


def nobody_at_work(status: RunStatus) -> str:
    """Why no agent is at work."""
    view = status.view
    if status.waiting:
        return "Nobody is at work: it waits for you."
    if view.outcome is not None:
        return f"The {view.words.run} has ended."
    if status.driver is None:
        return f"Nobody is at work: no driver is attached{f' ({one_line(view.left)})' if view.left else ''}."
    return "Logos itself is at work."


@dataclass(frozen=True, slots=True)
class WaitingItem:
    """What waits for a person, with what helps to decide: `pages` are names and parts of the run's address."""

    waiting: Waiting
    about: str
    pages: tuple[tuple[str, str], ...] = ()
    plan: TurnView | None = None
    options: tuple[str, ...] = ()
    objections: tuple[str, ...] = ()
    evidence: str = ""


def waiting(moment: Moment) -> tuple[WaitingItem, ...]:
    return tuple(_item(one, moment.view) for one in moment.status.waiting)


def _item(one: Waiting, view: RunView) -> WaitingItem:
    if one.kind is WaitingKind.PERMISSION:
        return WaitingItem(one, f"{one.id} asks for a permission", ((one.id, f"turns/{one.id}"),))
    if one.kind is WaitingKind.GATE:
        return _gate(one, view)
    question = view.question
    if question is None:
        return WaitingItem(one, f"question {one.id}")
    options = tuple(proposal_in_short(option) for option in question.options)
    evidence = question.evidence
    return WaitingItem(one, f"question {one.id}", options=options, objections=question.objections, evidence=evidence)


def _gate(one: Waiting, view: RunView) -> WaitingItem:
    """With what is to be approved: the plan, or the result."""
    gate, about = view.state.gate, f"gate {one.id}"
    if gate is None or gate.at is GateKind.BEFORE_PASS:
        return WaitingItem(one, about, (("what was proven", "proof"), ("what changed", "diff")))
    plan = next((turn for turn in reversed(view.turns) if turn.agent == Role.ANALYST or _is_plan(turn)), None)
    pages = (("what changed", "diff"),)
    return (
        WaitingItem(one, about, pages)
        if plan is None
        else WaitingItem(one, about, ((plan.turn, f"turns/{plan.turn}"), *pages), plan)
    )


def _is_plan(turn: TurnView) -> bool:
    level = turn.in_build
    return level is not None and level.level is Level.L3 and level.kind is TurnKind.DECOMPOSE


def agents_of(view: RunView) -> tuple[str, ...]:
    """Whom a person can tell something: roles, or levels that take part and their components."""
    if view.build is None:
        return tuple(Role)
    return (*(level.name for level in view.build.levels), *(component.name for component in view.build.components))


@dataclass(frozen=True, slots=True)
class CheckpointChoice:
    seq: int
    words: str


def checkpoints(view: RunView, chosen: str = "") -> tuple[CheckpointChoice, ...]:
    """The events after which files may differ: the ends of turns, the newest first; and the one that was chosen."""
    kinds = (events.RunStarted, events.RunForked, *_ENDS)
    wanted = [record for record in view.records if isinstance(record.event, kinds)][-_MARKS:]
    asked = [record for record in view.records if str(record.seq) == chosen and record not in wanted]
    marks = sorted((*wanted, *asked), key=lambda record: -record.seq)
    return tuple(CheckpointChoice(record.seq, event_words(record)) for record in marks)
