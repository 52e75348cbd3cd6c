"""The continuity report: what a run says of itself across its sessions, in three forms."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.app.runs import load_run
from logos.cli.output.report import NARROWEST, as_markdown, as_page, scale_of
from logos.cli.report import Format, rendered
from logos.domain.events import (
    Event,
    Noted,
    RunAbandoned,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
    Topic,
    TurnAnswered,
    TurnAsked,
    TurnFailed,
    TurnSent,
)
from logos.domain.levels import LEVELS, Level
from logos.domain.plans import CyclePlan, OnExhausted, ReviewRules
from logos.domain.specs import TouchedFile
from logos.domain.turns import AgentName, FailureKind, Outcome, RunId, TurnId
from logos.domain.usage import Usage
from logos.errors import UsageError
from logos.flows.cycle.flow import Cycle, CycleState
from logos.testing import APPROVED, FAIL, PASS, REVISE, MemoryLog
from logos.views.continuity.entries import Entry
from logos.views.continuity.report import ContinuityReport, continuity, report_document
from logos.views.sessions import session_since
from logos.views.status import RunStatus
from tests.builders import a_quick_plan, drive_purely, examples
from tests.levels_builders import a_levels_plan, answered_by_a_person
from tests.unit.test_cli_levels import FAILS, Talk, built, divided

RUN = RunId("k3report")
EVENINGS = ("2026-11-14 21:03", "2026-11-15 09:12", "2026-11-18 20:00")
MINUTE = 60.0
HOSTILE = '<script>alert(1)</script> & "quoted" \x1b[31mred\x1b[0m \u202egnp.exe\u2069 | `tick [link](http://evil.test)'
SECRET = "sk-abcdefghijklmnopqrstuvwxyz"


# --- runs that were driven on several days


def moment(day: str) -> float:
    return datetime.fromisoformat(day).timestamp()


def a_log(*sessions: Sequence[Event], began: Sequence[str] = EVENINGS, log: Any = None) -> Any:
    """Each session begins when it says, and brings an event a minute."""
    clock = [0.0]
    log = log or MemoryLog(lambda: clock[0])
    seq = 0
    for session, day in zip(sessions, began, strict=False):
        for number, event in enumerate(session):
            clock[0] = moment(day) + number * MINUTE
            log.append(RUN, event, seq)
            seq += 1
    return log


def told(*sessions: Sequence[Event], began: Sequence[str] = EVENINGS, **how: Any) -> ContinuityReport:
    return report_of(a_log(*sessions, began=began), **how)


def report_of(
    log: Any, run: RunId = RUN, since: str = "last", driver: int | None = None, **how: Any
) -> ContinuityReport:
    story = load_run(log, run)
    chosen = session_since(story.sessions, since, run)
    return continuity(RunStatus(Path("/repo"), story, driver), chosen.number, "logos run --resume", **how)


def cut_after(events: Sequence[Event], turn: str, plan: Any, left: str = "stopped by SIGINT") -> list[list[Event]]:
    """Two sessions: the driver leaves when a turn is answered, and another takes over."""
    place = next(n for n, event in enumerate(events, 1) if isinstance(event, TurnAnswered) and event.turn == turn)
    return [[*events[:place], Noted(Topic.INTERRUPTED, left)], [RunResumed(plan), *events[place:]]]


def a_cycle(
    plan: CyclePlan,
    check: int = 0,
    until: Callable[[CycleState], bool] = lambda _state: False,
    **said: Sequence[str],
) -> list[Event]:
    """The events of a cycle in which each answer name says one thing after the other, the last again and again."""
    script = {
        "analyst": ["what to do"],
        "analyst_review": [APPROVED],
        "programmer": ["what was done"],
        "programmer_review": [APPROVED],
        "tester": [PASS],
        **said,
    }
    asked: dict[str, int] = {}

    def answer(_turn: TurnId, name: str) -> str:
        asked[name] = asked.get(name, 0) + 1
        return script[name][min(asked[name], len(script[name])) - 1]

    done = drive_purely(Cycle(plan), answer, lambda _check: check, until=until)
    ended = [RunEnded(done.state.outcome)] if done.state.outcome else []
    return [RunStarted(plan), *done.events, *ended]


def a_shop(**replies: Any) -> Talk:
    parts = divided(
        {"name": "price"}, {"name": "cart"}, {"name": "tax", "depends_on": ["price"], "purpose": "what the state gets"}
    )
    return Talk(replies={"s1.L3.decompose": parts, **{name.replace("__", "."): own for name, own in replies.items()}})


def lines(entries: Iterable[Entry]) -> list[str]:
    return [" ".join(part for part in (entry.part, entry.what, entry.how) if part) for entry in entries]


QUICK = a_quick_plan(test_command="pytest -q", verify_pass=True)


# --- the cycle


@pytest.mark.scenario("LOG-16")
def test_completed_phases_are_told_round_by_round_with_their_sessions() -> None:
    events = a_cycle(QUICK, tester=[FAIL, PASS])
    done = told(*cut_after(events, "r1.tester.c1", QUICK))
    assert [entry.session for entry in done.sections.completed] == [1, 1, 1, 2, 2, 2]
    assert lines(done.sections.completed) == [
        "round 1 analyst's work approved by the peer analyst in cycle 1",
        "round 1 programmer's work approved by the peer programmer in cycle 1",
        "round 1 test FAIL",
        "round 2 programmer's work approved by the peer programmer in cycle 1",
        "round 2 test PASS",
        "round 2 `pytest -q`, run by Logos exit 0",
    ]
    assert done.sections.pending == ()
    assert (done.status.word, done.view.answered) == ("PASSED", 8)


@pytest.mark.scenario("LOG-16")
def test_reviews_and_tests_that_a_round_still_needs_are_pending() -> None:
    events = a_cycle(QUICK, until=lambda state: state.role == "peer_programmer")
    assert lines(told(events).sections.pending) == [
        "round 1 review of the programmer's work by the peer programmer due now, cycle 1 of at most 3",
        "round 1 test by the tester to come",
        "round 1 `pytest -q`, run by Logos after the tester's PASS",
    ]
    checking = a_cycle(QUICK, until=lambda state: state.checking)
    assert lines(told(checking).sections.pending) == ["round 1 `pytest -q`, run by Logos due now"]


def test_what_was_never_reached_is_not_said_to_come() -> None:
    rules = ReviewRules(max_cycles=1, on_exhausted=OnExhausted.BLOCK)
    plan = a_quick_plan(review=rules)
    done = told(a_cycle(plan, analyst_review=[REVISE]))
    assert {entry.how for entry in done.sections.pending} == {"not run"}
    (blocked,) = done.sections.blocked
    assert "did not approve in 1 review cycles" in blocked.how
    assert "empty name" in blocked.about


@pytest.mark.scenario("LOG-16")
def test_what_keeps_a_run_from_going_on_is_blocked_and_named() -> None:
    begun = [RunStarted(QUICK), TurnAsked(TurnId("r1.analyst.c1"), AgentName("analyst"), "do it")]
    turn = TurnId("r1.analyst.c1")
    limit = told([*begun, TurnFailed(turn, FailureKind.LIMIT, "usage limit reached, resets 3 pm")])
    assert lines(limit.sections.blocked) == ["stopped a provider's limit usage limit reached, resets 3 pm"]
    pending_turns = told([*begun, TurnSent(turn), Noted(Topic.PERMISSION_ASKED, "may I?", turn)], driver=1)
    assert lines(pending_turns.sections.blocked) == ["permission analyst waits for you: may I?"]
    assert pending_turns.status.word == "WAITING FOR YOU"
    budget = told([*begun, Noted(Topic.INTERRUPTED, "limits.max_tokens reached: 10 of 5")])
    assert lines(budget.sections.blocked) == ["budget this run's budget limits.max_tokens reached: 10 of 5"]
    # A driver that took over tries again.
    again = told([*begun, TurnFailed(turn, FailureKind.LIMIT, "usage limit reached")], [RunResumed(QUICK)])
    assert again.sections.blocked == ()


def test_going_on_without_approval_and_a_pass_that_is_not_believed_are_decisions() -> None:
    plan = replace(QUICK, review=replace(QUICK.review, max_cycles=1), max_rounds=1)
    done = told(a_cycle(plan, check=1, programmer_review=[REVISE]))
    assert lines(done.sections.decisions) == [
        "review round 1 the run goes on without approval of the programmer's work",
        "verdict round 1 the tester's PASS is not believed: `pytest -q` exits 1",
    ]
    assert "empty name" in done.sections.decisions[0].about
    assert "not approved" in lines(done.sections.completed)[1]


def test_a_tester_without_a_verdict_has_completed_nothing_yet() -> None:
    events = a_cycle(a_quick_plan(max_rounds=1), tester=["well …", FAIL])
    assert [line for line in lines(told(events).sections.completed) if "test" in line] == ["round 1 test FAIL"]


def test_a_run_that_was_given_up_says_who_decided_so() -> None:
    done = told([*a_cycle(QUICK, until=lambda state: state.role == "tester"), RunAbandoned("the plan was wrong")])
    assert lines(done.sections.decisions) == ["person given up the plan was wrong"]
    assert done.status.word == "ABANDONED"


# --- sessions


@pytest.mark.scenario("LOG-16")
def test_what_changed_is_what_happened_since_the_beginning_of_a_session() -> None:
    sessions = cut_after(a_cycle(QUICK, tester=[FAIL, PASS]), "r1.tester.c1", QUICK)
    last = told(*sessions).changed
    assert [act.turn for act in last.turns] == ["r2.programmer.c1", "r2.peer_programmer.c1", "r2.tester.c1"]
    assert lines(last.sections.checks) == ["check r2.verify `pytest -q` exits 0"]
    assert lines(last.sections.outcomes) == ["outcome PASSED the tester reported PASS and `pytest -q` exited 0"]
    assert len(last.sections.completed) == 3
    assert len(told(*sessions, since="1").changed.turns) == 8
    # The rest is cumulative.
    assert len(told(*sessions).sections.completed) == 6


@pytest.mark.scenario("LOG-16")
def test_sessions_are_named_by_their_dates() -> None:
    done = told(*cut_after(a_cycle(QUICK, tester=[FAIL, PASS]), "r1.tester.c1", QUICK))
    assert [session.name for session in done.sessions] == [
        "session 1 (2026-11-14 21:03)",
        "session 2 (2026-11-15 09:12)",
    ]
    assert [session.end for session in done.sessions] == ["stopped by SIGINT", "PASSED"]
    assert done.days == 2
    text = as_markdown(done)
    assert "## What changed since session 2 (2026-11-15 09:12)" in text
    assert "(`r1.tester.c1`, session 1, 2026-11-14 21:18)" in text


def test_since_takes_a_number_a_date_or_the_last() -> None:
    def since(wanted: str) -> int:
        return report_of(log, since=wanted).since.number

    log = a_log([RunStarted(QUICK)], [RunResumed(QUICK)], [RunResumed(QUICK)])
    assert [since(wanted) for wanted in ("1", "2", "3", "last")] == [1, 2, 3, 3]
    assert [since(day) for day in ("2026-11-01", "2026-11-14", "2026-11-15", "2026-11-16")] == [1, 1, 2, 3]


@pytest.mark.parametrize("wanted", ["0", "4", "-1", "yesterday", "", "2026-11-19", "2026-13-01", "1" * 5000, "١"])
def test_a_session_that_is_not_there_is_refused_with_those_that_are(wanted: str) -> None:
    log = a_log([RunStarted(QUICK)], [RunResumed(QUICK)], [RunResumed(QUICK)])
    with pytest.raises(UsageError) as refused:
        report_of(log, since=wanted)
    allowed = "run k3report has 3 sessions: 1 (2026-11-14 21:03), 2 (2026-11-15 09:12), 3 (2026-11-18 20:00)"
    assert allowed in str(refused.value)
    assert "a number, a date such as 2026-11-18, or last" in str(refused.value)


def test_time_is_what_somebody_drove_and_not_the_nights_between() -> None:
    turn, agent = TurnId("r1.analyst.c1"), AgentName("analyst")
    asked = [RunStarted(QUICK), TurnAsked(turn, agent, "p" * 100), TurnSent(turn)]
    done = told(asked, [RunResumed(QUICK), TurnAnswered(turn, "what to do")])
    assert done.view.driven == 3 * MINUTE
    (effort,) = done.efforts
    assert (effort.turns, effort.seconds, effort.sent, effort.received) == (1, 2 * MINUTE, 100, 10)


def test_a_persons_answer_days_later_does_not_make_a_session_longer() -> None:
    done = told([*a_cycle(QUICK, until=lambda state: state.role == "peer_analyst")])
    longer = a_log([*a_cycle(QUICK, until=lambda state: state.role == "peer_analyst")])
    longer._clock = lambda: moment("2026-12-24 18:00")
    longer.append(RUN, RunAbandoned("no time"), 4)
    assert report_of(longer).view.driven == done.view.driven == 3 * MINUTE


def test_a_clock_that_was_set_back_gives_no_negative_times_and_keeps_the_order() -> None:
    sessions = cut_after(a_cycle(QUICK, tester=[FAIL, PASS]), "r1.tester.c1", QUICK)
    done = told(*sessions, began=("2026-11-15 09:12", "2026-11-14 21:03"))
    assert [session.number for session in done.sessions] == [1, 2]
    assert all(session.seconds >= 0 for session in done.sessions)
    assert all(act.seconds >= 0 for act in done.spans)
    assert done.changed.turns[0].turn == "r2.programmer.c1"
    bars = drawn_bars(done)
    assert all(x >= 0 and x + width <= 100.001 for x, width in bars)
    assert since_of(done, "2026-11-15") == 1


def since_of(done: ContinuityReport, wanted: str) -> int:
    from logos.views.sessions import Session

    sessions = [Session(own.number, own.first, own.last, own.began, own.ended) for own in done.sessions]
    return session_since(sessions, wanted, done.run).number


def test_a_clock_that_was_set_back_within_a_turn_gives_no_negative_time() -> None:
    log = MemoryLog(iter([100.0, 200.0, 50.0, 40.0, 300.0]).__next__)
    turn = TurnId("r1.analyst.c1")
    for seq, event in enumerate(
        [RunStarted(QUICK), TurnAsked(turn, AgentName("analyst"), "p"), TurnSent(turn), TurnAnswered(turn, "text")]
    ):
        log.append(RUN, event, seq)
    done = report_of(log)
    assert [act.seconds for act in done.spans] == [0.0]
    assert 0 <= drawn_bars(done)[0][0] <= 100


def test_settings_that_a_new_driver_brought_along_are_named_with_their_values() -> None:
    agents = tuple(
        replace(agent, provider="claude_code") if agent.name == "tester" else agent for agent in QUICK.agents
    )
    rules = replace(QUICK.review, max_cycles=5)
    new = replace(QUICK, review=rules, max_rounds=2, agents=agents, test_command="", prompt="p" * 200)
    done = told([RunStarted(QUICK)], [RunResumed(new)], [RunResumed(new)], since="1")
    assert lines(done.changed.sections.settings) == [
        "setting prompt 75 characters → 200 characters",
        "setting agents.tester.provider codex → claude_code",
        "setting max_rounds 8 → 2",
        "setting test_command pytest -q → none",
        "setting review.max_cycles 3 → 5",
    ]
    assert {entry.session for entry in done.sections.settings} == {2}


def test_settings_that_a_build_keeps_from_its_beginning_did_not_change() -> None:
    plan = a_levels_plan()
    other = replace(plan, feature="something else", base="another commit", max_parallel=9, tools=plan.tools[:1])
    done = told([RunStarted(plan)], [RunResumed(other)])
    assert lines(done.sections.settings) == ["setting tools.pytest L2, pytest -q → none", "setting max_parallel 4 → 9"]


def test_files_that_changed_are_shown_when_they_are_known() -> None:
    done = told([RunStarted(QUICK)], files=(" src/cart.py | 12 +++---", " 1 file changed"))
    assert "src/cart.py | 12" in as_markdown(done)
    assert "src/cart.py | 12" in as_page(done)
    assert report_document(done)["changed"]["files"][1] == " 1 file changed"
    assert "### Files" not in as_markdown(told([RunStarted(QUICK)]))


# --- forks


def a_fork() -> ContinuityReport:
    """The first round of one run, and from there on another."""
    events = a_cycle(QUICK, tester=[FAIL, PASS])
    parent, clock = a_log(*cut_after(events, "r1.tester.c1", QUICK)), [moment(EVENINGS[2])]
    place = next(n for n, event in enumerate(events) if getattr(event, "turn", "") == "r2.programmer.c1")
    child, log = RunId("k3child0"), MemoryLog(lambda: clock[0])
    # In hand when it was forked: another agent is asked.
    history = [*parent.read(RUN)][: place + 4]
    seq = log.fork(child, history, RunForked(RUN, len(history), QUICK)).seq
    for event in (RunResumed(QUICK), *events[place : place + 3]):
        clock[0] += MINUTE
        log.append(child, event, seq)
        seq += 1
    return report_of(log, child)


@pytest.mark.scenario("LOG-16")
def test_what_a_fork_inherited_is_marked_and_not_counted() -> None:
    done = a_fork()
    assert [session.inherited for session in done.sessions] == [True, True, False]
    assert (done.view.answered, done.view.inherited) == (1, 5)
    assert [effort.name for effort in done.efforts] == ["programmer"]
    assert (done.total.turns, done.total.sent) == (1, done.view.characters)
    assert [act.view.inherited for act in done.spans] == [True] * 5 + [False]
    assert done.view.driven == 3 * MINUTE
    assert [entry.inherited for entry in done.sections.completed] == [True] * 3
    assert [act.turn for act in done.changed.turns] == ["r2.programmer.c1"]
    assert lines(done.sections.decisions) == ["person fork forked from k3report@20"]


def test_a_turn_that_was_in_hand_when_a_run_was_forked_begins_anew() -> None:
    act = a_fork().spans[-1]
    assert (act.turn, act.begun[0], act.over[0], act.seconds) == ("r2.programmer.c1", 3, 3, 2 * MINUTE)


def test_a_fork_that_nobody_drove_yet_was_not_killed() -> None:
    log, child = a_log([RunStarted(QUICK)]), RunId("k3child0")
    log.fork(child, [*log.read(RUN)], RunForked(RUN, 1, QUICK))
    assert [session.end for session in report_of(log, child).sessions] == ["killed", "not driven"]


def test_every_form_says_what_is_inherited() -> None:
    done = a_fork()
    assert "forked from k3report@20; 5 turns inherited, not counted here" in as_markdown(done)
    assert "5 turns inherited, not counted here" in as_page(done)
    assert 'class="session inherited"' in as_page(done)
    document = report_document(done)
    forked = [document[key] for key in ("forked_from", "forked_at", "forked_by", "inherited_turns")]
    assert forked == ["k3report", 20, "fork", 5]


# --- builds


@pytest.mark.scenario("LOG-16")
def test_a_build_tells_specs_components_and_levels_with_their_sessions() -> None:
    plan = a_levels_plan()
    done = told(*cut_after(built(plan, a_shop()), "s1.L3.decompose", plan))
    by_part = {part: [entry for entry in done.sections.completed if entry.part == part] for part in PARTS}
    assert [entry.what.split()[0] for entry in by_part["spec"]] == ["L9", "L8", "L7", "L6", "L5", "L4", "L3"]
    assert {entry.session for entry in by_part["spec"]} == {1}
    assert (
        lines(by_part["component"])[0]
        == "component price merged; 1 file, no tests: This is an example, which does nothing."
    )
    assert [entry.what.split()[0] for entry in by_part["validation"]] == [f"L{n}" for n in range(1, 10)]
    assert lines(by_part["validation"])[0] == "validation L1 Syntax-Linter proven by `ruff check`, run by Logos"
    assert {entry.session for part in ("component", "validation") for entry in by_part[part]} == {2}
    assert (done.sections.pending, done.sections.blocked, done.status.word) == ((), (), "PASSED")
    assert lines(done.changed.sections.merges) == ["merge s1.merge price, cart and tax merged, commit all of"]


PARTS = ("spec", "component", "validation")


@pytest.mark.scenario("LOG-16")
def test_components_that_wait_for_others_are_blocked_dependencies() -> None:
    events = built(a_levels_plan(), a_shop(), until=lambda state: "cart" in state.gathered)
    done = told(events)
    assert lines(done.sections.blocked) == ["component tax waits for price"]
    assert done.sections.blocked[0].about == "what the state gets"
    assert lines(entry for entry in done.sections.completed if entry.part == "component") == [
        "component cart built, not merged yet; 1 file, no tests: This is an example, which does nothing."
    ]
    assert [act.turn for act in done.in_flight] == ["s1.L2.price.author"]
    assert lines(done.sections.pending)[:3] == [
        "sweep 1 L1 Syntax-Linter `ruff check` not run yet",
        "sweep 1 L2 Function-Author `pytest -q` not run yet",
        "sweep 1 L3 Component-Architect has not judged its spec yet",
    ]


def test_a_component_that_was_not_built_waits_for_the_conflict_of_those_it_needs() -> None:
    parts = divided({"name": "price"}, {"name": "cart"}, {"name": "bill", "depends_on": ["price", "cart"]})
    same = (TouchedFile("src/money.py", "one", ("euros",)),), (TouchedFile("src/money.py", "other", ("euros",)),)
    world = Talk(replies={"s1.L3.decompose": parts}, touched={"price": same[0], "cart": same[1]})
    done = told(built(a_levels_plan(), world, until=lambda state: state.dispute is not None))
    assert lines(done.sections.blocked) == ["component bill waits for reconciliation s1.q1"]


def test_a_component_that_is_worked_on_again_is_not_completed() -> None:
    again = {
        "proposal": {"summary": "in cents", "changes": [{"level": "L3", "change": "x"}], "rework": ["price", "tax"]}
    }
    world = a_shop(
        s1__L5__validate=FAILS, s1__q1__L5__propose__r1=again, s2__L3__decompose=a_shop().replies["s1.L3.decompose"]
    )
    events = built(
        a_levels_plan(), world, until=lambda state: state.sweep == 2 and bool(state.pending_turns) and state.level == 2
    )
    done = told(events)
    assert [entry.what for entry in done.sections.completed if entry.part == "component"] == ["cart"]
    assert lines(done.sections.blocked) == ["component tax waits for price"]


@pytest.mark.scenario("LOG-16")
def test_levels_that_failed_or_that_nothing_proves_are_pending_validations() -> None:
    failed = built(a_levels_plan(), a_shop(s1__L5__validate=FAILS), until=lambda state: state.dispute is not None)
    pending = lines(told(failed).sections.pending)
    assert pending[0] == "sweep 1 L5 Journey-Validator FAILED; reconciliation s1.q1 is to settle it"
    assert len(pending) == 5
    unproven = told(built(a_levels_plan(tools=()), a_shop()))
    assert lines(unproven.sections.pending) == [
        "sweep 1 L1 Syntax-Linter unproven: telos.toml names no tool for it",
        "sweep 1 L2 Function-Author unproven: telos.toml names no tool for it",
    ]


@pytest.mark.scenario("LOG-16")
def test_reconciliations_are_told_with_the_decision_and_the_session_it_fell_in() -> None:
    plan = a_levels_plan()
    world = a_shop(s1__L5__validate=FAILS)
    events = built(plan, world)
    done = told(*cut_after(events, "s1.L5.validate", plan))
    (entry,) = done.changed.sections.decisions
    assert entry.what == "s1.q1, failure at L5"
    assert entry.how.startswith("decided by the levels in 1 round: ")
    assert "checkout is slow" in entry.about
    assert (entry.session, entry.turn) == (2, "s1.q1.L9.align.r1")
    assert "spec revised" in {entry.part for entry in done.changed.sections.specs}
    going = built(plan, world, until=lambda state: state.dispute is not None and state.dispute.kind == "agree")
    assert lines(told(going).sections.decisions) == ["reconciliation s1.q1, failure at L5 open, round 1 of at most 3"]


STUCK = {"next_recommended_action": {"action": "ask_person", "to": None, "why": "Which currencies?"}}


@pytest.mark.scenario("LOG-16")
def test_an_open_question_blocks_and_a_persons_answer_is_a_decision() -> None:
    plan = a_levels_plan()
    asked = built(plan, a_shop(s1__L8__decompose=STUCK))
    done = told(asked)
    assert lines(done.sections.blocked) == ["question s1.L8.decompose a person must decide: Which currencies?"]
    assert done.status.word == "BLOCKED"
    state = load_run(a_log(asked), RUN).build
    assert state is not None
    answered = told([*asked, answered_by_a_person(state, "euros and dollars")])
    (entry,) = answered.sections.decisions
    assert (entry.part, entry.how) == ("answer", "a person answered: euros and dollars")
    assert entry.about == "Which currencies?"
    assert answered.sections.blocked == ()


def test_a_request_against_the_purpose_says_what_it_violates_and_what_would_do() -> None:
    no = {"verdict": "MISALIGNED", "violation": "it tracks people", "alternatives": ["count visits"]}
    done = told(built(a_levels_plan(), a_shop(s1__L9__decompose=no)))
    assert (done.status.word, done.sections.pending) == ("REJECTED", ())
    assert [(entry.how, entry.about) for entry in done.sections.blocked] == [
        ("it tracks people", "instead: count visits")
    ]


def test_effort_is_added_up_per_level_and_makes_the_total() -> None:
    usage = Usage(100, 10, 20, 0.01)
    events = [
        replace(event, usage=usage) if isinstance(event, TurnAnswered) else event
        for event in built(a_levels_plan(), a_shop())
    ]
    done = told(events)
    names = [effort.name for effort in done.efforts]
    assert names == [*(level_def.name for level_def in LEVELS.values()), "logos"]
    by_name = {effort.name: effort for effort in done.efforts}
    assert by_name["L2"].turns == 3
    assert by_name["L2"].bill.usage.tokens == 360
    assert done.total.turns == done.view.answered
    assert done.total.bill.usage.tokens == done.view.bill.usage.tokens
    assert done.total.sent == done.view.characters
    assert "## Time and tokens per level" in as_markdown(done)
    assert "L2 Function-Author" in as_markdown(done)


def test_unknown_is_never_shown_as_zero() -> None:
    done = told(a_cycle(QUICK))
    assert "## Time and characters per role" in as_markdown(done)
    assert re.search(r"\| tester +\|.*\| unknown \| unknown \|", as_markdown(done))
    assert report_document(done)["effort"]["total"]["usage"]["tokens"] is None


# --- Markdown


def test_markdown_has_every_part_the_issue_names_in_both_flows() -> None:
    for done in (told(a_cycle(QUICK)), told(built(a_levels_plan(), a_shop()))):
        headings = [line for line in as_markdown(done).splitlines() if line.startswith("## ")]
        assert [heading.removeprefix("## ").split(" per ")[0].split(" since ")[0] for heading in headings] == [
            "Blocked dependencies",
            "Pending validations",
            "What changed",
            "Completed phases",
            "Decisions and reconciliations",
            "Time and characters",
            "Sessions",
        ]


def test_the_tables_of_the_markdown_are_whole_whatever_is_in_them() -> None:
    events = a_cycle(QUICK, until=lambda state: state.role == "tester")
    turn = TurnId("r1.tester.c1")
    failed = TurnFailed(turn, FailureKind.ERROR, f"a | b || \\ {HOSTILE}")
    done = told([*events, TurnAsked(turn, AgentName("tester"), "p"), failed])
    tables = re.findall(r"(?:^\|.*\n)+", as_markdown(done) + "\n", re.MULTILINE)
    columns = [{len(re.split(r"(?<!\\)\|", row)) for row in table.splitlines()} for table in tables]
    assert columns == [{7}, {9}, {8}]


def test_what_agents_wrote_is_no_markup_in_the_markdown() -> None:
    done = hostile()
    text = rendered(done, Format.MD)
    prose = re.sub(r"^```text$.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert "<script>" not in prose.replace("\\<script\\>", "")
    assert "\\[link\\](http://evil.test)" in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert SECRET not in text
    assert max(len(line) for line in text.splitlines()) < 2500


def test_only_the_newest_turns_are_listed_and_the_others_counted() -> None:
    done = told(a_cycle(replace(QUICK, max_rounds=20), tester=[FAIL]))
    assert done.view.answered == 62
    assert "32 earlier ones are left out; `logos show k3report` lists them all." in as_markdown(done)
    assert len(report_document(done)["changed"]["timeline"]) == 62


# --- the timeline


def plot_of(done: ContinuityReport) -> ET.Element:
    page = as_page(done)
    return ET.fromstring(page[page.index('<svg class="plot"') :].partition("</svg>")[0] + "</svg>")


def drawn_bars(done: ContinuityReport) -> list[tuple[float, float]]:
    plot = plot_of(done)
    acts = [group for group in plot.iter("g") if group.get("class", "").startswith("act")]
    bars = [group.find("rect") for group in acts]
    return [(percent(bar.get("x")), percent(bar.get("width"))) for bar in bars if bar is not None]


def percent(value: str | None) -> float:
    assert value is not None
    assert value.endswith("%")
    return float(value[:-1])


def many_days(sessions: int) -> tuple[str, ...]:
    return tuple(f"2026-{1 + day // 28:02}-{1 + day % 28:02} 09:00" for day in range(sessions))


def a_large_build(sessions: int = 12) -> ContinuityReport:
    """Some 600 turns at nine levels: sweep after sweep, cut into sessions."""
    names = [f"part{number}" for number in range(30)]
    parts = divided(*({"name": name} for name in names))
    replies: dict[str, Any] = {}
    for sweep in range(1, 16):
        change = {"summary": "again", "changes": [{"level": "L3", "change": "x"}], "rework": names}
        replies |= {
            f"s{sweep}.L3.decompose": parts,
            f"s{sweep}.L5.validate": FAILS,
            f"s{sweep}.q{sweep}.L5.propose.r1": {"proposal": change},
        }
    plan = a_levels_plan(max_reconciliations=14)
    events = built(plan, Talk(replies=replies))
    size = len(events) // sessions + 1
    cut = [events[start : start + size] for start in range(0, len(events), size)]
    return told(cut[0], *([RunResumed(plan), *part] for part in cut[1:]), began=many_days(sessions))


def test_the_timeline_holds_for_six_hundred_turns_in_nine_lanes_and_twelve_sessions() -> None:
    done = a_large_build()
    assert done.view.answered >= 600
    assert len(done.sessions) == 12
    assert [lane for lane in done.lanes if lane != "logos"] == [level_def.name for level_def in LEVELS.values()]
    bars = drawn_bars(done)
    assert len(bars) == len(done.spans)
    assert all(x >= 0 and width > 0 and x + width <= 100.001 for x, width in bars)
    page = as_page(done)
    assert len(page) < 1_500_000
    assert page.count('class="session') == 12
    assert whole_page(page).problems == []


@pytest.mark.parametrize("sessions", [1, 2, 12, 100])
def test_sessions_lie_side_by_side_with_room_for_their_dates_and_no_nights_between(sessions: int) -> None:
    parts: list[list[Event]] = [[RunStarted(QUICK)], *([RunResumed(QUICK)] for _ in range(sessions - 1))]
    done = told(*parts, began=many_days(sessions))
    scale = scale_of(done.sessions)
    edges = [(scale.left[number], scale.left[number] + scale.width[number]) for number in scale.left]
    assert edges[0][0] == 0
    assert edges[-1][1] == pytest.approx(100)
    assert all(0 < other[0] - one[1] < 2 for one, other in pairwise(edges))
    assert all(scale.room(width) >= 44 for width in scale.width.values())
    assert scale.narrowest >= NARROWEST
    dates = [text.text for text in plot_of(done).iter("text") if text.get("class") == "date"]
    assert all(re.search(r"\d\d-\d\d$", date or "") for date in dates)


def test_turns_at_the_same_time_lie_under_each_other() -> None:
    done = told(built(a_levels_plan(max_parallel=3), a_shop()))
    plot = plot_of(done)
    tops = {
        title.text.split(" ")[0]: bar.get("y")
        for group in plot.iter("g")
        if (title := group.find("title")) is not None and title.text and (bar := group.find("rect")) is not None
    }
    assert tops["s1.L2.price.author"] != tops["s1.L2.cart.author"]


def test_a_bar_says_what_it_is_without_its_colour() -> None:
    events = a_cycle(QUICK, tester=[FAIL, PASS], analyst_review=[REVISE, APPROVED])
    done = told(events, [RunResumed(QUICK), TurnAsked(TurnId("r3.tester.c1"), AgentName("tester"), "p")])
    plot = plot_of(done)
    groups = {group.get("class"): group for group in plot.iter("g")}
    marks = {name: text.text for name, group in groups.items() if (text := group.find("text")) is not None}
    assert (marks["act good"], marks["act bad"], marks["act warning"]) == ("✓", "✗", "!")
    assert "act open" in groups
    titles = [title.text for title in plot.iter("title")]
    assert "r1.tester.c1 · 2:00 · FAIL" in titles
    page = as_page(done)
    assert "url(#cross)" in page
    assert "url(#hatch)" in page


@given(st.lists(st.floats(0, 1e7), min_size=1, max_size=30))
@examples(25)
def test_moments_never_leave_their_session(lengths: list[float]) -> None:
    done = told([RunStarted(QUICK)])
    sessions = tuple(
        replace(done.sessions[0], number=number, began=1e9, ended=1e9 + length)
        for number, length in enumerate(lengths, 1)
    )
    scale = scale_of(sessions)
    for session in sessions:
        left, right = scale.left[session.number], scale.left[session.number] + scale.width[session.number]
        assert (
            left <= scale.x((session.number, session.began)) <= scale.x((session.number, session.ended)) <= right + 1e-6
        )


# --- the page

VOID = {"meta", "br", "hr", "link", "img", "input", "rect", "line", "circle"}


class WholePage(HTMLParser):
    """What a browser would see: every tag, in order, and what is wrong with it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []
        self.problems: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def whole_page(page: str) -> WholePage:
    seen = WholePage()
    seen.feed(page)
    seen.close()
    seen.problems += [f"<{tag}> is left open" for tag in seen.open]
    return seen


