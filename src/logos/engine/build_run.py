"""One build from end to end: the nine levels driven, every agent in a fresh terminal, every author in a worktree."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from logos.adapters import build_state_file as telosstate
from logos.adapters.responses import ResponseFiles
from logos.app.build_start import BuildOpening, result_of
from logos.app.settings import Settings
from logos.domain.events import (
    Recorded,
    RunResumed,
    RunStarted,
    TerminalClosed,
    TurnAnswered,
    TurnFailed,
    TurnSent,
)
from logos.domain.ledger import Ledger
from logos.domain.turns import Agent, AgentName, Check, Errand, Gather, Merge, Outcome, Trouble, Turn
from logos.engine.checks import run_check
from logos.engine.journal import Journal, Watcher, flow_of
from logos.engine.loop import Desk
from logos.engine.runner import Driving, Ended, Outside, leaving
from logos.engine.waiter import status_of
from logos.errors import HostError, TerminalGone
from logos.flows.levels.state import MAIN, LevelsState
from logos.ports import Bell, Workspace

STATE_FILE = "state.json"
RESPONSES = Path(".tmp") / "agent-responses"


class BuildRun(Driving[LevelsState]):
    """A build that is being driven by this process."""

    _reminder = "level_reminder"

    def __init__(
        self,
        settings: Settings,
        outside: Outside,
        workspace: Workspace,
        bell_for: Callable[[Path], Bell],
        watchers: Sequence[Watcher[LevelsState]] = (),
    ) -> None:
        super().__init__(settings, outside, [self._keep_what_is_left, *watchers])
        self._workspace = workspace
        self._bell_for = bell_for
        self._bells: dict[AgentName, Bell] = {}
        self._closing: set[AgentName] = set()
        self._lock = threading.Lock()

    def begin(self, opening: BuildOpening) -> None:
        if opening.journal is not None:
            self.start(opening.journal, RunResumed(opening.plan))
            return
        started = RunStarted(opening.plan)
        self.start(Journal(self._outside.log, opening.run, flow_of(started)), started)

    def _perform(self, errand: Errand, desk: Desk) -> None:
        try:
            self._carry_out(errand, desk)
        except OSError as error:
            raise HostError(f"{errand.id}: {error}") from error
        self._dismiss(desk)

    def _carry_out(self, errand: Errand, desk: Desk) -> None:
        match errand:
            case Turn():
                self._ask(errand, desk)
            case Check(_, _, place) if place is not None:
                folder = self._workspace.ready(place)
                run_check(errand, folder, self._settings.handoff.response_timeout, desk)
            case Check():
                raise RuntimeError("a build checks what is merged")
            case Gather():
                if errand.place.commits[0] in self._running().state.left.values():
                    # A fork has the work that was left as a commit, and may not have been in that place yet.
                    self._workspace.open(errand.place, anew=False)
                desk.post(self._workspace.gather(errand))
            case Merge():
                desk.post(self._workspace.merge(errand))

    def _ask(self, turn: Turn, desk: Desk) -> None:
        try:
            folder = self._folder(turn)
            self._seat(turn, folder, desk)
            responses = ResponseFiles(Path(folder) / RESPONSES, {turn.answer: f"{turn.answer}.md"})
            responses.ensure()
            path = str(responses.path(turn.answer))
            told = replace(turn, facts={**turn.facts, "wd": folder, "response_path": path})
            bell = self._bell(turn.agent, responses.folder)
            self._asker(told, responses, bell).ask(told, self._running().ledger, desk)
        except HostError as error:
            # Authors at work beside this one are not to be given up for it.
            desk.post(TurnFailed(turn.id, Trouble.ERROR, f"{turn.id}: {error}"))

    def _folder(self, turn: Turn) -> str:
        """Where the agent works: as its commit says when it is new there, as it left it when it is not."""
        place = turn.place
        if place is None:
            return str(self._settings.work_dir)
        new = turn.agent not in self._running().ledger.briefed
        if place.name == MAIN and new:
            return self._workspace.ready(place)
        return self._workspace.open(place, anew=new)

    def _seat(self, turn: Turn, folder: str, desk: Desk) -> None:
        """A terminal of its own for every agent; one that is gone held nothing that a fresh one would miss."""
        journal, again = self._running(), ""
        terminal = journal.ledger.terminals.get(turn.agent)
        if terminal is not None:
            try:
                status_of(self._outside.host, terminal.id)
                return
            except TerminalGone:
                desk.post(TerminalClosed(turn.agent, terminal.id))
                again = f"-{terminal.id}"
        agent = replace(self._agent_for(turn), name=turn.agent)
        self._crew(desk.post).open_one(journal.run, agent, folder, again)

    def _change(self, turn: Turn, agent: Agent, desk: Desk) -> None:
        journal = self._running()
        self._crew(desk.post).close(journal.ledger, [agent.name])
        self._crew(desk.post).open_one(journal.run, agent, self._folder(turn))

    def _agent_for(self, turn: Turn) -> Agent:
        return next(own for own in self._running().state.plan.agents if own.name == turn.seat)

    def _bell(self, agent: AgentName, folder: Path) -> Bell:
        """An agent's own: the folder of a place that is made anew is another one under the same name."""
        with self._lock:
            if agent not in self._bells:
                self._bells[agent] = self._bell_for(folder)
            return self._bells[agent]

    def _wake(self) -> None:
        with self._lock:
            for bell in self._bells.values():
                bell.ring()

    def _idle(self) -> set[AgentName]:
        """Agents whose turn is done, and whose work is gathered where there is some."""
        journal = self._running()
        state = journal.state
        needed = {ask.key for ask in state.asks} | {done.ask.key for done in state.answered.values()}
        return {name for name in journal.ledger.terminals if name not in needed}

    def _dismiss(self, desk: Desk) -> None:
        with self._lock:
            mine = self._idle() - self._closing
            self._closing |= mine
            bells = [self._bells.pop(agent) for agent in mine if agent in self._bells]
        for bell in bells:
            bell.close()
        if mine:
            self._crew(desk.post).close(self._running().ledger, mine)

    def _tidy(self) -> None:
        self._crew().close(self._running().ledger, self._idle())

    def leave(self, why: str | None) -> None:
        super().leave(why)
        for bell in self._bells.values():
            bell.close()

    def _finish(self, outcome: Outcome) -> None:
        self._tidy()
        # A blocked build goes on when a person has answered; its places stay.
        if outcome is not Outcome.BLOCKED:
            self._workspace.close(result_of(self._running().state))

    def _keep_what_is_left(self, record: Recorded, state: LevelsState, ledger: Ledger) -> None:
        """What an agent did before its report was sent back is in no commit yet; whoever forks the run wants it.

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
                    self._workspace.keep(state.place_for(ask), ask.before)

    def _project(self, record: Recorded, state: LevelsState, ledger: Ledger) -> None:
        if isinstance(record.event, TurnSent | TerminalClosed):
            # Who is asked was shown before the prompt left, and who is done when the answer came.
            return
        shown = telosstate.project(state, ledger, record.run, record.seq, record.at)
        telosstate.write(self._settings.telos_dir / STATE_FILE, shown)


def run_build(
    settings: Settings,
    opening: BuildOpening,
    outside: Outside,
    workspace: Workspace,
    bell_for: Callable[[Path], Bell],
    watchers: Sequence[Watcher[LevelsState]] = (),
) -> Ended[LevelsState]:
    """A whole build. Raises RunPaused, HostError, Interrupted …; whatever happens, the log holds it."""
    run = BuildRun(settings, outside, workspace, bell_for, watchers)
    with leaving(run):
        run.begin(opening)
        return run.go()
