"""Asking one turn of one agent: exactly once, even when the driver dies in the middle."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from logos.domain.events import Noted, Topic, TurnAnswered, TurnAsked, TurnFailed, TurnSent
from logos.domain.ledger import InFlightTurn, Ledger
from logos.domain.steps import StepKind
from logos.domain.turns import FailureKind, Status, Terminal, Turn
from logos.domain.usage import Usage
from logos.engine.budgets import seconds_to_wait, until_words
from logos.engine.keeper import WorkKeeper
from logos.engine.loop import WorkerContext
from logos.engine.options import Dependencies, RunOptions
from logos.engine.waiter import NoResponse, PendingResponse, ResponseWaiter, rules_for
from logos.errors import DeliveryUnknown, InputRefused
from logos.ports import ChangeSignal, Responses, TurnReporter
from logos.prompts import render
from logos.waiting.provider_errors import Recovery, Retry, recovery_for
from logos.waiting.rules import WaitState, resume_decision

logger = logging.getLogger(__name__)

# Pause between two observations of a turn that an earlier driver asked.
RESUME_POLL_SECONDS = 0.25
# Longest pause between two checks for a stop signal while waiting for a limit to end.
RETRY_POLL_SECONDS = 1.0
NEW_GRACE_SECONDS = 2.0
MAX_REFUSALS_SHOWN = 3


# Replaces the agent's provider by the next spare; returns its name, or None when no spare is left.
ReplaceAgent = Callable[[WorkerContext], str | None]


@dataclass(frozen=True, slots=True)
class Asker:
    dependencies: Dependencies
    options: RunOptions
    responses: Responses
    change_signal: ChangeSignal
    replace_agent: ReplaceAgent
    reminder: str
    # The log has lost its end: a response may be there to a turn that the log does not know.
    harvest: bool = False
    # Where agents that judge must leave the work tree as it is.
    keeper: WorkKeeper | None = None
    # A person's answer to the permission prompt of the turn, once; None: there is none.
    decided: Callable[[], bool | None] = lambda: None

    def ask(self, turn: Turn, ledger: Ledger, context: WorkerContext) -> None:
        """Ask the turn and post its answer, or a failure that names the cause."""
        terminal, in_flight = ledger.terminals[turn.agent], ledger.in_flight.get(turn.id)
        pending = PendingResponse(
            *(terminal.id, turn.answer, turn.id, render(self.reminder, turn.facts)),
            judges=turn.judges,
            agent=turn.agent,
            sealed=turn.sealed,
        )
        prompt = in_flight.prompt if in_flight is not None else render(turn.document, turn.facts)
        waiter, tries = self._waiter(context), 0
        tree = in_flight.commit if in_flight is not None else self._tree_for(turn)
        if in_flight is None and self.harvest and self.responses.peek(turn.answer).fingerprint is not None:
            in_flight = InFlightTurn(turn.agent, prompt, sent=True, commit=self._tree_for(turn))
            context.post(TurnAsked(turn.id, turn.agent, prompt, in_flight.commit))
            context.post(TurnSent(turn.id))
        while True:
            try:
                if tries == 0 and in_flight is not None and self._still_pending(in_flight, pending, waiter):
                    state = self._wait_state(in_flight.reminders, in_flight.permissions)
                else:
                    self._until_ready(turn, pending, ledger, waiter)
                    asked = TurnAsked(turn.id, turn.agent, prompt, tree) if tries == 0 and in_flight is None else None
                    self._send(turn, prompt, pending, context, asked)
                    state = self._wait_state()
                text, source = waiter.wait(pending, state)
                break
            except NoResponse as lost:
                recovery = recovery_for(lost.trouble, tries, self.options.on_limit, self.options.retry_back_off)
                detail = "not told" if turn.sealed else lost.detail
                logger.info("%s: no response (%s: %s): %s", turn.id, lost.trouble, detail, recovery)
                match recovery:
                    case Retry(seconds):
                        self._wait_before_retry(lost, seconds, pending, context)
                    case Recovery.FAILOVER if provider := self.replace_agent(context):
                        text = f"{turn.agent}: {lost.detail}; {provider} takes over"
                        context.post(Noted(Topic.WARNING, text, turn.id))
                        return
                    case Recovery.FAILOVER | Recovery.STOP:
                        self._note_refusals(turn, ledger, context, waiter)
                        message = explain(turn, terminal, lost, self.options.response_timeout, self.dependencies.wall())
                        context.post(TurnFailed(turn.id, lost.trouble, message, self._usage(turn, ledger)))
                        return
            tries += 1
        self._note_refusals(turn, ledger, context, waiter)
        self._keep_to_role(turn, tree, context)
        answered = TurnAnswered(turn.id, text, source, self._usage(turn, ledger))
        # Delete the file only after its text is in the log: a driver that dies before that reads the file again.
        context.post(answered, then=lambda: self.responses.clear(turn.answer))

    def _tree_for(self, turn: Turn) -> str:
        return self.keeper.tree() if self.keeper is not None and (turn.judges or turn.plans) else ""

    def _keep_to_role(self, turn: Turn, tree: str, context: WorkerContext) -> None:
        """Put back what an agent changed that was to judge, and name what one changed that was to plan."""
        if self.keeper is None or not tree:
            return
        if turn.judges:
            undone, new = self.keeper.put_back(turn.id, tree)
            if undone is not None:
                context.post(undone)
            if new:
                context.post(Noted(Topic.WARNING, f"{turn.agent} left new files, which stay: {new}", turn.id))
        if turn.plans and (changed := self.keeper.outside_specs(turn.id, tree)):
            context.post(Noted(Topic.WARNING, f"{turn.agent} changed more than its artifacts: {changed}", turn.id))

    def _waiter(self, context: WorkerContext) -> ResponseWaiter:
        host, rules = self.dependencies.host, rules_for(self.options.rules, self.dependencies.host)
        signal, now = self.change_signal, self.dependencies.now
        needs = self.dependencies
        waiter = ResponseWaiter(host, self.responses, signal, rules, now, context.post, context.check)
        return replace(waiter, show_step=needs.show_step, alive=needs.alive, decided=self.decided)

    def _wait_state(self, reminders: int = 0, permissions: int = 0) -> WaitState:
        return WaitState.begin(self.dependencies.now(), self.options.response_timeout, reminders, permissions)

    def _usage(self, turn: Turn, ledger: Ledger) -> Usage | None:
        """The cost of this turn: the conversation's total minus what earlier turns were charged."""
        host = self.dependencies.host
        if not isinstance(host, TurnReporter):
            return None
        terminal, accounted = ledger.terminals[turn.agent], ledger.accounted.get(turn.agent)
        total = host.usage(terminal.id)
        if total is None:
            return None
        return total.minus(accounted and accounted.reported).priced(self.options.prices.get(terminal.provider))

    def _note_refusals(self, turn: Turn, ledger: Ledger, context: WorkerContext, waiter: ResponseWaiter) -> None:
        """An agent that was refused something may have worked around it, or only say that it did its work.

        What was named when it happened is not named again.
        """
        host = self.dependencies.host
        if not isinstance(host, TurnReporter):
            return
        named = {step.text for step in waiter.named if step.kind is StepKind.REFUSED}
        refused = [call for call in host.refused_calls(ledger.terminals[turn.agent].id) if call not in named]
        if refused:
            shown = "; ".join(refused[:MAX_REFUSALS_SHOWN])
            more = f" and {len(refused) - MAX_REFUSALS_SHOWN} more" if len(refused) > MAX_REFUSALS_SHOWN else ""
            context.post(Noted(Topic.WARNING, f"{turn.agent} was not allowed: {shown}{more}", turn.id))

    def _wait_before_retry(
        self, lost: NoResponse, seconds: float | None, pending: PendingResponse, context: WorkerContext
    ) -> None:
        now, wall = self.dependencies.now, self.dependencies.wall()
        pause = seconds_to_wait(lost.detail, wall) if seconds is None else seconds
        words = (until_words(lost.detail, wall) if seconds is None else "") or f"{pause:.3g} s"
        text = f"{pending.turn}: {lost.detail}; waiting {words}, then asking again"
        context.post(Noted(Topic.TRIED_AGAIN, text, pending.turn))
        end = now() + pause
        while (left := end - now()) > 0:
            self.change_signal.wait(self.change_signal.wakeups, min(left, RETRY_POLL_SECONDS))
            context.check()

    def _still_pending(self, in_flight: InFlightTurn, pending: PendingResponse, waiter: ResponseWaiter) -> bool:
        """Whether to keep waiting for a turn that an earlier driver asked, instead of asking it again."""
        try:
            first = latest = waiter.look(pending)
        except NoResponse:
            # The file is unusable; asking again deletes it.
            return False
        if in_flight.sent and not in_flight.failed and latest.status is Status.UNKNOWN:
            # The server was restarted as well: only a reminder can tell whether the agent still works.
            return True
        while (decision := resume_decision(first, latest, waiter.rules)) is None:
            self.change_signal.wait(self.change_signal.wakeups, RESUME_POLL_SECONDS)
            waiter.check()
            latest = waiter.look(pending)
        wait, why = decision
        if latest.file is not None and latest.status.resting:
            # An agent that was ended on purpose left at most half a response.
            refused = waiter.refusal(pending, self.responses.read(pending.answer))
            wait, why = (False, refused) if refused else decision
        what = "waiting for it" if wait else "asking it again" if in_flight.sent else "asking it"
        waiter.tell(Noted(Topic.WARNING, f"back at {pending.turn}: {why}; {what}", pending.turn))
        return wait

    def _until_ready(self, turn: Turn, pending: PendingResponse, ledger: Ledger, waiter: ResponseWaiter) -> None:
        """Wait until a prompt can be typed; a terminal without any prompt so far gets a short grace period only."""
        if turn.agent not in ledger.briefed:
            grace = min(waiter.rules.idle_grace, NEW_GRACE_SECONDS)
            waiter = replace(waiter, rules=replace(waiter.rules, idle_grace=grace))
        waiter.until_ready(pending, self._wait_state())

    def _send(
        self, turn: Turn, prompt: str, pending: PendingResponse, context: WorkerContext, asked: TurnAsked | None
    ) -> None:
        """Send the prompt; `asked` is recorded before, the first time."""
        self.responses.ensure()
        self.responses.clear(turn.answer)
        if asked is not None:
            context.post(asked)
        try:
            logger.info("%s: sending %d characters to terminal %s", turn.id, len(prompt), pending.terminal)
            self.dependencies.host.send_input(pending.terminal, prompt)
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
    FailureKind.CUT_OFF: "its response cannot be accepted, also after retries",
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
