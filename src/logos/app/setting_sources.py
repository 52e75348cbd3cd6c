"""Where settings come from: flags over environment over JSON file over defaults, and earlier commands of a run.

Every setting has an environment variable. Every error names the source of the value and the allowed values.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import reduce
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import cast

from pydantic import ValidationError
from typing_extensions import get_args, get_origin  # noqa: UP035 - get_args sees through Annotated here

from logos.adapters.files import read_input
from logos.adapters.hosts.providers import PROVIDERS
from logos.app.settings import (
    AgentSettings,
    Json,
    PriceSettings,
    ProofSettings,
    Settings,
    SettingSources,
    SettingsSection,
)
from logos.app.workdir import WorkDir
from logos.domain.levels import ALL_LEVELS
from logos.domain.plans import CyclePlan, GivenSetting, LevelsPlan, Plan, SettingSource
from logos.domain.roles import Role
from logos.errors import ConfigError, UsageError
from logos.validation import Location, Wording, dotted, explain, one_line


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


_PREFIXED = {
    "post_processing": "POST_",
    **{name: f"{name.upper()}_" for name in ("build", "checkpoints", "proof", "gates", "notifications", "traces")},
}
# Sections that may be a list in the file, and the key that it stands for.
_LISTS = {"gates": "at"}
# Many programs use variables HOST and ARTIFACTS for something else; NTFY_TOPIC is the specification's name.
_RENAMED = {
    "host": "LOGOS_HOST",
    "artifacts": "LOGOS_ARTIFACTS",
    "gates.at": "GATES",
    "notifications.ntfy_topic": "NTFY_TOPIC",
}
# Before the name of any variable it makes one that no other program uses; `logos` reads that one first.
PREFIX = "LOGOS_"
# With what their keys are called.
_JSON_ONLY = {"agents": "role", "level_agents": "level", "prices": "provider"}
# Sections with a part per name; a key of theirs can be given with --set, and has no variable.
_PER_NAME: dict[str, type[SettingsSection]] = {
    "agents": AgentSettings,
    "level_agents": AgentSettings,
    "prices": PriceSettings,
}


def _leaves() -> Iterator[Leaf]:
    for name, field in Settings.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, SettingsSection):
            for inner, leaf in section.model_fields.items():
                env = _RENAMED.get(f"{name}.{inner}") or _PREFIXED.get(name, "") + inner.upper()
                yield Leaf((name, inner), env, leaf.annotation, leaf.default, leaf.description or "")
        elif name not in _JSON_ONLY:
            env = _RENAMED.get(name, name.upper())
            yield Leaf((name,), env, field.annotation, field.default, field.description or "")


LEAVES: tuple[Leaf, ...] = tuple(_leaves())
_BY_NAME = {leaf.env: leaf for leaf in LEAVES} | {leaf.key: leaf for leaf in LEAVES}


def _leaf_named(name: str) -> Leaf | None:
    """A setting by its key or variable."""
    section, _, rest = name.partition(".")
    owner, _, inner = rest.partition(".")
    field = _PER_NAME[section].model_fields.get(inner) if section in _PER_NAME and owner else None
    return Leaf((section, owner, inner), "", field.annotation, None, "") if field is not None else _BY_NAME.get(name)


def keys_per_name() -> Iterator[str]:
    """Every key of the sections that have a part per name, for the names that are known."""
    for section, kind in _PER_NAME.items():
        yield from (f"{section}.{name}.{field}" for name in _known_keys((section,)) for field in kind.model_fields)


_BOOLEAN_WORDS = "1/0, true/false, yes/no, on/off"
_BOOLEANS: dict[str, bool] = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def load_settings(
    config: Path | None = None,
    env: Mapping[str, str] = MappingProxyType({}),
    overrides: Sequence[str] = (),
    *,
    bare: bool = False,
) -> Settings:
    """Merge all sources; ConfigError names the key, its value and the allowed values in one line.

    `bare`: read only the names of the specification, without LOGOS_ before them.
    """
    flags: dict[str, str] = {}
    for override in overrides:
        name, equals, text = override.partition("=")
        leaf = _leaf_named(name.strip())
        if not equals or leaf is None:
            near = f"unknown key {name.strip()!r}" if equals else "write it as key=value"
            raise UsageError(f"--set {override!r}: {near}; `logos schema --keys` lists the keys")
        flags[leaf.key] = text
    return merge_settings(sources_of(config, read_config(config) if config else {}, env, flags, bare=bare))


def sources_of(
    config: Path | None, file: Json, env: Mapping[str, str], flags: Mapping[str, str], *, bare: bool = False
) -> SettingSources:
    """The sources of settings. Of the variables of one setting the first that is not empty counts."""
    names = {leaf.key: (leaf.env,) if bare else (own_variable(leaf), leaf.env) for leaf in LEAVES}
    variables = {key: found for key, both in names.items() if (found := next(filter(env.get, both), None))}
    return SettingSources(config, file, {key: env[name] for key, name in variables.items()}, flags, variables)


def own_variable(leaf: Leaf) -> str:
    """The variable of a setting that no other program uses."""
    return leaf.env if leaf.env.startswith(PREFIX) else PREFIX + leaf.env


_ABSENT = object()


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """A value that is refused: its key, and why. `in_file`: it is the configuration file's."""

    key: Location
    message: str
    in_file: bool


