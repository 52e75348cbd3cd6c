"""Settings: flags over environment over JSON file over defaults, as one frozen object.

Every leaf has an environment variable, and every error says which source gave the value and what is allowed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError
from typing_extensions import Annotated, get_args  # noqa: UP035 - get_args sees through Annotated here

from logos.domain.levels import ALL_LEVELS, LEVELS, Level
from logos.domain.plans import OnExhausted
from logos.domain.roles import ROLE_DEFS, Role
from logos.domain.turns import Agent, AgentName
from logos.engine.budgets import Budget
from logos.engine.options import RunOptions
from logos.errors import ConfigError
from logos.validation import Wording, Worktree, dotted, explain_first
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
    if "\x00" in value or any("\ud800" <= sign <= "\udfff" for sign in value):
        raise PydanticCustomError("text", "must be valid UTF-8 text without NUL characters")
    return value


Flag = Annotated[bool, BeforeValidator(_flag)]
PositiveInt = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=1_000_000)]
NonNegativeInt = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=1_000_000)]
Seconds = Annotated[float, BeforeValidator(_number), Field(ge=0, le=10_000_000)]
Text = Annotated[str, BeforeValidator(_text)]
LevelName = Annotated[str, Field(pattern="^L[1-9]$")]


class HostChoice(StrEnum):
    """What agents run on."""

    AUTO = "auto"
    CAO = "cao"
    LOCAL = "local"
    SCRIPTED = "scripted"


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Limits(Section):
    max_rounds: PositiveInt = Field(8, description="rounds before the run ends as FAIL")
    max_review_cycles: PositiveInt = Field(3, description="review cycles per phase")
    min_review_cycles_before_approval: PositiveInt = Field(
        2, description="an approval before this cycle does not count"
    )
    poll_seconds: Seconds = Field(2.0, description="the longest time between two looks at a terminal")
    require_review_evidence: Flag = Field(True, description="an approval needs evidence in its notes")
    review_evidence_min_match: NonNegativeInt = Field(
        3, description="evidence families an approval must touch, of four"
    )
    on_review_exhausted: OnExhausted = Field(
        OnExhausted.PROCEED, description="no approval in any cycle: proceed with the objections, or block"
    )

    max_tokens: PositiveInt | None = Field(
        None, description="the run stops between turns when it has used so many tokens"
    )
    max_cost_usd: Seconds | None = Field(None, description="… when it has cost so many dollars")
    max_minutes: Seconds | None = Field(None, description="… when it has been driven for so many minutes")


class Condensation(Section):
    condense_cross_phase: Flag = Field(True, description="hand only the relevant parts to the next phase")
    max_cross_phase_lines: PositiveInt = Field(40, description="cap of such a handoff")
    condense_upstream_on_repeat: Flag = Field(True, description="do not repeat the handoff in later review cycles")
    condense_explore_on_repeat: Flag = Field(True, description="send the explore summary once per terminal")
    condense_review_feedback: Flag = Field(True, description="hand on the review notes, not the whole review")
    max_feedback_lines: PositiveInt = Field(30, description="cap of feedback")
    max_test_evidence_lines: PositiveInt | None = Field(
        None, description="cap of test evidence; unset: max_feedback_lines"
    )


class Handoff(Section):
    strict_file_handoff: Flag = Field(True, description="no response file is an error; off: take the last output")
    response_timeout: Seconds = Field(1800.0, description="seconds for one turn, and for a host that is away")
    idle_grace_seconds: Seconds = Field(30.0, description="idle without a file for so long: reminder")
    max_file_reminders: NonNegativeInt = Field(1, description="reminders per turn")
    auto_accept_permissions: Flag = Field(False, description="answer agents' permission prompts with yes")
    recreate_terminals: Flag = Field(
        False, description="terminals that are gone at a resume are replaced, and their agents told what they said"
    )
    retry_back_off_seconds: Seconds = Field(5.0, description="before a turn that failed in passing is asked again")
    on_limit: OnLimit = Field(
        OnLimit.STOP, description="a provider's limit is reached: stop, wait until it ends, or fallback to a spare"
    )


class Build(Section):
    """What `logos build` goes by."""

    max_parallel: Annotated[int, BeforeValidator(_whole), Field(ge=1, le=64)] = Field(
        4, description="authors at work at the same time"
    )
    max_reconciliations: NonNegativeInt = Field(4, description="conflicts that are settled before a build ends as FAIL")
    max_rounds: PositiveInt = Field(3, description="proposals in one reconciliation before a person is asked")


class CheckpointSettings(Section):
    """`checkpoints` in the file."""

    enabled: Flag = Field(True, description="keep the work tree at every event as a commit under refs/logos/RUN/")
    keep_days: NonNegativeInt = Field(30, description="`logos gc` removes those of runs that ended longer ago")
    keep_runs: NonNegativeInt = Field(10, description="`logos gc` keeps those of so many newest runs, however old")


class PostProcessing(Section):
    openspec_archive: Flag = Field(False, description="after PASS: archive the one active OpenSpec change")
    git_commit: Flag = Field(False, description="after PASS: commit everything in the work dir")
    git_commit_comment: Text = Field("", description="the commit's message; empty: one made from the prompt")


class Notifications(Section):
    ntfy_topic: Text = Field("", description="an ntfy topic or URL that is told of the end and of permission prompts")


class AgentSettings(Section):
    provider: Text | None = None
    profile: Text | None = None
    providers: tuple[Text, ...] = Field((), description="spare providers, in order, for on_limit = fallback")


class Settings(Section):
    """A configuration file, and with defaults filled in, the settings of a run."""

    host: HostChoice = Field(HostChoice.AUTO, description="what agents run on: auto, cao, local, scripted")
    api: Text = Field("http://localhost:9889", description="the CAO server")
    provider: Text = Field("codex", description="the agent CLI of every role that names none of its own")
    wd: Text = Field("", description="the work dir; empty: the current directory")
    prompt: Text = Field("", description="the prompt itself")
    prompt_file: Text = Field("", description="a file with the prompt; wins over `prompt`")
    agent_command: Text = Field(
        "", description="the command of provider `command`, with {prompt_file}, {session} and {cwd} in it"
    )
    project_test_cmd: Text = Field("", description="the project's test command")
    verify_pass: Flag = Field(False, description="run project_test_cmd ourselves before believing a PASS")
    start_agent: Role = Field(Role.ANALYST, description="the role a fresh run starts at")
    cleanup_on_exit: Flag = Field(False, description="end the agents' terminals when Logos exits")
    resume: Flag | None = Field(None, description="true: resume; false: start anew; unset: resume what is unfinished")
    state_file: Text = Field("", description="empty: .tmp/agnostic-3agents-loop-state.json in the work dir")

    levels: Text = Field("", description="the levels that take part in a build, as 9-1 or L9,L5,L3-L1; empty: all nine")

    agents: dict[Role, AgentSettings] = Field({}, description="provider and profile per role")
    level_agents: dict[LevelName, AgentSettings] = Field({}, description="provider and profile per level of a build")
    build: Build = Field(default_factory=lambda: Build.model_validate({}))
    limits: Limits = Field(default_factory=lambda: Limits.model_validate({}))
    condensation: Condensation = Field(default_factory=lambda: Condensation.model_validate({}))
    handoff: Handoff = Field(default_factory=lambda: Handoff.model_validate({}))
    post_processing: PostProcessing = Field(default_factory=lambda: PostProcessing.model_validate({}))
    notifications: Notifications = Field(default_factory=lambda: Notifications.model_validate({}))
    checkpoints: CheckpointSettings = Field(default_factory=lambda: CheckpointSettings.model_validate({}))

    @property
    def work_dir(self) -> Path:
        return home_of("wd", self.wd).absolute() if self.wd else Path.cwd()

    @property
    def state_path(self) -> Path:
        if self.state_file:
            return self.work_dir / home_of("state_file", self.state_file)
        return self.work_dir / ".tmp" / "agnostic-3agents-loop-state.json"

    @property
    def response_dir(self) -> Path:
        return self.work_dir / ".tmp" / "agent-responses"

    @property
    def telos_dir(self) -> Path:
        return self.work_dir / ".telos"

    def run_options(self) -> RunOptions:
        """What the engine needs to know of these settings."""
        handoff, limits = self.handoff, self.limits
        return RunOptions(
            str(self.work_dir),
            WaitRules(
                poll_seconds=limits.poll_seconds,
                idle_grace=handoff.idle_grace_seconds,
                max_reminders=handoff.max_file_reminders,
                strict=handoff.strict_file_handoff,
                auto_accept=handoff.auto_accept_permissions,
            ),
            handoff.response_timeout,
            handoff.on_limit,
            handoff.retry_back_off_seconds,
            Budget(limits.max_tokens, limits.max_cost_usd, limits.max_minutes),
            recreate_terminals=handoff.recreate_terminals,
            cleanup_on_exit=self.cleanup_on_exit,
        )

    def spare(self, role: str) -> tuple[str, ...]:
        """The providers that may take over from a role's own, in order."""
        own = self.agents.get(Role(role), AgentSettings.model_validate({}))
        return tuple(name for name in own.providers if name != (own.provider or self.provider))

    def level_agent_config(self) -> tuple[Agent, ...]:
        """One agent per level, named after it, with the defaults filled in."""
        blank = AgentSettings.model_validate({})
        return tuple(
            Agent(
                AgentName(level_def.name),
                own.provider or self.provider,
                own.profile or level_def.profile,
                tuple(name for name in own.providers if name != (own.provider or self.provider)),
            )
            for level_def in LEVELS.values()
            for own in (self.level_agents.get(level_def.name, blank),)
        )

    def levels_taking_part(self) -> tuple[Level, ...]:
        """From purpose to syntax; ConfigError when it cannot be understood, or nothing would be built."""
        chosen = _levels_in(self.levels) if self.levels.strip() else set(ALL_LEVELS)
        if Level.L2 not in chosen:
            raise ConfigError(f"levels = {self.levels!r}: L2 must take part, nobody else writes code")
        return tuple(level for level in ALL_LEVELS if level in chosen)

    def agent_config(self) -> dict[str, dict[str, str]]:
        """Provider and profile of each role, with the defaults filled in."""
        chosen = {role: self.agents.get(role, AgentSettings.model_validate({})) for role in Role}
        return {
            role.value: {
                "provider": own.provider or self.provider,
                "profile": own.profile or ROLE_DEFS[role].profile,
            }
            for role, own in chosen.items()
        }


