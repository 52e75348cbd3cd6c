"""`logos run`: run the cycle, or resume the unfinished run."""

import os
import shlex
from pathlib import Path
from typing import Annotated

from typer import Context

from logos.app.diff import Diff, changes, run_changes
from logos.app.environments import read_beginning
from logos.app.hosts import simulate as simulated
from logos.app.prompt import run_settings
from logos.app.runs import RunRecorder
from logos.app.setting_sources import load_settings
from logos.app.settings import Settings
from logos.app.start import newest_unfinished, run_here
from logos.app.workdir import default_config, wd_flag
from logos.cli import drive
from logos.cli.options import AsJson, WorkDir, argument, command, flag, value
from logos.cli.output.live import view
from logos.domain.plans import CyclePlan
from logos.domain.roles import Role
from logos.domain.turns import Outcome
from logos.errors import UsageError
from logos.views.run import RunView

# So many changed files are listed at the end of a run, and so many are named in a command.
MOST_FILES = 12
MOST_NAMED = 4
WORDS = "A JSON configuration (default: ./logos.json), then the task in plain words."


@command(
    "logos run                                   # with ./logos.json, as `logos init` writes it",
    'logos run "add a --quiet flag" --test "make test"',
    "logos run team.json --prompt prompt.md --set limits.max_rounds=3",
    "logos run --resume --json                   # continue, and print the result for a script",
    "logos run --detach                          # in the background: it goes on when the terminal is closed",
    "logos run --simulate script.yaml            # scripted agents instead of models, to try a configuration",
)
def run(
    context: Context,
    words: Annotated[list[str] | None, argument("CONFIG|TEXT", WORDS)] = None,
    prompt: Annotated[str, value("FILE", "A file with the prompt: both parts, or plain words; - reads stdin.")] = "",
    test: Annotated[str, value("CMD", "The project's test command.")] = "",
    provider: drive.Provider = "",
    no_change_expected: Annotated[bool, flag("--no-change-expected", "Accept a PASS without a changed file.")] = False,
    known_failing: drive.KnownFailing = None,
    may_change: drive.MayChange = None,
    blind: drive.Blind = False,
    settings: drive.Overrides = None,
    resume: drive.Resume = False,
    fresh: drive.Fresh = False,
    recreate: drive.Recreate = False,
    reread: drive.Reread = False,
    from_state: drive.FromState = False,
    simulate: drive.Simulate = None,
    detach: drive.Detach = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Run the cycle: analyst, peer analyst, programmer, peer programmer, tester, until the tests pass.

    A flag wins over the environment, that over the configuration file, that over the defaults.
    Exit codes: 0 PASS, 1 FAIL or error, 2 usage, 3 blocked, 4 limit or budget reached, 130 and 143 stopped by a signal.
    """
    flags = [*(settings or []), *([f"project_test_cmd={test}"] if test else [])]
    flags += ["expect_change=0"] if no_change_expected else []
    flags += [*drive.proof_flags(known_failing, may_change), *(["proof.blind=1"] if blind else [])]
    flags += [*([f"provider={provider}"] if provider else []), *([f"wd={wd}"] if wd else [])]
    flags += drive.start_flags(resume=resume, fresh=fresh)
    flags += [drive.RECREATE] if recreate else []
    again = [
        *(("--test", test) if test else ()),
        *(("--wd", str(wd)) if wd else ()),
        *drive.repeated(settings or [], simulate),
    ]
    ways = drive.Ways(reread=reread, from_state=from_state)
    if detach:
        place = load_settings(split_words(words or [])[0] or default_config(), os.environ, flags).work_dir
        return drive.detach(place, context, stdin=prompt == "-", as_json=as_json)
    return run_cycle(words or [], prompt, flags, again, as_json=as_json, simulate=simulate, ways=ways)


def run_cycle(
    words: list[str],
    prompt: str,
    flags: list[str],
    again: list[str],
    *,
    as_json: bool,
    simulate: Path | None,
    known: RunView | None = None,
    ways: drive.Ways,
) -> int:
    """Run and report. `flags` are settings, `again` the options to repeat at a resume, `known` a loaded run."""
    with view() as shown:
        make_host = simulated(simulate, "cycle", shown.tell) if simulate else None
        config, task = split_words(words)
        if config is None and (config := default_config()) is not None:
            shown.tell(f"using ./{config}")
        if prompt and task:
            raise UsageError(f"two prompts: --prompt {prompt} and the words {task[:40]!r}; give one")
        source = {"prompt": drive.read_stdin()} if prompt == "-" else {"prompt_file": prompt}
        settings = run_settings(config, os.environ, flags, task=task, **source)
        drive.tell_environment(settings, shown.tell)
        drive.refuse_second(settings)
        if settings.resume is not False:
            known = known or newest_unfinished(settings.work_dir, CyclePlan)
            drive.present(settings.work_dir, known, shown.tell)
        recorder = RunRecorder(known)
        with drive.resume_hint(shown, settings, ["logos", "run", *drive.named(config), *again]):
            watchers = [shown.watch, recorder.watch]
            result = run_here(
                settings,
                make_host=make_host,
                watchers=watchers,
                tell=shown.tell,
                show_step=shown.show_step,
                known=known,
                from_state=ways.from_state,
                reread=ways.reread,
                waits_at_gates=drive.is_attended(),
            )
    place, at = settings.work_dir, wd_flag(settings.work_dir)
    ended = recorder.view(place, result.run)
    changed = run_changes(place, ended)
    last = ended.last_of(Role.TESTER) or (ended.turns[-1] if ended.turns else None)
    commands = [
        *after_changes(settings, ended, changed),
        *([(f"logos proof {ended.run}{at}", "what was proven, and how to repeat it")] if ended.state.verified else []),
        (f"logos log {ended.run}{at}", "every event of the run"),
    ]
    if last is not None:
        commands.append((f"logos show {ended.run} {last.turn}{at}", "one prompt and its response in full"))
    return drive.put_end(settings, ended, result.exit_code, changed_in_words(changed), commands, as_json=as_json)


def changed_in_words(changed: Diff) -> list[str]:
    """What a run has changed, a line for each file; the person's own changes of before are not among it."""
    if changed.missing:
        why = changed.missing[0].why_not_kept
        return ["", f"what the run changed is not known: {why}", *(f" {line}" for line in changes(changed.one.place))]
    lines = changed.stat()
    if len(lines) > MOST_FILES + 1:
        lines = [*lines[:MOST_FILES], f" … and {len(lines) - 1 - MOST_FILES} more files", lines[-1]]
    return ["\nWhat the run changed:", *lines] if lines else ["\nThe run changed no file."]


def after_changes(settings: Settings, ended: RunView, changed: Diff) -> list[tuple[str, str]]:
    """The commands that show, keep and undo what a run has changed; none where it changed nothing."""
    files = [] if changed.missing else changed.files()
    if not files:
        return []
    place, at = settings.work_dir, wd_flag(settings.work_dir)
    git = "git" if place == Path.cwd() else f"git -C {shlex.quote(str(place))}"
    # Paths begin at the top of the repository.
    few = len(files) <= MOST_NAMED and (place / ".git").exists()
    names = shlex.join(file.path for file in files) if few else "--all ."
    undo = f"{ended.run}@{changed.one.seq}"
    return [
        (f"logos diff {ended.run}{at}", "the changes as a patch"),
        *([(f"{git} add {names} && {git} commit", "take them over")] if ended.outcome is Outcome.PASSED else []),
        (f"logos rollback {undo}{at}", "undo them: the files as they were when the run started"),
    ]


def split_words(words: list[str]) -> tuple[Path | None, str]:
    """The configuration, when the first word is one, and the task."""
    names_a_file = bool(words) and (words[0].endswith(".json") and not any(map(str.isspace, words[0])))
    if not words or not (names_a_file or Path(words[0]).is_file()):
        return None, " ".join(words)
    config = Path(words[0])
    begins = read_beginning(config, 1000)
    # What cannot be read is reported when it is loaded.
    if begins is not None and config.suffix != ".json" and not begins.lstrip("\ufeff \t\r\n").startswith("{"):
        raise UsageError(f"{config} is not a JSON configuration; if it is the prompt: logos run --prompt {config}")
    return config, " ".join(words[1:])
