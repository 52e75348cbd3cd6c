"""The events of a run. A log is a list of these."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from logos.domain.gates import GateKind
from logos.domain.plans import CycleSeed, GivenSetting, PinnedFile, Plan
from logos.domain.proof import AcceptanceTests, CountedTests, ProofStep, RoomReport
from logos.domain.specs import ContentConflict, TouchedFile
from logos.domain.turns import AgentName, FailureKind, Outcome, RunId, TerminalId, TurnId
from logos.domain.usage import Usage


class Source(StrEnum):
    FILE = "file"
    SCREEN = "screen"


class Topic(StrEnum):
    WARNING = "warning"
    REMINDED = "reminded"
    PERMISSION_ASKED = "permission_asked"
    PERMISSION_GIVEN = "permission_given"
    TRIED_AGAIN = "tried_again"
    INTERRUPTED = "interrupted"
    AFTERWARDS = "afterwards"
    # Post-processing is done, or there was none to do.
    POST_PROCESSED = "post_processed"
    # The run has changed files that later runs take their settings from.
    FILES_CHANGED = "files_changed"


@dataclass(frozen=True, slots=True)
class TerminalOpened:
    agent: AgentName
    terminal: TerminalId
    provider: str
    session: str
    # Whether the agent's profile was read back from the host and has the standing rules of its role.
    has_rules: bool = False
    # Whether the agent remembers its earlier turns; a program that is started anew for each may not.
    remembers: bool = True
    kind: Literal["terminal_opened"] = "terminal_opened"


@dataclass(frozen=True, slots=True)
class RunStarted:
    """An imported run carries its terminals in the same event, so that a crash cannot separate them."""

    plan: Plan
    seed: CycleSeed | None = None
    opened: tuple[TerminalOpened, ...] = ()
    given: tuple[GivenSetting, ...] = ()
    files: tuple[PinnedFile, ...] = ()
    kind: Literal["run_started"] = "run_started"


@dataclass(frozen=True, slots=True)
class RunResumed:
    """A new driver continues the run with its settings; `given` are those that no earlier driver was given.

    `moved`: the work dir is another folder than before, a copy or moved. Terminals and prompts of the old one are void.
    `files` replace those that the run had, if there are any.
    """

    plan: Plan
    given: tuple[GivenSetting, ...] = ()
    moved: bool = False
    files: tuple[PinnedFile, ...] = ()
    kind: Literal["run_resumed"] = "run_resumed"


@dataclass(frozen=True, slots=True)
class RunForked:
    """The events before this one are copies of the parent's, up to its event `at`.

    `commit` is the work tree it starts with, if any. `left` maps turns to commits of the parent's unfinished work.
    `host` is the host session of the parent's agents, if any.
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
    why: str
    kind: Literal["run_abandoned"] = "run_abandoned"


@dataclass(frozen=True, slots=True)
class TerminalClosed:
    agent: AgentName
    terminal: TerminalId
    kind: Literal["terminal_closed"] = "terminal_closed"


@dataclass(frozen=True, slots=True)
class TurnAsked:
    """Written before the prompt is sent: a resumed driver knows that it may have been delivered."""

    turn: TurnId
    agent: AgentName
    prompt: str
    # The work tree at that time, where the agent is not to change the source.
    commit: str = ""
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
class AcceptanceWritten:
    """An answer of the acceptance tester. Only hashes of it are in the log, which agents can read.

    `problem` says why its tests cannot be used; it names no test.
    """

    turn: TurnId
    tests: AcceptanceTests
    usage: Usage | None = None
    problem: str = ""
    kind: Literal["acceptance_written"] = "acceptance_written"


@dataclass(frozen=True, slots=True)
class WorkCompared:
    """The files outside the specs that have changed since the run started; None where that is not known.

    `commit` is the snapshot that was compared, which the proof is about; empty where there is none. `tree` stands for
    these files and their contents; empty where that is not known.
    """

    turn: TurnId
    files: tuple[str, ...] | None
    commit: str = ""
    tree: str = ""
    kind: Literal["work_compared"] = "work_compared"


@dataclass(frozen=True, slots=True)
class ProofRan:
    """One step of a proof: the test command on the files of `tree`, checked out from the snapshot `commit`.

    `tests` is None where the runner is unknown and nothing was counted. `subject` are the paths that were put back
    (guarded), the ids of planted tests (canary), or the files with new or changed tests (red). `problem` says why the
    step proves nothing, whatever its exit code.
    """

    turn: TurnId
    step: ProofStep
    commit: str
    tree: str
    command: str
    exit_code: int
    tests: CountedTests | None
    output: str
    subject: tuple[str, ...] = ()
    problem: str = ""
    room: RoomReport = field(default_factory=RoomReport)
    kind: Literal["proof_ran"] = "proof_ran"


