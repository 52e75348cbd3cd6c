"""`logos validate`: everything that is wrong with a configuration and its telos.toml, and where it stands."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from logos.app.environment_notes import unknown_names
from logos.app.hosts import accepted_providers, installed_providers
from logos.app.positions import Positions, json_positions, toml_positions
from logos.app.preflight import budget_problems, check_reviews, check_work_dir
from logos.app.prompt import (
    EXPLORE_HEADER,
    SCENARIO_HEADER,
    given_prompt,
    prompt_from_words,
    refuse_template,
    split_prompt,
)
from logos.app.setting_sources import check_settings, config_text, parse_config, sources_of
from logos.app.settings import AgentSettings, Settings
from logos.app.telos_file import TELOS_FILE, TEMPLATE_PURPOSE, parse_telos, telos_problems, telos_text
from logos.errors import LogosError, PromptError
from logos.validation import Location, dotted, one_line

MAX_PROBLEMS = 100
_TOML_LINE = re.compile(r"\(at line (\d+), column (\d+)\)")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, and where, as far as it stands in a file; lines and columns count from 1."""

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    key: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}" if self.line else self.message


@dataclass(frozen=True, slots=True)
class Validation:
    """`problems` would stop a run or a build, `warnings` would not."""

    problems: tuple[Problem, ...]
    warnings: tuple[str, ...] = ()


def validate(config: Path, env: Mapping[str, str]) -> Validation:
    """Check a configuration as a run would use it, without starting one."""
    warnings: list[str] = []
    problems = [*dict.fromkeys(_problems(config, env, warnings))]
    more = len(problems) - MAX_PROBLEMS
    return Validation((*problems[:MAX_PROBLEMS], *([Problem(f"and {more} more")] if more > 0 else ())), tuple(warnings))


def _problems(config: Path, env: Mapping[str, str], warnings: list[str]) -> Iterator[Problem]:
    try:
        text = config_text(config)
        data = parse_config(config, text)
        sources = sources_of(config, data, env, {})
        settings, found = check_settings(sources)
    except LogosError as error:
        yield _unreadable(error, config)
        return
    warnings += unknown_names(env)
    positions = json_positions(text)

    def problem(message: str, key: Location, *, in_file: bool = True) -> Problem:
        return _placed(message, config, positions, key) if in_file else Problem(message, key=dotted(key))

    yield from (problem(each.message, each.key, in_file=each.in_file) for each in found)
    for key, message in _of_settings(settings, warnings):
        yield problem(message, key, in_file=dotted(key) not in sources.environment)
    yield from _of_telos(settings, warnings)


def _unreadable(error: LogosError, file: Path, text: str = "") -> Problem:
    """A file that cannot be read or parsed; the parser may have said where."""
    cause, message = error.__cause__, str(error)
    if isinstance(cause, json.JSONDecodeError):
        return Problem(message, str(file), cause.lineno, cause.colno)
    if found := _TOML_LINE.search(str(cause)):
        return Problem(message, str(file), int(found[1]), int(found[2]))
    if isinstance(cause, tomllib.TOMLDecodeError):
        # It is at the end of the document.
        return Problem(message, str(file), text.count("\n") + 1, len(text) - text.rfind("\n"))
    return Problem(message, str(file))


def _placed(message: str, file: Path, positions: Positions, key: Location) -> Problem:
    return Problem(message, str(file), *positions.of(key), dotted(key) or None)


def _of_settings(settings: Settings, warnings: list[str]) -> Iterator[tuple[Location, str]]:
    """What only shows when the settings are used."""
    prompt = "prompt_file" if settings.prompt_file else "prompt"
    checks: list[tuple[str, Callable[[], object]]] = [
        ("wd", partial(check_work_dir, settings)),
        (prompt, partial(_check_prompt, settings)),
        ("levels", settings.levels_taking_part),
        ("limits.max_review_cycles", partial(check_reviews, settings, warnings.append)),
    ]
    for key, check in checks:
        try:
            check()
        except LogosError as error:
            yield (*key.split("."),), str(error)
    yield from _of_providers(settings.model_copy(update={"wd": ""}))
    if not settings.project_test_cmd:
        warnings.append("project_test_cmd is empty: no PASS can be verified by running the tests")
    elif settings.verify_pass is False:
        warnings.append("verify_pass is off: a tester's PASS is accepted without running project_test_cmd")


def _of_providers(settings: Settings) -> Iterator[tuple[Location, str]]:
    """Providers that nothing can run, and limits that they would not count towards."""
    try:
        known, on_server = accepted_providers(settings)
    except LogosError as error:
        yield ("api",), str(error)
        return
    for key, provider in _providers(settings):
        if provider not in known:
            yield key, f"{dotted(key)}: unknown provider {provider!r}; known: {', '.join(sorted(known))}"
    if not on_server and "provider" not in settings.model_fields_set:
        settings = settings.model_copy(
            update={"provider": next(iter(installed_providers(settings.work_dir)), settings.provider)}
        )
    for key, message in budget_problems(settings, settings.role_agents(), on_server=on_server):
        yield (*key.split("."),), message


def _providers(settings: Settings) -> Iterator[tuple[Location, str]]:
    """Every provider that the settings name, with its key."""
    yield ("provider",), settings.provider
    sections: dict[str, Mapping[str, AgentSettings]] = {
        "agents": {role.value: agent for role, agent in settings.agents.items()},
        "level_agents": settings.level_agents,
    }
    for section, agents in sections.items():
        for name, agent in agents.items():
            if agent.provider:
                yield (section, name, "provider"), agent.provider
            for number, spare in enumerate(agent.providers):
                yield (section, name, "providers", number), spare


def _check_prompt(settings: Settings) -> None:
    given = given_prompt(settings)
    if given is None:
        raise PromptError("no prompt: neither prompt nor prompt_file is set; set one, or use `logos run --prompt FILE`")
    refuse_template(settings)
    has_parts = any(line.strip() in (EXPLORE_HEADER, SCENARIO_HEADER) for line in given.splitlines())
    split_prompt(given if has_parts else prompt_from_words(given, settings.project_test_cmd))


def _of_telos(settings: Settings, warnings: list[str]) -> Iterator[Problem]:
    """The telos.toml of the work dir, where there is one; only a build needs a purpose."""
    try:
        path = settings.work_dir / TELOS_FILE
        if not path.exists():
            return
    except (LogosError, OSError):
        # What is wrong with the work dir is told already.
        return
    text = ""
    try:
        text = telos_text(path)
        data = parse_telos(path, text)
    except LogosError as error:
        yield _unreadable(error, path, text)
        return
    positions = toml_positions(text)
    for key, message in telos_problems(data):
        yield _placed(message, path, positions, key)
    if one_line(str(data.get("purpose", ""))) == TEMPLATE_PURPOSE:
        warnings.append(f"{TELOS_FILE} still has the template's purpose; `logos build` needs the project's own")