def merge_settings(sources: SettingSources) -> Settings:
    settings, problems = check_settings(sources)
    if problems:
        first = problems[0]
        raise ConfigError(f"{sources.config or 'configuration'}: {first.message}" if first.in_file else first.message)
    return settings


def check_settings(sources: SettingSources) -> tuple[Settings, list[SettingProblem]]:
    """The settings without what is wrong, and everything that is wrong."""
    try:
        merged = _without_lists(deepcopy(sources.file))
    except RecursionError as error:
        raise ConfigError(f"{sources.config or 'configuration'}: nested too deeply") from error
    origin, problems = dict[str, str](), list[SettingProblem]()
    given = [(_BY_NAME[key], text, sources.variables[key]) for key, text in sources.environment.items()]
    given += [(_leaf_named(key) or _BY_NAME[key], text, f"--set {key}") for key, text in sources.flags.items()]
    for leaf, text, source in given:
        try:
            _put(merged, leaf, text, source)
            origin[leaf.key] = source
        except ConfigError as error:
            problems.append(SettingProblem(leaf.path, str(error), in_file=False))
    wording = Wording(_known_keys, lambda place: _source(place, origin) or dotted(place), key_names=_JSON_ONLY)
    while True:
        try:
            return Settings.model_validate(merged).from_sources(sources), problems
        except ValidationError as error:
            removed = False
            for found in error.errors(include_url=False):
                place = tuple(part for part in found["loc"] if part != "[key]")
                message, in_file = one_line(explain(found, wording)), not _source(place, origin)
                problems.append(SettingProblem(place, message, in_file))
                removed |= _remove(merged, place[:-1] if found["type"] == "missing" else place)
            merged = merged if removed else {}


def _source(place: Location, origin: Mapping[str, str]) -> str:
    """The variable or flag that a value comes from, which may be one of a list; empty: the file."""
    whole = tuple(takewhile(lambda part: isinstance(part, str), place))
    return origin.get(dotted(whole), "")


def _without_lists(file: Json) -> Json:
    """A configuration in its long form: flags and other configurations are laid over single keys."""
    lists = {name: {key: file[name]} for name, key in _LISTS.items() if isinstance(file.get(name), list)}
    return {**file, **lists}


def _remove(holder: object, place: Location) -> bool:
    """Take a value out, if it is there; of a list that has a wrong one, all."""
    if not isinstance(holder, dict) or not place:
        return False
    table, (first, *rest) = cast(Json, holder), place
    if rest and isinstance(rest[0], str):
        return _remove(table.get(str(first)), tuple(rest))
    return table.pop(str(first), _ABSENT) is not _ABSENT


def settings_of(place: Path, config: Path | None = None, flags: Sequence[str] = ()) -> Settings:
    """The settings of runs in a work dir: by default those of the configuration file in it."""
    default = WorkDir(place).config
    return load_settings(config or (default if default.is_file() else None), os.environ, [*flags, f"wd={place}"])


def read_config(path: Path) -> Json:
    return parse_config(path, config_text(path))


def config_text(path: Path) -> str:
    return read_input(path, "the configuration", ConfigError)


def parse_config(path: Path, text: str) -> Json:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid JSON: {str(error) or 'nested too deeply'}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: the configuration must be a JSON object")
    data = cast(Json, data)
    data.pop("$schema", None)
    return data


def _put(merged: Json, leaf: Leaf, text: str, source: str) -> None:
    place = merged
    for part in leaf.path[:-1]:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            # The file has no object here, which is reported with the rest of the file.
            return
        place = cast(Json, place)
    place[leaf.path[-1]] = _from_text(leaf, text, source)


def _kinds(kind: object) -> set[object]:
    inner: tuple[object, ...] = get_args(kind)
    return {kind} | {deep for part in inner for deep in _kinds(part)}


def _from_text(leaf: Leaf, text: str, source: str) -> object:
    kinds = _kinds(leaf.kind)
    if not text.strip() and type(None) in kinds:
        return None
    if get_origin(leaf.kind) is tuple:
        # One per line, where one of them may contain a comma.
        parts = text.splitlines() if "\n" in text else text.split(",")
        return [word for part in parts if (word := part.strip())]
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
    match place:
        case ("agents",):
            return list(Role)
        case ("level_agents",):
            return [level.name for level in ALL_LEVELS]
        case ("prices",):
            return list(PROVIDERS)
        case ("prices", *_):
            return list(PriceSettings.model_fields)
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
    schema = Settings.model_json_schema()
    schema["properties"]["$schema"] = {"type": "string"}
    return {**schema, "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Logos configuration"}


