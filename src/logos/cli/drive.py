"""What `logos run`, `build` and `resume` share: their options, what to do with an unfinished run, how a run ends."""

import os
import shlex
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Context, Option

from logos.app.certificate import missing_proof
from logos.app.checkpoints import checkpoint_at
from logos.app.detach import start_detached
from logos.app.environment_notes import common_names, unknown_names
from logos.app.rollback import fork_at
from logos.app.run_start import blocked
from logos.app.settings import Settings
from logos.app.start import newest_unfinished
from logos.app.trust import head_of_run
from logos.app.workdir import Tell, default_config, driver_at, has_log, place_above, wd_flag
from logos.cli.completion import known_settings
from logos.cli.options import flag, value
from logos.cli.output import console as show
from logos.cli.output.live import View
from logos.domain.plans import CyclePlan, LevelsPlan
from logos.errors import (
    BudgetReached,
    Interrupted,
    LimitReached,
    LogosError,
    PersonNeeded,
    PromptError,
    StateError,
    UsageError,
)
from logos.views.document import RunDocument
from logos.views.events import Severity
from logos.views.proof import certificate_of
from logos.views.redact import one_line
from logos.views.run import RunView
from logos.views.status import BUDGET, RunStatus
from logos.views.text import count, date, duration, listed
from logos.views.usage import sum_in_words

Overrides = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a setting; `logos schema --keys` lists them.",
        autocompletion=known_settings,
    ),
]
_PROGRAMS = "codex, claude, opencode, gemini, qwen, copilot, kimi, goose"
Provider = Annotated[str, value("NAME", f"The agents' CLI: {_PROGRAMS}, or `command`.")]
Simulate = Annotated[Path | None, value("SCRIPT", "Agents follow this YAML script; no agent CLI, no model.")]
Recreate = Annotated[bool, flag("--recreate", "On resume, open new terminals for agents whose terminals are gone.")]
RECREATE = "handoff.recreate_terminals=1"
Resume = Annotated[bool, flag("--resume", "Resume the unfinished run; an error if there is none.")]
Fresh = Annotated[bool, flag("--fresh", "Start a new run, and abandon the unfinished one.")]
FromState = Annotated[
    bool, flag("--from-state", "Believe a state file that differs from the log; agents can write that file.")
]
Reread = Annotated[
    bool, flag("--reread", "On resume, take logos.json, telos.toml and profiles as they are now, not as at the start.")
]
KnownFailing = Annotated[
    list[str] | None,
    value("PATTERN", "Tests that fail before the run and may go on failing: a part of their ids; repeatable."),
]
MayChange = Annotated[
    list[str] | None,
    value("PATTERN", "Tests, or what steers them, that the run may change, as in a .gitignore; repeatable."),
]
Blind = Annotated[
    bool, flag("--blind", "Prove a PASS also with acceptance tests that an agent writes without seeing the work.")
]
Detach = Annotated[
    bool, flag("--detach", "Start a driver that outlives this terminal, and return when its run has begun.")
]
# So many sessions, and so many next turns, are named one by one.
SHOWN = 3
ANSWERS = {"r": "resume", "s": "reset", "f": "fork", "q": "quit"}


@dataclass(frozen=True, slots=True)
class Ways:
    """How a run is resumed, where a person says more than its settings."""

    reread: bool = False
    from_state: bool = False


