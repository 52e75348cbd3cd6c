"""`logos run`, `logos build` and `logos resume`: drive a run with a live view, and report how it ended."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from typer import Option

from logos.app.diff import built_changes, changes
from logos.app.hosts import simulate as simulated
from logos.app.prompt import run_settings
from logos.app.runs import RunRecorder
from logos.app.settings import Settings, load_settings
from logos.app.start import build_here, check_work_dir, newest_unfinished, prepare_resume, run_here
from logos.app.workdir import default_config, wd_flag
from logos.cli.options import AsJson, OneRun, WorkDir, argument, command, command_group, flag, value
from logos.cli.output import console as show
from logos.cli.output.live import View, view
from logos.cli.output.unfinished import decide, present
from logos.domain.plans import CyclePlan
from logos.domain.roles import Role
from logos.domain.turns import Outcome
from logos.errors import BudgetReached, Interrupted, LimitReached, LogosError, PromptError, UsageError
from logos.flows.levels.state import LevelsState
from logos.views.document import result_document
from logos.views.document_shapes import ResultDocument
from logos.views.run import RunView
from logos.views.status import RunStatus

app = command_group()
Overrides = Annotated[
    list[str] | None, Option("--set", metavar="KEY=VALUE", help="Override a setting; `logos schema --keys` lists them.")
]
Simulate = Annotated[Path | None, value("SCRIPT", "Agents follow this YAML script; no agent CLI, no model.")]
Recreate = Annotated[bool, flag("--recreate", "On resume, open new terminals for agents whose terminals are gone.")]
RECREATE = "handoff.recreate_terminals=1"


@command(
    app,
    "logos run                                   # with ./logos.json, as `logos init` writes it",
    'logos run "add a --quiet flag" --test "make test"',
    "logos run team.json --prompt prompt.md --set limits.max_rounds=3",
    "logos run --resume --json                   # continue, and print the result for a script",
    "logos run --simulate script.yaml            # scripted agents instead of models, to try a configuration",
)
def run(
    words: Annotated[
        list[str] | None,
        argument("CONFIG|TEXT", "A JSON configuration (default: ./logos.json), then the task in plain words."),
    ] = None,
    prompt: Annotated[str, value("FILE", "A file with both parts of the prompt; - reads stdin.")] = "",
    test: Annotated[str, value("CMD", "The project's test command.")] = "",
    settings: Overrides = None,
    resume: Annotated[
        bool | None,
        Option(
            "--resume/--fresh", help="Resume the unfinished run, or start a new one. Default: resume if there is one."
        ),
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
    flags += [RECREATE] if recreate else []
    again = [*(("--test", test) if test else ()), *_repeated(settings or [], simulate)]
    return _run(words or [], prompt, flags, again, as_json=as_json, simulate=simulate)


def _run(
    words: list[str],
    prompt: str,
    flags: list[str],
    again: list[str],
    *,
    as_json: bool,
    simulate: Path | None,
    known: RunView | None = None,
) -> int:
    """Run and report. `flags` are settings, `again` the options to repeat at a resume, `known` a loaded run."""
    with view() as shown:
        make_host = simulated(simulate, "cycle", shown.tell) if simulate else None
        config, task = split_words(words)
        if config is None and (config := default_config()) is not None:
            shown.tell(f"using ./{config}")
        if prompt and task:
            raise UsageError(f"two prompts: --prompt {prompt} and the words {task[:40]!r}; give one")
        source = {"prompt": _read_stdin()} if prompt == "-" else {"prompt_file": prompt}
        settings = run_settings(config, os.environ, flags, task=task, **source)
        if settings.resume is not False:
            known = known or newest_unfinished(settings.work_dir, CyclePlan)
            present(settings.work_dir, known, shown.tell)
        recorder = RunRecorder(known)
        with _resume_hint(shown, settings, ["logos", "run", *_named(config), *again]):
            watchers = [shown.watch, recorder.watch]
            result = run_here(settings, make_host=make_host, watchers=watchers, tell=shown.tell, known=known)
    place, at = settings.work_dir, wd_flag(settings.work_dir)
    ended, changed = recorder.view(place, result.run), changes(place)
    last = ended.last_of(Role.TESTER) or (ended.turns[-1] if ended.turns else None)
    commands = [(f"logos log {ended.run}{at}", "every event of the run")]
    if last is not None:
        commands.append((f"logos show {ended.run} {last.turn}{at}", "one prompt and its response in full"))
    changed = ["\nUncommitted changes in the work dir:", *changed] if changed else []
    return _put_end(settings, ended, result.exit_code, changed, commands, as_json=as_json)


def split_words(words: list[str]) -> tuple[Path | None, str]:
    """The configuration, when the first word is one, and the task."""
    if not words or not (words[0].endswith(".json") or Path(words[0]).is_file()):
        return None, " ".join(words)
    config = Path(words[0])
    if config.suffix != ".json" and not _looks_like_json(config):
        raise UsageError(f"{config} is not a JSON configuration; if it is the prompt: logos run --prompt {config}")
    return config, " ".join(words[1:])


def _looks_like_json(path: Path) -> bool:
    try:
        return path.read_bytes()[:1000].decode("utf-8-sig", "replace").lstrip().startswith("{")
    except OSError:
        return True


@command(
    app,
    'logos build "customers can pay by invoice"',
    'logos build "export as CSV" --levels 5-1 --max-parallel 8',
    "logos build --resume --json                  # continue, and print the result for a script",
    'logos build "try it" --simulate script.yaml  # scripted agents instead of models',
)
def build(
    words: Annotated[list[str] | None, argument("FEATURE", "What to build, in plain words; - reads stdin.")] = None,
    levels: Annotated[str, value("LEVELS", "The levels that take part: 9-1 (all), 5-1, L9,L5,L3-L1.")] = "",
    max_parallel: Annotated[int | None, value("N", "Authors working at the same time (default 4).")] = None,
    allow_dirty: Annotated[
        bool, flag("--allow-dirty", "Build on a snapshot of uncommitted changes; your files stay.")
    ] = False,
    settings: Overrides = None,
    resume: Annotated[
        bool | None, Option("--resume/--fresh", help="Resume the unfinished build, or start a new one.")
    ] = None,
    simulate: Simulate = None,
    config: Annotated[Path | None, value("FILE", "A JSON configuration (default: ./logos.json).")] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Build a feature: specs flow down from purpose to code, validation flows up, conflicts are settled in between.

    Needs telos.toml (`logos init` writes one) and git: authors work in worktrees, and the result is a branch,
    logos/RUN. Your own branch and files are not changed.
    Exit codes: 0 PASS, 1 FAIL or error, 2 usage, 3 rejected or blocked on a question, 4 limit or budget reached.
    """
    flags = [*(settings or []), *([f"levels={levels}"] if levels else [])]
    flags += [f"build.max_parallel={max_parallel}"] if max_parallel is not None else []
    flags += [f"wd={wd}"] if wd is not None else []
    again = _repeated(flags, simulate)
    flags += [] if resume is None else [f"resume={int(resume)}"]
    feature = _read_stdin() if words == ["-"] else " ".join(words or []).strip()
    return _build(feature, config, flags, again, allow_dirty=allow_dirty, simulate=simulate, as_json=as_json)


