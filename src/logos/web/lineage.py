"""The lineage of a build as a graph: from the purpose over the specs and components to files and tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from logos.domain.levels import LEVELS, Level
from logos.domain.reports import Component
from logos.flows.levels.reconcile import Dispute
from logos.flows.levels.state import LevelsState
from logos.views.events import proposal_in_short
from logos.views.redact import clean, one_line
from logos.views.text import cut

_WIDTH, _GAP, _HEIGHT, _SPACE = 236, 72, 44, 16
_LEAF, _LETTERS = 26, 31


@dataclass(frozen=True, slots=True)
class Box:
    """A node of the graph. `kind` is purpose, spec, component, file or test; `turn` is where it was written."""

    x: int
    y: int
    width: int
    height: int
    kind: str
    title: str
    text: str
    whole: str
    turn: str = ""

    @property
    def middle(self) -> int:
        return self.y + self.height // 2

    @property
    def right(self) -> int:
        return self.x + self.width


@dataclass(frozen=True, slots=True)
class Edge:
    path: str
    kind: str = "leads"


@dataclass(frozen=True, slots=True)
class Graph:
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Side:
    """What one level said in a reconciliation."""

    level: str
    title: str
    position: str
    vote: str


@dataclass(frozen=True, slots=True)
class ReconciliationRow:
    id: str
    cause: str
    level: str
    question: str
    evidence: str
    sides: tuple[Side, ...]
    proposals: tuple[str, ...]
    objections: tuple[str, ...]
    decision: str
    by: str
    rounds: int


def graph(state: LevelsState) -> Graph:
    chain = tuple(_chain(state))
    components, leaves, edges = list[Box](), list[Box](), list[Edge]()
    y = 0
    for component in state.components:
        own = tuple(_leaves(component, state, y))
        tall = max(_HEIGHT, len(own) * (_LEAF + 6) - 6)
        components.append(_component(component, state, y + (tall - _HEIGHT) // 2))
        leaves += own
        edges += [_curve(components[-1], leaf) for leaf in own]
        y += tall + _SPACE
    edges += [Edge(f"M{a.x + 24} {a.y + a.height}V{b.y}") for a, b in pairwise(chain)]
    edges += [_curve(chain[-1], component) for component in components] if chain else []
    boxes = (*chain, *components, *leaves)
    height = max((box.y + box.height for box in boxes), default=0)
    return Graph(boxes, tuple(edges), 3 * _WIDTH + 2 * _GAP, height)


def _chain(state: LevelsState) -> Iterator[Box]:
    """The purpose, and the specs in force, one below the other."""
    telos = dict(state.plan.telos)
    purpose = one_line(telos[max(telos)]) if telos else "no telos.toml"
    held = [(level, spec) for level in LEVELS if level in state.levels and (spec := state.spec_of(level)) is not None]
    step = _HEIGHT + _SPACE
    yield Box(0, 0, _WIDTH, _HEIGHT, "purpose", "Purpose", cut(purpose, _LETTERS), purpose)
    for place, (level, spec) in enumerate(held, 1):
        text = one_line(spec.summary)
        title = f"{spec.id} {LEVELS[level].title}"
        yield Box(0, place * step, _WIDTH, _HEIGHT, "spec", title, cut(text, _LETTERS), text, spec.turn)


def _component(component: Component, state: LevelsState, y: int) -> Box:
    spec, built = state.spec_of(Level.L2, component.name), state.contributions.get(component.name)
    text = one_line(spec.summary if spec is not None else component.purpose)
    turn = built.turn if built is not None else ""
    return Box(
        _WIDTH + _GAP, y, _WIDTH, _HEIGHT, "component", one_line(component.name), cut(text, _LETTERS), text, turn
    )


def _leaves(component: Component, state: LevelsState, y: int) -> Iterator[Box]:
    built = state.contributions.get(component.name)
    files = [*built.files] if built is not None else []
    tests = {*built.tests} if built is not None else set[str]()
    named = {test.partition("::")[0] for test in tests}
    for place, path in enumerate(files):
        kind, name = "test" if path in tests or path in named else "file", one_line(path)
        top = y + place * (_LEAF + 6)
        yield Box(2 * (_WIDTH + _GAP), top, _WIDTH, _LEAF, kind, _end(name), "", name)


def _end(path: str) -> str:
    """A path that is too long keeps its end."""
    return path if len(path) <= _LETTERS else f"…{path[1 - _LETTERS :]}"


def _curve(a: Box, b: Box) -> Edge:
    half = (a.right + b.x) // 2
    return Edge(f"M{a.right} {a.middle}C{half} {a.middle} {half} {b.middle} {b.x} {b.middle}")


# -- reconciliations


def reconciliations(state: LevelsState) -> tuple[ReconciliationRow, ...]:
    """Settled ones, then the open one."""
    return tuple(map(_reconciled, _disputes(state)))


def _disputes(state: LevelsState) -> Iterable[Dispute]:
    return (*state.settled, *((state.dispute,) if state.dispute is not None else ()))


def _reconciled(dispute: Dispute) -> ReconciliationRow:
    return ReconciliationRow(
        dispute.id,
        str(dispute.cause),
        dispute.level.name,
        clean(dispute.question),
        clean(dispute.evidence),
        tuple(_side(level, dispute) for level in dispute.participants),
        tuple(dict.fromkeys(clean(proposal_in_short(proposal)) for proposal in dispute.proposals)),
        tuple(map(clean, dispute.objections)),
        clean(dispute.decision or ""),
        clean(dispute.by),
        dispute.round,
    )


def _side(level: Level, dispute: Dispute) -> Side:
    vote = dispute.votes.get(level)
    words = "" if vote is None else f"objects: {vote}" if vote else "agrees"
    if dispute.proposals and level is dispute.proposer:
        words = "wrote the proposal"
    return Side(level.name, LEVELS[level].title, clean(dispute.positions.get(level, "")), clean(words))
