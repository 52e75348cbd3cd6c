"""`logos demo`: a whole run, or a whole build, on a small repository, with scripted agents instead of models."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logos.app.workdir import reading, wd_flag
from logos.cli.options import AsJson, examples
from logos.errors import Interrupted, LogosError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from logos.app.settings import Settings
    from logos.cli.output.live import View
    from logos.flows.levels.reconcile import Settled
    from logos.flows.levels.state import LevelsState
    from logos.views.run import RunView

EXAMPLES = examples(
    "logos demo",
    "logos demo --levels                      # a build by the nine levels",
    "logos demo --levels --keep ~/logos-demo  # and look around in it afterwards",
    "logos demo --json",
)

CODE = ("*.py",)
TESTS = ("test_*.py", "journeys.py")


def demo(
    levels: Annotated[
        bool, typer.Option("--levels", help="A build by the nine levels (logos build) instead of a run of the cycle.")
    ] = False,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Work there instead of in a new temporary folder.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """See a whole run in seconds: no keys, no server. The agents are scripts, the tests they face are real.

    They analyse a small shop's missing bulk discount, review each other, get it wrong, are caught by the tests, fix it
    and pass; Logos runs the tests itself before it believes them.

    With --levels, nine levels from purpose to syntax build discount, gift wrapping and receipt: three authors work at
    once, two of them collide, a bill comes out wrong, and both times the levels reconcile before they go on.
    """
    from logos.cli.output.live import view

    python = python_name()
    with view() as shown:
        place = new_place(keep)
        shown.tell(f"scripted agents add a missing feature to the small repository {place}; its tests are real")
        settings = begin_levels(place, python) if levels else begin_cycle(place, python)
        try:
            exit_code = (play_levels if levels else play_cycle)(settings, python, shown)
        except (LogosError, Interrupted) as error:
            again = " --levels" if levels else ""
            error.add_note(f"what was done so far is in {place}; `logos demo{again}` begins a new one")
            raise
    report(settings, exit_code, as_json=as_json)
    return exit_code


def python_name() -> str:
    """What the demo's tests are run with: the name a person would type, where there is one."""
    import sys

    return "python3" if shutil.which("python3") else shlex.quote(sys.executable)


def new_place(keep: Path | None) -> Path:
    if shutil.which("git") is None:
        raise UsageError("the demo needs git: the agents work in a repository of their own")
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="logos-demo-")).resolve()
    place = keep.expanduser().absolute()
    try:
        place.mkdir(parents=True, exist_ok=True)
        if any(place.iterdir()):
            raise UsageError(f"--keep {place}: the folder is not empty")
    except OSError as error:
        raise UsageError(f"--keep {place}: {error.strerror}") from error
    return place


def begin_cycle(place: Path, python: str) -> Settings:
    from logos import demo as bundled

    bundled.copy_repository(place)
    begin_repository(place)
    return only_told(
        f"wd={place}",
        f"prompt={bundled.prompt(python)}",
        f"project_test_cmd={python} -m unittest",
        "verify_pass=1",
        "cleanup_on_exit=1",
        # One good review is enough here: the demo is to be short.
        "limits.min_review_cycles_before_approval=1",
        "limits.max_rounds=4",
    )


def begin_levels(place: Path, python: str) -> Settings:
    from logos import demo as bundled

    bundled.copy_levels_repository(place, python)
    begin_repository(place)
    return only_told(f"wd={place}")


def begin_repository(place: Path) -> None:
    """What lies there as a repository with one commit, whatever the person's git is configured to do."""
    from logos.adapters.git.command import git

    who = ("-c", "user.name=Logos demo", "-c", "user.email=demo@logos.invalid")
    alone = ("-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false")
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "a small shop")):
        done = git(place, *who, *alone, *command)
        if done.returncode != 0:
            raise UsageError(f"git {command[0]} failed in {place}: {done.stderr.strip()}")


def only_told(*told: str) -> Settings:
    """Nothing of the person's environment or configuration has a say in the demo."""
    from logos.app.settings import load_settings

    return load_settings(None, {}, [*told, "provider=scripted", "handoff.response_timeout=60"])


def play_cycle(settings: Settings, python: str, shown: View) -> int:
    from logos import demo as bundled
    from logos.app.hosts import scripted_host
    from logos.app.wiring import run_here

    ended = run_here(
        settings,
        strict_prompt=True,
        make_host=scripted_host(bundled.script(python)),
        watchers=[shown.watch],
        tell=shown.tell,
    )
    return ended.exit_code


def play_levels(settings: Settings, python: str, shown: View) -> int:
    from logos import demo as bundled
    from logos.app.hosts import scripted_host
    from logos.app.wiring import build_here

    ended = build_here(
        settings,
        bundled.feature(),
        make_host=scripted_host(bundled.levels_script(python)),
        watchers=[shown.watch],
        tell=shown.tell,
    )
    return ended.exit_code


