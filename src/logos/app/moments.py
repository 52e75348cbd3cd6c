"""A run as it was at any of its events: what a page shows while its scrubber is dragged."""

from dataclasses import dataclass
from pathlib import Path

from logos.app.histories import Histories
from logos.domain.turns import RunId
from logos.errors import UsageError
from logos.views.run import RunView
from logos.views.status import RunStatus

# The driver of a moment in the past: there was one, and its process id says nothing today.
PAST_DRIVER = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """A run after its event `seq`; `last` is its newest event. The past is shown as it was with its driver."""

    place: Path
    status: RunStatus
    seq: int
    last: int

    @property
    def view(self) -> RunView:
        return self.status.view

    @property
    def is_now(self) -> bool:
        return self.seq == self.last


def moment_at(histories: Histories, place: Path, run: RunId, seq: int | None = None) -> Moment:
    """A run of a work dir at an event; without one, at its newest."""
    known = histories.known(place, run)
    last = known.history.last
    at = last if seq is None else seq
    if not 1 <= at <= last:
        raise UsageError(f"there is no event {at} in run {run}: it has {last}")
    driver = known.driver if at == last else PAST_DRIVER
    return Moment(place, RunStatus(place, known.history.at(at), driver), at, last)