def is_safe(page: str) -> None:
    """One file that loads nothing, runs nothing, and whose drawings are whole."""
    seen = whole_page(page)
    assert seen.problems == []
    assert not {"script", "iframe", "object", "link", "img", "a", "form", "base"} & set(seen.tags)
    names = {name for name, _ in seen.attributes}
    assert not {name for name in names if name.startswith("on")} | ({"src", "href", "xlink:href", "action"} & names)
    style = page[page.index("<style>") : page.index("</style>")]
    assert "http" not in style
    assert "@import" not in style
    assert set(re.findall(r"url\(([^)]*)\)", style)) == {"#cross", "#hatch"}
    for drawing in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ET.fromstring(drawing)


def hostile() -> ContinuityReport:
    """A build in which everybody writes what could harm a reader."""
    plan = a_levels_plan(feature=f"{HOSTILE} {'x' * 10_000}")
    secret = {"work_summary": f"{HOSTILE} key {SECRET} {'y' * 10_000}"}
    fails = {
        "verdict": "FAIL",
        "failures": [{"what": HOSTILE, "expected": SECRET, "observed": "", "conflicts_with": []}],
    }
    change = {"summary": HOSTILE, "changes": [{"level": "L5", "change": "x"}], "rework": ["feature"]}
    world = Talk(
        replies={
            "s1.L9.decompose": secret,
            "s1.L4.decompose": "no report <b>at all</b>",
            "s1.L5.validate": fails,
            "s1.q1.L5.propose.r1": {"proposal": change},
            "s2.L8.validate": {"next_recommended_action": {"action": "ask_person", "to": None, "why": HOSTILE}},
        }
    )
    sessions = cut_after(built(plan, world), "s1.L5.validate", plan, left=HOSTILE)
    return told(*sessions, files=(HOSTILE,))


