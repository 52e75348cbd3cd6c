"""The live view of a build: what goes on right now, and nine rungs with what each is doing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logos.cli.output.console import short
from logos.domain.ledger import Ledger
from logos.domain.levels import LEVELS, Level, LevelDef
from logos.domain.reports import TurnKind
from logos.domain.turns import Outcome
from logos.flows.levels.reconcile import Cause, Dispute
from logos.flows.levels.state import LevelsState, LevelStatus, PendingTurn, Stage
from logos.views.redact import one_line
from logos.views.run import TurnView
from logos.views.text import count, duration, listed

if TYPE_CHECKING:
    from rich.text import Text

Part = tuple[str, str]

_DOING = {
    TurnKind.DECOMPOSE: "decomposing",
    TurnKind.AUTHOR: "writing",
    TurnKind.LINT: "linting",
    TurnKind.VALIDATE: "validating",
    TurnKind.POSITION: "position",
    TurnKind.PROPOSE: "proposal",
    TurnKind.AGREE: "vote",
    TurnKind.ALIGN: "alignment check",
}
_SAYS = {
    TurnKind.POSITION: "positions",
    TurnKind.PROPOSE: "a proposal",
    TurnKind.AGREE: "votes on the proposal",
    TurnKind.ALIGN: "L9 checks alignment",
}
_MARKS: dict[LevelStatus, Part] = {
    LevelStatus.PROVEN: ("✓", "green"),
    LevelStatus.PASSED: ("✓", "green"),
    LevelStatus.UNPROVEN: ("○", "yellow"),
    LevelStatus.FAILED: ("✗", "red"),
}
# Down to here, everything above is specified while the stage lasts.
_FLOOR = {Stage.BUILD: Level.L2, Stage.MERGE: Level.L2, Stage.LINT: Level.L1}
_TITLE = max(len(level_def.title) for level_def in LEVELS.values())
# Before a title: mark and level. Authors are many, so their line begins right after its title.
_LEAD = len("✓ L9 ")
_GAP = "  "


@dataclass(frozen=True, slots=True)
class Sight:
    """What the rungs are drawn from; `turns` by their ids."""

    state: LevelsState
    ledger: Ledger
    turns: Mapping[str, TurnView]
    now: float


def where(sight: Sight) -> list[Text]:
    """What goes on right now, the most telling word first; in a reconciliation, over which question."""
    state = sight.state
    sweep = (f" · sweep {state.sweep}", "")
    if state.outcome is not None:
        style = "bold green" if state.outcome is Outcome.PASSED else "bold red"
        return [short((state.outcome.value, style), (f": {one_line(state.reason)}", ""), sweep)]
    if state.stalled is not None:
        return [short((f"stopped: {one_line(state.stalled)}", "red"), sweep)]
    first = short((_going(sight), "bold"), sweep)
    if state.dispute is None:
        return [first]
    return [first, short((one_line(state.dispute.question), "yellow"))]


def _going(sight: Sight) -> str:
    state = sight.state
    match state.stage:
        case Stage.DOWN:
            return f"down: {state.level.name} writes its spec"
        case Stage.BUILD:
            held = sum(ask.turn in sight.ledger.in_flight for ask in state.pending_turns)
            left = len(state.todo) - len(state.gathered)
            return f"build: {count(held, 'author')} at work, {len(state.gathered)} done, {left - held} to come"
        case Stage.MERGE:
            return f"Logos merges {count(len(state.unmerged), 'component')}"
        case Stage.LINT:
            return "L1 makes the linters content"
        case Stage.UP:
            return f"up: {_checking(state) or f'{state.level.name} validates'}"
        case Stage.DISPUTE:
            return _reconciling(state.dispute, state.plan.max_rounds) if state.dispute else "reconciliation"


def _checking(state: LevelsState) -> str:
    left = state.unproven_tools(state.level)
    return f"Logos runs `{one_line(left[0].command)}` itself" if left and not state.pending_turns else ""


def _reconciling(dispute: Dispute, max_rounds: int) -> str:
    around = f"round {dispute.round} of {max_rounds}, {_SAYS[dispute.kind]}"
    return f"reconciliation {dispute.id} at {dispute.level.name} ({dispute.cause}), {around}"


def level_defs(sight: Sight, width: int) -> list[Text]:
    """The nine levels, purpose on top, each on one line of `width` characters at most."""
    return [_line(sight, level_def, width) for level_def in LEVELS.values()]


def _line(sight: Sight, level_def: LevelDef, width: int) -> Text:
    state, level = sight.state, level_def.level
    mark, style = _mark(state, level)
    writing = level is Level.L2 and level in _at_work(state) and state.stage is Stage.BUILD
    title = (level_def.title if writing else level_def.title.ljust(_TITLE)) + _GAP
    if writing:
        told = [_authors(sight, width - _LEAD - len(title))]
    else:
        told = [_doing(sight, level), _version(state, level), _standing(state, level)]
    quiet = "dim" if style == "dim" else ""
    said = " · ".join(part for part in told if part)
    return short((f"{mark} {level_def.name} ", style), (title, quiet), (said, quiet))


def _mark(state: LevelsState, level: Level) -> Part:
    if level not in state.levels:
        return "–", "dim"
    if state.outcome is Outcome.REJECTED:
        return ("✗", "red") if level is max(state.levels) else ("○", "dim")
    if _blocked_at(state) is level:
        return "●", "bold yellow"
    if level in _at_work(state):
        return "●", "bold cyan"
    if _is_judged(state) and level in state.standing:
        return _MARKS[state.standing[level]]
    return ("✓", "green") if _is_specified(state, level) else ("○", "dim")


def _blocked_at(state: LevelsState) -> Level | None:
    return state.level if state.outcome is Outcome.BLOCKED else None


def _at_work(state: LevelsState) -> set[Level]:
    if state.outcome is not None:
        return set()
    agents = {ask.level for ask in state.pending_turns} | {done.pending.level for done in state.answered.values()}
    if state.stage is Stage.MERGE:
        return {Level.L2}
    return agents or ({state.level} if state.stage is Stage.UP else set())


def _is_judged(state: LevelsState) -> bool:
    """Whether the standings are of what is there now: a new sweep asks again."""
    failed = state.dispute is not None and state.dispute.cause is Cause.FAILURE
    return state.stage is Stage.UP or (state.stage is Stage.DISPUTE and failed)


def _is_specified(state: LevelsState, level: Level) -> bool:
    """Whether a level has handed on what it had to, as far as this sweep has come."""
    if _is_judged(state):
        return False
    if state.stage is Stage.DISPUTE:
        return state.spec_of(level) is not None or (level is Level.L2 and bool(state.contributions))
    return level > _FLOOR.get(state.stage, state.level)


def _doing(sight: Sight, level: Level) -> str:
    state = sight.state
    if level not in state.levels:
        return "skipped"
    if state.outcome is Outcome.REJECTED and level is max(state.levels):
        return "MISALIGNED"
    if _blocked_at(state) is level:
        return "waits for you"
    if state.outcome is not None or level not in _at_work(state):
        return ""
    ask = next((ask for ask in state.pending_turns if ask.level is level), None)
    if ask is not None:
        return f"{_DOING[ask.kind]}{_again(ask)}, {_since(sight, ask)}"
    return _checking(state) or ("being merged" if state.stage is Stage.MERGE else "being gathered")


def _again(ask: PendingTurn) -> str:
    return f", attempt {ask.attempt}" if ask.attempt > 1 else ""


def _since(sight: Sight, ask: PendingTurn) -> str:
    told = sight.turns.get(ask.turn)
    if told is None:
        return "at work" if ask.turn in sight.ledger.in_flight else "starting"
    if told.waits:
        return "waits for you"
    if told.rests:
        return f"rests: {one_line(told.rests)}"
    if told.failure and sight.state.stalled is not None:
        return "stopped"
    # Without tenths: a frame that is drawn four times a second would flicker.
    seconds = float(int(max(sight.now - told.asked, 0.0)))
    return f"at it for {duration(seconds).replace('.0', '')}"


def _authors(sight: Sight, room: int) -> str:
    """Who is at work first, who is done last; as many as fit."""
    ranked = sorted((_author(sight, name) for name in sight.state.todo), key=lambda own: own[0])
    return capped([words for _, words in ranked], room)


def _author(sight: Sight, name: str) -> tuple[int, str]:
    state = sight.state
    ask = next((ask for ask in state.pending_turns if ask.component == name), None)
    if name in state.stuck:
        return 0, f"{name} ✗ stuck"
    if ask is not None:
        held = ask.turn in sight.ledger.in_flight or ask.turn in sight.turns
        since = _since(sight, ask).removeprefix("at it for ")
        return (1, f"{name} ●{_again(ask).removeprefix(',')} {since}") if held else (3, f"{name} ○ next")
    if name in state.answered:
        return 2, f"{name} ● being gathered"
    if name in state.constraints:
        return 5, f"{name} ✗ constraint"
    if name in state.gathered:
        return 6, f"{name} ✓"
    awaited = [other for other in state.component(name).depends_on if other in state.todo]
    return 4, f"{name} ○ waits for {listed(other for other in awaited if other not in state.gathered)}"


def capped(words: Sequence[str], room: int) -> str:
    """A list that ends with how many more there are, where they do not fit."""
    whole = ", ".join(words)
    shown = len(words)
    while len(whole) > room and shown > 1:
        shown -= 1
        whole = f"{', '.join(words[:shown])} … and {len(words) - shown} more"
    return whole


def _version(state: LevelsState, level: Level) -> str:
    if level is Level.L2 and state.components:
        built = sum(own.name in state.contributions for own in state.components)
        return f"{built} of {count(len(state.components), 'component')}"
    spec = state.spec_of(level)
    return f"v{spec.version}" if spec is not None else ""


def _standing(state: LevelsState, level: Level) -> str:
    return state.standing[level].value if _is_judged(state) and level in state.standing else ""
