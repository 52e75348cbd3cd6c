"""Writing the state files of runs. Apart from `runs`, because commands that only show a run need none of this."""

import time
from typing import Any

from logos.adapters.state_files import write_build_state, write_cycle_state
from logos.app.settings import Settings
from logos.domain.events import Recorded, TerminalClosed, TurnSent
from logos.domain.ledger import Ledger
from logos.domain.turns import RunId
from logos.engine.journal import Watcher
from logos.flows.cycle.flow import CycleState
from logos.flows.fold import RunFold, RunState
from logos.flows.levels.state import LevelsState
from logos.views import build_state, cycle_state


def write_state(settings: Settings, state: RunState, ledger: Ledger, run: RunId, seq: int, at: float) -> None:
    match state:
        case CycleState():
            projection = cycle_state.project(state, ledger, run, seq, settings.api, settings.provider)
            write_cycle_state(settings.state_path, projection, at)
        case LevelsState():
            write_build_state(settings.paths.build_state, build_state.project(state, ledger, run, seq, at))


def write_run_state(settings: Settings, fold: RunFold[Any]) -> None:
    """Write the state file of a run that has no driver."""
    write_state(settings, fold.state, fold.ledger, fold.run, fold.seq, time.time())


def state_file_writer(settings: Settings) -> Watcher[Any]:
    """A watcher that rewrites the state file after every event that changes what it shows."""

    def write(record: Recorded, state: RunState, ledger: Ledger) -> None:
        # The file of a build shows a turn when it is asked and drops it when it is answered, so these change nothing.
        unchanged = state.head is not None and isinstance(record.event, TurnSent | TerminalClosed)
        if not unchanged:
            write_state(settings, state, ledger, record.run, record.seq, record.at)

    return write