def test_the_page_is_safe_whatever_agents_wrote() -> None:
    page = rendered(hostile(), Format.HTML)
    is_safe(page)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert SECRET not in page
    assert "[redacted]" in page
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)
    assert max(len(text) for text in whole_page(page).text if "{" not in text) < 500


@given(st.text(), st.text())
@examples(20)
def test_no_text_breaks_the_page_or_its_drawing(one: str, other: str) -> None:
    plan = a_quick_plan(explore=one, test_command=other)
    turn = TurnId("r1.analyst.c1")
    asked = TurnAsked(turn, AgentName("analyst"), one)
    done = told([RunStarted(plan), asked, TurnFailed(turn, FailureKind.ERROR, other), Noted(Topic.INTERRUPTED, one)])
    is_safe(as_page(done))
    as_markdown(done).encode()
    json.loads(rendered(done, Format.JSON))


@given(st.text())
@examples(20)
def test_an_id_that_nobody_gave_breaks_nothing_either(text: str) -> None:
    asked = TurnAsked(TurnId(text), AgentName(text), "p")
    done = told([RunStarted(a_levels_plan()), asked, TurnAnswered(TurnId(text), text)])
    is_safe(as_page(done))


@pytest.mark.parametrize("answered", [0, 1])
def test_a_run_that_has_hardly_begun_has_a_whole_report(answered: int) -> None:
    turn = TurnId("r1.analyst.c1")
    first = [TurnAsked(turn, AgentName("analyst"), "p"), TurnAnswered(turn, "t")] if answered else []
    for plan in (QUICK, a_levels_plan()):
        done = told([RunStarted(plan), *(first if plan is QUICK else [])])
        is_safe(as_page(done))
        assert "everything below is new" in as_markdown(done) or not done.view.answered
        assert report_document(done)["turns"] == done.view.answered


