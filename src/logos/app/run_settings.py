"""The settings of a run of the cycle, with the prompt that was given for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from logos.app.prompt import TEMPLATE, prompt_from_words
from logos.app.run_start import given_prompt
from logos.app.settings import Settings, load_settings
from logos.errors import PromptError


def run_settings(
    config: Path | None = None,
    env: Mapping[str, str] = MappingProxyType({}),
    overrides: Sequence[str] = (),
    *,
    task: str = "",
    prompt: str = "",
    prompt_file: str = "",
) -> Settings:
    """Load the settings and put a prompt into them. Give at most one of the last three.

    `task` is plain text, which needs a test command; `prompt` and `prompt_file` have both parts of a prompt.
    """
    settings = load_settings(config, env, overrides)
    if task:
        prompt = prompt_from_words(task, settings.project_test_cmd)
    given = ["prompt_file=", f"prompt={prompt}"] if prompt else [f"prompt_file={prompt_file}"] if prompt_file else []
    settings = load_settings(config, env, [*overrides, *given]) if given else settings
    if settings.resume is not True:
        refuse_template(settings)
    return settings


def refuse_template(settings: Settings) -> None:
    """Refuse the unedited template of `logos init`: agents would work on it for hours."""
    if (given_prompt(settings) or "").strip() == TEMPLATE.strip():
        name = settings.prompt_file or "the prompt"
        raise PromptError(f"{name} is still the template of `logos init`: describe the task in it")
