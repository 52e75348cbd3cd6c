"""Settings: flags over environment over JSON file over defaults, as one frozen object.

Every setting has an environment variable. Every error names the source of the value and the allowed values.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from pydantic import Field, ValidationError
from typing_extensions import get_args  # noqa: UP035 - get_args sees through Annotated here

from logos.app.settings_sections import (
    AgentSettings,
    Build,
    CheckpointSettings,
    Condensation,
    Flag,
    HandoffSettings,
    HostChoice,
    LevelName,
    Limits,
    Notifications,
    PostProcessing,
    SettingsSection,
    Text,
)
from logos.app.workdir import WorkDir
from logos.domain.levels import ALL_LEVELS, LEVELS, Level
from logos.domain.roles import ROLE_DEFS, Role
from logos.domain.turns import Agent, AgentName
from logos.engine.budgets import Budget
from logos.engine.options import RunOptions
from logos.errors import ConfigError
from logos.validation import Location, Wording, dotted, explain_first
from logos.waiting.rules import WaitRules

Json = dict[str, Any]


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
    verify_pass: Flag = Field(False, description="Accept a PASS only after Logos has run project_test_cmd itself.")
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
    build: Build = Field(default_factory=lambda: Build.model_validate({}))
    limits: Limits = Field(default_factory=lambda: Limits.model_validate({}))
    condensation: Condensation = Field(default_factory=lambda: Condensation.model_validate({}))
    handoff: HandoffSettings = Field(default_factory=lambda: HandoffSettings.model_validate({}))
    post_processing: PostProcessing = Field(default_factory=lambda: PostProcessing.model_validate({}))
    notifications: Notifications = Field(default_factory=lambda: Notifications.model_validate({}))
    checkpoints: CheckpointSettings = Field(default_factory=lambda: CheckpointSettings.model_validate({}))

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
            ),
            handoff.response_timeout,
            handoff.on_limit,
            handoff.retry_back_off_seconds,
            Budget(limits.max_tokens, limits.max_cost_usd, limits.max_minutes),
            recreate_terminals=handoff.recreate_terminals,
            cleanup_on_exit=self.cleanup_on_exit,
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
        return Agent(AgentName(name), provider, chosen.profile or profile, fallbacks)

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


@dataclass(frozen=True, slots=True)
class Leaf:
    """One setting: its path in the file, and its environment variable."""

    path: tuple[str, ...]
    env: str
    kind: object
    default: object
    description: str

    @property
    def key(self) -> str:
        return ".".join(self.path)


_PREFIXED = {"post_processing": "POST_", "build": "BUILD_", "checkpoints": "CHECKPOINTS_"}
# Many programs use a variable HOST for something else.
_RENAMED = {"host": "LOGOS_HOST"}
# With what their keys are called.
_JSON_ONLY = {"agents": "role", "level_agents": "level"}


def _leaves() -> Iterator[Leaf]:
    for name, field in Settings.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, SettingsSection):
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
    config: Path | None = None,
    env: Mapping[str, str] = MappingProxyType({}),
    overrides: Sequence[str] = (),
) -> Settings:
    """Merge all sources; ConfigError names the key, its value and the allowed values in one line."""
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


def settings_of(place: Path, config: Path | None = None, flags: Sequence[str] = ()) -> Settings:
    """The settings of runs in a work dir: by default those of the configuration file in it."""
    default = WorkDir(place).config
    return load_settings(config or (default if default.is_file() else None), os.environ, [*flags, f"wd={place}"])


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


def _known_keys(place: Location) -> list[str]:
    """The keys of the object at a place."""
    match place:
        case ("agents",):
            return list(Role)
        case ("level_agents",):
            return [level.name for level in ALL_LEVELS]
        case ("agents" | "level_agents", *_):
            return sorted(AgentSettings.model_fields)
        case (str(name), *_):
            return sorted(cast(type[SettingsSection], Settings.model_fields[name].annotation).model_fields)
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
