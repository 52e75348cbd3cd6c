"""The view of a run in progress: a live frame on a terminal, plain lines elsewhere."""

import os
import sys
import threading
import time
from contextlib import AbstractContextManager, suppress

from rich.console import Console, Group, RenderableType
from rich.control import Control
from rich.live import Live
from rich.panel import Panel
from rich.segment import ControlType
from rich.text import Text

from logos.app.runs import read_report
from logos.cli.output import console as show
from logos.cli.output.console import Part, short
from logos.cli.output.layout import NARROWEST, fold
from logos.cli.output.levels import LevelsView
from logos.domain.events import (
    GateOpened,
    Noted,
    Recorded,
    RunResumed,
    RunStarted,
    TerminalClosed,
    TerminalOpened,
    Topic,
    TurnFailed,
    TurnSent,
)
from logos.domain.ledger import Ledger
from logos.domain.roles import PHASE_DEFS, Role
from logos.domain.turns import Outcome, RunId, TurnId
from logos.flows.cycle.flow import CycleState
from logos.flows.levels.state import LevelsState
from logos.views.events import EventFormatter, EventLine, Severity, severity_of
from logos.views.redact import one_line
from logos.views.run import FLOW_WORDS, State, TurnView, TurnViewBuilder
from logos.views.text import clock, count, cut, duration, first_line
from logos.views.turns import LOGOS, proof_step_in_words
from logos.views.usage import sum_in_words

LAST_EVENTS = 8
# A build shows as many as fit on the terminal.
KEPT_EVENTS = 20
ALARMS_OF_A_BUILD = 2
# A warning is cut after so many lines.
WARNING_LINES = 3
REDRAW_SECONDS = 0.1
# Where no frame is drawn, a run that says nothing for so long says who is at work.
HEARTBEAT_SECONDS = 60.0
MOST_AT_WORK = 3
MAX_STEP = 160
OLD_STEP_SECONDS = 60.0
# Between events only the times change. Drawing them each second would take most of what an idle driver uses.
CLOCK_RATE = 0.5
_UNREMARKABLE = (TurnSent, TerminalOpened, TerminalClosed)
_ORDER = [role for stage in PHASE_DEFS for role in (stage.author, stage.reviewer) if role is not None]


class View(AbstractContextManager["View"]):
    """Shows every event of a run and every message of Logos: a line with its time, on stderr.

    When nothing is said for a while, a line says who is at work, for how long, and what was done last.
    """

    def __init__(self, target: Console | None = None, heartbeat: float = HEARTBEAT_SECONDS) -> None:
        self.run: RunId | None = None
        self._console = target or show.console(stderr=True)
        self._formatter = EventFormatter(read_report)
        self._builder = TurnViewBuilder(read_report)
        self._state: State | None = None
        self._ledger = Ledger()
        # By turn, what its agent did last, and when that was seen.
        self._steps: dict[str, tuple[str, float]] = {}
        self._heartbeat = heartbeat
        self._said = time.monotonic()
        self._closed = threading.Event()
        self._beating: threading.Thread | None = None

    def watch(self, record: Recorded, state: State, ledger: Ledger) -> None:
        for line in self._take(record, state, ledger):
            self._put(line)
        if self._beating is None and self._heartbeat:
            self._beating = threading.Thread(target=self._beat, daemon=True)
            self._beating.start()

    def _take(self, record: Recorded, state: State, ledger: Ledger) -> list[EventLine]:
        """The lines of an event, without those that the command's own last lines say again."""
        self._builder.add(record)
        self.run, self._state, self._ledger = record.run, state, ledger
        lines, event = self._formatter.lines(record, state), record.event
        left = isinstance(event, Noted) and event.topic is Topic.INTERRUPTED
        stops = isinstance(event, TurnFailed) and all(asked.failed for asked in ledger.in_flight.values())
        return [] if left or (stops and state.stalled is not None) else lines

    def tell(self, text: str) -> None:
        severity = Severity.WARNING if text.startswith("warning") else Severity.NORMAL
        self._put(EventLine(time.time(), text, severity))

    def show_step(self, turn: TurnId, text: str) -> None:
        # The newest is the last.
        self._steps = {**{name: step for name, step in self._steps.items() if name != turn}, turn: (text, time.time())}

    def _put(self, line: EventLine) -> None:
        self._said = time.monotonic()
        show.put_line(self._console, line)

    def _beat(self) -> None:
        while not self._closed.wait(max(self._said + self._heartbeat - time.monotonic(), 0.01)):
            quiet = time.monotonic() - self._said >= self._heartbeat
            if quiet and (words := self.at_work(time.time())):
                self._put(EventLine(time.time(), words, Severity.QUIET))
            elif quiet:
                self._said = time.monotonic()

    def at_work(self, now: float) -> str:
        """Who is at work, for how long, and what was done last; empty where nobody is."""
        held = [turn for turn in self._builder.turns if turn.turn in self._ledger.in_flight and not turn.failure]
        named = [self._working(turn, now) for turn in held[:MOST_AT_WORK]]
        more = [f"and {count(len(held) - len(named), 'more agent')}"] if len(held) > len(named) else []
        state = self._state
        if state is None or state.outcome is not None:
            return ""
        return "; ".join([*named, *more]) or ("Logos runs the tests of the proof" if state.proof else "")

    def _working(self, turn: TurnView, now: float) -> str:
        since = duration(float(int(max(now - turn.asked, 0)))).replace(".0", "")
        step, at = self._steps.get(turn.turn, ("", now))
        last = turn.waits or turn.rests or (f"{_ago(now - at)}{step}" if step else "")
        word = "waits for you" if turn.waits else "rests" if turn.rests else "at work"
        return f"{turn.turn}: {word}, for {since}{f' · {cut(one_line(last), MAX_STEP)}' if last else ''}"

    def __exit__(self, *error: object) -> None:
        self._closed.set()


