"""What is physically out there, whatever the flow: open terminals and turns in agents' hands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from types import MappingProxyType

from logos.domain.events import (
    CheckRan,
    Event,
    Noted,
    RunEnded,
    RunResumed,
    RunStarted,
    TerminalClosed,
    TerminalOpened,
    Topic,
    TurnAnswered,
    TurnAsked,
    TurnFailed,
    TurnSent,
)
from logos.domain.turns import AgentName, Terminal, TurnId


@dataclass(frozen=True, slots=True)
class InHand:
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
    in_hand: Mapping[TurnId, InHand] = field(default_factory=lambda: MappingProxyType({}))
    briefed: frozenset[AgentName] = frozenset()
    characters: int = 0

    def enter(self, event: Event) -> Ledger:
        """The ledger after `event`."""
        match event:
            case TerminalOpened(agent, terminal, provider, session):
                opened = {**self.terminals, agent: Terminal(terminal, provider)}
                return replace(self, session=session, terminals=MappingProxyType(opened))
            case TerminalClosed(agent, terminal):
                still = {name: kept for name, kept in self.terminals.items() if (name, kept.id) != (agent, terminal)}
                return replace(self, terminals=MappingProxyType(still))
            case TurnAsked(turn, agent, prompt):
                asked = self._with(turn, InHand(agent, prompt))
                return replace(asked, briefed=self.briefed | {agent}, characters=self.characters + len(prompt))
            case TurnSent(turn):
                return self._change(turn, sent=True, failed=False)
            case TurnFailed(turn):
                return self._change(turn, failed=True)
            case TurnAnswered(turn):
                left = {key: hand for key, hand in self.in_hand.items() if key != turn}
                return replace(self, in_hand=MappingProxyType(left))
            case Noted(topic, _, turn):
                return self._count(topic, turn)
            case RunStarted(_, _, opened):
                return reduce(Ledger.enter, opened, self)
            case RunResumed() | CheckRan() | RunEnded():
                return self

    def _with(self, turn: TurnId, hand: InHand) -> Ledger:
        return replace(self, in_hand=MappingProxyType({**self.in_hand, turn: hand}))

    def _change(self, turn: TurnId, *, sent: bool | None = None, failed: bool) -> Ledger:
        hand = self.in_hand.get(turn)
        if hand is None:
            return self
        return self._with(turn, replace(hand, sent=hand.sent if sent is None else sent, failed=failed))

    def _count(self, topic: Topic, turn: TurnId | None) -> Ledger:
        hand = self.in_hand.get(turn) if turn is not None else None
        if turn is None or hand is None:
            return self
        if topic is Topic.REMINDED:
            return self._with(turn, replace(hand, reminders=hand.reminders + 1))
        if topic is Topic.PERMISSION_GIVEN:
            return self._with(turn, replace(hand, permissions=hand.permissions + 1))
        return self
