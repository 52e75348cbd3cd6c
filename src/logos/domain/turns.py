"""The actions a flow asks for: turns of agents, checks, comparisons, steps of a proof, gathers and merges."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from logos.domain.gates import GateKind
from logos.domain.proof import AcceptanceTests, CountedTests, LentFolder, ProofRules, ProofStep

RunId = NewType("RunId", str)
TurnId = NewType("TurnId", str)
TerminalId = NewType("TerminalId", str)
AgentName = NewType("AgentName", str)

Fact = str | int | bool


class Status(StrEnum):
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
    PASSED = "PASSED"
    FAILED = "FAILED"
    REJECTED = "REJECTED"
    BLOCKED = "BLOCKED"
    ABANDONED = "ABANDONED"

    def in_words(self, verified: bool | None) -> str:
        """For people: a PASS that only an agent vouches for is called unverified."""
        return f"{self}, unverified" if self is Outcome.PASSED and verified is False else self.value


class FailureKind(StrEnum):
    ERROR = "error"
    TIMEOUT = "timeout"
    NO_FILE = "no_file"
    DIED = "died"
    PROVIDER = "provider"
    LIMIT = "limit"
    TRANSIENT = "transient"
    PERMISSION = "permission"
    UNFIT = "unfit"
    CUT_OFF = "cut_off"


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent: its name in the flow, and what the host starts for it."""

    name: AgentName
    provider: str
    profile: str
    spare: tuple[str, ...] = ()
    # For `provider` only: a spare one gets neither.
    model: str = ""
    args: tuple[str, ...] = ()
    # The plan's agent that this one was made of, where several are.
    definition: str = ""


@dataclass(frozen=True, slots=True)
class Terminal:
    """One agent's conversation on a host."""

    id: TerminalId
    provider: str


@dataclass(frozen=True, slots=True)
class Worktree:
    """A git worktree: its name and the commits merged into it, starting with the first."""

    name: str
    commits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """One prompt to one agent. The flow decides the facts; a document renders them.

    `agent_def` names the plan's agent definition where several agents share one; `place` is the agent's worktree,
    None for the work dir. `judges`: the answer is a verdict on the work of others. `plans`: of the work tree, the agent
    is to change artifacts only. `sealed`: nobody may be told what is answered, so the log must not hold it; `base` is
    the snapshot that the agent sees a part of.
    """

    id: TurnId
    agent: AgentName
    answer: str
    document: str
    facts: Mapping[str, Fact] = field(hash=False)
    agent_def: str = ""
    place: Worktree | None = None
    judges: bool = False
    plans: bool = False
    sealed: bool = False
    base: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A command that Logos runs: an agent's word is not evidence."""

    id: TurnId
    command: str
    place: Worktree | None = None


@dataclass(frozen=True, slots=True)
class Compare:
    """Find out which files of the work tree have changed since the run started."""

    id: TurnId


@dataclass(frozen=True, slots=True)
class Prove:
    """Run one step of a proof in a clean room. `base` and `result` are snapshots; the baseline has no result.

    `changed` are the paths that differ between them, `declared` patterns of guarded paths that may differ.
    """

    id: TurnId
    step: ProofStep
    rules: ProofRules
    base: str
    result: str = ""
    changed: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    # What the baseline found out: whether the tests need the network, and the lent folders as they were.
    network: bool = True
    lent: tuple[LentFolder, ...] = ()
    # The tests of the baseline, None where they are not counted, and whether its command succeeded.
    before: CountedTests | None = None
    was_green: bool = True
    # For the canary: the tests that passed with what steers them as before the run, and the part that may run again.
    passed: tuple[str, ...] = ()
    share: float = 1.0
    # The tests of the steps that run blind acceptance tests.
    acceptance: AcceptanceTests | None = None


@dataclass(frozen=True, slots=True)
class Gather:
    """Commit what an agent left in its worktree. `declared` are files that must be among the changes.

    `since` are the commits to compare with when the worktree started with earlier work of the same agent.
    """

    id: TurnId
    place: Worktree
    title: str
    declared: tuple[str, ...] = ()
    must_change: bool = True
    since: tuple[str, ...] = ()
    # Whether `declared` must name all changes, because other authors worked at the same time.
    vouched: bool = False
    # When the process of the agent ended, in ns; 0 if unknown.
    ended_at: int = 0


@dataclass(frozen=True, slots=True)
class Merge:
    """Merge contributions onto a commit, in order; all or none."""

    id: TurnId
    onto: str
    contributions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class OpenGate:
    """Ask a person to approve or reject, and wait."""

    id: TurnId
    at: GateKind
    question: str


Action = Turn | Check | Compare | Prove | Gather | Merge | OpenGate
