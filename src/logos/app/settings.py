"""The settings of a run as one frozen object; its sections are those of the configuration file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr
from pydantic_core import PydanticCustomError
from typing_extensions import Annotated  # noqa: UP035 - get_args sees through Annotated here

from logos.adapters.git.signature import Signature
from logos.adapters.hosts.providers import BY_PROGRAM, PROVIDERS
from logos.app.workdir import WorkDir
from logos.domain.artifacts import Artifacts
from logos.domain.gates import GateKind
from logos.domain.levels import ALL_LEVELS, LEVELS, Level
from logos.domain.plans import OnExhausted, OnNoProgress
from logos.domain.proof import Network, ProofRules
from logos.domain.roles import ROLE_DEFS, Role
from logos.domain.turns import Agent, AgentName
from logos.domain.usage import Price
from logos.engine.budgets import Budget
from logos.engine.options import RunOptions
from logos.errors import ConfigError
from logos.waiting.provider_errors import OnLimit
from logos.waiting.rules import WaitRules

Json = dict[str, Any]


def _flag(value: object) -> object:
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise PydanticCustomError("flag", "must be true or false")


def _whole(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise PydanticCustomError("whole", "must be a whole number")
    return value


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise PydanticCustomError("number", "must be a number")
    return value


def _text(value: object) -> object:
    if not isinstance(value, str):
        raise PydanticCustomError("text", "must be text")
    if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise PydanticCustomError("text", "must be valid UTF-8 text without NUL characters")
    return value


def _author(text: str) -> str:
    if text != "git" and not _AUTHOR.fullmatch(text):
        raise PydanticCustomError("author", "must be `Name <address>`, or `git`")
    return text


def _gates(value: object) -> object:
    """The short form in the file: a list is `at`."""
    return {"at": cast(object, value)} if isinstance(value, list | tuple) else value


def _gates_at(value: object) -> object:
    """An empty variable counts as unset, so there is a word for it."""
    return [] if value == ["none"] else value


def _provider(name: str) -> str:
    """A provider that Logos can run itself; it may be named by its program."""
    if (known := BY_PROGRAM.get(name, name)) not in PROVIDERS:
        raise PydanticCustomError("provider", "is not a provider that reports tokens")
    return known


_AUTHOR = re.compile(r"([^<>\x00-\x1f]*[^<>\x00-\x20]) <([^<>\s\x00-\x1f]+)>")
Flag = Annotated[bool, BeforeValidator(_flag)]
PositiveInt = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=1_000_000)]
NonNegativeInt = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=1_000_000)]
Seconds = Annotated[float, BeforeValidator(_number), Field(ge=0, le=10_000_000)]
Minutes = Annotated[float, BeforeValidator(_number), Field(ge=0, le=10_000_000)]
Dollars = Annotated[float, BeforeValidator(_number), Field(ge=0, le=10_000_000)]
Text = Annotated[str, BeforeValidator(_text)]
LevelName = Annotated[str, Field(pattern="^L[1-9]$")]


class HostChoice(StrEnum):
    """What the agents run on."""

    AUTO = "auto"
    CAO = "cao"
    LOCAL = "local"
    SCRIPTED = "scripted"


class SettingsSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Limits(SettingsSection):
    max_rounds: PositiveInt = Field(8, description="Rounds before a run ends as FAIL.")
    max_review_cycles: PositiveInt = Field(3, description="Review cycles per phase.")
    min_review_cycles_before_approval: PositiveInt = Field(
        2, description="The first review cycle whose approval counts."
    )
    poll_seconds: Seconds = Field(2.0, description="Longest time between two looks at a terminal.")
    require_review_evidence: Flag = Field(True, description="Accept an approval only with evidence in its notes.")
    review_evidence_min_match: NonNegativeInt = Field(
        3, description="Kinds of evidence (of four) that an approval must name."
    )
    on_review_exhausted: OnExhausted = Field(
        OnExhausted.PROCEED, description="When no review cycle approves: proceed with the objections, or block."
    )
    on_no_progress: OnNoProgress | None = Field(
        None, description="When a round ends as an earlier one did: block after one more try, or go_on."
    )

    max_tokens: PositiveInt | None = Field(None, description="Stop the run between turns after this many tokens.")
    max_cost_usd: Dollars | None = Field(None, description="Stop the run between turns after this cost in US dollars.")
    max_minutes: Minutes | None = Field(None, description="Stop the run between turns after this many minutes.")


class Condensation(SettingsSection):
    condense_cross_phase: Flag = Field(True, description="Hand only the relevant parts to the next phase.")
    max_cross_phase_lines: PositiveInt = Field(40, description="Most lines of a condensed handoff.")
    condense_upstream_on_repeat: Flag = Field(True, description="Send the handoff only in the first review cycle.")
    condense_explore_on_repeat: Flag = Field(True, description="Send the explore summary once per terminal.")
    condense_review_feedback: Flag = Field(True, description="Hand on the notes of a review instead of all of it.")
    max_feedback_lines: PositiveInt = Field(30, description="Most lines of condensed feedback.")
    max_test_evidence_lines: PositiveInt | None = Field(
        None, description="Most lines of condensed test evidence; unset: max_feedback_lines."
    )


class HandoffSettings(SettingsSection):
    strict_file_handoff: Flag = Field(
        True, description="A missing response file is an error; off: use the terminal's last output."
    )
    response_timeout: Seconds = Field(1800.0, description="Seconds to wait for a response, and for an absent server.")
    idle_grace_seconds: Seconds = Field(
        30.0, description="Seconds an agent may be idle without a response file before it is reminded."
    )
    max_file_reminders: NonNegativeInt = Field(1, description="Reminders per turn.")
    auto_accept_permissions: Flag = Field(
        False, description="Let agents do anything: answer their permission prompts with yes."
    )
    recreate_terminals: Flag = Field(
        False, description="On resume, replace terminals that are gone; new agents get the earlier conversation."
    )
    retry_back_off_seconds: Seconds = Field(5.0, description="Delay before retrying a turn after a transient error.")
    on_limit: OnLimit = Field(
        OnLimit.STOP,
        description="When a provider's limit is reached: stop, wait until it ends, or fallback to another provider.",
    )


class Build(SettingsSection):
    """Settings of `logos build`."""

    max_parallel: Annotated[int, BeforeValidator(_whole), Field(ge=1, le=64)] = Field(
        4, description="Authors working at the same time."
    )
    max_reconciliations: NonNegativeInt = Field(4, description="Reconciliations before a build ends as FAIL.")
    max_rounds: PositiveInt = Field(3, description="Rounds of one reconciliation before the build asks a person.")
    author: Annotated[Text, AfterValidator(_author)] = Field(
        "Logos <logos@localhost>", description="Author of a build's commits: Name <address>, or git: as git is set up."
    )
    commit_subject: Text = Field(
        "{what}", description="Subject of a build's commits; {what}, {feature} and {run} are filled in."
    )


class CheckpointSettings(SettingsSection):
    """`checkpoints` in the file."""

    enabled: Flag = Field(True, description="Keep the work tree at every event as a commit under refs/logos/RUN/.")
    keep_days: NonNegativeInt = Field(30, description="`logos gc` removes checkpoints of runs that ended earlier.")
    keep_runs: NonNegativeInt = Field(10, description="`logos gc` always keeps checkpoints of the newest N runs.")


class ProofSettings(SettingsSection):
    """`proof` in the file: how a PASS is proven."""

    required: Flag = Field(False, description="Exit with 1 after a PASS that is not verified, for CI.")
    timeout: Seconds = Field(1800.0, description="Seconds that one step of a proof may take.")
    setup: Text | None = Field(
        None, description="Command that installs dependencies in a clean room; unset: `[worktree] setup` of telos.toml."
    )
    network: Network = Field(
        Network.AUTO, description="Network for the tests in a proof: on, off, or auto: only if they need it before."
    )
    env: tuple[Text, ...] = Field((), description="Names of environment variables that tests in a proof get.")
    guarded: tuple[Text, ...] = Field((), description="More paths that steer tests, as patterns of a .gitignore.")
    may_change: tuple[Text, ...] = Field((), description="Tests and their configuration that a run may change.")
    known_failing: tuple[Text, ...] = Field((), description="Tests that fail before the run and may go on failing.")
    reruns: NonNegativeInt = Field(1, description="How often failing tests are run again, to find flaky ones.")
    blind: Flag = Field(False, description="Prove a PASS with acceptance tests that no author of it sees.")
    require_tests: Flag = Field(False, description="Fail a result whose change no new or changed test notices.")


class GateSettings(SettingsSection):
    """`gates` in the file: an object, or the list `at`."""

    at: Annotated[tuple[GateKind, ...], BeforeValidator(_gates_at)] = Field(
        (), description="Where a run waits until a person has approved: after_plan, before_pass; none."
    )
    remind_minutes: Minutes = Field(60.0, description="Minutes after which an open gate reminds you; 0: never.")


class PostProcessing(SettingsSection):
    openspec_archive: Flag = Field(False, description="After a PASS, archive the one active OpenSpec change.")
    git_commit: Flag = Field(False, description="After a PASS, commit everything in the work dir.")
    git_commit_comment: Text = Field("", description="Message of that commit; empty: made from the prompt.")


class Notifications(SettingsSection):
    ntfy_topic: Text = Field("", description="ntfy topic or URL that gets the notifications.")
    urls: tuple[Text, ...] = Field((), description="Addresses of services that get the notifications, for apprise.")
    stalled_minutes: Minutes = Field(30.0, description="Notify of a turn without a sign of life for so long; 0: never.")


class TraceSettings(SettingsSection):
    """`traces` in the file."""

    otlp: Text = Field("", description="OTLP/HTTP address of a collector that gets the spans of a run as they end.")
    content: Flag = Field(False, description="Put prompts, responses and commands into the spans.")


class PriceSettings(SettingsSection):
    """What a provider's tokens cost."""

    input: Dollars = Field(description="US dollars per million tokens read.")
    output: Dollars = Field(description="US dollars per million tokens written.")
    cached_input: Dollars | None = Field(
        None, description="US dollars per million tokens read from a cache; unset: as input."
    )


