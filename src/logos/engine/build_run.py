"""One build from end to end: the nine levels driven, every agent in a fresh terminal, every author in a worktree."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from logos.domain.events import GateOpened, Recorded, RunResumed, TerminalClosed, TurnAnswered, TurnFailed, WorkCompared
from logos.domain.ledger import Ledger
from logos.domain.turns import (
    Action,
    Agent,
    AgentName,
    Check,
    Compare,
    FailureKind,
    Gather,
    Merge,
    OpenGate,
    Outcome,
    Prove,
    Turn,
)
from logos.engine.journal import Journal, Watcher
from logos.engine.loop import WorkerContext
from logos.engine.options import RunOptions
from logos.engine.runner import Dependencies, Runner
from logos.engine.waiter import check_terminal
from logos.errors import HostError, TerminalGone
from logos.flows.levels.state import MAIN, LevelsState
from logos.ports import ChangeSignal, ExitReporter, ResponseFolder, Workspace

# Makes the response folder of one turn, from the agent's folder and the name of its answer.
ResponsesFor = Callable[[str, str], ResponseFolder]
ChangesFor = Callable[[Path], ChangeSignal]


class BuildRun(Runner[LevelsState]):
    _reminder = "level_reminder"

    def __init__(
        self,
        journal: Journal[LevelsState],
        options: RunOptions,
        dependencies: Dependencies,
        workspace: Workspace,
        responses_for: ResponsesFor,
        change_signal_for: ChangesFor,
        watchers: Sequence[Watcher[LevelsState]] = (),
    ) -> None:
        super().__init__(journal, options, dependencies, [self._keep_unfinished_work, *watchers])
        self._responses_for = responses_for
        self._workspace = workspace
        self._change_signal_for = change_signal_for
        self._change_signals: dict[AgentName, ChangeSignal] = {}
        self._closing: set[AgentName] = set()
        self._lock = threading.Lock()

    def _perform(self, action: Action, context: WorkerContext) -> None:
        try:
            match action:
                case Turn():
                    self._ask(action, context)
                case Check(_, _, place) if place is not None:
                    self._run_check(action, self._workspace.ready(place), context)
                case Check():
                    raise RuntimeError("a build checks what is merged")
                case Compare():
                    base, head = self._journal.state.plan.base, self._journal.state.head
                    prover = self._dependencies.prover
                    files = prover.changed(base, head) if prover is not None else None
                    context.post(WorkCompared(action.id, files, head))
                case Prove():
                    self._prove(action, context)
                case Gather():
                    context.post(self._workspace.gather(self._prepared(action)))
                case Merge():
                    context.post(self._workspace.merge(action))
                case OpenGate():
                    context.post(GateOpened(action.id, action.at, action.question))
        except OSError as error:
            raise HostError(f"{action.id}: {error}") from error
        self._close_idle(context)

    def _prepared(self, action: Gather) -> Gather:
        """With the time at which the author's process ended: what changes later is not the author's."""
        state, host = self._journal.state, self._dependencies.host
        if action.place.commits[0] in state.left.values():
            # A fork holds unfinished work as a commit; the worktree may not exist yet.
            self._workspace.open(action.place, anew=False)
            return action
        done = state.answered.get(action.place.name)
        terminal = self._journal.ledger.terminals.get(AgentName(done.pending.key)) if done is not None else None
        if terminal is None or not isinstance(host, ExitReporter):
            return action
        with suppress(TerminalGone):
            ended = host.exit_of(terminal.id)
            return replace(action, ended_at=ended[1] if ended is not None else 0)
        return action

    def _ask(self, turn: Turn, context: WorkerContext) -> None:
        try:
            folder = self._folder(turn)
            self._open_terminal(turn, folder, context)
            responses = self._responses_for(folder, turn.answer)
            responses.ensure()
            path = str(responses.path(turn.answer))
            told = replace(turn, facts={**turn.facts, "wd": folder, "response_path": path})
            change_signal = self._change_signal(turn.agent, responses.folder)
            self._asker(told, responses, change_signal).ask(told, self._journal.ledger, context)
        except HostError as error:
            # Only this turn fails; the other authors continue.
            context.post(TurnFailed(turn.id, FailureKind.ERROR, f"{turn.id}: {error}"))

    def _folder(self, turn: Turn) -> str:
        """The agent's folder: checked out afresh for a new agent, left as it is for one that continues."""
        place = turn.place
        if place is None:
            return self._options.work_dir
        new = turn.agent not in self._journal.ledger.briefed
        if place.name == MAIN and new:
            return self._workspace.ready(place)
        return self._workspace.open(place, anew=new)

    def _open_terminal(self, turn: Turn, folder: str, context: WorkerContext) -> None:
        """Open a terminal for the agent. A lost one is replaced: agents of a build keep nothing between turns."""
        journal, again = self._journal, ""
        terminal = journal.ledger.terminals.get(turn.agent)
        if terminal is not None:
            try:
                check_terminal(self._dependencies.host, terminal.id)
                return
            except TerminalGone:
                context.post(TerminalClosed(turn.agent, terminal.id))
                again = f"-{terminal.id}"
        agent = self._agent_for(turn)
        agent = replace(agent, name=turn.agent, definition=agent.name)
        self._agent_terminals(context.post).open_one(journal.terminals_of, agent, folder, again)

    def _change(self, turn: Turn, agent: Agent, context: WorkerContext) -> None:
        self._agent_terminals(context.post).close(self._journal.ledger, [agent.name])
        self._agent_terminals(context.post).open_one(self._journal.terminals_of, agent, self._folder(turn))

    def _change_signal(self, agent: AgentName, folder: Path) -> ChangeSignal:
        """One watcher per agent: a recreated worktree is a different folder under the same name."""
        with self._lock:
            if agent not in self._change_signals:
                self._change_signals[agent] = self._change_signal_for(folder)
            return self._change_signals[agent]

    def _wake(self) -> None:
        with self._lock:
            for change_signal in self._change_signals.values():
                change_signal.wake()

    def _idle(self) -> set[AgentName]:
        """Agents whose turn is done and whose work, if any, is gathered."""
        state = self._journal.state
        needed = {ask.key for ask in state.pending_turns} | {done.pending.key for done in state.answered.values()}
        return {name for name in self._journal.ledger.terminals if name not in needed}

    def _close_idle(self, context: WorkerContext) -> None:
        with self._lock:
            mine = self._idle() - self._closing
            self._closing |= mine
            change_signals = [self._change_signals.pop(agent) for agent in mine if agent in self._change_signals]
        for change_signal in change_signals:
            change_signal.close()
        if mine:
            self._agent_terminals(context.post).close(self._journal.ledger, mine)

    def _clean_up(self) -> None:
        self._agent_terminals().close(self._journal.ledger, self._idle())

    def _shutdown(self, why: str | None) -> None:
        super()._shutdown(why)
        for change_signal in self._change_signals.values():
            change_signal.close()

    def _finish(self, outcome: Outcome) -> None:
        self._clean_up()
        # A blocked build continues after a person's answer, so its worktrees stay.
        if outcome is not Outcome.BLOCKED:
            self._workspace.close(self._journal.state.result)

    def _keep_unfinished_work(self, record: Recorded, state: LevelsState, ledger: Ledger) -> None:
        """Store work of agents whose report was refused as commits: a fork of the run needs it.

        A killed driver may have come no further than the answer: at a resume all are looked at again.
        """
        del ledger
        event = record.event
        turn = event.turn if isinstance(event, TurnAnswered | TurnFailed) else None
        if turn is None and not isinstance(event, RunResumed):
            return
        for ask in state.sent_back:
            if ask.before is not None and turn in (None, ask.before) and ask.turn not in state.started:
                with suppress(HostError):
                    self._workspace.keep(state.worktree_for(ask), ask.before)
