"""`logos build`: build a feature through nine levels, or resume the unfinished build."""

import os
from pathlib import Path
from typing import Annotated

from typer import Context

from logos.app.diff import built_changes
from logos.app.hosts import simulate as simulated
from logos.app.runs import RunRecorder
from logos.app.setting_sources import load_settings
from logos.app.start import build_here, check_work_dir
from logos.app.workdir import default_config, wd_flag
from logos.cli import drive
from logos.cli.options import AsJson, WorkDir, argument, command, flag, value
from logos.cli.output import console as show
from logos.cli.output.live import view
from logos.domain.turns import Outcome
from logos.flows.levels.state import LevelsState
from logos.views.run import RunView


@command(
    'logos build "customers can pay by invoice"',
    'logos build "export as CSV" --levels 5-1 --max-parallel 8',
    'logos build "export as CSV" --detach         # in the background: it goes on when the terminal is closed',
    "logos build --resume --json                  # continue, and print the result for a script",
    'logos build "try it" --simulate script.yaml  # scripted agents instead of models',
)
def build(
    context: Context,
    words: Annotated[list[str] | None, argument("FEATURE", "What to build, in plain words; - reads stdin.")] = None,
    levels: Annotated[str, value("LEVELS", "The levels that take part: 9-1 (all), 5-1, L9,L5,L3-L1.")] = "",
    max_parallel: Annotated[int | None, value("N", "Authors working at the same time (default 4).")] = None,
    provider: drive.Provider = "",
    allow_dirty: Annotated[
        bool, flag("--allow-dirty", "Build on a snapshot of uncommitted changes; your files stay.")
    ] = False,
    known_failing: drive.KnownFailing = None,
    may_change: drive.MayChange = None,
    settings: drive.Overrides = None,
    resume: drive.Resume = False,
    fresh: drive.Fresh = False,
    reread: drive.Reread = False,
    simulate: drive.Simulate = None,
    detach: drive.Detach = False,
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
    flags += [f"provider={provider}"] if provider else []
    flags += [f"wd={wd}"] if wd is not None else []
    again = drive.repeated(flags, simulate)
    # A resume knows these from the log.
    flags += drive.proof_flags(known_failing, may_change)
    flags += drive.start_flags(resume=resume, fresh=fresh)
    if detach:
        place = load_settings(config or default_config(), os.environ, flags).work_dir
        return drive.detach(place, context, stdin=words == ["-"], as_json=as_json)
    feature = drive.read_stdin() if words == ["-"] else " ".join(words or []).strip()
    return run_levels(
        *(feature, config, flags, again),
        allow_dirty=allow_dirty,
        simulate=simulate,
        as_json=as_json,
        reread=reread,
    )


def run_levels(
    feature: str,
    config: Path | None,
    flags: list[str],
    again: list[str],
    *,
    simulate: Path | None,
    as_json: bool,
    allow_dirty: bool = False,
    known: RunView | None = None,
    reread: bool = False,
) -> int:
    """Build and report. `flags` are settings, `again` the options to repeat at a resume, `known` a loaded build."""
    if config is None and (config := default_config()) is not None:
        show.tell(f"using ./{config}")
    loaded = load_settings(config, os.environ, flags)
    drive.tell_environment(loaded, show.tell)
    check_work_dir(loaded)
    drive.refuse_second(loaded)
    ask = drive.is_attended() and not as_json
    settings, feature, known = drive.decide(loaded, feature, show.tell, ask=ask, known=known)
    place, recorder = settings.work_dir, RunRecorder(known)
    moved = ["--wd", str(place)] if place != loaded.work_dir else []
    file = [part for name in drive.named(config) for part in ("--config", name)]
    with view() as shown, drive.resume_hint(shown, settings, ["logos", "build", *file, *again, *moved]):
        host = simulated(simulate, "levels", shown.tell) if simulate else None
        watchers = [shown.watch, recorder.watch]
        result = build_here(
            *(settings, feature),
            allow_dirty=allow_dirty,
            make_host=host,
            watchers=watchers,
            tell=shown.tell,
            show_step=shown.show_step,
            known=known,
            reread=reread,
            waits_at_gates=drive.is_attended(),
        )
    ended, changed = recorder.view(place, result.run), built_changes(place, result.state)
    commands = _after_build(result.run, result.state, wd_flag(place))
    return drive.put_end(settings, ended, result.exit_code, changed, commands, as_json=as_json)


def _after_build(run: str, state: LevelsState, at: str) -> list[tuple[str, str]]:
    commands = [
        (state.outcome is Outcome.BLOCKED, f"logos resolve{at}", "the question, and how to answer it"),
        (bool(state.result), f"git diff {state.plan.base[:10]}..logos/{run}", "what was built"),
        (state.outcome is Outcome.PASSED, f"git merge logos/{run}", "merge it into your branch"),
        (state.outcome is Outcome.PASSED, f"logos proof {run}{at}", "what was proven, and how to repeat it"),
        (True, f"logos lineage {run}{at}", "from the purpose down to each file and its test"),
        (True, f"logos log {run}{at}", "every event of the build"),
    ]
    return [(command, why) for useful, command, why in commands if useful]
