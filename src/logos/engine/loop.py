"""The loop of a driver: start what is due, receive an event, append it, apply it. It works for every flow."""

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import Any

from logos.domain.events import Event, Noted, RunEnded, Topic
from logos.domain.turns import Action, Outcome, TurnId
from logos.engine.journal import Journal
from logos.engine.messages import MessageTaker
from logos.errors import HostError, RunPaused

logger = logging.getLogger(__name__)

WAKE_SECONDS = 1.0


class Stopped(Exception):
    """The driver is stopping; agents keep working on turns in flight."""


@dataclass(frozen=True, slots=True)
class WorkerMessage:
    """What a worker sends: an event to record, or the end of its action."""

    action: TurnId
    event: Event | None = None
    then: Callable[[], None] = lambda: None
    broke: BaseException | None = None
    recorded: threading.Event = field(default_factory=threading.Event)


# What the loop waits for; None: a person may have sent a message.
Queue = SimpleQueue[WorkerMessage | None]


class WorkerContext:
    """A worker's connection to the loop: `post` returns once the event is durable."""

    def __init__(self, action: TurnId, queue: Queue, stop: threading.Event) -> None:
        self.action = action
        self._queue = queue
        self.stop = stop

    def post(self, event: Event, then: Callable[[], None] = lambda: None) -> None:
        """Record `event` and call `then` before any action is started that becomes due by it."""
        message = WorkerMessage(self.action, event, then)
        self._queue.put(message)
        while not message.recorded.wait(0.2):
            self.check()

    def check(self) -> None:
        if self.stop.is_set():
            raise Stopped


Perform = Callable[[Action, WorkerContext], None]
Job = Callable[[WorkerContext], None]


def drive(
    journal: Journal[Any],
    perform: Perform,
    stop: threading.Event,
    check_budget: Callable[[], None] = lambda: None,
    background: Mapping[TurnId, Job] = MappingProxyType({}),
    messages: MessageTaker | None = None,
    wait_for_person: Callable[[], bool] = lambda: False,
) -> Outcome | None:
    """Run until there is an outcome (returned) or nothing more can be done now (None).

    `check_budget` is called before an action is started. When it raises RunPaused, no more actions are started; it is
    raised again once the actions in progress are done. Jobs in the `background` run beside the actions from the start,
    and to their end. `messages` takes in what persons say meanwhile. `wait_for_person` is called again and again while
    nothing is in progress; it returns whether a person's decision is waited for.
    """
    fold, queue = journal.fold, Queue()
    busy: set[TurnId] = set(background)
    budget_reached: RunPaused | None = None
    if messages is not None:
        messages.inbox.watch(partial(queue.put, None))
    try:
        for name, job in background.items():
            _start(job, WorkerContext(name, queue, stop), queue)
        while (fold.outcome is None or busy & background.keys()) and not stop.is_set():
            if messages is not None:
                messages.take()
            due = fold.flow.due(fold.state)
            new = [action for action in due if action.id not in busy]
            if new and budget_reached is None:
                try:
                    check_budget()
                except RunPaused as paused:
                    budget_reached = paused
            # A worker whose action is no longer due has answered already.
            if budget_reached is not None and not busy & {*background, *(action.id for action in due)}:
                raise budget_reached
            for action in new if budget_reached is None else ():
                logger.info("starting %s", action.id)
                busy.add(action.id)
                _start(partial(perform, action), WorkerContext(action.id, queue, stop), queue)
            if not busy and not wait_for_person():
                return None
            # Wakes up now and then: a signal that arrives just before a wait does not end that wait.
            with suppress(Empty):
                if (message := queue.get(timeout=WAKE_SECONDS)) is not None:
                    _receive(message, journal, busy)
        if fold.outcome is not None and not fold.ended:
            # A PASS of a run whose records were changed is not believed.
            journal.check_records(verify=True)
            journal.record(RunEnded(fold.outcome, fold.verified))
        return fold.outcome
    finally:
        stop.set()


def _start(job: Job, context: WorkerContext, queue: Queue) -> None:
    def work() -> None:
        broke: BaseException | None = None
        try:
            job(context)
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            broke = error
        queue.put(WorkerMessage(context.action, broke=broke))

    # Daemon threads: a worker stuck in a slow request must not keep a stopped driver alive.
    threading.Thread(target=work, name=context.action, daemon=True).start()


def _receive(message: WorkerMessage, journal: Journal[Any], busy: set[TurnId]) -> None:
    if message.event is not None:
        logger.debug("%s: recording %s", message.action, type(message.event).__name__)
        journal.record(message.event)
        message.then()
        message.recorded.set()
        return
    busy.discard(message.action)
    if isinstance(message.broke, HostError) and journal.fold.outcome is not None:
        # What runs in the background changes no outcome.
        journal.record(Noted(Topic.WARNING, f"{message.action}: {message.broke}"))
    elif message.broke is not None:
        raise message.broke
