"""Waiting for one response: glance, remember, decide, act, until it is there or hope is lost."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from logos.domain.events import Event, Noted, Source, Topic
from logos.domain.turns import FailureKind, Status, TerminalId, TurnId
from logos.errors import DeliveryUnknown, HostError
from logos.ports import AgentHost, ChangeSignal, Responses, Screen, TurnReporter
from logos.waiting import screens
from logos.waiting.rules import (
    Accept,
    Decision,
    FallBack,
    GivePermission,
    GiveUp,
    Observation,
    Remind,
    ShowPermission,
    Wait,
    WaitRules,
    WaitState,
    decide,
    may_send,
    permitted,
    remember,
    reminded,
    shown,
    wants_screen,
)


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
    """What is being waited for."""

    terminal: TerminalId
    answer: str
    turn: TurnId | None = None
    reminder: str = ""


Tell = Callable[[Event], None]

_STATUSES = {status.value: status for status in Status}


def status_of(host: AgentHost, terminal: TerminalId) -> Status:
    """The host's word for a terminal; a word we do not know is no status."""
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

    def wait(self, case: PendingResponse, watch: WaitState, tell: Tell) -> Response:
        """The response, still in its file: whoever records it clears the file afterwards."""
        while True:
            heard = self._change_signal.wakeups
            glance = self.look(case, watch)
            watch = remember(watch, glance)
            match decide(watch, glance, self._rules):
                case Accept():
                    return Response(self._responses.read(case.answer), Source.FILE)
                case FallBack():
                    return self._fall_back(case)
                case decision:
                    watch = self._act(decision, case, watch, heard, tell)

    def until_it_listens(self, case: PendingResponse, watch: WaitState, tell: Tell) -> None:
        """Return when a prompt may be typed."""
        while True:
            heard = self._change_signal.wakeups
            glance = self._see(case, status_of(self._host, case.terminal), None)
            watch = remember(watch, glance)
            match may_send(watch, glance, self._rules):
                case Accept():
                    return
                case decision:
                    watch = self._act(decision, case, watch, heard, tell)

    def _act(self, decision: Decision, case: PendingResponse, watch: WaitState, heard: int, tell: Tell) -> WaitState:
        """Do what was decided short of an end; returns the watch after it."""
        match decision:
            case GiveUp(FailureKind.NO_FILE, ""):
                raise NoResponse(FailureKind.NO_FILE, self._last_words(case))
            case GiveUp(trouble, detail):
                raise NoResponse(trouble, detail)
            case Remind():
                self._remind(case, tell)
                return reminded(watch, self._now())
            case ShowPermission():
                tell(Noted(Topic.PERMISSION_ASKED, self._question(case), case.turn))
                return shown(watch)
            case GivePermission():
                tell(Noted(Topic.PERMISSION_GIVEN, self._question(case), case.turn))
                self._say_yes(case)
                return permitted(watch, self._now())
            case Wait(seconds):
                self._change_signal.wait(heard, seconds)
                self._check()
                return watch
            case Accept() | FallBack():
                return watch

    def look(self, case: PendingResponse, watch: WaitState | None = None) -> Observation:
        """One glance; the screen is only fetched where it can matter, or when there is no watch yet."""
        status = status_of(self._host, case.terminal)
        peek = self._responses.peek(case.answer)
        if peek.problem is not None:
            raise NoResponse(FailureKind.UNFIT, peek.problem)
        if watch is not None and not wants_screen(status, peek.fingerprint):
            return Observation(self._now(), status, peek.fingerprint)
        return self._see(case, status, peek.fingerprint)

    def _see(self, case: PendingResponse, status: Status, file: str | None) -> Observation:
        if isinstance(self._host, TurnReporter):
            said = self._host.provider_error(case.terminal)
            return Observation(self._now(), status, file, provider_error=said or None)
        text = self._look_at_screen(case.terminal)
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

    def _fall_back(self, case: PendingResponse) -> Response:
        text = self._host.get_last_output(case.terminal)
        if not text.strip():
            raise NoResponse(FailureKind.NO_FILE, "and its last output is empty")
        return Response(text, Source.SCREEN)

    def _last_words(self, case: PendingResponse) -> str:
        """The end of what it said instead of writing it."""
        try:
            return " ⏎ ".join(screens.last_lines(self._host.get_last_output(case.terminal), 5))[:600]
        except HostError:
            return ""

    def _remind(self, case: PendingResponse, tell: Tell) -> None:
        tell(Noted(Topic.REMINDED, f"idle without {case.answer}: reminded of the response file", case.turn))
        # Whether it arrived or not, the next grace period tells.
        with suppress(DeliveryUnknown):
            self._host.send_input(case.terminal, case.reminder)

    def _question(self, case: PendingResponse) -> str:
        """What the agent asks a person, as far as its screen tells."""
        text = self._look_at_screen(case.terminal)
        lines = screens.last_lines(text, 6) if text else []
        return f"terminal {case.terminal} waits for a person: " + (" ⏎ ".join(lines) or "no text on its screen")

    def _say_yes(self, case: PendingResponse) -> None:
        if self._screen is not None:
            self._screen.press_key(case.terminal, "Enter")
        else:
            self._host.send_input(case.terminal, "")
