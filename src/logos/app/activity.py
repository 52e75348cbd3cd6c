"""What agents do and did, as the folders of their terminals tell: what an agent CLI prints is not in the log."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from logos.adapters.commands import exit_code, supervisor_of
from logos.adapters.files import end_of_file, text_of_file
from logos.adapters.hosts.local import SESSION, output_of
from logos.adapters.hosts.provider_output import printed
from logos.adapters.hosts.providers import PROVIDERS
from logos.adapters.hosts.steps import Reader, plain_steps, tail_of
from logos.app.workdir import WorkDir
from logos.domain.events import TerminalOpened, TurnAsked
from logos.domain.steps import Step, StepKind, last_action
from logos.domain.turns import AgentName, Terminal
from logos.errors import UsageError
from logos.views.run import SCRIPTED, RunView, TurnView
from logos.views.status import Activity, RunStatus
from logos.waiting.screens import plain

SESSIONS = (SESSION, SCRIPTED)
# A transcript has at most so many steps, the last ones.
MOST_STEPS = 500


def activities(status: RunStatus) -> dict[str, Activity]:
    """What the agents of turns in flight do, by turn; nothing about those on a server."""
    found = ((turn.turn, activity_of(status.work_dir, status.terminal_of(turn))) for turn in status.in_flight)
    return {turn: activity for turn, activity in found if activity is not None}


def activity_of(place: Path, terminal: Terminal | None) -> Activity | None:
    """Whether the process of an agent's latest turn runs, and what it did last."""
    if terminal is None:
        return None
    turns = [turn for folder in _folders(place, terminal.id, closed=False) for turn in _turns(folder)]
    if not turns:
        return None
    running = exit_code(turns[-1]) is None and supervisor_of(turns[-1]) is not None
    steps = tail_of(turns[-1], _reader(terminal.provider)) or tail_of(turns[-1], plain_steps)
    return Activity(running, last_action(steps))


@dataclass(frozen=True, slots=True)
class Transcript:
    """The steps of a turn, the last ones where there are many, and how many are left out before them."""

    steps: tuple[Step, ...]
    left_out: int = 0


def transcript(place: Path, view: RunView, turn: TurnView) -> Transcript:
    """What the agent of a turn did, from the output of its CLI that is kept."""
    asked = [record.event for record in view.records if isinstance(record.event, TurnAsked)]
    own = [event for event in asked if event.turn == turn.turn]
    if not own:
        raise UsageError(f"{turn.turn} is a step of Logos itself; it has no transcript")
    others = [plain(event.prompt).strip() for event in asked if event.turn != turn.turn]
    opened = dict(_terminals(view, own[-1].agent))
    steps = [
        step
        for terminal, provider in opened.items()
        for folder in _folders(place, terminal, closed=True)
        for kept in _of_turn(folder, plain(own[-1].prompt).strip(), others)
        for step in _steps(kept, provider)
    ]
    if not steps:
        raise UsageError(f"nothing is kept of what the agent of {turn.turn} printed: {_why_nothing(view)}")
    return Transcript(tuple(steps[-MOST_STEPS:]), max(len(steps) - MOST_STEPS, 0))


def _why_nothing(view: RunView) -> str:
    sessions = {record.event.session for record in view.records if isinstance(record.event, TerminalOpened)}
    if sessions - {*SESSIONS}:
        return "its terminal is one of a CAO server, where `tmux attach` shows it while it is open"
    return "it printed nothing, or its folder in .telos is removed, or is in another work dir"


def _terminals(view: RunView, agent: AgentName) -> Iterator[tuple[str, str]]:
    for record in view.records:
        if isinstance(record.event, TerminalOpened) and record.event.agent == agent:
            yield record.event.terminal, record.event.provider


def _folders(place: Path, terminal: str, *, closed: bool) -> list[Path]:
    """The folder of a terminal, after those of its closed predecessors."""
    roots = [WorkDir(place).host_dir(session) for session in SESSIONS]
    old = [folder for root in roots for folder in root.glob(f"{terminal}.closed-*")] if closed else []
    old.sort(key=lambda folder: folder.lstat().st_mtime)
    return [*old, *(folder for root in roots if (folder := root / terminal).is_dir())]


def _turns(folder: Path) -> list[Path]:
    """The folders of the turns whose process started, in order."""
    turns = [pid.parent for pid in folder.glob("turn-*/pid") if pid.parent.name[5:].isdecimal()]
    return sorted(turns, key=lambda turn: int(turn.name[5:]))


def _of_turn(folder: Path, prompt: str, others: list[str]) -> Iterator[Path]:
    """The processes of one turn: those that got its prompt, and those that were only reminded after it."""
    ours = False
    for turn in _turns(folder):
        given = text_of_file(turn / "prompt.md").strip()
        ours = given.endswith(prompt) or (ours and not any(given.endswith(other) for other in others))
        if ours:
            yield turn


def _reader(provider: str) -> Reader:
    return PROVIDERS[provider].steps if provider in PROVIDERS else plain_steps


def _steps(turn: Path, provider: str) -> list[Step]:
    """The steps of a process; of a client that prints only its last word, that word."""
    out, err = output_of(turn / "out"), end_of_file(turn / "err")
    said = printed(out, err, exit_code(turn))
    if not said.rows:
        return plain_steps(said)
    steps = _reader(provider)(said)
    final = PROVIDERS[provider].reading(out, err, exit_code(turn)).final if provider in PROVIDERS else ""
    spoken = any(step.kind is StepKind.MESSAGE for step in steps)
    return steps if spoken or not final else [*steps, Step(StepKind.MESSAGE, final)]
