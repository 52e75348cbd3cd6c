"""The terminals of a run's agents: opened in parallel, verified at resume, closed at the end."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

from logos.domain.events import Event, Noted, TerminalClosed, TerminalOpened, Topic
from logos.domain.ledger import Ledger
from logos.domain.turns import Agent, AgentName, Status, TerminalId
from logos.engine.loop import WAKE_SECONDS
from logos.engine.waiter import check_terminal, status_of
from logos.errors import HostError, StateError, TerminalGone
from logos.ports import AgentHost, MemoryReporter, ProfileReader, Screen
from logos.prompts import standing_rules
from logos.waiting.screens import shows_shell

Key = TypeVar("Key")
Result = TypeVar("Result")

RENAME_SECONDS = 5.0
RENAME_POLL_SECONDS = 0.05
SHELL_SECONDS = 2.0
START_SECONDS = 20.0
STILL_SECONDS = 1.0
RECREATE = (
    "--recreate (handoff.recreate_terminals) gives agents new terminals and tells each what it said before, "
    "--fresh (RESUME=0) starts a new run"
)


@dataclass(frozen=True, slots=True)
class AgentTerminals:
    host: AgentHost
    record: Callable[[Event], object]
    now: Callable[[], float]
    pause: Callable[[float], object]

    def open(self, run: str, agents: Sequence[Agent], ledger: Ledger) -> None:
        """Open the missing terminals: the first creates the session, the others follow in parallel."""
        missing = [agent for agent in agents if agent.name not in ledger.terminals]
        session = ledger.session
        opened: dict[AgentName, TerminalId] = {}
        try:
            if missing and not session:
                first, *missing = missing
                create = partial(self.host.create_session, first.profile)
                made = self._create_checked(create, first, _key(run, first))
                session = made["session_name"]
                self._opened(first, made, session, opened)
            self._open_rest(run, missing, session, opened)
        except (HostError, KeyError):
            self._exit(opened)
            raise
        self.rename(opened)

    def open_first(self, run: str, agent: Agent, ledger: Ledger) -> None:
        """Open the terminal of the agent that is asked first; it is renamed after its response."""
        if session := ledger.session:
            made = self._create_in(run, session, agent)
        else:
            create = partial(self.host.create_session, agent.profile)
            made = self._create_checked(create, agent, _key(run, agent))
        self._opened(agent, made, session or made["session_name"], {})

    def open_others(
        self, run: str, agents: Sequence[Agent], session: str, ready: Callable[[AgentName], object]
    ) -> None:
        """Open and rename terminals while another agent works; `ready` is called for each that can be asked."""

        def job(agent: Agent) -> None:
            own: dict[AgentName, TerminalId] = {}
            self._opened(agent, self._create_in(run, session, agent), session, own)
            self.rename(own)
            ready(agent.name)

        # Wait for all before raising: every created terminal must be known, so that it can be closed.
        jobs = {agent: partial(job, agent) for agent in agents}
        failures = [failed for _, failed in _in_parallel(jobs) if isinstance(failed, Exception)]
        if failures:
            raise failures[0]

    def open_one(self, run: str, agent: Agent, folder: str, again: str = "") -> None:
        """Open one agent's terminal in its own session and folder; `again` marks one that replaces a lost terminal."""
        create = partial(self.host.create_session, agent.profile, working_directory=folder)
        made = self._create_checked(create, agent, _key(run, agent) + again)
        self._opened(agent, made, made["session_name"], {})

    def _open_rest(self, run: str, agents: Sequence[Agent], session: str, opened: dict[AgentName, TerminalId]) -> None:
        failure: Exception | None = None
        # Collect all results before raising: every created terminal must be known, so that it can be closed.
        for agent, made in _in_parallel({agent: partial(self._create_in, run, session, agent) for agent in agents}):
            if isinstance(made, Exception):
                failure = failure or made
            else:
                self._opened(agent, made, session, opened)
        if failure is not None:
            raise failure

    def _create_in(self, run: str, session: str, agent: Agent) -> Mapping[str, str]:
        create = partial(self.host.create_terminal, session, agent.profile)
        return self._create_checked(create, agent, _key(run, agent))

    def _create_checked(self, create: Callable[..., Mapping[str, str]], agent: Agent, key: str) -> Mapping[str, str]:
        """Create a terminal in which an agent runs: a repeated request can return one with a bare shell, or none."""
        options = {"provider": agent.provider, "idempotency_key": key, **_wishes(agent)}
        made = create(**options)
        if isinstance(self.host, Screen) and not self._agent_starts(self.host, TerminalId(made["id"])):
            self.host.exit_terminal(made["id"])
            return create(**options)
        return made

    def _agent_starts(self, screen: Screen, terminal: TerminalId) -> bool:
        begun = self.now()
        try:
            check_terminal(self.host, terminal)
        except TerminalGone:
            return False
        while not (status := status_of(self.host, terminal)).resting:
            waited = self.now() - begun
            if waited >= SHELL_SECONDS and not shows_shell(screen.get_screen(terminal)):
                return True
            if waited >= (SHELL_SECONDS if status is Status.UNKNOWN else START_SECONDS):
                return False
            self.pause(RENAME_POLL_SECONDS)
        return True

    def _opened(self, agent: Agent, made: Mapping[str, str], session: str, opened: dict[AgentName, TerminalId]) -> None:
        opened[agent.name] = TerminalId(made["id"])
        has_rules, host = self._has_rules(agent), self.host
        remembers = not isinstance(host, MemoryReporter) or host.remembers(agent.provider)
        self.record(TerminalOpened(agent.name, TerminalId(made["id"]), agent.provider, session, has_rules, remembers))

    def _has_rules(self, agent: Agent) -> bool:
        """Whether the agent has the rules of its role from its profile; a person may have replaced that profile."""
        rules = standing_rules(agent.name)
        if not rules or not isinstance(self.host, ProfileReader):
            return False
        return rules in self.host.profile_text(agent.profile, agent.provider)

    def rename(self, opened: Mapping[AgentName, TerminalId]) -> None:
        """Label each terminal for people who look at the host; a failed rename is only a warning."""
        jobs = {name: partial(self._rename_one, name, terminal) for name, terminal in opened.items()}
        for name, labelled in _in_parallel(jobs):
            if isinstance(labelled, HostError) or labelled is False:
                why = labelled or f"not idle within {RENAME_SECONDS:g} s"
                self.record(Noted(Topic.WARNING, f"{name}: renaming its terminal failed ({why}); going on"))
            elif isinstance(labelled, Exception):
                raise labelled

    def _rename_one(self, name: AgentName, terminal: TerminalId) -> bool:
        self.host.send_input(terminal, f"/rename {name}-{terminal}")
        until = self.now() + RENAME_SECONDS
        moved, screen = self.now(), None
        while not (status := status_of(self.host, terminal)).resting and status is not Status.UNKNOWN:
            before, screen = screen, self.host.get_screen(terminal) if isinstance(self.host, Screen) else None
            moved = moved if screen == before else self.now()
            # Some agents never report the end of a rename; an unchanged screen shows it.
            if screen is not None and self.now() - moved >= STILL_SECONDS:
                return True
            if self.now() >= until:
                return False
            self.pause(RENAME_POLL_SECONDS)
        return True

    def change(self, run: str, agent: Agent, ledger: Ledger) -> None:
        """Replace an agent's terminal by one of another provider."""
        old = ledger.terminals.get(agent.name)
        if old is not None:
            self._exit({agent.name: old.id})
        others = {name: terminal for name, terminal in ledger.terminals.items() if name != agent.name}
        self.open(run, [agent], replace(ledger, terminals=others))

    def verify(self, ledger: Ledger) -> None:
        """Raise StateError unless every terminal of a resumed run answers."""
        lost = [f"{name} ({ledger.terminals[name].id}): {error}" for name, error in self._lost(ledger).items()]
        if lost:
            raise StateError(f"cannot resume, terminals are not reachable: {'; '.join(sorted(lost))}; {RECREATE}")

    def drop_lost(self, ledger: Ledger) -> None:
        """Record terminals that the host no longer knows as closed; an unreachable host is an error."""
        for name, error in sorted(self._lost(ledger).items()):
            if not isinstance(error, TerminalGone):
                raise error
            self.record(TerminalClosed(name, ledger.terminals[name].id))

    def _lost(self, ledger: Ledger) -> dict[AgentName, Exception]:
        jobs = {name: partial(check_terminal, self.host, terminal.id) for name, terminal in ledger.terminals.items()}
        return {name: error for name, error in _in_parallel(jobs) if isinstance(error, Exception)}

    def compare(self, agents: Sequence[Agent], ledger: Ledger) -> None:
        """Warn when a terminal runs another provider than the configured one."""
        for agent in agents:
            terminal = ledger.terminals.get(agent.name)
            if terminal is not None and terminal.provider != agent.provider:
                text = (
                    f"{agent.name}: terminal {terminal.id} runs {terminal.provider}, "
                    f"the configuration says {agent.provider}; going on with {terminal.provider}"
                )
                self.record(Noted(Topic.WARNING, text))

    def close(self, ledger: Ledger, names: Collection[AgentName] | None = None) -> None:
        """Close these agents' terminals, or all."""
        gone = ledger.terminals.keys() if names is None else ledger.terminals.keys() & set(names)
        self._exit({name: ledger.terminals[name].id for name in sorted(gone)})

    def _exit(self, terminals: Mapping[AgentName, TerminalId]) -> None:
        jobs = {name: partial(self.host.exit_terminal, terminal) for name, terminal in terminals.items()}
        for name, error in _in_parallel(jobs):
            if isinstance(error, Exception):
                self.record(Noted(Topic.WARNING, f"{name}: terminal {terminals[name]} could not be ended ({error})"))
            else:
                self.record(TerminalClosed(name, terminals[name]))


