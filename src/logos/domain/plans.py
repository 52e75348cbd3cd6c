"""A plan: what a run was asked to do and by which rules, pinned when it starts."""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Literal

from logos.domain.artifacts import Artifacts
from logos.domain.gates import GateKind
from logos.domain.levels import ALL_LEVELS, Level
from logos.domain.proof import ProofRules
from logos.domain.roles import ANSWERS, Phase, Role
from logos.domain.specs import Tool
from logos.domain.turns import Agent


class RulesVersion(IntEnum):
    """Each change in how a flow folds its events, with the first number that has it.

    A run keeps the number it began with, so its log replays as it was written. Plans without a number have the first.
    """

    FIRST = 1
    # A reconciliation that ends in a question keeps the objections of its last round.
    LAST_ROUND_KEPT = 2
    # A tool that cannot run is a question for a person, not a failure for the levels to reconcile.
    ASK_ABOUT_TOOLS = 3
    # A verdict inside a code fence or a quotation is not a verdict.
    QUOTED_VERDICTS_DO_NOT_COUNT = 4
    # An author that hands in no tests must say why.
    TESTS_OR_A_REASON = 5
    # A reconciliation that ends without L9 keeps the last vote.
    LAST_VOTE_KEPT = 6


CURRENT_RULES = max(RulesVersion).value


class SettingSource(StrEnum):
    FLAG = "flag"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class GivenSetting:
    """A setting that a command was given, not in the configuration file; it holds for later commands of the run."""

    key: str
    text: str
    source: SettingSource


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """A file that a run takes its settings or profiles from, as it was then; an empty text: there was none."""

    name: str
    text: str


class OnExhausted(StrEnum):
    """What to do when the reviewers never approve."""

    PROCEED = "proceed"
    BLOCK = "block"


class OnNoProgress(StrEnum):
    """What to do when a round ends as an earlier one did."""

    BLOCK = "block"
    GO_ON = "go_on"


@dataclass(frozen=True, slots=True)
class ReviewRules:
    max_cycles: int = 3
    min_cycles_before_approval: int = 2
    require_evidence: bool = True
    evidence_min_match: int = 3
    on_exhausted: OnExhausted = OnExhausted.PROCEED


@dataclass(frozen=True, slots=True)
class CondenseRules:
    cross_phase: bool = True
    max_cross_phase_lines: int = 40
    upstream_on_repeat: bool = True
    explore_on_repeat: bool = True
    review_feedback: bool = True
    max_feedback_lines: int = 30
    max_test_evidence_lines: int | None = None

    @property
    def test_evidence_lines(self) -> int:
        return self.max_feedback_lines if self.max_test_evidence_lines is None else self.max_test_evidence_lines


@dataclass(frozen=True, slots=True)
class CyclePlan:
    prompt: str
    explore: str
    scenario_test: str
    wd: str
    response_dir: str
    agents: tuple[Agent, ...] = ()
    start: Role = Role.ANALYST
    max_rounds: int = 8
    test_command: str = ""
    verify_pass: bool = False
    # A PASS counts only if the run has changed a file.
    expect_change: bool = False
    review: ReviewRules = field(default_factory=ReviewRules)
    condense: CondenseRules = field(default_factory=CondenseRules)
    # None: a PASS is verified by running the test command in the work tree, or not at all.
    proof: ProofRules | None = None
    # None: nobody compares the files of rounds.
    on_no_progress: OnNoProgress | None = None
    artifacts: Artifacts = Artifacts.OPENSPEC
    # Where a person decides whether the run goes on.
    gates: tuple[GateKind, ...] = ()
    flow: Literal["cycle"] = "cycle"
    rules: int = RulesVersion.FIRST.value

    @property
    def request(self) -> str:
        """What the run is to do, as a person wrote it."""
        return self.explore

    @property
    def quoted_verdicts_ignored(self) -> bool:
        return self.rules >= RulesVersion.QUOTED_VERDICTS_DO_NOT_COUNT


@dataclass(frozen=True, slots=True)
class LevelsPlan:
    """`telos` is the project's purpose per level; `base` is the commit that all work starts from."""

    feature: str
    wd: str
    base: str
    telos: tuple[tuple[Level, str], ...]
    agents: tuple[Agent, ...] = ()
    levels: tuple[Level, ...] = ALL_LEVELS
    tools: tuple[Tool, ...] = ()
    max_parallel: int = 4
    max_reconciliations: int = 4
    max_rounds: int = 3
    # The command that prepares a worktree.
    setup: str = ""
    proof: ProofRules | None = None
    gates: tuple[GateKind, ...] = ()
    flow: Literal["levels"] = "levels"
    rules: int = RulesVersion.FIRST.value

    @property
    def request(self) -> str:
        return self.feature


Plan = CyclePlan | LevelsPlan


@dataclass(frozen=True, slots=True)
class CycleSeed:
    """The position of an imported run, read from a state file."""

    round: int = 1
    phase: Phase = Phase.ANALYST
    feedback: str = ""
    analyst_feedback: str = ""
    programmer_feedback: str = ""
    retry_context: str = ""
    outputs: tuple[tuple[str, str], ...] = tuple((answer, "") for answer in ANSWERS)
