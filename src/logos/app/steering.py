"""What a person decides and says while a run goes on or waits: gates, questions, permissions, guidance.

A live driver alone appends to its log: what is for it goes into the inbox of the log, and the driver takes it in.
Without a driver, this process takes the lock and does what the driver would have done.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from logos.adapters.inbox import FileInbox, inbox_of, new_message
from logos.app.person import require_person
from logos.app.registry import place_of_run
from logos.app.run_state import state_file_writer
from logos.app.runs import driven_run, load_run, newest_of, read_report
from logos.app.setting_sources import settings_of
from logos.app.settings import Settings
from logos.app.workdir import Tell, WorkDir, driver_at, driving, find_run, reading, say
from logos.domain.events import GateDecided, Message, PermissionDecided, PersonEvent, PersonSaid, QuestionResolved
from logos.domain.plans import LevelsPlan, Plan
from logos.domain.turns import AgentName, RunId, TurnId
from logos.engine.journal import Journal
from logos.engine.messages import MessageTaker
from logos.errors import Busy, LogError, LogosError, UsageError
from logos.flows.fold import RunFold
from logos.flows.persons import decided_in_words, problem_with
from logos.ports import RunLog
from logos.views.events import EventFormatter

_LOOK_SECONDS = 0.01
_REMIND_SECONDS = 10.0
# A driver takes a message within milliseconds, unless it is just starting, or stopped.
TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a person said is event `seq` of a run; `text` is the event in words. `driven`: a driver goes on with it."""

    place: Path
    run: RunId
    seq: int
    text: str
    driven: bool = False


def approve(run: str | None = None, *, gate: str | None = None, wd: Path | None = None, tell: Tell = say) -> Delivered:
    """Approve the gate at which a run waits, or grant the permission that its agent asks for.

    `run` is the newest run of the work dir unless given. Where several things wait, `gate` is the id of the one that is
    meant: of a gate, or of the turn whose agent asks. UsageError names the reason if nothing waits, or if somebody else
    has decided already.
    """
    return _decide(run, gate, wd, tell, approved=True, words="")


def reject(
    run: str | None, words: str, *, gate: str | None = None, wd: Path | None = None, tell: Tell = say
) -> Delivered:
    """Reject it: the words at a gate go back to the author. A permission that is refused needs none."""
    return _decide(run, gate, wd, tell, approved=False, words=words)


def answer(
    run: str | None, words: str, *, question: str | None = None, wd: Path | None = None, tell: Tell = say
) -> Delivered:
    """Answer the question that a build is blocked on: an option's number, a decision in plain words, or both.

    Without `run`, it is the newest build; `question` is the id of the question that is meant, if that matters.
    """
    place, fold = _found(run, wd, "decide this", kind=LevelsPlan)
    asked = fold.state.question
    if asked is None or question not in (None, asked.id):
        raise UsageError(f"there is no open question: run {fold.run} is not blocked on {question or 'one'}")
    return deliver(place, fold, QuestionResolved(asked.id, *read_answer(words, len(asked.options))), tell)


def say_to(
    run: str | None, text: str, agent: str | None = None, *, wd: Path | None = None, tell: Tell = say
) -> Delivered:
    """Tell an agent something: its next prompt has it, as a person's. Without `agent`, whoever is asked next."""
    place, fold = _found(run, wd, "guide another one")
    return deliver(place, fold, PersonSaid(text.strip(), AgentName(agent) if agent else None), tell)


def grant(run: str | None, turn: str, granted: bool, *, wd: Path | None = None, tell: Tell = say) -> Delivered:
    """Answer the permission prompt that the agent of a turn shows; its driver presses the key."""
    place, fold = _found(run, wd, "decide this")
    return _grant(place, fold, TurnId(turn), granted, tell)


def _found(run: str | None, wd: Path | None, doing: str, kind: type[Plan] | None = None) -> tuple[Path, RunFold[Any]]:
    """The work dir of a run, and the run as it is now; without a name, the newest (of a flow)."""
    place = place_of_run(run, wd)
    require_person(place, doing)
    with reading(place) as log:
        found = newest_of(log, kind) if run is None and kind is not None else None
        return place, _whole(log, found or find_run(log, run.partition("@")[0] if run else None))


def _whole(log: RunLog, run: RunId) -> RunFold[Any]:
    view = load_run(log, run)
    if view.damage:
        raise LogError(view.damage)
    return view.fold


def _decide(run: str | None, gate: str | None, wd: Path | None, tell: Tell, *, approved: bool, words: str) -> Delivered:
    place, fold = _found(run, wd, "decide this")
    wanted = TurnId(gate or _only_one(fold))
    if wanted in fold.ledger.asking:
        return _grant(place, fold, wanted, approved, tell)
    return deliver(place, fold, GateDecided(wanted, approved, words.strip()), tell)


