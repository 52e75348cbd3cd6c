"""One cycle run from end to end: begin it, drive it, shut down in order."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum

from logos.domain.events import Event, GateOpened, ProofRan, WorkCompared
from logos.domain.turns import Action, Agent, Check, Compare, Gather, Merge, OpenGate, Outcome, Prove, Turn
from logos.engine.acceptance import AcceptanceTester
from logos.engine.checkpoints import ChangedFiles
from logos.engine.journal import Journal, Watcher
from logos.engine.keeper import WorkKeeper
from logos.engine.loop import WorkerContext
from logos.engine.opening import Opening
from logos.engine.options import RunOptions
from logos.engine.runner import Dependencies, Runner
from logos.engine.terminals import RECREATE
from logos.errors import HostError, RunPaused, StateError
from logos.flows.cycle.flow import CycleState
from logos.ports import ChangeSignal, Responses

# Called after a PASS.
AfterPass = Callable[[], None]


class StartMode(StrEnum):
    FRESH = "fresh"
    RESUME = "resume"
    IMPORT = "import"


class CycleRun(Runner[CycleState]):
    def __init__(
        self,
        journal: Journal[CycleState],
        mode: StartMode,
        options: RunOptions,
        dependencies: Dependencies,
        responses: Responses,
        change_signal: ChangeSignal,
        watchers: Sequence[Watcher[CycleState]] = (),
        after_pass: AfterPass | None = None,
        changed_files: ChangedFiles = lambda _run, _base: (None, "", ""),
        *,
        harvest: bool = False,
        keeper: WorkKeeper | None = None,
        acceptance: AcceptanceTester | None = None,
    ) -> None:
        super().__init__(journal, options, dependencies, watchers)
        self._mode = mode
        self._harvest = harvest
        self._keeper = keeper
        self._acceptance = acceptance
        self._after_pass = after_pass
        self._changed_files = changed_files
        self._responses = responses
        self._change_signal = change_signal

    def _start(self, first: Event, baseline: ProofRan | None) -> None:
        """Verify the terminals a resumed run should have, and open the missing ones."""
        self._responses.ensure()
        super()._start(first, baseline)
        journal, agent_terminals, mode = self._journal, self._agent_terminals(), self._mode
        agents = journal.state.plan.agents
        if mode is not StartMode.FRESH and self._options.recreate_terminals:
            agent_terminals.drop_lost(journal.ledger)
            agent_terminals.compare(agents, journal.ledger)
        elif mode is StartMode.RESUME and any(agent.name not in journal.ledger.providers for agent in agents):
            # An earlier driver has never opened all terminals, and closed those it had, or died.
            agent_terminals.drop_lost(journal.ledger)
            agent_terminals.compare(agents, journal.ledger)
        elif mode is not StartMode.FRESH:
            agent_terminals.verify(journal.ledger)
            agent_terminals.compare(agents, journal.ledger)
            lost = [a.name for a in agents if a.name not in journal.ledger.terminals]
            lost = [name for name in lost if mode is StartMode.IMPORT or name in journal.ledger.briefed]
            if lost:
                raise StateError(
                    f"cannot resume: the terminals of {', '.join(lost)} were closed, and with them "
                    f"these agents' conversations; {RECREATE}"
                )
        self._opening = Opening.begin(
            journal.terminals_of,
            agents,
            journal.fold.flow.due(journal.state),
            self._agent_terminals,
            agent_terminals,
            lambda: journal.ledger,
        )

    def _drive(self) -> Outcome | None:
        opening = self._opening

        def check_budget() -> None:
            try:
                self._check_budget()
            except RunPaused:
                # No turn begins any more, so nothing may wait for the first one.
                opening.first_turn_over.set()
                raise

        try:
            return self._loop(check_budget, opening.jobs)
        except (HostError, KeyError):
            if opening.failed.is_set():
                self._agent_terminals().close(self._journal.ledger, opening.names())
            raise

    def _perform(self, action: Action, context: WorkerContext) -> None:
        match action:
            case Check():
                self._run_check(action, self._options.work_dir, context)
            case Compare():
                baseline = self._journal.state.baseline
                base = baseline.commit if baseline is not None else ""
                context.post(WorkCompared(action.id, *self._changed_files(self._journal.run, base)))
            case Prove():
                self._prove(action, context)
            case Turn() if action.sealed:
                if self._acceptance is None:
                    raise HostError(f"{action.id}: this run has no acceptance tester")
                self._acceptance.ask(action, self._journal.ledger, context)
            case Turn():
                self._opening.wait_for(action.agent, context)
                try:
                    self._ask(action, context)
                finally:
                    self._opening.turn_over(action.agent)
            case OpenGate():
                context.post(GateOpened(action.id, action.at, action.question))
            case Gather() | Merge():
                raise RuntimeError("the cycle works in one place")

    def _ask(self, turn: Turn, context: WorkerContext) -> None:
        # What the agent must be told depends on its terminal, which may have been opened since the turn was due.
        due = self._journal.fold.flow.due(self._journal.state)
        turn = next((now for now in due if isinstance(now, Turn) and now.id == turn.id), turn)
        asker = self._asker(turn, self._responses, self._change_signal)
        asker = replace(asker, harvest=self._harvest, keeper=self._keeper)
        self._harvest = False
        asker.ask(turn, self._journal.ledger, context)

    def _change(self, turn: Turn, agent: Agent, context: WorkerContext) -> None:
        # The session ends with its last terminal, and others are to be opened in it.
        self._opening.wait_for_others(context)
        super()._change(turn, agent, context)

    def _wake(self) -> None:
        self._change_signal.wake()
        if self._acceptance is not None:
            self._acceptance.change_signal.wake()

    def _finish(self, outcome: Outcome) -> None:
        if outcome is Outcome.PASSED and self._after_pass is not None:
            self._after_pass()

    def _clean_up(self) -> None:
        if self._options.cleanup_on_exit:
            self._agent_terminals().close(self._journal.ledger)
