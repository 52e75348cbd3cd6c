"""Commands that show runs: `logos status`, `runs`, `log`, `show` and `cost`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

from typer import Option

from logos.app.runs import event_document, event_formatter, load_status, load_statuses
from logos.app.workdir import driver_at, find_run, has_log, place_of, reading, wd_flag
from logos.cli.options import AsJson, OneRun, ThisRun, WorkDir, argument, command, command_group
from logos.cli.output import console as page
from logos.domain.events import Recorded, RunEnded, RunResumed, RunStarted
from logos.domain.roles import Role, phase_def_of
from logos.domain.turns import RunId
from logos.domain.usage import Spent
from logos.errors import UsageError
from logos.flows.levels.turn_ids import level_turn
from logos.ports import Log
from logos.views import document as documents
from logos.views.events import Severity, severity_of
from logos.views.run import FLOW_WORDS, RunView, TurnView
from logos.views.status import RunStatus, UnreadableRun, next_command
from logos.views.text import clock, count, date, duration, number
from logos.views.usage import dollars, in_words, sum_in_words, tokens

app = command_group()


def _load(wd: Path | None, run: str | None) -> RunStatus:
    place = place_of(wd)
    with reading(place) as log:
        return load_status(place, log, find_run(log, run))


@command(app, "logos status", "logos status --json --wd ~/project")
def status(wd: WorkDir = None, as_json: AsJson = False) -> None:
    """Show the newest run: its outcome or where it stands, which agents are at work, and the command to use next."""
    place = place_of(wd)
    found = _load(wd, None) if has_log(place) else None
    if as_json and found is None:
        page.document(documents.no_run_document(str(place)))
    elif as_json and found is not None:
        page.document(documents.status_document(found, next_command(found, wd_flag(place))))
    elif found is None:
        page.put(page.console(), f"no run was started in {place} yet; next: logos init, then logos run")
    else:
        _put_status(found, wd_flag(place))


def _put_status(status: RunStatus, at: str) -> None:
    view, target = status.view, page.console()
    simulated = " (simulated)" if view.simulated else ""
    head = f"{view.words.run} {view.run}{simulated}: {status.word}, {status.reason}"
    page.put(target, head, page.STYLES[status.severity])
    came_from = f" at {view.came_from}" if view.came_from else ""
    page.put(
        target,
        f"began {date(view.started)}{came_from}, last event {date(view.last)}; "
        f"{count(len(view.own_sessions), 'session')}, {view.rounds_in_words}, "
        f"{count(view.answered, 'turn')} answered, {sum_in_words(view.bill, view.characters)}",
    )
    for turn in status.in_flight:
        terminal = status.terminal_of(turn)
        where = f" in terminal {terminal.id} ({terminal.provider})" if terminal else ""
        since = f"since {clock(turn.asked)} ({duration(time.time() - turn.asked)})"
        page.put(target, f"{turn.turn} is with {'the ' if view.build is None else ''}{turn.who}{where} {since}")
        if turn.waits:
            page.put(target, f"it waits for you: {turn.waits}", page.STYLES[Severity.ALARM])
        if turn.rests and status.driver is not None:
            page.put(target, f"it rests: {turn.rests}", page.STYLES[Severity.WARNING])
    if view.outcome is None:
        page.put(target, f"driver: pid {status.driver}" if status.driver else "no driver is attached to it")
    if view.damage:
        page.put(target, f"damaged: {view.damage}", page.STYLES[Severity.BAD])
    if view.question is not None:
        page.put_question(target, view.question, at)
        page.put(target, "")
    page.put(target, f"next: {next_command(status, at)}", "bold")


@command(app, "logos runs", "logos runs --json | jq '.runs[].run'")
def runs(wd: WorkDir = None, as_json: AsJson = False) -> None:
    """List the runs of this work dir, the newest last."""
    place = place_of(wd)
    found: list[RunStatus | UnreadableRun] = []
    if has_log(place):
        with reading(place) as log:
            found = load_statuses(place, log)
    if as_json:
        page.document(documents.runs_document(str(place), found))
        return
    if not found:
        page.put(page.console(), f"no runs in {place} yet; `logos run` starts one")
        return
    rows = [_run_row(run) for run in found]
    # Without builds and forks, the flow and the origin say nothing.
    left_out = {"flow"} if {row["flow"] for row in rows} <= {"cycle", "-"} else set[str]()
    left_out |= {"from"} if {row["from"] for row in rows} == {"-"} else set()
    keys = [key for key in rows[0] if key not in left_out]
    severities = [Severity.BAD if isinstance(run, UnreadableRun) or run.view.damage else run.severity for run in found]
    page.put_table(page.console(), keys, [[row[key] for key in keys] for row in rows], severities)


def _run_row(run: RunStatus | UnreadableRun) -> dict[str, object]:
    blank = dict.fromkeys(("run", "flow", "from", "started", "status", "rounds", "turns"), "-")
    if isinstance(run, UnreadableRun):
        unknown = {"tokens": tokens(None), "cost": dollars(None)}
        return {**blank, "run": run.run, "status": "DAMAGED", **unknown, "asked for": run.why}
    view = run.view
    return {
        "run": view.run,
        "flow": view.plan.flow,
        "from": view.came_from or "-",
        "started": date(view.started),
        "status": "DAMAGED" if view.damage else run.word,
        "rounds": view.state.position.round,
        "turns": view.answered,
        "tokens": tokens(view.bill.tokens),
        "cost": dollars(view.bill.cost),
        "asked for": view.asked_for,
    }


@command(
    app,
    "logos log                    # the newest run",
    "logos log k3 --follow        # the run whose id begins with k3, and new events as they come",
    "logos log --json | jq '.events[] | select(.kind == \"turn_answered\") | .turn'",
)
def log(
    run: OneRun = None,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Continue until the run ends; with --json: one JSON line per event.")
    ] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Show the events of a run. `logos show RUN TURN` shows a whole prompt and its response."""
    place = place_of(wd)
    with reading(place) as source:
        found = find_run(source, run)
        records = _following(source, found, place, page.tell) if follow else source.read(found)
        if as_json and not follow:
            page.document(documents.events_document(found, [event_document(record) for record in records]))
        elif as_json:
            for record in records:
                page.json_line(event_document(record))
        else:
            _put_events(records)


