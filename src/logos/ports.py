"""What the engine needs from outside, as small protocols."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, Protocol, TypedDict, Unpack, runtime_checkable

from logos.domain.events import Event, Message, ProofRan, Recorded, RunForked, WorkGathered, WorkMerged
from logos.domain.steps import Step
from logos.domain.turns import Gather, Merge, Prove, RunId, TurnId, Worktree
from logos.domain.usage import Usage


class TerminalOptions(TypedDict):
    """`working_directory` is where the agent works, if not in the host's own; the same key gives the same terminal.

    `agent` is its name in the plan.
    """

    provider: str
    agent: NotRequired[str]
    model: NotRequired[str]
    idempotency_key: NotRequired[str]
    working_directory: NotRequired[str]


class AgentHost(Protocol):
    """Where agents run: a CAO server, this machine, or a script.

    A session starts with its first terminal; creating one returns at least `id` and `session_name`. `exit_terminal`
    ends the agent and removes its terminal.
    """

    def create_session(self, agent_profile: str, **options: Unpack[TerminalOptions]) -> Mapping[str, str]: ...
    def create_terminal(
        self, session_name: str, agent_profile: str, **options: Unpack[TerminalOptions]
    ) -> Mapping[str, str]: ...
    def send_input(self, terminal_id: str, message: str) -> None: ...
    def get_status(self, terminal_id: str) -> str: ...
    def get_last_output(self, terminal_id: str) -> str: ...
    def exit_terminal(self, terminal_id: str) -> None: ...
    def close(self) -> None: ...


@runtime_checkable
class Screen(Protocol):
    """A host whose terminals show a screen and accept single keys."""

    def get_screen(self, terminal_id: str) -> str: ...
    def press_key(self, terminal_id: str, key: str) -> None: ...


@runtime_checkable
class ProfileReader(Protocol):
    """A host whose agents start with a profile, and that can tell its text."""

    # The text as agents of this provider get it; empty if unknown.
    def profile_text(self, profile: str, provider: str) -> str: ...


@runtime_checkable
class MemoryReporter(Protocol):
    """A host that starts a program per turn, and knows whether it continues the conversation of the turn before."""

    def remembers(self, provider: str) -> bool: ...


@runtime_checkable
class Typist(Protocol):
    """A host that types what it is given into a client that runs, which takes its time to read a line."""

    # A prompt that comes sooner after another message would be a part of it.
    settle_seconds: float


@runtime_checkable
class WindowChecker(Protocol):
    """A host that reports the last status of a terminal also when its window is gone, and can tell that it is."""

    # Raise TerminalGone where the window does not exist any more.
    def check_window(self, terminal_id: str) -> None: ...


@runtime_checkable
class TurnReporter(Protocol):
    """A host that runs turns itself: its status is exact, and it knows errors, usage and refusals."""

    # What went wrong in the latest turn, or an empty text. Called at every observation, so it must be cheap.
    def provider_error(self, terminal_id: str) -> str: ...
    # What the conversation cost so far; None when its latest turn reported no usage.
    def usage(self, terminal_id: str) -> Usage | None: ...
    # The tool calls of the latest turn that the agent's permissions did not allow.
    def refused_calls(self, terminal_id: str) -> tuple[str, ...]: ...


@runtime_checkable
class StepReporter(Protocol):
    """A host that reads what its agents print while they work."""

    # What the agent did in its latest turn since this was asked last; it reads only what is new, and never fails.
    def new_steps(self, terminal_id: str) -> tuple[Step, ...]: ...


@runtime_checkable
class ExitReporter(Protocol):
    """A host that starts a process per turn and knows how the latest one ended."""

    # Its exit code, negative for a signal, and when it ended, as the file system stamps files; None: unknown.
    def exit_of(self, terminal_id: str) -> tuple[int, int] | None: ...


@dataclass(frozen=True, slots=True)
class FileProbe:
    """A response file: its fingerprint when it is usable, a problem when it never will be, and when it last changed."""

    fingerprint: str | None = None
    problem: str | None = None
    changed_at: int = 0


class Responses(Protocol):
    """The files into which agents write their responses."""

    def ensure(self) -> None: ...
    def clear(self, answer: str) -> None: ...
    def peek(self, answer: str) -> FileProbe: ...
    def read(self, answer: str) -> str: ...


class ResponseFolder(Responses, Protocol):
    """Responses in a known folder of this machine."""

    @property
    def folder(self) -> Path: ...
    def path(self, answer: str) -> Path: ...


class ChangeSignal(Protocol):
    """Wakes waiters when something may have changed, before the next poll."""

    @property
    def wakeups(self) -> int: ...
    # Return after `seconds`, or as soon as there are more wakeups than `seen`.
    def wait(self, seen: int, seconds: float) -> None: ...
    def wake(self) -> None: ...
    # Stop watching and wake every waiter.
    def close(self) -> None: ...


class Log(Protocol):
    # Store `event` durably as number `after + 1`, or raise LogConflict.
    def append(self, run: RunId, event: Event, after: int) -> Recorded: ...
    # Create a run from a copy of another's records, times included, followed by `event`; all or nothing.
    def fork(self, run: RunId, history: Iterable[Recorded], event: RunForked) -> Recorded: ...
    def read(self, run: RunId, from_seq: int = 1) -> Iterator[Recorded]: ...
    # Evidence that somebody has changed the run's records, until it is recorded as an event. `verify`: look for more.
    def tampering(self, run: RunId, *, verify: bool = False) -> str: ...
    # Every run, in the order they were created.
    def runs(self) -> list[RunId]: ...
    def close(self) -> None: ...


class RunLog(Log, Protocol):
    """A log that is kept somewhere, with what commands ask for besides."""

    # The number and the time of every run's last event.
    def ends(self) -> dict[RunId, tuple[int, float]]: ...
    # The hash that stands for every event of a run.
    def head(self, run: RunId) -> str: ...
    # The events of a run as they are stored: number, time, and the bytes that are hashed.
    def rows(self, run: RunId) -> Iterator[tuple[int, float, bytes]]: ...
    # Append such an event, or raise LogConflict where it is not the next.
    def add(self, run: RunId, row: tuple[int, float, bytes]) -> None: ...
    # Create a run from such events; all or nothing.
    def put(self, run: RunId, rows: Iterable[tuple[int, float, bytes]]) -> None: ...
    # Delete the unreadable end of a run after copying it, as it is, to a file.
    def cut(self, run: RunId, from_seq: int, copy: Path) -> None: ...


class Inbox(Protocol):
    """What persons tell the driver of a log from other processes. A message stays until it is removed or refused."""

    # Call `arrived`, in another thread, as soon as there may be a message; it may also be called without one.
    def watch(self, arrived: Callable[[], object]) -> None: ...
    # Those that are there, the oldest first.
    def messages(self) -> tuple[Message, ...]: ...
    # The message is an event of its run.
    def remove(self, message: Message) -> None: ...
    # Remove it, and tell its sender why.
    def refuse(self, message: Message, why: str) -> None: ...
    def close(self) -> None: ...


class Commands(Protocol):
    """Runs shell commands; nothing that a command started outlives it."""

    # Its exit code, negative for a signal, and the end of its output.
    def run(self, command: str, cwd: str, timeout: float, stop: threading.Event) -> tuple[int, str]: ...


class Prover(Protocol):
    """Runs the steps of a proof in clean rooms, which are removed afterwards, also those of a killed driver."""

    # The paths that differ between two snapshots, relative to the work dir.
    def changed(self, base: str, result: str) -> tuple[str, ...]: ...
    # Check out, set up, run the command. HostError where no room can be made.
    def run(self, action: Prove, stop: threading.Event) -> ProofRan: ...
    def close(self) -> None: ...


class Snapshots(Protocol):
    """Work trees as commits outside every branch. The person's branch, index, stash and HEAD are never touched."""

    # The work dir relative to the top of the work tree; empty, or it ends with a slash.
    @property
    def prefix(self) -> str: ...
    # Store the work tree; the same tree gives the same commit. `anew`: believe nothing that agents could have written.
    # `whole`: with the files of the repository outside the work dir, for a proof.
    def take(self, *, anew: bool = False, whole: bool = False) -> str: ...
    # Whether a snapshot has files outside the work dir.
    def is_whole(self, commit: str) -> bool: ...
    # Record which commit the work tree was at these events of a run; other names keep commits that its log names.
    def point(self, run: RunId, commits: Mapping[int, str] | Mapping[str, str]) -> None: ...
    # The events of a run that have a snapshot, in order, and their commits.
    def of(self, run: RunId) -> dict[int, str]: ...
    # The files that differ between two snapshots, relative to the top of the work tree.
    def changed(self, since: str, now: str) -> list[str]: ...
    # The same in one hash, with the files' contents, without those below folders relative to the work dir.
    def digest(self, since: str, now: str, without: Iterable[str]) -> str: ...
    # Those of the first that are changed or missing in the second.
    def altered(self, since: str, now: str) -> list[str]: ...
    # Put these files back as they were in a snapshot; all others stay.
    def put_back(self, commit: str, paths: Iterable[str]) -> None: ...
    # Keep a commit that belongs to no run.
    def keep(self, commit: str) -> None: ...
    # Reuse these commits when the tree is the same again.
    def remember(self, commits: Iterable[str]) -> None: ...


class Workspace(Protocol):
    """The git worktrees of one run. The person's branch, index, stash and work tree are never touched."""

    # The folder of a worktree, created when missing. `anew`: discard what is in it.
    def open(self, worktree: Worktree, *, anew: bool) -> str: ...
    def gather(self, action: Gather) -> WorkGathered: ...
    def merge(self, action: Merge) -> WorkMerged: ...
    # The folder of a worktree, reset to its commit.
    def ready(self, worktree: Worktree) -> str: ...
    # Store what a turn left in a worktree as a commit, for an agent that continues it.
    def keep(self, worktree: Worktree, turn: TurnId) -> None: ...
    # Close, and keep work that was never gathered as commits.
    def give_up(self, result: str | None) -> None: ...
    # Remove the worktrees and branches of the run; `result`, if given, becomes the run's branch.
    # Commits that the log names stay, so that a rollback can use them.
    def close(self, result: str | None) -> None: ...
