"""The prompt of a run: an explore summary and a scenario test, each under a header line; and settings with one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from logos.adapters.files import read_input
from logos.app.setting_sources import load_settings
from logos.app.settings import Settings, home_of
from logos.errors import PromptError

EXPLORE_HEADER = "*** ORIGINAL EXPLORE SUMMARY ***"
SCENARIO_HEADER = "*** SCENARIO TEST ***"

TEMPLATE = f"""{EXPLORE_HEADER}
What is there today, what is missing, and where in the code it belongs.
Write here what the analyst needs to know.

{SCENARIO_HEADER}
The steps the tester carries out, and for each the result that must be observed.
"""


@dataclass(frozen=True, slots=True)
class Prompt:
    whole: str
    explore: str
    scenario_test: str


def split_prompt(text: str) -> Prompt:
    """Both parts of a prompt; PromptError names the part that is missing."""
    parts: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.splitlines():
        header = line.strip()
        if header in (EXPLORE_HEADER, SCENARIO_HEADER):
            if header in parts:
                raise PromptError(f"the prompt has the line `{header}` twice")
            current = parts.setdefault(header, [])
        elif current is not None:
            current.append(line)
    for header in (EXPLORE_HEADER, SCENARIO_HEADER):
        if header not in parts:
            raise PromptError(f"the prompt has no line `{header}`; `logos init` writes a template")
        if not any(line.strip() for line in parts[header]):
            raise PromptError(f"the prompt has nothing under `{header}`")
    explore, scenario = ("\n".join(parts[h]).strip() for h in (EXPLORE_HEADER, SCENARIO_HEADER))
    return Prompt(text, explore, scenario)


def prompt_from_words(words: str, test_command: str) -> str:
    """A prompt from plain words: the test command becomes the scenario test."""
    if not test_command:
        raise PromptError(
            "plain text needs a test command: give --test CMD (or project_test_cmd), or a prompt file with "
            f"`{EXPLORE_HEADER}` and `{SCENARIO_HEADER}`"
        )
    return (
        f"{EXPLORE_HEADER}\n{words.strip()}\n\n{SCENARIO_HEADER}\n"
        f"Run `{test_command}` in the work directory. Expected: it exits with 0.\n"
    )


def given_prompt(settings: Settings) -> str | None:
    """The prompt in the settings, if any; a file wins over a text."""
    if settings.prompt_file:
        return read_input(home_of("prompt_file", settings.prompt_file), "the prompt", PromptError)
    return settings.prompt or None


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

    `task` is plain text, which needs a test command; so may be `prompt` and the file, or have both parts of a prompt.
    """
    settings = load_settings(config, env, overrides)
    if task:
        prompt = prompt_from_words(task, settings.project_test_cmd)
    given = ["prompt_file=", f"prompt={prompt}"] if prompt else [f"prompt_file={prompt_file}"] if prompt_file else []
    settings = load_settings(config, env, [*overrides, *given]) if given else settings
    words = given_prompt(settings) or ""
    if words.strip() and not any(line.strip() in (EXPLORE_HEADER, SCENARIO_HEADER) for line in words.splitlines()):
        given = ["prompt_file=", f"prompt={prompt_from_words(words, settings.project_test_cmd)}"]
        settings = load_settings(config, env, [*overrides, *given])
    if settings.resume is not True:
        refuse_template(settings)
    return settings


def refuse_template(settings: Settings) -> None:
    """Refuse the unedited template of `logos init`: agents would work on it for hours."""
    if (given_prompt(settings) or "").strip() == TEMPLATE.strip():
        name = settings.prompt_file or "the prompt"
        raise PromptError(f"{name} is still the template of `logos init`: describe the task in it")
