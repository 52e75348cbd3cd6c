"""`logos record`: a run as a script, so that it can be replayed without agents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logos.app.workdir import find_run, place_of, reading
from logos.cli.options import AsJson, OneRun, WorkDir, examples
from logos.errors import UsageError

if TYPE_CHECKING:
    from logos.views.run import RunView, TurnView

EXAMPLES = examples(
    "logos record -o replay.yaml",
    "logos record k3 --delays > replay.yaml",
    "logos run --simulate replay.yaml --fresh      # replay it, with the same configuration",
)


def record(
    run: OneRun = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there; default: stdout.")
    ] = None,
    delays: Annotated[bool, typer.Option("--delays", help="Each turn also takes as long as it took.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Turn a run into a script for `logos run --simulate`: what every agent said, turn by turn, and what it cost.

    Changes that the agents made to files are not in the log and so not in the script; secrets are taken out.
    """
    from logos.adapters.hosts.script import as_yaml
    from logos.app.runs import load_run
    from logos.cli.output import console as show

    with reading(place_of(wd)) as log:
        story = load_run(log, find_run(log, run))
    if story.build is not None:
        raise UsageError(
            f"run {story.run} is a build, and a build cannot be recorded: what its authors wrote is in git and not in "
            "the log; `logos show` has every turn whole"
        )
    script = script_of(story, delays=delays)
    if not script["turns"]:
        raise UsageError(f"run {story.run} has no answered turn yet; there is nothing to record")
    if output is not None:
        _write(output, as_yaml(script, header(story)), force=force)
        show.tell(f"{output}: {len(script['turns'])} turns of run {story.run}")
    if as_json:
        show.document(script)
    elif output is None:
        # As it is: a blank line at its end may be part of what was said.
        sys.stdout.write(as_yaml(script, header(story)))
    return 0


def script_of(story: RunView, *, delays: bool) -> dict[str, Any]:
    from logos.adapters.hosts.script import Otherwise
    from logos.views.run import LOGOS

    turns = {
        told.turn: _step(told, delays=delays) for told in story.turns if told.ended is not None and told.agent != LOGOS
    }
    # A replay that comes to a turn nobody answered must not go on with an invented one.
    return {"otherwise": Otherwise.ERROR.value, "turns": turns}


def _step(told: TurnView, *, delays: bool) -> dict[str, Any]:
    from logos.views.redact import redact

    step: dict[str, Any] = {"say": redact(told.response)}
    if delays and told.seconds is not None:
        step["delay"] = round(max(told.seconds, 0.0), 1)
    if told.usage is not None:
        usage = told.usage
        known = {"input": usage.input, "cached": usage.cached, "output": usage.output, "cost_usd": usage.cost_usd}
        step["usage"] = {key: value for key, value in known.items() if value is not None}
    return step


def header(story: RunView) -> str:
    from logos.views.text import date

    ended = story.state.outcome.value if story.state.outcome else "unfinished"
    return (
        f"Recorded from run {story.run} of {date(story.started)}: {ended}, {story.answered} turns.\n"
        "Replay it with the configuration and the prompt of that run: logos run --simulate THIS_FILE --fresh\n"
        "What the agents said is here; what they changed in files is not, because the log does not hold it. Where\n"
        "Logos runs the tests itself (verify_pass), replay in the tree the run left behind, or --set verify_pass=0.\n"
    )


def _write(path: Path, text: str, *, force: bool) -> None:
    from logos.adapters.files import write_atomically

    if path.exists() and not force:
        raise UsageError(f"{path} is there already; --force overwrites it")
    write_atomically(path.expanduser().absolute(), text)
