"""The levels of a build for the live view: what happens now, and what each level is doing."""

from collections.abc import Mapping
from dataclasses import dataclass

from rich.text import Text

from logos.cli.output.console import Part, short
from logos.domain.ledger import Ledger
from logos.domain.levels import LEVELS, Level, LevelDef
from logos.domain.reports import TurnKind
from logos.domain.turns import Outcome
from logos.flows.levels.reconcile import Cause
from logos.flows.levels.state import LevelsState, LevelStatus, PendingTurn, Stage
from logos.views.redact import one_line
from logos.views.run import TurnView
from logos.views.text import count, duration, listed
from logos.views.turns import proof_step_in_words

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
# The levels above this one have their specs in a stage.
_FLOOR = {Stage.BUILD: Level.L2, Stage.MERGE: Level.L2, Stage.LINT: Level.L1}
_TITLE = max(len(level_def.title) for level_def in LEVELS.values())
# Before a title: mark and level.
_LEAD = len("✓ L9 ")


@dataclass(frozen=True, slots=True)
class LevelsView:
    """A build as it is drawn at the time `now`; `turns` by their ids."""

    state: LevelsState
    ledger: Ledger
    turns: Mapping[str, TurnView]
    now: float

    def doing(self) -> str:
        state, dispute = self.state, self.state.dispute
        match state.stage:
            case Stage.DOWN:
                return f"down: {state.level.name} writes its spec"
            case Stage.BUILD:
                held = sum(ask.turn in self.ledger.in_flight for ask in state.pending_turns)
                left = len(state.todo) - len(state.gathered)
                return f"build: {count(held, 'author')} at work, {len(state.gathered)} done, {left - held} to come"
            case Stage.MERGE:
                return f"Logos merges {count(len(state.unmerged), 'component')}"
            case Stage.LINT:
                return "L1: fixing lint errors"
            case Stage.UP:
                return f"up: {_checking(state) or f'{state.level.name} validates'}"
            case Stage.PROVE:
                return f"proof: {proof_step_in_words(state.proof)}"
            case Stage.DISPUTE if dispute is not None:
                where = f"reconciliation {dispute.id} at {dispute.level.name} ({dispute.cause})"
                return f"{where}, round {dispute.round} of {state.plan.max_rounds}, {_SAYS[dispute.kind]}"
            case _:
                return "reconciliation"

    def lines(self, width: int) -> list[Text]:
        """The nine levels, purpose on top, each on one line of `width` characters at most."""
        return [self._line(level_def, width) for level_def in LEVELS.values()]

    def _line(self, level_def: LevelDef, width: int) -> Text:
        state, level = self.state, level_def.level
        mark, style, doing = self._standing(level)
        title = f"{level_def.title:<{_TITLE}}  "
        text = " · ".join(part for part in (doing, *_results(state, level)) if part)
        if level is Level.L2 and level in _at_work(state) and state.stage is Stage.BUILD:
            # Authors are many, so their line begins right after its title.
            title = f"{level_def.title}  "
            text = self._authors(width - _LEAD - len(title))
        quiet = "dim" if style == "dim" else ""
        return short((f"{mark} {level_def.name} ", style), (title, quiet), (text, quiet))

    def _standing(self, level: Level) -> tuple[str, str, str]:
        """The mark of a level, its style, and what the level is doing."""
        state = self.state
        if level not in state.levels:
            return "–", "dim", "skipped"
        if state.outcome is Outcome.REJECTED:
            return ("✗", "red", "MISALIGNED") if level is max(state.levels) else ("○", "dim", "")
        if state.outcome is Outcome.BLOCKED and level is state.level:
            return "●", "bold yellow", "waits for you"
        if level in _at_work(state):
            return "●", "bold cyan", self._work_of(level)
        if _is_judged(state) and level in state.standing:
            return *_MARKS[state.standing[level]], ""
        return ("✓", "green", "") if _is_specified(state, level) else ("○", "dim", "")

    def _work_of(self, level: Level) -> str:
        ask = next((ask for ask in self.state.pending_turns if ask.level is level), None)
        if ask is not None:
            return f"{_DOING[ask.kind]}{_again(ask)}, {self._since(ask)}"
        return _checking(self.state) or ("being merged" if self.state.stage is Stage.MERGE else "being gathered")

    def _since(self, ask: PendingTurn) -> str:
        turn = self.turns.get(ask.turn)
        if turn is None:
            return "at work" if ask.turn in self.ledger.in_flight else "starting"
        if turn.waits:
            return "waits for you"
        if turn.rests:
            return f"rests: {one_line(turn.rests)}"
        if turn.failure and self.state.stalled is not None:
            return "stopped"
        # Without tenths of a second, which would flicker.
        seconds = float(int(max(self.now - turn.asked, 0.0)))
        return f"at it for {duration(seconds).replace('.0', '')}"

    def _authors(self, room: int) -> str:
        """Authors at work first, finished ones last; as many as fit, and how many more there are."""
        ranked = [words for _, words in sorted(map(self._author, self.state.todo), key=lambda author: author[0])]
        whole, shown = ", ".join(ranked), len(ranked)
        while len(whole) > room and shown > 1:
            shown -= 1
            whole = f"{', '.join(ranked[:shown])} … and {len(ranked) - shown} more"
        return whole

    def _author(self, name: str) -> tuple[int, str]:
        state = self.state
        ask = next((ask for ask in state.pending_turns if ask.component == name), None)
        if name in state.stuck:
            return 0, f"{name} ✗ stuck"
        if ask is not None:
            held = ask.turn in self.ledger.in_flight or ask.turn in self.turns
            since = self._since(ask).removeprefix("at it for ")
            return (1, f"{name} ●{_again(ask).removeprefix(',')} {since}") if held else (3, f"{name} ○ next")
        if name in state.answered:
            return 2, f"{name} ● being gathered"
        if name in state.constraints:
            return 5, f"{name} ✗ constraint"
        if name in state.gathered:
            return 6, f"{name} ✓"
        awaited = [other for other in state.component(name).depends_on if other in state.todo]
        return 4, f"{name} ○ waits for {listed(other for other in awaited if other not in state.gathered)}"


