"""The ledger of a run, the same for every flow: open terminals, turns in flight, usage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from types import MappingProxyType

from logos.domain.events import (
    CheckRan,
    Event,
    Noted,
    QuestionResolved,
    RunAbandoned,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
    TerminalClosed,
    TerminalOpened,
    Topic,
    TurnAnswered,
    TurnAsked,
    TurnFailed,
    TurnSent,
    WorkGathered,
    WorkMerged,
)
from logos.domain.turns import AgentName, Terminal, TurnId
from logos.domain.usage import Spent, Usage


@dataclass(frozen=True, slots=True)
class InFlightTurn:
    """A turn that was asked and has no response yet."""

    agent: AgentName
    prompt: str
    sent: bool = False
    failed: bool = False
    reminders: int = 0
    permissions: int = 0


@dataclass(frozen=True, slots=True)
class Ledger:
    session: str = ""
    terminals: Mapping[AgentName, Terminal] = field(default_factory=lambda: MappingProxyType({}))
    in_flight: Mapping[TurnId, InFlightTurn] = field(default_factory=lambda: MappingProxyType({}))
    briefed: frozenset[AgentName] = frozenset()
    characters: int = 0
    spent: Spent = field(default_factory=Spent)
    accounted: Mapping[AgentName, Usage] = field(default_factory=lambda: MappingProxyType({}))
    providers: Mapping[AgentName, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def enter(self, event: Event) -> Ledger:
        """The ledger after `event`."""
        match event:
            case TerminalOpened(agent, terminal, provider, session):
                return self._opened(agent, Terminal(terminal, provider), session)
            case TerminalClosed(agent, terminal):
                still = {name: kept for name, kept in self.terminals.items() if (name, kept.id) != (agent, terminal)}
                # A session ends with its last terminal.
                return replace(self, terminals=MappingProxyType(still), session=self.session if still else "")
            case TurnAsked(turn, agent, prompt):
                asked = self._with(turn, InFlightTurn(agent, prompt))
                return replace(asked, briefed=self.briefed | {agent}, characters=self.characters + len(prompt))
            case TurnSent(turn):
                return self._change(turn, sent=True, failed=False)
            case TurnFailed(turn, _, _, usage):
                return self._account(turn, usage)._change(turn, failed=True)
            case TurnAnswered(turn, _, _, usage):
                left = {key: turn_in_flight for key, turn_in_flight in self.in_flight.items() if key != turn}
                return replace(self._account(turn, usage), in_flight=MappingProxyType(left))
            case Noted(topic, _, turn):
                return self._count(topic, turn)
            case RunStarted(_, _, opened):
                return reduce(Ledger.enter, opened, self)
            case RunForked():
                # Terminals, prompts and costs belong to the parent run.
                return Ledger()
            case RunResumed() | RunAbandoned() | RunEnded():
                return self
            case CheckRan() | WorkGathered() | WorkMerged() | QuestionResolved():
                return self

    def _account(self, turn: TurnId, usage: Usage | None) -> Ledger:
        """Add a turn's usage to the run's total and to its agent's conversation."""
        turn_in_flight = self.in_flight.get(turn)
        bills = dict(self.accounted)
        if turn_in_flight is not None and usage is not None:
            bills[turn_in_flight.agent] = bills.get(turn_in_flight.agent, Usage()).plus(usage)
        return replace(self, spent=self.spent.plus(usage), accounted=MappingProxyType(bills))

    def _opened(self, agent: AgentName, terminal: Terminal, session: str) -> Ledger:
        used = tuple(dict.fromkeys((*self.providers.get(agent, ()), terminal.provider)))
        return replace(
            self,
            session=session,
            terminals=MappingProxyType({**self.terminals, agent: terminal}),
            providers=MappingProxyType({**self.providers, agent: used}),
            # Turns asked in the old conversation are no longer in flight.
            in_flight=MappingProxyType(
                {
                    turn: turn_in_flight
                    for turn, turn_in_flight in self.in_flight.items()
                    if turn_in_flight.agent != agent
                }
            ),
            briefed=self.briefed - {agent},
            accounted=MappingProxyType({name: bill for name, bill in self.accounted.items() if name != agent}),
        )

    def _with(self, turn: TurnId, turn_in_flight: InFlightTurn) -> Ledger:
        return replace(self, in_flight=MappingProxyType({**self.in_flight, turn: turn_in_flight}))

    def _change(self, turn: TurnId, *, sent: bool | None = None, failed: bool) -> Ledger:
        turn_in_flight = self.in_flight.get(turn)
        if turn_in_flight is None:
            return self
        return self._with(
            turn, replace(turn_in_flight, sent=turn_in_flight.sent if sent is None else sent, failed=failed)
        )

    def _count(self, topic: Topic, turn: TurnId | None) -> Ledger:
        turn_in_flight = self.in_flight.get(turn) if turn is not None else None
        if turn is None or turn_in_flight is None:
            return self
        if topic is Topic.REMINDED:
            return self._with(turn, replace(turn_in_flight, reminders=turn_in_flight.reminders + 1))
        if topic is Topic.PERMISSION_GIVEN:
            return self._with(turn, replace(turn_in_flight, permissions=turn_in_flight.permissions + 1))
        return self