@dataclass(frozen=True, slots=True)
class WorkUndone:
    """An agent that was to judge has changed files; they were put back. `commit` holds the work tree as it left it."""

    turn: TurnId
    files: tuple[str, ...]
    commit: str
    kind: Literal["work_undone"] = "work_undone"


@dataclass(frozen=True, slots=True)
class WorkGathered:
    """An agent's work was committed; `problems` are reasons not to accept it."""

    turn: TurnId
    place: str
    commit: str
    touched: tuple[TouchedFile, ...] = ()
    problems: tuple[str, ...] = ()
    kind: Literal["work_gathered"] = "work_gathered"


@dataclass(frozen=True, slots=True)
class WorkMerged:
    """`commit` holds all contributions; with clashes it is the unchanged commit they were to be merged onto."""

    turn: TurnId
    commit: str
    clashes: tuple[ContentConflict, ...] = ()
    kind: Literal["work_merged"] = "work_merged"


@dataclass(frozen=True, slots=True)
class QuestionResolved:
    """A person decided: an option (numbered from 1), or free text (0)."""

    question: str
    option: int
    text: str
    # The id of the person's message, where a driver took it from the inbox.
    message: str = ""
    kind: Literal["question_resolved"] = "question_resolved"


@dataclass(frozen=True, slots=True)
class GateOpened:
    """The run waits for a person, who alone can close the gate."""

    gate: TurnId
    at: GateKind
    question: str
    kind: Literal["gate_opened"] = "gate_opened"


@dataclass(frozen=True, slots=True)
class GateDecided:
    """A person approved or rejected; the words of a rejection go back to the author."""

    gate: TurnId
    approved: bool
    words: str = ""
    message: str = ""
    kind: Literal["gate_decided"] = "gate_decided"


@dataclass(frozen=True, slots=True)
class PermissionDecided:
    """A person answered the permission prompt that the agent of a turn shows."""

    turn: TurnId
    granted: bool
    message: str = ""
    kind: Literal["permission_decided"] = "permission_decided"


@dataclass(frozen=True, slots=True)
class PersonSaid:
    """A person's guidance for the next prompt of an agent (a role, or a level); None: of whoever is next."""

    text: str
    agent: AgentName | None = None
    message: str = ""
    kind: Literal["person_said"] = "person_said"


@dataclass(frozen=True, slots=True)
class Noted:
    """A message for people; it changes no state. `response` is the text of a response that was not accepted."""

    topic: Topic
    text: str
    turn: TurnId | None = None
    response: str = ""
    kind: Literal["noted"] = "noted"


@dataclass(frozen=True, slots=True)
class RecordsTampered:
    """Somebody has changed the records of the run; what they changed was undone. A later PASS is not believed."""

    evidence: str
    kind: Literal["records_tampered"] = "records_tampered"


@dataclass(frozen=True, slots=True)
class RunEnded:
    """`verified`: whether Logos ran the tests itself after the last change; None in logs that do not say."""

    outcome: Outcome
    verified: bool | None = None
    kind: Literal["run_ended"] = "run_ended"


_OfRuns = RunStarted | RunResumed | RunForked | RunAbandoned
_OfTurns = TerminalOpened | TerminalClosed | TurnAsked | TurnSent | TurnAnswered | TurnFailed
# What a person decides or says.
PersonEvent = QuestionResolved | GateDecided | PermissionDecided | PersonSaid
_OfWork = CheckRan | ProofRan | WorkCompared | WorkGathered | WorkMerged
Event = (
    _OfRuns
    | _OfTurns
    | _OfWork
    | AcceptanceWritten
    | WorkUndone
    | GateOpened
    | PersonEvent
    | Noted
    | RecordsTampered
    | RunEnded
)
# The end of a turn, or of a step of Logos itself.
TurnEnded = TurnAnswered | AcceptanceWritten | _OfWork


@dataclass(frozen=True, slots=True)
class Message:
    """What a person tells the driver of a run: an event that is to be recorded."""

    id: str
    run: RunId
    event: PersonEvent


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event as stored in the log: numbered and with the time it was accepted."""

    run: RunId
    seq: int
    at: float
    event: Event
