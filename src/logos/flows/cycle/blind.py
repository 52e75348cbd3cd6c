"""Blind acceptance tests of a cycle: written after the analysis, by an agent that does not see the implementation."""

from collections.abc import Callable

from logos.domain.events import AcceptanceWritten, ProofRan
from logos.domain.proof import ProofStep
from logos.domain.records import replace
from logos.domain.roles import ACCEPTANCE_ANSWER, ACCEPTANCE_FILE, ACCEPTANCE_TESTER, Phase, Role
from logos.domain.turns import Action, AgentName, Fact, Turn
from logos.flows import guidance
from logos.flows.cycle.proving import may_fail_in_words
from logos.flows.cycle.state import BlindTests, CycleState
from logos.flows.proof.acceptance import not_run
from logos.flows.proof.verdict import ProofProgress, action_for

# How often the agent is asked before the run pauses: without these tests a PASS would be less than what was asked for.
TRIES = 2
RESPONSE = f".tmp/agent-responses/{ACCEPTANCE_FILE}"


def entered_programming(state: CycleState) -> CycleState:
    """The tests are due once, after the analysis of round 1 and before the programmer's first turn."""
    rules, begun = state.plan.proof, state.blind is not None or state.round > 1 or state.phase is not Phase.PROGRAMMER
    if rules is None or not rules.blind or state.baseline is None or begun:
        return state
    return replace(state, blind=BlindTests())


def due(state: CycleState) -> Action:
    blind, baseline, rules = state.blind, state.baseline, state.plan.proof
    assert blind is not None
    assert baseline is not None
    assert rules is not None
    if blind.tests is not None:
        # There is no result yet.
        progress = ProofProgress("", (), step=ProofStep.BLIND_BASE, acceptance=blind.tests)
        return action_for(progress, baseline, rules, f"r{state.round}")
    name = AgentName(ACCEPTANCE_TESTER)
    facts = _facts(state, blind)
    return Turn(
        state.blind_action, name, ACCEPTANCE_ANSWER, ACCEPTANCE_TESTER, facts, sealed=True, base=baseline.commit
    )


def _facts(state: CycleState, blind: BlindTests) -> dict[str, Fact]:
    plan, without_place = state.plan, placeless(state)
    return {
        "turn": state.blind_action,
        "role": ACCEPTANCE_TESTER,
        "round": state.round,
        "cycle": blind.attempt,
        "wd": "the folder that you start in",
        "history": "",
        "told": "",
        "response_path": RESPONSE,
        "explore": without_place(plan.explore),
        "scenario_test": without_place(plan.scenario_test),
        "handoff": without_place(state.said(Role.ANALYST)),
        "test_command": without_place(plan.test_command),
        "may_fail": may_fail_in_words(state),
        "again": blind.problem,
        "person": without_place(guidance.in_words(state.guidance, (ACCEPTANCE_TESTER,), state.blind_action)),
    }


def placeless(state: CycleState) -> Callable[[str], str]:
    """Removes the place of the project from a text."""
    place = state.plan.wd
    return lambda text: text.replace(place, "project")


def written(state: CycleState, event: AcceptanceWritten) -> CycleState:
    blind = state.blind
    if blind is None or blind.tests is not None or event.turn != state.blind_action:
        return state
    state = replace(state, guidance=guidance.after_answer(state.guidance, event.turn))
    if event.problem:
        return _once_more(state, blind, event.problem)
    return replace(state, blind=replace(blind, tests=event.tests, problem=""))


def tried(state: CycleState, ran: ProofRan) -> CycleState:
    """The tests ran on the files before the run; that they fail there is what they are for."""
    blind = state.blind
    if blind is None or blind.tests is None or blind.before is not None or ran.turn != state.blind_action:
        return state
    if ran.problem:
        return replace(state, stalled=f"{ran.turn} proves nothing: {ran.problem}")
    if why := not_run(ran):
        return _once_more(state, replace(blind, tests=None), why)
    return replace(state, blind=replace(blind, before=ran))


def _once_more(state: CycleState, blind: BlindTests, problem: str) -> CycleState:
    """Ask again; after the last try, a person decides: resuming asks once more, or goes on without."""
    state = replace(state, blind=replace(blind, attempt=blind.attempt + 1, problem=problem))
    if blind.attempt < TRIES:
        return state
    told = (
        f"the acceptance tests cannot be used: {problem}. Resume to ask once more, or with `--set proof.blind=0` to "
        "go on without them"
    )
    return replace(state, stalled=told)


def resumed(state: CycleState) -> CycleState:
    """A person may turn them off; once the programmer was asked they cannot be turned on."""
    wanted = state.plan.proof is not None and state.plan.proof.blind
    return state if wanted or not state.writes_blind_tests else replace(state, blind=None)
