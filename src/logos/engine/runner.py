"""What driving a run has in common for every flow: journal, turns, budget, orderly shutdown."""

import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from logos.domain.events import CheckRan, Event, GateOpened, Noted, PermissionDecided, ProofRan, Recorded, Topic
from logos.domain.ledger import Ledger
from logos.domain.turns import Action, Agent, Check, FailureKind, Outcome, Prove, RunId, Turn, TurnId
from logos.engine.ask import Asker
from logos.engine.journal import Journal, Watcher
from logos.engine.loop import Job, WorkerContext, drive
from logos.engine.messages import MessageTaker
from logos.engine.options import Dependencies, RunOptions
from logos.engine.terminals import AgentTerminals
from logos.errors import HostError, Interrupted, LimitReached, LogosError, PersonNeeded, RunPaused, UsageError
from logos.flows.fold import RunState
from logos.flows.gates import Gate
from logos.ports import ChangeSignal, Responses
from logos.prompts import preload
from logos.views.notices import stopped

EXIT_CODES = {Outcome.PASSED: 0, Outcome.FAILED: 1, Outcome.BLOCKED: 3, Outcome.REJECTED: 3, Outcome.ABANDONED: 1}

_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"


def new_run_id() -> RunId:
    """A new id: short enough to type, without characters that look alike."""
    return RunId("".join(secrets.choice(_ALPHABET) for _ in range(8)))


def gate_in_words(run: RunId, gate: Gate) -> str:
    """What a run waits for, and how to decide."""
    approve = f'`logos approve {run}` goes on, `logos reject {run} "why"` sends it back'
    return f"run {run} waits for you at {gate.id}: {gate.question} {approve}"


State = TypeVar("State", bound=RunState)


@dataclass(frozen=True, slots=True)
class RunResult(Generic[State]):
    run: RunId
    outcome: Outcome
    reason: str
    state: State

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.outcome]

    @property
    def in_words(self) -> str:
        return f"{self.outcome.in_words(self.state.verified)}: {self.reason}"


