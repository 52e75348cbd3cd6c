"""What a provider's error means for a turn: a limit that ends some day, a hiccup, or something a person must mend."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from logos.domain.turns import FailureKind

_LIMITS = re.compile(
    r"\b429\b|too many requests|(?:usage|rate|session|weekly|request|token)[ _-]?limit|quota|"
    r"(?:hit|reached|exceeded) your (?:[\w-]+ ){0,3}limit|limit reached",
    re.IGNORECASE,
)
_HICCUPS = re.compile(
    r"\b5\d\d\b|internal server error|overloaded|bad gateway|service unavailable|gateway time-?out|"
    r"connection (?:error|refused|reset|closed)|network error|fetch failed|timed? ?out|"
    r"no conversation found|no rollout found|session not found|"
    r"econn(?:refused|reset|aborted)|etimedout|enotfound|eai_again|socket hang up|stream (?:error|disconnected)",
    re.IGNORECASE,
)


def failure_kind_of(provider_error: str) -> FailureKind:
    """Limits first: a limit is often reported with a status of its own."""
    if _LIMITS.search(provider_error):
        return FailureKind.LIMIT
    return FailureKind.TRANSIENT if _HICCUPS.search(provider_error) else FailureKind.PROVIDER


class OnLimit(StrEnum):
    """What follows when a provider's limit is reached."""

    STOP = "stop"
    WAIT = "wait"
    FALLBACK = "fallback"


@dataclass(frozen=True, slots=True)
class Retry:
    """Ask the same agent once more; None: when the limit is said to end, or after a while."""

    seconds: float | None


@dataclass(frozen=True, slots=True)
class Failover:
    """Let the next provider in the list take over."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Nothing Logos may do; the run stops and says why."""


Recovery = Retry | Failover | Stop

# Twice, with more and more time to breathe: the client itself has tried in its first seconds.
_BACK_OFF = (1, 6)


def recovery_for(trouble: FailureKind, tries: int, on_limit: OnLimit, back_off: float) -> Recovery:
    """What to do about a turn that brought no response; `tries` counts the tries after the first."""
    if trouble is FailureKind.TRANSIENT and tries < len(_BACK_OFF):
        return Retry(back_off * _BACK_OFF[tries])
    if trouble is FailureKind.LIMIT:
        return {OnLimit.STOP: Stop(), OnLimit.WAIT: Retry(None), OnLimit.FALLBACK: Failover()}[on_limit]
    return Stop()
