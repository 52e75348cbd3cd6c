"""The view of a run in progress: a live frame on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from logos.app.runs import event_formatter, turn_view_builder
from logos.cli.output import console as show
from logos.cli.output import levels
from logos.cli.output.console import short
from logos.domain.events import Noted, Recorded, RunResumed, RunStarted, TerminalClosed, TerminalOpened, Topic, TurnSent
from logos.domain.ledger import Ledger
from logos.domain.roles import PHASE_DEFS, Role
from logos.domain.turns import RunId
from logos.flows.cycle.flow import CycleState
from logos.flows.levels.state import LevelsState
from logos.views.events import EventLine, Severity, severity_of
from logos.views.redact import one_line
from logos.views.run import FLOW_WORDS, State, TurnView
from logos.views.text import clock, count, duration, first_line
from logos.views.usage import sum_in_words

LAST_EVENTS = 8
# A build shows as many as fit on the terminal.
KEPT_EVENTS = 20
ALARMS_OF_A_BUILD = 2
REDRAW_SECONDS = 0.1
_UNREMARKABLE = (TurnSent, TerminalOpened, TerminalClosed)
_ORDER = [role for stage in PHASE_DEFS for role in (stage.author, stage.reviewer) if role is not None]


class View(AbstractContextManager["View"], Protocol):
    """Shows every event of a run and every message of Logos."""

    run: RunId | None

    def watch(self, record: Recorded, state: State, ledger: Ledger) -> None: ...

    def tell(self, text: str) -> None: ...


def view() -> View:
    dumb = os.environ.get("TERM", "") in ("", "dumb")
    return LiveView() if sys.stderr.isatty() and not dumb else PlainView()


class PlainView:
    """One line per event, with its time, on stderr."""

    def __init__(self) -> None:
        self.run: RunId | None = None
        self._formatter = event_formatter()
        self._console = show.console(stderr=True)

    def watch(self, record: Recorded, state: State, ledger: Ledger) -> None:  # noqa: ARG002
        self.run = record.run
        for line in self._formatter.lines(record, state):
            show.put_line(self._console, line)

    def tell(self, text: str) -> None:
        show.put_line(self._console, EventLine(time.time(), text, _severity_of(text)))

    def __enter__(self) -> PlainView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class LiveView:
    """A frame that stays in place: where the run stands, and its last events. It starts with the first event."""

    def __init__(self, target: Console | None = None) -> None:
        self.run: RunId | None = None
        self._console = target or show.console(stderr=True)
        self._formatter = event_formatter()
        self._builder = turn_view_builder()
        self._live: Live | None = None
        self._state: State | None = None
        self._ledger = Ledger()
        # Replaced as a whole, never changed: the frame is drawn by a thread of its own.
        self._lines: tuple[EventLine, ...] = ()
        self._warnings: tuple[EventLine, ...] = ()
        self._turns: tuple[TurnView, ...] = ()
        self._started = self._last = time.time()
        self._drawn = 0.0

    def watch(self, record: Recorded, state: State, ledger: Ledger) -> None:
        first, *changes = self._formatter.lines(record, state)
        self._builder.add(record)
        self.run, self._state, self._ledger, self._last = record.run, state, ledger, record.at
        self._turns = self._builder.turns
        remarkable = [] if isinstance(record.event, _UNREMARKABLE) else [first]
        self._lines = (*self._lines, *remarkable, *changes)[-KEPT_EVENTS:]
        if first.severity is Severity.WARNING and isinstance(record.event, Noted):
            self._warnings = (*self._warnings, first)[-2:]
        if isinstance(record.event, RunStarted | RunResumed):
            self._begin()
        self._draw()
        if isinstance(record.event, Noted) and record.event.topic is Topic.PERMISSION_ASKED:
            self._console.bell()

    def tell(self, text: str) -> None:
        show.put_line(self._console, EventLine(time.time(), text, _severity_of(text)))

    def __enter__(self) -> LiveView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            # The terminal may be gone; then there is nothing to restore.
            with suppress(OSError):
                self._live.stop()
            self._live = None

    def _draw(self) -> None:
        """Draw at once, unless the frame is fresh: with many agents, events come faster than they can be read."""
        if self._live is not None and time.monotonic() - self._drawn > REDRAW_SECONDS:
            self._live.refresh()
            self._drawn = time.monotonic()

    def _begin(self) -> None:
        self._live = Live(
            console=self._console,
            get_renderable=self.frame,
            # Once per second is enough for the times shown; events are drawn when they come.
            refresh_per_second=1,
            redirect_stdout=False,
            vertical_overflow="ellipsis",
        )
        self._live.start()

    def frame(self) -> RenderableType:
        state = self._state
        # Not the full width: the `^C` that a terminal echoes beside the frame must not break its last line.
        width = max(self._console.width - 4, 20)
        if state is None:
            return Text("starting")
        heading = Text(f"logos · {FLOW_WORDS[state.plan.flow].run} {self.run}", "bold")
        match state:
            case CycleState():
                parts = self._cycle(state, time.time())
            case LevelsState():
                heading.append(f" · {one_line(first_line(state.plan.feature, width))}")
                parts = self._levels(state, time.time(), width - 4)
        # A longer heading would make the frame wider.
        heading.truncate(width - 6, overflow="ellipsis")
        return Panel(Group(*parts), title=heading, title_align="left", border_style=_border(state), width=width)

    def _cycle(self, state: CycleState, now: float) -> list[RenderableType]:
        parts: list[RenderableType] = [self._where(state, now), _roles(state), self._numbers(now), Text()]
        return [*parts, *self._events(LAST_EVENTS), *self._alarms(state)]

    def _levels(self, state: LevelsState, now: float, width: int) -> list[RenderableType]:
        """The nine levels come first; events get the lines that are left."""
        snapshot = levels.BuildSnapshot(state, self._ledger, {turn.turn: turn for turn in self._turns}, now)
        alarms = self._alarms(state)
        more = len(alarms) - ALARMS_OF_A_BUILD
        if more > 0:
            alarms = [*alarms[:-more], short((f"… and {count(more, 'agent')} more", "bold yellow"))]
        above: list[RenderableType] = [
            *levels.where(snapshot),
            self._numbers(now),
            *levels.level_lines(snapshot, width),
            Text(),
        ]
        options = self._console.options.update_width(width)
        high = sum(len(self._console.render_lines(alarm, options)) for alarm in alarms)
        # Two lines are the border, and one is the cursor's.
        left = self._console.height - 3 - len(above) - high - len(self._warnings)
        return [*above, *self._events(max(left, 0)), *alarms]

    def _events(self, at_most: int) -> list[RenderableType]:
        """The last ones; warnings stay a little longer."""
        if not at_most:
            return []
        shown = self._lines[-at_most:]
        older = [line for line in self._warnings if line not in shown]
        return [_event(line) for line in (*older, *shown)]

    def _alarms(self, state: State) -> list[RenderableType]:
        return [] if state.outcome is not None else [_alarm(turn) for turn in self._turns if turn.waits]

    def _where(self, state: CycleState, now: float) -> Text:
        return short(*self._doing(state, now), (f" · round {state.round} of {state.plan.max_rounds}", ""))

    def _doing(self, state: CycleState, now: float) -> list[tuple[str, str]]:
        """What happens now, the most important word first: a narrow terminal cuts the end."""
        if state.outcome is not None:
            return [(state.outcome.value, f"bold {show.STYLES[_ended(state)]}"), (f": {one_line(state.reason)}", "")]
        if state.stalled is not None:
            return [(f"stopped: {one_line(state.stalled)}", "red")]
        if state.checking:
            return [(f"Logos runs `{one_line(state.plan.test_command)}` itself", "bold")]
        opened, wanted = len(self._ledger.terminals), len(state.plan.agents)
        if opened < wanted and not self._turns:
            return [(f"opening terminals, {opened} of {wanted}", "bold")]
        turn = next((turn for turn in self._turns if turn.turn == state.turn_id), None)
        who = f"{state.role.replace('_', ' ')}, cycle {state.cycle}"
        if turn is not None and turn.rests:
            return [(f"resting, {who}", "bold yellow"), (f" · {one_line(turn.rests)}", "")]
        since = "" if turn is None else f", at it for {duration(now - turn.asked)}"
        return [(who, "bold"), (f"{since} · phase {state.phase}", "")]

    def _numbers(self, now: float) -> Text:
        until = self._last if self._state is not None and self._state.outcome is not None else now
        parts = [(f"elapsed {duration(until - self._started)}", "")]
        judged = next((turn for turn in reversed(self._turns) if turn.verdict), None)
        if isinstance(self._state, LevelsState):
            parts += [(f" · {count(self._ledger.spent.turns, 'turn')}", "")]
        elif judged is not None:
            verdict = (judged.verdict, show.STYLES[severity_of(judged.verdict)])
            parts += [(" · last verdict ", ""), verdict, (f" ({judged.turn})", "")]
        return short(*parts, (f" · {sum_in_words(self._ledger.spent, self._ledger.characters)}", ""))


def _roles(state: CycleState) -> Text:
    """The five roles in a row: done, at work, to come."""
    parts: list[tuple[str, str]] = []
    for index, role in enumerate(_ORDER):
        done = state.outcome is not None or index < _ORDER.index(state.role) or state.checking
        mark, style = ("✓", "green") if done else ("○", "dim")
        if role is state.role and state.outcome is None and not state.checking:
            mark, style = "●", "bold cyan"
        if role is Role.TESTER and state.outcome is not None:
            mark, style = ("✓" if _ended(state) is Severity.GOOD else "✗"), show.STYLES[_ended(state)]
        parts += [(" → " if index else "", "dim"), (f"{mark} {role.replace('_', ' ')}", style)]
    return short(*parts)


def _event(line: EventLine) -> Text:
    return short((f"{clock(line.at)}  ", "dim"), (one_line(line.text), show.STYLES[line.severity]))


def _alarm(turn: TurnView) -> RenderableType:
    words = Text(one_line(turn.waits), "bold", no_wrap=False, overflow="fold")
    return Panel(words, title=Text(f"{turn.turn} waits for you", "bold yellow"), border_style="bold yellow")


def _ended(state: State) -> Severity:
    return Severity.GOOD if state.outcome is not None and state.outcome.value == "PASSED" else Severity.BAD


def _border(state: State) -> str:
    return show.STYLES[_ended(state)] if state.outcome is not None else "red" if state.stalled else "cyan"


def _severity_of(text: str) -> Severity:
    return Severity.WARNING if text.startswith("warning") else Severity.NORMAL
