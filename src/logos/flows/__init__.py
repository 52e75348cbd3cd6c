"""A flow decides what is due; it is pure, so a run can be replayed from its log at any time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from logos.domain.events import Event
from logos.domain.plans import Plan
from logos.domain.specs import Question
from logos.domain.turns import Action, FailureKind, Outcome, TurnId, Worktree

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Position:
    """Where a run stands, in the same words for every flow: a build's sweep is its round, its stage its phase."""

    round: int
    phase: str
    agent: str
    cycle: int | None
    text: str


class RunState(Protocol):
    """What the state of every flow provides."""

    @property
    def plan(self) -> Plan: ...

    @property
    def outcome(self) -> Outcome | None: ...

    @property
    def reason(self) -> str: ...

    @property
    def stalled(self) -> str | None: ...

    @property
    def trouble(self) -> FailureKind | None: ...

    @property
    def question(self) -> Question | None:
        """What a person must decide before the run continues."""
        ...

    @property
    def position(self) -> Position: ...

    @property
    def next_turns(self) -> tuple[str, ...]:
        """The turns and checks that a driver would start with."""
        ...

    @property
    def result(self) -> str | None:
        """The commit that the run leaves as its branch, if any."""
        ...

    @property
    def head(self) -> str | None:
        """The commit of the merged work; None for a flow that works in the user's own work tree."""
        ...

    @property
    def merged(self) -> str | None:
        """The head, if anything was merged."""
        ...

    @property
    def uncommitted(self) -> Mapping[TurnId, Worktree]:
        """Turns whose work lies in a worktree and is in no commit that the log names."""
        ...

    @property
    def unfinished_work(self) -> Mapping[str, TurnId]:
        """By pending turn: the turn whose work in a worktree it continues."""
        ...


class Flow(Protocol[State]):
    def start(self) -> State:
        """The first state, from the pinned plan."""
        ...

    def due(self, state: State) -> tuple[Action, ...]:
        """Every action that should be in progress now."""
        ...

    def apply(self, state: State, event: Event) -> State:
        """The state after `event`."""
        ...

    def outcome(self, state: State) -> Outcome | None:
        """How the run ended, or None."""
        ...


def replay(flow: Flow[State], events: Iterable[Event]) -> State:
    """Fold events into a state."""
    state = flow.start()
    for event in events:
        state = flow.apply(state, event)
    return state
