"""Waits for one response: observe, decide, act, until it is there or cannot come."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from logos.domain.events import Event, Noted, Source, Topic
from logos.domain.turns import FailureKind, Status, TerminalId, TurnId
from logos.errors import DeliveryUnknown, HostError
from logos.ports import AgentHost, ChangeSignal, Responses, Screen, TurnReporter
from logos.waiting import screens
from logos.waiting.rules import (
    Act,
    Decision,
    GiveUp,
    Observation,
    Wait,
    WaitRules,
    WaitState,
    after_permission,
    after_permission_shown,
    after_reminder,
    decide,
    may_send,
    updated,
    wants_screen,
)

logger = logging.getLogger(__name__)


class NoResponse(Exception):
    """A turn ended without a response."""

    def __init__(self, trouble: FailureKind, detail: str = "") -> None:
        super().__init__(detail or trouble.value)
        self.trouble = trouble
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Response:
    text: str
    source: Source


@dataclass(frozen=True, slots=True)
class PendingResponse:
    """The response that is waited for."""

    terminal: TerminalId
    answer: str
    turn: TurnId | None = None
    reminder: str = ""


Tell = Callable[[Event], None]

_STATUSES = {status.value: status for status in Status}


def status_of(host: AgentHost, terminal: TerminalId) -> Status:
    """A terminal's status; UNKNOWN for a word we do not know."""
    return _STATUSES.get(str(host.get_status(terminal)), Status.UNKNOWN)


class ResponseWaiter:
    def __init__(
        self,
        host: AgentHost,
        responses: Responses,
        change_signal: ChangeSignal,
        rules: WaitRules,
        now: Callable[[], float],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._host = host
        self._screen = host if isinstance(host, Screen) else None
        self._responses = responses
        self._change_signal = change_signal
        self._rules = rules
        self._now = now
        self._check = check

    def wait(self, pending: PendingResponse, wait_state: WaitState, tell: Tell) -> Response:
        """Wait for the response and return it. The file stays until the caller has recorded it."""
        while True:
            seen = self._change_signal.wakeups
            observation = self.look(pending, wait_state)
            wait_state = updated(wait_state, observation)
            decision = decide(wait_state, observation, self._rules)
            logger.debug("%s: terminal %s is %s: %s", pending.answer, pending.terminal, observation.status, decision)
            match decision:
                case Act.ACCEPT:
                    return Response(self._responses.read(pending.answer), Source.FILE)
                case Act.FALL_BACK:
                    return self._fall_back(pending)
                case _:
                    wait_state = self._act(decision, pending, wait_state, seen, tell)

    def until_ready(self, pending: PendingResponse, wait_state: WaitState, tell: Tell) -> None:
        """Return when a prompt can be typed."""
        while True:
            seen = self._change_signal.wakeups
            observation = self._see(pending, status_of(self._host, pending.terminal), None)
            wait_state = updated(wait_state, observation)
            match may_send(wait_state, observation, self._rules):
                case Act.ACCEPT:
                    return
                case decision:
                    wait_state = self._act(decision, pending, wait_state, seen, tell)

    def _act(
        self, decision: Decision, pending: PendingResponse, wait_state: WaitState, seen: int, tell: Tell
    ) -> WaitState:
        """Carry out a decision that does not end the wait; returns the new wait state."""
        match decision:
            case GiveUp(FailureKind.NO_FILE, ""):
                raise NoResponse(FailureKind.NO_FILE, self._last_words(pending))
            case GiveUp(trouble, detail):
                raise NoResponse(trouble, detail)
            case Act.REMIND:
                self._remind(pending, tell)
                return after_reminder(wait_state, self._now())
            case Act.SHOW_PERMISSION:
                tell(Noted(Topic.PERMISSION_ASKED, self._question(pending), pending.turn))
                return after_permission_shown(wait_state)
            case Act.GIVE_PERMISSION:
                tell(Noted(Topic.PERMISSION_GIVEN, self._question(pending), pending.turn))
                self._say_yes(pending)
                return after_permission(wait_state, self._now())
            case Wait(seconds):
                self._change_signal.wait(seen, seconds)
                self._check()
                return wait_state
            case Act.ACCEPT | Act.FALL_BACK:
                return wait_state

    def look(self, pending: PendingResponse, wait_state: WaitState | None = None) -> Observation:
        """Observe the terminal; the screen is fetched only where it can change the decision."""
        status = status_of(self._host, pending.terminal)
        peek = self._responses.peek(pending.answer)
        if peek.problem is not None:
            raise NoResponse(FailureKind.UNFIT, peek.problem)
        if wait_state is not None and not wants_screen(status, peek.fingerprint):
            return Observation(self._now(), status, peek.fingerprint)
        return self._see(pending, status, peek.fingerprint)

    def _see(self, pending: PendingResponse, status: Status, file: str | None) -> Observation:
        if isinstance(self._host, TurnReporter):
            said = self._host.provider_error(pending.terminal)
            return Observation(self._now(), status, file, provider_error=said or None)
        text = self._look_at_screen(pending.terminal)
        if text is None:
            return Observation(self._now(), status, file)
        fingerprint = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
        return Observation(
            self._now(), status, file, fingerprint, screens.provider_error(text), screens.shows_shell(text)
        )

    def _look_at_screen(self, terminal: TerminalId) -> str | None:
        if self._screen is None:
            return None
        try:
            return self._screen.get_screen(terminal)
        except HostError:
            return None

    def _fall_back(self, pending: PendingResponse) -> Response:
        text = self._host.get_last_output(pending.terminal)
        if not text.strip():
            raise NoResponse(FailureKind.NO_FILE, "and its last output is empty")
        return Response(text, Source.SCREEN)

    def _last_words(self, pending: PendingResponse) -> str:
        """The last lines of the output of an agent that wrote no file."""
        try:
            return " ⏎ ".join(screens.last_lines(self._host.get_last_output(pending.terminal), 5))[:600]
        except HostError:
            return ""

    def _remind(self, pending: PendingResponse, tell: Tell) -> None:
        tell(Noted(Topic.REMINDED, f"idle without {pending.answer}: reminded of the response file", pending.turn))
        # The next grace period shows whether the reminder arrived.
        with suppress(DeliveryUnknown):
            self._host.send_input(pending.terminal, pending.reminder)

    def _question(self, pending: PendingResponse) -> str:
        """The question that the agent's screen shows."""
        text = self._look_at_screen(pending.terminal)
        lines = screens.last_lines(text, 6) if text else []
        return f"terminal {pending.terminal} waits for a person: " + (" ⏎ ".join(lines) or "no text on its screen")

    def _say_yes(self, pending: PendingResponse) -> None:
        if self._screen is not None:
            self._screen.press_key(pending.terminal, "Enter")
        else:
            self._host.send_input(pending.terminal, "")
