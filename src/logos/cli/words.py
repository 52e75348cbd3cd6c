"""Numbers as a person reads them."""

from __future__ import annotations


def number(many: int) -> str:
    return f"{many:,}"


def count(many: int, what: str) -> str:
    return f"{number(many)} {what}{'' if many == 1 else 's'}"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
