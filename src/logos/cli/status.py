"""`logos status`: where the newest run stands, and what to do next."""

import time
from pathlib import Path

from rich.console import Console

from logos.app.activity import activities
from logos.app.registry import place_of_run
from logos.app.runs import read_status
from logos.app.workdir import has_log, wd_flag
from logos.cli.options import AsJson, OneRun, WorkDir, command
from logos.cli.output import console as show
from logos.errors import NoRunYet
from logos.views.document import VERSION, status_document
from logos.views.events import Severity
from logos.views.findings import findings_in_words
from logos.views.redact import one_line
from logos.views.run import RunView, TurnView
from logos.views.status import Activity, RunStatus, next_command
from logos.views.text import clock, count, cut, date, duration
from logos.views.usage import sum_in_words

_MOST_FINDINGS = 10
MAX_STEP = 160


@command("logos status", "logos status k3ab   # a run of any work dir", "logos status --json --wd ~/project")
def status(run: OneRun = None, wd: WorkDir = None, as_json: AsJson = False) -> None:
    """Show a run: its outcome or where it stands, which agents are at work, and the command to use next."""
    place = place_of_run(run, wd)
    found = _read(place, run)
    if as_json and found is None:
        show.document({"version": VERSION, "run": None, "wd": str(place), "next": "logos run"})
    elif as_json and found is not None:
        show.document(status_document(found, next_command(found, wd_flag(place)), activities(found)))
    elif found is None:
        show.put(show.console(), f"no run was started in {place} yet; next: logos init, then logos run")
    else:
        _put_status(found, wd_flag(place))


def _read(place: Path, run: str | None) -> RunStatus | None:
    """The run that was named, or the newest; None where there is none."""
    if run is not None:
        return read_status(place, run)
    try:
        return read_status(place, None) if has_log(place) else None
    except NoRunYet:
        return None


def _put_status(status: RunStatus, at: str) -> None:
    view, target = status.view, show.console()
    simulated = " (simulated)" if view.simulated else ""
    head = f"{view.words.run} {view.run}{simulated}: {status.in_words}, {status.reason}"
    show.put(target, head, show.STYLES[status.severity])
    came_from = f" at {view.came_from}" if view.came_from else ""
    when = f"began {date(view.started)}{came_from}, last event {date(view.last)}"
    answered = f"{count(view.answered, 'turn')} answered, {sum_in_words(view.bill, view.characters)}"
    show.put(target, f"{when}; {count(len(view.own_sessions), 'session')}, {view.rounds_in_words}, {answered}")
    does = activities(status)
    for turn in status.in_flight:
        show.put(target, _in_flight(status, turn, does.get(turn.turn)))
        if turn.waits and (status.driver is not None or turn.turn not in does or does[turn.turn].running):
            show.put(target, f"it waits for you: {turn.waits}", show.STYLES[Severity.ALARM])
        if turn.rests and status.driver is not None:
            show.put(target, f"it rests: {turn.rests}", show.STYLES[Severity.WARNING])
        if turn.turn in does and (last := does[turn.turn].last):
            show.put(target, f"its last step: {cut(one_line(last), MAX_STEP)}")
    if view.outcome is None:
        show.put(target, f"driver: pid {status.driver}" if status.driver else "no driver is attached to it")
    _put_findings(target, view)
    if view.damage:
        show.put(target, f"damaged: {view.damage}", show.STYLES[Severity.BAD])
    if view.question is not None:
        show.put_question(target, view.question, at)
        show.put(target, "")
    show.put(target, f"next: {next_command(status, at)}", "bold", whole=True)


def _in_flight(status: RunStatus, turn: TurnView, does: Activity | None) -> str:
    """Who has a turn that is not answered, and since when; an agent may have ended, or work on without a driver."""
    terminal, article = status.terminal_of(turn), "the " if status.view.build is None else ""
    where = f" in terminal {terminal.id} ({terminal.provider})" if terminal else ""
    # What an agent on a server does now is not known here.
    if status.driver is None and (terminal is None if does is None else not does.running):
        ended = "; its process has ended" if does is not None else ""
        return f"{turn.turn} is not answered: {article}{turn.who}{where} was asked at {clock(turn.asked)}{ended}"
    alone = ", who works on without a driver," if status.driver is None and does is not None else ""
    return f"{turn.turn} is with {article}{turn.who}{where}{alone} since {clock(turn.asked)} ({_since(turn)})"


def _since(turn: TurnView) -> str:
    return duration(time.time() - turn.asked)


def _put_findings(target: Console, view: RunView) -> None:
    """The number of findings, and those that stand."""
    if not view.findings:
        return
    show.put(target, f"findings: {findings_in_words(view.findings)}")
    standing = [finding for finding in view.findings if not finding.is_settled]
    for finding in standing[:_MOST_FINDINGS]:
        show.put(target, f"  {finding.id} {finding.state}, {finding.raised_by.replace('_', ' ')}: {finding.text}")
    if len(standing) > _MOST_FINDINGS:
        show.put(target, f"  and {len(standing) - _MOST_FINDINGS} more; `logos report` lists them")
