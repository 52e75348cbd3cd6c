"""Numbers, lists, times and long texts as a person reads them."""

import re
import signal
import time
from collections.abc import Iterable
from contextlib import suppress


def number(many: int) -> str:
    return f"{many:,}"


def count(many: int, what: str) -> str:
    return f"{number(many)} {what}{'' if many == 1 else 's'}"


def listed(names: Iterable[str]) -> str:
    """`L4, L3 and L2`."""
    *most, last = [*names] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def first_line(text: str, at_most: int = 60) -> str:
    """The first line that is not blank, cut."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return cut(first, at_most)


def cut(text: str, at_most: int) -> str:
    return text if len(text) <= at_most else text[: at_most - 3] + "..."


def stop_in_words(why: str) -> str:
    """Why a driver left; older versions recorded the number of a signal."""
    found = re.fullmatch(r"stopped by signal (\d+)", why)
    with suppress(ValueError):
        return f"stopped by {signal.Signals(int(found[1])).name}" if found else why
    return why


def duration(seconds: float) -> str:
    """`1:02:03`, `2:03` or `3.4 s`; negative values, from a clock that was set back, count as zero."""
    seconds = max(seconds, 0.0)
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def date(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
