"""One cycle run from end to end: open it, drive it, and leave everything in order."""

from __future__ import annotations

from collections.abc import Sequence

from logos.adapters import state_file as statefile
from logos.app.post_processing import comment_for, post_process
from logos.app.run_start import Opening, Way
from logos.app.settings import Settings
from logos.domain.events import Noted, Recorded, RunResumed, RunStarted, TerminalOpened, Topic
from logos.domain.ledger import Ledger
from logos.domain.turns import Agent, Check, Errand, Gather, Merge, Outcome, Turn
from logos.engine.checks import run_check
from logos.engine.journal import Journal, Watcher
from logos.engine.loop import Desk
from logos.engine.runner import Driving, Ended, Outside, leaving, new_run_id
from logos.engine.terminals import RECREATE
from logos.errors import StateError
from logos.flows.cycle.flow import Cycle, CycleState
from logos.ports import Bell, Responses


class CycleRun(Driving[CycleState]):
    """A cycle that is being driven by this process."""

    def __init__(
        self,
        settings: Settings,
        outside: Outside,
        responses: Responses,
        bell: Bell,
        watchers: Sequence[Watcher[CycleState]] = (),
    ) -> None:
        super().__init__(settings, outside, watchers)
        self._responses = responses
        self._bell = bell

    def begin(self, opening: Opening) -> None:
        """The first event of a new run, or of this driver's part in an old one."""
        plan, log = opening.plan, self._outside.log
        if opening.journal is not None:
            journal, first = opening.journal, RunResumed(plan)
        elif opening.saved is not None:
            saved = opening.saved
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

    def staff(self, way: Way) -> None:
        """Terminals for every agent: checked where they should be there, opened where they cannot be yet."""
        journal, crew = self._running(), self._crew()
        agents = journal.state.plan.agents
        if way is not Way.FRESH and self._settings.handoff.recreate_terminals:
            crew.let_go(journal.ledger)
            crew.compare(agents, journal.ledger)
        elif way is not Way.FRESH:
            crew.verify(journal.ledger)
            crew.compare(agents, journal.ledger)
            lost = [a.name for a in agents if a.name not in journal.ledger.terminals]
            lost = [name for name in lost if way is Way.IMPORT or name in journal.ledger.briefed]
            if lost:
                raise StateError(
                    f"cannot resume: the terminals of {', '.join(lost)} were closed, and with them what these agents "
                    f"knew; {RECREATE}"
                )
        crew.open(journal.run, agents, journal.ledger)

    def _perform(self, errand: Errand, desk: Desk) -> None:
        match errand:
            case Check():
                run_check(errand, str(self._settings.work_dir), self._settings.handoff.response_timeout, desk)
            case Turn():
                self._asker(errand, self._responses, self._bell).ask(errand, self._running().ledger, desk)
            case Gather() | Merge():
                raise RuntimeError("the cycle works in one place")

    def _agent_for(self, turn: Turn) -> Agent:
        return next(own for own in self._running().state.plan.agents if own.name == turn.agent)

    def _wake(self) -> None:
        self._bell.ring()

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
            self._crew().close(self._running().ledger)

    def _project(self, record: Recorded, state: CycleState, ledger: Ledger) -> None:
        settings = self._settings
        projection = statefile.project(state, ledger, record.run, record.seq, settings.api, settings.provider)
        statefile.write(settings.state_path, projection, record.at)


def run_cycle(
    settings: Settings,
    opening: Opening,
    outside: Outside,
    responses: Responses,
    bell: Bell,
    watchers: Sequence[Watcher[CycleState]] = (),
) -> Ended[CycleState]:
    """A whole run. Raises RunPaused, HostError, Interrupted …; whatever happens, the log and the state file hold it."""
    run = CycleRun(settings, outside, responses, bell, watchers)
    with leaving(run):
        run.begin(opening)
        run.staff(opening.way)
        return run.go()
