"""`logos build`: the nine levels at work on a feature, from purpose to syntax and back."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logos.app.workdir import default_config, reading, wd_flag
from logos.cli.options import AsJson, Overrides, Simulate, WorkDir, examples
from logos.cli.run import simulated
from logos.errors import Interrupted, LogosError, UsageError

if TYPE_CHECKING:
    from logos.app.settings import Settings
    from logos.engine.runner import RunResult
    from logos.flows.levels.state import LevelsState

EXAMPLES = examples(
    'logos build "customers can pay by invoice"',
    'logos build "export as CSV" --levels 5-1 --max-parallel 8',
    "logos build --resume --json                  # go on, and print the result for a script",
    'logos build "try it" --simulate script.yaml  # scripted agents instead of models',
)


def build(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="FEATURE", help="What is to be built, in plain words; - reads stdin.")
    ] = None,
    levels: Annotated[
        str, typer.Option("--levels", metavar="LEVELS", help="The levels that take part: 9-1 (all), 5-1, L9,L5,L3-L1.")
    ] = "",
    max_parallel: Annotated[
        int | None, typer.Option("--max-parallel", metavar="N", help="Authors at work at the same time (default 4).")
    ] = None,
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="Build on a snapshot of uncommitted changes; your files stay.")
    ] = False,
    settings: Overrides = None,
    resume: Annotated[
        bool | None,
        typer.Option("--resume/--fresh", help="Go on with the unfinished build, or begin anew."),
    ] = None,
    simulate: Simulate = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A JSON configuration (default: ./logos.json).")
    ] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Build a feature: specs flow down from purpose to code, validation flows up, conflicts are settled in between.

    Needs telos.toml (`logos init` writes one) and git: authors work in worktrees, and what is built is a branch,
    logos/RUN. Your own branch and files are not touched.
    Exit codes: 0 PASS, 1 FAIL or error, 2 usage, 3 rejected or waiting for your decision, 4 limit or budget reached.
    """
    flags = [*(settings or []), *([f"levels={levels}"] if levels else [])]
    flags += [f"build.max_parallel={max_parallel}"] if max_parallel is not None else []
    flags += [f"wd={wd}"] if wd is not None else []
    again = [part for own in flags for part in ("--set", own)] + (["--simulate", str(simulate)] if simulate else [])
    flags += [] if resume is None else [f"resume={int(resume)}"]
    return start(
        _feature(words or []), config, flags, again, allow_dirty=allow_dirty, simulate=simulate, as_json=as_json
    )


def _feature(words: list[str]) -> str:
    from logos.cli.run import read_stdin

    return read_stdin() if words == ["-"] else " ".join(words).strip()


def start(
    feature: str,
    config: Path | None,
    flags: list[str],
    again: list[str],
    *,
    allow_dirty: bool,
    simulate: Path | None,
    as_json: bool,
) -> int:
    """`flags` are settings, `again` the options that a resume must repeat."""
    from logos.app.settings import load_settings
    from logos.app.unfinished import decide
    from logos.app.wiring import build_here, check_place
    from logos.cli.output.console import tell
    from logos.cli.output.live import view

    if config is None and (config := default_config()) is not None:
        tell(f"using ./{config}")
    chosen = load_settings(config, os.environ, flags)
    check_place(chosen)
    ask = sys.stdin.isatty() and sys.stderr.isatty() and not as_json
    asked = chosen.work_dir
    chosen, feature = decide(chosen, feature, tell, ask=ask)
    with view() as shown:
        make_host = simulated(simulate, shown.tell, "levels") if simulate else None
        try:
            ended = build_here(
                chosen,
                feature,
                allow_dirty=allow_dirty,
                make_host=make_host,
                watchers=[shown.watch],
                tell=shown.tell,
            )
        except (LogosError, Interrupted) as error:
            if shown.run is not None and not isinstance(error, UsageError):
                given = [] if config is None or config == default_config() else ["--config", str(config)]
                moved = ["--wd", str(chosen.work_dir)] if chosen.work_dir != asked else []
                command = shlex.join(["logos", "build", *given, *again, *moved, "--resume"])
                error.add_note(f"build {shown.run} can be resumed: {command}")
            raise
    report(chosen, ended, as_json=as_json)
    return ended.exit_code


def report(settings: Settings, ended: RunResult[LevelsState], *, as_json: bool) -> None:
    """The end of a build: what came of it, what changed, where to look next."""
    from logos.adapters.git.workspace import diff_stat
    from logos.app.runs import load_run
    from logos.app.state_files import BUILD_STATE_FILE as STATE_FILE
    from logos.cli.output import console as show
    from logos.views.document import result_document
    from logos.views.status import RunStatus

    place, state = settings.work_dir, ended.state
    with reading(place) as log:
        story = load_run(log, ended.run)
    target = show.console(stderr=as_json)
    show.put_summary(target, story)
    result = state.result
    changed = diff_stat(place, state.plan.base, result) if result else []
    if changed:
        for line in changed:
            show.put(target, line)
    show.put_next(target, where_next(ended, place))
    if as_json:
        state_file = str(settings.telos_dir / STATE_FILE)
        show.document(result_document(RunStatus(place, story, None), state_file, ended.exit_code))


def where_next(ended: RunResult[LevelsState], place: Path) -> list[tuple[str, str]]:
    from logos.domain.turns import Outcome

    at, state = wd_flag(place), ended.state
    look: list[tuple[str, str]] = []
    if state.outcome is Outcome.BLOCKED:
        look.append((f"logos resolve{at}", "the question, and how to answer it"))
    if state.result:
        look.append((f"git diff {state.plan.base[:10]}..logos/{ended.run}", "what was built"))
    if state.outcome is Outcome.PASSED:
        look.append((f"git merge logos/{ended.run}", "take it into your branch"))
    look += [
        (f"logos lineage {ended.run}{at}", "from the purpose down to each file and its test"),
        (f"logos log {ended.run}{at}", "every event of the build"),
    ]
    return look
