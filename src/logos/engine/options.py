"""The settings that the engine needs to drive a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from logos.engine.budgets import Budget
from logos.waiting.provider_errors import OnLimit
from logos.waiting.rules import WaitRules


@dataclass(frozen=True, slots=True)
class RunOptions:
    work_dir: str
    rules: WaitRules = field(default_factory=WaitRules)
    response_timeout: float = 1800.0
    on_limit: OnLimit = OnLimit.STOP
    retry_back_off: float = 5.0
    budget: Budget = field(default_factory=Budget)
    recreate_terminals: bool = False
    cleanup_on_exit: bool = False
