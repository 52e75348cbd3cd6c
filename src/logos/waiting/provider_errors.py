"""What a provider's error means for a turn: a limit that ends some day, a hiccup, or something a person must mend."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from logos.domain.turns import Trouble

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


def trouble_of(complaint: str) -> Trouble:
    """Limits first: a limit is often reported with a status of its own."""
    if _LIMITS.search(complaint):
        return Trouble.LIMIT
    return Trouble.TRANSIENT if _HICCUPS.search(complaint) else Trouble.PROVIDER


class OnLimit(StrEnum):
    """What follows when a provider's limit is reached."""

    STOP = "stop"
    WAIT = "wait"
    FALLBACK = "fallback"


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Ask the same agent once more; None: when the limit is said to end, or after a while."""

    seconds: float | None


@dataclass(frozen=True, slots=True)
class Replace:
    """Let the next provider in the list take over."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Nothing Logos may do; the run stops and says why."""


Remedy = TryAgain | Replace | Leave

# Twice, with more and more time to breathe: the client itself has tried in its first seconds.
_BACK_OFF = (1, 6)


def remedy(trouble: Trouble, tries: int, on_limit: OnLimit, back_off: float) -> Remedy:
    """What to do about a turn that brought no response; `tries` counts the tries after the first."""
    if trouble is Trouble.TRANSIENT and tries < len(_BACK_OFF):
        return TryAgain(back_off * _BACK_OFF[tries])
    if trouble is Trouble.LIMIT:
        return {OnLimit.STOP: Leave(), OnLimit.WAIT: TryAgain(None), OnLimit.FALLBACK: Replace()}[on_limit]
    return Leave()