def _build(
    feature: str,
    config: Path | None,
    flags: list[str],
    again: list[str],
    *,
    simulate: Path | None,
    as_json: bool,
    allow_dirty: bool = False,
    known: RunView | None = None,
) -> int:
    """Build and report. `flags` are settings, `again` the options to repeat at a resume, `known` a loaded build."""
    if config is None and (config := default_config()) is not None:
        show.tell(f"using ./{config}")
    loaded = load_settings(config, os.environ, flags)
    check_work_dir(loaded)
    ask = sys.stdin.isatty() and sys.stderr.isatty() and not as_json
    settings, feature, known = decide(loaded, feature, show.tell, ask=ask, known=known)
    place, recorder = settings.work_dir, RunRecorder(known)
    moved = ["--wd", str(place)] if place != loaded.work_dir else []
    file = [part for name in _named(config) for part in ("--config", name)]
    with view() as shown, _resume_hint(shown, settings, ["logos", "build", *file, *again, *moved]):
        result = build_here(
            settings,
            feature,
            allow_dirty=allow_dirty,
            make_host=simulated(simulate, "levels", shown.tell) if simulate else None,
            watchers=[shown.watch, recorder.watch],
            tell=shown.tell,
            known=known,
        )
    ended, changed = recorder.view(place, result.run), built_changes(place, result.state)
    commands = _after_build(result.run, result.state, wd_flag(place))
    return _put_end(settings, ended, result.exit_code, changed, commands, as_json=as_json)


def _after_build(run: str, state: LevelsState, at: str) -> list[tuple[str, str]]:
    question = [(f"logos resolve{at}", "the question, and how to answer it")]
    diff = [(f"git diff {state.plan.base[:10]}..logos/{run}", "what was built")]
    merge = [(f"git merge logos/{run}", "merge it into your branch")]
    return [
        *(question if state.outcome is Outcome.BLOCKED else []),
        *(diff if state.result else []),
        *(merge if state.outcome is Outcome.PASSED else []),
        (f"logos lineage {run}{at}", "from the purpose down to each file and its test"),
        (f"logos log {run}{at}", "every event of the build"),
    ]


