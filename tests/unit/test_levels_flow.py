"""The levels as a pure flow: the numbered scenarios, and the corners where a build could get stuck or lose something."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from logos.domain.events import (
    CheckRan,
    Event,
    RunEnded,
    RunForked,
    RunResumed,
    TurnAnswered,
    TurnFailed,
    WorkMerged,
)
from logos.domain.ledger import Ledger
from logos.domain.levels import ALL_LEVELS, LEVELS, Level
from logos.domain.plans import CURRENT_RULES, RulesVersion
from logos.domain.reports import (
    ActionKind,
    Change,
    Constraint,
    Failure,
    Finding,
    NextAction,
    Proposal,
    Report,
    Section,
    ToolUse,
    Verdict,
)
from logos.domain.specs import ContentConflict, Direction, Handoff, Tool, TouchedFile
from logos.domain.turns import Check, FailureKind, Gather, Merge, Outcome, RunId, Turn, TurnId, Worktree
from logos.flows.levels.reconcile import Cause
from logos.flows.levels.state import LevelsState, LevelStatus, Stage
from logos.views.build_state import project
from tests.builders import replay
from tests.levels_builders import (
    Built,
    Reply,
    World,
    a_component,
    a_levels_plan,
    a_report,
    answered_by_a_person,
    dividing,
    drive_levels,
    flow_of,
    last,
    touched_by,
    turns_at_most,
    written,
)

L1, L2, L3, L4, L5, L6, L7, L8, L9 = sorted(Level)
ONE, TWO, SIX = a_component("one"), a_component("two"), a_component("six")
ASK_PERSON = {"next": NextAction(ActionKind.ASK_PERSON, why="which of the two?")}
MARKER = "XYZZY-4711"


def fails(what: str = "it greets nobody", *against: Level) -> dict[str, Any]:
    return {"verdict": Verdict.FAIL, "failures": (Failure(what, "a greeting", "silence", against),)}


def hands_back(to: Level) -> dict[str, Any]:
    return {"next": NextAction(ActionKind.HAND_BACK, to, f"{to.name} is unclear")}


def proposes(*levels: Level, rework: tuple[str, ...] = ()) -> dict[str, Any]:
    changes = tuple(Change(level, f"{level.name} becomes other") for level in levels)
    return {"proposal": Proposal("do it so", changes, rework)}


def ids_of(built: Built, kind: str) -> list[str]:
    return [turn for turn in built.asked if f".{kind}" in turn]


def due_ids(built: Built, flow: Any) -> list[str]:
    return [action.id for action in flow.due(built.state)]


def every_fact(turn: Turn) -> str:
    return "\n".join(str(fact) for fact in turn.facts.values())


@pytest.mark.scenario("LOG-01")
def test_the_state_tells_who_is_at_work_where_the_focus_is_and_whence_every_spec_comes() -> None:
    flow = flow_of()
    at_l5 = drive_levels(flow, until=lambda state: state.level is L5).state

    assert [ask.turn for ask in at_l5.pending_turns] == ["s1.L5.decompose"]
    assert (at_l5.stage, at_l5.level) == (Stage.DOWN, L5)
    assert [(spec.id, spec.parent) for spec in at_l5.specs] == [
        ("L9.v1", "telos"),
        ("L8.v1", "L9.v1"),
        ("L7.v1", "L8.v1"),
        ("L6.v1", "L7.v1"),
    ]
    assert [handoff.pattern for handoff in at_l5.handoffs] == ["L9→L8", "L8→L7", "L7→L6", "L6→L5"]


@pytest.mark.scenario("LOG-01")
def test_replaying_any_prefix_of_the_log_gives_the_state_it_had() -> None:
    flow, states = flow_of(), [flow_of().start()]
    world = World({"s1.L3.decompose": dividing(ONE, TWO), "s1.L4.validate": fails()})
    events = drive_levels(flow, world, order=last).events
    for event in events:
        states.append(flow.apply(states[-1], event))

    assert [replay(flow, events[:count]) for count in range(len(events) + 1)] == states
    assert drive_levels(flow, world, before=events[:40]).settled_state == drive_levels(flow, world).settled_state


@pytest.mark.scenario("LOG-02")
@pytest.mark.scenario("LOG-09")
@pytest.mark.parametrize("turn", ["decompose", "validate"])
def test_a_level_is_told_the_telos_down_to_it_the_specs_above_its_own_tools_and_its_handoff(turn: str) -> None:
    tools = tuple(Tool(level, f"tool-{level.name}", f"run-{level.name}") for level in Level)
    built = drive_levels(flow_of(tools=tools))

    for level in Level:
        if level < L3:
            continue
        facts = built.facts(f"s1.{level.name}.{turn}")
        higher = [other for other in sorted(Level, reverse=True) if other > level]
        assert facts["telos"].splitlines() == [f"{own.name}: what is known at {own.name}" for own in (*higher, level)]
        assert [line.split("]")[0] for line in facts["specs"].splitlines() if line.startswith("[")] == [
            f"[{other.name}.v1" for other in higher
        ]
        assert facts["tools"] == f"tool-{level.name}: `run-{level.name}`"
        assert facts["own_spec"].startswith(f"[{level.name}.v1]") is (turn == "validate")
    down, up = built.facts("s1.L5.decompose")["handoff"], built.facts("s1.L5.validate")["handoff"]
    assert down.startswith("From L6 (s1.L6.decompose):\ns1.L6.decompose is done")
    assert up.startswith("From L4 (s1.L4.validate):\ns1.L4.validate is done")


@pytest.mark.scenario("LOG-02")
@pytest.mark.scenario("LOG-09")
def test_an_author_is_told_its_own_component_and_nothing_of_a_sibling_s_work() -> None:
    world = World(
        {
            "s1.L3.decompose": dividing(ONE, TWO, a_component("six", "one")),
            "s1.L2.two.author": {"work_summary": MARKER, "spec": (Section("behaviour", MARKER),)},
        }
    )
    built = drive_levels(flow_of(max_parallel=1), world, order=last)

    facts = built.facts("s1.L2.six.author")
    assert (facts["component"], facts["purpose"], facts["files"]) == ("six", "what six is for", "src/six.py")
    assert facts["depends_on"] == "one: what one is for"
    assert MARKER not in every_fact(built.turn("s1.L2.six.author"))
    assert MARKER in built.facts("s1.L3.validate")["handoff"]


def _marked_outside_the_report(_turn: Turn) -> str:
    return f"{MARKER}: thinking aloud, and no report"


def _marked_in_its_tools(turn: Turn) -> str:
    return written(a_report(turn, tools=(ToolUse(MARKER, MARKER),)))


def _another_s_report(turn: Turn) -> str:
    return written(Report(a_report(turn).kind, L1, MARKER))


@pytest.mark.scenario("LOG-02")
@pytest.mark.scenario("LOG-09")
@pytest.mark.parametrize("reply", [_marked_outside_the_report, _marked_in_its_tools, _another_s_report])
@pytest.mark.parametrize(
    "liar",
    ["s1.L9.decompose", "s1.L6.decompose", "s1.L2.one.author", "s1.L1.lint", "s1.L4.validate", "s1.q1.L5.position"],
)
def test_what_an_agent_says_outside_its_accepted_report_reaches_nobody(liar: str, reply: Reply) -> None:
    world = World({"s1.L3.decompose": dividing(ONE, TWO), liar: reply, "s1.L5.validate": fails()})
    built = drive_levels(flow_of(), world)

    assert built.state.outcome is Outcome.PASSED
    told = [turn for turn in built.turns if MARKER in every_fact(turn)]
    assert [turn.agent for turn in told] in ([], [liar]), "only whoever said it is told what was wrong with it"


@pytest.mark.scenario("LOG-09")
def test_a_position_is_heard_by_those_who_settle_the_conflict_and_by_nobody_else() -> None:
    world = World({"s1.L5.validate": fails(), "s1.q1.L5.position": {"position": MARKER}})
    # One after the other: the first position is known when the second is asked for.
    built = drive_levels(flow_of(max_parallel=1), world)

    told = {turn.id for turn in built.turns if MARKER in every_fact(turn)}
    assert told == {"s1.q1.L5.propose.r1", "s1.q1.L4.agree.r1", "s1.q1.L6.agree.r1", "s1.q1.L9.align.r1"}


@pytest.mark.scenario("LOG-09")
def test_every_ask_goes_to_an_agent_of_its_own_and_authors_to_a_place_of_their_own() -> None:
    told = {"s1.L6.decompose": hands_back(L7), "s1.L3.decompose": dividing(ONE, TWO), "s1.L5.validate": fails()}
    built = drive_levels(flow_of(), World(told))

    assert built.asked[2:5] == ["s1.L7.decompose", "s1.L6.decompose", "s1.L7.decompose.v2"]
    assert len({turn.agent for turn in built.turns}) == len(built.turns)
    places: dict[str, Worktree | None] = {turn.id: turn.place for turn in built.turns}
    assert places["s1.L2.one.author"] == Worktree("one", ("base",))
    assert places["s1.L2.two.author"] == Worktree("two", ("base",))
    assert places["s1.L1.lint"] == Worktree("main", ("all of s1.merge",))


@pytest.mark.scenario("LOG-03")
def test_a_feature_goes_down_from_the_purpose_to_the_syntax_each_spec_under_the_one_above() -> None:
    built = drive_levels(flow_of())

    assert built.asked[:9] == [
        *(f"s1.L{number}.decompose" for number in range(9, 2, -1)),
        "s1.L2.one.author",
        "s1.L1.lint",
    ]
    assert [(spec.id, spec.parent) for spec in built.state.specs] == [
        ("L9.v1", "telos"),
        *((f"L{number}.v1", f"L{number + 1}.v1") for number in range(8, 2, -1)),
        ("L2.one.v1", "L3.v1"),
    ]
    assert built.facts("s1.L4.decompose")["specs"].count("## ") == 10
    assert {section.name for spec in built.state.specs for section in spec.sections} == {
        name for level in ALL_LEVELS for name in LEVELS[level].sections
    }


@pytest.mark.scenario("LOG-04")
def test_a_misaligned_request_is_rejected_and_nobody_below_is_asked() -> None:
    flow = flow_of()
    verdict = {"verdict": Verdict.MISALIGNED, "violation": "it sells users", "alternatives": ("ask them", "do not")}
    built = drive_levels(flow, World({"s1.L9.decompose": verdict}))

    assert built.state.outcome is Outcome.REJECTED
    assert (built.state.violation, built.state.alternatives) == ("it sells users", ("ask them", "do not"))
    assert built.state.reason == "it sells users"
    assert built.asked == ["s1.L9.decompose"]
    assert built.state.specs == ()
    assert flow.due(built.state) == ()


@pytest.mark.scenario("LOG-05")
def test_after_the_tools_every_level_above_judges_with_their_results_as_evidence() -> None:
    built = drive_levels(flow_of())

    order = [event.turn for event in built.events if isinstance(event, CheckRan | TurnAnswered)][9:]
    assert order == ["s1.L1.check.ruff", "s1.L2.check.pytest", *(f"s1.L{level}.validate" for level in range(3, 10))]
    for level in range(3, 10):
        evidence = built.facts(f"s1.L{level}.validate")["evidence"]
        assert "L1 ruff: `ruff check` exited 0" in evidence
        assert "L2 pytest: `pytest -q` exited 0" in evidence
    for level in range(4, 10):
        handoff = built.facts(f"s1.L{level}.validate")["handoff"]
        assert str(handoff).startswith(f"From L{level - 1} (s1.L{level - 1}.validate):\n")
    assert built.state.outcome is Outcome.PASSED
    assert built.state.standing == {
        **dict.fromkeys((L1, L2), LevelStatus.PROVEN),
        **{level: LevelStatus.PASSED for level in Level if level > L2},
    }


@pytest.mark.scenario("LOG-05")
def test_an_agent_s_word_does_not_help_against_a_tool_that_fails() -> None:
    built = drive_levels(flow_of(), World(exits={"s1.L2.check.pytest": 1}), until=lambda state: state.sweep == 2)

    assert ids_of(built, "validate") == []
    (settled,) = built.state.settled
    assert (settled.cause, settled.level) == (Cause.FAILURE, L2)
    assert "`pytest -q` exits 1" in settled.question
    assert "output of s1.L2.check.pytest" in settled.evidence


@pytest.mark.scenario("LOG-05")
@pytest.mark.parametrize("levels", [(L9, L2), (L9, L4, L2), (L9, L5, L2, L1)])
def test_the_lowest_level_that_judges_is_told_all_the_work_even_where_l3_takes_no_part(
    levels: tuple[Level, ...],
) -> None:
    built = drive_levels(flow_of(*levels))

    lowest = min(level for level in levels if level > L2)
    handoff = built.facts(f"s1.{lowest.name}.validate")["handoff"]
    assert "[L2.feature.v1]" in handoff
    assert "src/feature.py" in handoff


@pytest.mark.scenario("LOG-05")
def test_after_a_person_helped_a_judge_the_tools_results_are_still_evidence() -> None:
    flow, world = flow_of(), World({"s1.L5.validate": ASK_PERSON})
    blocked = drive_levels(flow, world)
    built = drive_levels(flow, world, before=(*blocked.events, answered_by_a_person(blocked.state)))

    assert built.state.outcome is Outcome.PASSED
    for turn in ("s1.L5.validate.v2", "s1.L9.validate"):
        assert "`pytest -q` exited 0" in built.facts(turn)["evidence"]
    assert {L1, L2, L3, L4} <= set(built.state.standing)


@pytest.mark.scenario("LOG-06")
def test_a_failed_validation_halts_the_way_up_and_opens_a_reconciliation_there() -> None:
    flow = flow_of()
    built = drive_levels(flow, World({"s1.L5.validate": fails()}), until=lambda state: state.stage is Stage.DISPUTE)

    assert due_ids(built, flow) == ["s1.q1.L5.position", "s1.q1.L4.position", "s1.q1.L6.position"]
    assert built.state.standing[L5] is LevelStatus.FAILED
    assert ids_of(built, "validate")[-1] == "s1.L5.validate"
    facts = next(action.facts for action in flow.due(built.state) if isinstance(action, Turn))
    assert "it greets nobody (expected: a greeting; observed: silence)" in str(facts["question"])
    assert "s1.L5.validate is done" in str(facts["evidence"])
    assert "`pytest -q` exited 0" in str(facts["evidence"])


@pytest.mark.scenario("LOG-06")
def test_a_fix_goes_to_the_components_named_and_the_whole_way_up_is_gone_again() -> None:
    world = World(
        {
            "s1.L3.decompose": dividing(ONE, TWO),
            "s1.L5.validate": fails(),
            "s1.q1.L5.propose.r1": proposes(L2, rework=("two",)),
        }
    )
    built = drive_levels(flow_of(), world)

    again = [turn for turn in built.asked if turn.startswith("s2.")]
    assert again == ["s2.L2.two.author", "s2.L1.lint", *(f"s2.L{level}.validate" for level in range(3, 10))]
    facts = built.facts("s2.L2.two.author")
    assert "it greets nobody" in facts["decision"]
    assert "do it so" in facts["decision"]
    assert built.turn("s2.L2.two.author").place == Worktree("two", ("work of s1.L1.lint.gather",))
    assert built.state.outcome is Outcome.PASSED


@pytest.mark.scenario("LOG-07")
def test_the_highest_level_that_is_contradicted_settles_it_with_its_neighbours() -> None:
    world = World({"s1.L3.validate": fails("both cannot be", L7, L4)})
    built = drive_levels(flow_of(), world)

    (settled,) = built.state.settled
    assert settled.level is L7
    assert {turn for turn in built.asked if ".q1." in turn} == {
        *(f"s1.q1.{level}.position" for level in ("L6", "L7", "L8")),
        "s1.q1.L7.propose.r1",
        "s1.q1.L6.agree.r1",
        "s1.q1.L8.agree.r1",
        "s1.q1.L9.align.r1",
    }
    versions = {spec.level: spec.version for spec in built.state.specs}
    assert versions == {L9: 1, L8: 1, **dict.fromkeys((L7, L6, L5, L4, L3, L2), 2)}
    assert [turn for turn in built.asked if turn.startswith("s2.")] == [
        *(f"s2.L{level}.decompose" for level in range(7, 2, -1)),
        "s2.L2.one.author",
        "s2.L1.lint",
        *(f"s2.L{level}.validate" for level in range(3, 10)),
    ]
    assert [spec.parent for spec in built.state.specs if spec.id == "L7.v2"] == ["L8.v1"]
    assert [spec.parent for spec in built.state.specs if spec.id == "L6.v2"] == ["L7.v2"]


@pytest.mark.scenario("LOG-07")
def test_neighbours_are_the_nearest_levels_that_take_part() -> None:
    built = drive_levels(flow_of(L9, L6, L2), World({"s1.L6.validate": fails()}))

    assert ids_of(built, "position") == ["s1.q1.L6.position", "s1.q1.L2.position", "s1.q1.L9.position"]
    assert built.state.outcome is Outcome.PASSED


@pytest.mark.scenario("LOG-07")
def test_an_objection_passes_the_pen_and_in_the_end_a_person_is_asked_with_every_proposal_as_an_option() -> None:
    flow = flow_of()
    objects = {"verdict": Verdict.OBJECT, "objection": "not with us"}
    votes = {f"s1.q1.{who}": objects for who in ("L4.agree.r1", "L6.agree.r2", "L5.agree.r3")}
    built = drive_levels(flow, World({"s1.L5.validate": fails(), **votes}))

    assert ids_of(built, "propose") == ["s1.q1.L5.propose.r1", "s1.q1.L4.propose.r2", "s1.q1.L6.propose.r3"]
    assert built.facts("s1.q1.L6.propose.r3")["objections"] == "- L4: not with us\n- L6: not with us"
    assert built.state.outcome is Outcome.BLOCKED
    assert built.state.question is not None
    assert built.state.question.id == "s1.q1"
    assert [option.summary for option in built.state.question.options] == [
        f"proposal of {turn}" for turn in ids_of(built, "propose")
    ]

    answer = answered_by_a_person(built.state, "and be quick", option=2)
    after = flow.apply(flow.apply(built.state, RunEnded(Outcome.BLOCKED)), answer)
    assert (after.settled[-1].by, after.settled[-1].proposal.summary) == (
        "a person",
        "proposal of s1.q1.L4.propose.r2\nand be quick",
    )
    assert [action.id for action in flow.due(after)] == ["s2.L4.decompose"]


@pytest.mark.parametrize(("rules", "asks"), [(RulesVersion.LAST_ROUND_KEPT, False), (CURRENT_RULES, True)])
def test_a_tool_that_cannot_run_is_a_persons_question_since_rules_3(rules: int, asks: bool) -> None:
    built = drive_levels(flow_of(rules=rules), World(exits={"s1.L2.check.pytest": 127}))
    assert (built.state.outcome is Outcome.BLOCKED) is asks
    assert any(turn.startswith("s1.q1.") for turn in built.asked) is not asks


@pytest.mark.parametrize(
    ("rules", "objections", "votes"),
    [(RulesVersion.FIRST, (), {L4: "not with us"}), (CURRENT_RULES, ("L4: not with us", "L6: not with us"), {})],
)
def test_what_was_said_in_the_last_round_is_kept_since_rules_2(
    rules: int, objections: tuple[str, ...], votes: dict[Level, str]
) -> None:
    objects = {"verdict": Verdict.OBJECT, "objection": "not with us"}
    world = World({"s1.L5.validate": fails(), "s1.q1.L4.agree.r1": objects, "s1.q1.L6.agree.r1": objects})
    state = drive_levels(flow_of(max_rounds=1, rules=rules), world).state

    assert state.question is not None
    assert state.question.objections == ("L4: not with us", "L6: not with us")
    assert state.dispute is not None
    assert (state.dispute.objections, state.dispute.votes) == (objections, votes)


@pytest.mark.parametrize(
    ("rules", "votes"), [(RulesVersion.TESTS_OR_A_REASON, {L4: ""}), (CURRENT_RULES, {L4: "", L6: ""})]
)
def test_the_last_vote_is_kept_since_rules_6(rules: int, votes: dict[Level, str]) -> None:
    levels = tuple(level for level in ALL_LEVELS if level is not Level.L9)
    state = drive_levels(flow_of(rules=rules, levels=levels), World({"s1.L5.validate": fails()})).state

    assert state.settled[-1].votes == votes


@pytest.mark.scenario("LOG-07")
def test_whoever_proposes_next_sees_the_proposal_that_was_objected_to() -> None:
    world = World({"s1.L5.validate": fails(), "s1.q1.L4.agree.r1": {"verdict": Verdict.OBJECT, "objection": "no"}})
    built = drive_levels(flow_of(), world)

    assert "proposal of s1.q1.L5.propose.r1" in every_fact(built.turn("s1.q1.L4.propose.r2"))


@pytest.mark.scenario("LOG-07")
def test_a_decision_against_the_purpose_does_not_hold() -> None:
    veto = {"verdict": Verdict.MISALIGNED, "violation": "it spies", "alternatives": ("ask",)}
    built = drive_levels(flow_of(), World({"s1.L5.validate": fails(), "s1.q1.L9.align.r1": veto}))

    assert ids_of(built, "align") == ["s1.q1.L9.align.r1", "s1.q1.L9.align.r2"]
    assert built.facts("s1.q1.L4.propose.r2")["objections"] == "- L9: it spies; instead: ask"
    assert built.state.settled[0].round == 2


@pytest.mark.parametrize("changes", [(L2,), (L2, L1), ()], ids=["code", "code and lint", "nothing"])
def test_a_decision_to_change_code_says_which_components(changes: tuple[Level, ...]) -> None:
    world = World({"s1.L5.validate": fails(), "s1.q1.L5.propose.r1": proposes(*changes)})
    built = drive_levels(flow_of(), world)

    assert "s1.q1.L5.propose.r1.t2" in built.asked
    assert "rework" in built.facts("s1.q1.L5.propose.r1.t2")["errors"]


def test_what_was_decided_to_be_worked_on_again_is_not_forgotten_when_another_conflict_comes_first() -> None:
    world = World(
        {
            "s1.L3.decompose": dividing(ONE, a_component("two", "one")),
            "s1.q1.L2.propose.r1": proposes(L2, rework=("one", "two")),
            "s2.L2.one.author": {"constraint": Constraint("it cannot be")},
            "s2.q2.L3.propose.r1": proposes(L2, rework=("one",)),
        },
        exits={"s1.L2.check.pytest": 1},
    )
    built = drive_levels(flow_of(L3, L2), world)

    assert "s2.L2.two.author" not in built.asked
    assert "s3.L2.two.author" in built.asked
    assert built.state.outcome is Outcome.PASSED


@pytest.mark.scenario("LOG-08")
@pytest.mark.parametrize(
    ("constraint", "consulted"),
    [
        (Constraint("the api has no names"), ["L4", "L3"]),
        (Constraint("the api has no names", touches_journeys=True), ["L5", "L4", "L3"]),
        (Constraint("the api has no names", affects=(L7, L2)), ["L7", "L4", "L3"]),
    ],
)
def test_a_late_constraint_is_for_l3_and_l4_and_for_those_above_whom_it_touches(
    constraint: Constraint, consulted: list[str]
) -> None:
    world = World({"s1.L3.decompose": dividing(ONE, TWO), "s1.L2.one.author": {"constraint": constraint}})
    built = drive_levels(flow_of(), world)

    assert ids_of(built, "position") == [f"s1.q1.{level}.position" for level in consulted]
    assert "the api has no names" in built.facts(f"s1.q1.{consulted[0]}.position")["question"]
    assert "s1.q1.L9.align.r1" in built.asked
    assert not any(isinstance(event, WorkMerged) and event.turn == "s1.merge" for event in built.events)
    top = Level[consulted[0]]
    assert {spec.level for spec in built.state.specs if spec.version == 2} >= {
        level for level in Level if L2 <= level <= top
    }
    assert "s2.L2.one.author" in built.asked
    assert built.state.outcome is Outcome.PASSED


@pytest.mark.scenario("LOG-08")
def test_what_depends_on_a_constrained_component_waits_for_the_decision() -> None:
    world = World(
        {"s1.L2.one.author": {"constraint": Constraint("no")}},
        division=(ONE, a_component("two", "one"), SIX),
    )
    built = drive_levels(flow_of(), world)

    assert ids_of(built, "author") == [
        "s1.L2.one.author",
        "s1.L2.six.author",
        "s2.L2.one.author",
        "s2.L2.six.author",
        "s2.L2.two.author",
    ], "the decision names one and six, and two was not begun"


@pytest.mark.scenario("LOG-10")
@pytest.mark.parametrize(
    "turn", ["s1.L9.decompose", "s1.L2.one.author", "s1.L1.lint", "s1.L3.validate", "s1.q1.L5.position"]
)
def test_a_refused_report_is_asked_for_again_of_the_same_agent_with_the_exact_errors(turn: str) -> None:
    world = World({turn: "hm", f"{turn}.t2": "hm, hm", "s1.L5.validate": fails()})
    built = drive_levels(flow_of(), world)

    assert built.state.outcome is Outcome.PASSED
    for attempt, errors in ((".t2", "- this is no report: hm"), (".t3", "- this is no report: hm, hm")):
        asked = built.errands[f"{turn}{attempt}"]
        assert isinstance(asked, Turn)
        assert (asked.agent, asked.facts["errors"]) == (turn, errors)
    assert f"{turn}.t4" not in built.asked


@pytest.mark.scenario("LOG-10")
@pytest.mark.parametrize(
    "turn", ["s1.L9.decompose", "s1.L2.one.author", "s1.L1.lint", "s1.L3.validate", "s1.q1.L5.position"]
)
def test_three_refused_reports_block_and_a_person_s_answer_goes_on_with_a_new_agent(turn: str) -> None:
    flow = flow_of()
    world = World({turn: "hm", f"{turn}.t2": "hm", f"{turn}.t3": "no", "s1.L5.validate": fails()})
    built = drive_levels(flow, world)

    assert built.state.outcome is Outcome.BLOCKED
    assert built.state.reason.endswith("wrong with the last: this is no report: no")
    assert flow.due(built.state) == ()
    answer = answered_by_a_person(built.state, "say hello")
    going_on = drive_levels(flow, world, before=(*built.events, answer))
    assert going_on.state.outcome is Outcome.PASSED
    fresh = going_on.turns[0]
    assert fresh.agent != turn
    assert "say hello" in str(fresh.facts["decision"])


@pytest.mark.scenario("LOG-10")
def test_what_a_report_recommends_decides_the_way() -> None:
    built = drive_levels(flow_of(), World({"s1.L5.decompose": ASK_PERSON}))

    assert built.state.outcome is Outcome.BLOCKED
    assert built.state.reason == "which of the two?"
    assert built.asked[-1] == "s1.L5.decompose"


@pytest.mark.scenario("LOG-10")
def test_a_level_that_hands_back_is_followed_by_the_level_it_names() -> None:
    built = drive_levels(flow_of(), World({"s1.L5.decompose": hands_back(L7)}))

    assert built.asked[4:6] == ["s1.L5.decompose", "s1.L7.decompose.v2"]
    assert built.facts("s1.L7.decompose.v2")["handoff"].startswith("From L5 (s1.L5.decompose):\n")


@pytest.mark.scenario("LOG-11")
def test_work_that_does_not_hold_up_is_asked_for_again_before_anybody_goes_on() -> None:
    world = World(
        {"s1.L3.decompose": dividing(ONE, a_component("two", "one"))},
        problems={"s1.L2.one.author.gather": ("tests/test_one.py is declared and not there",)},
    )
    built = drive_levels(flow_of(), world)

    assert ids_of(built, "author") == ["s1.L2.one.author", "s1.L2.one.author.t2", "s1.L2.two.author"]
    assert built.facts("s1.L2.one.author.t2")["errors"] == "- tests/test_one.py is declared and not there"
    first = built.errands["s1.L2.one.author.gather"]
    assert isinstance(first, Gather)
    assert (first.declared, first.must_change) == (("src/one.py", "tests/test_one.py"), True)
    assert built.turn("s1.L2.two.author").place == Worktree("two", ("base", "work of s1.L2.one.author.t2.gather"))


@pytest.mark.scenario("LOG-11")
def test_what_a_report_hands_on_is_in_the_next_one_s_context_and_in_the_lineage() -> None:
    said = {
        "work_summary": "names are short",
        "results": (Finding("interviews", "pass", "12 users"),),
        "next": NextAction(why="mind the umlauts"),
    }
    built = drive_levels(flow_of(), World({"s1.L8.decompose": said}))

    text = "names are short\n- interviews: pass (12 users)\nRecommended: mind the umlauts"
    assert built.facts("s1.L7.decompose")["handoff"] == f"From L8 (s1.L8.decompose):\n{text}"
    assert built.facts("s1.L6.decompose")["handoff"] != text
    assert Handoff(L8, L7, Direction.DOWN, TurnId("s1.L8.decompose"), text) in built.state.handoffs


@pytest.mark.scenario("LOG-12")
def test_the_third_time_the_same_handoff_comes_back_both_settle_it_before_anything_goes_on() -> None:
    flow = flow_of()
    turns = ("s1.L3.decompose", "s1.L3.decompose.v2", "s1.L3.decompose.v3")
    built = drive_levels(
        flow, World({turn: hands_back(L4) for turn in turns}), until=lambda state: state.stage is Stage.DISPUTE
    )

    assert built.asked[-6:] == [
        "s1.L4.decompose",
        "s1.L3.decompose",
        "s1.L4.decompose.v2",
        "s1.L3.decompose.v2",
        "s1.L4.decompose.v3",
        "s1.L3.decompose.v3",
    ]
    assert "L4 is unclear" in built.facts("s1.L4.decompose.v2")["handoff"]
    assert built.state.loops == ("L3→L4",) * 3
    assert due_ids(built, flow) == ["s1.q1.L4.position", "s1.q1.L3.position"]
    assert built.state.dispute is not None
    assert built.state.dispute.cause is Cause.LOOP
    assert "L3→L4 3 times" in built.state.dispute.question

    done = drive_levels(flow, before=built.events)
    assert "s2.L4.decompose" in done.asked
    assert done.state.outcome is Outcome.PASSED
    assert "L3→L4 3 times" in done.state.settled[0].question


@pytest.mark.scenario("LOG-12")
def test_hand_backs_of_ever_other_patterns_are_a_loop_too() -> None:
    replies: dict[str, Reply] = {
        "s1.L3.decompose": hands_back(L4),
        "s1.L3.decompose.v2": hands_back(L4),
        "s1.L3.decompose.v3": hands_back(L5),
        "s1.L3.decompose.v4": hands_back(L5),
        "s1.L3.decompose.v5": hands_back(L6),
        "s1.L3.decompose.v6": hands_back(L6),
    }
    built = drive_levels(flow_of(), World(replies), until=lambda state: state.stage is Stage.DISPUTE)

    assert len(built.state.loops) == 6
    assert built.state.dispute is not None
    assert built.state.dispute.participants == (L6, L3)


@pytest.mark.parametrize("to", [L3, L2, L1, L4, None])
def test_a_level_hands_back_only_to_one_above_that_takes_part(to: Level | None) -> None:
    world = World({"s1.L3.decompose": {"next": NextAction(ActionKind.HAND_BACK, to, "no")}})
    built = drive_levels(flow_of(L9, L5, L3, L2), world)

    assert "must be a level above that takes part: L9, L5" in built.facts("s1.L3.decompose.t2")["errors"]
    assert built.state.loops == ()


@pytest.mark.scenario("LOG-13")
def test_independent_components_are_due_at_once_up_to_the_limit_and_dependent_ones_later() -> None:
    six = a_component("six", "one", "two")
    free = [a_component(f"free{number}") for number in range(4)]
    world = World({"s1.L3.decompose": dividing(ONE, TWO, six, *free)})
    flow, at_once = flow_of(max_parallel=3), []
    built = drive_levels(
        flow,
        world,
        watch=lambda _state, due: at_once.append([action.id for action in due if isinstance(action, Turn)]),
    )

    assert max(map(len, at_once)) == 3
    assert ["s1.L2.one.author", "s1.L2.two.author", "s1.L2.free0.author"] in at_once
    events = built.happened
    asked = events.index("s1.L2.six.author")
    for name in ("one", "two"):
        assert events.index(f"s1.L2.{name}.author.gather") < asked
    assert built.turn("s1.L2.six.author").place == Worktree(
        "six", ("base", "work of s1.L2.one.author.gather", "work of s1.L2.two.author.gather")
    )


@pytest.mark.scenario("LOG-13")
def test_all_work_is_collected_and_merged_before_anybody_lints_and_l3_judges_it_as_one() -> None:
    world = World({"s1.L3.decompose": dividing(ONE, TWO, SIX)})
    built = drive_levels(flow_of(), world, order=last)

    merge = built.errands["s1.merge"]
    assert isinstance(merge, Merge)
    assert (merge.onto, merge.contributions) == (
        "base",
        tuple((name, f"work of s1.L2.{name}.author.gather") for name in ("one", "two", "six")),
    )
    kinds = built.happened
    merged = kinds.index("s1.merge")
    assert all(kinds.index(f"s1.L2.{name}.author.gather") < merged for name in ("one", "two", "six"))
    assert kinds.index("s1.L1.lint") > merged
    for turn in ("s1.L1.lint", "s1.L3.validate"):
        assert [line for line in built.facts(turn)["handoff"].splitlines() if line.startswith("[")] == [
            f"[L2.{name}.v1] Function-Author: s1.L2.{name}.author is done" for name in ("one", "two", "six")
        ]


def test_a_turn_in_hand_stays_due_whatever_becomes_ready() -> None:
    # `two` comes first in the order of work as soon as it is ready.
    world = World({"s1.L3.decompose": dividing(ONE, a_component("two", "one"), SIX, a_component("ten"))})
    flow = flow_of(max_parallel=2)

    def two_are_at_work(state: LevelsState) -> bool:
        return "one" in state.gathered

    built = drive_levels(flow, world, until=two_are_at_work)
    assert due_ids(built, flow)[0] == "s1.L2.six.author"


SAME_NAME = {"provides": ("greet",)}
CLASHING: dict[str, World] = {
    "declared name": World({f"s1.L2.{name}.author": SAME_NAME for name in ("one", "two")}),
    "same path": World(
        touched={f"s1.L2.{name}.author.gather": (TouchedFile("src/greet.py", name),) for name in ("one", "two")}
    ),
    "same definition": World(
        touched={
            f"s1.L2.{name}.author.gather": (TouchedFile(f"src/{name}.py", name, ("greet",)),) for name in ("one", "two")
        }
    ),
    "same text": World(
        touched={f"s1.L2.{name}.author.gather": (TouchedFile(f"src/{name}.js", "blob"),) for name in ("one", "two")}
    ),
    "merge": World(clashes={"s1.merge": (ContentConflict("merge", ("one", "two"), "README.md"),)}),
}


@pytest.mark.scenario("LOG-14")
@pytest.mark.parametrize("kind", CLASHING)
def test_conflicting_work_is_not_merged_but_settled_and_validated_anew(kind: str) -> None:
    world = CLASHING[kind]
    world = replace(world, replies={**world.replies, "s1.L3.decompose": dividing(ONE, TWO, SIX)})
    flow = flow_of()
    built = drive_levels(flow, world, until=lambda state: state.stage is Stage.DISPUTE)

    assert built.state.dispute is not None
    assert (built.state.dispute.cause, built.state.dispute.level) == (Cause.CONFLICT, L3)
    assert built.state.dispute.question.startswith(f"components conflict: {kind}: ")
    assert built.state.dispute.parties == ("one", "two")
    assert built.state.head == "base"
    assert due_ids(built, flow) == [f"s1.q1.{level}.position" for level in ("L3", "L2", "L4")]
    assert "s1.L1.lint" not in built.asked
    assert ids_of(built, "validate") == []

    done = drive_levels(
        flow,
        replace(world, replies={**world.replies, "s1.q1.L3.propose.r1": proposes(L2, rework=("one",))}),
        before=built.events,
    )
    assert done.state.outcome is Outcome.PASSED
    again = ids_of(done, "author")[3:]
    assert again == ["s2.L2.one.author", "s2.L2.two.author"], "both parties work again, whoever else does not"
    assert done.state.head == "work of s2.L1.lint.gather"
    assert ids_of(done, "validate") == [f"s2.L{level}.validate" for level in range(3, 10)]


@pytest.mark.scenario("LOG-14")
def test_conflicting_work_is_no_ground_to_build_on() -> None:
    world = CLASHING["same definition"]
    world = replace(world, division=(ONE, TWO, a_component("six", "one", "two")))
    built = drive_levels(flow_of(), world)

    assert "s1.L2.six.author" not in built.asked
    assert "s2.L2.six.author" in built.asked
    assert built.state.outcome is Outcome.PASSED


@pytest.mark.scenario("LOG-14")
def test_work_that_was_built_on_an_older_version_of_another_s_work_is_compared_with_the_new_one() -> None:
    """`two` saw what `one` was; it did not see what `one` became, which defines what `two` defines."""
    world = World(
        {
            "s1.L3.decompose": dividing(ONE, a_component("two", "one"), SIX),
            "s1.L2.one.author": SAME_NAME,
            "s1.L2.six.author": SAME_NAME,
            "s1.q1.L3.propose.r1": proposes(L2, rework=("one", "six")),
        },
        touched={"s2.L2.one.author.gather": (TouchedFile("src/one.py", "new", ("two_of",)),)},
    )
    built = drive_levels(flow_of(), world, until=lambda state: state.stage is Stage.MERGE and state.sweep == 2)

    redone = "s2.L2.two.author" in built.asked
    assert redone or built.state.stage is Stage.DISPUTE, "one and two both define two_of, and both are merged"


@pytest.mark.scenario("LOG-14")
def test_the_work_of_a_component_that_was_given_up_is_not_carried_along_by_what_was_built_on_it() -> None:
    """`two` was built on `one`, which clashes with `six` and is given up for that: two starts over without it."""
    world = World(
        {
            "s1.L3.decompose": dividing(ONE, a_component("two", "one"), SIX),
            "s1.L2.one.author": SAME_NAME,
            "s1.L2.six.author": SAME_NAME,
            "s1.q1.L3.propose.r1": proposes(L3, rework=("six",)),
            "s2.L3.decompose": dividing(TWO, SIX),
        }
    )
    built = drive_levels(flow_of(), world)

    assert "s1.L2.two.author" in built.asked
    assert built.turn("s2.L2.two.author").place == Worktree("two", ("base",))


@pytest.mark.parametrize(
    "levels",
    [(L2,), (L2, L1), (L3, L2), (L9, L2), (L9, L8, L2, L1), (L4, L3, L2), (L9, L3, L2, L1)],
    ids=lambda levels: "+".join(level.name for level in levels),
)
def test_any_levels_with_authors_among_them_make_a_build_and_settle_a_failure(levels: tuple[Level, ...]) -> None:
    flow = flow_of(*levels, telos=())
    built = drive_levels(flow, World(exits={"s1.L2.check.pytest": 1}))

    assert built.state.outcome is Outcome.PASSED
    assert built.state.sweep == 2
    assert built.state.skipped == tuple(level for level in ALL_LEVELS if level not in levels)
    assert all(turn.facts["telos"] == "" for turn in built.turns)


def test_without_tools_a_pass_says_what_nothing_proves() -> None:
    built = drive_levels(flow_of(tools=()))

    assert built.state.outcome is Outcome.PASSED
    assert "nothing proves L1 and L2" in built.state.reason


def test_a_stuck_author_waits_for_those_at_work_and_a_person_s_answer_asks_it_alone_again() -> None:
    flow = flow_of(max_parallel=2)
    world = World(
        {
            "s1.L3.decompose": dividing(ONE, TWO, a_component("six", "one")),
            "s1.L2.one.author": ASK_PERSON,
            "s1.L2.two.author": {"constraint": Constraint("no")},
        }
    )
    blocked = drive_levels(flow, world)

    assert blocked.state.outcome is Outcome.BLOCKED
    assert blocked.state.gathered == {"two"}
    on = drive_levels(flow, world, before=(*blocked.events, answered_by_a_person(blocked.state, "the first")))
    assert ids_of(on, "author")[:4] == [
        "s1.L2.one.author",
        "s1.L2.two.author",
        "s1.L2.one.author.v2",
        "s1.L2.six.author",
    ]
    assert "A person answered: the first" in on.facts("s1.L2.one.author.v2")["decision"]
    assert [settled.cause for settled in on.state.settled] == [Cause.CONSTRAINT]
    assert on.state.outcome is Outcome.PASSED


@pytest.mark.parametrize("order", [lambda _waiting: 0, last])
def test_a_participant_without_a_usable_position_blocks_once_the_others_have_spoken(order: Any) -> None:
    useless = {f"s1.q1.L5.position{attempt}": "hm" for attempt in ("", ".t2", ".t3")}
    flow = flow_of()
    built = drive_levels(flow, World({"s1.L5.validate": fails(), **useless}), order=order)

    assert built.state.outcome is Outcome.BLOCKED
    assert built.state.dispute is not None
    assert set(built.state.dispute.positions) == {L4, L6}
    after = flow.apply(built.state, answered_by_a_person(built.state, "make it short"))
    assert [action.id for action in flow.due(after)] == ["s2.L5.decompose"]


def test_a_revised_division_builds_what_is_new_or_other_and_forgets_what_is_gone() -> None:
    world = World(
        {
            "s1.L3.decompose": dividing(ONE, TWO, SIX),
            "s1.L3.validate": fails(),
            "s1.q1.L3.propose.r1": proposes(L3, rework=("two",)),
            "s2.L3.decompose": dividing(ONE, replace(SIX, purpose="other"), a_component("new", "six")),
        }
    )
    built = drive_levels(flow_of(), world)

    assert ids_of(built, "author")[3:] == ["s2.L2.six.author", "s2.L2.new.author"]
    assert set(built.state.contributions) == {"one", "six", "new"}
    assert built.state.outcome is Outcome.PASSED


def test_a_component_may_not_take_the_name_of_the_place_where_all_is_merged() -> None:
    built = drive_levels(flow_of(), World({"s1.L3.decompose": dividing(a_component("main"))}))

    assert "components[0].name = 'main'" in built.facts("s1.L3.decompose.t2")["errors"]


def test_too_many_reconciliations_fail_with_what_is_still_in_question() -> None:
    world = World(exits={f"s{sweep}.L2.check.pytest": 1 for sweep in range(1, 9)})
    built = drive_levels(flow_of(max_reconciliations=2), world)

    assert built.state.outcome is Outcome.FAILED
    assert built.state.reason == "after 2 reconciliations: L2 fails: `pytest -q` exits 1"
    assert built.state.sweep == 3
    assert len(built.asked) < turns_at_most(a_levels_plan(max_reconciliations=2))


def test_a_turn_that_failed_stalls_the_build_until_it_is_resumed() -> None:
    flow = flow_of()
    world = World({"s1.L3.decompose": dividing(ONE, TWO)})
    building = drive_levels(flow, world, until=lambda state: len(state.pending_turns) == 2)
    failed = flow.apply(building.state, TurnFailed(TurnId("s1.L2.one.author"), FailureKind.LIMIT, "limit reached"))

    assert (failed.stalled, failed.trouble) == ("limit reached", FailureKind.LIMIT)
    assert flow.due(failed) == ()
    heard = flow.apply(failed, TurnAnswered(TurnId("s1.L2.two.author"), "hm"))
    assert [ask.turn for ask in heard.pending_turns] == ["s1.L2.one.author", "s1.L2.two.author.t2"]
    resumed = flow.apply(heard, RunResumed(flow.plan))
    assert [action.id for action in flow.due(resumed)] == ["s1.L2.one.author", "s1.L2.two.author.t2"]


def test_work_merged_by_nobody_who_was_asked_is_not_the_head() -> None:
    flow = flow_of()
    merging = drive_levels(flow, until=lambda state: state.stage is Stage.MERGE).state

    assert flow.apply(merging, WorkMerged(TurnId("s9.merge"), "elsewhere")) == merging


def test_a_tool_that_is_gone_at_a_resume_is_not_waited_for() -> None:
    flow = flow_of()
    checking = drive_levels(flow, until=lambda state: state.stage is Stage.UP and state.level is L2)
    (check,) = flow.due(checking.state)
    assert isinstance(check, Check)

    resumed = RunResumed(replace(flow.plan, tools=flow.plan.tools[:1]))
    built = drive_levels(flow, before=(*checking.events, resumed))

    assert built.state.outcome is Outcome.PASSED


def test_what_a_resume_may_not_change_stays() -> None:
    flow = flow_of(L9, L3, L2)
    other = replace(flow.plan, feature="another", base="elsewhere", levels=(L2,), max_parallel=7)
    state = flow.apply(flow.start(), RunResumed(other))

    assert (state.plan.feature, state.plan.base, state.levels) == ("greet by name", "base", (L9, L3, L2))
    assert state.plan.max_parallel == 7


@pytest.mark.parametrize("event", [RunResumed(a_levels_plan()), RunForked(RunId("r0"), 1, a_levels_plan())])
def test_a_build_keeps_the_rules_it_began_with(event: Event) -> None:
    flow = flow_of(rules=RulesVersion.FIRST)

    assert flow.apply(flow.start(), event).plan.rules == RulesVersion.FIRST


def test_an_author_that_works_again_is_told_its_own_spec() -> None:
    built = drive_levels(flow_of(), World({"s1.L5.validate": fails()}))

    assert built.facts("s2.L2.one.author")["own_spec"].startswith("[L2.one.v1]")


def test_what_a_sweep_found_is_not_told_of_the_next_one() -> None:
    built = drive_levels(flow_of(), World({"s1.L5.validate": fails()}), until=lambda state: state.sweep == 2)

    assert (dict(built.state.standing), built.state.proofs) == ({}, ())


def test_touched_files_are_named_in_what_the_judges_are_told() -> None:
    assert touched_by("one")[0].path in drive_levels(flow_of()).facts("s1.L3.validate")["handoff"]


@pytest.mark.scenario("LOG-15")
def test_the_state_file_has_the_standing_of_every_level_when_a_build_is_cut_off() -> None:
    at_l5 = drive_levels(flow_of(), until=lambda state: state.stage is Stage.UP and state.level is L5).state
    shown = project(at_l5, Ledger(), RunId("r"), 1, 0.0)

    standing = {row["level"]: row["status"] for row in shown["validation_status"]}
    assert standing == {
        **dict.fromkeys(("L1", "L2"), "proven"),
        **dict.fromkeys(("L3", "L4"), "passed"),
        **dict.fromkeys(("L5", "L6", "L7", "L8", "L9"), "pending"),
    }
    assert [agent["turn"] for agent in shown["active_agents"]] == ["s1.L5.validate"]
    assert ("L4", "L5") in [(row["from_level"], row["to_level"]) for row in shown["pending_handoffs"]]
    assert [spec["id"] for spec in shown["specification_stack"]] == [
        *(f"L{n}.v1" for n in range(9, 2, -1)),
        "L2.one.v1",
    ]


# --- a component without tests

UNTESTED = {"s1.L2.one.author": {"tests": ()}}
AUTHORS = (Level.L3, Level.L2)


def test_an_author_without_tests_and_without_a_reason_is_asked_again() -> None:
    built = drive_levels(flow_of(*AUTHORS), World(UNTESTED))
    assert ids_of(built, "author") == ["s1.L2.one.author", "s1.L2.one.author.t2"]
    assert "why_no_tests" in built.facts("s1.L2.one.author.t2")["errors"]
    assert built.state.outcome is Outcome.PASSED


@pytest.mark.parametrize(
    "reply",
    [
        {"tests": (), "why_no_tests": "It only moves a constant."},
        {"tests": (), "files": (), "constraint": Constraint("there is no such library")},
    ],
    ids=["a reason", "a constraint"],
)
def test_a_reason_or_a_constraint_stands_for_tests(reply: dict[str, Any]) -> None:
    built = drive_levels(flow_of(*AUTHORS), World({"s1.L2.one.author": reply}), until=lambda s: bool(s.gathered))
    assert ids_of(built, "author") == ["s1.L2.one.author"]


def test_a_word_is_no_reason() -> None:
    world = World({"s1.L2.one.author": {"tests": (), "why_no_tests": "none"}})
    assert "s1.L2.one.author.t2" in drive_levels(flow_of(*AUTHORS), world).asked


def test_a_component_that_is_worked_on_again_keeps_its_tests() -> None:
    world = World({"s1.L3.validate": fails(), "s2.L2.one.author": {"tests": ()}})
    built = drive_levels(flow_of(*AUTHORS), world)
    assert "s2.L2.one.author" in built.asked
    assert "s2.L2.one.author.t2" not in built.asked


def test_a_build_of_before_that_rule_accepts_components_without_tests() -> None:
    flow = flow_of(*AUTHORS, rules=RulesVersion.QUOTED_VERDICTS_DO_NOT_COUNT)
    assert ids_of(drive_levels(flow, World(UNTESTED)), "author") == ["s1.L2.one.author"]


def test_who_judges_the_work_is_told_the_reason_for_no_tests() -> None:
    world = World({"s1.L2.one.author": {"tests": (), "why_no_tests": "It only moves a constant."}})
    built = drive_levels(flow_of(*AUTHORS), world)
    assert "Tests: none: It only moves a constant." in every_fact(built.turn("s1.L3.validate"))