def view() -> View:
    dumb = os.environ.get("TERM", "") in ("", "dumb")
    return LiveView() if sys.stderr.isatty() and not dumb else View()


class Frame(Live):
    """A live display that erases all of its last frame when the terminal became narrower.

    Most terminals break the lines of the old frame then, so that it has more rows than were drawn.
    """

    _drawn = (0, 0)

    def refresh(self) -> None:
        width, (rows, drawn) = self.console.width, self._drawn
        broken = rows * (-(-drawn // max(width, 1)) - 1)
        if broken > 0:
            up = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2))
            self.console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2), *(up * broken)))
            self._drawn = (0, 0)
        super().refresh()

    def has_drawn(self, rows: int, width: int) -> None:
        self._drawn = (rows, width)


class LiveView(View):
    """A frame that stays in place: where the run stands, and its last events. It starts with the first event."""

    def __init__(self, target: Console | None = None) -> None:
        super().__init__(target, heartbeat=0)
        self._live: Frame | None = None
        # Replaced as a whole, never changed: the frame is drawn by a thread of its own.
        self._lines: tuple[Text, ...] = ()
        self._warnings: tuple[tuple[EventLine, Text], ...] = ()
        self._turns: tuple[TurnView, ...] = ()
        self._started = self._last = time.time()
        self._drawn = 0.0

    def watch(self, record: Recorded, state: State, ledger: Ledger) -> None:
        event, lines = record.event, self._take(record, state, ledger)
        drawn = [short((f"{clock(at.at)}  ", "dim"), (one_line(at.text), show.STYLES[at.severity])) for at in lines]
        self._last, self._turns = record.at, self._builder.turns
        remarkable = drawn[1:] if isinstance(event, _UNREMARKABLE) else drawn
        self._lines = (*self._lines, *remarkable)[-KEPT_EVENTS:]
        if lines and lines[0].severity is Severity.WARNING and isinstance(event, Noted):
            self._warnings = (*self._warnings, (lines[0], drawn[0]))[-2:]
        if isinstance(event, RunStarted | RunResumed):
            self._live = Frame(
                console=self._console, get_renderable=self.frame, refresh_per_second=CLOCK_RATE, redirect_stdout=False
            )
            self._live.start()
        # Drawn at once, unless the frame is fresh: with many agents, events come faster than they can be read.
        if self._live is not None and time.monotonic() - self._drawn > REDRAW_SECONDS:
            # The terminal may be gone; the signal that says so is on its way.
            with suppress(OSError):
                self._live.refresh()
            self._drawn = time.monotonic()
        if isinstance(event, GateOpened) or (isinstance(event, Noted) and event.topic is Topic.PERMISSION_ASKED):
            with suppress(OSError):
                self._console.bell()

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            # The terminal may be gone; then there is nothing to restore.
            with suppress(OSError):
                self._live.stop()
            self._live = None

    def frame(self) -> RenderableType:
        state, now = self._state, time.time()
        # Not the full width: the `^C` that a terminal echoes beside the frame must not break its last line.
        width = max(self._console.width - 4, 20)
        if state is None:
            return Text("starting")
        heading = Text(f"logos · {FLOW_WORDS[state.plan.flow].run} {self.run}", "bold")
        alarms = [_alarm(turn.turn, turn.waits) for turn in self._turns if turn.waits and state.outcome is None]
        alarms += [_alarm(state.gate.id, state.gate.question)] if state.gate is not None else []
        match state:
            case CycleState():
                rounds = f" · round {state.round} of {state.last_round}"
                where = short(*(_stopped(state) or self._doing(state, now)), (rounds, ""))
                parts = [where, _roles(state), self._numbers(now), self._step()]
                parts += [*self._warned(width - 4), *self._events(LAST_EVENTS), *alarms]
            case LevelsState():
                heading.append(f" · {one_line(first_line(state.plan.feature, width))}")
                parts = self._levels(state, now, width - 4, alarms)
        # A longer heading would make the frame wider.
        heading.truncate(width - 6, overflow="ellipsis")
        border = _ended_style(state) if state.outcome is not None else "red" if state.stalled else "cyan"
        if self._live is not None:
            self._live.has_drawn(len(parts) + 2, width)
        return Panel(Group(*parts), title=heading, title_align="left", border_style=border, width=width)

    def _levels(self, state: LevelsState, now: float, width: int, alarms: list[RenderableType]) -> list[RenderableType]:
        """The nine levels come first; events get the lines that are left."""
        build = LevelsView(state, self._ledger, {turn.turn: turn for turn in self._turns}, now)
        more = len(alarms) - ALARMS_OF_A_BUILD
        if more > 0:
            alarms = [*alarms[:-more], short((f"… and {count(more, 'agent')} more", "bold yellow"))]
        stopped = _stopped(state)
        where = short(*(stopped or [(build.doing(), "bold")]), (f" · sweep {state.sweep}", ""))
        question = [short((one_line(state.dispute.question), "yellow"))] if state.dispute and not stopped else []
        above = [where, *question, self._numbers(now), *build.lines(width), self._step()]
        options = self._console.options.update_width(width)
        high = sum(len(self._console.render_lines(alarm, options)) for alarm in alarms)
        # Two lines are the border, and one is the cursor's.
        warned = self._warned(width)
        left = self._console.height - 3 - len(above) - high - len(warned)
        return [*above, *(warned if left >= 0 else warned[:left]), *self._events(left), *alarms]

    def _step(self) -> Text:
        """What the agent at work did last; of several, the one that did something last. Else a blank line."""
        held = [turn for turn in self._turns if turn.turn in self._ledger.in_flight and turn.ended is None]
        for turn, (text, at) in reversed(self._steps.items()):
            if self._state is not None and self._state.outcome is None and any(turn == own.turn for own in held):
                who = turn if len(held) > 1 else "now"
                return short((f"{who}: {_ago(time.time() - at)}", "dim"), (one_line(text), "dim"))
        return Text()

    def _warned(self, width: int) -> list[Text]:
        """The last warnings, which stay a little longer than events; folded, because their end says why."""
        lines: list[Text] = []
        for line, _ in self._warnings:
            head, style = f"{clock(line.at)}  ", show.STYLES[line.severity]
            first, *more = fold(one_line(line.text), max(width - len(head), NARROWEST))
            if len(more) >= WARNING_LINES:
                more = [*more[: WARNING_LINES - 2], f"{more[WARNING_LINES - 2]} …"]
            lines += [short((head, "dim"), (first, style)), *(short((" " * len(head) + rest, style)) for rest in more)]
        return lines

    def _events(self, at_most: int) -> list[Text]:
        """The last ones; warnings stand above them."""
        warnings = [drawn for _, drawn in self._warnings]
        return [line for line in self._lines[-at_most:] if line not in warnings] if at_most > 0 else []

    def _doing(self, state: CycleState, now: float) -> list[Part]:
        """What happens now, the most important word first: a narrow terminal cuts the end."""
        if state.comparing:
            return [("Logos looks for what has changed", "bold")]
        if state.proof is not None and not state.comparing:
            return [(f"proof: {proof_step_in_words(state.proof)}", "bold")]
        if state.checking:
            return [(f"Logos runs `{one_line(state.plan.test_command)}` itself", "bold")]
        opened, wanted = len(self._ledger.terminals), len(state.plan.agents)
        if opened < wanted and all(turn.agent == LOGOS for turn in self._turns):
            return [(f"opening terminals, {opened} of {wanted}", "bold")]
        turn = next((turn for turn in self._turns if turn.turn == state.turn_id), None)
        who = f"{state.role.replace('_', ' ')}, cycle {state.cycle}"
        if turn is not None and turn.rests:
            return [(f"resting, {who}", "bold yellow"), (f" · {one_line(turn.rests)}", "")]
        since = "" if turn is None else f", at it for {duration(now - turn.asked)}"
        return [(who, "bold"), (f"{since} · phase {state.phase}", "")]

    def _numbers(self, now: float) -> Text:
        """A narrow terminal cuts the end: what it has cost comes before the last verdict, if that is known."""
        until = self._last if self._state is not None and self._state.outcome is not None else now
        spent = self._ledger.spent
        bill: list[Part] = [(f" · {sum_in_words(spent, self._ledger.characters)}", "")]
        judged = next((turn for turn in reversed(self._turns) if turn.verdict), None)
        middle, builds = list[Part](), isinstance(self._state, LevelsState)
        if builds:
            middle = [(f" · {count(spent.turns, 'turn')}", "")]
        elif judged is not None:
            verdict = (judged.verdict, show.STYLES[severity_of(judged.verdict)])
            middle = [(" · last verdict ", ""), verdict, (f" ({judged.turn})", "")]
        ordered = [*middle, *bill] if builds or spent.usage.tokens is None else [*bill, *middle]
        return short((f"elapsed {duration(until - self._started)}", ""), *ordered)


