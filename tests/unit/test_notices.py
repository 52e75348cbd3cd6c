"""What a person is notified of: read from events, once, and when an agent is silent."""

from __future__ import annotations

from dataclasses import replace

from logos.domain.events import (
    Event,
    GateDecided,
    GateOpened,
    Noted,
    PermissionDecided,
    Recorded,
    RunEnded,
    RunResumed,
    RunStarted,
    Topic,
    TurnAnswered,
    TurnAsked,
    TurnFailed,
    TurnSent,
)
from logos.domain.gates import GateKind
from logos.domain.ledger import Ledger
from logos.domain.reports import Proposal, Refused
from logos.domain.specs import Question
from logos.domain.turns import AgentName, FailureKind, Outcome, RunId, TurnId
from logos.flows.cycle.flow import Cycle
from logos.flows.levels.flow import Levels
from logos.views.events import Severity
from logos.views.notices import Notice, NoticeFold, NoticeKind, SilentTurns, body_of
from tests.builders import a_plan
from tests.levels_builders import a_levels_plan

RUN, TURN = RunId("k3ab"), TurnId("r1.analyst.c1")
STARTED, RESUMED = RunStarted(a_plan()), RunResumed(a_plan())
GATE = GateOpened(TurnId("r1.gate.after_plan"), GateKind.AFTER_PLAN, "Is this the right plan?")
ASKED = Noted(Topic.PERMISSION_ASKED, "terminal 1 waits for a person: rm -r build?", TURN)
GIVEN = Noted(Topic.PERMISSION_GIVEN, "yes", TURN)
LIMIT = "you have hit your usage limit, try again in 5 minutes"
AT_WORK = (TurnAsked(TURN, AgentName("analyst"), "analyse"), TurnSent(TURN))


def told(*events: Event, fold: NoticeFold | None = None) -> list[Notice]:
    """The notices of a run with these events; the state is what the flow makes of them."""
    fold, flow, found = fold or NoticeFold(), Cycle(a_plan()), list[Notice]()
    state = flow.start()
    for seq, event in enumerate(events, 1):
        state = flow.apply(state, event)
        if isinstance(event, RunEnded):
            state = replace(state, outcome=event.outcome, reason="why it ended")
        notice = fold.add(Recorded(RUN, seq, 1000.0 + seq, event), state)
        found += [notice] if notice is not None else []
    return found


def test_an_open_gate_asks_its_question_and_names_the_verbs() -> None:
    (notice,) = told(STARTED, GATE)
    assert (notice.kind, notice.event, notice.severity) == (NoticeKind.WAITING, 2, Severity.ALARM)
    assert "Is this the right plan?" in notice.text
    assert "logos approve k3ab" in notice.text
    assert "logos reject k3ab" in notice.text


def test_a_gate_is_open_until_a_person_decides() -> None:
    fold = NoticeFold()
    told(STARTED, GATE, fold=fold)
    assert fold.gate is not None
    reminder = fold.gate.reminder(2, fold.gate.at + 7200)
    assert (reminder.kind, reminder.key) == (NoticeKind.REMINDER, "2-reminder-2")
    assert "2:00:00" in reminder.text
    assert "Is this the right plan?" in reminder.text
    told(STARTED, GATE, GateDecided(GATE.gate, approved=True), fold=fold)
    assert fold.gate is None


def test_a_driver_that_leaves_at_an_open_gate_is_no_second_message() -> None:
    assert len(told(STARTED, GATE, Noted(Topic.INTERRUPTED, "the run waits for you"))) == 1


def test_the_end_is_told_with_its_reason() -> None:
    (passed,) = told(STARTED, RunEnded(Outcome.PASSED, verified=False))
    assert (passed.title, passed.text, passed.severity) == ("Logos: PASS, unverified", "why it ended", Severity.GOOD)
    (failed,) = told(STARTED, RunEnded(Outcome.FAILED))
    assert (failed.kind, failed.title, failed.severity) == (NoticeKind.ENDED, "Logos: FAIL", Severity.BAD)


def test_a_stopped_run_says_why_and_a_run_that_ended_is_not_stopped() -> None:
    stop = Noted(Topic.INTERRUPTED, "stopped by SIGTERM")
    (stopped,) = told(STARTED, stop)
    assert (stopped.kind, stopped.title, stopped.text) == (NoticeKind.STOPPED, "Logos: stopped", "stopped by SIGTERM")
    assert [notice.kind for notice in told(STARTED, RunEnded(Outcome.PASSED, verified=True), stop)] == ["ended"]


def test_budgets_and_limits_of_providers_are_limits() -> None:
    budget = Noted(Topic.INTERRUPTED, "limits.max_tokens reached: 10 tokens of 5 tokens")
    (reached,) = told(STARTED, budget)
    assert (reached.kind, reached.title) == (NoticeKind.LIMIT, "Logos: stopped by a limit")
    failed = TurnFailed(TURN, FailureKind.LIMIT, LIMIT)
    (stopped,) = told(STARTED, *AT_WORK, failed, Noted(Topic.INTERRUPTED, LIMIT))
    assert (stopped.kind, stopped.text) == (NoticeKind.LIMIT, LIMIT)