def test_the_page_shows_the_outcome_the_figures_and_the_next_step() -> None:
    page = as_page(told(*cut_after(a_cycle(QUICK, tester=[FAIL, PASS]), "r1.tester.c1", QUICK)))
    text = " ".join(" ".join(whole_page(page).text).split())
    assert "✓ PASSED" in text
    assert "greet by name" in text
    assert "Next logos run --resume" in text
    assert "Turns answered 8 2 rounds" in text
    assert "What changed since session 2 (2026-11-15 09:12)" in text
    assert 'class="badge good"' in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


# --- JSON


def shape(data: Any) -> Any:
    return {key: shape(value) for key, value in data.items()} if isinstance(data, dict) else "leaf"


@pytest.mark.scenario("LOG-16")
def test_the_document_has_the_same_keys_in_both_flows_at_every_stage() -> None:
    reports = [
        told([RunStarted(QUICK)]),
        told(a_cycle(QUICK)),
        told(built(a_levels_plan(), a_shop())),
        hostile(),
    ]
    shapes = [shape({**report_document(done), "question": None}) for done in reports]
    assert all(one == shapes[0] for one in shapes)
    assert set(shapes[0]) >= {"completed", "pending", "blocked", "changed", "decisions", "effort", "sessions", "since"}


def test_the_times_of_the_document_are_iso() -> None:
    document = report_document(told(*cut_after(a_cycle(QUICK, tester=[FAIL, PASS]), "r1.tester.c1", QUICK)))
    times = [document["started_at"], document["sessions"][1]["began_at"], document["completed"][0]["at"]]
    assert all(datetime.fromisoformat(at).tzinfo is not None for at in times)
    assert document["since"] == {"session": 2, "began_at": document["sessions"][1]["began_at"]}
    assert document["changed"]["timeline"][0]["answered_in_session"] == 2


# --- the command


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.PASSED])
def test_a_run_that_has_ended_has_nothing_in_hand(outcome: Outcome) -> None:
    events = a_cycle(replace(QUICK, max_rounds=1), tester=[FAIL if outcome is Outcome.FAILED else PASS])
    done = told(events)
    assert (done.in_flight, done.status.word) == ((), outcome.value)


def test_levels_that_do_not_take_part_have_no_lane() -> None:
    done = told(built(a_levels_plan(Level.L3, Level.L2, Level.L1), a_shop()))
    assert done.lanes == ("L3", "L2", "L1", "logos")
