"""Commands on checkpoints: `logos fork`, `rollback`, `reset`, `diff`, `compare` and `gc`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from logos.app.checkpoints import NewRun
from logos.app.diff import ComparedRun, Comparison, Diff, DiffSide
from logos.app.diff import compare as compare_runs
from logos.app.diff import diff as find_diff
from logos.app.gc import Collected, collect_garbage
from logos.app.rollback import fork as fork_run
from logos.app.rollback import reset as reset_run
from logos.app.rollback import restore_files
from logos.app.rollback import rollback as roll_back
from logos.app.runs import status_of
from logos.app.workdir import wd_flag
from logos.cli.options import AsJson, OneRun, ThisRun, WorkDir, argument, command, command_group, flag, value
from logos.cli.output import console as show
from logos.views.document import run_document, turn_document
from logos.views.document_shapes import VERSION
from logos.views.text import count, cut, date, duration, number
from logos.views.usage import UNKNOWN, dollars, tokens

app = command_group()
REPLACED = "the files that were just replaced"
CHECKPOINT = "An event's number, RUN@NUMBER, RUN, a turn's id, RUN@TURN, a date."


@command(
    app,
    "logos fork                          # the newest run, from where it stands",
    "logos fork k3ab --at 12             # from event 12; `logos log k3ab` and `logos sessions` show the numbers",
    "logos fork k3ab --at r1.programmer.c1 --to ../second-try",
)
def fork(
    run: OneRun = None,
    at: Annotated[str | None, value("EVENT", "An event's number, a turn's id or a date; default: the newest.")] = None,
    to: Annotated[Path | None, value("DIR", "The folder of the worktree; default: beside this one.")] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Start another run from a checkpoint of a run, in a new git worktree, so that two attempts can run side by side.

    The forked run stays as it is, and may even be running meanwhile. The fork has new agents: each gets what was said
    in its role so far. `logos compare` compares both runs.
    """
    started = fork_run(run, at=at, to=to, wd=wd, tell=show.tell)
    if as_json:
        show.document(_new_run_document(started))
        return
    target, parent = show.console(), started.at
    show.put(target, f"run {started.run} is forked from event {parent.seq} of {parent.run}, in {started.wd}", "bold")
    show.put(target, f"its branch there is logos-fork/{started.run}; run {parent.run} stays as it is", "dim")
    next_step = (started.next_command, "answer its question" if started.blocked else "continue it there")
    show.put_next(target, [next_step, (f"logos compare {parent.run} {started.run}", "both side by side")])


def _new_run_document(started: NewRun) -> dict[str, Any]:
    return {
        "run": started.run,
        "forked_from": started.at.run,
        "at": started.at.seq,
        "wd": str(started.wd),
        "commit": started.at.commit or None,
        "kept": started.kept or None,
        "files_restored": started.restored,
        "next": started.next_command,
    }


