"""Events in words, one line each, for the log, the live view and the lines of a piped run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from logos.cli.bill import in_short
from logos.cli.story import verdict_of
from logos.cli.words import duration, number
from logos.domain.events import (
    CheckRan,
    Noted,
    Recorded,
    RunEnded,
    RunResumed,
    RunStarted,
    Source,
    TerminalClosed,
    TerminalOpened,
    Topic,
    TurnAnswered,
    TurnAsked,
    TurnFailed,
    TurnSent,
)
from logos.domain.plans import CyclePlan
from logos.domain.turns import Outcome


class Tone(StrEnum):
    """How a line is meant; `show` gives each a colour."""

    QUIET = "quiet"
    NORMAL = "normal"
    GOOD = "good"
    BAD = "bad"
    WARNING = "warning"
    ALARM = "alarm"


@dataclass(frozen=True, slots=True)
class Line:
    at: float
    text: str
    tone: Tone = Tone.NORMAL


_TOPICS: dict[Topic, tuple[str, Tone]] = {
    Topic.WARNING: ("warning: ", Tone.WARNING),
    Topic.REMINDED: ("", Tone.WARNING),
    Topic.PERMISSION_ASKED: ("PERMISSION NEEDED: ", Tone.ALARM),
    Topic.PERMISSION_GIVEN: ("permission given: ", Tone.WARNING),
    Topic.TRIED_AGAIN: ("resting: ", Tone.WARNING),
    Topic.INTERRUPTED: ("the driver left: ", Tone.WARNING),
    Topic.AFTERWARDS: ("afterwards: ", Tone.NORMAL),
}


def tone_of(verdict: str) -> Tone:
    if verdict in ("PASS", "APPROVED", "exit 0"):
        return Tone.GOOD
    if verdict.startswith(("FAIL", "exit")):
        return Tone.BAD
    return Tone.WARNING if verdict else Tone.NORMAL


class Narrator:
    """Remembers what a line needs of earlier events: the plan, and when each turn was asked."""

    def __init__(self, plan: CyclePlan | None = None) -> None:
        self._plan = plan
        self._asked: dict[str, float] = {}

    def tell(self, record: Recorded) -> Line:
        text, tone = self._words(record)
        return Line(record.at, text, tone)

    def _words(self, record: Recorded) -> tuple[str, Tone]:
        match record.event:
            case RunStarted(plan, seed):
                self._plan = plan
                start = f"from a state file, round {seed.round}" if seed else f"at the {_name(plan.start)}"
                return f"run {record.run} started in {plan.wd}, {start}", Tone.NORMAL
            case RunResumed(plan):
                self._plan = plan
                return f"run {record.run} goes on with a new driver", Tone.NORMAL
            case TerminalOpened(agent, terminal, provider):
                return f"terminal {terminal} opened for the {_name(agent)} ({provider})", Tone.QUIET
            case TerminalClosed(agent, terminal):
                return f"terminal {terminal} of the {_name(agent)} closed", Tone.QUIET
            case TurnAsked(turn, _, prompt):
                self._asked.setdefault(turn, record.at)
                return f"{turn} asked, {number(len(prompt))} characters", Tone.NORMAL
            case TurnSent(turn):
                return f"{turn} prompt delivered", Tone.QUIET
            case TurnAnswered():
                return self._answered(record.event, record.at)
            case TurnFailed(_, _, message):
                return f"no response: {message}", Tone.BAD
            case CheckRan(turn, command, exit_code):
                tone = Tone.GOOD if exit_code == 0 else Tone.BAD
                return f"{turn} Logos ran `{command}` itself: exit {exit_code}", tone
            case Noted(topic, text):
                lead, tone = _TOPICS[topic]
                return lead + text, tone
            case RunEnded(outcome):
                return f"run {record.run} ended: {outcome}", Tone.GOOD if outcome is Outcome.PASSED else Tone.BAD

    def _answered(self, event: TurnAnswered, at: float) -> tuple[str, Tone]:
        verdict = verdict_of(self._plan, event.turn, event.text)
        said = f"{event.turn} answered{f' {verdict}' if verdict else ''}, {number(len(event.text))} characters"
        took = f" after {duration(at - self._asked[event.turn])}" if event.turn in self._asked else ""
        where = ", read from its screen" if event.source is Source.SCREEN else ""
        cost = in_short(event.usage)
        return said + took + where + (f", {cost}" if cost else ""), tone_of(verdict)


def _name(role: str) -> str:
    return role.replace("_", " ")
