"""When a provider's limit ends, as far as its message says; and the person's own budgets."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from logos.domain.usage import Spent
from logos.errors import BudgetReached

# Retry interval for a limit whose message names no end.
UNSAID_SECONDS = 900.0
# Extra wait after the announced end of a limit.
MARGIN_SECONDS = 5.0

# A number that means an end more than a century away is not a time.
LONGEST_SECONDS = 100 * 365 * 86400.0

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_EPOCH = re.compile(r"\b(1[6-9]\d{8}|2\d{9})\b")
_SPAN = re.compile(
    r"(\d+(?:\.\d+)?)\s*(w|d|h|m(?!s)|s)(?:eeks?|ays?|ours?|in(?:ute)?s?|ec(?:ond)?s?|r?s?)?(?![a-z])", re.IGNORECASE
)
_AFTER = re.compile(r"(?:try again in|retry (?:after|in)|resets? in|wait)\b:?\s*(.{1,60})", re.IGNORECASE)
_ISO = re.compile(r"\b(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)")
_CLOCK = re.compile(
    r"(?:resets?(?: at)?|again at|until|at)\s+(\d{1,2})(?::(\d\d))?\s*([ap]m)?\b(?:\s*\(([\w/+-]+)\))?", re.IGNORECASE
)
_DATE = re.compile(r"\b([A-Z][a-z]{2}) (\d{1,2})(?:st|nd|rd|th)?,? (\d{4}),? (\d{1,2}):(\d\d) ?([AP]M)\b")


def ends_at(message: str, now: float) -> float | None:
    """When the limit ends (seconds since the epoch), or None when the message names no possible time."""
    for pattern, read in _READERS:
        found = pattern.search(message)
        # A message may hold any digits, also dates that do not exist.
        with suppress(ValueError, OverflowError):
            end = read(found, now) if found else None
            if end is not None and abs(end - now) <= LONGEST_SECONDS:
                return end
    return None


def _iso(found: re.Match[str], _now: float) -> float:
    moment = datetime.fromisoformat(found[1].replace("Z", "+00:00"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _date(found: re.Match[str], _now: float) -> float:
    words = f"{found[1]} {found[2]} {found[3]} {found[4]}:{found[5]} {found[6]}"
    return datetime.strptime(words, "%b %d %Y %I:%M %p").astimezone().timestamp()


def _after(found: re.Match[str], now: float) -> float | None:
    if spans := _SPAN.findall(found[1]):
        return now + sum(float(count) * _UNITS[unit.lower()] for count, unit in spans)
    bare = re.match(r"\d+", found[1])
    return now + float(bare[0]) if bare else None


def _clock(found: re.Match[str], now: float) -> float | None:
    """The next time a clock in this zone, or the local one, shows this."""
    hour, minute, half, zone = int(found[1]), int(found[2] or 0), (found[3] or "").lower(), found[4]
    hour = hour % 12 + 12 * (half == "pm") if half else hour
    if hour > 23 or minute > 59:
        return None
    try:
        here = datetime.fromtimestamp(now, ZoneInfo(zone)) if zone else datetime.fromtimestamp(now).astimezone()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        here = datetime.fromtimestamp(now).astimezone()
    moment = here.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return (moment if moment > here else moment + timedelta(days=1)).timestamp()


# Ordered from the most exact form to the least.
_READERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], float], float | None]], ...] = (
    (_EPOCH, lambda found, _now: float(found[1])),
    (_ISO, _iso),
    (_DATE, _date),
    (_AFTER, _after),
    (_CLOCK, _clock),
)


def seconds_to_wait(message: str, now: float) -> float:
    end = ends_at(message, now)
    return UNSAID_SECONDS if end is None else max(end - now, 0.0) + MARGIN_SECONDS


def until_words(message: str, now: float) -> str:
    """When a limit ends, for a person; empty when unknown."""
    end = ends_at(message, now)
    return "" if end is None else datetime.fromtimestamp(end).astimezone().strftime("until %Y-%m-%d %H:%M")


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may cost; None is no limit."""

    max_tokens: int | None = None
    max_cost_usd: float | None = None
    max_minutes: float | None = None

    def uncounted(self, spent: Spent) -> str:
        """What the limits do not count, because a turn did not report it; empty where they count everything."""
        unknown = (
            ("max_tokens", self.max_tokens, spent.tokens_unknown, "the tokens"),
            ("max_cost_usd", self.max_cost_usd, spent.cost_unknown, "the cost"),
        )
        found = [
            f"limits.{key} does not count {what}" for key, limit, turns, what in unknown if limit is not None and turns
        ]
        return f"{' and '.join(found)} of turns that report none" if found else ""

    def check(self, spent: Spent, seconds: float) -> None:
        """Raise BudgetReached between turns, never in the middle of one."""
        measured: tuple[tuple[str, float | None, float | None, Callable[[float], str]], ...] = (
            ("max_tokens", self.max_tokens, spent.usage.tokens, lambda n: f"{n:,.0f} tokens"),
            ("max_cost_usd", self.max_cost_usd, spent.usage.cost_usd, lambda n: f"${n:,.2f}"),
            ("max_minutes", self.max_minutes, seconds / 60, lambda n: f"{n:,.1f} minutes"),
        )
        for key, limit, used, words in measured:
            if limit is not None and used is not None and used >= limit:
                about = "~" if key == "max_cost_usd" and spent.usage.estimated else ""
                raise BudgetReached(
                    f"limits.{key} reached: {about}{words(used)} of {words(limit)}; "
                    f"nothing is lost; raise it (--set limits.{key}=…) and continue with --resume",
                    f"limits.{key}",
                    limit,
                )
