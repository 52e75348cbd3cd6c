"""What the engine needs to drive a run: settings, and what comes from outside."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from logos.domain.turns import TurnId
from logos.domain.usage import Price
from logos.engine.budgets import Budget
from logos.engine.messages import JournalOf
from logos.ports import AgentHost, Commands, Inbox, Log, Prover
from logos.views.notices import Notice
from logos.waiting.provider_errors import OnLimit
from logos.waiting.rules import WaitRules

ShowStep = Callable[[TurnId, str], None]


def show_nothing(_turn: TurnId, _text: str) -> None:
    """Of a run that nobody watches."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    work_dir: str
    rules: WaitRules = field(default_factory=WaitRules)
    response_timeout: float = 1800.0
    on_limit: OnLimit = OnLimit.STOP
    retry_back_off: float = 5.0
    budget: Budget = field(default_factory=Budget)
    # By provider; for turns whose cost is not reported.
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    # After how many seconds a person is reminded of an open gate, again and again; 0: never.
    remind_seconds: float = 3600.0
    recreate_terminals: bool = False
    cleanup_on_exit: bool = False


@dataclass(frozen=True, slots=True)
class Dependencies:
    host: AgentHost
    log: Log
    tell: Callable[[str], None]
    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    pause: Callable[[float], object] = time.sleep
    # Tells a person who is elsewhere, at once and in the background.
    notify: Callable[[Notice], object] = lambda _notice: None
    # Called when the agent of a turn does something that can be seen.
    alive: Callable[[TurnId], object] = lambda _turn: None
    # Which files that later runs take their settings from were changed during the run, in words; empty: none.
    changed_files: Callable[[], str] = lambda: ""
    # Shows a person what the agent of a turn does now; nothing of it is recorded.
    show_step: ShowStep = show_nothing
    commands: Commands = field(kw_only=True)
    # None: results are not proven.
    prover: Prover | None = None
    # What persons say in other processes; None: nobody can.
    inbox: Inbox | None = None
    # Another run of the log, for a message that is not for the run that is driven.
    other_run: JournalOf | None = None
    # Whether a person is there, so that the run waits at an open gate instead of stopping.
    waits_at_gates: bool = False
