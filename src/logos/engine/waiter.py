"""Waits for one response: observe, decide, act, until it is there or cannot come."""

import hashlib
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from logos.domain.events import Event, Noted, Source, Topic
from logos.domain.steps import Step, StepKind, last_action
from logos.domain.turns import FailureKind, Status, TerminalId, TurnId
from logos.engine.options import ShowStep, show_nothing
from logos.errors import DeliveryUnknown, HostError
from logos.flows.cycle.verdicts import contradicts
from logos.ports import (
    AgentHost,
    ChangeSignal,
    ExitReporter,
    Responses,
    Screen,
    StepReporter,
    TurnReporter,
    WindowChecker,
)
from logos.waiting import rules, screens
from logos.waiting.provider_errors import failure_kind_of
from logos.waiting.rules import Act, Decision, Observation, WaitRules, WaitState

logger = logging.getLogger(__name__)


class NoResponse(Exception):
    def __init__(self, trouble: FailureKind, detail: str = "") -> None:
        super().__init__(detail or trouble.value)
        self.trouble = trouble
        self.detail = detail


@dataclass(frozen=True, slots=True)
class PendingResponse:
    terminal: TerminalId
    answer: str
    turn: TurnId | None = None
    reminder: str = ""
    judges: bool = False
    agent: str = ""
    # Nobody may be told what the agent says.
    sealed: bool = False


# So many retries of a client, and so many calls that were not allowed, are named in one turn.
MAX_NAMED = 3
EXACT_GRACE_SECONDS = 0.1

_STATUSES = {status.value: status for status in Status}


def status_of(host: AgentHost, terminal: TerminalId) -> Status:
    """A terminal's status; UNKNOWN for a word we do not know."""
    return _STATUSES.get(str(host.get_status(terminal)), Status.UNKNOWN)


def check_terminal(host: AgentHost, terminal: TerminalId) -> None:
    """Raise an error unless the host knows the terminal, and its window exists."""
    status_of(host, terminal)
    if isinstance(host, WindowChecker):
        host.check_window(terminal)


def rules_for(chosen: WaitRules, host: AgentHost) -> WaitRules:
    """The waiting rules on a host that runs the turns itself: a process that ended is done at once."""
    if not isinstance(host, TurnReporter):
        return chosen
    grace, reminders = min(chosen.idle_grace, EXACT_GRACE_SECONDS), chosen.max_reminders if chosen.strict else 0
    return replace(chosen, idle_grace=grace, max_reminders=reminders, exact=True)


def _same(question: str, shown: str) -> bool:
    """Whether a screen shows the same prompt as before; clocks and spinners move."""
    return re.sub(r"[\W\d]+", "", question) == re.sub(r"[\W\d]+", "", shown)


