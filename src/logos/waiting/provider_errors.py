"""Classifies a provider's error: a limit, a transient failure, or something a person must fix."""

import re
from dataclasses import dataclass
from enum import Enum, StrEnum

from logos.domain.turns import FailureKind

_LIMITS = re.compile(
    r"\b429\b|too many requests|(?:usage|rate|session|weekly|request|token)[ _-]?limit|quota|"
    r"(?:hit|reached|exceeded) your (?:[\w-]+ ){0,3}limit|limit reached",
    re.IGNORECASE,
)
_HICCUPS = re.compile(
    r"\b5\d\d\b|internal server error|overloaded|bad gateway|service unavailable|gateway time-?out|"
    r"experiencing high demand|temporary failure|"
    r"connection (?:error|refused|reset|closed)|network error|fetch failed|timed? ?out|"
    r"no conversation found|no rollout found|session not found|"
    r"econn(?:refused|reset|aborted)|etimedout|enotfound|eai_again|socket hang up|stream (?:error|disconnected)",
    re.IGNORECASE,
)


def failure_kind_of(provider_error: str) -> FailureKind:
    """Limits are matched first: they are often reported with an HTTP status."""
    if _LIMITS.search(provider_error):
        return FailureKind.LIMIT
    return FailureKind.TRANSIENT if _HICCUPS.search(provider_error) else FailureKind.PROVIDER


class OnLimit(StrEnum):
    STOP = "stop"
    WAIT = "wait"
    FALLBACK = "fallback"


@dataclass(frozen=True, slots=True)
class Retry:
    """Ask the same agent again after `seconds`; None: when the limit ends."""

    seconds: float | None


class Recovery(Enum):
    FAILOVER = "continue with the next spare provider"
    STOP = "stop the run and say why"


# Two retries with growing delays: the client itself has already retried in its first seconds.
_BACK_OFF = (1, 6)


def recovery_for(trouble: FailureKind, tries: int, on_limit: OnLimit, back_off: float) -> Retry | Recovery:
    """What to do about a turn without a response; `tries` counts the retries so far."""
    if trouble in (FailureKind.TRANSIENT, FailureKind.CUT_OFF) and tries < len(_BACK_OFF):
        return Retry(back_off * _BACK_OFF[tries])
    if trouble is FailureKind.LIMIT:
        return {OnLimit.STOP: Recovery.STOP, OnLimit.WAIT: Retry(None), OnLimit.FALLBACK: Recovery.FAILOVER}[on_limit]
    return Recovery.STOP
