"""The levels: specs flow down, validation flows up, conflicts are settled from the middle out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from logos.domain.events import (
    CheckRan,
    Event,
    Noted,
    QuestionResolved,
    RunAbandoned,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
    TerminalClosed,
    TerminalOpened,
    TurnAnswered,
    TurnAsked,
    TurnFailed,
    TurnSent,
    WorkGathered,
    WorkMerged,
)
from logos.domain.levels import LEVELS, Level
from logos.domain.plans import LevelsPlan
from logos.domain.reports import ActionKind, Refused, Report, TurnKind
from logos.domain.turns import Action, AgentName, Check, FailureKind, Gather, Merge, Outcome, Turn, TurnId
from logos.flows.levels import ascent, building, descent, middle
from logos.flows.levels.briefing import Briefing
from logos.flows.levels.deliverables import problems_with
from logos.flows.levels.state import GATHERED, LevelsState, PendingTurn, Stage, turn_of
from logos.flows.levels.steps import blocked_by_stuck, down_to, go, put

ReadReport = Callable[[TurnKind, Level, str], Report | Refused]

# A report may be asked for so often; then a person is asked.
ATTEMPTS = 3
# What a division of the work may have; the bound on turns rests on it.
MAX_COMPONENTS = 100

_ENTER: dict[Stage, Callable[[LevelsState], LevelsState]] = {
    Stage.DOWN: descent.enter,
    Stage.BUILD: building.enter,
    Stage.LINT: building.enter_lint,
    Stage.UP: ascent.enter,
    Stage.DISPUTE: middle.enter,
}
_ACCEPT: dict[TurnKind, Callable[[LevelsState, PendingTurn, Report], LevelsState]] = {
    TurnKind.DECOMPOSE: descent.decomposed,
    TurnKind.AUTHOR: building.authored,
    TurnKind.LINT: building.linted,
    TurnKind.VALIDATE: ascent.validated,
    TurnKind.POSITION: middle.said,
    TurnKind.PROPOSE: middle.said,
    TurnKind.AGREE: middle.said,
    TurnKind.ALIGN: middle.said,
}


class Levels:
    """The flow of one build. `read` makes a report of a response; it must be a function of the text alone."""

    def __init__(self, plan: LevelsPlan, read: ReadReport) -> None:
        self.plan = plan
        self.read = read

    def start(self) -> LevelsState:
        return _entered(down_to(LevelsState(self.plan, head=self.plan.base), max(self.plan.levels)))

    def due(self, state: LevelsState) -> tuple[Action, ...]:
        if state.outcome is not None or state.stalled is not None:
            return ()
        if state.stage is Stage.MERGE:
            contributions = tuple((contribution.component.name, contribution.commit) for contribution in state.unmerged)
            return (Merge(_merge_id(state), state.head, contributions),)
        if state.stage is Stage.UP and not state.pending_turns:
            tool = state.unproven_tools(state.level)[0]
            return (Check(ascent.check_id(state, tool), tool.command, state.main),)
        gathers = (_gather_for(state, name) for name in sorted(state.answered))
        return (*gathers, *(_turn_for(state, ask) for ask in state.at_hand))

    def apply(self, state: LevelsState, event: Event) -> LevelsState:
        return _entered(self._applied(state, event))

    def outcome(self, state: LevelsState) -> Outcome | None:
        return state.outcome

    def _applied(self, state: LevelsState, event: Event) -> LevelsState:
        over = state.outcome is not None
        match event:
            case TurnAsked(turn):
                return replace(state, started=state.started | {turn})
            case TurnAnswered(turn, text):
                ask = next((ask for ask in state.pending_turns if ask.turn == turn), None)
                return state if ask is None or over else self._heard(state, ask, text)
            case TurnFailed(turn, trouble, message):
                ask = next((ask for ask in state.pending_turns if ask.turn == turn), None)
                if ask is None or over:
                    return state
                # What cannot be taken as a response is a report like any other that cannot be used.
                unfit = trouble is FailureKind.UNFIT
                return _again(state, ask, (message,)) if unfit else replace(state, stalled=message, trouble=trouble)
            case CheckRan(turn, command, exit_code, output):
                awaited = state.stage is Stage.UP and not state.pending_turns and not over
                return ascent.checked(state, turn, command, exit_code, output) if awaited else state
            case WorkGathered():
                return state if over else _gathered(state, event)
            case WorkMerged(turn, commit, found):
                awaited = state.stage is Stage.MERGE and turn == _merge_id(state) and not over
                return building.merged(state, commit, found) if awaited else state
            case QuestionResolved():
                return middle.resolved(state, event)
            case RunResumed(LevelsPlan() as plan):
                return self._taken_over(state, plan)
            case RunForked(_, _, LevelsPlan() as plan):
                return self._taken_over(_moved(state, dict(event.left)), plan)
            case RunAbandoned(why):
                given_up = state.outcome in (None, Outcome.BLOCKED)
                return _given_up(state, why) if given_up else state
            case RunStarted() | RunResumed() | RunForked() | RunEnded():
                return state
            case TerminalOpened() | TerminalClosed() | TurnSent() | Noted():
                return state

    def _taken_over(self, state: LevelsState, plan: LevelsPlan) -> LevelsState:
        """What the run is about was settled when it began; how it is carried out may change."""
        own = self.plan
        plan = replace(plan, feature=own.feature, base=own.base, levels=own.levels, rules=own.rules)
        state = replace(state, plan=plan, stalled=None, trouble=None)
        return ascent.resumed(state) if state.stage is Stage.UP and state.outcome is None else state

    def _heard(self, state: LevelsState, ask: PendingTurn, text: str) -> LevelsState:
        report = self.read(ask.kind, ask.level, text)
        if isinstance(report, Refused):
            return _again(state, ask, report.errors, text)
        problems = problems_with(state, ask, report)
        if problems:
            return _again(state, ask, problems, text)
        state = replace(state, pending_turns=tuple(other for other in state.pending_turns if other != ask))
        ask = replace(ask, said=text)
        if ask.kind not in GATHERED:
            state = _heeded(state, ask)
        if report.next.step is ActionKind.ASK_PERSON:
            return _stuck(state, ask, report.next.why)
        return _ACCEPT[ask.kind](state, ask, report)


def turns_at_most(plan: LevelsPlan) -> int:
    """No build asks for more turns than this, whatever its agents say; each answer of a person may add as many."""
    downward = len([level for level in plan.levels if level >= Level.L3]) * (1 + descent.HAND_BACKS)
    dispute = len(plan.levels) + plan.max_rounds * (len(plan.levels) + 1)
    sweep = downward + MAX_COMPONENTS + 1 + len(plan.levels) + dispute
    return ATTEMPTS * sweep * (plan.max_reconciliations + 1)


def _entered(state: LevelsState) -> LevelsState:
    while state.entering and state.outcome is None:
        state = _ENTER[state.stage](replace(state, entering=False))
    return state


def _turn_for(state: LevelsState, ask: PendingTurn) -> Turn:
    facts, place = Briefing(state, ask), state.place_for(ask)
    return Turn(ask.turn, AgentName(ask.key), ask.turn, ask.kind.value, facts, agent_def=ask.level.name, place=place)


def _gather_for(state: LevelsState, name: str) -> Gather:
    done = state.answered[name]
    title = f"{LEVELS[done.ask.level].title}{f': {name}' if done.ask.component else ''}"
    finished = done.ask.kind is TurnKind.AUTHOR and done.report.constraint is None
    declared = (*done.report.files, *done.report.tests) if finished else ()
    since = state.begins_at(name) if done.ask.component else (state.head,) if done.ask.key in state.left else ()
    # Who looks at its work again may find nothing to change.
    return Gather(
        _gather_id(done.ask), done.place, title, declared, finished and name not in state.contributions, since
    )


def _merge_id(state: LevelsState) -> TurnId:
    return TurnId(f"s{state.sweep}.merge")


def _gather_id(ask: PendingTurn) -> TurnId:
    return TurnId(f"{ask.turn}.gather")


def _gathered(state: LevelsState, event: WorkGathered) -> LevelsState:
    done = state.answered.get(event.place)
    if done is None or event.turn != _gather_id(done.ask):
        return state
    left = {name: other for name, other in state.answered.items() if name != event.place}
    state = replace(state, answered=MappingProxyType(left))
    if event.problems:
        return _again(state, done.ask, event.problems, done.ask.said)
    state = _heeded(state, done.ask)
    if done.ask.kind is TurnKind.AUTHOR:
        return building.gathered(state, done, event)
    return go(replace(state, head=event.commit), Stage.UP, min(state.levels))


def _heeded(state: LevelsState, ask: PendingTurn) -> LevelsState:
    """What a person answered was for this ask, which is done."""
    left = {agent_def: answer for agent_def, answer in state.answers.items() if agent_def != ask.agent_def}
    return replace(state, answers=MappingProxyType(left))


def _moved(state: LevelsState, left: Mapping[str, str]) -> LevelsState:
    """A fork's agents are all new, and work in places of its own: where work was left, they go on from that."""
    sent_back = (ask.turn for ask in state.pending_turns if ask.attempt > 1)
    may_be = (turn_of(done.ask.key, done.ask.attempt + 1) for done in state.answered.values())
    left_too = MappingProxyType({**state.left, **left})
    state = replace(state, started=frozenset(), left=left_too, reassigned=frozenset((*sent_back, *may_be)))
    moved = {name: replace(done, place=state.place_for(done.ask)) for name, done in state.answered.items()}
    return replace(state, answered=MappingProxyType(moved))


