"""Waits for one response: observe, decide, act, until it is there or cannot come."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from logos.domain.events import Event, Noted, Source, Topic
from logos.domain.turns import FailureKind, Status, TerminalId, TurnId
from logos.errors import DeliveryUnknown, HostError
from logos.ports import AgentHost, ChangeSignal, Responses, Screen, TurnReporter
from logos.waiting import rules, screens
from logos.waiting.rules import Act, Decision, Observation, WaitRules, WaitState

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


EXACT_GRACE_SECONDS = 0.1

_STATUSES = {status.value: status for status in Status}


def status_of(host: AgentHost, terminal: TerminalId) -> Status:
    """A terminal's status; UNKNOWN for a word we do not know."""
    return _STATUSES.get(str(host.get_status(terminal)), Status.UNKNOWN)


def rules_for(chosen: WaitRules, host: AgentHost) -> WaitRules:
    """The waiting rules on a host that runs the turns itself: a process that ended is done at once."""
    if not isinstance(host, TurnReporter):
        return chosen
    grace, reminders = min(chosen.idle_grace, EXACT_GRACE_SECONDS), chosen.max_reminders if chosen.strict else 0
    return replace(chosen, idle_grace=grace, max_reminders=reminders, exact=True)


@dataclass(frozen=True, slots=True)
class ResponseWaiter:
    host: AgentHost
    responses: Responses
    change_signal: ChangeSignal
    rules: WaitRules
    now: Callable[[], float]
    tell: Callable[[Event], None]
    check: Callable[[], None] = lambda: None

    def wait(self, pending: PendingResponse, wait_state: WaitState) -> Response:
        """Wait for the response and return it. The file stays until the caller has recorded it."""
        while True:
            seen = self.change_signal.wakeups
            observation = self.look(pending, wait_state)
            wait_state = rules.updated(wait_state, observation)
            decision = rules.decide(wait_state, observation, self.rules)
            logger.debug("%s: terminal %s is %s: %s", pending.answer, pending.terminal, observation.status, decision)
            match decision:
                case Act.ACCEPT:
                    return Response(self.responses.read(pending.answer), Source.FILE)
                case Act.FALL_BACK:
                    text = self.host.get_last_output(pending.terminal)
                    if not text.strip():
                        raise NoResponse(FailureKind.NO_FILE, "and its last output is empty")
                    return Response(text, Source.SCREEN)
                case _:
                    wait_state = self._act(decision, pending, wait_state, seen)

    def until_ready(self, pending: PendingResponse, wait_state: WaitState) -> None:
        """Return when a prompt can be typed."""
        while True:
            seen = self.change_signal.wakeups
            observation = self._see(pending, status_of(self.host, pending.terminal), None)
            wait_state = rules.updated(wait_state, observation)
            match rules.may_send(wait_state, observation, self.rules):
                case Act.ACCEPT:
                    return
                case decision:
                    wait_state = self._act(decision, pending, wait_state, seen)

    def _act(self, decision: Decision, pending: PendingResponse, wait_state: WaitState, seen: int) -> WaitState:
        """Carry out a decision that does not end the wait; returns the new wait state."""
        match decision:
            case rules.GiveUp(FailureKind.NO_FILE, ""):
                raise NoResponse(FailureKind.NO_FILE, self._last_words(pending))
            case rules.GiveUp(trouble, detail):
                raise NoResponse(trouble, detail)
            case rules.Wait(seconds):
                self.change_signal.wait(seen, seconds)
                self.check()
                return wait_state
            case Act.REMIND:
                text = f"idle without {pending.answer}: reminded of the response file"
                self.tell(Noted(Topic.REMINDED, text, pending.turn))
                # The next grace period shows whether the reminder arrived.
                with suppress(DeliveryUnknown):
                    self.host.send_input(pending.terminal, pending.reminder)
            case Act.GIVE_PERMISSION:
                self.tell(Noted(Topic.PERMISSION_GIVEN, self._question(pending), pending.turn))
                if isinstance(self.host, Screen):
                    self.host.press_key(pending.terminal, "Enter")
                else:
                    self.host.send_input(pending.terminal, "")
            case _:
                self.tell(Noted(Topic.PERMISSION_ASKED, self._question(pending), pending.turn))
        return rules.acted(wait_state, decision, self.now())

    def look(self, pending: PendingResponse, wait_state: WaitState | None = None) -> Observation:
        """Observe the terminal; the screen is fetched only where it can change the decision."""
        status = status_of(self.host, pending.terminal)
        peek = self.responses.peek(pending.answer)
        if peek.problem is not None:
            raise NoResponse(FailureKind.UNFIT, peek.problem)
        if wait_state is not None and not rules.wants_screen(status, peek.fingerprint):
            return Observation(self.now(), status, peek.fingerprint)
        return self._see(pending, status, peek.fingerprint)

    def _see(self, pending: PendingResponse, status: Status, file: str | None) -> Observation:
        if isinstance(self.host, TurnReporter):
            said = self.host.provider_error(pending.terminal)
            return Observation(self.now(), status, file, provider_error=said or None)
        text = self._look_at_screen(pending.terminal)
        if text is None:
            return Observation(self.now(), status, file)
        fingerprint = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
        return Observation(
            self.now(), status, file, fingerprint, screens.provider_error(text), screens.shows_shell(text)
        )

    def _look_at_screen(self, terminal: TerminalId) -> str | None:
        try:
            return self.host.get_screen(terminal) if isinstance(self.host, Screen) else None
        except HostError:
            return None

    def _last_words(self, pending: PendingResponse) -> str:
        """The last lines of the output of an agent that wrote no file."""
        try:
            return " ⏎ ".join(screens.last_lines(self.host.get_last_output(pending.terminal), 5))[:600]
        except HostError:
            return ""

    def _question(self, pending: PendingResponse) -> str:
        """The question that the agent's screen shows."""
        text = self._look_at_screen(pending.terminal)
        lines = screens.last_lines(text, 6) if text else []
        return f"terminal {pending.terminal} waits for a person: " + (" ⏎ ".join(lines) or "no text on its screen")
