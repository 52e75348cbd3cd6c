"""What agents are told: the facts of the flow and the documents that say them, tested together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest
from jinja2 import UndefinedError

from logos import profiles
from logos.domain.events import Source, TerminalOpened, TurnAnswered, TurnAsked
from logos.domain.plans import CondenseRules, CyclePlan
from logos.domain.roles import ANSWERS, RESPONSE_FILES, ROLE_DEFS, Phase, Role, phase_def_of
from logos.domain.turns import AgentName, Fact, TerminalId
from logos.errors import ConfigError
from logos.flows.cycle.briefing import (
    EXPLORE_BACK_REFERENCE,
    NO_VERDICT,
    UPSTREAM_BACK_REFERENCE,
    facts_for,
    turn_for,
)
from logos.flows.cycle.flow import Cycle, CycleState
from logos.flows.cycle.verdicts import ReportedResult, evidence_found, read_result, says_approved
from logos.prompts import PLACEHOLDER, render, response_instruction, standing_rules

ROLES = list(Role)
REVIEWERS = [Role.PEER_ANALYST, Role.PEER_PROGRAMMER]

EXPLORE = "The parser drops the last line of a file without a newline."
SCENARIO_TEST = "1. Run `parse sample.txt`.\n2. Expected: 3 rows."

ANALYST_SAYS = """\
ANALYST_SUMMARY:
- Scope: the reader of files
- OpenSpec artifacts created/updated: openspec/changes/last-line/tasks.md
- Implementation notes for programmer: change read_rows in parser.py
- Risks/assumptions: files are UTF-8
- Downstream impact: none"""

PROGRAMMER_SAYS = """\
PROGRAMMER_SUMMARY:
- openspec-apply-change result: 3 of 3 tasks
- Files changed: parser.py
- Behavior implemented: the last row is returned
- Known limitations: none"""


def a_plan(**changes: object) -> CyclePlan:
    plan = CyclePlan(
        prompt="(both parts)",
        explore=EXPLORE,
        scenario_test=SCENARIO_TEST,
        wd="/repo",
        response_dir="/repo/.tmp/agent-responses",
    )
    return replace(plan, **changes)  # pyright: ignore[reportArgumentType]


def a_state(role: Role, plan: CyclePlan | None = None, **changes: object) -> CycleState:
    """A run in the middle, where `role` is due and everybody upstream has spoken."""
    said = {**dict.fromkeys(ANSWERS, ""), "analyst": ANALYST_SAYS, "programmer": PROGRAMMER_SAYS}
    state = CycleState(
        plan or a_plan(),
        phase=phase_def_of(role).phase,
        role=role,
        outputs=MappingProxyType(said),
        fresh=False,
    )
    return replace(state, **changes)  # pyright: ignore[reportArgumentType]


def prompt_of(state: CycleState) -> str:
    turn = turn_for(state)
    return render(turn.document, turn.facts)


def first_prompt(start: Role) -> str:
    return prompt_of(Cycle(a_plan(start=start)).start())


def instruction_of(prompt: str) -> str:
    head, mark, block = prompt.rpartition("*** RESPONSE FILE INSTRUCTION ***")
    assert head
    return mark + block


def without(facts: Mapping[str, Fact], name: str) -> dict[str, Fact]:
    return {key: fact for key, fact in facts.items() if key != name}


def every_state() -> list[CycleState]:
    """One state per way a document can turn out."""
    return [
        *(a_state(role) for role in ROLES),
        *(a_state(role, cycle=2) for role in ROLES),
        *(a_state(role, round=2, feedback="it broke", retry_context="- Files changed: a.py") for role in ROLES),
        *(a_state(role, analyst_feedback="vague", programmer_feedback="leaks") for role in ROLES),
        a_state(Role.TESTER, a_plan(test_command="make test")),
    ]


# --- facts and documents


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("round_number", [1, 2])
def test_a_document_with_any_one_fact_missing_is_an_error(role: Role, round_number: int) -> None:
    facts = facts_for(a_state(role, round=round_number))
    for name in facts:
        with pytest.raises(UndefinedError, match=name):
            render(role, without(facts, name))


@pytest.mark.parametrize("name", ["turn", "role", "round", "cycle", "wd", "response_path"])
def test_a_reminder_with_a_fact_missing_is_an_error(name: str) -> None:
    with pytest.raises(UndefinedError, match=name):
        render("reminder", without(facts_for(a_state(Role.TESTER)), name))


@pytest.mark.parametrize("state", every_state(), ids=lambda s: s.turn_id)
def test_every_prompt_begins_with_its_turn_and_ends_with_the_response_instruction(state: CycleState) -> None:
    facts, prompt = facts_for(state), prompt_of(state)
    assert prompt.startswith(f"Turn: {state.turn_id}\n")
    assert f"round {state.round}, cycle {state.cycle}" in prompt
    assert "/repo" in prompt.splitlines()[2]
    assert prompt.endswith(response_instruction(str(facts["response_path"])))
    assert prompt.count("RESPONSE FILE INSTRUCTION") == 1


@pytest.mark.parametrize("state", every_state(), ids=lambda s: s.turn_id)
def test_every_prompt_is_tidy(state: CycleState) -> None:
    prompt = prompt_of(state)
    assert "\n\n\n" not in prompt
    assert not re.search(r"[ \t]$", prompt, re.MULTILINE)
    assert "{%" not in prompt
    # A header stands after a blank line, so that it is never read as part of the text before it.
    assert not re.search(r"[^\n]\n\*\*\* (?!END)", prompt)


@pytest.mark.parametrize("state", every_state(), ids=lambda s: s.turn_id)
def test_no_prompt_shows_on_a_screen_what_a_host_takes_for_a_waiting_or_failed_agent(state: CycleState) -> None:
    looks_like_an_agent = r"[>❯›»]\s|^\s*(?:You\b|assistant:|Error:|ERROR:|Traceback)|[*·].*…|y/n"
    assert not re.search(looks_like_an_agent, prompt_of(state), re.MULTILINE)


@pytest.mark.parametrize("role", ROLES)
def test_the_first_prompt_tells_the_explore_summary_and_later_ones_refer_back(role: Role) -> None:
    first, later = prompt_of(a_state(role)), prompt_of(a_state(role, briefed=frozenset({role})))
    assert f"*** ORIGINAL EXPLORE SUMMARY ***\n{EXPLORE}\n" in first
    assert f"*** ORIGINAL EXPLORE SUMMARY ***\n{EXPLORE_BACK_REFERENCE}\n" in later
    assert EXPLORE not in later


def test_what_an_agent_wrote_comes_through_as_it_is() -> None:
    hostile = "{{ wd }} {% raw %} {# gone #} <b>&amp;</b> ${HOME} \\n\n\n\n    indented"
    state = a_state(
        Role.PEER_PROGRAMMER, outputs=MappingProxyType({**a_state(Role.TESTER).outputs, "programmer": hostile})
    )
    assert f"\n{hostile}\n" in prompt_of(state)


def test_blank_lines_around_a_fact_do_not_reach_the_prompt() -> None:
    assert "\n\n\n" not in prompt_of(a_state(Role.TESTER, a_plan(explore="\n\nlook\n\n\n", scenario_test="try\n\n\n")))


@pytest.mark.parametrize("role", ROLES)
def test_an_agent_that_has_its_rules_from_its_profile_is_not_told_them_again(role: Role) -> None:
    opened = TerminalOpened(AgentName(role), TerminalId("t"), "codex", "s", has_rules=True)
    flow = Cycle(a_plan())
    state = flow.apply(a_state(role), opened)
    prompt, rules = prompt_of(state), standing_rules(role)
    assert rules not in prompt
    assert rules in profiles.text(ROLE_DEFS[role].profile)
    assert "as in your profile" in prompt
    # In another terminal, nobody knows what the agent was told.
    again = flow.apply(state, replace(opened, has_rules=False))
    assert rules in prompt_of(again)


@pytest.mark.parametrize("role", ROLES)
def test_rules_are_told_again_until_an_agent_has_answered_in_its_conversation(role: Role) -> None:
    flow, state = Cycle(a_plan()), a_state(role)
    turn = turn_for(state)
    asked = flow.apply(state, TurnAsked(turn.id, turn.agent, prompt_of(state)))
    assert standing_rules(role) in prompt_of(asked)
    answered = flow.apply(asked, TurnAnswered(turn.id, "REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n1. a.py", Source.FILE))
    later = replace(answered, role=role, cycle=2)
    assert standing_rules(role) not in prompt_of(later)
    assert "as in your first prompt" in prompt_of(later)
    assert len(prompt_of(later)) < len(prompt_of(state))


# --- the response file


@pytest.mark.scenario("HND-10")
def test_the_analyst_is_told_the_absolute_path_of_its_response() -> None:
    block = instruction_of(prompt_of(a_state(Role.ANALYST)))
    assert "\ncat >/repo/.tmp/agent-responses/analyst_summary.md <<" in block


@pytest.mark.scenario("HND-11")
@pytest.mark.scenario("HND-10")
def test_a_path_that_a_shell_would_split_is_told_as_it_is_too() -> None:
    block = response_instruction("/my work/it's/analyst_summary.md")
    assert "\n/my work/it's/analyst_summary.md\n" in block
    assert "\ncat >'/my work/it'\"'\"'s/analyst_summary.md' <<" in block


@pytest.mark.parametrize("role", ROLES)
def test_each_role_is_told_its_own_response_file_and_no_other(role: Role) -> None:
    block = instruction_of(prompt_of(a_state(role)))
    named = set(re.findall(r"/repo/\.tmp/agent-responses/(\w+\.md)", block))
    assert named == {RESPONSE_FILES[ROLE_DEFS[role].answer]}


def test_the_placeholder_is_one_line_of_its_own() -> None:
    assert PLACEHOLDER.strip() == PLACEHOLDER
    assert response_instruction("/r.md").splitlines().count(PLACEHOLDER) == 1


@pytest.mark.parametrize("role", ROLES)
def test_a_reminder_asks_for_the_file_and_not_for_the_work_again(role: Role) -> None:
    facts = facts_for(a_state(role, feedback="it broke"))
    reminder = render("reminder", facts)
    assert reminder.startswith(f"Turn: r1.{role}.c1\n")
    assert "not complete until its response file exists" in reminder
    assert "Do not repeat work" in reminder
    assert reminder.endswith(response_instruction(str(facts["response_path"])))
    assert EXPLORE not in reminder
    assert len(reminder) < 1500


# --- the analyst


@pytest.mark.scenario("CYC-12")
def test_the_analyst_prompt_has_all_its_parts() -> None:
    state = a_state(Role.ANALYST, cycle=2, feedback="RESULT: FAIL", analyst_feedback="tasks.md is vague")
    prompt = prompt_of(state)
    assert EXPLORE in prompt
    assert "round 1, cycle 2" in prompt
    assert "Tester feedback:\nRESULT: FAIL\n" in prompt
    assert "Peer analyst feedback:\ntasks.md is vague\n" in prompt
    assert "Do not implement and do not test" in prompt
    sections = (
        "Artifact review",
        "P1-P4 traceability",
        "Phased delivery coverage",
        "Downstream contract impact",
        "Explicit handoff",
    )
    assert [section for section in sections if section not in prompt] == []
    assert "RESPONSE FILE INSTRUCTION" in prompt


def test_the_analyst_is_asked_for_exactly_the_parts_that_are_read_back() -> None:
    prompt = prompt_of(a_state(Role.ANALYST))
    for part in ANALYST_SAYS.splitlines():
        assert re.search(rf"^{re.escape(part.partition(':')[0])}:", prompt, re.MULTILINE)


def test_an_analyst_without_feedback_is_told_so() -> None:
    prompt = prompt_of(a_state(Role.ANALYST))
    assert "Tester feedback:\n(none)\n" in prompt
    assert "Peer analyst feedback:\n(none)\n" in prompt


@pytest.mark.scenario("PRD-23")
def test_in_round_1_the_analyst_explores_and_fast_forwards() -> None:
    prompt = first_prompt(Role.ANALYST)
    assert "Explore the codebase" in prompt
    assert "Create/update all OpenSpec artifacts using the OpenSpec fast-forward skill" in prompt
    assert "investigate the test failure" not in prompt


@pytest.mark.scenario("PRD-24")
def test_in_a_retry_round_the_analyst_investigates_and_then_updates() -> None:
    prompt = prompt_of(a_state(Role.ANALYST, round=2, feedback="RESULT: FAIL"))
    _, investigate, rest = prompt.partition("Use the OpenSpec explore skill to investigate the test failure")
    assert investigate
    assert "use the OpenSpec fast-forward skill to update the artifacts" in rest
    assert "Explore the codebase" not in prompt


# --- the reviewers


@pytest.mark.parametrize(("role", "says"), [(Role.PEER_ANALYST, ANALYST_SAYS), (Role.PEER_PROGRAMMER, PROGRAMMER_SAYS)])
def test_a_reviewer_gets_the_whole_output_of_the_author(role: Role, says: str) -> None:
    short = CondenseRules(max_cross_phase_lines=1, max_feedback_lines=1)
    assert f"(full) ***\n{says}\n*** END OF" in prompt_of(a_state(role, a_plan(condense=short), cycle=3))


@pytest.mark.parametrize("role", REVIEWERS)
def test_a_reviewer_only_reviews(role: Role) -> None:
    prompt = prompt_of(a_state(role))
    assert "Only review" in prompt
    assert "`REVIEW_RESULT: APPROVED` or `REVIEW_RESULT: REVISE`" in prompt
    assert "`REVIEW_NOTES:`" in prompt


def test_the_peer_analyst_starts_from_revise_and_looks_at_the_disk() -> None:
    prompt = prompt_of(a_state(Role.PEER_ANALYST))
    assert "default stance is REVISE" in prompt
    assert "rejection criteria" in prompt
    assert "Check on disk at least two of the paths the analyst names" in prompt


@pytest.mark.parametrize("role", REVIEWERS)
def test_a_reviewer_is_told_every_kind_of_evidence_an_approval_needs(role: Role) -> None:
    line = next(line for line in prompt_of(a_state(role)).splitlines() if line.startswith("An approval counts only"))
    assert evidence_found(f"REVIEW_NOTES:\n{line}", phase_def_of(role).phase) == 4


@pytest.mark.parametrize("role", REVIEWERS)
def test_a_reviewer_that_comes_back_checks_its_earlier_findings_first(role: Role) -> None:
    assert "earlier findings" not in prompt_of(a_state(role, cycle=1))
    assert "earlier findings" in prompt_of(a_state(role, cycle=2))


@pytest.mark.scenario("PRD-14")
def test_a_run_that_starts_at_the_peer_analyst_says_that_there_is_no_analysis() -> None:
    prompt = first_prompt(Role.PEER_ANALYST)
    assert prompt.startswith("Turn: r1.peer_analyst.c1\n")
    assert "(There is no upstream output: this run started at the peer analyst.)" in prompt


@pytest.mark.scenario("PRD-15")
def test_a_run_that_starts_at_the_peer_programmer_says_that_there_is_no_implementation() -> None:
    prompt = first_prompt(Role.PEER_PROGRAMMER)
    assert prompt.startswith("Turn: r1.peer_programmer.c1\n")
    assert "(There is no upstream output: this run started at the peer programmer.)" in prompt


# --- the programmer


def test_in_round_1_the_programmer_gets_the_condensed_handoff() -> None:
    prompt = prompt_of(a_state(Role.PROGRAMMER))
    assert "System analyst handoff:\n- OpenSpec artifacts created/updated: openspec/changes/last-line" in prompt
    assert "- Scope: the reader" not in prompt
    assert "Test failure feedback:" not in prompt


@pytest.mark.scenario("CYC-13")
@pytest.mark.scenario("PRD-25")
def test_a_programmer_asked_again_in_round_1_is_referred_back_to_the_handoff() -> None:
    prompt = prompt_of(a_state(Role.PROGRAMMER, cycle=2, briefed=frozenset({Role.PROGRAMMER})))
    assert f"System analyst handoff:\n{UPSTREAM_BACK_REFERENCE}\n" in prompt
    assert "change read_rows in parser.py" not in prompt


def test_a_programmer_asked_again_gets_the_handoff_again_where_condensing_is_off() -> None:
    plan = a_plan(condense=CondenseRules(upstream_on_repeat=False))
    assert "change read_rows in parser.py" in prompt_of(a_state(Role.PROGRAMMER, plan, cycle=2))


@pytest.mark.scenario("PRD-26")
def test_in_a_retry_round_the_programmer_gets_the_test_failure_instead_of_the_handoff() -> None:
    prompt = prompt_of(a_state(Role.PROGRAMMER, round=2, feedback="RESULT: FAIL\nEVIDENCE: 2 rows"))
    assert "Test failure feedback:\nRESULT: FAIL\nEVIDENCE: 2 rows\n" in prompt
    assert "System analyst handoff:" not in prompt
    assert "change read_rows in parser.py" not in prompt
    investigate, update = prompt.index("Investigate first"), prompt.index("update the OpenSpec artifacts")
    assert investigate < update
    assert "If the failure shows a spec or design fault" in prompt


@pytest.mark.scenario("RTY-06")
def test_in_a_retry_round_the_programmer_sees_what_it_changed_before() -> None:
    prompt = prompt_of(a_state(Role.PROGRAMMER, round=2, retry_context="- Files changed: foo.py"))
    assert "Your previous changes (context):\n- Files changed: foo.py" in prompt


@pytest.mark.scenario("RTY-07")
def test_in_round_1_there_are_no_previous_changes() -> None:
    assert "Your previous changes" not in prompt_of(a_state(Role.PROGRAMMER, retry_context="- Files changed: foo.py"))


@pytest.mark.scenario("RTY-08")
def test_a_retry_round_without_context_has_no_block_for_it() -> None:
    assert "Your previous changes" not in prompt_of(a_state(Role.PROGRAMMER, round=2, retry_context=""))


@pytest.mark.parametrize(
    "role",
    [
        pytest.param(Role.TESTER, marks=pytest.mark.scenario("RTY-09")),
        pytest.param(Role.PEER_PROGRAMMER, marks=pytest.mark.scenario("RTY-10")),
        pytest.param(Role.PEER_ANALYST, marks=pytest.mark.scenario("RTY-11")),
        Role.ANALYST,
    ],
)
@pytest.mark.parametrize("round_number", [1, 2])
def test_nobody_but_the_programmer_is_told_of_earlier_changes(role: Role, round_number: int) -> None:
    prompt = prompt_of(a_state(role, round=round_number, retry_context="- Files changed: foo.py"))
    assert "Your previous changes" not in prompt
    assert "Previous round programmer changes" not in prompt
    assert "foo.py" not in prompt


def test_objections_that_stand_reach_the_programmer_once() -> None:
    prompt = prompt_of(a_state(Role.PROGRAMMER, analyst_feedback="the design ignores Windows"))
    assert "the peer analyst never approved" in prompt
    assert "the design ignores Windows" in prompt
    assert "never approved" not in prompt_of(
        a_state(Role.PROGRAMMER, cycle=2, analyst_feedback="the design ignores Windows")
    )
    assert "never approved" not in prompt_of(a_state(Role.PROGRAMMER))


@pytest.mark.parametrize("round_number", [1, 2])
def test_the_programmer_gets_its_reviewers_feedback_in_every_round(round_number: int) -> None:
    state = a_state(Role.PROGRAMMER, round=round_number, cycle=2, programmer_feedback="parser.py:7 leaks")
    assert "Peer programmer feedback:\nparser.py:7 leaks\n" in prompt_of(state)
    assert "Peer programmer feedback:\n(none)\n" in prompt_of(replace(state, programmer_feedback=""))


def test_the_programmer_may_read_the_scenario_test_but_not_run_it() -> None:
    prompt = prompt_of(a_state(Role.PROGRAMMER))
    assert SCENARIO_TEST in prompt
    assert "Read the scenario test, do not run it" in prompt
    assert "nothing destructive, delete no fixtures" in prompt
    assert "under .tmp/" in prompt


def test_the_programmer_is_asked_for_exactly_the_parts_that_are_read_back() -> None:
    prompt = prompt_of(a_state(Role.PROGRAMMER))
    for part in PROGRAMMER_SAYS.splitlines():
        assert re.search(rf"^{re.escape(part.partition(':')[0])}:", prompt, re.MULTILINE)


# --- the tester


def test_the_tester_gets_what_changed_and_the_scenario_test() -> None:
    prompt = prompt_of(a_state(Role.TESTER))
    assert "Programmer handoff:\n- Files changed: parser.py\n- Behavior implemented: the last row" in prompt
    assert "Known limitations" not in prompt
    assert f"*** SCENARIO TEST ***\n{SCENARIO_TEST}\n" in prompt
    assert "Change nothing" in prompt
    assert "Run no git" in prompt


def test_the_tester_runs_the_project_test_command_where_there_is_one() -> None:
    told = prompt_of(a_state(Role.TESTER, a_plan(test_command="make test")))
    assert "Project test command, to be run as well:\nmake test\n" in told
    assert "project test command" not in prompt_of(a_state(Role.TESTER)).lower()


def test_objections_that_stand_reach_the_tester() -> None:
    prompt = prompt_of(a_state(Role.TESTER, programmer_feedback="the file is never closed"))
    assert "the peer programmer never approved" in prompt
    assert "the file is never closed" in prompt
    assert "never approved" not in prompt_of(a_state(Role.TESTER))


def test_a_tester_without_a_verdict_is_told_what_was_missing() -> None:
    assert NO_VERDICT in prompt_of(a_state(Role.TESTER, cycle=2))
    assert "ONCE MORE" not in prompt_of(a_state(Role.TESTER))


@pytest.mark.parametrize("role", [*REVIEWERS, Role.TESTER])
def test_a_prompt_that_is_echoed_is_no_verdict_and_does_not_spoil_one(role: Role) -> None:
    prompt = prompt_of(a_state(role, cycle=2))
    assert read_result(prompt) is ReportedResult.UNCLEAR
    assert not says_approved(prompt)
    assert read_result(f"{prompt}\nRESULT: PASS\n") is ReportedResult.PASS
    assert says_approved(f"{prompt}\nREVIEW_RESULT: APPROVED\n")
    assert evidence_found(prompt, Phase.ANALYST) == evidence_found(prompt, Phase.PROGRAMMER) == 0


# --- profiles


def test_there_is_a_profile_for_every_seat() -> None:
    assert {agent_def.profile for agent_def in ROLE_DEFS.values()} <= set(profiles.names())


@pytest.mark.parametrize("name", profiles.names())
def test_a_profile_has_front_matter_with_its_own_name_and_a_system_prompt(name: str) -> None:
    start_plan, front, body = profiles.text(name).split("---\n", 2)
    assert start_plan == ""
    assert f"name: {name}\n" in front
    assert re.search(r"^description: \S.*$", front, re.MULTILINE)
    assert "RESPONSE FILE INSTRUCTION" in body


@pytest.mark.parametrize(
    ("name", "markers"),
    [
        ("system_analyst", [line.partition(":")[0] for line in ANALYST_SAYS.splitlines()]),
        ("peer_system_analyst", ["REVIEW_RESULT", "REVIEW_NOTES"]),
        ("programmer", [line.partition(":")[0] for line in PROGRAMMER_SAYS.splitlines()]),
        ("peer_programmer", ["REVIEW_RESULT", "REVIEW_NOTES"]),
        ("tester", ["RESULT", "EVIDENCE"]),
    ],
)
def test_a_profile_names_the_markers_of_its_answer(name: str, markers: list[str]) -> None:
    body = profiles.text(name)
    assert [marker for marker in markers if not re.search(rf"(^|`){re.escape(marker)}:", body, re.MULTILINE)] == []


def test_an_unknown_profile_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="system_analyst"):
        profiles.text("../secrets")
