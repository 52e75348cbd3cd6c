"""Middle out: whom a reconciliation asks, and what its decision, or a person's, changes."""

from types import MappingProxyType

from logos.domain.events import GateDecided, QuestionResolved
from logos.domain.gates import GateKind
from logos.domain.levels import Level
from logos.domain.plans import RulesVersion
from logos.domain.records import replace
from logos.domain.reports import Change, Proposal, Report, TurnKind
from logos.domain.specs import Question
from logos.flows.gates import rejection
from logos.flows.levels import ascent, building, gating
from logos.flows.levels.reconcile import Agreed, Cause, Dispute, Undecided, after_report
from logos.flows.levels.state import LevelsState, PendingTurn, Stage, with_item


def enter(state: LevelsState) -> LevelsState:
    """Ask every level whose answer is needed now."""
    dispute = state.dispute
    if dispute is None:
        return state
    around = "" if dispute.kind is TurnKind.POSITION else f".r{dispute.round}"
    pending_turns = tuple(
        PendingTurn(f"{dispute.id}.{level.name}.{dispute.kind.value}{around}", level, dispute.kind)
        for level in dispute.asked
    )
    return replace(state, pending_turns=pending_turns)


def said(state: LevelsState, pending: PendingTurn, report: Report) -> LevelsState:
    before = state.dispute
    if before is None:
        return state
    after = after_report(
        before, pending.level, report, guarded=Level.L9 in state.levels, max_rounds=state.plan.max_rounds
    )
    match after:
        case Undecided(last):
            kept = last if state.plan.rules >= RulesVersion.LAST_ROUND_KEPT else before
            return replace(state, dispute=kept).blocked(after.question)
        case Agreed(last):
            kept = last if state.plan.rules >= RulesVersion.LAST_VOTE_KEPT else before
            return settle(state, kept, last.proposal, "the levels")
        case Dispute():
            moved = (after.kind, after.round) != (before.kind, before.round)
            state = replace(state, dispute=after)
            return enter(state) if moved else state.blocked_by_stuck()


def settle(state: LevelsState, dispute: Dispute, proposal: Proposal, by: str) -> LevelsState:
    """Start a new sweep: down again from the highest level that changes, then up."""
    settled = replace(dispute, proposals=(*dispute.proposals, proposal), by=by)
    owed = state.owed | {*proposal.rework, *dispute.parties}
    state = replace(state, dispute=None, settled=(*state.settled, settled), sweep=state.sweep + 1, owed=owed)
    state = replace(state, visits=MappingProxyType({}), proofs=(), standing=MappingProxyType({}))
    top = max((change.level for change in proposal.changes), default=dispute.level)
    return state.down_to(max((level for level in state.levels if level <= top), default=None))


def resolved(state: LevelsState, event: QuestionResolved) -> LevelsState:
    """A person's decision ends a reconciliation, or answers agents that are stuck."""
    question, dispute = state.question, state.dispute
    if question is None or question.id != event.question:
        return state
    stuck = state.stuck
    state = replace(state, question=None, outcome=None, reason="", stuck=MappingProxyType({}))
    if state.cannot_run is not None:
        return ascent.told_about_tool(state, state.cannot_run, event.option)
    if dispute is not None:
        return settle(state, dispute, _chosen(state, dispute, question, event), "a person")
    if state.stage is Stage.BUILD:
        told = {**state.answers, **dict.fromkeys(stuck, event.text)}
        return building.advance(replace(state, answers=MappingProxyType(told)))
    state = replace(state, answers=with_item(state.answers, state.level.name, event.text))
    # A level that was stuck while judging continues there: the tool results are still valid.
    return ascent.proceed(state) if state.stage is Stage.UP else replace(state, entering=True)


def decided(state: LevelsState, event: GateDecided) -> LevelsState:
    """A person approves or rejects the plan or the result that an open gate holds back."""
    gate = state.gate
    if gate is None or gate.id != event.gate:
        return state
    if event.approved:
        return gating.go_on(state, gate.at)
    state = replace(state, gates=state.gates.left)
    if gate.at is GateKind.AFTER_PLAN:
        # The same level again, as a new visit; nothing above it is asked.
        return replace(state, rejected=rejection("this plan", event), entering=True)
    return _built_again(replace(state, passing="", proof=None), event)


def _built_again(state: LevelsState, event: GateDecided) -> LevelsState:
    """As if a reconciliation had ended with the person's words: they are a decision, so nobody argues about it."""
    level = max((level for level in state.levels if level <= Level.L3), default=min(state.levels))
    words = event.words.strip() or "no reason was given"
    dispute = Dispute(state.next_dispute, Cause.REJECTED, level, (level,), "a person rejected the result of the build")
    names = tuple(own.name for own in state.components)
    return settle(state, dispute, Proposal(words, (Change(level, "what these words ask for"),), names), "a person")


def _chosen(state: LevelsState, dispute: Dispute, question: Question, event: QuestionResolved) -> Proposal:
    if 0 < event.option <= len(question.options):
        chosen = question.options[event.option - 1]
        return replace(chosen, summary=f"{chosen.summary}\n{event.text}") if event.text else chosen
    # A free-text decision: the level in conflict revises its spec, and the levels below follow.
    names = tuple(own.name for own in state.components)
    again = dispute.parties or (names if dispute.level <= Level.L3 else ())
    return Proposal(event.text, (Change(dispute.level, event.text),), again)
