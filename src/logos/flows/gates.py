"""Gates of a run: which one it has reached, whether it is open, and the ids that are taken."""

from dataclasses import dataclass

from logos.domain.events import GateDecided, GateOpened
from logos.domain.gates import GateKind
from logos.domain.records import replace
from logos.domain.turns import OpenGate, TurnId
from logos.flows.guidance import quoted


@dataclass(frozen=True, slots=True)
class Gate:
    """A question that only a person decides."""

    id: TurnId
    at: GateKind
    question: str


@dataclass(frozen=True, slots=True)
class GateProgress:
    """`reached`: the run goes no further until a person has decided; it is open once that is in the log."""

    reached: Gate | None = None
    is_open: bool = False
    # The names of the gates so far: another gate of the same name gets a number.
    taken: tuple[str, ...] = ()

    @property
    def open(self) -> Gate | None:
        return self.reached if self.is_open else None

    @property
    def due(self) -> tuple[OpenGate, ...]:
        gate = self.reached
        return () if gate is None or self.is_open else (OpenGate(gate.id, gate.at, gate.question),)

    def reach(self, where: str, at: GateKind, question: str) -> "GateProgress":
        """`where` is the round or the sweep, as in a turn's id."""
        name, before = f"{where}.gate.{at}", self.count(where, at)
        gate = Gate(TurnId(f"{name}.{before + 1}" if before else name), at, question)
        return GateProgress(gate, taken=(*self.taken, name))

    def after(self, opened: GateOpened) -> "GateProgress":
        awaited = self.reached is not None and self.reached.id == opened.gate
        return replace(self, is_open=True) if awaited else self

    def count(self, where: str, at: GateKind) -> int:
        return self.taken.count(f"{where}.gate.{at}")

    @property
    def left(self) -> "GateProgress":
        return GateProgress(taken=self.taken)


def rejection(what: str, decided: GateDecided) -> str:
    """A person's rejection as an agent is told of it."""
    words = quoted(decided.words)
    return f"A person rejected {what}:\n{words}" if words else f"A person rejected {what}, without a reason."
