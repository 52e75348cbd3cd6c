"""Asking one turn of one agent: exactly once, even when the driver dies in the middle."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from logos.domain.events import Noted, Topic, TurnAnswered, TurnAsked, TurnFailed, TurnSent
from logos.domain.ledger import InFlightTurn, Ledger
from logos.domain.turns import Fact, FailureKind, Status, Terminal, Turn
from logos.domain.usage import Usage
from logos.engine.budgets import seconds_to_wait, until_words
from logos.engine.loop import WorkerContext
from logos.engine.waiter import NoResponse, PendingResponse, Response, ResponseWaiter
from logos.errors import DeliveryUnknown, InputRefused
from logos.ports import AgentHost, ChangeSignal, Responses, TurnReporter
from logos.waiting.provider_errors import OnLimit, Recovery, Retry, recovery_for
from logos.waiting.rules import WaitRules, WaitState, resume_decision

logger = logging.getLogger(__name__)

Render = Callable[[str, Mapping[str, Fact]], str]

# Pause between two observations of a turn that an earlier driver asked.
RESUME_POLL_SECONDS = 0.25
# Longest pause between two checks for a stop signal while waiting for a limit to end.
RETRY_POLL_SECONDS = 1.0
NEW_GRACE_SECONDS = 2.0


class ReplaceAgent(Protocol):
    def __call__(self, context: WorkerContext) -> str | None:
        """Replace the agent's provider by the next spare; returns its name, or None when no spare is left."""
        ...