class Runner(ABC, Generic[State]):
    """A run driven by this process."""

    _reminder = "reminder"

    def __init__(
        self, journal: Journal[State], options: RunOptions, needs: Dependencies, watchers: Sequence[Watcher[State]]
    ) -> None:
        self._journal = journal
        self._options = options
        self._dependencies = needs
        self._stop = threading.Event()
        self._uncounted = ""
        # Answers to permission prompts that no key was pressed for yet.
        self._decisions: dict[TurnId, bool] = {}
        # When the person was told of the open gate, and which it was.
        self._told_of: tuple[TurnId, float] | None = None
        # The gate that this driver has opened; whoever watches its events knows of it.
        self._opened_gate: TurnId | None = None
        for watcher in (*watchers, self._see):
            journal.watch(watcher)

    def run(self, first: Event, baseline: ProofRan | None = None) -> RunResult[State]:
        """Drive a whole run; `first` begins it, or this driver's part in it. `baseline` are the tests before it.

        Raises RunPaused, HostError, Interrupted …; whatever happens, the log holds it.
        """
        why: str | None = None
        try:
            self._start(first, baseline)
            outcome = self._drive()
            state = self._journal.state
            if outcome is None:
                if state.gate is not None:
                    raise PersonNeeded(gate_in_words(self._journal.run, state.gate))
                raise (LimitReached if state.trouble is FailureKind.LIMIT else RunPaused)(f"{state.stalled}")
            if changed := self._dependencies.changed_files():
                self._journal.record(Noted(Topic.FILES_CHANGED, changed))
            self._finish(outcome)
            return RunResult(self._journal.run, outcome, state.reason, self._journal.state)
        except (LogosError, Interrupted, KeyboardInterrupt) as error:
            why = str(error) or type(error).__name__
            raise
        finally:
            with suppress(LogosError):
                self._shutdown(why)

    def _start(self, first: Event, baseline: ProofRan | None) -> None:
        preload()
        self._journal.record(first)
        if baseline is not None:
            self._journal.record(baseline)

    def _drive(self) -> Outcome | None:
        return self._loop(self._check_budget)

    def _loop(
        self, check_budget: Callable[[], None], background: Mapping[TurnId, Job] = MappingProxyType({})
    ) -> Outcome | None:
        inbox = self._dependencies.inbox
        messages = MessageTaker(inbox, self._journal_of, self._journal.run) if inbox is not None else None
        return drive(
            self._journal, self._perform, self._stop, check_budget, background, messages, self._waits_for_person
        )

    def _journal_of(self, run: RunId) -> Journal[Any]:
        if run == self._journal.run:
            return self._journal
        if self._dependencies.other_run is None:
            raise UsageError(f"run {run} is not being driven")
        return self._dependencies.other_run(run)

    def _waits_for_person(self) -> bool:
        """Whether to wait at an open gate; the person is told of it, and reminded."""
        gate, needs = self._journal.state.gate, self._dependencies
        if gate is None or not needs.waits_at_gates:
            return False
        now, words = needs.now(), gate_in_words(self._journal.run, gate)
        told = self._told_of[1] if self._told_of is not None and self._told_of[0] == gate.id else None
        remind = self._options.remind_seconds
        if told is None:
            opened = self._opened_gate == gate.id
            needs.tell("waiting for your decision; Ctrl-C stops, and the run can be resumed" if opened else words)
        elif not remind or now - told < remind:
            return True
        else:
            needs.tell(f"still waiting: {words}")
        self._told_of = gate.id, now
        return True

    def _shutdown(self, why: str | None) -> None:
        """The last step of a driver, however it ends: record why, and clean up."""
        self._stop.set()
        self._wake()
        journal = self._journal
        if journal.fold.seq == 0:
            return
        if why is not None:
            try:
                journal.record(Noted(Topic.INTERRUPTED, why))
            except LogosError:
                # Nobody learns it from the log.
                self._dependencies.notify(stopped(journal.fold.seq, why))
        with suppress(LogosError):
            self._clean_up()

    @abstractmethod
    def _perform(self, action: Action, context: WorkerContext) -> None:
        """Carry out one action; called in a thread of its own."""

    @abstractmethod
    def _wake(self) -> None:
        """Wake every worker that waits for a response."""

    def _finish(self, outcome: Outcome) -> None:
        """Called after the outcome is recorded."""

    def _clean_up(self) -> None:
        """Called at every shutdown."""

    def _agent_for(self, turn: Turn) -> Agent:
        return next(own for own in self._journal.state.plan.agents if own.name == (turn.agent_def or turn.agent))

    def _agent_terminals(self, record: Callable[[Event], object] | None = None) -> AgentTerminals:
        needs = self._dependencies
        return AgentTerminals(needs.host, record or self._journal.record, needs.now, needs.pause)

    def _check_budget(self) -> None:
        fold, budget = self._journal.fold, self._options.budget
        if not self._uncounted and (uncounted := budget.uncounted(fold.ledger.spent)):
            self._uncounted = uncounted
            self._journal.record(Noted(Topic.WARNING, uncounted))
        budget.check(fold.ledger.spent, fold.driven_seconds)

    def _run_check(self, check: Check, folder: str, context: WorkerContext) -> None:
        """An exit code is evidence, an agent's word is not."""
        timeout = self._options.response_timeout
        exit_code, output = self._dependencies.commands.run(check.command, folder, timeout, context.stop)
        context.check()
        context.post(CheckRan(check.id, check.command, exit_code, output))

    def _prove(self, action: Prove, context: WorkerContext) -> None:
        prover = self._dependencies.prover
        if prover is None:
            raise HostError(f"{action.id}: clean rooms cannot be made in this run")
        ran = prover.run(action, context.stop)
        context.check()
        context.post(ran)

    def _asker(self, turn: Turn, responses: Responses, change_signal: ChangeSignal) -> Asker:
        replace_agent = partial(self._replace, turn)
        decided = partial(self._decisions.pop, turn.id, None)
        needs, options = self._dependencies, self._options
        return Asker(needs, options, responses, change_signal, replace_agent, self._reminder, decided=decided)

    def _replace(self, turn: Turn, context: WorkerContext) -> str | None:
        """Restart the agent with its next spare provider, in a new terminal; the old terminal is closed."""
        agent = self._agent_for(turn)
        left = [name for name in agent.spare if name not in self._journal.ledger.providers.get(turn.agent, ())]
        if not left:
            return None
        self._change(turn, replace(agent, name=turn.agent, provider=left[0], model="", args=()), context)
        return left[0]

    def _change(self, turn: Turn, agent: Agent, context: WorkerContext) -> None:  # noqa: ARG002
        self._agent_terminals(context.post).change(self._journal.terminals_of, agent, self._journal.ledger)

    def _see(self, record: Recorded, state: State, ledger: Ledger) -> None:  # noqa: ARG002
        match record.event:
            case GateOpened(gate):
                self._opened_gate = gate
            case PermissionDecided(turn, granted):
                # For the worker that waits for it.
                self._decisions[turn] = granted
                self._wake()
            case _:
                pass