def report(settings: Settings, exit_code: int, *, as_json: bool) -> None:
    from logos.app.runs import load_run
    from logos.cli.output import console as show

    place = settings.work_dir
    with reading(place) as log:
        story = load_run(log, log.runs()[-1])
    target = show.console(stderr=as_json)
    if story.build is None:
        put_cycle(target, story, place)
    else:
        put_levels(target, story, story.build, place)
    if as_json:
        show.document(as_document(story, settings, exit_code))


def as_document(story: RunView, settings: Settings, exit_code: int) -> dict[str, Any]:
    from logos.app.state_files import BUILD_STATE_FILE as STATE_FILE
    from logos.cli import lineage
    from logos.views.document import result_document, turn_document
    from logos.views.status import RunStatus

    place, build = settings.work_dir, story.build
    state_file = settings.state_path if build is None else settings.telos_dir / STATE_FILE
    document = {
        **result_document(RunStatus(place, story, None), str(state_file), exit_code),
        "folder": str(place),
        "timeline": [turn_document(turn) for turn in story.turns],
        "diff": code_diff(place, *branch_of(story)),
    }
    if build is None:
        return document
    settled = [settled_as_json(own) for own in build.settled]
    return {**document, "settled": settled, "lineage": lineage.lineage_document(story.run, build, None)}


def settled_as_json(settled: Settled) -> dict[str, Any]:
    return {
        "id": settled.id,
        "cause": settled.cause.value,
        "level": settled.level.name,
        "question": settled.question,
        "evidence": settled.evidence,
        "decision": settled.proposal.summary,
        "rework": list(settled.proposal.rework),
    }


def branch_of(story: RunView) -> tuple[str, ...]:
    """The branch that a build left; a run of the cycle left its work in the folder."""
    return (story.branch,) if story.branch else ()


def code_diff(place: Path, *branch: str, without: tuple[str, ...] = ()) -> str:
    from logos.adapters.git.command import git

    paths = (*CODE, *(f":(exclude){path}" for path in without))
    return git(place, "diff", "--no-color", "--no-ext-diff", "HEAD", *branch, "--", *paths).stdout


def put_cycle(target: Console, story: RunView, place: Path) -> None:
    from logos.app.changes import changes
    from logos.cli.output import console as show

    show.put(target, "\nWhat the agents changed:", "bold")
    for line in changes(place):
        show.put(target, line)
    show.put(target, "")
    show.put_diff(target, code_diff(place))
    show.put(target, "\nWhat happened, turn by turn:", "bold")
    show.put_timeline(target, story)
    show.put(target, "")
    show.put_summary(target, story)
    at = wd_flag(place)
    show.put_next(
        target,
        [
            (f"logos show {story.run} r1.tester{at}", "how the tests caught the first attempt"),
            (f"logos show {story.run} r2.programmer{at}", "what the programmer was told then"),
            (f"logos log {story.run}{at}", "every event"),
            ("logos demo --levels", "the nine levels of `logos build`"),
            ("logos init", "in your own repository; then logos run"),
        ],
    )


def put_levels(target: Console, story: RunView, build: LevelsState, place: Path) -> None:
    from logos.adapters.git.workspace import diff_stat
    from logos.cli import lineage
    from logos.cli.output import console as show

    result = build.result
    if result:
        show.put(target, f"\nWhat was built, on the branch {story.branch}:", "bold")
        for line in diff_stat(place, build.plan.base, result):
            show.put(target, line)
        show.put(target, "")
        show.put_diff(target, code_diff(place, *branch_of(story), without=TESTS))
    show.put(target, "\nWhat did not fit, and how the levels settled it:", "bold")
    for settled in build.settled:
        put_settled(target, settled)
    show.put(target, "\nWhat happened, turn by turn:", "bold")
    show.put_timeline(target, story)
    show.put(target, "\nWhat every file is for:", "bold")
    lineage.put_lineage(target, story.run, build, None)
    show.put(target, "")
    show.put_summary(target, story)
    show.put_next(target, next_after_levels(story, place))


def put_settled(target: Console, settled: Settled) -> None:
    from logos.cli.output import console as show
    from logos.views.events import Severity, proposal_in_short

    show.put(target, f"{settled.id} at {settled.level.name}: {settled.question}", show.STYLES[Severity.BAD])
    wrong = [line for line in settled.evidence.splitlines() if line.startswith("AssertionError")]
    for line in wrong:
        show.put(target, f"  {line}")
    show.put(target, f"  decided by {settled.by}: {proposal_in_short(settled.proposal)}", show.STYLES[Severity.GOOD])


def next_after_levels(story: RunView, place: Path) -> list[tuple[str, str]]:
    at, git = wd_flag(place), "git" if place == Path.cwd() else f"git -C {shlex.quote(str(place))}"
    return [
        (f"logos show {story.run} s1.q1.L3.propose{at}", "how two authors agreed"),
        (f"logos show {story.run} s2.L5.check{at}", "the journey that failed"),
        (f"logos show {story.run} s3.L2.discount.author{at}", "what its author was told"),
        (f"{git} diff HEAD {story.branch}", "everything, with tests"),
        (f"logos telos{at}", "what the shop is for"),
        (f"logos log {story.run}{at}", "every event"),
        ("logos init, then logos build", "in your own repository"),
    ]
