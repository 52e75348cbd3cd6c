"""Asking one turn of one agent: exactly once, even when the driver dies in the middle."""

from __future__ import annotations

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
from logos.waiting.provider_errors import Failover, OnLimit, Retry, Stop, recovery_for
from logos.waiting.rules import WaitRules, WaitState, on_return

Render = Callable[[str, Mapping[str, Fact]], str]

# How often a turn from an earlier life is looked at before it is asked again.
COME_BACK_POLL_SECONDS = 0.25
# How often a driver that waits for a limit to end looks whether it should stop.
REST_POLL_SECONDS = 1.0
NEW_GRACE_SECONDS = 2.0


class ReplaceAgent(Protocol):
    def __call__(self, context: WorkerContext) -> str | None:
        """Give the agent's place to its next provider; returns its name, or None when there is none left."""
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
        """Post what becomes of `turn`: an answer, or a failure that names its cause."""
        terminal, hand = ledger.terminals[turn.agent], ledger.in_flight.get(turn.id)
        case = PendingResponse(terminal.id, turn.answer, turn.id, self.render(self.reminder, turn.facts))
        prompt = hand.prompt if hand is not None else self.render(turn.document, turn.facts)
        tries = 0
        while True:
            try:
                found = self._try(turn, prompt, hand, case, ledger, context, again=tries > 0)
                break
            except NoResponse as lost:
                match recovery_for(lost.trouble, tries, self.on_limit, self.back_off):
                    case Retry(seconds):
                        self._rest(lost, seconds, case, context)
                    case Failover() if self._replaced(lost, turn, context):
                        return
                    case Failover() | Stop():
                        message = explain(turn, terminal, lost, self.timeout, self.wall())
                        context.post(TurnFailed(turn.id, lost.trouble, message, self._usage(turn, ledger)))
                        return
            hand, tries = InFlightTurn(turn.agent, prompt, sent=True), tries + 1
        answered = TurnAnswered(turn.id, found.text, found.source, self._usage(turn, ledger))
        # The file goes only once its text is in the log: a driver that dies before finds the response again.
        context.post(answered, then=lambda: self.responses.clear(turn.answer))

    def _try(
        self,
        turn: Turn,
        prompt: str,
        hand: InFlightTurn | None,
        case: PendingResponse,
        ledger: Ledger,
        context: WorkerContext,
        *,
        again: bool,
    ) -> Response:
        vigil = ResponseWaiter(self.host, self.responses, self.change_signal, self.rules, self.now, context.check)
        if hand is not None and not again and self._still_in_hand(hand, case, vigil, context):
            watch = WaitState.begin(self.now(), self.timeout, hand.reminders, hand.permissions)
            return vigil.wait(case, watch, context.post)
        self._until_it_listens(turn, case, ledger, context)
        self._send(turn, prompt, case, context, first=hand is None)
        return vigil.wait(case, WaitState.begin(self.now(), self.timeout), context.post)

    def _usage(self, turn: Turn, ledger: Ledger) -> Usage | None:
        """What this turn cost: what its conversation cost so far, less what is accounted for."""
        if not isinstance(self.host, TurnReporter):
            return None
        total = self.host.usage(ledger.terminals[turn.agent].id)
        return None if total is None else total.minus(ledger.accounted.get(turn.agent))

    def _rest(self, lost: NoResponse, seconds: float | None, case: PendingResponse, context: WorkerContext) -> None:
        pause = seconds_to_wait(lost.detail, self.wall()) if seconds is None else seconds
        until = until_words(lost.detail, self.wall()) if seconds is None else ""
        words = until or f"{pause:.3g} s"
        context.post(
            Noted(Topic.TRIED_AGAIN, f"{case.turn}: {lost.detail}; waiting {words}, then asking again", case.turn)
        )
        end = self.now() + pause
        while (left := end - self.now()) > 0:
            self.change_signal.wait(self.change_signal.wakeups, min(left, REST_POLL_SECONDS))
            context.check()

    def _replaced(self, lost: NoResponse, turn: Turn, context: WorkerContext) -> bool:
        provider = self.replace_agent(context)
        if provider is None:
            return False
        context.post(Noted(Topic.WARNING, f"{turn.agent}: {lost.detail}; {provider} takes over", turn.id))
        return True

    def _still_in_hand(
        self, hand: InFlightTurn, case: PendingResponse, vigil: ResponseWaiter, context: WorkerContext
    ) -> bool:
        """A turn asked in an earlier life: go on waiting for it, or must it be asked again?"""
        try:
            first = latest = vigil.look(case)
        except NoResponse:
            # What lies there can never be taken; asking again clears it away.
            return False
        if hand.sent and not hand.failed and latest.status is Status.UNKNOWN:
            # The server was restarted too: only a reminder after a while can tell silence from work.
            return True
        while (verdict := on_return(first, latest, self.rules)) is None:
            self.change_signal.wait(self.change_signal.wakeups, COME_BACK_POLL_SECONDS)
            context.check()
            latest = vigil.look(case)
        what = "waiting for it" if verdict.wait else "asking it again" if hand.sent else "asking it"
        context.post(Noted(Topic.WARNING, f"back at {case.turn}: {verdict.why}; {what}", case.turn))
        return verdict.wait

    def _until_it_listens(self, turn: Turn, case: PendingResponse, ledger: Ledger, context: WorkerContext) -> None:
        """A terminal that has had no prompt yet has nothing to be busy with for long, whatever its status says."""
        new = turn.agent not in ledger.briefed
        rules = replace(self.rules, idle_grace=min(self.rules.idle_grace, NEW_GRACE_SECONDS)) if new else self.rules
        vigil = ResponseWaiter(self.host, self.responses, self.change_signal, rules, self.now, context.check)
        vigil.until_it_listens(case, WaitState.begin(self.now(), self.timeout), context.post)

    def _send(self, turn: Turn, prompt: str, case: PendingResponse, context: WorkerContext, *, first: bool) -> None:
        self.responses.ensure()
        self.responses.clear(turn.answer)
        if first:
            context.post(TurnAsked(turn.id, turn.agent, prompt))
        try:
            self.host.send_input(case.terminal, prompt)
        except InputRefused as error:
            raise NoResponse(FailureKind.ERROR, str(error)) from error
        except DeliveryUnknown as error:
            # Asking twice would be worse than waiting: an idle agent without its file is reminded anyway.
            context.post(Noted(Topic.WARNING, f"{turn.id}: {error}; going on as if it had arrived", turn.id))
        context.post(TurnSent(turn.id))


