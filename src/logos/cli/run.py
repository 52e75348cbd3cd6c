"""`logos run`: start a run, or go on with the unfinished one."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logos.app.workdir import default_config, wd_flag
from logos.cli.options import AsJson, Overrides, Recreate, Simulate, examples
from logos.errors import BudgetReached, Interrupted, LimitReached, LogosError, PromptError, UsageError
from logos.views.status import BUDGET

if TYPE_CHECKING:
    from rich.console import Console

    from logos.app.hosts import MakeHost
    from logos.app.settings import Settings
    from logos.engine.runner import RunResult
    from logos.flows.cycle.flow import CycleState
    from logos.views.run import RunView

EXAMPLES = examples(
    "logos run                                   # with ./logos.json, as `logos init` writes it",
    'logos run "add a --quiet flag" --test "make test"',
    "logos run team.json --prompt prompt.md --set limits.max_rounds=3",
    "logos run --resume --json                   # go on, and print the result for a script",
    "logos run --simulate script.yaml            # scripted agents instead of models, to try a configuration",
)


def run(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CONFIG|TEXT",
            help="A JSON configuration (default: ./logos.json), then what is to be done, in plain words.",
        ),
    ] = None,
    prompt: Annotated[
        str, typer.Option("--prompt", metavar="FILE", help="A file with the prompt, both parts; - reads stdin.")
    ] = "",
    test: Annotated[str, typer.Option("--test", metavar="CMD", help="The project's test command.")] = "",
    settings: Overrides = None,
    resume: Annotated[
        bool | None,
        typer.Option("--resume/--fresh", help="Go on with the unfinished run, or start anew. Default: what is there."),
    ] = None,
    recreate: Recreate = False,
    simulate: Simulate = None,
    as_json: AsJson = False,
) -> int:
    """Run the cycle: analyst, peer analyst, programmer, peer programmer, tester, until the tests pass.

    A flag wins over the environment, that over the configuration file, that over the defaults.
    Exit codes: 0 PASS, 1 FAIL or error, 2 usage, 3 blocked, 4 limit or budget reached, 130 and 143 stopped by a signal.
    """
    flags = [*(settings or []), *([f"project_test_cmd={test}"] if test else [])]
    flags += [] if resume is None else [f"resume={int(resume)}"]
    flags += ["handoff.recreate_terminals=1"] if recreate else []
    again = [*(("--test", test) if test else ()), *(part for own in settings or () for part in ("--set", own))]
    again += ("--simulate", str(simulate)) if simulate else ()
    return start(words or [], prompt, flags, again, as_json=as_json, simulate=simulate)


def start(
    words: list[str],
    prompt: str,
    flags: list[str],
    again: list[str],
    *,
    as_json: bool,
    simulate: Path | None = None,
) -> int:
    """`flags` are settings, `again` the options that a resume must repeat."""
    from logos.app.unfinished import present, unfinished_of
    from logos.app.wiring import run_here
    from logos.cli.output.live import view
    from logos.domain.plans import CyclePlan

    with view() as shown:
        make_host = simulated(simulate, shown.tell, "cycle") if simulate else None
        config, text = split_words(words)
        if config is None and (config := default_config()) is not None:
            shown.tell(f"using ./{config}")
        chosen = settle(config, flags, prompt, text)
        if chosen.resume is not False:
            present(unfinished_of(chosen.work_dir, CyclePlan), shown.tell)
        try:
            ended = run_here(chosen, strict_prompt=True, make_host=make_host, watchers=[shown.watch], tell=shown.tell)
        except (LogosError, Interrupted) as error:
            if shown.run is not None and not isinstance(error, UsageError):
                error.add_note(how_to_go_on(shown.run, error, chosen, command_again(config, again)))
            raise
    report(chosen, ended, as_json=as_json)
    return ended.exit_code


def simulated(script: Path, tell: Callable[[str], None], flow: str) -> MakeHost:
    """Hosts whose agents follow this script, which is read before anything starts."""
    from logos.adapters.hosts.script import load_script
    from logos.app.hosts import scripted_host

    read = load_script(script)
    if read.flow not in (None, flow):
        command = {"cycle": "logos run", "levels": "logos build"}
        raise UsageError(f"{script} is a script for `{command[read.flow]}`, not for `{command[flow]}`")
    tell(f"simulation: the agents follow {script}; no agent CLI is started and no model asked")
    return scripted_host(read)


def split_words(words: list[str]) -> tuple[Path | None, str]:
    """The configuration, when the first word is one, and what is to be done."""
    if not words or not (words[0].endswith(".json") or Path(words[0]).is_file()):
        return None, " ".join(words)
    config = Path(words[0])
    if config.suffix != ".json" and not _looks_like_json(config):
        raise UsageError(f"{config} is no JSON configuration; if it is the prompt: logos run --prompt {config}")
    return config, " ".join(words[1:])


def _looks_like_json(path: Path) -> bool:
    try:
        return path.read_bytes()[:1000].decode("utf-8-sig", "replace").lstrip().startswith("{")
    except OSError:
        return True


def settle(config: Path | None, flags: list[str], prompt: str, text: str) -> Settings:
    """The settings of this run, with the prompt a person gave on the command line in them."""
    from logos.app.prompt import prompt_from_words
    from logos.app.settings import load_settings

    if prompt and text:
        raise UsageError(f"two prompts: --prompt {prompt} and the words {text[:40]!r}; give one")
    settings = load_settings(config, os.environ, flags)
    if text:
        words = prompt_from_words(text, settings.project_test_cmd)
        settings = load_settings(config, os.environ, [*flags, "prompt_file=", f"prompt={words}"])
    elif prompt == "-":
        settings = load_settings(config, os.environ, [*flags, "prompt_file=", f"prompt={read_stdin()}"])
    elif prompt:
        settings = load_settings(config, os.environ, [*flags, f"prompt_file={prompt}"])
    if settings.resume is not True:
        refuse_template(settings)
    return settings


def refuse_template(settings: Settings) -> None:
    """The prompt that `logos init` writes says nothing yet; agents would work on it for hours."""
    from logos.app.prompt import TEMPLATE
    from logos.app.run_start import given_prompt

    if (given_prompt(settings) or "").strip() == TEMPLATE.strip():
        what = settings.prompt_file or "the prompt"
        raise PromptError(f"{what} is still the template of `logos init`: write in it what is to be done")


def read_stdin() -> str:
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PromptError("the prompt on stdin is not UTF-8 text") from error
    if not text.strip():
        raise PromptError("the prompt on stdin is empty")
    return text


def command_again(config: Path | None, options: list[str]) -> list[str]:
    """The same settings again; the prompt is the run's own."""
    given = [] if config is None or config == default_config() else [str(config)]
    return ["logos", "run", *given, *options]


