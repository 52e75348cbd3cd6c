"""The lines of a report, each with the turn and the session it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

from logos.domain.events import Recorded
from logos.views.events import Severity
from logos.views.redact import clean, one_line
from logos.views.run import RunView
from logos.views.sessions import Session
from logos.views.text import cut

# Longer texts are cut; `logos show` prints them whole.
LONGEST = 400
# Characters that change the direction of a line, and non-characters that no document may contain.
_UNFIT = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]")

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line under the heading `part`: a thing, how it stands, and what it is about."""

    part: str
    what: str
    how: str = ""
    severity: Severity = Severity.NORMAL
    about: str = ""
    turn: str = ""
    at: float | None = None
    session: int | None = None
    inherited: bool = False


def entry(
    part: str,
    what: str,
    how: str = "",
    severity: Severity = Severity.NORMAL,
    about: str = "",
    step: Transition[Any] | None = None,
) -> Entry:
    """An entry, its texts made printable; `step` is the event that it comes from."""
    made = Entry(printable(part), printable(what), printable(how), severity, printable(about))
    if step is None:
        return made
    turn = printable(getattr(step.record.event, "turn", "") or "")
    session = step.session
    return replace(made, turn=turn, at=step.record.at, session=session.number, inherited=session.inherited)


@dataclass(frozen=True, slots=True)
class Sections:
    """The entries of a report; each flow has its own way to find most of them."""

    completed: tuple[Entry, ...]
    pending: tuple[Entry, ...]
    blocked: tuple[Entry, ...]
    decisions: tuple[Entry, ...]
    specs: tuple[Entry, ...] = ()
    merges: tuple[Entry, ...] = ()
    checks: tuple[Entry, ...] = ()
    settings: tuple[Entry, ...] = ()
    outcomes: tuple[Entry, ...] = ()

    def since(self, first: int) -> Sections:
        """The entries that come from session `first` or a later one."""
        lists: list[tuple[Entry, ...]] = [getattr(self, field.name) for field in fields(self)]
        return Sections(*(tuple(line for line in lines if (line.session or 0) >= first) for lines in lists))


@dataclass(frozen=True, slots=True)
class Transition(Generic[S]):
    """An event, its session, and the states before and after it."""

    record: Recorded
    session: Session
    before: S
    after: S


Steps = Sequence[Transition[Any]]


def transitions(view: RunView) -> Iterator[Transition[Any]]:
    sessions = iter(view.sessions)
    before, session = view.fold.flow.start(), next(sessions)
    for record, after in zip(view.records, view.states, strict=True):
        if record.seq > session.last:
            session = next(sessions)
        yield Transition(record, session, before, after)
        before = after


def printable(text: object, at_most: int = LONGEST) -> str:
    """A text on one line, cut, without secrets, control characters and changes of direction."""
    return cut(_UNFIT.sub("", one_line(text)), at_most)


def printable_columns(line: str) -> str:
    """The same for a line that is aligned by spaces."""
    return cut(_UNFIT.sub("", clean(line).replace("\n", " ").rstrip()), LONGEST)