_CAUSES: dict[FailureKind, str] = {
    FailureKind.ERROR: "its terminal is in the state `error`",
    FailureKind.TIMEOUT: "no response within RESPONSE_TIMEOUT ({timeout:g} s), and its terminal is still at work",
    FailureKind.NO_FILE: "it went idle without writing its response file, also after a reminder",
    FailureKind.DIED: "the agent has ended; its terminal shows a shell",
    FailureKind.PROVIDER: "it could not go on",
    FailureKind.LIMIT: "its provider's limit is reached",
    FailureKind.TRANSIENT: "its provider fails, also when asked again",
    FailureKind.PERMISSION: "it kept asking for permission",
    FailureKind.UNFIT: "its response cannot be taken",
}


def explain(turn: Turn, terminal: Terminal, lost: NoResponse, timeout: float, wall: float) -> str:
    """One line for a person: who, what, until when, where to look."""
    cause = _CAUSES[lost.trouble].format(timeout=timeout)
    detail = f": {lost.detail}" if lost.detail else ""
    until = until_words(lost.detail, wall) if lost.trouble is FailureKind.LIMIT else ""
    return (
        f"{turn.agent} ({turn.id}, terminal {terminal.id}, {terminal.provider}): "
        f"{cause}{detail}{f' ({until})' if until else ''}"
    )
