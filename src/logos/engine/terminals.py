"""The agents of a run as terminals on a host: opened together, checked at resume, closed at the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from logos.domain.events import Event, Noted, TerminalClosed, TerminalOpened, Topic
from logos.domain.ledger import Ledger
from logos.domain.turns import Agent, AgentName, RunId, Status, TerminalId
from logos.engine.parallel import at_once
from logos.engine.waiter import status_of
from logos.errors import HostError, StateError, TerminalGone
from logos.ports import AgentHost, Screen
from logos.waiting.screens import shows_shell

RENAME_SECONDS = 5.0
RENAME_POLL_SECONDS = 0.05
SHELL_SECONDS = 2.0
START_SECONDS = 20.0
STILL_SECONDS = 1.0
RECREATE = (
    "--recreate (handoff.recreate_terminals) gives agents new terminals and tells each what it said before, "
    "--fresh (RESUME=0) starts the work anew"
)


@dataclass(frozen=True, slots=True)
class AgentTerminals:
    host: AgentHost
    record: Callable[[Event], object]
    now: Callable[[], float]
    pause: Callable[[float], object]

    def open(self, run: RunId, agents: Sequence[Agent], ledger: Ledger) -> None:
        """Open what is not open yet: the first makes the session, the others follow at once."""
        missing = [agent for agent in agents if agent.name not in ledger.terminals]
        session = ledger.session
        opened: dict[AgentName, TerminalId] = {}
        try:
            if missing and not session:
                first, *missing = missing
                made = self._sound(
                    lambda: self.host.create_session(
                        first.profile, provider=first.provider, idempotency_key=_key(run, first)
                    )
                )
                session = made["session_name"]
                self._opened(first, made, session, opened)
            self._open_rest(run, missing, session, opened)
        except (HostError, KeyError):
            self._exit(opened)
            raise
        self._rename(opened)

    def open_one(self, run: RunId, agent: Agent, folder: str, again: str = "") -> None:
        """An agent in a session and a folder of its own; `again` marks a terminal that replaces a lost one."""
        made = self._sound(
            lambda: self.host.create_session(
                agent.profile,
                provider=agent.provider,
                idempotency_key=_key(run, agent) + again,
                working_directory=folder,
            )
        )
        self._opened(agent, made, made["session_name"], {})

    def _open_rest(
        self, run: RunId, agents: Sequence[Agent], session: str, opened: dict[AgentName, TerminalId]
    ) -> None:
        def job(agent: Agent) -> Callable[[], Mapping[str, str]]:
            return lambda: self._sound(
                lambda: self.host.create_terminal(
                    session, agent.profile, provider=agent.provider, idempotency_key=_key(run, agent)
                )
            )

        failure: Exception | None = None
        # All are heard before a failure is raised: what was created must be known to be removed.
        for agent, made in at_once({agent: job(agent) for agent in agents}):
            if isinstance(made, Exception):
                failure = failure or made
            else:
                self._opened(agent, made, session, opened)
        if failure is not None:
            raise failure

    def _sound(self, create: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
        """A terminal with an agent in it: asked again, a host gives back one that is starting, or is a bare shell."""
        made = create()
        if isinstance(self.host, Screen) and not self._comes_up(self.host, TerminalId(made["id"])):
            self.host.exit_terminal(made["id"])
            return create()
        return made

    def _comes_up(self, screen: Screen, terminal: TerminalId) -> bool:
        begun = self.now()
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
        self.record(TerminalOpened(agent.name, TerminalId(made["id"]), agent.provider, session))

    def _rename(self, opened: Mapping[AgentName, TerminalId]) -> None:
        """Label each terminal for whoever looks at the host; a label that fails costs nothing."""

        def job(name: AgentName, terminal: TerminalId) -> Callable[[], bool]:
            return lambda: self._rename_one(name, terminal)

        for name, labelled in at_once({name: job(name, terminal) for name, terminal in opened.items()}):
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
            before, screen = screen, self._screen(terminal)
            moved = moved if screen == before else self.now()
            # Some agents rename at once and never report the end of it: a screen that stands still does.
            if screen is not None and self.now() - moved >= STILL_SECONDS:
                return True
            if self.now() >= until:
                return False
            self.pause(RENAME_POLL_SECONDS)
        return True

    def _screen(self, terminal: TerminalId) -> str | None:
        return self.host.get_screen(terminal) if isinstance(self.host, Screen) else None

    def change(self, run: RunId, agent: Agent, ledger: Ledger) -> None:
        """Another agent in an agent's place, in a conversation of its own."""
        old = ledger.terminals.get(agent.name)
        if old is not None:
            self._exit({agent.name: old.id})
        self.open(
            run, [agent], replace(ledger, terminals={k: v for k, v in ledger.terminals.items() if k != agent.name})
        )

    def verify(self, ledger: Ledger) -> None:
        """Every terminal of a resumed run must answer."""
        lost = [f"{name} ({ledger.terminals[name].id}): {error}" for name, error in self._lost(ledger).items()]
        if lost:
            raise StateError(f"cannot resume, terminals are not reachable: {'; '.join(sorted(lost))}; {RECREATE}")

    def let_go(self, ledger: Ledger) -> None:
        """Terminals that the host does not know any more are closed; a host that is away as a whole is an error."""
        for name, error in sorted(self._lost(ledger).items()):
            if not isinstance(error, TerminalGone):
                raise error
            self.record(TerminalClosed(name, ledger.terminals[name].id))

    def _lost(self, ledger: Ledger) -> dict[AgentName, Exception]:
        def job(terminal: TerminalId) -> Callable[[], Status]:
            return lambda: status_of(self.host, terminal)

        jobs = {name: job(terminal.id) for name, terminal in ledger.terminals.items()}
        return {name: error for name, error in at_once(jobs) if isinstance(error, Exception)}

    def compare(self, agents: Sequence[Agent], ledger: Ledger) -> None:
        """Another provider than configured is only worth a warning."""
        for agent in agents:
            terminal = ledger.terminals.get(agent.name)
            if terminal is not None and terminal.provider != agent.provider:
                text = (
                    f"{agent.name}: terminal {terminal.id} runs {terminal.provider}, "
                    f"the configuration says {agent.provider}; going on with {terminal.provider}"
                )
                self.record(Noted(Topic.WARNING, text))

    def close(self, ledger: Ledger, names: Collection[AgentName] | None = None) -> None:
        """End these agents' terminals, or all."""
        gone = ledger.terminals.keys() if names is None else ledger.terminals.keys() & set(names)
        self._exit({name: ledger.terminals[name].id for name in sorted(gone)})

    def _exit(self, terminals: Mapping[AgentName, TerminalId]) -> None:
        def job(terminal: TerminalId) -> Callable[[], None]:
            return lambda: self.host.exit_terminal(terminal)

        for name, error in at_once({name: job(terminal) for name, terminal in terminals.items()}):
            if isinstance(error, Exception):
                self.record(Noted(Topic.WARNING, f"{name}: terminal {terminals[name]} could not be ended ({error})"))
            else:
                self.record(TerminalClosed(name, terminals[name]))


def _key(run: RunId, agent: Agent) -> str:
    """The same request after a crash returns the same terminal instead of a second one."""
    return f"logos-{run}-{agent.name}-{agent.provider}-{agent.profile}"
