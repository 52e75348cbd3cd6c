"""What can happen in a run. The log is a list of these and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from logos.domain.plans import CycleSeed, Plan
from logos.domain.specs import ContentConflict, TouchedFile
from logos.domain.turns import AgentName, FailureKind, Outcome, RunId, TerminalId, TurnId
from logos.domain.usage import Usage


class Source(StrEnum):
    """Where a response was read."""

    FILE = "file"
    SCREEN = "screen"


class Topic(StrEnum):
    """What a note is about."""

    WARNING = "warning"
    REMINDED = "reminded"
    PERMISSION_ASKED = "permission_asked"
    PERMISSION_GIVEN = "permission_given"
    TRIED_AGAIN = "tried_again"
    INTERRUPTED = "interrupted"
    AFTERWARDS = "afterwards"


@dataclass(frozen=True, slots=True)
class TerminalOpened:
    agent: AgentName
    terminal: TerminalId
    provider: str
    session: str
    kind: Literal["terminal_opened"] = "terminal_opened"


@dataclass(frozen=True, slots=True)
class RunStarted:
    """An imported run brings its terminals along in the same event, so that a crash cannot part them."""

    plan: Plan
    seed: CycleSeed | None = None
    opened: tuple[TerminalOpened, ...] = ()
    kind: Literal["run_started"] = "run_started"


@dataclass(frozen=True, slots=True)
class RunResumed:
    """A driver took over, with the settings it was given; what had stalled may go on."""

    plan: Plan
    kind: Literal["run_resumed"] = "run_resumed"


@dataclass(frozen=True, slots=True)
class RunForked:
    """The events before this one are another run's, up to its event `at`; from here on this run is one of its own.

    `commit` is the work tree it began with, empty where there was none. `left` is what lay in the places of authors
    who were to go on with unfinished work there: they go on from these commits. `host` is the session on which the
    other run's agents were, empty where it had none yet.
    """

    parent: RunId
    at: int
    plan: Plan
    way: Literal["fork", "rollback"] = "fork"
    commit: str = ""
    left: tuple[tuple[str, str], ...] = ()
    host: str = ""
    kind: Literal["run_forked"] = "run_forked"


@dataclass(frozen=True, slots=True)
class RunAbandoned:
    """A person gave the run up."""

    why: str
    kind: Literal["run_abandoned"] = "run_abandoned"


@dataclass(frozen=True, slots=True)
class TerminalClosed:
    agent: AgentName
    terminal: TerminalId
    kind: Literal["terminal_closed"] = "terminal_closed"


@dataclass(frozen=True, slots=True)
class TurnAsked:
    """Written before the prompt leaves: a driver that dies now knows at resume what may be on its way."""

    turn: TurnId
    agent: AgentName
    prompt: str
    kind: Literal["turn_asked"] = "turn_asked"


@dataclass(frozen=True, slots=True)
class TurnSent:
    turn: TurnId
    kind: Literal["turn_sent"] = "turn_sent"


@dataclass(frozen=True, slots=True)
class TurnAnswered:
    turn: TurnId
    text: str
    source: Source = Source.FILE
    usage: Usage | None = None
    kind: Literal["turn_answered"] = "turn_answered"


@dataclass(frozen=True, slots=True)
class TurnFailed:
    turn: TurnId
    trouble: FailureKind
    message: str
    usage: Usage | None = None
    kind: Literal["turn_failed"] = "turn_failed"


@dataclass(frozen=True, slots=True)
class CheckRan:
    turn: TurnId
    command: str
    exit_code: int
    output: str
    kind: Literal["check_ran"] = "check_ran"


@dataclass(frozen=True, slots=True)
class WorkGathered:
    """What an agent left in its place is a commit now; `problems` are what keeps it from being accepted."""

    turn: TurnId
    place: str
    commit: str
    touched: tuple[TouchedFile, ...] = ()
    problems: tuple[str, ...] = ()
    kind: Literal["work_gathered"] = "work_gathered"


@dataclass(frozen=True, slots=True)
class WorkMerged:
    """All pieces are in `commit`; with clashes none is, and `commit` is what they were to be merged onto."""

    turn: TurnId
    commit: str
    clashes: tuple[ContentConflict, ...] = ()
    kind: Literal["work_merged"] = "work_merged"


@dataclass(frozen=True, slots=True)
class QuestionResolved:
    """A person decided: one of the options (from 1), or in words of their own (0)."""

    question: str
    option: int
    text: str
    kind: Literal["question_resolved"] = "question_resolved"


@dataclass(frozen=True, slots=True)
class Noted:
    """Worth telling a person; changes nothing in a flow."""

    topic: Topic
    text: str
    turn: TurnId | None = None
    kind: Literal["noted"] = "noted"


@dataclass(frozen=True, slots=True)
class RunEnded:
    outcome: Outcome
    kind: Literal["run_ended"] = "run_ended"


Event = (
    RunStarted
    | RunResumed
    | RunForked
    | RunAbandoned
    | TerminalOpened
    | TerminalClosed
    | TurnAsked
    | TurnSent
    | TurnAnswered
    | TurnFailed
    | CheckRan
    | WorkGathered
    | WorkMerged
    | QuestionResolved
    | Noted
    | RunEnded
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event as the log keeps it: numbered, and stamped with the time it was accepted."""

    run: RunId
    seq: int
    at: float
    event: Event
