"""What a person tells a run: whether it fits the run as it is now."""

from typing import Any

from logos.domain.events import GateDecided, PermissionDecided, PersonEvent, PersonSaid, QuestionResolved
from logos.domain.roles import ACCEPTANCE_TESTER
from logos.flows.cycle.state import CycleState
from logos.flows.fold import UNFINISHED, RunFold, RunState


def problem_with(event: PersonEvent, fold: RunFold[Any]) -> str:
    """Why a run cannot take what a person tells it now; empty if it can."""
    if fold.outcome not in UNFINISHED:
        return f"run {fold.run} has ended: {fold.outcome}"
    match event:
        case GateDecided():
            return _problem_with_decision(event, fold)
        case QuestionResolved():
            return _problem_with_answer(event, fold)
        case PermissionDecided(turn):
            asks = turn in fold.ledger.asking
            return "" if asks else f"the agent of {turn} does not ask for permission now"
        case PersonSaid():
            return _problem_with_guidance(event, fold)


def _problem_with_decision(event: GateDecided, fold: RunFold[Any]) -> str:
    gate = fold.state.gate
    if gate is not None and gate.id == event.gate:
        return "a rejection needs a reason" if not event.approved and not event.words.strip() else ""
    known = fold.ledger.decided.get(event.gate)
    if known is not None:
        return decided_in_words(known)
    return f"run {fold.run} does not wait at a gate {event.gate}"


def decided_in_words(event: GateDecided) -> str:
    words = f": {event.words}" if event.words else ""
    return f"somebody has already {'approved' if event.approved else 'rejected'} {event.gate}{words}"


def _problem_with_answer(event: QuestionResolved, fold: RunFold[Any]) -> str:
    question = fold.state.question
    if question is None or question.id != event.question:
        return f"run {fold.run} is not blocked on a question {event.question}: it may have been answered already"
    many = len(question.options)
    if not 0 <= event.option <= many:
        has = f"options 1 to {many}" if many else "no options; decide in plain words"
        return f"there is no option {event.option}: this question has {has}"
    return "" if event.option or event.text.strip() else "the decision is empty"


def _problem_with_guidance(event: PersonSaid, fold: RunFold[Any]) -> str:
    if not event.text.strip():
        return "the text is empty"
    if fold.state.question is not None:
        return f"run {fold.run} is blocked on a question: answer it with `logos resolve`"
    known = agents_of(fold.state)
    unknown = event.agent is not None and event.agent not in known
    return f"run {fold.run} has no agent {event.agent!r}: it has {', '.join(known)}" if unknown else ""


def agents_of(state: RunState) -> tuple[str, ...]:
    """The names under which a person may tell an agent something."""
    if isinstance(state, CycleState):
        tester = (ACCEPTANCE_TESTER,) if state.blind is not None else ()
        return (*(agent.name for agent in state.plan.agents), *tester)
    return (*(level.name for level in sorted(state.levels, reverse=True)), *(own.name for own in state.components))
