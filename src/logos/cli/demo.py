"""`logos demo`: a whole run, or a whole build, on a small repository, with scripted agents instead of models."""

import shlex
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from logos.app.demo import demo_folder, prepare_demo, run_demo
from logos.app.diff import built_changes, changes, code_diff
from logos.app.start import read_run
from logos.app.workdir import wd_flag
from logos.cli.drive import ended_document
from logos.cli.lineage import lineage_document, put_lineage
from logos.cli.options import AsJson, command, flag, value
from logos.cli.output import console as show
from logos.cli.output.live import view
from logos.errors import Interrupted, LogosError
from logos.flows.levels.reconcile import Dispute
from logos.views.document import TurnDocument
from logos.views.events import Severity, proposal_in_short
from logos.views.proof import Caught, caught_in
from logos.views.run import RunView
from logos.views.text import count, listed

TESTS = ("test_*.py", "journeys.py")


@command(
    "logos demo",
    "logos demo --levels                      # a build by the nine levels",
    "logos demo --levels --keep ~/logos-demo  # and look around in it afterwards",
    "logos demo --json",
)
def demo(
    levels: Annotated[
        bool, flag("--levels", "A build by the nine levels (logos build) instead of a run of the cycle.")
    ] = False,
    keep: Annotated[Path | None, value("DIR", "Work there instead of in a new temporary folder.")] = None,
    as_json: AsJson = False,
) -> int:
    """See a whole run in seconds: no keys, no server. The agents are scripts, the tests they face are real.

    They analyse a small shop's missing bulk discount and review each other. The programmer gets it wrong and changes a
    test, so that the tester reports PASS. Logos proves each PASS in a clean room: the cheat is caught, then mended.

    With --levels, nine levels from purpose to syntax build discount, gift wrapping and receipt: three authors work in
    parallel, two of them conflict, a bill comes out wrong, and both times the levels reconcile before they continue.
    """
    with view() as shown:
        folder = demo_folder(keep)
        shown.tell(f"scripted agents add a missing feature to the small repository {folder}; its tests are real")
        settings = prepare_demo(folder, levels=levels)
        try:
            result = run_demo(settings, levels=levels, watchers=[shown.watch], tell=shown.tell)
        except (LogosError, Interrupted) as error:
            again = "logos demo --levels" if levels else "logos demo"
            error.add_note(f"what was done so far is in {folder}; `{again}` starts a new one")
            raise
    ended = read_run(folder, result.run)
    _put_demo(show.console(stderr=as_json), ended, folder)
    if as_json:
        timeline = [TurnDocument.of(turn) for turn in ended.turns]
        more = {"folder": str(folder), "timeline": timeline, "diff": code_diff(folder, ended.branch)}
        if ended.build is not None:
            settled = [_settled_document(settled) for settled in ended.build.settled]
            more |= {"settled": settled, "lineage": lineage_document(ended.run, ended.build, None)}
        show.document({**ended_document(settings, ended, result.exit_code), **more})
    return result.exit_code


def _settled_document(settled: Dispute) -> dict[str, Any]:
    conflict = {"id": settled.id, "cause": settled.cause.value, "level": settled.level.name}
    found = {"question": settled.question, "evidence": settled.evidence}
    return {**conflict, **found, "decision": settled.proposal.summary, "rework": settled.proposal.rework}


def _put_demo(target: Console, ended: RunView, folder: Path) -> None:
    build = ended.build
    if build is None:
        title, changed, tests = "What the agents changed:", changes(folder), ()
    else:
        title, changed, tests = f"What was built, on the branch {ended.branch}:", built_changes(folder, build), TESTS
    if build is None or build.result:
        show.put(target, f"\n{title}", "bold")
        for line in (*changed, ""):
            show.put(target, line)
        show.put_diff(target, code_diff(folder, ended.branch, without=tests))
    if build is not None:
        show.put(target, "\nThe conflicts, and how the levels settled them:", "bold")
        for settled in build.settled:
            put_settled(target, settled)
    show.put(target, "\nWhat happened, turn by turn:", "bold")
    show.put_timeline(target, ended)
    if build is not None:
        show.put(target, "\nWhat every file is for:", "bold")
        put_lineage(target, ended.run, build, None)
    show.put(target, "")
    for caught in caught_in(ended):
        show.put(target, _caught_in_words(caught), show.STYLES[Severity.BAD])
    show.put_summary(target, ended)
    show.put_next(target, _next_commands(ended, folder))


def _caught_in_words(caught: Caught) -> str:
    files = listed(caught.files)
    return (
        f"CAUGHT: an agent had changed {files}, and the tester reported PASS; {caught.turn} put {files} back, and "
        f"{count(caught.failed, 'test')} failed."
    )


def put_settled(target: Console, settled: Dispute) -> None:
    show.put(target, f"{settled.id} at {settled.level.name}: {settled.question}", show.STYLES[Severity.BAD])
    for line in settled.evidence.splitlines():
        if line.startswith("AssertionError"):
            show.put(target, f"  {line}")
    decision = proposal_in_short(settled.proposal)
    show.put(target, f"  decided by {settled.by}: {decision}", show.STYLES[Severity.GOOD])


def _next_commands(ended: RunView, folder: Path) -> show.Commands:
    at, git = wd_flag(folder), "git" if folder == Path.cwd() else f"git -C {shlex.quote(str(folder))}"
    if ended.build is None:
        return [
            (f"logos proof {ended.run}{at}", "what was proven; --again repeats it"),
            (f"logos show {ended.run} r1.proof.guarded{at}", "how the cheat was caught"),
            (f"logos show {ended.run} r2.programmer{at}", "what the programmer was told then"),
            (f"logos log {ended.run}{at}", "every event"),
            ("logos demo --levels", "the nine levels of `logos build`"),
            ("logos init", "in your own repository; then logos run"),
        ]
    return [
        (f"logos show {ended.run} s1.q1.L3.propose{at}", "how two authors agreed"),
        (f"logos show {ended.run} s2.L5.check{at}", "the journey that failed"),
        (f"logos show {ended.run} s3.L2.discount.author{at}", "what its author was told"),
        (f"{git} diff HEAD {ended.branch}", "everything, with tests"),
        (f"logos telos{at}", "what the shop is for"),
        (f"logos log {ended.run}{at}", "every event"),
        ("logos init, then logos build", "in your own repository"),
    ]
