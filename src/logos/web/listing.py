"""The list of runs: searched, in groups, and each run's state and result in a few words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from logos.domain.turns import Outcome
from logos.views.run import RunView
from logos.views.status import RUNNING

_STATE_TONES = {RUNNING: "at-work"}


@dataclass(frozen=True, slots=True)
class Mark:
    """Whether a result is proven: a tone and a few words."""

    tone: str
    words: str


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    name: str
    rows: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """The runs that fit a search, in groups; `counts` are of all that fit, by group."""

    groups: tuple[Group, ...]
    counts: Mapping[str, int]
    all: int


_GROUPS: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("waiting", "Waiting for you", lambda row: bool(row.waiting)),
    ("running", "Running", lambda row: row.driver is not None),
    ("stopped", "Stopped", lambda row: row.outcome is None),
    ("ended", "Ended", lambda _: True),
)


def listing(rows: Iterable[Any], search: str = "", state: str = "") -> Listing:
    """Runs in groups, those that wait for a person first; each run is in the first group that it fits."""
    wanted = search.casefold().split()
    fitting = [row for row in rows if all(word in _searched(row) for word in wanted)]
    grouped: dict[str, list[Any]] = {name: [] for name, _, _ in _GROUPS}
    for row in fitting:
        grouped[next(name for name, _, fits in _GROUPS if fits(row))].append(row)
    groups = tuple(Group(title, name, tuple(grouped[name])) for name, title, _ in _GROUPS if state in ("", name))
    counts = {name: len(found) for name, found in grouped.items()}
    return Listing(tuple(group for group in groups if group.rows), counts, len(fitting))


def _searched(row: Any) -> str:
    return " ".join((row.run, row.asked_for, str(row.place), row.in_words, row.flow, *row.at_work)).casefold()


def row_mark(row: Any) -> Mark:
    return _mark(None if row.waiting else row.outcome, verified=row.verified)


def view_mark(view: RunView) -> Mark:
    return _mark(None if view.question is not None else view.outcome, verified=bool(view.state.verified))


def _mark(outcome: Outcome | None, *, verified: bool) -> Mark:
    """`outcome` is None while the run can go on."""
    if outcome is Outcome.PASSED:
        return Mark("good", "proven") if verified else Mark("warning", "not proven")
    return Mark("normal", "not yet" if outcome is None else "no pass")


def state_of(run: Any) -> Mark:
    """The state of a run, or of a row of the list: a PASS that is not proven says so, and is no good news yet."""
    words = run.in_words
    tone = "warning" if "unverified" in words else _STATE_TONES.get(run.word, str(run.severity))
    first, comma, rest = words.partition(",")
    return Mark(tone, f"{first.capitalize()}{comma}{rest}")
