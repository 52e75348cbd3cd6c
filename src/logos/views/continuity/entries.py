"""The lines a report is made of, each with the turn and the session it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from logos.domain.events import Recorded
from logos.views.events import Severity
from logos.views.redact import clean, one_line
from logos.views.run import RunView
from logos.views.sessions import Session
from logos.views.text import cut

# Agents may write more than anybody reads; `logos show` has it whole.
LONGEST = 400
# What turns the direction of a line around, and what no document may hold.
_UNFIT = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]")

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: `what` is told under which `part`, what is known of it, and what it is `about`."""

    part: str
    what: str
    how: str = ""
    tone: Severity = Severity.NORMAL
    about: str = ""
    turn: str = ""
    at: float | None = None
    session: int | None = None
    inherited: bool = False


@dataclass(frozen=True, slots=True)
class Transition(Generic[S]):
    """An event, the session it fell into, and the states before and after it."""

    record: Recorded
    session: Session
    before: S
    after: S

    def entry(self, part: str, what: str, how: str = "", tone: Severity = Severity.NORMAL, about: str = "") -> Entry:
        turn = str(getattr(self.record.event, "turn", "") or "")
        lines = (said(part), said(what), said(how), tone, said(about), said(turn))
        return Entry(*lines, self.record.at, self.session.number, self.session.inherited)


def moments(story: RunView) -> Iterator[Transition[Any]]:
    """Every event of a run, with the states before and after it."""
    sessions = iter(story.sessions)
    before, session = story.fold.flow.start(), next(sessions)
    for record, after in zip(story.records, story.states, strict=True):
        if record.seq > session.last:
            session = next(sessions)
        yield Transition(record, session, before, after)
        before = after


def said(text: object, at_most: int = LONGEST) -> str:
    """A text from anywhere on one line: no secrets, no control characters, nothing that turns it around; cut."""
    return cut(_UNFIT.sub("", one_line(text)), at_most)


def laid_out(line: str) -> str:
    """The same for a line that is aligned by spaces."""
    return cut(_UNFIT.sub("", clean(line).replace("\n", " ").rstrip()), LONGEST)
