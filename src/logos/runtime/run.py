"""One cycle run from end to end: open it, drive it, and leave everything in order."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from logos.adapters import statefile
from logos.domain.events import Noted, Recorded, RunResumed, RunStarted, TerminalOpened, Topic
from logos.domain.ledger import Ledger
from logos.domain.turns import AgentName, Check, Errand, Outcome, RunId, Trouble, Turn
from logos.errors import Interrupted, LimitReached, LogosError, RunPaused, StateError
from logos.flows.cycle import Cycle, CycleState
from logos.flows.patience import Rules
from logos.ports import AgentHost, Bell, Log, Reporter, Responses
from logos.prompts import preload, render
from logos.runtime.afterwards import comment_for, post_process
from logos.runtime.ask import Asker
from logos.runtime.checks import run_check
from logos.runtime.crew import Crew
from logos.runtime.drive import Desk, drive
from logos.runtime.journal import Journal, Watcher
from logos.runtime.limits import Budget
from logos.runtime.notify import notify, notify_aside
from logos.runtime.opening import Opening, Way
from logos.runtime.settings import Settings

Tell = Callable[[str], None]

FINAL_WORD = {
    Outcome.PASSED: "PASS",
    Outcome.FAILED: "FAIL",
    Outcome.BLOCKED: "BLOCKED",
    Outcome.REJECTED: "REJECTED",
}
EXIT_CODES = {Outcome.PASSED: 0, Outcome.FAILED: 1, Outcome.BLOCKED: 3, Outcome.REJECTED: 3}

EXACT_GRACE_SECONDS = 0.1

_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"


def new_run_id() -> RunId:
    """Short enough to type, without letters that look alike."""
    return RunId("".join(secrets.choice(_ALPHABET) for _ in range(8)))


@dataclass(frozen=True, slots=True)
class Outside:
    """What a run needs of the world."""

    host: AgentHost
    log: Log
    responses: Responses
    bell: Bell
    tell: Tell
    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    pause: Callable[[float], object] = time.sleep


@dataclass(frozen=True, slots=True)
class Ended:
    run: RunId
    outcome: Outcome
    reason: str
    state: CycleState

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.outcome]


class CycleRun:
    """A run that is being driven by this process."""

    def __init__(self, settings: Settings, outside: Outside, watchers: Sequence[Watcher[CycleState]] = ()) -> None:
        self._settings = settings
        self._outside = outside
        self._watchers: list[Watcher[CycleState]] = [self._project, self._notify_of_waiting, *watchers]
        self._stop = threading.Event()
        self.journal: Journal[CycleState] | None = None

    def begin(self, opening: Opening) -> Journal[CycleState]:
        """Write the first event of a new run, or of this driver's part in an old one."""
        plan = opening.plan
        if opening.journal is not None:
            journal, first = opening.journal, RunResumed(plan)
        elif opening.saved is not None:
            saved = opening.saved
            opened = tuple(
                TerminalOpened(name, terminal.id, terminal.provider, saved.session)
                for name, terminal in saved.terminals.items()
            )
            journal = Journal(self._outside.log, new_run_id(), Cycle(plan, saved.seed))
            first = RunStarted(plan, saved.seed, opened)
        else:
            journal, first = Journal(self._outside.log, new_run_id(), Cycle(plan)), RunStarted(plan)
        self.journal = journal
        self._outside.responses.ensure()
        preload()
        for watcher in self._watchers:
            journal.watch(watcher)
        journal.record(first)
        return journal

    def staff(self, way: Way) -> None:
        """Terminals for every agent: checked where they should be there, opened where they cannot be yet."""
        journal, crew = self._running(), self._crew()
        agents = journal.state.plan.agents
        if way is not Way.FRESH:
            crew.verify(agents, journal.ledger)
            lost = [a.name for a in agents if a.name not in journal.ledger.terminals]
            lost = [name for name in lost if way is Way.IMPORT or name in journal.ledger.briefed]
            if lost:
                raise StateError(
                    f"cannot resume: the terminals of {', '.join(lost)} were closed, and with them what these agents "
                    "knew; --fresh (RESUME=0) starts the work anew"
                )
        crew.open(journal.run, agents, journal.ledger)

    def go(self) -> Ended:
        """Drive to the outcome; a run that cannot go on raises RunPaused and can be resumed."""
        journal = self._running()
        outcome = drive(journal, self._perform, self._stop, self._brake)
        if outcome is None:
            kind = LimitReached if journal.state.trouble is Trouble.LIMIT else RunPaused
            raise kind(f"{journal.state.stalled}")
        if outcome is Outcome.PASSED:
            self._after_pass()
        return Ended(journal.run, outcome, journal.state.reason, journal.state)

    def leave(self, why: str | None) -> None:
        """The last thing of a driver, however it ended: say why, close what is to be closed, tell the person."""
        self._stop.set()
        self._outside.bell.ring()
        journal = self.journal
        if journal is None:
            return
        if why is not None:
            with suppress(LogosError):
                journal.record(Noted(Topic.INTERRUPTED, why))
        if self._settings.cleanup_on_exit:
            with suppress(LogosError):
                self._crew().close(journal.ledger)
        word = FINAL_WORD[journal.outcome] if journal.outcome is not None else "stopped"
        problem = notify(self._settings.notifications.ntfy_topic, f"Logos: {word}", why or journal.state.reason or word)
        if problem:
            self._outside.tell(problem)

    def _running(self) -> Journal[CycleState]:
        if self.journal is None:
            raise RuntimeError("begin() comes first")
        return self.journal

    def _crew(self) -> Crew:
        return Crew(self._outside.host, self._running().record, self._outside.now, self._outside.pause)

    def _brake(self) -> None:
        journal, limits = self._running(), self._settings.limits
        budget = Budget(limits.max_tokens, limits.max_cost_usd, limits.max_minutes)
        budget.check(journal.ledger.spent, journal.driven)

    def _perform(self, errand: Errand, desk: Desk) -> None:
        match errand:
            case Check():
                run_check(errand, str(self._settings.work_dir), self._settings.handoff.response_timeout, desk)
            case Turn():
                self._asker().ask(errand, self._running().ledger, desk)

    def _asker(self) -> Asker:
        out, handoff = self._outside, self._settings.handoff
        return Asker(
            out.host,
            out.responses,
            out.bell,
            render,
            rules_for(self._settings, out.host),
            handoff.response_timeout,
            out.now,
            out.wall,
            handoff.on_limit,
            handoff.retry_back_off_seconds,
            self._replace,
        )

    def _replace(self, agent: AgentName, desk: Desk) -> str | None:
        """The next spare provider of an agent in a terminal of its own; the old one is ended."""
        journal = self._running()
        plan = next(own for own in journal.state.plan.agents if own.name == agent)
        left = [name for name in plan.spare if name not in journal.ledger.providers.get(agent, ())]
        if not left:
            return None
        crew = Crew(self._outside.host, desk.post, self._outside.now, self._outside.pause)
        crew.change(journal.run, replace(plan, provider=left[0]), journal.ledger)
        return left[0]

    def _after_pass(self) -> None:
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

    def _project(self, record: Recorded, state: CycleState, ledger: Ledger) -> None:
        settings = self._settings
        projection = statefile.project(state, ledger, record.run, record.seq, settings.api, settings.provider)
        statefile.write(settings.state_path, projection, record.at)

    def _notify_of_waiting(self, record: Recorded, state: CycleState, ledger: Ledger) -> None:  # noqa: ARG002
        match record.event:
            case Noted(Topic.PERMISSION_ASKED, text):
                topic = self._settings.notifications.ntfy_topic
                if topic:
                    notify_aside(topic, "Logos: an agent waits for you", text, self._outside.tell)
            case _:
                return


