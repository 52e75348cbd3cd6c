"""A flow decides what is due; it is pure, so a run can be replayed from its log at any time."""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from logos.domain.events import Event
from logos.domain.turns import Action, Outcome

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Position:
    """Where a run stands, in the same words for every flow: a build's sweep is its round, its stage its phase."""

    round: int
    phase: str
    agent: str
    cycle: int | None
    text: str


class Flow(Protocol[State]):
    """`start` is the first state, from the pinned plan; `due` is every action that should be in progress now."""

    def start(self) -> State: ...
    def due(self, state: State) -> tuple[Action, ...]: ...
    def apply(self, state: State, event: Event) -> State: ...
    def outcome(self, state: State) -> Outcome | None: ...
