"""Where settings come from: flags over environment over JSON file over defaults, and earlier commands of a run.

Every setting has an environment variable. Every error names the source of the value and the allowed values.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import cast

from pydantic import ValidationError
from typing_extensions import get_args  # noqa: UP035 - get_args sees through Annotated here

from logos.app.settings import AgentSettings, Json, Settings, SettingSources, SettingsSection
from logos.app.workdir import WorkDir
from logos.domain.levels import ALL_LEVELS
from logos.domain.plans import CyclePlan, GivenSetting, LevelsPlan, Plan, SettingSource
from logos.domain.roles import Role
from logos.errors import ConfigError, UsageError
from logos.validation import Location, Wording, dotted, explain_first


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
            env = _RENAMED.get(name, name.upper())
            yield Leaf((name,), env, field.annotation, field.default, field.description or "")


LEAVES: tuple[Leaf, ...] = tuple(_leaves())
_BY_NAME = {leaf.env: leaf for leaf in LEAVES} | {leaf.key: leaf for leaf in LEAVES}

_BOOLEANS: dict[str, bool] = {
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
    config: Path | None = None, env: Mapping[str, str] = MappingProxyType({}), overrides: Sequence[str] = ()
) -> Settings:
    """Merge all sources; ConfigError names the key, its value and the allowed values in one line."""
    environment = {leaf.key: env[leaf.env] for leaf in LEAVES if env.get(leaf.env, "") != ""}
    flags: dict[str, str] = {}
    for override in overrides:
        name, equals, text = override.partition("=")
        leaf = _BY_NAME.get(name.strip())
        if not equals or leaf is None:
            near = f"unknown key {name.strip()!r}" if equals else "write it as key=value"
            raise UsageError(f"--set {override!r}: {near}; `logos schema --keys` lists the keys")
        flags[leaf.key] = text
    return merge_settings(SettingSources(config, read_config(config) if config else {}, environment, flags))


def merge_settings(sources: SettingSources) -> Settings:
    merged: Json = deepcopy(sources.file)
    origin = {"": str(sources.config)} if sources.config is not None else {}
    for key, text in sources.environment.items():
        _put(merged, _BY_NAME[key], text, _BY_NAME[key].env, origin)
    for key, text in sources.flags.items():
        _put(merged, _BY_NAME[key], text, f"--set {key}", origin)
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as error:
        wording = Wording(
            _known_keys,
            lambda place: origin.get(dotted(place)) or f"{origin.get('', 'configuration')}: {dotted(place)}",
            key_names=_JSON_ONLY,
        )
        raise ConfigError(explain_first(error, wording)) from error
    return settings.from_sources(sources)


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
        value: object = reduce(getattr, leaf.path, settings)
        values[leaf.env] = value.value if isinstance(value, StrEnum) else value
    values["WD"] = str(settings.work_dir)
    values["STATE_FILE"] = str(settings.state_path)
    values["_agent_config"] = settings.agent_config()
    return values


def json_schema() -> Json:
    """The JSON Schema of the configuration file."""
    schema = Settings.model_json_schema()
    schema["properties"]["$schema"] = {"type": "string"}
    return {**schema, "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Logos configuration"}


# These belong to one command, not to the run.
_OF_THE_COMMAND = {"resume", "wd", "state_file", "prompt", "prompt_file", "handoff.recreate_terminals"}
# Fields of a plan's rules, and the settings they come from.
OF_REVIEWS = {
    "max_cycles": "max_review_cycles",
    "min_cycles_before_approval": "min_review_cycles_before_approval",
    "require_evidence": "require_review_evidence",
    "evidence_min_match": "review_evidence_min_match",
    "on_exhausted": "on_review_exhausted",
}
OF_HANDOFFS = {
    "cross_phase": "condense_cross_phase",
    "max_cross_phase_lines": "max_cross_phase_lines",
    "upstream_on_repeat": "condense_upstream_on_repeat",
    "explore_on_repeat": "condense_explore_on_repeat",
    "review_feedback": "condense_review_feedback",
    "max_feedback_lines": "max_feedback_lines",
    "max_test_evidence_lines": "max_test_evidence_lines",
}


def resumed_settings(settings: Settings, earlier: Sequence[GivenSetting], plan: Plan) -> Settings:
    """The settings of a resumed run. Each is taken from the first of these that has it:

    1. a flag of this command
    2. the environment of this command, where the run does not know the same value from an earlier command
    3. a flag or the environment of an earlier command of the run; of several the latest
    4. the configuration file as it is now
    5. the plan of the run
    """
    now = {given.key: given.text for given in given_settings(settings, earlier)}
    command = {key: text for key, text in settings.sources.flags.items() if key in _OF_THE_COMMAND}
    flags = {**{given.key: given.text for given in earlier}, **now, **command}
    environment = {key: text for key, text in settings.sources.environment.items() if key in _OF_THE_COMMAND}
    file = _over(_pinned(plan, named="provider" in {**settings.sources.file, **flags}), settings.sources.file)
    merged = merge_settings(replace(settings.sources, file=file, environment=environment, flags=flags))
    # A command that has forked the run continues in the worktree of the fork.
    return merged.model_copy(update={"wd": settings.wd}).from_sources(settings.sources)


def given_settings(settings: Settings, earlier: Sequence[GivenSetting] = ()) -> tuple[GivenSetting, ...]:
    """What this command was given for the run, without environment that the run knows from earlier commands."""
    known = {given.key: given.text for given in earlier if given.source is SettingSource.ENVIRONMENT}
    sources = settings.sources
    given = [
        *(GivenSetting(key, text, SettingSource.ENVIRONMENT) for key, text in sources.environment.items()),
        *(GivenSetting(key, text, SettingSource.FLAG) for key, text in sources.flags.items()),
    ]
    return tuple(one for one in given if one.key not in _OF_THE_COMMAND and not _is_known(one, known))


def _is_known(given: GivenSetting, known: Mapping[str, str]) -> bool:
    return given.source is SettingSource.ENVIRONMENT and known.get(given.key) == given.text


def _pinned(plan: Plan, *, named: bool) -> Json:
    """A plan as a configuration file; without the agents' providers where a provider is `named` elsewhere."""
    keys = ("profile",) if named else ("provider", "profile")
    agents = {agent.name: {key: getattr(agent, key) for key in keys} for agent in plan.agents}
    match plan:
        case CyclePlan():
            reviews = {key: getattr(plan.review, name) for name, key in OF_REVIEWS.items()}
            return {
                "project_test_cmd": plan.test_command,
                "verify_pass": plan.verify_pass,
                "expect_change": plan.expect_change,
                "agents": agents,
                "limits": {"max_rounds": plan.max_rounds, **reviews},
                "condensation": {key: getattr(plan.condense, name) for name, key in OF_HANDOFFS.items()},
            }
        case LevelsPlan():
            build = {key: getattr(plan, key) for key in ("max_parallel", "max_reconciliations", "max_rounds")}
            levels = ",".join(level.name for level in plan.levels)
            return {"levels": levels, "level_agents": agents, "build": build}


def _over(below: Json, above: Json) -> Json:
    """One configuration laid over another."""
    merged = {**below, **above}
    both = {key for key in below.keys() & above.keys() if isinstance(below[key], dict) and isinstance(above[key], dict)}
    return {**merged, **{key: _over(below[key], above[key]) for key in both}}
