"""`logos validate`: everything that can be wrong with a configuration, before a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logos.app.workdir import CONFIG
from logos.cli.options import AsJson, examples
from logos.errors import LogosError

if TYPE_CHECKING:
    from logos.app.settings import Settings

EXAMPLES = examples("logos validate logos.json", "logos validate team.json --json")


def validate(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The configuration; default: ./logos.json.")] = Path(
        CONFIG
    ),
    as_json: AsJson = False,
) -> int:
    """Check a configuration as `logos run` would use it, with the environment: settings, prompt, providers."""
    from logos.cli.output import console as show

    problems, doubts = look_through(config)
    if as_json:
        show.document({"config": str(config), "ok": not problems, "problems": problems, "warnings": doubts})
        return 1 if problems else 0
    target = show.console()
    for word, lines in (("problem", problems), ("warning", doubts)):
        for line in lines:
            show.put(target, f"{word}: {line}", "red" if word == "problem" else "yellow")
    if not problems:
        show.put(target, f"{config} is valid", "green")
    return 1 if problems else 0


def look_through(config: Path) -> tuple[list[str], list[str]]:
    """What would stop a run, and what is only doubtful."""
    from logos.app.settings import load_settings

    try:
        settings = load_settings(config, os.environ)
    except LogosError as error:
        return [str(error)], []
    problems: list[str] = []
    for check in (_place, _prompt, *_provider_checks(settings)):
        try:
            check(settings)
        except LogosError as error:
            problems.append(str(error))
    return problems, doubts_about(settings)


def _place(settings: Settings) -> None:
    from logos.app.wiring import check_place

    check_place(settings)


def _prompt(settings: Settings) -> None:
    from logos.app.prompt import split_prompt
    from logos.app.run_start import given_prompt
    from logos.cli.run import refuse_template
    from logos.errors import PromptError

    given = given_prompt(settings)
    if given is None:
        raise PromptError("no prompt: neither prompt nor prompt_file is set; give one, or --prompt FILE when it runs")
    refuse_template(settings)
    split_prompt(given)


def _provider_checks(settings: Settings) -> list[Callable[[Settings], None]]:
    from logos.adapters.hosts.cao import check_provider
    from logos.app.hosts import known_providers

    known = known_providers(settings)

    def check_of(role: str, provider: str) -> Callable[[Settings], None]:
        return lambda _settings: check_provider(role, provider, known)

    return [check_of(role, own["provider"]) for role, own in settings.agent_config().items()]


def doubts_about(settings: Settings) -> list[str]:
    if not settings.project_test_cmd:
        return ["project_test_cmd is empty: no PASS can be verified by running the tests"]
    if not settings.verify_pass:
        return ["verify_pass is off: a tester's PASS is believed without running project_test_cmd"]
    return []