class AgentSettings(SettingsSection):
    provider: Text | None = Field(None, description="Agent CLI.")
    profile: Text | None = Field(None, description="Profile that the agent gets.")
    providers: tuple[Text, ...] = Field((), description="Fallback agent CLIs, in order, for on_limit = fallback.")
    model: Text | None = Field(None, description="Model, as the agent CLI names it; unset: the CLI's own default.")
    args: tuple[Text, ...] = Field((), description="More arguments of the agent CLI; they can allow it more.")


@dataclass(frozen=True, slots=True)
class SettingSources:
    """What settings were merged from: the file, and texts by key from the environment and from flags."""

    config: Path | None
    file: Json
    environment: Mapping[str, str]
    flags: Mapping[str, str]
    # The environment variable that each setting in `environment` was taken from, by its key.
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    # The agents' profiles that a run keeps, by name; an empty text is the bundled one.
    profiles: Mapping[str, str] = field(default_factory=dict[str, str])


class Settings(SettingsSection):
    """A configuration file, and with defaults filled in, the settings of a run."""

    host: HostChoice = Field(HostChoice.AUTO, description="What the agents run on: auto, cao, local, scripted.")
    api: Text = Field("http://localhost:9889", description="Address of the CAO server.")
    provider: Text = Field("codex", description="Default agent CLI for roles without their own `provider`.")
    wd: Text = Field("", description="The work dir; empty: the current directory.")
    prompt: Text = Field("", description="The prompt.")
    prompt_file: Text = Field("", description="File with the prompt; used instead of `prompt`.")
    agent_command: Text = Field(
        "", description="Command of the provider `command`; may contain {prompt_file}, {session} and {cwd}."
    )
    project_test_cmd: Text = Field("", description="The project's test command.")
    verify_pass: Flag | None = Field(
        None, description="Accept a PASS only after Logos has run project_test_cmd itself."
    )
    expect_change: Flag | None = Field(
        None, description="Accept a PASS only if the run has changed a file outside the specs."
    )
    artifacts: Artifacts = Field(
        Artifacts.OPENSPEC,
        description="Where the analyst's artifacts are: openspec/changes/, or .logos/changes/.",
    )
    start_agent: Role = Field(Role.ANALYST, description="The role that a new run starts with.")
    cleanup_on_exit: Flag = Field(False, description="Close the agents' terminals when Logos exits.")
    resume: Flag | None = Field(
        None, description="true: resume; false: start a new run; unset: resume if a run is unfinished."
    )
    state_file: Text = Field(
        "", description="The state file; empty: .tmp/agnostic-3agents-loop-state.json in the work dir."
    )

    levels: Text = Field("", description="Levels that take part in a build, as 9-1 or L9,L5,L3-L1; empty: all nine.")

    agents: dict[Role, AgentSettings] = Field({}, description="Provider and profile per role.")
    level_agents: dict[LevelName, AgentSettings] = Field({}, description="Provider and profile per level of a build.")
    prices: dict[Annotated[str, AfterValidator(_provider)], PriceSettings] = Field(
        {}, description="Prices per provider, to estimate the cost of turns that report none."
    )
    build: Build = Field(default_factory=lambda: Build.model_validate({}))
    proof: ProofSettings = Field(default_factory=lambda: ProofSettings.model_validate({}))
    gates: Annotated[
        GateSettings, BeforeValidator(_gates, json_schema_input_type=GateSettings | tuple[GateKind, ...])
    ] = Field(default_factory=lambda: GateSettings.model_validate({}))
    limits: Limits = Field(default_factory=lambda: Limits.model_validate({}))
    condensation: Condensation = Field(default_factory=lambda: Condensation.model_validate({}))
    handoff: HandoffSettings = Field(default_factory=lambda: HandoffSettings.model_validate({}))
    post_processing: PostProcessing = Field(default_factory=lambda: PostProcessing.model_validate({}))
    notifications: Notifications = Field(default_factory=lambda: Notifications.model_validate({}))
    traces: TraceSettings = Field(default_factory=lambda: TraceSettings.model_validate({}))
    checkpoints: CheckpointSettings = Field(default_factory=lambda: CheckpointSettings.model_validate({}))

    _sources: SettingSources | None = PrivateAttr(None)

    def from_sources(self, sources: SettingSources) -> Settings:
        self._sources = sources
        return self

    @property
    def sources(self) -> SettingSources:
        return self._sources or SettingSources(None, self.model_dump(exclude_unset=True), {}, {})

    @property
    def work_dir(self) -> Path:
        return home_of("wd", self.wd).absolute() if self.wd else Path.cwd()

    @property
    def paths(self) -> WorkDir:
        return WorkDir(self.work_dir)

    @property
    def state_path(self) -> Path:
        if self.state_file:
            return self.work_dir / home_of("state_file", self.state_file)
        return self.paths.cycle_state

    @property
    def response_dir(self) -> Path:
        return self.paths.response_dir

    @property
    def telos_dir(self) -> Path:
        return self.paths.telos_dir

    def run_options(self) -> RunOptions:
        """The settings that the engine needs."""
        handoff, limits = self.handoff, self.limits
        return RunOptions(
            str(self.work_dir),
            WaitRules(
                poll_seconds=limits.poll_seconds,
                idle_grace=handoff.idle_grace_seconds,
                max_reminders=handoff.max_file_reminders,
                strict=handoff.strict_file_handoff,
                auto_accept=handoff.auto_accept_permissions,
                confirm_error=True,
            ),
            handoff.response_timeout,
            handoff.on_limit,
            handoff.retry_back_off_seconds,
            Budget(limits.max_tokens, limits.max_cost_usd, limits.max_minutes),
            {name: Price(price.input, price.output, price.cached_input) for name, price in self.prices.items()},
            remind_seconds=self.gates.remind_minutes * 60,
            recreate_terminals=handoff.recreate_terminals,
            cleanup_on_exit=self.cleanup_on_exit,
        )

    def signature(self) -> Signature:
        """How a build's commits are signed."""
        named = _AUTHOR.fullmatch(self.build.author)
        return Signature((named[1], named[2]) if named else None, self.build.commit_subject)

    def proof_rules(self, command: str, setup: str) -> ProofRules:
        """How the result of a test command is proven; `setup` is used where the settings have none."""
        own = self.proof
        return ProofRules(
            command,
            setup if own.setup is None else own.setup,
            own.timeout,
            own.guarded,
            own.may_change,
            own.known_failing,
            own.reruns,
            own.require_tests,
            own.network,
            own.env,
            plants_scripts=True,
            unrelated_declared=True,
            blind=own.blind,
        )

    def role_agents(self) -> tuple[Agent, ...]:
        """One agent per role of the cycle, with the defaults filled in."""
        return tuple(self._agent(role.value, self.agents.get(role), ROLE_DEFS[role].profile) for role in Role)

    def level_agent_config(self) -> tuple[Agent, ...]:
        """One agent per level, named after it, with the defaults filled in."""
        return tuple(self._agent(row.name, self.level_agents.get(row.name), row.profile) for row in LEVELS.values())

    def _agent(self, name: str, chosen: AgentSettings | None, profile: str) -> Agent:
        chosen = chosen or AgentSettings.model_validate({})
        provider = chosen.provider or self.provider
        fallbacks = tuple(other for other in chosen.providers if other != provider)
        model = chosen.model or ""
        return Agent(AgentName(name), provider, chosen.profile or profile, fallbacks, model, chosen.args)

    def levels_taking_part(self) -> tuple[Level, ...]:
        """The chosen levels, from purpose to syntax; ConfigError when the text is invalid or leaves out L2."""
        chosen = _levels_in(self.levels) if self.levels.strip() else set(ALL_LEVELS)
        if Level.L2 not in chosen:
            raise ConfigError(f"levels = {self.levels!r}: L2 must take part, no other level writes code")
        return tuple(level for level in ALL_LEVELS if level in chosen)

    def agent_config(self) -> dict[str, dict[str, str]]:
        """Provider and profile of each role, with the defaults filled in."""
        return {agent.name: {"provider": agent.provider, "profile": agent.profile} for agent in self.role_agents()}


_SPAN = re.compile(r"\s*L?([1-9])\s*(?:-\s*L?([1-9])\s*)?", re.IGNORECASE)


def _levels_in(text: str) -> set[Level]:
    """`9-1`, `L9,L5,L3-L1`, `all`."""
    if text.strip().lower() == "all":
        return set(ALL_LEVELS)
    chosen: set[Level] = set()
    for part in text.split(","):
        span = _SPAN.fullmatch(part)
        if span is None:
            raise ConfigError(f"levels = {text!r}: {part.strip()!r} is not a level; use 9-1 or L9,L5,L3-L1 (L1 to L9)")
        ends = sorted((int(span[1]), int(span[2] or span[1])))
        chosen |= {Level(number) for number in range(ends[0], ends[1] + 1)}
    return chosen


def home_of(key: str, path: str) -> Path:
    """A path with `~` expanded."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{key} = {path!r}: {str(error).lower()}") from error
