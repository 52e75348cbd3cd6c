"""Checking a configuration as a run would use it, without starting one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from logos.adapters.hosts.cao import check_provider
from logos.app.hosts import known_providers
from logos.app.prompt import given_prompt, refuse_template, split_prompt
from logos.app.setting_sources import load_settings
from logos.app.settings import Settings
from logos.app.start import check_work_dir
from logos.errors import LogosError, PromptError


@dataclass(frozen=True, slots=True)
class Validation:
    """`problems` would stop a run, `warnings` would not."""

    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def validate(config: Path, env: Mapping[str, str]) -> Validation:
    try:
        settings = load_settings(config, env)
    except LogosError as error:
        return Validation((str(error),))
    known = known_providers(settings)
    checks: list[Callable[[], None]] = [partial(check_work_dir, settings), partial(_check_prompt, settings)]
    checks += [partial(check_provider, agent.name, agent.provider, known) for agent in settings.role_agents()]
    problems: list[str] = []
    for check in checks:
        try:
            check()
        except LogosError as error:
            problems.append(str(error))
    warnings: list[str] = []
    if not settings.project_test_cmd:
        warnings.append("project_test_cmd is empty: no PASS can be verified by running the tests")
    elif settings.verify_pass is False:
        warnings.append("verify_pass is off: a tester's PASS is accepted without running project_test_cmd")
    return Validation(tuple(problems), tuple(warnings))


def _check_prompt(settings: Settings) -> None:
    given = given_prompt(settings)
    if given is None:
        raise PromptError("no prompt: neither prompt nor prompt_file is set; set one, or use `logos run --prompt FILE`")
    refuse_template(settings)
    split_prompt(given)
