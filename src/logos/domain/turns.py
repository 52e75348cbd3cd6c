"""What a flow asks for: a turn of an agent, or a check that Logos runs itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

RunId = NewType("RunId", str)
TurnId = NewType("TurnId", str)
TerminalId = NewType("TerminalId", str)
AgentName = NewType("AgentName", str)

Fact = str | int | bool


class Status(StrEnum):
    """What a host says of a terminal."""

    UNKNOWN = "unknown"
    IDLE = "idle"
    PROCESSING = "processing"
    COMPLETED = "completed"
    WAITING = "waiting_user_answer"
    ERROR = "error"

    @property
    def resting(self) -> bool:
        return self in (Status.IDLE, Status.COMPLETED)


class Outcome(StrEnum):
    """How a run ends."""

    PASSED = "PASSED"
    FAILED = "FAILED"
    REJECTED = "REJECTED"
    BLOCKED = "BLOCKED"
    ABANDONED = "ABANDONED"


class FailureKind(StrEnum):
    """Why a turn brought no response."""

    ERROR = "error"
    TIMEOUT = "timeout"
    NO_FILE = "no_file"
    DIED = "died"
    PROVIDER = "provider"
    LIMIT = "limit"
    TRANSIENT = "transient"
    PERMISSION = "permission"
    UNFIT = "unfit"


@dataclass(frozen=True, slots=True)
class Agent:
    """Who can be asked: a name in the flow, and what the host starts for it."""

    name: AgentName
    provider: str
    profile: str
    spare: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Terminal:
    """One agent's conversation on a host."""

    id: TerminalId
    provider: str


@dataclass(frozen=True, slots=True)
class Worktree:
    """A git worktree of its own: what it is called, and the commits whose work is in it, the first one its start."""

    name: str
    commits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """One prompt to one agent. The flow decides the facts; a document says them.

    `seat` is the plan's agent that is asked, where many agents have the same; `place` where it works, if not in the
    work dir.
    """

    id: TurnId
    agent: AgentName
    answer: str
    document: str
    facts: Mapping[str, Fact] = field(hash=False)
    agent_def: str = ""
    place: Worktree | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A command that Logos runs itself, because an agent's word is no evidence."""

    id: TurnId
    command: str
    place: Worktree | None = None


@dataclass(frozen=True, slots=True)
class Gather:
    """Commit what an agent left in its place, and say what it is. `declared` are files that must be among it.

    `since` are the commits to compare it with, where the place began with earlier work of its own.
    """

    id: TurnId
    place: Worktree
    title: str
    declared: tuple[str, ...] = ()
    must_change: bool = True
    since: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """Merge pieces of work, in order, onto a commit: all of them, or none."""

    id: TurnId
    onto: str
    contributions: tuple[tuple[str, str], ...]


Action = Turn | Check | Gather | Merge