def _checking(state: LevelsState) -> str:
    left = state.unproven_tools(state.level)
    return f"Logos runs `{one_line(left[0].command)}` itself" if left and not state.pending_turns else ""


def _at_work(state: LevelsState) -> set[Level]:
    if state.outcome is not None or state.gates.reached is not None:
        return set()
    agents = {ask.level for ask in state.pending_turns} | {done.pending.level for done in state.answered.values()}
    if state.stage is Stage.MERGE:
        return {Level.L2}
    return agents or ({state.level} if state.stage is Stage.UP else set())


def _is_judged(state: LevelsState) -> bool:
    """Whether the levels' results are those of this sweep."""
    failed = state.dispute is not None and state.dispute.cause is Cause.FAILURE
    return state.stage in (Stage.UP, Stage.PROVE) or (state.stage is Stage.DISPUTE and failed)


def _is_specified(state: LevelsState, level: Level) -> bool:
    """Whether a level has written its spec in this sweep."""
    if _is_judged(state):
        return False
    if state.stage is Stage.DISPUTE:
        return state.spec_of(level) is not None or (level is Level.L2 and bool(state.contributions))
    return level > _FLOOR.get(state.stage, state.level)


def _results(state: LevelsState, level: Level) -> list[str]:
    """The version of a level's spec, or the components that are built; and how the level was judged."""
    spec = state.spec_of(level)
    version = f"v{spec.version}" if spec is not None else ""
    if level is Level.L2 and state.components:
        built = sum(component.name in state.contributions for component in state.components)
        version = f"{built} of {count(len(state.components), 'component')}"
    return [version, state.standing[level].value if _is_judged(state) and level in state.standing else ""]


def _again(ask: PendingTurn) -> str:
    return f", attempt {ask.attempt}" if ask.attempt > 1 else ""