def _only_one(fold: RunFold[Any]) -> str:
    """The one gate or permission that a run waits for."""
    gate = fold.state.gate
    open_ = [*([gate.id] if gate is not None else []), *fold.ledger.asking] if fold.outcome is None else []
    if len(open_) == 1:
        return open_[0]
    if open_:
        raise UsageError(f"run {fold.run} waits for {len(open_)} decisions; choose one with --gate: {', '.join(open_)}")
    if fold.state.question is not None:
        raise UsageError(f"build {fold.run} is blocked on a question: `logos resolve` shows and answers it")
    decided = [decided_in_words(gate) for gate in fold.ledger.decided.values()]
    why = f"it has ended: {fold.outcome}" if fold.outcome is not None else "it waits for nothing"
    raise UsageError("; ".join([f"run {fold.run} needs no decision: {why}", *decided[-1:]]))


def _grant(place: Path, fold: RunFold[Any], turn: TurnId, granted: bool, tell: Tell) -> Delivered:
    with reading(place) as log:
        if driven_run(place, log) != fold.run:
            raise UsageError(
                f"no driver is attached to run {fold.run} that could press the key: `logos resume {fold.run}` starts "
                "one; if the agent still asks then, you are told again"
            )
    return deliver(place, fold, PermissionDecided(turn, granted), tell)


def read_answer(words: str, options: int) -> tuple[int, str]:
    """The number of an option and words, of which one may be missing; 0: no option."""
    first, _, rest = words.strip().partition(" ")
    number = first.isdecimal() and len(first) < 6
    option, text = (int(first), rest.strip()) if number else (0, words.strip())
    if number and not 1 <= option <= options:
        has = f"options 1 to {options}" if options else "no options; decide in plain words"
        raise UsageError(f"there is no option {first}: this question has {has}")
    if not (option or text):
        raise UsageError("the decision is empty")
    return option, text


def deliver(
    place: Path, fold: RunFold[Any], event: PersonEvent, tell: Tell = say, timeout: float = TIMEOUT_SECONDS
) -> Delivered:
    """Make what a person says an event of a run, once; UsageError if the run cannot take it. `fold` is the run now."""
    if why := problem_with(event, fold):
        raise UsageError(why)
    inbox = inbox_of(WorkDir(place).database, tell)
    message = new_message(fold.run, event)
    try:
        inbox.put(message)
        _wait_until_taken(place, inbox, message, tell, timeout)
    except BaseException as error:
        # Whoever gives up has said nothing, unless the driver was faster.
        if not inbox.withdraw(message):
            error.add_note(f"`logos log {fold.run}` shows whether it was recorded before")
        raise
    if (why := inbox.refusal(message)) is not None:
        raise UsageError(why)
    return _recorded(place, fold.run, fold.seq, message)


def _wait_until_taken(place: Path, inbox: FileInbox, message: Message, tell: Tell, timeout: float) -> None:
    """Return when the message is an event or refused; without a live driver, this process takes it in."""
    began = told = time.monotonic()
    while inbox.is_waiting(message):
        pid = driver_at(place)
        if pid is None:
            with suppress(Busy):
                take_messages(place, tell)
                continue
        now = time.monotonic()
        if now - began > timeout:
            raise LogosError(
                f"the driver (pid {pid or 'unknown'}) in {place} has not taken it within {timeout:.0f} s; "
                "nothing was changed"
            )
        if now - told > _REMIND_SECONDS:
            told = now
            tell(f"waiting for the driver (pid {pid or 'unknown'}) to take it, since {now - began:.0f} s")
        time.sleep(_LOOK_SECONDS)


def _recorded(place: Path, run: RunId, before: int, message: Message) -> Delivered:
    formatter = EventFormatter(read_report)
    with reading(place) as log:
        for record in log.read(run, before + 1):
            if getattr(record.event, "message", "") == message.id:
                text = " ".join(line.text for line in formatter.lines(record))
                return Delivered(place, run, record.seq, text, driven_run(place, log) == run)
    raise LogError(f"message {message.id} to run {run} is gone, and the log does not have it")


def take_messages(place: Path, tell: Tell = say) -> None:
    """Take in what persons have sent, as the driver of a work dir would; Busy if it has one."""
    with driving(place, tell) as log:
        inbox, open_run = inbox_of(WorkDir(place).database, tell), partial(open_journal, log, settings_of(place))
        MessageTaker(inbox, open_run).take()


def open_journal(log: RunLog, settings: Settings, run: RunId, *, driven: type[Plan] | None = None) -> Journal[Any]:
    """A run of a log that another process does not write to; of the newest run of a flow, the state file is written.

    `driven`: the driver of a run of this flow writes that file itself.
    """
    if run not in log.runs():
        raise UsageError(f"there is no run {run} in {settings.work_dir}")
    fold = _whole(log, run)
    journal = Journal[Any](log, fold)
    plan: Plan = fold.state.plan
    if not isinstance(plan, driven or ()) and newest_of(log, type(plan)) == run:
        journal.watch(state_file_writer(settings))
    return journal


def other_run(log: RunLog, settings: Settings, driven: type[Plan]) -> Callable[[RunId], Journal[Any]]:
    """For the driver of a run: the others of its log."""
    return partial(open_journal, log, settings, driven=driven)
