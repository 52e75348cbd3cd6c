"""What the runtime needs from outside, as small protocols."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from logos.domain.events import Event, Recorded, RunForked, WorkGathered, WorkMerged
from logos.domain.turns import Gather, Merge, RunId, TurnId, Worktree
from logos.domain.usage import Usage


class AgentHost(Protocol):
    """Where agents run: a CAO server, this machine, or a script."""

    def create_session(
        self, agent_profile: str, *, provider: str, idempotency_key: str = "", working_directory: str = ""
    ) -> Mapping[str, str]:
        """Start a session with its first terminal; returns at least `id` and `session_name`.

        `working_directory` is where the agent works, if not in the host's own.
        """
        ...

    def create_terminal(
        self,
        session_name: str,
        agent_profile: str,
        *,
        provider: str,
        idempotency_key: str = "",
        working_directory: str = "",
    ) -> Mapping[str, str]: ...

    def send_input(self, terminal_id: str, message: str) -> None: ...

    def get_status(self, terminal_id: str) -> str: ...

    def get_last_output(self, terminal_id: str) -> str: ...

    def exit_terminal(self, terminal_id: str) -> None:
        """End the agent and remove its terminal."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Screen(Protocol):
    """A host whose terminals can be looked at and answered key by key."""

    def get_screen(self, terminal_id: str) -> str: ...

    def press_key(self, terminal_id: str, key: str) -> None: ...


@runtime_checkable
class TurnReporter(Protocol):
    """A host that runs turns itself: its status is exact, and it can say how they went."""

    def provider_error(self, terminal_id: str) -> str:
        """What went wrong in the latest turn, or nothing. Asked at every look, so it must be cheap."""
        ...

    def usage(self, terminal_id: str) -> Usage | None:
        """What the conversation cost so far; None when its latest turn did not tell."""
        ...


@dataclass(frozen=True, slots=True)
class FileProbe:
    """What lies where a response belongs: a fingerprint when it can be taken, a problem when it never can."""

    fingerprint: str | None = None
    problem: str | None = None


class Responses(Protocol):
    """The files in which agents leave their responses."""

    def ensure(self) -> None: ...

    def clear(self, answer: str) -> None: ...

    def peek(self, answer: str) -> FileProbe: ...

    def read(self, answer: str) -> str: ...


class ResponseFolder(Responses, Protocol):
    """Responses whose place on this machine is known."""

    @property
    def folder(self) -> Path: ...

    def path(self, answer: str) -> Path: ...


class ChangeSignal(Protocol):
    """Rings when something may have changed, so that nobody has to wait for the next poll."""

    @property
    def wakeups(self) -> int: ...

    def wait(self, heard: int, seconds: float) -> None:
        """Return after `seconds`, or as soon as there were more rings than `heard`."""
        ...

    def wake(self) -> None: ...

    def close(self) -> None:
        """Stop listening, and end every waiting."""
        ...


class Log(Protocol):
    def append(self, run: RunId, event: Event, after: int) -> Recorded:
        """Accept `event` as number `after + 1`, durably, or raise LogConflict."""
        ...

    def fork(self, run: RunId, history: Iterable[Recorded], event: RunForked) -> Recorded:
        """Begin a run with the events of another, as they were and when they were, and `event`: all or nothing."""
        ...

    def read(self, run: RunId, from_seq: int = 1) -> Iterator[Recorded]: ...

    def runs(self) -> list[RunId]:
        """Every run, in the order in which they began here."""
        ...

    def watch(self, run: RunId, from_seq: int = 1) -> Iterator[Recorded | None]:
        """Read, and go on reading as events arrive; None is yielded when nothing is new."""
        ...

    def close(self) -> None: ...


class Snapshots(Protocol):
    """A work tree as commits that no branch knows. The person's branch, index, stash and HEAD are never touched."""

    def take(self) -> str:
        """The commit of what lies there now: the same for the same tree."""
        ...

    def point(self, run: RunId, commits: Mapping[int, str]) -> None:
        """Say which commit the work tree was at events of a run."""
        ...

    def of(self, run: RunId) -> dict[int, str]:
        """The events of a run that have a snapshot, in order, and their commits."""
        ...

    def remember(self, commits: Iterable[str]) -> None:
        """Use these commits again where the tree is the same again."""
        ...


class Workspace(Protocol):
    """The git worktrees of one run. The person's branch, index, stash and work tree are never touched."""

    def open(self, place: Worktree, *, anew: bool) -> str:
        """The folder of a place, made where it is not there. `anew`: nothing an agent did is in it yet, start over."""
        ...

    def gather(self, action: Gather) -> WorkGathered: ...

    def merge(self, action: Merge) -> WorkMerged: ...

    def ready(self, place: Worktree) -> str:
        """The folder of a place, exactly as its commit says: what was left lying there is gone."""
        ...

    def keep(self, place: Worktree, turn: TurnId) -> None:
        """Keep as a commit what a turn left in a place, and its agent is to go on with."""
        ...

    def give_up(self, result: str | None) -> None:
        """Close, but keep as commits what was done in places and never gathered."""
        ...

    def close(self, result: str | None) -> None:
        """Remove every place and branch of the run; `result` stays as the run's branch when given.

        Commits that the log names stay, so that the run can be gone back to.
        """
        ...