@dataclass(frozen=True, slots=True)
class Asker:
    host: AgentHost
    responses: Responses
    change_signal: ChangeSignal
    render: Render
    rules: WaitRules
    timeout: float
    now: Callable[[], float]
    wall: Callable[[], float]
    on_limit: OnLimit
    back_off: float
    replace_agent: ReplaceAgent
    reminder: str = "reminder"

    def ask(self, turn: Turn, ledger: Ledger, context: WorkerContext) -> None:
        """Ask the turn and post its answer, or a failure that names the cause."""
        terminal, in_flight = ledger.terminals[turn.agent], ledger.in_flight.get(turn.id)
        pending = PendingResponse(terminal.id, turn.answer, turn.id, self.render(self.reminder, turn.facts))
        prompt = in_flight.prompt if in_flight is not None else self.render(turn.document, turn.facts)
        tries = 0
        while True:
            try:
                found = self._try(turn, prompt, in_flight, pending, ledger, context, again=tries > 0)
                break
            except NoResponse as lost:
                recovery = recovery_for(lost.trouble, tries, self.on_limit, self.back_off)
                logger.info("%s: no response (%s: %s): %s", turn.id, lost.trouble, lost.detail, recovery)
                match recovery:
                    case Retry(seconds):
                        self._wait_before_retry(lost, seconds, pending, context)
                    case Recovery.FAILOVER if self._failed_over(lost, turn, context):
                        return
                    case Recovery.FAILOVER | Recovery.STOP:
                        message = explain(turn, terminal, lost, self.timeout, self.wall())
                        context.post(TurnFailed(turn.id, lost.trouble, message, self._usage(turn, ledger)))
                        return
            in_flight, tries = InFlightTurn(turn.agent, prompt, sent=True), tries + 1
        answered = TurnAnswered(turn.id, found.text, found.source, self._usage(turn, ledger))
        # Delete the file only after its text is in the log: a driver that dies before that reads the file again.
        context.post(answered, then=lambda: self.responses.clear(turn.answer))

    def _try(
        self,
        turn: Turn,
        prompt: str,
        in_flight: InFlightTurn | None,
        pending: PendingResponse,
        ledger: Ledger,
        context: WorkerContext,
        *,
        again: bool,
    ) -> Response:
        waiter = ResponseWaiter(self.host, self.responses, self.change_signal, self.rules, self.now, context.check)
        if in_flight is not None and not again and self._still_pending(in_flight, pending, waiter, context):
            wait_state = WaitState.begin(self.now(), self.timeout, in_flight.reminders, in_flight.permissions)
            return waiter.wait(pending, wait_state, context.post)
        self._until_ready(turn, pending, ledger, context)
        self._send(turn, prompt, pending, context, first=in_flight is None)
        return waiter.wait(pending, WaitState.begin(self.now(), self.timeout), context.post)

    def _usage(self, turn: Turn, ledger: Ledger) -> Usage | None:
        """The cost of this turn: the conversation's total minus what earlier turns were charged."""
        if not isinstance(self.host, TurnReporter):
            return None
        total = self.host.usage(ledger.terminals[turn.agent].id)
        return None if total is None else total.minus(ledger.accounted.get(turn.agent))

    def _wait_before_retry(
        self, lost: NoResponse, seconds: float | None, pending: PendingResponse, context: WorkerContext
    ) -> None:
        pause = seconds_to_wait(lost.detail, self.wall()) if seconds is None else seconds
        until = until_words(lost.detail, self.wall()) if seconds is None else ""
        words = until or f"{pause:.3g} s"
        context.post(
            Noted(Topic.TRIED_AGAIN, f"{pending.turn}: {lost.detail}; waiting {words}, then asking again", pending.turn)
        )
        end = self.now() + pause
        while (left := end - self.now()) > 0:
            self.change_signal.wait(self.change_signal.wakeups, min(left, RETRY_POLL_SECONDS))
            context.check()

    def _failed_over(self, lost: NoResponse, turn: Turn, context: WorkerContext) -> bool:
        provider = self.replace_agent(context)
        if provider is None:
            return False
        context.post(Noted(Topic.WARNING, f"{turn.agent}: {lost.detail}; {provider} takes over", turn.id))
        return True

    def _still_pending(
        self, in_flight: InFlightTurn, pending: PendingResponse, waiter: ResponseWaiter, context: WorkerContext
    ) -> bool:
        """Whether to keep waiting for a turn that an earlier driver asked, instead of asking it again."""
        try:
            first = latest = waiter.look(pending)
        except NoResponse:
            # The file is unusable; asking again deletes it.
            return False
        if in_flight.sent and not in_flight.failed and latest.status is Status.UNKNOWN:
            # The server was restarted as well: only a reminder can tell whether the agent still works.
            return True
        while (decision := resume_decision(first, latest, self.rules)) is None:
            self.change_signal.wait(self.change_signal.wakeups, RESUME_POLL_SECONDS)
            context.check()
            latest = waiter.look(pending)
        wait, why = decision
        what = "waiting for it" if wait else "asking it again" if in_flight.sent else "asking it"
        context.post(Noted(Topic.WARNING, f"back at {pending.turn}: {why}; {what}", pending.turn))
        return wait

    def _until_ready(self, turn: Turn, pending: PendingResponse, ledger: Ledger, context: WorkerContext) -> None:
        """Wait until a prompt can be typed; a terminal without any prompt so far gets a short grace period only."""
        new = turn.agent not in ledger.briefed
        rules = replace(self.rules, idle_grace=min(self.rules.idle_grace, NEW_GRACE_SECONDS)) if new else self.rules
        waiter = ResponseWaiter(self.host, self.responses, self.change_signal, rules, self.now, context.check)
        waiter.until_ready(pending, WaitState.begin(self.now(), self.timeout), context.post)

    def _send(self, turn: Turn, prompt: str, pending: PendingResponse, context: WorkerContext, *, first: bool) -> None:
        self.responses.ensure()
        self.responses.clear(turn.answer)
        if first:
            context.post(TurnAsked(turn.id, turn.agent, prompt))
        try:
            logger.info("%s: sending %d characters to terminal %s", turn.id, len(prompt), pending.terminal)
            self.host.send_input(pending.terminal, prompt)
        except InputRefused as error:
            raise NoResponse(FailureKind.ERROR, str(error)) from error
        except DeliveryUnknown as error:
            # Assume delivery: a prompt sent twice is worse, and an idle agent without a file is reminded anyway.
            context.post(Noted(Topic.WARNING, f"{turn.id}: {error}; going on as if it had arrived", turn.id))
        context.post(TurnSent(turn.id))


_CAUSES: dict[FailureKind, str] = {
    FailureKind.ERROR: "its terminal reports the status `error`",
    FailureKind.TIMEOUT: "no response within RESPONSE_TIMEOUT ({timeout:g} s), and its terminal is still busy",
    FailureKind.NO_FILE: "it went idle without writing its response file, also after a reminder",
    FailureKind.DIED: "the agent has ended; its terminal shows a shell",
    FailureKind.PROVIDER: "it could not continue",
    FailureKind.LIMIT: "its provider's limit is reached",
    FailureKind.TRANSIENT: "its provider failed, also after retries",
    FailureKind.PERMISSION: "it kept asking for permission",
    FailureKind.UNFIT: "its response cannot be used",
}


def explain(turn: Turn, terminal: Terminal, lost: NoResponse, timeout: float, wall: float) -> str:
    """One line for a person: which agent, what happened, until when, and where to look."""
    cause = _CAUSES[lost.trouble].format(timeout=timeout)
    detail = f": {lost.detail}" if lost.detail else ""
    until = until_words(lost.detail, wall) if lost.trouble is FailureKind.LIMIT else ""
    return (
        f"{turn.agent} ({turn.id}, terminal {terminal.id}, {terminal.provider}): "
        f"{cause}{detail}{f' ({until})' if until else ''}"
    )