@command(
    app,
    "logos rollback 12                    # event 12 of the newest run",
    "logos rollback k3ab@r1.programmer.c1 # right after that turn",
    "logos rollback 2026-11-14            # as it was at the end of that day",
    "logos rollback k3ab                  # back to where run k3ab was left",
    "logos rollback 12 --files            # the files alone; the run stays where it is",
)
def rollback(
    checkpoint: Annotated[str, argument("CHECKPOINT", CHECKPOINT)],
    files: Annotated[
        bool, flag("--files", "Restore the files alone; also takes a commit that a rollback has kept.")
    ] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Restore the files and the state of a run to a checkpoint, under a new run id.

    Nothing is lost: the old run stays in the log and can be returned to, and the replaced files are kept as a commit
    first. Your branch, your index, HEAD and ignored files stay as they are. Rolling back a build never changes your
    files.
    """
    if files:
        _rollback_files(checkpoint, wd, as_json=as_json)
        return
    started = roll_back(checkpoint, wd=wd, tell=show.tell)
    if as_json:
        show.document(_new_run_document(started))
        return
    target, at, flag = show.console(), started.at, wd_flag(started.wd)
    show.put(target, f"run {started.run} starts from event {at.seq} of {at.run}", "bold")
    show.put(target, _files_text(started))
    commands = [(f"logos rollback {at.run}{flag}", f"return to where run {at.run} was left")]
    if started.kept:
        commands.insert(0, (f"logos rollback --files {started.kept[:12]}{flag}", REPLACED))
    if at.can_continue:
        commands.insert(0, (started.next_command, "answer its question" if started.blocked else "continue from here"))
    show.put_next(target, commands)


def _files_text(started: NewRun) -> str:
    if started.restored:
        kept = f"; the replaced files are kept as commit {started.kept[:12]}" if started.kept else ""
        return f"the files are as they were then{kept}"
    if started.at.state.head is not None:
        return f"what was built then is commit {started.at.commit[:12]}; your own files are as they were"
    return "no checkpoint of the files was kept: they stay as they are, only the run state was rolled back"


def _rollback_files(checkpoint: str, wd: Path | None, *, as_json: bool) -> None:
    restored = restore_files(checkpoint, wd=wd, tell=show.tell)
    if as_json:
        show.document(asdict(restored))
        return
    target = show.console()
    show.put(target, f"the files are as they were in {restored.commit[:12]}; the run state is unchanged", "bold")
    show.put_next(target, [(f"logos rollback --files {restored.kept[:12]}{wd_flag(restored.wd)}", REPLACED)])


@command(
    app,
    "logos reset                # abandon the unfinished run; the files stay as they are",
    "logos reset --files        # also restore the files it started with",
)
def reset(
    run: OneRun = None,
    files: Annotated[bool, flag("--files", "Also restore the files that the run started with.")] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Abandon the unfinished run: its agents and worktrees end, and the next `logos run` or `build` starts anew.

    Nothing is lost: its log, its checkpoints and its work are kept, and `logos rollback RUN` returns to it.
    """
    done = reset_run(run, files=files, wd=wd, tell=show.tell)
    if as_json:
        show.document({"run": done.run, "kept": done.kept or None, "files_restored": done.restored})
        return
    target, flag = show.console(), wd_flag(done.wd)
    restored = ", and the files it started with are restored" if done.restored else ""
    show.put(target, f"run {done.run} is abandoned{restored}", "bold")
    commands = [(f"logos rollback {done.run}{flag}", "return to where it was left")]
    if done.kept:
        commands.append((f"logos rollback --files {done.kept[:12]}{flag}", REPLACED))
    show.put_next(target, commands)


@command(
    app,
    "logos diff 12                     # from event 12 of the newest run to the files here now",
    "logos diff 12 30 --stat           # between two events; `logos log` and `logos sessions` show the numbers",
    "logos diff k3ab@r1.programmer.c1 r1.programmer.c2",
    "logos diff 2026-11-14             # since the last event of that day",
    "logos diff k3ab k9cd              # between the ends of two runs",
    "logos diff 30 12 | git apply      # undo in the files what was done in between",
)
def diff(
    a: Annotated[str, argument("A", CHECKPOINT)],
    b: Annotated[
        str | None, argument("B", "The same, of A's run unless it names another; default: the files now.")
    ] = None,
    stat: Annotated[bool, flag("--stat", "A line for each file instead of the patch.")] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Show the changes of files between two checkpoints as a patch; in a pipe it can be read by `git apply`.

    The turns in between are listed on stderr. Without B, A is compared with the files in the work dir now; of a build,
    with its newest head.
    """
    found = find_diff(a, b, wd=wd, tell=show.tell)
    if as_json:
        turns = None if found.turns is None else [turn_document(turn) for turn in found.turns]
        sides = {"from": _side_document(found.one), "to": _side_document(found.other)}
        show.document({**sides, "timeline": turns, **_changes_document(found, patch=not stat)})
        return
    _put_turns(found)
    for side in found.missing:
        show.tell(f"the files at {side.name} were not kept: {side.why_not_kept}")
    if not found.missing:
        _put_changes(found, stat=stat)


def _put_turns(found: Diff) -> None:
    """List the turns on stderr: stdout is for the patch."""
    target = show.console(stderr=True)
    show.put(target, f"from {found.one.name} to {found.other.name}", "dim")
    rows = [
        (turn.turn, turn.who, "" if turn.seconds is None else duration(turn.seconds), show.result_of(turn))
        for turn in found.turns or ()
    ]
    for line in show.columns(("",) * 4, rows)[1:]:
        show.put(target, f"  {line}", "dim")
    if found.turns is not None and not rows:
        show.put(target, "  no turn ended between them", "dim")


def _put_changes(found: Diff, *, stat: bool) -> None:
    """In a pipe the patch is written byte by byte; on a terminal it is coloured and cleaned."""
    target = show.console()
    if stat:
        for line in found.stat() or ["no file differs"]:
            show.put(target, line)
        return
    patch = found.patch()
    if not patch:
        show.tell("no file differs")
    elif sys.stdout.isatty():
        show.put_diff(target, found.patch_text())
    else:
        sys.stdout.buffer.write(patch)
        sys.stdout.flush()


def _side_document(side: DiffSide) -> dict[str, Any]:
    known = {"run": side.view.run, "event": side.seq, "commit": side.commit or None, "wd": str(side.place)}
    return {**known, "not_kept": None if side.commit else side.why_not_kept}


def _changes_document(found: Diff, *, patch: bool) -> dict[str, Any]:
    """The changed files, and with `patch` their whole difference; null where the files of a side were not kept."""
    if found.missing:
        return {"files": None, "patch": None}
    return {"files": [asdict(file) for file in found.files()], "patch": found.patch_text() if patch else None}


@command(
    app,
    "logos compare k3ab k9cd           # a run and its fork, or any two runs of this repository",
    "logos compare k3ab k9cd --patch   # with the whole difference between their ends",
    "logos compare k3ab k9cd --json | jq '.runs[].usage.cost_usd'",
)
def compare(
    a: ThisRun,
    b: ThisRun,
    patch: Annotated[
        bool, flag("--patch", "The whole difference between their ends, not a line for each file.")
    ] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Show two runs side by side: outcome, turns, characters, tokens, time, and what differs between their ends.

    Both may be in this work dir or in that of a fork. What a fork inherited from the run it was forked from is counted
    apart.
    """
    found = compare_runs(a, b, wd=wd)
    if as_json:
        show.document(_comparison_document(found, patch=patch))
        return
    one, other = (run.view.run for run in found.runs)
    # Only the patch goes to a pipe.
    about = show.console(stderr=patch and not sys.stdout.isatty())
    left, right = (_compared_cells(run, found) for run in found.runs)
    show.put_table(about, ("", one, other), [(label, left[label], right[label]) for label in left])
    show.put(about, "")
    if found.common is not None:
        show.put(about, f"they have all events up to {found.common.run}@{found.common.seq} in common")
    for gap in found.gaps:
        show.put(about, gap, "dim")
    if not found.diff.missing:
        show.put(about, f"from the end of {one} to the end of {other}:")
        _put_changes(found.diff, stat=not patch)


def _compared_cells(run: ComparedRun, found: Comparison) -> dict[str, object]:
    view, bill, common = run.view, run.view.bill, found.common
    rounds = ", ".join({"cycle": "rounds", "levels": "sweeps"}[flow] for flow in sorted(found.flows))
    since = f"since {common.run}@{common.seq}" if common is not None else "since its start"
    return {
        "outcome": view.outcome.value if view.outcome else "UNFINISHED",
        "reason": cut(view.reason, 60) or "-",
        "asked for": view.asked_for,
        "began": date(view.started),
        rounds: view.state.position.round,
        "turns": view.answered,
        "turns inherited": view.inherited,
        "characters sent": number(view.characters),
        "tokens": _partly(tokens(bill.usage.tokens), bill.tokens_unknown, bill.turns),
        "cost": _partly(dollars(bill.usage.cost_usd), bill.cost_unknown, bill.turns),
        "time driven": duration(sum(session.seconds for session in view.own_sessions)),
        "sessions": len(view.own_sessions),
        f"files changed {since}": UNKNOWN if run.changed is None else len(run.changed),
        "folder": str(run.end.place),
    }


def _partly(text: str, unknown: int, turns: int) -> str:
    """Turns of unknown usage are not in the sum."""
    return f"{text} (unknown for {unknown} of {turns})" if 0 < unknown < turns else text


def _comparison_document(found: Comparison, *, patch: bool) -> dict[str, Any]:
    runs = [
        {
            **run_document(status_of(run.end.place, run.view)),
            "files_changed": None if run.changed is None else len(run.changed),
            "commit": run.end.commit or None,
        }
        for run in found.runs
    ]
    common = found.common and {
        "run": found.common.run,
        "event": found.common.seq,
        "commit": found.common.commit or None,
    }
    changes = _changes_document(found.diff, patch=patch)
    return {"version": VERSION, "runs": runs, "common": common, **changes, "not_comparable": found.gaps}


@command(
    app,
    "logos gc --dry-run                # what would be removed",
    "logos gc                          # by checkpoints.keep_days and checkpoints.keep_runs",
    "logos gc --keep-days 0 --keep-runs 1",
)
def gc(
    keep_days: Annotated[
        int | None, value("N", "Keep checkpoints of runs that ended less than N days ago.", min=0)
    ] = None,
    keep_runs: Annotated[
        int | None, value("N", "Always keep checkpoints of the newest N runs of a work dir.", min=0)
    ] = None,
    dry_run: Annotated[bool, flag("--dry-run", "Only show what would be removed.")] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Remove the checkpoints of runs that ended long ago, in all work dirs of this repository.

    It also removes the mirrors of logs whose work dir no longer exists.
    It never removes those of a run that can still continue, your branches, or a log: a run without checkpoints can
    still be read. Defaults are checkpoints.keep_days and checkpoints.keep_runs. It is safe while runs are driven.
    """
    done = collect_garbage(keep_days=keep_days, keep_runs=keep_runs, dry_run=dry_run, wd=wd)
    for note in (*done.notes, *(f"not removed, it is in use: {name}" for name in done.in_use)):
        show.tell(f"warning: {note}")
    if as_json:
        show.document(_collected_document(done))
        return
    target = show.console()
    if not done.removed:
        show.put(target, f"nothing to remove (keep_days = {done.policy.days}, keep_runs = {done.policy.runs})")
        return
    for removal in done.removed:
        amount = count(len(removal.refs), "ref") if removal.refs else count(len(removal.folders), "folder")
        show.put(target, f"{removal.what} ({removal.why}): {amount}")
    refs = sum(len(removal.refs) for removal in done.removed)
    folders = sum(len(removal.folders) for removal in done.removed)
    does = "would remove" if done.dry_run else "removed"
    show.put(target, f"{does} {count(refs, 'ref')} and {count(folders, 'folder')}", "bold")
    if refs:
        commits = f"{count(done.commits_freed, 'commit')} that nothing else holds"
        show.put(target, f"git frees the space of {commits} at its next `git gc`")


def _collected_document(done: Collected) -> dict[str, Any]:
    removed = [
        {"what": part.what, "why": part.why, "refs": [ref.name for ref in part.refs], "folders": part.folders}
        for part in done.removed
    ]
    policy = {"keep_days": done.policy.days, "keep_runs": done.policy.runs}
    kept = {"commits_freed": done.commits_freed, "in_use": done.in_use, "notes": done.notes}
    return {"dry_run": done.dry_run, **policy, "removed": removed, **kept}