def _put_events(records: Iterator[Recorded]) -> None:
    formatter, target = event_formatter(), page.console()
    for record in records:
        first, *more = formatter.lines(record)
        page.put_line(target, first, f"{record.seq:>4}  ")
        for line in more:
            page.put_line(target, line, " " * 6)


def _following(source: Log, run: RunId, place: Path, tell: Callable[[str], None]) -> Iterator[Recorded]:
    """Events as they come, until the run has ended and its driver has left."""
    command, ended, alone = "", False, False
    for record in source.watch(run):
        if record is not None:
            event = record.event
            command = FLOW_WORDS[event.plan.flow].command if isinstance(event, RunStarted) else command
            ended = isinstance(event, RunEnded) or (ended and not isinstance(event, RunResumed))
            yield record
            continue
        driver = driver_at(place)
        if ended and driver is None:
            return
        if driver is None and not alone:
            tell(f"no driver is attached to run {run}; `{command} --resume` continues it, Ctrl-C ends this")
        alone = driver is None


@command(
    app,
    "logos show k3                    # the turns of the run whose id begins with k3",
    "logos show k3 r1.tester          # prompt and response of that turn",
    "logos show k3 r2.verify --json",
    "logos show k3 s1.L2.cart.author  # of a build: level 2, component cart",
)
def show(
    run: ThisRun,
    turn: Annotated[str | None, argument("TURN", "A turn id or its beginning; default: list the turns.")] = None,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """List the turns of a run, or show the whole prompt and response of one. Secrets are redacted."""
    status = _load(wd, run)
    found = _find_turn(status.view, turn) if turn is not None else None
    if as_json:
        document = documents.turn_text_document(status.view, found) if found else documents.timeline_document(status)
        page.document(document)
    elif found is not None:
        _put_turn(status.view, found)
    else:
        page.put_timeline(page.console(), status.view)


def _find_turn(view: RunView, wanted: str) -> TurnView:
    """The turn with this id, or the only one whose id begins with it."""
    matches = [turn for turn in view.turns if turn.turn == wanted]
    matches = matches or [turn for turn in view.turns if wanted and turn.turn.startswith(wanted)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(turn.turn for turn in matches)
        raise UsageError(f"{wanted!r} is the beginning of {len(matches)} turns: {names}")
    known = ", ".join(turn.turn for turn in view.turns) or "none yet"
    raise UsageError(f"run {view.run} has no turn {wanted!r}; it has {known}")


def _put_turn(view: RunView, turn: TurnView) -> None:
    target = page.console()
    took = f", {duration(turn.seconds)}" if turn.seconds is not None else ", not answered yet"
    page.put(target, f"run {view.run}, turn {turn.turn} ({turn.who}{took})", "bold")
    if turn.bills:
        page.put(target, f"usage: {in_words(turn.usage)}")
    if turn.verdict:
        page.put(target, f"verdict: {turn.verdict}", page.STYLES[severity_of(turn.verdict)])
    if turn.failure:
        page.put(target, f"failed: {turn.failure}", page.STYLES[Severity.BAD])
    for title, text in (("prompt", turn.prompt), ("response", turn.response)):
        page.put(target, f"\n--- {title}, {number(len(text))} characters ---", "bold cyan")
        page.whole(text)


_GROUPS = {"cycle": ("roles", "phases", "rounds"), "levels": ("levels", "kinds", "sweeps")}
_COST_HEADERS = ("", "turns", "input", "cached", "output", "tokens", "cost", "tokens unknown in", "cost unknown in")


@command(app, "logos cost", "logos cost k3 --json | jq .usage_by.roles.tester.cost_usd")
def cost(run: OneRun = None, wd: WorkDir = None, as_json: AsJson = False) -> None:
    """Show tokens and dollars per role, phase and round, and for how many turns they are unknown.

    For a build: per level, kind of turn and sweep.
    """
    status = _load(wd, run)
    view, groups = status.view, _grouped(status.view)
    if as_json:
        page.document(documents.cost_document(status, groups))
        return
    target, total = page.console(), view.bill
    simulated = " (simulated)" if view.simulated else ""
    words = sum_in_words(total, view.characters)
    page.put(target, f"run {view.run}{simulated}: {count(total.turns, 'turn')}, {words}", "bold")
    if total.turns:
        page.put(target, "")
        rows = [
            _cost_row(f"{by.removesuffix('s')} {name.replace('_', ' ')}", spent)
            for by, group in groups.items()
            for name, spent in group.items()
        ]
        page.put_table(target, _COST_HEADERS, [*rows, _cost_row("total", total)])


def _grouped(view: RunView) -> dict[str, dict[str, Spent]]:
    """The usage of turns, grouped in three ways, in the order of the turns."""
    groups: dict[str, dict[str, Spent]] = {by: {} for by in _GROUPS[view.plan.flow]}
    for turn in view.turns:
        if turn.bills:
            for by, name in zip(groups, _groups_of(turn), strict=True):
                groups[by][name] = groups[by].get(name, Spent()).plus(*turn.bills)
    return groups


def _groups_of(turn: TurnView) -> tuple[str, str, str]:
    level = level_turn(turn.turn)
    if level is not None:
        return level.level.name, level.kind.value, str(level.sweep)
    phase = phase_def_of(Role(turn.agent)).phase.value if turn.agent in set(Role) else "-"
    return turn.agent, phase, turn.turn.partition(".")[0].removeprefix("r")


def _cost_row(title: str, spent: Spent) -> tuple[object, ...]:
    usage = spent.usage
    known = (tokens(usage.input), tokens(usage.cached), tokens(usage.output), tokens(usage.tokens))
    return (title, spent.turns, *known, dollars(usage.cost_usd), spent.tokens_unknown, spent.cost_unknown)