def rules_for(settings: Settings, host: AgentHost) -> Rules:
    handoff = settings.handoff
    exact = isinstance(host, Reporter)
    return Rules(
        poll_seconds=settings.limits.poll_seconds,
        # A process that ended is done: there is nothing to wait for.
        idle_grace=min(handoff.idle_grace_seconds, EXACT_GRACE_SECONDS) if exact else handoff.idle_grace_seconds,
        max_reminders=0 if exact and not handoff.strict_file_handoff else handoff.max_file_reminders,
        strict=handoff.strict_file_handoff,
        auto_accept=handoff.auto_accept_permissions,
        exact=exact,
    )


def run_cycle(
    settings: Settings, opening: Opening, outside: Outside, watchers: Sequence[Watcher[CycleState]] = ()
) -> Ended:
    """A whole run. Raises RunPaused, HostError, Interrupted …; whatever happens, the log and the state file hold it."""
    run = CycleRun(settings, outside, watchers)
    why: str | None = None
    try:
        run.begin(opening)
        run.staff(opening.way)
        return run.go()
    except (LogosError, KeyboardInterrupt) as error:
        why = str(error) or type(error).__name__
        raise
    finally:
        run.leave(why)


__all__ = ["CycleRun", "Ended", "Interrupted", "Outside", "new_run_id", "run_cycle"]
