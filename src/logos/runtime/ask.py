"""Asking one turn of one agent: exactly once, even when the driver dies in the middle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from logos.domain.events import Noted, Topic, TurnAnswered, TurnAsked, TurnFailed, TurnSent
from logos.domain.ledger import InHand, Ledger
from logos.domain.turns import Fact, Status, Terminal, Trouble, Turn
from logos.errors import DeliveryUnknown, InputRefused
from logos.flows.patience import Rules, Watch, on_return
from logos.ports import AgentHost, Bell, Responses
from logos.runtime.drive import Desk
from logos.runtime.vigil import Case, NoResponse, Vigil

Render = Callable[[str, Mapping[str, Fact]], str]

# How often a turn from an earlier life is looked at before it is asked again.
COME_BACK_POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Asker:
    host: AgentHost
    responses: Responses
    bell: Bell
    render: Render
    rules: Rules
    timeout: float
    now: Callable[[], float]

    def ask(self, turn: Turn, ledger: Ledger, desk: Desk) -> None:
        """Post what becomes of `turn`: an answer, or a failure that names its cause."""
        terminal = ledger.terminals[turn.agent]
        hand = ledger.in_hand.get(turn.id)
        case = Case(terminal.id, turn.answer, turn.id, self.render("reminder", turn.facts))
        vigil = Vigil(self.host, self.responses, self.bell, self.rules, self.now, desk.check)
        try:
            if hand is None or not self._still_in_hand(hand, case, vigil, desk):
                self._send(turn, hand, case, vigil, desk)
                hand = None
            watch = Watch.begin(
                self.now(), self.timeout, hand.reminders if hand else 0, hand.permissions if hand else 0
            )
            found = vigil.wait(case, watch, desk.post)
        except NoResponse as lost:
            message = explain(turn, terminal, lost, self.timeout)
            desk.post(TurnFailed(turn.id, lost.trouble, message))
            return
        # The file goes only once its text is in the log: a driver that dies before finds the response again.
        desk.post(TurnAnswered(turn.id, found.text, found.source), then=lambda: self.responses.clear(turn.answer))

    def _still_in_hand(self, hand: InHand, case: Case, vigil: Vigil, desk: Desk) -> bool:
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
            self.bell.wait(self.bell.rings, COME_BACK_POLL_SECONDS)
            desk.check()
            latest = vigil.look(case)
        what = "waiting for it" if verdict.wait else "asking it again" if hand.sent else "asking it"
        desk.post(Noted(Topic.WARNING, f"back at {case.turn}: {verdict.why}; {what}", case.turn))
        return verdict.wait

    def _send(self, turn: Turn, hand: InHand | None, case: Case, vigil: Vigil, desk: Desk) -> None:
        vigil.until_it_listens(case, Watch.begin(self.now(), self.timeout), desk.post)
        self.responses.ensure()
        self.responses.clear(turn.answer)
        prompt = hand.prompt if hand is not None else self.render(turn.document, turn.facts)
        if hand is None:
            desk.post(TurnAsked(turn.id, turn.agent, prompt))
        try:
            self.host.send_input(case.terminal, prompt)
        except InputRefused as error:
            raise NoResponse(Trouble.ERROR, str(error)) from error
        except DeliveryUnknown as error:
            # Asking twice would be worse than waiting: an idle agent without its file is reminded anyway.
            desk.post(Noted(Topic.WARNING, f"{turn.id}: {error}; going on as if it had arrived", turn.id))
        desk.post(TurnSent(turn.id))


_CAUSES: dict[Trouble, str] = {
    Trouble.ERROR: "its terminal is in the state `error`",
    Trouble.TIMEOUT: "no response within RESPONSE_TIMEOUT ({timeout:g} s), and its terminal is still at work",
    Trouble.NO_FILE: "it went idle without writing its response file, also after a reminder",
    Trouble.DIED: "the agent has ended; its terminal shows a shell",
    Trouble.PROVIDER: "its provider reports",
    Trouble.PERMISSION: "it kept asking for permission",
    Trouble.UNFIT: "its response cannot be taken",
}


def explain(turn: Turn, terminal: Terminal, lost: NoResponse, timeout: float) -> str:
    """One line for a person: who, what, where to look."""
    cause = _CAUSES[lost.trouble].format(timeout=timeout)
    detail = f": {lost.detail}" if lost.detail else ""
    return f"{turn.agent} ({turn.id}, terminal {terminal.id}, {terminal.provider}): {cause}{detail}"
