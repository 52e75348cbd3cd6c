"""Build: authors work in parallel, one per component; all work is collected before anything is merged."""

from types import MappingProxyType

from logos.domain.events import WorkGathered
from logos.domain.levels import Level
from logos.domain.records import replace
from logos.domain.reports import Component, Report, TurnKind
from logos.domain.specs import ContentConflict, Direction, Handoff
from logos.flows.levels.briefing import handed
from logos.flows.levels.components import Contribution, clashes, needs
from logos.flows.levels.reconcile import Cause
from logos.flows.levels.state import MAIN, WHOLE, Answered, LevelsState, PendingTurn, Stage, with_item


def enter(state: LevelsState) -> LevelsState:
    components = state.components or (Component(WHOLE, state.plan.feature),)
    contributions = {own.name: state.contributions[own.name] for own in components if own.name in state.contributions}
    state = replace(state, components=components, contributions=MappingProxyType(contributions))
    state = replace(state, gathered=frozenset(), constraints=MappingProxyType({}))
    return advance(replace(state, todo=_todo(state)))


def _todo(state: LevelsState) -> tuple[str, ...]:
    """Components that are new, changed, due for rework, or based on unmerged work that is redone."""
    todo: list[str] = []
    for own in state.components:
        contribution = state.contributions.get(own.name)
        changed = contribution is None or contribution.component != own or own.name in state.owed
        unmerged = contribution is not None and not contribution.merged
        if changed or (unmerged and needs(own.name, state.components) & {*todo}):
            todo.append(own.name)
    return tuple(todo)


def advance(state: LevelsState) -> LevelsState:
    """Ask the authors whose dependencies are done; when no author is left, collect the work."""
    begun = {*state.gathered, *state.answered, *state.stuck, *(pending.component for pending in state.pending_turns)}
    for name in state.todo:
        if name not in begun and _is_ready(state, name):
            state = state.ask_for(Level.L2, TurnKind.AUTHOR, name)
    return state if state.pending_turns or state.answered else _collected(state)


def _is_ready(state: LevelsState, name: str) -> bool:
    wanted = needs(name, state.components)
    if wanted & ({*state.todo} - state.gathered) or wanted & state.constraints.keys():
        return False
    # A component cannot be built on contributions that conflict with each other.
    return not clashes(state.foundation(name), state.components)


def answered(state: LevelsState, pending: PendingTurn, report: Report) -> LevelsState:
    """An author's or the linter's work is to be gathered from its worktree."""
    done = Answered(pending, report, state.worktree_for(pending))
    return replace(state, answered=with_item(state.answered, pending.component or MAIN, done))


def gathered(state: LevelsState, done: Answered, event: WorkGathered) -> LevelsState:
    name = done.pending.component
    before = state.contributions.get(name)
    began = state.worktree_of(name) if done.pending.key in state.left else done.place
    files = dict.fromkeys((*(before.files if before else ()), *(touched.path for touched in event.touched)))
    tests = dict.fromkeys((*(before.tests if before else ()), *done.report.tests))
    contribution = Contribution(state.component(name), event.commit, event.touched, done.report, done.pending.turn)
    contribution = replace(
        contribution,
        files=tuple(files),
        tests=tuple(tests),
        head=state.head,
        based_on=tuple((under.component.name, under.commit) for under in state.foundation(name)),
        previous=(*before.previous, before.commit) if before and began.commits[0] == before.commit else (),
        # An author that changed nothing has nothing to merge.
        merged=event.commit == state.head,
    )
    made = with_item(state.contributions, name, contribution)
    state = replace(state, contributions=made, gathered=state.gathered | {name}, owed=state.owed - {name})
    if done.report.constraint is not None:
        state = replace(state, constraints=with_item(state.constraints, name, done.report.constraint))
    return advance(state)


def _collected(state: LevelsState) -> LevelsState:
    """All authors are done: decide what follows, in an order that does not depend on who was first."""
    if state.stuck:
        return state.blocked_by_stuck()
    done = [state.contributions[name] for name in state.todo if name in state.gathered]
    # All at once: a build may have thousands of specs and handoffs.
    specs = [state.new_spec(Level.L2, own.turn, own.report, own.component.name) for own in done]
    handoffs = [Handoff(Level.L2, Level.L1, Direction.DOWN, own.turn, handed(own.report)) for own in done]
    state = replace(state, specs=(*state.specs, *specs))
    if Level.L1 in state.levels:
        state = replace(state, handoffs=(*state.handoffs, *handoffs))
    if state.constraints:
        return _constrained(state)
    found = clashes(state.unmerged, state.components)
    if found:
        return _clashed(state, found)
    return replace(state, stage=Stage.MERGE) if state.unmerged else _lint_or_up(state)


def _constrained(state: LevelsState) -> LevelsState:
    """A new constraint concerns L3 and L4, and L5 and above when it changes what users do."""
    told = state.constraints.values()
    named = {level for constraint in told for level in constraint.affects if level > Level.L4}
    nearest = min((level for level in state.levels if level > Level.L4), default=Level.L4)
    journeys = {nearest} if any(constraint.touches_journeys for constraint in told) else set[Level]()
    consulted = sorted({Level.L3, Level.L4, *named, *journeys} & {*state.levels}, reverse=True)
    facts = [f"{name}: {constraint.statement}" for name, constraint in sorted(state.constraints.items())]
    question = "a constraint that the specs do not know: " + "; ".join(facts)
    top, *others = consulted or [Level.L2]
    return state.dispute_over(Cause.CONSTRAINT, top, question, others=others, parties=tuple(sorted(state.constraints)))


def _clashed(state: LevelsState, found: tuple[ContentConflict, ...]) -> LevelsState:
    parties = tuple(sorted({name for clash in found for name in clash.components}))
    level = Level.L3 if Level.L3 in state.levels else Level.L2
    question = "components conflict: " + "; ".join(clash.words for clash in found)
    return state.dispute_over(Cause.CONFLICT, level, question, parties=parties)


def merged(state: LevelsState, commit: str, found: tuple[ContentConflict, ...]) -> LevelsState:
    if found:
        return _clashed(state, found)
    contributions = {name: replace(contribution, merged=True) for name, contribution in state.contributions.items()}
    return _lint_or_up(replace(state, head=commit, contributions=MappingProxyType(contributions)))


def _lint_or_up(state: LevelsState) -> LevelsState:
    lint = Level.L1 in state.levels
    return state.enter_stage(Stage.LINT if lint else Stage.UP, min(state.levels))
