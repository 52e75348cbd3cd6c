"""One cycle run from end to end: open it, drive it, and leave everything in order."""

from __future__ import annotations

from collections.abc import Sequence

from logos.adapters import state_file as statefile
from logos.app.post_processing import comment_for, post_process
from logos.app.run_start import StartMode, StartPlan
from logos.app.settings import Settings
from logos.domain.events import Noted, Recorded, RunResumed, RunStarted, TerminalOpened, Topic
from logos.domain.ledger import Ledger
from logos.domain.turns import Action, Agent, Check, Gather, Merge, Outcome, Turn
from logos.engine.checks import run_check
from logos.engine.journal import Journal, Watcher
from logos.engine.loop import WorkerContext
from logos.engine.runner import Dependencies, Runner, RunResult, new_run_id, orderly_shutdown
from logos.engine.terminals import RECREATE
from logos.errors import StateError
from logos.flows.cycle.flow import Cycle, CycleState
from logos.ports import ChangeSignal, Responses


class CycleRun(Runner[CycleState]):
    """A cycle that is being driven by this process."""

    def __init__(
        self,
        settings: Settings,
        dependencies: Dependencies,
        responses: Responses,
        change_signal: ChangeSignal,
        watchers: Sequence[Watcher[CycleState]] = (),
    ) -> None:
        super().__init__(settings, dependencies, watchers)
        self._responses = responses
        self._change_signal = change_signal

    def begin(self, start_plan: StartPlan) -> None:
        """The first event of a new run, or of this driver's part in an old one."""
        plan, log = start_plan.plan, self._dependencies.log
        if start_plan.journal is not None:
            journal, first = start_plan.journal, RunResumed(plan)
        elif start_plan.saved is not None:
            saved = start_plan.saved
            opened = tuple(
                TerminalOpened(name, terminal.id, terminal.provider, saved.session)
                for name, terminal in saved.terminals.items()
            )
            journal = Journal(log, new_run_id(), Cycle(plan, saved.seed))
            first = RunStarted(plan, saved.seed, opened)
        else:
            journal, first = Journal(log, new_run_id(), Cycle(plan)), RunStarted(plan)
        self._responses.ensure()
        self.start(journal, first)

    def staff(self, way: StartMode) -> None:
        """Terminals for every agent: checked where they should be there, opened where they cannot be yet."""
        journal, agent_terminals = self._running(), self._agent_terminals()
        agents = journal.state.plan.agents
        if way is not StartMode.FRESH and self._settings.handoff.recreate_terminals:
            agent_terminals.let_go(journal.ledger)
            agent_terminals.compare(agents, journal.ledger)
        elif way is not StartMode.FRESH:
            agent_terminals.verify(journal.ledger)
            agent_terminals.compare(agents, journal.ledger)
            lost = [a.name for a in agents if a.name not in journal.ledger.terminals]
            lost = [name for name in lost if way is StartMode.IMPORT or name in journal.ledger.briefed]
            if lost:
                raise StateError(
                    f"cannot resume: the terminals of {', '.join(lost)} were closed, and with them what these agents "
                    f"knew; {RECREATE}"
                )
        agent_terminals.open(journal.run, agents, journal.ledger)

    def _perform(self, action: Action, context: WorkerContext) -> None:
        match action:
            case Check():
                run_check(action, str(self._settings.work_dir), self._settings.handoff.response_timeout, context)
            case Turn():
                self._asker(action, self._responses, self._change_signal).ask(action, self._running().ledger, context)
            case Gather() | Merge():
                raise RuntimeError("the cycle works in one place")

    def _agent_for(self, turn: Turn) -> Agent:
        return next(own for own in self._running().state.plan.agents if own.name == turn.agent)

    def _wake(self) -> None:
        self._change_signal.wake()

    def _finish(self, outcome: Outcome) -> None:
        if outcome is not Outcome.PASSED:
            return
        journal, post = self._running(), self._settings.post_processing
        comment = post.git_commit_comment or comment_for(journal.state.plan.explore)

        def tell(text: str) -> None:
            journal.record(Noted(Topic.AFTERWARDS, text))

        post_process(
            self._settings.work_dir,
            archiving=post.openspec_archive,
            committing=post.git_commit,
            comment=comment,
            tell=tell,
        )

    def _tidy(self) -> None:
        if self._settings.cleanup_on_exit:
            self._agent_terminals().close(self._running().ledger)

    def _project(self, record: Recorded, state: CycleState, ledger: Ledger) -> None:
        settings = self._settings
        projection = statefile.project(state, ledger, record.run, record.seq, settings.api, settings.provider)
        statefile.write(settings.state_path, projection, record.at)


def run_cycle(
    settings: Settings,
    start_plan: StartPlan,
    dependencies: Dependencies,
    responses: Responses,
    change_signal: ChangeSignal,
    watchers: Sequence[Watcher[CycleState]] = (),
) -> RunResult[CycleState]:
    """A whole run. Raises RunPaused, HostError, Interrupted …; whatever happens, the log and the state file hold it."""
    run = CycleRun(settings, dependencies, responses, change_signal, watchers)
    with orderly_shutdown(run):
        run.begin(start_plan)
        run.staff(start_plan.way)
        return run.go()
