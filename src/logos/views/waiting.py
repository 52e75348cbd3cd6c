"""What waits for a person: an open gate, an agent's permission prompt, or the question that a build is blocked on."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from logos.domain.events import GateOpened, Noted, Topic
from logos.domain.turns import Outcome
from logos.views.run import RunView

# What a person can say to a gate or a permission prompt; a rejected gate wants a reason.
DECISIONS = ("approve", "reject")


class WaitingKind(StrEnum):
    GATE = "gate"
    PERMISSION = "permission"
    QUESTION = "question"


@dataclass(frozen=True, slots=True)
class Waiting:
    """`id` is that of the gate, of the turn whose agent shows a prompt, or of the question. `since`: as in the log."""

    kind: WaitingKind
    id: str
    text: str
    options: tuple[str, ...]
    since: float


def waiting_in(view: RunView, *, driven: bool) -> tuple[Waiting, ...]:
    """Everything that waits, the oldest first. Without a driver nobody can answer a permission prompt."""
    permissions = _permissions(view) if driven else ()
    return tuple(sorted((*_gates(view), *_questions(view), *permissions), key=lambda one: one.since))


def _gates(view: RunView) -> Iterator[Waiting]:
    gate = view.state.gate
    if gate is not None:
        opened = (record.at for record in reversed(view.records) if _opens(record.event, gate.id))
        yield Waiting(WaitingKind.GATE, gate.id, gate.question, DECISIONS, next(opened, view.last))


def _opens(event: object, gate: str) -> bool:
    return isinstance(event, GateOpened) and event.gate == gate


def _questions(view: RunView) -> Iterator[Waiting]:
    question = view.question
    if question is None or view.outcome is not Outcome.BLOCKED:
        return
    since = view.last
    for record, state in zip(reversed(view.records), reversed(view.states), strict=True):
        if state.question is None or state.question.id != question.id:
            break
        since = record.at
    yield Waiting(
        WaitingKind.QUESTION, question.id, question.text, tuple(option.summary for option in question.options), since
    )


def _permissions(view: RunView) -> Iterator[Waiting]:
    """The prompts that agents show now, also before they are asked their first turn."""
    if view.outcome is not None:
        return
    for turn, text in view.ledger.asking.items():
        asked = (record.at for record in reversed(view.records) if _asks(record.event, turn))
        yield Waiting(WaitingKind.PERMISSION, turn, text, DECISIONS, next(asked, view.last))


def _asks(event: object, turn: str) -> bool:
    return isinstance(event, Noted) and event.topic is Topic.PERMISSION_ASKED and event.turn == turn
