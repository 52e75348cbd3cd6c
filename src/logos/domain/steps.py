"""What an agent does within a turn, as its client prints it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class StepKind(StrEnum):
    MESSAGE = "message"
    CALL = "call"
    RESULT = "result"
    RETRY = "retry"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Step:
    """A message, a tool call and its result, a client that tries again, or a call that was not allowed."""

    kind: StepKind
    text: str


def last_action(steps: Sequence[Step]) -> str:
    """What the agent has done or said last; empty if it has not."""
    own = (step.text for step in reversed(steps) if step.kind in (StepKind.CALL, StepKind.MESSAGE))
    return next(own, "")
