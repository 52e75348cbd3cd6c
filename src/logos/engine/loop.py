"""The drive loop: start what is due, receive an event, append it, apply it. It knows no flow by name."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from logos.domain.events import Event, RunEnded
from logos.domain.turns import Errand, Outcome, TurnId
from logos.engine.journal import Journal
from logos.errors import RunPaused

WAKE_SECONDS = 0.2


class Stopped(Exception):
    """The driver is going away; a turn in flight stays in its agent's hands."""


@dataclass(frozen=True, slots=True)
class _Mail:
    """What a worker sends: an event to record, or the end of its errand."""

    errand: TurnId
    event: Event | None = None
    then: Callable[[], None] = lambda: None
    broke: BaseException | None = None
    recorded: threading.Event = field(default_factory=threading.Event)


class Desk:
    """A worker's side of the loop: posting an event returns once it is durable."""

    def __init__(self, errand: TurnId, inbox: SimpleQueue[_Mail], stop: threading.Event) -> None:
        self._errand = errand
        self._inbox = inbox
        self.stop = stop

    def post(self, event: Event, then: Callable[[], None] = lambda: None) -> None:
        """Have `event` recorded, and `then` done before anything that becomes due by it is started."""
        mail = _Mail(self._errand, event, then)
        self._inbox.put(mail)
        while not mail.recorded.wait(0.2):
            self.check()

    def check(self) -> None:
        if self.stop.is_set():
            raise Stopped


Perform = Callable[[Errand, Desk], None]


def drive(
    journal: Journal[Any], perform: Perform, stop: threading.Event, brake: Callable[[], None] = lambda: None
) -> Outcome | None:
    """Run until there is an outcome (returned) or nothing more can be done now (None).

    `brake` is asked before something is started. When it raises RunPaused nothing more is; whoever is at work
    finishes, then it is raised.
    """
    inbox: SimpleQueue[_Mail] = SimpleQueue()
    busy: set[TurnId] = set()
    braked: RunPaused | None = None
    try:
        while journal.outcome is None and not stop.is_set():
            due = journal.due()
            new = [errand for errand in due if errand.id not in busy]
            braked = _asked(brake) if new and braked is None else braked
            # Whoever is still busy with what is no longer due has answered.
            if braked is not None and not any(errand.id in busy for errand in due):
                raise braked
            for errand in new if braked is None else ():
                busy.add(errand.id)
                _start(errand, perform, Desk(errand.id, inbox, stop), inbox)
            if not busy:
                return None
            mail = _next(inbox)
            if mail is not None:
                _receive(mail, journal, busy)
        if journal.outcome is not None and not journal.ended:
            journal.record(RunEnded(journal.outcome))
        return journal.outcome
    finally:
        stop.set()


def _asked(brake: Callable[[], None]) -> RunPaused | None:
    try:
        brake()
    except RunPaused as paused:
        return paused
    return None


def _next(inbox: SimpleQueue[_Mail]) -> _Mail | None:
    """The next mail, or None after a moment: a signal that comes just before a wait does not end that wait."""
    try:
        return inbox.get(timeout=WAKE_SECONDS)
    except Empty:
        return None


def _start(errand: Errand, perform: Perform, desk: Desk, inbox: SimpleQueue[_Mail]) -> None:
    def work() -> None:
        broke: BaseException | None = None
        try:
            perform(errand, desk)
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            broke = error
        inbox.put(_Mail(errand.id, broke=broke))

    # A daemon: a worker stuck in a slow request must not keep a stopped driver alive.
    threading.Thread(target=work, name=errand.id, daemon=True).start()


def _receive(mail: _Mail, journal: Journal[Any], busy: set[TurnId]) -> None:
    if mail.event is not None:
        journal.record(mail.event)
        mail.then()
        mail.recorded.set()
        return
    busy.discard(mail.errand)
    if mail.broke is not None:
        raise mail.broke
