"""Runs as pictures: the roles of a cycle, the ladder of a build, bars, and the strip of events under the scrubber."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from logos.domain import events
from logos.domain.levels import LEVELS, Level
from logos.domain.roles import ACCEPTANCE_TESTER, Role
from logos.domain.turns import Outcome
from logos.domain.usage import Spent
from logos.flows.cycle.state import CycleState
from logos.flows.levels.state import LevelsState, LevelStatus
from logos.views.continuity.entries import Transition
from logos.views.continuity.turns import efforts_of, lanes_of, spans_of
from logos.views.events import Severity, severity_of
from logos.views.redact import one_line
from logos.views.run import RunView, State
from logos.views.status import RunStatus
from logos.views.text import count, duration, number
from logos.views.turns import LOGOS, TurnView
from logos.views.usage import price

# The strip has so many columns at most, however many events there are.
COLUMNS = 240
_ROLE_NAMES = {
    Role.ANALYST: "Analyst",
    Role.PEER_ANALYST: "Peer analyst",
    Role.PROGRAMMER: "Programmer",
    Role.PEER_PROGRAMMER: "Peer programmer",
    Role.TESTER: "Tester",
    ACCEPTANCE_TESTER: "Acceptance tester",
    LOGOS: "Logos",
}
# That files were changed is what a run is for.
_CHANGED = re.compile(r"[1-9][\d,]* files? changed")
_PHASES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Analysis", (Role.ANALYST, Role.PEER_ANALYST)),
    ("Code", (Role.PROGRAMMER, Role.PEER_PROGRAMMER)),
    ("Test", (ACCEPTANCE_TESTER, Role.TESTER)),
    ("Proof", (LOGOS,)),
)


@dataclass(frozen=True, slots=True)
class Node:
    """An agent in the picture. `state`: at-work, waits, good, bad, warning, done, or idle; `note` says why in words."""

    name: str
    state: str
    note: str
    turn: str = ""


@dataclass(frozen=True, slots=True)
class PhaseBox:
    title: str
    nodes: tuple[Node, ...]
    is_now: bool


@dataclass(frozen=True, slots=True)
class Rung:
    """A level: what it handed down, and whether it finds that satisfied on the way up."""

    level: str
    title: str
    mandate: str
    takes_part: bool
    spec: str
    spec_turn: str
    components: tuple[Node, ...]
    standing: str
    tone: str
    at_work: tuple[Node, ...]
    is_now: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of a chart; `share` is of the largest, from 0 to 100."""

    name: str
    turns: str
    time: str
    time_share: float
    cost: str
    tokens: str
    usage_share: float


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the strip: one event, or several where there are many; `x` and `width` are in 1000ths."""

    x: float
    width: float
    tone: str


# -- the roles of a cycle


def phases(status: RunStatus) -> tuple[PhaseBox, ...]:
    """The roles as they stand in the current round."""
    state = status.view.state
    if not isinstance(state, CycleState):
        return ()
    held = {turn.agent: turn for turn in status.in_flight}
    last = {turn.agent: turn for turn in status.view.turns}
    driven = status.driver is not None
    return tuple(_phase(title, roles, held, last, state, driven=driven) for title, roles in _PHASES)


def _phase(
    title: str,
    roles: Iterable[str],
    held: dict[str, TurnView],
    last: dict[str, TurnView],
    state: CycleState,
    *,
    driven: bool,
) -> PhaseBox:
    shown = [role for role in roles if role != ACCEPTANCE_TESTER or role in last]
    nodes = tuple(
        _logos(last.get(LOGOS), state, driven=driven)
        if role == LOGOS
        else _node(role, held.get(role), last.get(role), state.round)
        for role in shown
    )
    return PhaseBox(title, nodes, any(node.state in ("at-work", "waits") for node in nodes))


def _node(name: str, held: TurnView | None, last: TurnView | None, round_: int) -> Node:
    title = _ROLE_NAMES.get(name, name)
    if held is not None:
        return Node(title, "waits" if held.waits else "at-work", _at_work(held), held.turn)
    if last is None:
        return Node(title, "idle", "not asked yet")
    tone, verdict = tone_of(last), one_line(last.verdict) or "answered"
    if not last.turn.startswith(f"r{round_}."):
        earlier = last.turn.partition(".")[0].removeprefix("r")
        return Node(title, "idle", f"{verdict} in round {earlier}", last.turn)
    return Node(title, tone if tone != "normal" else "done", verdict, last.turn)


def _logos(last: TurnView | None, state: CycleState, *, driven: bool) -> Node:
    title = "Logos proves it"
    if state.outcome is None and state.proving and driven:
        return Node(title, "at-work", _step(state.action_id))
    if state.outcome is Outcome.PASSED:
        return Node(title, "good" if state.verified else "warning", "proven" if state.verified else "not proven")
    if last is None or not last.turn.startswith(f"r{state.round}."):
        return Node(title, "idle", "after the tester's PASS")
    return Node(title, {"normal": "done"}.get(tone_of(last), tone_of(last)), one_line(last.verdict), last.turn)


def _step(action: str) -> str:
    return f"step {action.rpartition('.')[2].replace('_', ' ')}"


def _at_work(turn: TurnView) -> str:
    return "waits for you" if turn.waits else "rests" if turn.rests else "at work"


def tone_of(turn: TurnView) -> str:
    """How a turn ended: good, bad, warning or normal."""
    if turn.agent == LOGOS and _CHANGED.fullmatch(turn.verdict):
        return str(Severity.NORMAL)
    return str(Severity.BAD if turn.failure else severity_of(turn.verdict))


# -- the ladder of a build

_STANDING = {
    LevelStatus.PROVEN: ("proven by tools", "good"),
    LevelStatus.PASSED: ("satisfied", "good"),
    LevelStatus.FAILED: ("not satisfied", "bad"),
    LevelStatus.UNPROVEN: ("no tool proves it", "warning"),
}


def ladder(status: RunStatus) -> tuple[Rung, ...]:
    state = status.view.build
    if state is None:
        return ()
    return tuple(_rung(level, state, status.in_flight) for level in LEVELS)


def _rung(level: Level, state: LevelsState, in_flight: Sequence[TurnView]) -> Rung:
    about, spec = LEVELS[level], state.spec_of(level)
    held = [turn for turn in in_flight if turn.in_build is not None and turn.in_build.level is level]
    words, tone = _STANDING.get(state.standing.get(level) or LevelStatus.PASSED, ("", "normal"))
    known = level in state.standing
    authors = tuple(_component(component.name, state) for component in state.components) if level is Level.L2 else ()
    return Rung(
        level.name,
        about.title,
        about.mandate,
        level in state.levels,
        one_line(spec.summary) if spec is not None else "",
        spec.turn if spec is not None else "",
        authors,
        words if known else "",
        tone if known else "normal",
        tuple(map(_at_level, held)),
        state.outcome is None and level is state.level,
    )


def _at_level(turn: TurnView) -> Node:
    kind = turn.in_build.kind.value if turn.in_build is not None else ""
    note = "waits for you" if turn.waits else f"at work: {kind}"
    return Node(one_line(turn.who), "waits" if turn.waits else "at-work", note, turn.turn)


def _component(name: str, state: LevelsState) -> Node:
    built = state.contributions.get(name)
    if name in state.stuck:
        return Node(one_line(name), "bad", "stuck")
    if built is None:
        return Node(one_line(name), "idle", "not built yet")
    return Node(one_line(name), "good" if built.merged else "done", "merged" if built.merged else "built", built.turn)


# -- cost and time

_SPANNED = (events.TurnAsked, events.TurnEnded, events.TurnFailed, events.RunForked)


def bars(view: RunView, since: float = 0.0) -> tuple[Bar, ...]:
    """Time and usage of each role or level, and of Logos itself; `since` the last event, a driver has gone on."""
    spans = spans_of(view, view.sessions, tuple(_steps(view)))
    rows = efforts_of(spans, lanes_of(spans, view.build.levels if view.build is not None else None))
    at_work = Counter(span.lane for span in spans if span.in_flight)
    rows = tuple(replace(row, seconds=row.seconds + since * at_work[row.name]) for row in rows)
    longest = max((row.seconds for row in rows), default=0.0)
    known = [_amount(row.bill) for row in rows]
    largest = max(known, default=0.0)
    return tuple(
        Bar(
            title_of(row.name),
            count(row.turns, "turn"),
            duration(row.seconds),
            _share(row.seconds, longest),
            "" if row.bill.usage.cost_usd is None else price(row.bill.usage),
            "" if row.bill.usage.tokens is None else number(row.bill.usage.tokens),
            _share(amount, largest),
        )
        for row, amount in zip(rows, known, strict=True)
    )


def _steps(view: RunView) -> Iterator[Transition[State]]:
    """The events that begin and end turns, each with its session."""
    sessions = iter(view.sessions)
    session = next(sessions)
    for place, record in enumerate(view.records):
        while record.seq > session.last:
            session = next(sessions)
        if isinstance(record.event, _SPANNED):
            yield Transition(record, session, view.states[max(place - 1, 0)], view.states[place])


def title_of(lane: str) -> str:
    if lane in Level.__members__:
        return f"{lane} {LEVELS[Level[lane]].title}"
    return _ROLE_NAMES.get(lane, lane)


def _amount(bill: Spent) -> float:
    """Dollars where they are known, else tokens: both are shown beside the bar."""
    return bill.usage.cost_usd or float(bill.usage.tokens or 0) / 1e9


def _share(part: float, of: float) -> float:
    return round(100 * part / of, 1) if of else 0.0


# -- the strip

# The worst first: where a column stands for several events, it has the tone of the worst.
_TONES = ("bad", "alarm", "warning", "good", "agent", "logos", "normal")
_NORMAL = _TONES.index("normal")
_RANKS = {tone: rank for rank, tone in enumerate(_TONES)}
Ended = Mapping[str, TurnView]


def strip(view: RunView) -> tuple[Column, ...]:
    """Every event as a column; where there are too many, a column stands for several."""
    last = len(view.records)
    columns = min(last, COLUMNS)
    ended = {turn.turn: turn for turn in view.turns}
    # Most events are of no kind that has a tone: a run may have tens of thousands.
    ranks = [
        tone(record.event, ended) if (tone := _KINDS.get(type(record.event))) else _NORMAL for record in view.records
    ]
    return tuple(_merged(ranks, column, columns, last) for column in range(columns))


def _merged(ranks: Sequence[int], column: int, columns: int, last: int) -> Column:
    first, end = column * last // columns, (column + 1) * last // columns
    tone = _TONES[min(ranks[first:end])]
    return Column(round(1000 * first / last, 2), round(1000 * (end - first) / last, 2), tone)


def _bad(_: Any, __: Ended) -> int:
    return _RANKS["bad"]


def _alarm(_: Any, __: Ended) -> int:
    return _RANKS["alarm"]


def _ended_well(event: Any, _: Ended) -> int:
    return _RANKS["good" if event.outcome is Outcome.PASSED else "bad"]


def _noted(event: Any, _: Ended) -> int:
    return _RANKS["alarm"] if event.topic is events.Topic.PERMISSION_ASKED else _NORMAL


def _of_turn(event: Any, ended: Ended) -> int:
    tone = tone_of(ended[event.turn]) if event.turn in ended else "normal"
    plain = "agent" if isinstance(event, events.TurnAnswered) else "logos"
    return _RANKS[plain if tone == "normal" else tone]


_KINDS: Mapping[type[events.Event], Callable[[Any, Ended], int]] = {
    **dict.fromkeys((events.TurnFailed, events.RecordsTampered, events.WorkUndone), _bad),
    events.GateOpened: _alarm,
    events.Noted: _noted,
    events.RunEnded: _ended_well,
    **dict.fromkeys((events.TurnAnswered, events.CheckRan, events.ProofRan), _of_turn),
}
