"""Notifies a person of what happens in a run while nobody looks: in the background, once, and never fatal."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from logos.adapters.notifications import NtfyTopic, SentOnce, Target
from logos.adapters.store.mirror import state_folder
from logos.app.settings import Settings
from logos.app.web_address import web_address
from logos.domain.events import Recorded
from logos.domain.ledger import Ledger
from logos.domain.turns import RunId, TurnId
from logos.flows.fold import RunState
from logos.views.notices import Notice, NoticeFold, SilentTurns, body_of
from logos.views.redact import clean, one_line
from logos.views.run import RunView

Tell = Callable[[str], object]
SENT = "notified"
_ADDRESS = re.compile(r"https?://[^\s/]+")
# How long a driver that ends waits for messages under way.
CLOSE_SECONDS = 15.0


class Notifier:
    """A watcher of a run's events that sends notices. `earlier` is the run as an earlier driver left it.

    One thread finds what is due by the clock, and each message is sent in a thread of its own: a service that does not
    answer delays neither the run nor other messages.
    """

    def __init__(
        self,
        settings: Settings,
        run: RunId,
        tell: Tell,
        earlier: RunView | None = None,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._tell = tell
        self._now = now
        self._wall = wall
        self._fold = NoticeFold()
        self._silent = SilentTurns(settings.notifications.stalled_minutes * 60)
        self._remind_seconds = settings.gates.remind_minutes * 60
        self._run = run
        self._sent = SentOnce(_sent_folder(), run)
        self._changed = threading.Condition()
        self._closed = False
        self._sending: list[threading.Thread] = []
        self._targets: list[Target] | None = None
        self._making_targets = threading.Lock()
        if earlier is not None:
            self._learn(earlier)
        self._reminded = self._reminders_due()
        self._clock = threading.Thread(target=self._keep_time, name="notifications", daemon=True)
        self._clock.start()

    def _learn(self, earlier: RunView) -> None:
        """Know what earlier drivers have told of; a gate that is still open is told of, where they have not."""
        for record, state in zip(earlier.records, earlier.states, strict=True):
            self._fold.add(record, state)
            self._silent.add(record, earlier.ledger, self._now())
        if self._fold.gate is not None:
            self.send(self._fold.gate.notice)

    def watch(self, record: Recorded, state: RunState, ledger: Ledger) -> None:
        with self._changed:
            notice = self._fold.add(record, state)
            self._silent.add(record, ledger, self._now())
            self._changed.notify()
        if notice is not None:
            self.send(notice)

    def alive(self, turn: TurnId) -> None:
        """The agent of a turn gives a sign of life."""
        with self._changed:
            self._silent.alive(turn, self._now())

    def send(self, notice: Notice) -> None:
        """Send a notice in the background, unless it was sent before."""
        thread = threading.Thread(target=self._send, args=(notice,), name=f"notify {notice.key}", daemon=True)
        with self._changed:
            self._sending = [other for other in self._sending if other.is_alive()]
            self._sending.append(thread)
        thread.start()

    def close(self) -> None:
        """Wait until the messages under way are sent, but not long."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        end = self._now() + CLOSE_SECONDS
        for thread in (self._clock, *self._sending):
            thread.join(max(end - self._now(), 0))
        if any(thread.is_alive() for thread in self._sending):
            self._tell(f"notifications: not everything was sent within {CLOSE_SECONDS:.0f} s")

    def _send(self, notice: Notice) -> None:
        place = str(self._settings.work_dir)
        body = clean(body_of(notice, self._run, place, _page_of(self._run)))
        attempts = [
            threading.Thread(target=self._attempt, args=(target, one_line(notice.title), body, notice), daemon=True)
            for target in self._all_targets()
            if self._sent.claim(notice.key, target)
        ]
        for attempt in attempts:
            attempt.start()
        for attempt in attempts:
            attempt.join()

    def _attempt(self, target: Target, title: str, body: str, notice: Notice) -> None:
        try:
            problem = target.send(title, body, notice.severity)
        except Exception as error:  # noqa: BLE001 - a hundred services, and none of them may end a run
            problem = f"notification not sent: {target.name}: {type(error).__name__}"
        if problem:
            self._tell(problem)

    def _all_targets(self) -> list[Target]:
        with self._making_targets:
            if self._targets is None:
                self._targets = [*_targets(self._settings, self._tell)]
            return self._targets

    def _keep_time(self) -> None:
        # Before anything is sent, so that a person hears early of an address that is wrong.
        self._all_targets()
        while True:
            with self._changed:
                if self._closed:
                    return
                due = [*self._due()]
                if not due:
                    self._changed.wait(self._pause())
            for notice in due:
                self.send(notice)

    def _due(self) -> Iterator[Notice]:
        yield from self._silent.due(self._now())
        gate, number = self._fold.gate, self._reminders_due()
        if gate is not None and number > self._reminded:
            self._reminded = number
            yield gate.reminder(number, self._wall())
        elif gate is None:
            self._reminded = 0

    def _reminders_due(self) -> int:
        """How often a person should have been reminded of the open gate so far."""
        gate, seconds = self._fold.gate, self._remind_seconds
        return int(max(self._wall() - gate.at, 0.0) / seconds) if gate is not None and seconds else 0

    def _pause(self) -> float | None:
        """Until something can be due; None: until an event."""
        pauses: list[float] = []
        if (silent_at := self._silent.next_at) is not None:
            pauses.append(silent_at - self._now())
        if self._fold.gate is not None and self._remind_seconds:
            pauses.append(self._fold.gate.at + (self._reminders_due() + 1) * self._remind_seconds - self._wall())
        return max(min(pauses), 0.0) if pauses else None


class NoNotifier:
    """Of a run whose person has given no address."""

    def watch(self, record: Recorded, state: RunState, ledger: Ledger) -> None:
        pass

    def alive(self, turn: TurnId) -> None:
        pass

    def send(self, notice: Notice) -> None:
        pass

    def close(self) -> None:
        pass


def notifier_for(settings: Settings, run: RunId, tell: Tell, earlier: RunView | None) -> Notifier | NoNotifier:
    own = settings.notifications
    return Notifier(settings, run, tell, earlier) if own.urls or own.ntfy_topic else NoNotifier()


def _page_of(run: RunId) -> str:
    """The address of a run's page, without a token: who opens it must have been let in before. Empty without a page."""
    address = web_address().rstrip("/")
    return f"{address}/runs/{run}" if _ADDRESS.fullmatch(address) else ""


def _sent_folder() -> Path | None:
    try:
        return state_folder() / SENT
    except OSError:
        return None


def _targets(settings: Settings, tell: Tell) -> Iterator[Target]:
    own = settings.notifications
    if own.ntfy_topic:
        yield NtfyTopic(own.ntfy_topic)
    if own.urls:
        apprise: Any = import_module("logos.adapters.apprise_targets")
        for found in apprise.targets_of(own.urls):
            if isinstance(found, str):
                tell(f"warning: {found}")
            else:
                yield cast(Target, found)
