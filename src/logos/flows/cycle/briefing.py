"""What an agent of the cycle is told in a turn; documents say it."""

from collections.abc import Mapping

from logos.domain.artifacts import changes_folder
from logos.domain.roles import ROLE_DEFS, Role
from logos.domain.turns import AgentName, Fact, Turn
from logos.flows import condense, guidance
from logos.flows.cycle import findings as ledger
from logos.flows.cycle.proving import failing_in_words, may_fail_in_words
from logos.flows.cycle.state import CycleState

EXPLORE_BACK_REFERENCE = "(Same as initial turn -- refer to your conversation history.)"
UPSTREAM_BACK_REFERENCE = "(Same as in your first turn of this round -- refer to your conversation history.)"
NO_UPSTREAM = "(There is no upstream output: this run started at the {role}.)"
NO_VERDICT = "Your previous response had no clear verdict: exactly one line must begin with RESULT: and say one word."
ASKED_AGAIN = (
    "You changed files that you were to review. They were put back, and your verdict did not count. "
    "Review again, and change nothing but your response file."
)


def turn_for(state: CycleState) -> Turn:
    answer = ROLE_DEFS[state.role].answer
    plans, judges = state.role is Role.ANALYST, state.role not in (Role.ANALYST, Role.PROGRAMMER)
    return Turn(state.turn_id, AgentName(state.role), answer, state.role, facts_for(state), judges=judges, plans=plans)


def facts_for(state: CycleState) -> Mapping[str, Fact]:
    plan, briefed = state.plan, state.role in state.briefed
    return {
        "turn": state.turn_id,
        "role": state.role,
        "round": state.round,
        "cycle": state.cycle,
        "wd": plan.wd,
        "explore": EXPLORE_BACK_REFERENCE if briefed and plan.condense.explore_on_repeat else plan.explore,
        "begun": state.role in state.begun,
        "told": _told(state),
        "person": guidance.in_words(state.guidance, (state.role,), state.turn_id),
        "history": "" if briefed else "\n\n".join(state.memory.get(state.role, ())),
        "response_path": f"{plan.response_dir}/{ROLE_DEFS[state.role].response_file}",
        **({"changes_folder": changes_folder(plan.artifacts)} if state.role is not Role.TESTER else {}),
        **_role_facts(state, briefed=briefed),
    }


def _told(state: CycleState) -> str:
    """Where the agent has its standing rules from; empty: it must be told now."""
    if state.role in state.begun:
        return "your first prompt"
    return "your profile" if state.role in state.profiled else ""


def _role_facts(state: CycleState, *, briefed: bool) -> dict[str, Fact]:
    """The facts that only the document of this role names."""
    plan = state.plan
    analyst, programmer = (condense.capped(state.said(role)) for role in (Role.ANALYST, Role.PROGRAMMER))
    nothing = NO_UPSTREAM.format(role=plan.start.replace("_", " "))
    match state.role:
        case Role.ANALYST:
            return {
                "feedback": state.feedback,
                "review_feedback": state.analyst_feedback,
                "failing": failing_in_words(state),
            }
        case Role.PEER_ANALYST:
            again = ASKED_AGAIN if state.attempt > 1 else ""
            return {
                "author_output": analyst or nothing,
                "again": again,
                "rejected": state.rejected,
                "findings": _own_findings(state),
                "failing": failing_in_words(state),
            }
        case Role.PROGRAMMER:
            handoff = condense.analyst_for_programmer(analyst, plan.condense) or nothing
            repeated = state.cycle > 1 and briefed and plan.condense.upstream_on_repeat
            first = (state.role in state.memory and not briefed) or (state.round == 1 and state.cycle == 1)
            return {
                "handoff": UPSTREAM_BACK_REFERENCE if repeated else handoff,
                "objections": state.analyst_feedback if first else "",
                "feedback": state.feedback,
                "retry_context": state.retry_context,
                "review_feedback": state.programmer_feedback,
                "scenario_test": plan.scenario_test,
                "findings": ledger.raised_anew(state.findings, (ledger.TESTS, Role.PEER_PROGRAMMER)),
                "no_progress": state.no_progress,
            }
        case Role.PEER_PROGRAMMER:
            # A reviewer of a repair must know what was broken.
            again = ASKED_AGAIN if state.attempt > 1 else ""
            own = _own_findings(state)
            return {"author_output": programmer or nothing, "feedback": state.feedback, "again": again, "findings": own}
        case Role.TESTER:
            return {
                "handoff": condense.programmer_for_tester(programmer, plan.condense) or nothing,
                "objections": state.programmer_feedback,
                "scenario_test": plan.scenario_test,
                "test_command": plan.test_command,
                "may_fail": may_fail_in_words(state),
                "rejected": state.rejected,
                "again": NO_VERDICT if state.cycle > 1 else "",
            }


def _own_findings(state: CycleState) -> str:
    """What a reviewer has found so far, from its second turn in a phase on."""
    own = (finding for finding in state.findings if finding.source == state.role)
    return ledger.as_list(own) if state.cycle > 1 else ""