def test_waiting_for_the_end_of_a_limit_is_told_once_per_turn() -> None:
    rest = Noted(Topic.TRIED_AGAIN, f"{TURN}: {LIMIT}; waiting 900 s, then asking again", TURN)
    assert [notice.kind for notice in told(STARTED, *AT_WORK, rest, AT_WORK[1], rest, AT_WORK[1], rest)] == ["limit"]
    hiccup = Noted(Topic.TRIED_AGAIN, f"{TURN}: overloaded; waiting 5 s, then asking again", TURN)
    assert told(STARTED, *AT_WORK, hiccup) == []


def test_a_permission_prompt_that_another_driver_finds_again_is_told_once() -> None:
    assert len(told(STARTED, *AT_WORK, ASKED, RESUMED, ASKED)) == 1


def test_every_further_permission_prompt_is_told() -> None:
    assert len(told(STARTED, *AT_WORK, ASKED, ASKED)) == 2
    assert len(told(STARTED, *AT_WORK, ASKED, GIVEN, RESUMED, ASKED)) == 2
    assert len(told(STARTED, *AT_WORK, ASKED, PermissionDecided(TURN, granted=True), RESUMED, ASKED)) == 2
    other = replace(ASKED, text="terminal 1 waits for a person: git push?")
    assert len(told(STARTED, *AT_WORK, ASKED, RESUMED, other)) == 2
    assert len(told(STARTED, *AT_WORK, ASKED, TurnAnswered(TURN, "done"), RESUMED, ASKED)) == 2


def test_a_message_names_run_and_folder_and_is_cut() -> None:
    body = body_of(
        Notice(NoticeKind.ENDED, 3, "Logos: FAIL", "x" * 9000), "k3ab", "/repo", "http://localhost:1/runs/k3ab"
    )
    text, where, page = body.split("\n")
    assert len(text) == 1500
    assert (where, page) == ("run k3ab in /repo", "http://localhost:1/runs/k3ab")


def watched(*events: tuple[float, Event], seconds: float = 60.0) -> SilentTurns:
    silent, ledger = SilentTurns(seconds), Ledger()
    for seq, (at, event) in enumerate(events, 1):
        ledger = ledger.enter(event)
        silent.add(Recorded(RUN, seq, at, event), ledger, at)
    return silent


def test_a_turn_without_a_sign_of_life_is_told_once() -> None:
    silent = watched((0.0, AT_WORK[0]), (1.0, AT_WORK[1]))
    assert silent.next_at == 61.0
    assert [*silent.due(60.9)] == []
    (notice,) = silent.due(61.0)
    assert (notice.kind, notice.key) == (NoticeKind.STALLED, "2-stalled")
    assert f"{TURN} has given no sign of life for 1:00" in notice.text
    assert [*silent.due(1000.0)] == []
    assert silent.next_at is None


def test_a_sign_of_life_begins_the_silence_anew() -> None:
    silent = watched((0.0, AT_WORK[0]), (1.0, AT_WORK[1]))
    silent.alive(TURN, 50.0)
    assert [*silent.due(61.0)] == []
    assert silent.next_at == 110.0


def test_who_waits_for_a_person_or_a_limit_or_has_ended_is_not_silent() -> None:
    rest = Noted(Topic.TRIED_AGAIN, "waiting", TURN)
    for last in (ASKED, rest, TurnAnswered(TURN, "done"), TurnFailed(TURN, FailureKind.DIED, "gone")):
        silent = watched((0.0, AT_WORK[0]), (1.0, AT_WORK[1]), (2.0, last))
        assert (silent.next_at, [*silent.due(9999.0)]) == (None, [])


def test_a_turn_that_an_earlier_driver_has_asked_is_watched_from_the_resume_on() -> None:
    silent = watched((0.0, STARTED), (0.0, AT_WORK[0]), (1.0, AT_WORK[1]), (500.0, RESUMED))
    silent = SilentTurns(60.0)
    ledger = Ledger().enter(AT_WORK[0]).enter(AT_WORK[1])
    silent.add(Recorded(RUN, 9, 500.0, RESUMED), ledger, 500.0)
    assert silent.next_at == 560.0


def test_zero_minutes_mean_never() -> None:
    silent = watched((0.0, AT_WORK[0]), (1.0, AT_WORK[1]), seconds=0)
    assert (silent.next_at, [*silent.due(9999.0)]) == (None, [])


def test_a_question_of_a_build_is_told_with_its_options() -> None:
    options = (Proposal("prices in cents"), Proposal("prices in euros"))
    question = Question("q1", "How are prices kept?", options)
    state = Levels(a_levels_plan(), lambda *_: Refused(("no",))).start().blocked(question)
    notice = NoticeFold().add(Recorded(RUN, 9, 0.0, RunEnded(Outcome.BLOCKED)), state)
    assert notice is not None
    assert (notice.kind, notice.title) == (NoticeKind.WAITING, "Logos: a build waits for you")
    assert notice.text.splitlines()[:3] == ["How are prices kept?", "1. prices in cents", "2. prices in euros"]
    assert "logos resolve" in notice.text
