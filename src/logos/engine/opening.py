"""The set-up of a run: the agent that is asked first gets its prompt while the terminals of the others are opened."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from logos.domain.events import Event
from logos.domain.ledger import Ledger
from logos.domain.turns import Action, Agent, AgentName, Turn, TurnId
from logos.engine.loop import Job, WorkerContext
from logos.engine.terminals import AgentTerminals
from logos.errors import HostError
from logos.ports import Screen, Typist

WAIT_SECONDS = 0.2
# On a busy machine a client that takes long to start takes long to read a line, too: this share of that time.
READING_SHARE = 0.4

TerminalsFor = Callable[[Callable[[Event], object]], AgentTerminals]


@dataclass(frozen=True, slots=True)
class Opening:
    """The terminals that this driver opens. `first` is open before the first turn, `others` are opened during it."""

    run: str
    terminals_for: TerminalsFor
    ledger: Callable[[], Ledger]
    now: Callable[[], float]
    pause: Callable[[float], object]
    # How long a client takes to read the line that renames it.
    settles: float
    first: AgentName | None = None
    others: Sequence[Agent] = ()
    # Agents that can be asked: their terminal is open and is not being renamed.
    ready: Mapping[AgentName, threading.Event] = field(default_factory=dict[AgentName, threading.Event])
    first_turn_begun: threading.Event = field(default_factory=threading.Event)
    first_turn_over: threading.Event = field(default_factory=threading.Event)
    others_open: threading.Event = field(default_factory=threading.Event)
    failed: threading.Event = field(default_factory=threading.Event)
    # When a client has read the line that renames its terminal.
    settled: dict[AgentName, float] = field(default_factory=dict[AgentName, float])
    # How long the first terminal took to open.
    first_took: float = 0.0

    @classmethod
    def begin(
        cls,
        run: str,
        agents: Sequence[Agent],
        due: Sequence[Action],
        terminals_for: TerminalsFor,
        terminals: AgentTerminals,
        ledger: Callable[[], Ledger],
    ) -> Self:
        """Open what the next turn needs. Where terminals start at once, or nobody is asked next, open all."""
        host = terminals.host
        settles = host.settle_seconds if isinstance(host, Typist) else 0.0
        own = (run, terminals_for, ledger, terminals.now, terminals.pause, settles)
        missing = [agent for agent in agents if agent.name not in ledger().terminals]
        asked = {action.agent for action in due if isinstance(action, Turn)}
        if not missing or not asked or not isinstance(host, Screen):
            terminals.open(run, agents, ledger())
            return cls(*own)
        first, begun = next((agent for agent in missing if agent.name in asked), None), terminals.now()
        if first is not None:
            terminals.open_first(run, first, ledger())
        others = [agent for agent in missing if agent is not first]
        ready = {agent.name: threading.Event() for agent in missing}
        return cls(*own, first.name if first else None, others, ready, first_took=terminals.now() - begun)

    @property
    def jobs(self) -> dict[TurnId, Job]:
        """What is left to be done beside the turns."""
        jobs: dict[TurnId, Job] = {TurnId("opening terminals"): self._open_others} if self.others else {}
        return jobs | ({TurnId("renaming a terminal"): self._rename_first} if self.first else {})

    def names(self) -> set[AgentName]:
        """The agents whose terminals this driver opens."""
        return {*self.ready}

    def wait_for(self, agent: AgentName, context: WorkerContext) -> None:
        """Return when the agent can be asked."""
        if agent == self.first and not self.first_turn_begun.is_set():
            self.first_turn_begun.set()
        elif agent in self.ready:
            _wait(self.ready[agent], context)
            settled = self.settled.pop(agent, 0.0)
            while (left := settled - self.now()) > 0:
                self.pause(min(left, WAIT_SECONDS))
                context.check()

    def wait_for_others(self, context: WorkerContext) -> None:
        if self.others:
            _wait(self.others_open, context)

    def turn_over(self, agent: AgentName) -> None:
        if agent == self.first:
            self.first_turn_over.set()

    def _open_others(self, context: WorkerContext) -> None:
        # A session without terminals has ended; what is opened first begins another one.
        session, begun = self.ledger().session, self.now()

        def ready(agent: AgentName) -> None:
            self._renamed(agent, self.now() - begun)

        try:
            self.terminals_for(context.post).open_others(self.run, self.others, session, ready)
        except (HostError, KeyError):
            self.failed.set()
            raise
        self.others_open.set()

    def _rename_first(self, context: WorkerContext) -> None:
        """Rename the terminal of the first turn after its response; a paste during the turn would disturb its agent."""
        assert self.first is not None
        opened = self.ledger().terminals[self.first].id
        _wait(self.first_turn_over, context)
        ledger = self.ledger()
        terminal = ledger.terminals.get(self.first)
        is_asked = any(asked.agent == self.first for asked in ledger.in_flight.values())
        # A terminal that replaces the first one was renamed when it was opened.
        if terminal is not None and terminal.id == opened and not is_asked:
            self.terminals_for(context.post).rename({self.first: opened})
            self._renamed(self.first, self.first_took)
        self.ready[self.first].set()

    def _renamed(self, agent: AgentName, took: float) -> None:
        """The terminal of an agent, which `took` so long to open, was renamed just now."""
        if self.settles:
            self.settled[agent] = self.now() + max(self.settles, took * READING_SHARE)
        self.ready[agent].set()


def _wait(event: threading.Event, context: WorkerContext) -> None:
    while not event.wait(WAIT_SECONDS):
        context.check()