_SPAN = re.compile(r"\s*L?([1-9])\s*(?:-\s*L?([1-9])\s*)?", re.IGNORECASE)


def _levels_in(text: str) -> set[Level]:
    """`9-1`, `L9,L5,L3-L1`, `all`."""
    if text.strip().lower() == "all":
        return set(ALL_LEVELS)
    chosen: set[Level] = set()
    for part in text.split(","):
        span = _SPAN.fullmatch(part)
        if span is None:
            raise ConfigError(f"levels = {text!r}: {part.strip()!r} is no level; write 9-1 or L9,L5,L3-L1 (L1 to L9)")
        ends = sorted((int(span[1]), int(span[2] or span[1])))
        chosen |= {Level(number) for number in range(ends[0], ends[1] + 1)}
    return chosen


def home_of(key: str, path: str) -> Path:
    """A path in which `~` may stand for somebody's home."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{key} = {path!r}: {str(error).lower()}") from error


@dataclass(frozen=True, slots=True)
class Leaf:
    """One setting: where it stands in the file, and its environment variable."""

    path: tuple[str, ...]
    env: str
    kind: object
    default: object
    description: str

    @property
    def key(self) -> str:
        return ".".join(self.path)


_PREFIXED = {"post_processing": "POST_", "build": "BUILD_", "checkpoints": "CHECKPOINTS_"}
# A variable called HOST means something else nearly everywhere.
_RENAMED = {"host": "LOGOS_HOST"}
# With what their keys are called.
_JSON_ONLY = {"agents": "role", "level_agents": "level"}


def _leaves() -> Iterator[Leaf]:
    for name, field in Settings.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Section):
            for inner, leaf in section.model_fields.items():
                env = _PREFIXED.get(name, "") + inner.upper()
                yield Leaf((name, inner), env, leaf.annotation, leaf.default, leaf.description or "")
        elif name not in _JSON_ONLY:
            yield Leaf(
                (name,), _RENAMED.get(name, name.upper()), field.annotation, field.default, field.description or ""
            )


LEAVES: tuple[Leaf, ...] = tuple(_leaves())
_BY_NAME = {leaf.env: leaf for leaf in LEAVES} | {leaf.key: leaf for leaf in LEAVES}

_BOOLEANS = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}
_BOOLEAN_WORDS = "1/0, true/false, yes/no, on/off"


def load_settings(
    config: Path | None,
    env: Mapping[str, str],
    overrides: Sequence[str] = (),
) -> Settings:
    """Read all sources; raises ConfigError with one line that names the key, its value and what is allowed."""
    merged: Json = {}
    origin: dict[str, str] = {}
    if config is not None:
        merged = read_config(config)
        origin = {"": str(config)}
    for leaf in LEAVES:
        if env.get(leaf.env, "") != "":
            _put(merged, leaf, env[leaf.env], leaf.env, origin)
    for override in overrides:
        name, equals, text = override.partition("=")
        leaf = _BY_NAME.get(name.strip())
        if not equals or leaf is None:
            near = f"unknown key {name.strip()!r}" if equals else "write it as key=value"
            raise ConfigError(f"--set {override!r}: {near}; `logos schema --keys` lists the keys")
        _put(merged, leaf, text, f"--set {leaf.key}", origin)
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        wording = Wording(
            _known_keys,
            lambda place: origin.get(dotted(place)) or f"{origin.get('', 'configuration')}: {dotted(place)}",
            key_names=_JSON_ONLY,
        )
        raise ConfigError(explain_first(error, wording)) from error


def read_config(path: Path) -> Json:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"cannot read the configuration {path}: {why}") from error
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid JSON: {str(error) or 'nested too deeply'}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: the configuration must be a JSON object")
    data = cast(Json, data)
    data.pop("$schema", None)
    return data


def _put(merged: Json, leaf: Leaf, text: str, source: str, origin: dict[str, str]) -> None:
    place = merged
    for part in leaf.path[:-1]:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            raise ConfigError(f"{origin.get('', 'the configuration')}: {part} must be an object")
        place = cast(Json, place)
    place[leaf.path[-1]] = _from_text(leaf, text, source)
    origin[leaf.key] = source


def _kinds(kind: object) -> set[object]:
    inner: tuple[object, ...] = get_args(kind)
    return {kind} | {deep for part in inner for deep in _kinds(part)}


def _from_text(leaf: Leaf, text: str, source: str) -> object:
    kinds = _kinds(leaf.kind)
    if bool in kinds:
        value = _BOOLEANS.get(text.strip().lower())
        if value is None:
            raise ConfigError(f"{source}={text!r}: must be one of {_BOOLEAN_WORDS}")
        return value
    for kind, what in ((int, "a whole number"), (float, "a number")):
        if kind in kinds:
            try:
                return kind(text.strip())
            except ValueError:
                raise ConfigError(f"{source}={text!r}: must be {what}") from None
    return text


def _known_keys(place: Worktree) -> list[str]:
    """The keys of the object at a place."""
    match place:
        case ("agents",):
            return list(Role)
        case ("level_agents",):
            return [level.name for level in ALL_LEVELS]
        case ("agents" | "level_agents", *_):
            return sorted(AgentSettings.model_fields)
        case (str(name), *_):
            return sorted(cast(type[Section], Settings.model_fields[name].annotation).model_fields)
        case _:
            return sorted(Settings.model_fields)


def as_environment(settings: Settings) -> Json:
    """The settings under their environment names, plus `_agent_config`."""
    values: Json = {}
    for leaf in LEAVES:
        place: object = settings
        for part in leaf.path:
            place = getattr(place, part)
        values[leaf.env] = place.value if isinstance(place, StrEnum) else place
    values["WD"] = str(settings.work_dir)
    values["STATE_FILE"] = str(settings.state_path)
    values["_agent_config"] = settings.agent_config()
    return values


def json_schema() -> Json:
    """The JSON Schema of the configuration file."""
    schema = Settings.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Logos configuration"
    schema["properties"]["$schema"] = {"type": "string"}
    return schema
