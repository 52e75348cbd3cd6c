"""The levels: specs flow down, validation flows up, conflicts are reconciled from the middle out."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from logos.domain import events
from logos.domain.events import Event, WorkGathered
from logos.domain.levels import Level
from logos.domain.plans import LevelsPlan, RulesVersion
from logos.domain.proof import ProofStep
from logos.domain.records import replace
from logos.domain.reports import ActionKind, NextAction, Proposal, Refused, Report, TurnKind
from logos.domain.turns import Action, AgentName, Check, FailureKind, Gather, Merge, Outcome, Turn, TurnId
from logos.flows import guidance
from logos.flows.levels import ascent, building, descent, gating, middle, proving
from logos.flows.levels.briefing import facts_for
from logos.flows.levels.components import needs
from logos.flows.levels.state import GATHERED, MAIN, RECONCILING, LevelsState, PendingTurn, Stage, with_item, without
from logos.flows.levels.turn_ids import turn_of

ReadReport = Callable[[TurnKind, Level, str], Report | Refused]

# Attempts at a report before a person is asked.
ATTEMPTS = 3
# A reason has at least so many words.
_REASON_WORDS = 3
# Git and its viewers cut longer subjects.
_SUBJECT = 72
# What to do in turns that cannot be handed back.
_INSTEAD = {TurnKind.AUTHOR: "report a constraint", TurnKind.VALIDATE: "give the verdict FAIL with failures"}

_ENTER: dict[Stage, Callable[[LevelsState], LevelsState]] = {
    Stage.DOWN: lambda state: state.ask_for(state.level, TurnKind.DECOMPOSE),
    Stage.BUILD: building.enter,
    Stage.LINT: lambda state: state.ask_for(Level.L1, TurnKind.LINT),
    Stage.UP: ascent.enter,
    Stage.PROVE: lambda state: state,
    Stage.DISPUTE: middle.enter,
}
_ACCEPT: dict[TurnKind, Callable[[LevelsState, PendingTurn, Report], LevelsState]] = {
    TurnKind.DECOMPOSE: descent.decomposed,
    TurnKind.VALIDATE: ascent.validated,
    **dict.fromkeys(GATHERED, building.answered),
    **dict.fromkeys(RECONCILING, middle.said),
}


class Levels:
    """The flow of one build. `read` parses a response into a report; it must depend on the text alone."""

    def __init__(self, plan: LevelsPlan, read: ReadReport) -> None:
        self.plan = plan
        self.read = read

    def start(self) -> LevelsState:
        return _entered(LevelsState(self.plan, head=self.plan.base).down_to(max(self.plan.levels)))

    def due(self, state: LevelsState) -> tuple[Action, ...]:
        if state.outcome is not None or state.stalled is not None:
            return ()
        if state.gates.reached is not None:
            return state.gates.due
        if state.approved:
            return (proving.due(state),)
        if state.stage is Stage.MERGE:
            contributions = tuple((contribution.component.name, contribution.commit) for contribution in state.unmerged)
            return (Merge(_merge_id(state), state.head, contributions),)
        if state.stage is Stage.PROVE:
            return (proving.due(state),)
        if state.stage is Stage.UP and not state.pending_turns:
            tool = state.unproven_tools(state.level)[0]
            return (Check(ascent.check_id(state, tool), tool.command, state.main),)
        gathers = (_gather_for(state, name) for name in sorted(state.answered))
        return (*gathers, *(_turn_for(state, pending) for pending in state.in_progress))

    def apply(self, state: LevelsState, event: Event) -> LevelsState:
        return _without_old_guidance(_entered(self._applied(state, event)))

    def outcome(self, state: LevelsState) -> Outcome | None:
        return state.outcome

    def _applied(self, state: LevelsState, event: Event) -> LevelsState:
        over = state.outcome is not None
        match event:
            case events.TurnAsked(turn, _, prompt):
                state = _told(state, turn, prompt) if state.guidance else state
                return replace(state, started=frozenset((turn, *(held.turn for held in state.held))))
            case events.TurnAnswered(turn, text):
                pending = next((pending for pending in state.pending_turns if pending.turn == turn), None)
                return state if pending is None or over else self._answered(state, pending, text)
            case events.TurnFailed():
                return state if over else _turn_failed(state, event)
            case events.CheckRan(turn, command, exit_code, output):
                awaited = state.stage is Stage.UP and not state.pending_turns and not over
                return ascent.checked(state, turn, command, exit_code, output) if awaited else state
            case events.WorkCompared(turn, files, commit):
                awaited = (state.stage is Stage.PROVE or state.approved) and not over and state.gates.reached is None
                return proving.compared(state, turn, files, commit) if awaited else state
            case events.ProofRan(_, ProofStep.BASELINE):
                return replace(state, baseline=event)
            case events.ProofRan():
                awaited = state.stage is Stage.PROVE and not over and not state.approved and state.gates.reached is None
                return proving.proven(state, event) if awaited else state
            case events.WorkGathered():
                return state if over else _gathered(state, event)
            case events.WorkMerged(turn, commit, found):
                awaited = state.stage is Stage.MERGE and turn == _merge_id(state) and not over
                return building.merged(state, commit, found) if awaited else state
            case events.QuestionResolved():
                return middle.resolved(state, event)
            case events.RunResumed(LevelsPlan() as plan):
                return self._resumed(state, plan)
            case events.RunForked(_, _, LevelsPlan() as plan):
                return self._resumed(_forked(state, dict(event.left)), plan)
            case events.RunAbandoned(why):
                return _abandoned(state, why) if state.outcome in (None, Outcome.BLOCKED) else state
            case events.TerminalOpened() | events.TerminalClosed() | events.TurnSent():
                return state
            case events.RecordsTampered() | events.WorkUndone() | events.AcceptanceWritten():
                return state
            case events.GateOpened():
                return state if over else replace(state, gates=state.gates.after(event))
            case events.GateDecided():
                return middle.decided(state, event)
            case events.PersonSaid():
                return replace(state, guidance=guidance.kept(state.guidance, event))
            case (
                events.PermissionDecided()
                | events.RunStarted()
                | events.RunResumed()
                | events.RunForked()
                | events.RunEnded()
                | events.Noted()
            ):
                return state

    def _resumed(self, state: LevelsState, plan: LevelsPlan) -> LevelsState:
        """A resume can change how a build is carried out, not what is built."""
        own = self.plan
        plan = replace(plan, feature=own.feature, base=own.base, levels=own.levels, rules=own.rules)
        state = proving.resumed(replace(state, plan=plan, stalled=None, trouble=None), state)
        gate = state.gates.reached
        if state.outcome is None and (gate is not None or state.approved):
            # A person may have taken the gate away.
            return gating.go_on(state, gate.at) if gate is not None and gate.at not in plan.gates else state
        # New settings may leave nothing to wait for.
        waits = state.stage is not Stage.UP or state.outcome is not None or bool(state.pending_turns)
        return state if waits else ascent.proceed(state)

    def _answered(self, state: LevelsState, pending: PendingTurn, text: str) -> LevelsState:
        report = self.read(pending.kind, pending.level, text)
        if isinstance(report, Refused):
            return _retry(state, pending, report.errors, text)
        if problems := _problems_with(state, pending, report):
            return _retry(state, pending, problems, text)
        state = replace(state, pending_turns=tuple(other for other in state.pending_turns if other != pending))
        pending = replace(pending, said=text)
        if pending.kind not in GATHERED:
            # The person's answer was for this turn, which is done.
            state = replace(state, answers=without(state.answers, pending.agent_def))
        if report.next.step is ActionKind.ASK_PERSON:
            return _stuck(state, pending, report.next.why)
        return _ACCEPT[pending.kind](state, pending, report)


def _turn_failed(state: LevelsState, event: events.TurnFailed) -> LevelsState:
    pending = next((pending for pending in state.pending_turns if pending.turn == event.turn), None)
    if pending is None:
        return state
    if event.trouble is FailureKind.UNFIT:
        # An unusable response counts as an invalid report.
        return _retry(state, pending, (event.message,))
    return replace(state, stalled=event.message, trouble=event.trouble)


def _abandoned(state: LevelsState, why: str) -> LevelsState:
    state = replace(state, outcome=Outcome.ABANDONED, reason=why)
    return replace(state, question=None, stalled=None, trouble=None)


def _entered(state: LevelsState) -> LevelsState:
    while state.entering and state.outcome is None:
        state = _ENTER[state.stage](replace(state, entering=False))
    return state


def _told(state: LevelsState, turn: TurnId, prompt: str) -> LevelsState:
    asked = next((pending for pending in state.pending_turns if pending.turn == turn), None)
    if asked is None:
        return state
    return replace(state, guidance=guidance.after_prompt(state.guidance, asked.names, asked.key, prompt))


def _without_old_guidance(state: LevelsState) -> LevelsState:
    """Whoever was told has handed in what is accepted: nobody continues that turn."""
    if not any(one.told for one in state.guidance):
        return state
    pending = {pending.key for pending in state.pending_turns}
    held = pending | {done.pending.key for done in state.answered.values()}
    return replace(state, guidance=tuple(one for one in state.guidance if not one.told or one.told in held))


def _turn_for(state: LevelsState, pending: PendingTurn) -> Turn:
    agent, facts = AgentName(pending.key), facts_for(state, pending)
    level, place = pending.level.name, state.worktree_for(pending)
    judges = pending.kind in (TurnKind.VALIDATE, TurnKind.AGREE, TurnKind.ALIGN)
    return Turn(pending.turn, agent, pending.turn, pending.kind.value, facts, level, place, judges)


def _subject(state: LevelsState, component: str, level: Level) -> str:
    """The subject of a commit, in the length that git shows."""
    what = f"Write {component} for" if component else "Correct what linters found in" if level is Level.L1 else "Change"
    feature = " ".join(state.plan.feature.split()) or "the feature"
    subject = f"{what}: {feature}"
    return subject if len(subject) <= _SUBJECT else f"{subject[: _SUBJECT - 1].rstrip()}…"


def _gather_for(state: LevelsState, name: str) -> Gather:
    done = state.answered[name]
    title = _subject(state, name if done.pending.component else "", done.pending.level)
    finished = done.pending.kind is TurnKind.AUTHOR and done.report.constraint is None
    declared = (*done.report.files, *done.report.tests) if finished else ()
    since = state.begins_at(name) if done.pending.component else (state.head,) if done.pending.key in state.left else ()
    # A component that is revisited may produce no diff.
    must_change = finished and name not in state.contributions
    vouched = finished and _has_siblings(state, name)
    return Gather(_gather_id(done.pending), done.place, title, declared, must_change, since, vouched)


def _has_siblings(state: LevelsState, name: str) -> bool:
    """Whether other authors may have worked at the same time: one of them could have written into this worktree."""
    others = {*state.todo} - {name} - needs(name, state.components)
    return state.plan.max_parallel > 1 and any(name not in needs(other, state.components) for other in others)


def _merge_id(state: LevelsState) -> TurnId:
    return TurnId(f"s{state.sweep}.merge")


def _gather_id(pending: PendingTurn) -> TurnId:
    return TurnId(f"{pending.turn}.gather")


def _gathered(state: LevelsState, event: WorkGathered) -> LevelsState:
    done = state.answered.get(event.place)
    if done is None or event.turn != _gather_id(done.pending):
        return state
    state = replace(state, answered=without(state.answered, event.place))
    if event.problems:
        return _retry(state, done.pending, event.problems, done.pending.said)
    state = replace(state, answers=without(state.answers, done.pending.agent_def))
    if done.pending.kind is TurnKind.AUTHOR:
        return building.gathered(state, done, event)
    return replace(state, head=event.commit).enter_stage(Stage.UP, min(state.levels))


def _forked(state: LevelsState, left: Mapping[str, str]) -> LevelsState:
    """A fork has new agents and worktrees; unfinished work continues from its commits."""
    sent_back = (pending.turn for pending in state.pending_turns if pending.attempt > 1)
    may_be = (turn_of(done.pending.key, done.pending.attempt + 1) for done in state.answered.values())
    left_too = MappingProxyType({**state.left, **left})
    state = replace(state, started=frozenset(), left=left_too, reassigned=frozenset((*sent_back, *may_be)))
    moved = {name: replace(done, place=state.worktree_for(done.pending)) for name, done in state.answered.items()}
    return replace(state, answered=MappingProxyType(moved))


def _retry(state: LevelsState, pending: PendingTurn, errors: tuple[str, ...], said: str = "") -> LevelsState:
    """Ask the same agent again with the errors; after the last attempt ask a person."""
    others = tuple(other for other in state.pending_turns if other != pending)
    if pending.attempt >= ATTEMPTS:
        told = f"{pending.key}: no usable report in {ATTEMPTS} attempts; wrong with the last: {'; '.join(errors)}"
        return _stuck(replace(state, pending_turns=others), pending, told)
    more = replace(pending, attempt=pending.attempt + 1, errors=errors, said=said)
    if pending in state.pending_turns:
        turns = tuple(more if other == pending else other for other in state.pending_turns)
    else:
        # Its slot may be taken meanwhile: it comes next without displacing a turn in progress.
        ahead = state.in_progress
        turns = (*ahead, more, *(other for other in others if other not in ahead))
    return replace(state, pending_turns=turns)


def _stuck(state: LevelsState, pending: PendingTurn, why: str) -> LevelsState:
    # Whoever continues after the person's answer is a new agent.
    state = replace(state, guidance=guidance.not_told(state.guidance, pending.key))
    state = replace(state, stuck=with_item(state.stuck, pending.component or pending.key, why))
    return building.advance(state) if pending.kind is TurnKind.AUTHOR else state.blocked_by_stuck()


def _problems_with(state: LevelsState, pending: PendingTurn, report: Report) -> tuple[str, ...]:
    """Every reason to refuse a report, each a line that the agent can act on."""
    problems = list(_wrong_action(state, pending, report.next))
    if pending.kind is TurnKind.DECOMPOSE:
        for place, component in enumerate(report.components):
            if component.name == MAIN:
                name = f"components[{place}].name = {MAIN!r}"
                problems.append(f"{name}: this is where all work is merged; choose another name")
    if pending.kind is TurnKind.AUTHOR:
        problems += _untested(state, pending, report)
    if pending.kind is TurnKind.PROPOSE:
        problems += _wrong_proposal(state, report.proposal) if report.proposal else ["proposal: is missing"]
    return tuple(problems)


def _untested(state: LevelsState, pending: PendingTurn, report: Report) -> Iterator[str]:
    """A component without tests needs a reason; a constraint is one, and so are its tests of earlier turns."""
    before = state.contributions.get(pending.component)
    tested = report.tests or (before is not None and before.tests)
    finished = report.constraint is None and report.next.step is ActionKind.PROCEED
    applies = finished and state.plan.rules >= RulesVersion.TESTS_OR_A_REASON
    if applies and not tested and len(report.why_no_tests.split()) < _REASON_WORDS:
        yield "tests = []: write tests for this component, or say in why_no_tests, in a sentence, why there are none"


def _wrong_action(state: LevelsState, pending: PendingTurn, action: NextAction) -> Iterator[str]:
    if action.step is not ActionKind.HAND_BACK:
        return
    higher = [level for level in state.levels if level > pending.level]
    if pending.kind is not TurnKind.DECOMPOSE:
        instead = _INSTEAD.get(pending.kind, "say it in this report's own fields")
        yield f"next_recommended_action.action = hand_back: not possible in this turn; {instead}"
    elif action.to not in higher:
        to = "null" if action.to is None else action.to.name
        names = ", ".join(level.name for level in higher) or "none, ask_person instead"
        yield f"next_recommended_action.to = {to}: must be a level above that takes part: {names}"


def _wrong_proposal(state: LevelsState, proposal: Proposal) -> Iterator[str]:
    for place, change in enumerate(proposal.changes):
        if change.level not in state.levels:
            taking = ", ".join(level.name for level in state.levels)
            yield f"proposal.changes[{place}].level = {change.level.name}: takes no part; taking part: {taking}"
    known = [component.name for component in state.components]
    for place, name in enumerate(proposal.rework):
        if name not in known:
            named = ", ".join(known) or "none yet: leave `rework` empty"
            yield f"proposal.rework[{place}] = {name[:80]!r}: there is no such component; there are: {named}"
    highest = max((change.level for change in proposal.changes), default=Level.L2)
    if known and not proposal.rework and highest is Level.L2:
        yield f"proposal.rework: code changes, so name the components to work on again, of: {', '.join(known)}"
