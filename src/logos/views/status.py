"""Where a run stands now: its state in one word, the reason, the active agents and the next command."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logos.domain.roles import Role
from logos.domain.turns import Outcome, RunId, Terminal, TurnId
from logos.views.events import Severity, severity_of, unapproved_in
from logos.views.run import RECREATE, RunView, TurnView
from logos.views.waiting import Waiting, waiting_in

if TYPE_CHECKING:
    from pathlib import Path

# How a driver reports that a budget is used up.
BUDGET = re.compile(r"(limits\.max_\w+) reached")
RUNNING, WAITING, STOPPED = "RUNNING", "WAITING FOR YOU", "STOPPED"
SEVERITIES = {
    "PASSED": Severity.GOOD,
    RUNNING: Severity.NORMAL,
    WAITING: Severity.ALARM,
    STOPPED: Severity.WARNING,
    "BLOCKED": Severity.ALARM,
    "ABANDONED": Severity.WARNING,
}


@dataclass(frozen=True, slots=True)
class Activity:
    """What an agent on this machine does: whether the process of its turn runs, and what it did last."""

    running: bool
    last: str = ""


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run of a work dir, and the process id of the driver that is attached to it, if any."""

    work_dir: Path
    view: RunView
    driver: int | None

    @property
    def word(self) -> str:
        if self.view.outcome is not None:
            return self.view.outcome.value
        if self.waiting:
            return WAITING
        return RUNNING if self.driver is not None else STOPPED

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """What waits for a person."""
        return waiting_in(self.view, driven=self.driver is not None)

    @property
    def in_words(self) -> str:
        """The word for people."""
        outcome = self.view.outcome
        return self.word if outcome is None else outcome.in_words(self.view.state.verified)

    @property
    def severity(self) -> Severity:
        return SEVERITIES.get(self.word, Severity.BAD)

    @property
    def reason(self) -> str:
        """Why the run ended or stopped; where it stands while it is driven."""
        state = self.view.state
        if self.view.question is not None:
            return "it is blocked on a question"
        if state.outcome is not None:
            return state.reason
        if state.gate is not None:
            return state.gate.question
        stopped = state.stalled or ("" if self.driver else self.view.left)
        return stopped or self.where

    @property
    def unapproved(self) -> list[str]:
        """Where the run went on without the approval of a reviewer."""
        return unapproved_in(self.view)

    @property
    def stopped_because(self) -> str:
        """Why the last driver left; empty with an outcome or a driver."""
        return "" if self.view.outcome or self.driver else self.view.left

    @property
    def where(self) -> str:
        return self.view.state.position.text

    @property
    def in_flight(self) -> list[TurnView]:
        """Turns that agents are working on; an agent keeps working when its driver has died."""
        held = self.view.ledger.in_flight
        return [] if self.view.outcome else [turn for turn in self.view.turns if turn.turn in held]

    def terminal_of(self, turn: TurnView) -> Terminal | None:
        held = self.view.ledger.in_flight.get(TurnId(turn.turn))
        return self.view.ledger.terminals.get(held.agent) if held is not None else None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A log, or one run of it, that cannot be read."""

    place: Path
    run: RunId | None
    why: str


def next_command(status: RunStatus, at: str) -> str:
    """The command to use next; `at` is the ` --wd …` that it needs from the current directory, or empty."""
    view = status.view
    if any(turn.waits for turn in status.in_flight) and view.ledger.session and not view.simulated:
        return f"tmux attach -t {view.ledger.session}"
    if view.state.gate is not None:
        return f"logos approve {view.run}{at}"
    if status.driver is not None:
        return f"logos log --follow{at}"
    if view.outcome is None:
        script = " --simulate SCRIPT" if view.simulated else ""
        # Without more of a used-up budget the next driver would stop at once.
        budget = BUDGET.match(view.left)
        more = f" --set {budget[1]}=…" if budget else ""
        again = " --recreate" if RECREATE in view.left and view.build is None else ""
        # `run` and `build` take their work dir as a setting.
        place = at.replace(" --wd ", " --set wd=", 1)
        return f"{view.words.command}{script}{more} --resume{again}{place}"
    if view.question is not None:
        return f"logos resolve{at}"
    if view.before_tampering:
        return f"logos rollback {view.before_tampering}{at}"
    if view.outcome is Outcome.PASSED:
        repository = at.replace(" --wd ", " -C ")
        return f"git{repository} merge {view.branch}" if view.branch else f"logos diff {view.run}{at}"
    if view.build is None:
        turn = view.last_of(*((Role.TESTER,) if view.outcome is Outcome.FAILED else Role))
    else:
        turn = next((turn for turn in reversed(view.turns) if severity_of(turn.verdict) is Severity.BAD), None)
    return f"logos show {view.run} {turn.turn}{at}" if turn else f"logos log {view.run}{at}"