# These belong to one command, not to the run. Addresses of services hold secrets, and agents can read the log.
_OF_THE_COMMAND = {
    *("resume", "wd", "state_file", "prompt", "prompt_file", "handoff.recreate_terminals"),
    "notifications.urls",
}
# Fields of a plan's rules, and the settings they come from.
OF_REVIEWS = {
    "max_cycles": "max_review_cycles",
    "min_cycles_before_approval": "min_review_cycles_before_approval",
    "require_evidence": "require_review_evidence",
    "evidence_min_match": "review_evidence_min_match",
    "on_exhausted": "on_review_exhausted",
}
OF_BUILDS = ("max_parallel", "max_reconciliations", "max_rounds")
OF_HANDOFFS = {
    "cross_phase": "condense_cross_phase",
    "max_cross_phase_lines": "max_cross_phase_lines",
    "upstream_on_repeat": "condense_upstream_on_repeat",
    "explore_on_repeat": "condense_explore_on_repeat",
    "review_feedback": "condense_review_feedback",
    "max_feedback_lines": "max_feedback_lines",
    "max_test_evidence_lines": "max_test_evidence_lines",
}


def resumed_settings(
    settings: Settings, earlier: Sequence[GivenSetting], plan: Plan, pinned: Json | None = None
) -> Settings:
    """The settings of a resumed run. Each is taken from the first of these that has it:

    1. a flag of this command
    2. the environment of this command, where the run does not know the same value from an earlier command
    3. a flag or the environment of an earlier command of the run; of several the latest
    4. the configuration file as the run has `pinned` it; as it is now where it has not
    5. the plan of the run
    """
    now = {given.key: given.text for given in given_settings(settings, earlier)}
    command = {key: text for key, text in settings.sources.flags.items() if key in _OF_THE_COMMAND}
    flags = {**{given.key: given.text for given in earlier}, **now, **command}
    environment = {key: text for key, text in settings.sources.environment.items() if key in _OF_THE_COMMAND}
    own = settings.sources.file if pinned is None else pinned
    file = _over(_pinned(plan, named="provider" in {**own, **flags}), _without_lists(own))
    merged = merge_settings(replace(settings.sources, file=file, environment=environment, flags=flags))
    if "gates.at" not in flags:
        # A file that agents could write takes no gate away.
        at = tuple(dict.fromkeys((*plan.gates, *merged.gates.at)))
        merged = merged.model_copy(update={"gates": merged.gates.model_copy(update={"at": at})})
    # A command that has forked the run continues in the worktree of the fork.
    return merged.model_copy(update={"wd": settings.wd}).from_sources(settings.sources)


def given_settings(settings: Settings, earlier: Sequence[GivenSetting] = ()) -> tuple[GivenSetting, ...]:
    """What this command was given for the run, without environment that the run knows from earlier commands."""
    known = {given.key: given for given in earlier if given.source is SettingSource.ENVIRONMENT}
    sources = settings.sources
    given = [
        *(GivenSetting(key, text, SettingSource.ENVIRONMENT) for key, text in sources.environment.items()),
        *(GivenSetting(key, text, SettingSource.FLAG) for key, text in sources.flags.items()),
    ]
    return tuple(one for one in given if one.key not in _OF_THE_COMMAND and one != known.get(one.key))


def _pinned(plan: Plan, *, named: bool) -> Json:
    """A plan as a configuration file; without the agents' providers where a provider is `named` elsewhere."""
    keys = ("profile",) if named else ("provider", "profile", "model", "args")
    agents = {agent.name: {key: getattr(agent, key) for key in keys} for agent in plan.agents}
    match plan:
        case CyclePlan():
            reviews = {key: getattr(plan.review, name) for name, key in OF_REVIEWS.items()}
            return {
                "project_test_cmd": plan.test_command,
                "verify_pass": plan.verify_pass,
                "expect_change": plan.expect_change,
                "artifacts": plan.artifacts,
                "agents": agents,
                "gates": {"at": list(plan.gates)},
                "limits": {"max_rounds": plan.max_rounds, "on_no_progress": plan.on_no_progress, **reviews},
                "condensation": {key: getattr(plan.condense, name) for name, key in OF_HANDOFFS.items()},
                "proof": _pinned_proof(plan),
            }
        case LevelsPlan():
            build = {key: getattr(plan, key) for key in OF_BUILDS}
            levels = ",".join(level.name for level in plan.levels)
            own = {"levels": levels, "level_agents": agents, "build": build, "gates": {"at": list(plan.gates)}}
            return {**own, "proof": _pinned_proof(plan)}


def _pinned_proof(plan: Plan) -> Json:
    """Command and rules that are no settings are left out."""
    known = asdict(plan.proof) if plan.proof is not None else {}
    return {key: value for key, value in known.items() if key in ProofSettings.model_fields}


def _over(below: Json, above: Json) -> Json:
    """One configuration laid over another."""
    merged = {**below, **above}
    both = {key for key in below.keys() & above.keys() if isinstance(below[key], dict) and isinstance(above[key], dict)}
    return {**merged, **{key: _over(below[key], above[key]) for key in both}}
