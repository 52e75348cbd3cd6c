"""What the engine needs to drive a run: settings, and what comes from outside."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from logos.domain.turns import TurnId
from logos.domain.usage import Price
from logos.engine.budgets import Budget
from logos.ports import AgentHost, Commands, Log, Prover
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