def _wishes(agent: Agent) -> Mapping[str, str]:
    """What a host needs to know of an agent that is not started as every other."""
    return {"agent": agent.definition or agent.name, "model": agent.model} if agent.model or agent.args else {}


def _key(run: str, agent: Agent) -> str:
    """An idempotency key: the same request after a crash returns the same terminal."""
    model = f"-{agent.model}" if agent.model else ""
    return f"logos-{run}-{agent.name}-{agent.provider}-{agent.profile}{model}"


def _in_parallel(jobs: Mapping[Key, Callable[[], Result]]) -> Iterator[tuple[Key, Result | Exception]]:
    """Run every job in its own thread; yields (key, result or exception) in order of completion."""
    done: SimpleQueue[tuple[Key, Result | Exception]] = SimpleQueue()

    def work(key: Key, job: Callable[[], Result]) -> None:
        try:
            done.put((key, job()))
        except Exception as error:  # noqa: BLE001 - the caller raises what it does not expect
            done.put((key, error))

    for key, job in jobs.items():
        # Daemon threads: an interrupted driver does not wait for a request that may take minutes.
        threading.Thread(target=work, args=(key, job), daemon=True).start()
    left = len(jobs)
    while left:
        # Wait in short steps: a signal that arrives just before a wait does not end it.
        with suppress(Empty):
            result = done.get(timeout=WAKE_SECONDS)
            left -= 1
            yield result
