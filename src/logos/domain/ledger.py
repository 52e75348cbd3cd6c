"""The ledger of a run, the same for every flow: open terminals, turns in flight, usage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from types import MappingProxyType

from logos.domain import events
from logos.domain.events import Event, Topic
from logos.domain.plans import GivenSetting, PinnedFile
from logos.domain.records import GrowingSet, replace
from logos.domain.turns import AgentName, Terminal, TurnId
from logos.domain.usage import Spent, Usage


@dataclass(frozen=True)
class InFlightTurn:
    """A turn that was asked and has no response yet."""

    agent: AgentName
    prompt: str
    sent: bool = False
    failed: bool = False
    reminders: int = 0
    permissions: int = 0
    # The work tree when it was asked, where the agent may only look at it.
    commit: str = ""


@dataclass(frozen=True)
class Ledger:
    session: str = ""
    terminals: Mapping[AgentName, Terminal] = field(default_factory=lambda: MappingProxyType({}))
    in_flight: Mapping[TurnId, InFlightTurn] = field(default_factory=lambda: MappingProxyType({}))
    briefed: GrowingSet[AgentName] = field(default_factory=GrowingSet[AgentName])
    characters: int = 0
    spent: Spent = field(default_factory=Spent)
    accounted: Mapping[AgentName, Usage] = field(default_factory=lambda: MappingProxyType({}))
    providers: Mapping[AgentName, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    # What the drivers so far were given, in order.
    given: tuple[GivenSetting, ...] = ()
    # The files that the run takes its settings from, as they were.
    files: tuple[PinnedFile, ...] = ()
    # How often the run was resumed in another folder than before.
    moves: int = 0
    # The permission prompts that agents show, by turn: what they ask.
    asking: Mapping[TurnId, str] = field(default_factory=lambda: MappingProxyType({}))
    # The gates that a person has decided.
    decided: Mapping[TurnId, events.GateDecided] = field(default_factory=lambda: MappingProxyType({}))
    # The ids of the messages of persons that are events.
    messages: GrowingSet[str] = field(default_factory=GrowingSet[str])

    def enter(self, event: Event) -> Ledger:
        match event:
            case events.TerminalOpened(agent, terminal, provider, session):
                return self._opened(agent, Terminal(terminal, provider), session)
            case events.TerminalClosed(agent, terminal):
                still = {name: kept for name, kept in self.terminals.items() if (name, kept.id) != (agent, terminal)}
                # A session ends with its last terminal.
                return replace(self, terminals=MappingProxyType(still), session=self.session if still else "")
            case events.TurnAsked(turn, agent, prompt, commit):
                in_flight = MappingProxyType({**self.in_flight, turn: InFlightTurn(agent, prompt, commit=commit)})
                characters = self.characters + len(prompt)
                return replace(self, in_flight=in_flight, briefed=self.briefed.with_item(agent), characters=characters)
            case events.TurnSent(turn):
                return self._asks(turn)._change(turn, lambda asked: replace(asked, sent=True, failed=False))
            case events.TurnFailed(turn, _, _, usage):
                ledger = self._asks(turn)._account(turn, usage, self.in_flight)
                return ledger._change(turn, lambda asked: replace(asked, failed=True))
            case events.TurnAnswered(turn, _, _, usage) | events.AcceptanceWritten(turn, _, usage):
                left = {key: asked for key, asked in self.in_flight.items() if key != turn}
                return self._asks(turn)._account(turn, usage, MappingProxyType(left))
            case events.Noted(Topic.REMINDED, _, turn):
                return self._change(turn, lambda asked: replace(asked, reminders=asked.reminders + 1))
            case events.Noted(Topic.PERMISSION_ASKED, text, turn) if turn is not None:
                return self._asks(turn, text)
            case events.Noted(Topic.PERMISSION_GIVEN, _, turn) if turn is not None:
                return self._asks(turn)._change(turn, lambda asked: replace(asked, permissions=asked.permissions + 1))
            case events.RunStarted(_, _, opened, given, files):
                return replace(reduce(Ledger.enter, opened, self), given=given, files=files)
            case events.RunResumed(_, given, moved, files):
                # In a copy of its work dir, terminals and prompts are those of another folder.
                ledger = replace(Ledger(), spent=self.spent, characters=self.characters, moves=self.moves + 1)
                ledger = replace(ledger, decided=self.decided, messages=self.messages)
                # The new driver looks at every terminal again.
                kept = ledger if moved else replace(self, asking=ledger.asking)
                return replace(kept, given=self.given + given, files=files or self.files)
            case events.RunForked():
                # Terminals, prompts and costs belong to the parent run.
                return Ledger(given=self.given, files=self.files, moves=self.moves)
            case events.QuestionResolved(_, _, _, message) | events.PersonSaid(_, _, message):
                return self._took(message)
            case events.GateDecided(gate, _, _, message):
                return replace(self._took(message), decided=MappingProxyType({**self.decided, gate: event}))
            case events.PermissionDecided(turn, _, message):
                return self._took(message)._asks(turn)
            case events.RunAbandoned() | events.RunEnded() | events.Noted() | events.GateOpened():
                return self
            case events.RecordsTampered() | events.WorkUndone() | events.ProofRan():
                return self
            case events.CheckRan() | events.WorkCompared() | events.WorkGathered() | events.WorkMerged():
                return self

    def _account(self, turn: TurnId, usage: Usage | None, in_flight: Mapping[TurnId, InFlightTurn]) -> Ledger:
        """Add a turn's usage to the run's total and to its agent's conversation; `in_flight` are the turns after it."""
        asked = self.in_flight.get(turn)
        bills = dict(self.accounted)
        if asked is not None and usage is not None:
            bills[asked.agent] = bills.get(asked.agent, Usage()).plus(usage)
        return replace(self, spent=self.spent.plus(usage), accounted=MappingProxyType(bills), in_flight=in_flight)

    def _opened(self, agent: AgentName, terminal: Terminal, session: str) -> Ledger:
        used = tuple(dict.fromkeys((*self.providers.get(agent, ()), terminal.provider)))
        return replace(
            self,
            session=session,
            terminals=MappingProxyType({**self.terminals, agent: terminal}),
            providers=MappingProxyType({**self.providers, agent: used}),
            # Turns asked in the old conversation are no longer in flight.
            in_flight=MappingProxyType({turn: asked for turn, asked in self.in_flight.items() if asked.agent != agent}),
            briefed=self.briefed.without(agent),
            accounted=MappingProxyType({name: bill for name, bill in self.accounted.items() if name != agent}),
        )

    def _asks(self, turn: TurnId, text: str = "") -> Ledger:
        """The agent of a turn asks for permission, or, without a text, does not any more."""
        if not text and turn not in self.asking:
            return self
        others = {other: asked for other, asked in self.asking.items() if other != turn}
        return replace(self, asking=MappingProxyType({**others, **({turn: text} if text else {})}))

    def _took(self, message: str) -> Ledger:
        return replace(self, messages=self.messages.with_item(message)) if message else self

    def _change(self, turn: TurnId | None, change: Callable[[InFlightTurn], InFlightTurn]) -> Ledger:
        if turn is None or turn not in self.in_flight:
            return self
        return replace(self, in_flight=MappingProxyType({**self.in_flight, turn: change(self.in_flight[turn])}))
