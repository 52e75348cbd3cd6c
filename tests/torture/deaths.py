"""How processes of the walk die."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM, Signals


@dataclass(frozen=True, slots=True)
class Death:
    """At an instant that the environment of a process names, or after some seconds, from outside."""

    environment: Mapping[str, str]
    after: float | None = None
    by: Signals = SIGKILL

    def __str__(self) -> str:
        named = " ".join(f"{key}={value}" for key, value in self.environment.items())
        return named or f"{self.by.name} after {self.after} s"


def of_a_driver(rng: Random, seq: int, *, timed: bool) -> Death:
    """Around one of the next events after `seq`, before any of its acts, in a call of git; if `timed`, at any moment."""
    at = str(seq + rng.randint(1, 10))
    match rng.randrange(9):
        case 0 | 1:
            return Death({"DIE_AFTER": at})
        case 2 | 3:
            return Death({"DIE_BEFORE": at})
        case 4:
            return Death({"DIE_BETWEEN": at})
        case 5:
            return Death({"DIE_AT_ACT": str(int(2 ** rng.uniform(0, 8)))})
        case 6:
            return in_git(rng, 30)
        case 7:
            return Death({}, round(rng.uniform(0.02, 0.8), 2)) if timed else Death({"DIE_BETWEEN": at})
        case _:
            # Not killed, but told to go: it takes its agents along.
            by = rng.choice((SIGTERM, SIGHUP, SIGINT))
            return (
                Death({}, round(rng.uniform(0.3, 0.8), 2), by) if timed else Death({"DIE_AFTER": at, "DIE_BY": by.name})
            )


def of_a_command(rng: Random, file: Path, *, timed: bool) -> Death:
    """Around what it writes into the log, before any of its acts, in a call of git; if `timed`, at any moment."""
    match rng.randrange(4):
        case 0:
            events = ("run_abandoned", "run_forked", "terminal_closed tester", "terminal_closed analyst")
            file.write_text(f"{rng.choice(('before', 'between'))} {rng.choice(events)}")
            return Death({"DEATHS": str(file)})
        case 1:
            return Death({"DIE_AT_ACT": str(rng.randint(1, 60))})
        case 2:
            return in_git(rng, 20)
        case _:
            moment = round(rng.uniform(0.02, 0.3), 3)
            return Death({}, moment) if timed else Death({"DIE_AT_ACT": str(int(400 * moment))})


def in_git(rng: Random, at_most: int) -> Death:
    dies_too = {"GIT_DIES_TOO": "1"} if rng.random() < 0.5 else {}
    return Death({"DIES_AT": str(rng.randint(1, at_most)), **dies_too})
