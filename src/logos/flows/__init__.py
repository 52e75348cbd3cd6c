"""A flow decides what is due; it is pure, so a run can be replayed from its log at any time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from logos.domain.events import Event
from logos.domain.turns import Action, Outcome

State = TypeVar("State")


class Flow(Protocol[State]):
    def start(self) -> State:
        """The first state, from the pinned plan."""
        ...

    def due(self, state: State) -> tuple[Action, ...]:
        """Every errand that should be in some hands right now."""
        ...

    def apply(self, state: State, event: Event) -> State:
        """The state after `event`."""
        ...

    def outcome(self, state: State) -> Outcome | None:
        """How the run ended, or None while it goes on."""
        ...


def replay(flow: Flow[State], events: Iterable[Event]) -> State:
    """Fold a log into the state it stands for."""
    state = flow.start()
    for event in events:
        state = flow.apply(state, event)
    return state
