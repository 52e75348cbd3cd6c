"""Asking the acceptance tester: as any agent, but what it says goes into no log."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

from logos.domain.events import AcceptanceWritten, Event, Noted, Topic, TurnAnswered, TurnFailed
from logos.domain.ledger import Ledger
from logos.domain.proof import AcceptanceTests
from logos.domain.turns import Agent, Terminal, TerminalId, Turn
from logos.engine.ask import Asker
from logos.engine.loop import WorkerContext
from logos.engine.options import Dependencies, RunOptions
from logos.ports import ChangeSignal, Responses

# What a note may say of the agent, by its topic.
_NOTES: Mapping[Topic, str] = MappingProxyType(
    {
        Topic.REMINDED: "idle without a response: reminded of the response file",
        Topic.PERMISSION_ASKED: "the acceptance tester waits for a person; its question is not in the log",
        Topic.PERMISSION_GIVEN: "a permission prompt of the acceptance tester was answered with yes",
        Topic.TRIED_AGAIN: "no response of the acceptance tester; asking it again",
    }
)
_KNOWN_TO_ALL = ("explore", "scenario_test", "handoff")
_OTHER_NOTE = "the acceptance tester: a warning about its turn, which is kept outside the log"


class AcceptanceWork(Protocol):
    """The folder in which the agent works, outside the work dir."""

    # Make it from the snapshot `base`, unless it is there.
    def prepare(self, base: str) -> None: ...
    # Keep what the agent wrote; the second is what is wrong with it. `told` is what every agent knows.
    def collect(self, base: str, response: str, told: str) -> tuple[AcceptanceTests, str]: ...


@dataclass(frozen=True, slots=True)
class AcceptanceTester:
    """`dependencies` have a host of its own, which knows nothing of the work dir and is not in the log."""

    agent: Agent
    dependencies: Dependencies
    options: RunOptions
    work: AcceptanceWork
    responses: Responses
    change_signal: ChangeSignal

    def ask(self, turn: Turn, ledger: Ledger, context: WorkerContext) -> None:
        self.work.prepare(turn.base)
        # The same key gives the same terminal, also to the next driver: it need not be in the log.
        agent, host = self.agent, self.dependencies.host
        made = host.create_session(agent.profile, provider=agent.provider, idempotency_key=agent.name)
        terminal = Terminal(TerminalId(made["id"]), agent.provider)
        own = replace(ledger, terminals=MappingProxyType({turn.agent: terminal}))
        needs = (self.dependencies, self.options, self.responses, self.change_signal)
        asker = Asker(*needs, lambda _context: None, "reminder")
        asker.ask(turn, own, _Sealing(context, lambda event: self.sealed(turn, event)))

    def sealed(self, turn: Turn, event: Event) -> Event:
        """What may be told of an event about the agent."""
        match event:
            case TurnAnswered(of, text, _, usage):
                told = "\n".join(str(turn.facts.get(name, "")) for name in _KNOWN_TO_ALL)
                tests, problem = self.work.collect(turn.base, text, told)
                return AcceptanceWritten(of, tests, usage, problem)
            case TurnFailed(of, kind, _, usage):
                return TurnFailed(of, kind, f"the acceptance tester gave no response ({kind})", usage)
            case Noted(topic, _, of):
                return Noted(topic, _NOTES.get(topic, _OTHER_NOTE), of)
            case _:
                return event


class _Sealing(WorkerContext):
    """Posts what may be told."""

    def __init__(self, inner: WorkerContext, sealed: Callable[[Event], Event]) -> None:
        self._inner = inner
        self._sealed = sealed
        self.stop = inner.stop

    def post(self, event: Event, then: Callable[[], None] = lambda: None) -> None:
        self._inner.post(self._sealed(event), then)

    def check(self) -> None:
        self._inner.check()
