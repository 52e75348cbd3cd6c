"""The prompt of a run: an explore summary and a scenario test, each under a header line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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


def read_prompt_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise PromptError(f"cannot read the prompt {path}: it is not UTF-8 text") from error
    except OSError as error:
        raise PromptError(f"cannot read the prompt {path}: {error.strerror}") from error