def how_to_go_on(run: str, error: LogosError | Interrupted, settings: Settings, command: list[str]) -> str:
    if settings.cleanup_on_exit:
        new = "new agents are told what the old ones said"
        return f"run {run} ended its terminals (cleanup_on_exit); {new}: {shlex.join(command)} --resume --recreate"
    budget = BUDGET.match(str(error)) if isinstance(error, BudgetReached) else None
    if budget is not None:
        return f"run {run} can be resumed with more: {shlex.join(raised(command, budget[1], settings))} --resume"
    again = f"{shlex.join(command)} --resume"
    if isinstance(error, LimitReached):
        wait = "" if settings.handoff.on_limit == "wait" else "; --set handoff.on_limit=wait waits for that by itself"
        return f"run {run} can be resumed when the limit has ended: {again}{wait}"
    return f"run {run} can be resumed: {again}"


def raised(command: list[str], key: str, settings: Settings) -> list[str]:
    """The command with twice the budget; an older word on it would be repeated and stop the run at once."""
    name = key.removeprefix("limits.")
    kept: list[str] = []
    for word in command:
        if word.partition("=")[0].strip() in (key, name.upper()) and kept[-1] == "--set":
            kept.pop()
        else:
            kept.append(word)
    return [*kept, "--set", f"{key}={getattr(settings.limits, name) * 2}"]


def report(settings: Settings, ended: RunResult[CycleState], *, as_json: bool) -> None:
    """The end of a run: what came of it, what changed, where to look next."""
    from logos.app.runs import load_run
    from logos.app.workdir import reading
    from logos.cli.output import console as show
    from logos.views.document import result_document
    from logos.views.status import RunStatus

    place = settings.work_dir
    with reading(place) as log:
        story = load_run(log, ended.run)
    put_report(show.console(stderr=as_json), story, place)
    if as_json:
        show.document(result_document(RunStatus(place, story, None), str(settings.state_path), ended.exit_code))


def put_report(target: Console, story: RunView, place: Path) -> None:
    from logos.app.changes import changes
    from logos.cli.output import console as show

    show.put_summary(target, story)
    changed = changes(place)
    if changed:
        show.put(target, "\nUncommitted changes in the work dir:", "bold")
        for line in changed:
            show.put(target, line)
    show.put_next(target, where_next(story, place))


def where_next(story: RunView, place: Path) -> list[tuple[str, str]]:
    from logos.domain.roles import Role

    at = wd_flag(place)
    telling = story.last_of(Role.TESTER) or (story.turns[-1] if story.turns else None)
    look = [(f"logos log {story.run}{at}", "every event of the run")]
    if telling is not None:
        look.append((f"logos show {story.run} {telling.turn}{at}", "one prompt and its response, whole"))
    return look