def _given_up(state: LevelsState, why: str) -> LevelsState:
    return replace(state, outcome=Outcome.ABANDONED, question=None, reason=why, stalled=None, trouble=None)


def _again(state: LevelsState, ask: PendingTurn, errors: tuple[str, ...], said: str = "") -> LevelsState:
    """The same agent once more, with what was wrong; in the end a person."""
    if ask.attempt < ATTEMPTS:
        more = replace(ask, attempt=ask.attempt + 1, errors=errors, said=said)
        if ask in state.pending_turns:
            return replace(state, pending_turns=tuple(more if other == ask else other for other in state.pending_turns))
        # Its slot was given to another while its work was gathered: it comes next, and pushes nobody out.
        ahead = state.at_hand
        return replace(
            state, pending_turns=(*ahead, more, *(other for other in state.pending_turns if other not in ahead))
        )
    told = f"{ask.key}: no usable report in {ATTEMPTS} attempts; wrong with the last: {'; '.join(errors)}"
    return _stuck(
        replace(state, pending_turns=tuple(other for other in state.pending_turns if other != ask)), ask, told
    )


def _stuck(state: LevelsState, ask: PendingTurn, why: str) -> LevelsState:
    state = replace(state, stuck=put(state.stuck, ask.component or ask.key, why))
    return building.on(state) if ask.kind is TurnKind.AUTHOR else blocked_by_stuck(state)