def is_attended() -> bool:
    """Whether a person is at a terminal, who can be asked and told something."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def start_flags(*, resume: bool, fresh: bool) -> list[str]:
    if resume and fresh:
        raise UsageError("--resume and --fresh exclude each other: give one")
    return ["resume=1"] if resume else ["resume=0"] if fresh else []


def proof_flags(known_failing: Sequence[str] | None, may_change: Sequence[str] | None) -> list[str]:
    """Settings; one pattern per line, because it may contain a comma."""
    given = {"known_failing": known_failing or (), "may_change": may_change or ()}
    lines = {key: "".join(f"{pattern}\n" for pattern in patterns) for key, patterns in given.items()}
    return [f"proof.{key}={text}" for key, text in lines.items() if text]


def repeated(settings: Sequence[str], simulate: Path | None) -> list[str]:
    """The options that a command to resume must repeat."""
    options = [part for setting in settings for part in ("--set", setting)]
    return [*options, *(("--simulate", str(simulate)) if simulate else ())]


def detach(place: Path, context: Context, *, stdin: bool, as_json: bool) -> int:
    """Start the same command without `--detach` as a driver of its own; print its run and how to follow it."""
    if stdin:
        raise UsageError("--detach cannot read the prompt from stdin: write it to a file, or give it as words")
    # Everything after `--` is text.
    given: list[str] = context.obj
    options = given[: given.index("--")] if "--" in given else given
    kept = [word for word in options if word not in ("--detach", "--json")]
    started = start_detached(place, [*kept, *given[len(options) :]], show.tell)
    if as_json:
        show.document({"run": started.run, "pid": started.pid, "log": str(started.log)})
        return 0
    target, at = show.console(), wd_flag(place)
    show.put(target, f"run {started.run} is driven by pid {started.pid}; its output is in {started.log}", "bold")
    commands = [
        (f"logos log -f {started.run}{at}", "follow its events"),
        (f"logos status{at}", "where it stands"),
        (f"logos stop {started.run}{at}", "end the driver; the run can be resumed"),
    ]
    show.put_next(target, commands)
    return 0


def tell_environment(settings: Settings, tell: Tell) -> None:
    """Tell which variables decide, where other programs may have set them, and which are ignored."""
    for note in common_names(settings.sources):
        tell(note)
    for name in unknown_names(os.environ):
        tell(f"warning: {name}")


def refuse_second(settings: Settings) -> None:
    """Refuse to start in a folder of a work dir where a run is unfinished, unless this folder was named."""
    place = settings.work_dir
    above = None if settings.wd or has_log(place) else place_above(place)
    if above is None:
        return
    view = newest_unfinished(above, CyclePlan) or newest_unfinished(above, LevelsPlan)
    driver, at = driver_at(above), wd_flag(above)
    if view is None and driver is None:
        return
    what = f"pid {driver} drives a run" if view is None else f"run {view.run} is unfinished"
    look = f"`logos status{at}` shows it" if view is None else f"`{view.resumes_with}{at}` continues it"
    raise UsageError(f"{what} in {above}, which this folder is part of: {look}, `--wd .` starts another one here")


def read_stdin() -> str:
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PromptError("the prompt on stdin is not UTF-8 text") from error
    if not text.strip():
        raise PromptError("the prompt on stdin is empty")
    return text


def named(config: Path | None) -> list[str]:
    """The configuration as a command must name it; ./logos.json is found without."""
    return [] if config is None or config == default_config() else [str(config)]


@contextmanager
def resume_hint(view: View, settings: Settings, command: Sequence[str]) -> Generator[None]:
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
    if isinstance(error, PersonNeeded):
        return f"{name} goes on after your decision: {resume}"
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


def ended_document(settings: Settings, view: RunView, exit_code: int) -> dict[str, Any]:
    state_file = settings.state_path if view.build is None else settings.paths.build_state
    run = RunDocument.of(RunStatus(settings.work_dir, view, None))
    head = head_of_run(settings.work_dir, view.run)
    return {**run, "exit_code": exit_code, "state_file": str(state_file), "head": head}


def put_end(
    settings: Settings, view: RunView, exit_code: int, changed: Sequence[str], commands: show.Commands, *, as_json: bool
) -> int:
    """The end of a run: its outcome, what changed, where to look next. Returns the exit code."""
    target = show.console(stderr=as_json)
    show.put_summary(target, view)
    if unproven := missing_proof(settings, view):
        exit_code = LogosError.exit_code
        show.put(target, f"proof.required is set, and the PASS is not verified: {unproven}", show.STYLES[Severity.BAD])
    for declared in certificate_of(view).declared:
        why, files = f" ({one_line(declared.why)})" if declared.why else "", ", ".join(declared.files)
        if files:
            show.put(target, f"changed as declared{why}: {files}; `logos proof` shows the difference")
    head = head_of_run(settings.work_dir, view.run)
    show.put(target, f"head of the log: {head} (`logos doctor --trust` checks the records)")
    for line in changed:
        show.put(target, line)
    show.put_next(target, commands)
    if as_json:
        show.document(ended_document(settings, view, exit_code))
    return exit_code


def present(place: Path, view: RunView | None, tell: Tell) -> None:
    """What a person needs who returns to a run after hours or days."""
    if view is None:
        return
    origin = f", from {view.came_from}" if view.came_from else ""
    tell(f"unfinished {'build' if view.build is not None else 'run'} {view.run}{origin}: {view.asked_for}")
    earlier = len(view.own_sessions) - SHOWN
    if earlier > 0:
        tell(count(earlier, "earlier session"))
    for session in view.own_sessions[-SHOWN:]:
        answered = f"{count(len(session.answered), 'turn')} answered"
        tell(f"session {session.number}, {date(session.began)}: {duration(session.seconds)}, {answered}")
    inherited = f" (and {view.inherited} before the fork)" if view.inherited else ""
    tell(f"{count(view.answered, 'turn')} answered{inherited}, {sum_in_words(view.bill, view.characters)}")
    next_turns = view.state.next_turns
    next_text = f"next is {listed(next_turns[:SHOWN])}" if next_turns else "nothing is due"
    tell(f"it is at {view.state.position.text}; {next_text}")
    if view.state.stalled or view.left:
        tell(f"it stopped: {view.state.stalled or view.left}")
    tell(f"recommended: {_recommended(view, wd_flag(place))}")


def _recommended(view: RunView, at: str) -> str:
    """The next action, and its command."""
    if view.question is not None:
        return f"answer its question (logos resolve{at})"
    if view.state.gate is not None:
        return f"decide (logos approve {view.run}{at}, or logos reject)"
    budget = BUDGET.match(view.left)
    if budget is not None:
        return f"resume it with a larger {budget[1]} ({view.resumes_with}{at} --set {budget[1]}=…)"
    return f"resume it ({view.resumes_with}{at})"


def decide(
    settings: Settings, feature: str, tell: Tell, *, ask: bool, known: RunView | None = None
) -> tuple[Settings, str, RunView | None]:
    """Settings, feature and loaded build to start with: an unfinished build is resumed, reset or forked.

    `ask` says whether a person can be asked; if not, and it was not said, it is an error before anything is changed.
    """
    if settings.resume is False:
        return settings, feature, None
    place, flag = settings.work_dir, wd_flag(settings.work_dir)
    view = known or newest_unfinished(place, LevelsPlan)
    present(place, view, tell)
    if view is None:
        return settings, feature, None
    if view.question is not None:
        raise blocked(view.run, place)
    if settings.resume:
        return settings, feature, view
    if not ask:
        raise UsageError(
            f"an unfinished build is here ({view.run}: {view.asked_for!r}): --resume continues it, "
            f"--fresh abandons it and starts anew, `logos fork {view.run}{flag}` continues it in another worktree"
        )
    match _asked(feature, tell):
        case "reset":
            return settings.model_copy(update={"resume": False}), feature or getattr(view.plan, "feature", ""), None
        case "fork":
            started = fork_at(settings, checkpoint_at(place, view, None), None, tell)
            tell(f"build {started.run} is forked from {started.at.run}@{started.at.seq} and continues in {started.wd}")
            return settings.model_copy(update={"wd": str(started.wd), "resume": True}), "", None
        case _:
            return settings.model_copy(update={"resume": True}), "", view


def _asked(feature: str, tell: Tell) -> str:
    anew = "abandon it and start the new one" if feature else "abandon it and start it anew"
    while True:
        tell(f"[r]esume it, re[s]et: {anew}, [f]ork it and continue in another worktree, or [q]uit? (r)")
        line = sys.stdin.readline()
        answer = line.strip().lower() or "r"
        if not line or answer in ("q", "quit"):
            raise StateError("nothing was done: the build is still unfinished")
        for letter, word in ANSWERS.items():
            if answer in (letter, word):
                return word
        tell(f"{answer!r} is none of {', '.join(ANSWERS.values())}")