def _ago(seconds: float) -> str:
    """How long a step is past, where it is long: the client may be waiting without a word."""
    return f"({duration(seconds)} ago) " if seconds >= OLD_STEP_SECONDS else ""


def _stopped(state: State) -> list[Part]:
    """How the run ended, or why it stopped; empty while it goes on."""
    if state.outcome is not None:
        return [
            (state.outcome.in_words(state.verified), f"bold {_ended_style(state)}"),
            (f": {one_line(state.reason)}", ""),
        ]
    if state.gate is not None:
        return [("waits for you", "bold yellow")]
    return [(f"stopped: {one_line(state.stalled)}", "red")] if state.stalled is not None else []


def _roles(state: CycleState) -> Text:
    """The five roles in a row: done, at work, to come."""
    parts: list[Part] = []
    over = state.proving or state.gates.reached is not None
    for index, role in enumerate(_ORDER):
        done = state.outcome is not None or index < _ORDER.index(state.role) + over
        mark, style = ("✓", "green") if done else ("○", "dim")
        if role is state.role and not done:
            mark, style = "●", "bold cyan"
        if role is Role.TESTER and state.outcome is not None:
            mark, style = "✓" if state.outcome is Outcome.PASSED else "✗", _ended_style(state)
        parts += [(" → " if index else "", "dim"), (f"{mark} {role.replace('_', ' ')}", style)]
    return short(*parts)


def _alarm(what: str, asked: str) -> RenderableType:
    words = Text(one_line(asked), "bold", no_wrap=False, overflow="fold")
    return Panel(words, title=Text(f"{what} waits for you", "bold yellow"), border_style="bold yellow")


def _ended_style(state: State) -> str:
    return "green" if state.outcome is Outcome.PASSED else "red"