@dataclass(frozen=True, slots=True)
class ResponseWaiter:
    host: AgentHost
    responses: Responses
    change_signal: ChangeSignal
    rules: WaitRules
    now: Callable[[], float]
    tell: Callable[[Event], None]
    check: Callable[[], None] = lambda: None
    show_step: ShowStep = show_nothing
    alive: Callable[[TurnId], object] = lambda _turn: None
    # A person's answer to the permission prompt that was shown last, once; None: there is none yet.
    decided: Callable[[], bool | None] = lambda: None
    # What was named already in this turn.
    named: set[Step] = field(default_factory=set[Step])

    def wait(self, pending: PendingResponse, wait_state: WaitState) -> tuple[str, Source]:
        """Wait for the response and return it. The file stays until the caller has recorded it."""
        while True:
            seen = self.change_signal.wakeups
            observation = self._with_answer(self.look(pending, wait_state), wait_state)
            before, wait_state = wait_state, rules.updated(wait_state, observation)
            if (wait_state.screen, wait_state.file) != (before.screen, before.file):
                self._show_life(pending)
            decision = rules.decide(wait_state, observation, self.rules)
            told = type(decision).__name__ if pending.sealed else decision
            logger.debug("%s: terminal %s is %s: %s", pending.answer, pending.terminal, observation.status, told)
            match decision:
                case Act.ACCEPT:
                    text = self.responses.read(pending.answer)
                    if why := self.refusal(pending, text):
                        said = self.host.provider_error(pending.terminal) if isinstance(self.host, TurnReporter) else ""
                        limited = failure_kind_of(said) is FailureKind.LIMIT
                        raise NoResponse(*((FailureKind.LIMIT, said) if limited else (FailureKind.CUT_OFF, why)))
                    return text, Source.FILE
                case Act.FALL_BACK:
                    text = self.host.get_last_output(pending.terminal)
                    if not text.strip():
                        raise NoResponse(FailureKind.NO_FILE, "and its last output is empty")
                    return text, Source.SCREEN
                case _:
                    # A screen that stands still may be all that is left of a terminal.
                    still = observation.at - wait_state.screen_at >= self.rules.idle_grace
                    if still and isinstance(self.host, WindowChecker):
                        self.host.check_window(pending.terminal)
                    wait_state = self._act(decision, pending, wait_state, seen)

    def refusal(self, pending: PendingResponse, text: str) -> str:
        """Why the response of an agent that has ended does not count, or an empty text; the log keeps what it says."""
        if not isinstance(self.host, ExitReporter):
            return ""
        why = self._why_refused(pending, text, self.host.exit_of(pending.terminal))
        if why:
            note = f"{pending.turn}: {why}; its response is kept in the log and not accepted"
            self.tell(Noted(Topic.WARNING, note, pending.turn, text))
        return why

    def _why_refused(self, pending: PendingResponse, text: str, ended: tuple[int, int] | None) -> str:
        if ended is None:
            # An author's work is in its files; half a verdict may say the opposite of the whole.
            return "how its process ended is not known" if pending.judges else ""
        code, at = ended
        if code:
            return f"its process ended with {code}" if code > 0 else f"its process was ended by signal {-code}"
        if self.responses.peek(pending.answer).changed_at > at:
            return "its response was changed after its process had ended"
        if pending.judges and contradicts(text, self.host.get_last_output(pending.terminal)):
            return "its response contradicts its own last message"
        return ""

    def until_ready(self, pending: PendingResponse, wait_state: WaitState) -> None:
        """Return when a prompt can be typed."""
        while True:
            seen = self.change_signal.wakeups
            observation = self._see(pending, status_of(self.host, pending.terminal), None)
            observation = self._with_answer(observation, wait_state)
            wait_state = rules.updated(wait_state, observation)
            match rules.may_send(wait_state, observation, self.rules):
                case Act.ACCEPT:
                    return
                case decision:
                    wait_state = self._act(decision, pending, wait_state, seen)

    def _with_answer(self, observation: Observation, wait_state: WaitState) -> Observation:
        if observation.status is not Status.WAITING or not wait_state.waiting:
            return observation
        return replace(observation, decided=self.decided())

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
                who = pending.turn or pending.answer
                text = f"{who}: the agent is idle and has written no response file; it is reminded of it"
                self.tell(Noted(Topic.REMINDED, text, pending.turn))
                # The next grace period shows whether the reminder arrived.
                with suppress(DeliveryUnknown):
                    self.host.send_input(pending.terminal, pending.reminder)
            case Act.GIVE_PERMISSION:
                self.tell(Noted(Topic.PERMISSION_GIVEN, self._question(pending), pending.turn))
                self._press("Enter", pending)
            case Act.GRANT | Act.DENY if _same(self._question(pending), wait_state.question):
                self._press("Enter" if decision is Act.GRANT else "Escape", pending)
            case _:
                # An answer to an earlier prompt is none to this one.
                self.decided()
                question, decision = self._question(pending), Act.SHOW_PERMISSION
                self.tell(Noted(Topic.PERMISSION_ASKED, question, pending.turn))
                wait_state = replace(wait_state, question=question)
        return rules.acted(wait_state, decision, self.now())

    def _press(self, key: str, pending: PendingResponse) -> None:
        if isinstance(self.host, Screen):
            self.host.press_key(pending.terminal, key)
        elif key == "Enter":
            self.host.send_input(pending.terminal, "")

    def look(self, pending: PendingResponse, wait_state: WaitState | None = None) -> Observation:
        """Observe the terminal; the screen is fetched only where it can change the decision."""
        status = status_of(self.host, pending.terminal)
        peek = self.responses.peek(pending.answer)
        if peek.problem is not None:
            raise NoResponse(FailureKind.UNFIT, peek.problem)
        if wait_state is not None and not rules.wants_screen(status, peek.fingerprint):
            return Observation(self.now(), status, peek.fingerprint)
        return self._see(pending, status, peek.fingerprint, follow=True)

    def _follow(self, pending: PendingResponse, screen: str | None) -> None:
        """Show what the agent does now; a client that tries again, and a call that was not allowed, are named once."""
        if isinstance(self.host, StepReporter):
            steps = self.host.new_steps(pending.terminal)
        else:
            steps = screens.steps_on(screen or "")
        if steps:
            self._show_life(pending)
        for step in steps:
            self._name(step, pending)
        if pending.turn is not None and not pending.sealed and (action := last_action(steps)):
            self.show_step(pending.turn, action)

    def _show_life(self, pending: PendingResponse) -> None:
        if pending.turn is not None:
            self.alive(pending.turn)

    def _name(self, step: Step, pending: PendingResponse) -> None:
        if step.kind is StepKind.REFUSED:
            own, text = step, f"{pending.agent or pending.answer} was not allowed: {step.text}"
        elif step.kind is StepKind.RETRY:
            # The second attempt is the same news.
            own = Step(step.kind, re.sub(r"\d+", "", step.text))
            text = f"{pending.turn or pending.answer}: its client tries again: {step.text}"
        else:
            return
        if own not in self.named and sum(named.kind is own.kind for named in self.named) < MAX_NAMED:
            self.named.add(own)
            self.tell(Noted(Topic.WARNING, text, pending.turn))

    def _see(self, pending: PendingResponse, status: Status, file: str | None, *, follow: bool = False) -> Observation:
        if isinstance(self.host, TurnReporter):
            if follow:
                self._follow(pending, None)
            said = self.host.provider_error(pending.terminal)
            return Observation(self.now(), status, file, provider_error=said or None)
        text = self._look_at_screen(pending.terminal)
        if follow:
            self._follow(pending, text)
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
            return screens.end_of(self.host.get_last_output(pending.terminal))
        except HostError:
            return ""

    def _question(self, pending: PendingResponse) -> str:
        """The question that the agent's screen shows."""
        text = self._look_at_screen(pending.terminal)
        lines = screens.last_lines(text, 6) if text else []
        return f"terminal {pending.terminal} waits for a person: " + (" ⏎ ".join(lines) or "no text on its screen")
