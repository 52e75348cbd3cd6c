"""`logos demo`: a whole run on a small repository, with scripted agents instead of models."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logos.cli.options import AsJson, examples
from logos.cli.place import reading, wd_flag
from logos.errors import LogosError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from logos.cli.story import Story
    from logos.runtime.settings import Settings

EXAMPLES = examples("logos demo", "logos demo --keep ~/logos-demo", "logos demo --json")

CODE = ("*.py",)


def demo(
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Work there instead of in a new temporary folder.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """See a whole run in seconds: no keys, no server. The agents are scripts, the tests they face are real.

    They analyse a small shop's missing bulk discount, review each other, get it wrong, are caught by the tests, fix it
    and pass; Logos runs the tests itself before it believes them.
    """
    from logos import demo as bundled
    from logos.cli.live import view
    from logos.cli.wiring import run_here, scripted_host
    from logos.runtime.signals import interruptible

    python = python_name()
    with interruptible(), view() as shown:
        place = new_place(keep)
        shown.tell(f"scripted agents add a missing feature to the small repository {place}; its tests are real")
        begin_repository(place)
        settings = demo_settings(place, python)
        try:
            ended = run_here(
                settings,
                strict_prompt=True,
                make_host=scripted_host(bundled.script(python)),
                watchers=[shown.watch],
                tell=shown.tell,
            )
        except LogosError as error:
            error.add_note(f"what was done so far is in {place}; `logos demo` begins a new one")
            raise
    report(settings, place, ended.exit_code, as_json=as_json)
    return ended.exit_code


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


def begin_repository(place: Path) -> None:
    """The bundled files as a repository with one commit, whatever the person's git is configured to do."""
    from logos import demo as bundled
    from logos.adapters.git import git

    bundled.copy_repository(place)
    who = ("-c", "user.name=Logos demo", "-c", "user.email=demo@logos.invalid")
    alone = ("-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false")
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "a small shop")):
        done = git(place, *who, *alone, *command)
        if done.returncode != 0:
            raise UsageError(f"git {command[0]} failed in {place}: {done.stderr.strip()}")


def demo_settings(place: Path, python: str) -> Settings:
    """Nothing of the person's environment or configuration has a say in the demo."""
    from logos import demo as bundled
    from logos.runtime.settings import load_settings

    return load_settings(
        None,
        {},
        [
            f"wd={place}",
            f"prompt={bundled.prompt(python)}",
            f"project_test_cmd={python} -m unittest",
            "verify_pass=1",
            "cleanup_on_exit=1",
            "provider=scripted",
            # One good review is enough here: the demo is to be short.
            "limits.min_review_cycles_before_approval=1",
            "limits.max_rounds=4",
            "handoff.response_timeout=60",
        ],
    )


def code_diff(place: Path) -> str:
    from logos.adapters.git import git

    return git(place, "diff", "--no-color", "--no-ext-diff", "HEAD", "--", *CODE).stdout


def report(settings: Settings, place: Path, exit_code: int, *, as_json: bool) -> None:
    from logos.cli import show
    from logos.cli.story import read_story, turns_as_json

    with reading(place) as log:
        story = read_story(log, log.runs()[-1])
    put_report(show.console(stderr=as_json), story, place)
    if as_json:
        result = show.run_as_json(story, str(settings.state_path), exit_code)
        show.document({**result, "folder": str(place), "timeline": turns_as_json(story), "diff": code_diff(place)})


def put_report(target: Console, story: Story, place: Path) -> None:
    from logos.cli import show
    from logos.cli.changes import changes

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
            ("logos init", "in your own repository; then logos run"),
        ],
    )