@command(
    app,
    "logos resume                         # the newest unfinished run here, a cycle or a build",
    "logos resume k3ab                    # this one, also where it is a fork in another worktree",
    "logos resume --recreate              # after a reboot: new terminals, and every agent gets what it said before",
)
def resume(
    run_id: OneRun = None,
    recreate: Recreate = False,
    settings: Overrides = None,
    simulate: Simulate = None,
    config: Annotated[Path | None, value("FILE", "A JSON configuration (default: logos.json there).")] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Continue an unfinished run where it stopped; finished turns are not asked again.

    Exit codes are those of `logos run` and `logos build`.
    """
    overrides = [*(settings or []), *([RECREATE] if recreate else [])]
    prepared = prepare_resume(run_id, overrides=overrides, config=config, wd=wd)
    known, config, flags = prepared.view, prepared.config, [*prepared.overrides, "resume=1"]
    again = _repeated(prepared.overrides, simulate)
    if known.build is not None:
        return _build("", config, flags, again, simulate=simulate, as_json=as_json, known=known)
    words = [str(config)] if config is not None else []
    return _run(words, "", flags, again, simulate=simulate, as_json=as_json, known=known)


def _repeated(settings: Sequence[str], simulate: Path | None) -> list[str]:
    """The options that a command to resume must repeat."""
    options = [part for setting in settings for part in ("--set", setting)]
    return [*options, *(("--simulate", str(simulate)) if simulate else ())]


def _read_stdin() -> str:
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PromptError("the prompt on stdin is not UTF-8 text") from error
    if not text.strip():
        raise PromptError("the prompt on stdin is empty")
    return text


def _named(config: Path | None) -> list[str]:
    """The configuration as a command must name it; ./logos.json is found without."""
    return [] if config is None or config == default_config() else [str(config)]


@contextmanager
def _resume_hint(view: View, settings: Settings, command: Sequence[str]) -> Generator[None]:
    """Add to an error that stops a run how to resume it: with `command`, its `logos run` or `logos build`."""
    try:
        yield
    except (LogosError, Interrupted) as error:
        if view.run is not None and not isinstance(error, UsageError):
            error.add_note(_hint(f"{command[1]} {view.run}", error, settings, list(command)))
        raise


def _hint(name: str, error: LogosError | Interrupted, settings: Settings, command: list[str]) -> str:
    resume = shlex.join([*command, "--resume"])
    # A build opens terminals as it needs them; a run of the cycle needs those it had.
    if settings.cleanup_on_exit and name.startswith("run "):
        new = "resume it with new ones, which are told what the old ones said"
        return f"{name} ended its terminals (cleanup_on_exit); {new}: {resume} --recreate"
    if isinstance(error, BudgetReached):
        return f"{name} can be resumed with more: {shlex.join(_with_double_budget(command, error))} --resume"
    if isinstance(error, LimitReached):
        wait = "" if settings.handoff.on_limit == "wait" else "; --set handoff.on_limit=wait waits for that by itself"
        return f"{name} can be resumed when the limit has ended: {resume}{wait}"
    return f"{name} can be resumed: {resume}"


def _with_double_budget(command: list[str], error: BudgetReached) -> list[str]:
    """The command with twice the budget, and without an earlier `--set` of the same key."""
    names = (error.key, error.key.removeprefix("limits.").upper())
    kept: list[str] = []
    for word in command:
        if word.partition("=")[0].strip() in names and kept[-1] == "--set":
            kept.pop()
        else:
            kept.append(word)
    return [*kept, "--set", f"{error.key}={error.limit * 2}"]


def ended_document(settings: Settings, view: RunView, exit_code: int) -> ResultDocument:
    state_file = settings.state_path if view.build is None else settings.paths.build_state
    return result_document(RunStatus(settings.work_dir, view, None), str(state_file), exit_code)


def _put_end(
    settings: Settings,
    view: RunView,
    exit_code: int,
    changed: Sequence[str],
    next_commands: Sequence[tuple[str, str]],
    *,
    as_json: bool,
) -> int:
    """The end of a run: its outcome, what changed, where to look next. Returns the exit code."""
    target = show.console(stderr=as_json)
    show.put_summary(target, view)
    for line in changed:
        show.put(target, line)
    show.put_next(target, next_commands)
    if as_json:
        show.document(ended_document(settings, view, exit_code))
    return exit_code
