"""When is an agent done? Glances are played to the rules, and the decisions collected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.domain.turns import FailureKind, Status
from logos.waiting.rules import (
    COMPLAINT_GRACE_SECONDS,
    MAX_PERMISSIONS,
    UNKNOWN_GRACE_SECONDS,
    Act,
    Decision,
    GiveUp,
    Observation,
    Wait,
    WaitRules,
    WaitState,
    acted,
    decide,
    resume_decision,
    updated,
    wants_screen,
)
from tests.builders import examples

IDLE, BUSY, DONE = Status.IDLE, Status.PROCESSING, Status.COMPLETED
ASKS, LOST, BROKEN = Status.WAITING, Status.UNKNOWN, Status.ERROR

TIMEOUT = 600.0
GRACE = 30.0
SHELL = "$"
COMPLAINT = "API Error: 500"


@dataclass(frozen=True)
class Look:
    """`after` seconds since the last look. A screen of `$` is a shell, one that says API Error complains."""

    after: float
    status: Status
    file: str | None = None
    screen: str | None = "❯"
    decided: bool | None = None


def is_end(decision: Decision) -> bool:
    return isinstance(decision, GiveUp) or decision in (Act.ACCEPT, Act.FALL_BACK)


def play(
    looks: Iterable[Look], rules: WaitRules | None = None, timeout: float = TIMEOUT, *, permissions: int = 0
) -> list[tuple[float, Decision]]:
    """Every decision with its time, up to the one that ends the wait; the screen is shown only where it is asked for."""
    rules = rules or WaitRules()
    at, decisions = 0.0, []
    wait_state = WaitState.begin(at, timeout, permissions=permissions)
    for look in looks:
        at += look.after
        screen = look.screen if wants_screen(look.status, look.file) else None
        observation = Observation(
            at,
            look.status,
            look.file,
            screen,
            screen if screen is not None and screen.startswith(COMPLAINT) else None,
            screen == SHELL,
            look.decided,
        )
        wait_state = updated(wait_state, observation)
        decision = decide(wait_state, observation, rules)
        decisions.append((at, decision))
        match decision:
            case Act.ACCEPT | Act.FALL_BACK | GiveUp():
                break
            case Act():
                wait_state = acted(wait_state, decision, at)
            case Wait():
                pass
    return decisions


def end_of(decisions: Sequence[tuple[float, Decision]]) -> Decision:
    return decisions[-1][1]


def times_of(decisions: Sequence[tuple[float, Decision]], act: Act) -> list[float]:
    return [at for at, decision in decisions if decision is act]


def every(
    seconds: float, until: float, status: Status, file: str | None = None, screen: str | None = "❯"
) -> list[Look]:
    return [Look(seconds, status, file, screen)] * int(until / seconds)


# --- the two signals


@pytest.mark.parametrize("rest", [IDLE, DONE])
def test_a_file_and_a_terminal_that_rests_after_work_are_a_response(rest: Status) -> None:
    decisions = play([Look(0, BUSY), Look(2, BUSY), Look(2, rest, "f")])
    assert decisions[-1] == (4, Act.ACCEPT)
    assert [type(d) for _, d in decisions[:-1]] == [Wait, Wait]


def test_a_file_alone_is_not_enough_while_the_agent_works() -> None:
    decisions = play([Look(0, BUSY), *every(1, 20, BUSY, "f", "typing")])
    assert {type(d) for _, d in decisions} == {Wait}


def test_a_terminal_at_rest_alone_is_not_enough() -> None:
    decisions = play([Look(0, BUSY), *every(2, 20, IDLE)])
    assert {type(d) for _, d in decisions} == {Wait}


def test_a_terminal_in_error_ends_the_wait_at_once_even_with_a_file() -> None:
    assert end_of(play([Look(0, BUSY), Look(1, BROKEN)])) == GiveUp(FailureKind.ERROR)
    assert end_of(play([Look(0, BUSY), Look(1, BROKEN, "f")])) == GiveUp(FailureKind.ERROR)


def test_an_error_that_a_run_sees_once_is_looked_at_again() -> None:
    rules = WaitRules(poll_seconds=2, confirm_error=True)
    # A wakeup in between is not the second look.
    stays = play([Look(0, BUSY), Look(1, BROKEN), Look(0.5, BROKEN), Look(1.5, BROKEN)], rules)
    assert [at for at, decision in stays if decision == GiveUp(FailureKind.ERROR)] == [3.0]
    assert stays[1:3] == [(1.0, Wait(2.0)), (1.5, Wait(1.5))]
    assert end_of(play([Look(0, BUSY), Look(1, BROKEN), Look(2, BUSY), Look(1, IDLE, "f")], rules)) == Act.ACCEPT


def test_a_file_that_is_still_being_written_is_waited_for_when_no_work_was_seen() -> None:
    looks = [Look(0, IDLE), *(Look(0.1, IDLE, f"f{n}") for n in range(20)), *every(0.1, 1, IDLE, "f19")]
    decisions = play(looks)
    assert end_of(decisions) == Act.ACCEPT
    assert decisions[-1][0] > 2.0


def test_a_turn_too_fast_to_be_seen_working_is_taken_soon() -> None:
    at, decision = play(every(0.1, 3, DONE, "f"))[-1]
    assert decision == Act.ACCEPT
    assert at <= 1.0


def test_a_file_is_looked_at_often_once_it_is_there() -> None:
    (_, wait) = play([Look(0, BUSY), Look(1, BUSY, "f")])[-1]
    assert isinstance(wait, Wait)
    assert wait.seconds <= 0.05


# --- the deadline


def test_a_timeout_at_rest_without_a_file_is_no_file_when_strict() -> None:
    assert end_of(play([Look(0, BUSY), Look(9, BUSY), Look(1, IDLE)], timeout=10)) == GiveUp(FailureKind.NO_FILE)


def test_a_timeout_at_rest_without_a_file_falls_back_when_not_strict() -> None:
    looks = [Look(0, BUSY), Look(9, BUSY), Look(1, IDLE)]
    assert end_of(play(looks, WaitRules(strict=False), timeout=10)) == Act.FALL_BACK


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("file", [None, "f"])
def test_a_timeout_at_work_is_a_timeout_strict_or_not(strict: bool, file: str | None) -> None:
    looks = [Look(0, BUSY), Look(9, BUSY), Look(1, BUSY, file, "typing")]
    assert end_of(play(looks, WaitRules(strict=strict), timeout=10)) == GiveUp(FailureKind.TIMEOUT)


def test_a_timeout_while_a_person_is_asked_is_a_timeout() -> None:
    assert end_of(play([Look(0, BUSY), Look(5, ASKS), Look(5, ASKS)], timeout=10)) == GiveUp(FailureKind.TIMEOUT)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("seen_at_work", [True, False])
def test_a_file_found_at_the_deadline_beside_a_resting_terminal_is_taken(strict: bool, seen_at_work: bool) -> None:
    looks = [Look(0, BUSY if seen_at_work else IDLE), Look(9.9, IDLE), Look(0.1, IDLE, "f")]
    assert end_of(play(looks, WaitRules(strict=strict), timeout=10)) == Act.ACCEPT


def test_waiting_is_never_planned_past_the_deadline() -> None:
    for status in (IDLE, BUSY, LOST, ASKS):
        for auto in (True, False):
            rules = WaitRules(poll_seconds=5, auto_accept=auto)
            for at, decision in play(every(0.5, 9.5, status), rules, timeout=10):
                if isinstance(decision, Wait):
                    assert at + decision.seconds <= 10


# --- statuses that lie


def test_a_provider_that_reports_completed_all_along_is_not_reminded_while_its_screen_moves() -> None:
    working = [Look(2, DONE, None, f"line {n}") for n in range(60)]
    decisions = play([*working, Look(2, DONE, "f", "line 60"), *every(0.1, 2, DONE, "f", "line 60")])
    assert times_of(decisions, Act.REMIND) == []
    assert end_of(decisions) == Act.ACCEPT


def test_a_provider_that_reports_completed_all_along_and_stands_still_is_reminded() -> None:
    decisions = play([Look(2, DONE, None, "a"), Look(2, DONE, None, "b"), *every(2, 60, DONE, None, "b")])
    (at, *_) = times_of(decisions, Act.REMIND)
    assert at == pytest.approx(4 + GRACE, abs=2)


def test_a_provider_that_never_stops_processing_is_done_when_file_and_screen_stand_still() -> None:
    looks = [Look(0, BUSY), Look(10, BUSY, "f", "done ❯"), *every(1, 40, BUSY, "f", "done ❯")]
    at, decision = play(looks)[-1]
    assert decision == Act.ACCEPT
    assert at == 10 + GRACE


def test_a_provider_that_never_stops_processing_is_waited_for_while_its_screen_moves() -> None:
    looks = [Look(0, BUSY), *(Look(5, BUSY, "f", f"line {n}") for n in range(100))]
    assert times_of(play(looks), Act.ACCEPT) == []


def test_a_provider_that_never_stops_processing_is_waited_for_while_its_file_grows() -> None:
    looks = [Look(0, BUSY), *(Look(5, BUSY, f"f{n}") for n in range(100))]
    assert times_of(play(looks), Act.ACCEPT) == []


def test_a_working_terminal_without_a_screen_to_look_at_is_waited_for() -> None:
    looks = [Look(0, BUSY), *every(5, 500, BUSY, "f", None)]
    assert {type(d) for _, d in play(looks)} == {Wait}


def test_no_grace_at_all_does_not_make_the_file_of_a_working_agent_a_response() -> None:
    decisions = play([Look(0, BUSY), Look(1, BUSY, "f")], WaitRules(idle_grace=0))
    assert times_of(decisions, Act.ACCEPT) == []


def test_after_a_server_restart_a_file_and_a_still_screen_decide() -> None:
    looks = [Look(0, BUSY), Look(10, LOST), Look(5, LOST, "f", "done ❯"), *every(0.5, 20, LOST, "f", "done ❯")]
    at, decision = play(looks)[-1]
    assert decision == Act.ACCEPT
    assert at == 15 + UNKNOWN_GRACE_SECONDS


def test_after_a_server_restart_a_moving_screen_is_waited_for() -> None:
    looks = [Look(0, BUSY), *(Look(3, LOST, "f", f"line {n}") for n in range(50))]
    assert times_of(play(looks), Act.ACCEPT) == []


def test_after_a_server_restart_an_agent_that_stands_still_without_a_file_is_reminded() -> None:
    decisions = play([Look(0, BUSY), *every(2, 100, LOST)])
    assert len(times_of(decisions, Act.REMIND)) == 1
    assert end_of(decisions) == GiveUp(FailureKind.NO_FILE)


# --- reminders


def test_an_idle_agent_without_its_file_is_reminded_once_after_the_grace_period() -> None:
    decisions = play([Look(0, BUSY), Look(10, BUSY), *every(1, 45, IDLE)])
    assert times_of(decisions, Act.REMIND) == [10 + GRACE]


@pytest.mark.parametrize(("strict", "end"), [(True, GiveUp(FailureKind.NO_FILE)), (False, Act.FALL_BACK)])
def test_an_agent_that_ignores_its_reminder_ends_as_a_timeout_at_rest_would(strict: bool, end: Decision) -> None:
    at, decision = play([Look(0, BUSY), Look(10, BUSY), *every(1, 100, IDLE)], WaitRules(strict=strict))[-1]
    assert decision == end
    assert at == 10 + 2 * GRACE


def test_an_agent_that_works_on_after_its_reminder_gets_the_whole_grace_period_again() -> None:
    looks = [Look(0, BUSY), *every(1, 31, IDLE), *every(1, 100, BUSY), *every(1, 29, IDLE)]
    decisions = play(looks)
    assert len(times_of(decisions, Act.REMIND)) == 1
    assert not is_end(end_of(decisions))


def test_a_response_after_the_reminder_is_taken() -> None:
    assert end_of(play([Look(0, BUSY), *every(1, 31, IDLE), Look(1, BUSY), Look(1, IDLE, "f")])) == Act.ACCEPT


@pytest.mark.parametrize("allowed", [0, 1, 3])
def test_there_are_as_many_reminders_as_configured(allowed: int) -> None:
    decisions = play([Look(0, BUSY), *every(1, 300, IDLE)], WaitRules(max_reminders=allowed))
    assert len(times_of(decisions, Act.REMIND)) == allowed
    assert decisions[-1] == ((allowed + 1) * GRACE, GiveUp(FailureKind.NO_FILE))


def test_reminders_given_in_an_earlier_life_count() -> None:
    wait_state = WaitState.begin(0, TIMEOUT, reminders=1)
    observation = Observation(GRACE, IDLE, screen="❯")
    assert decide(updated(wait_state, observation), observation, WaitRules()) == GiveUp(FailureKind.NO_FILE)


def test_a_working_agent_is_never_reminded() -> None:
    assert times_of(play([Look(0, BUSY), *every(2, 500, BUSY)]), Act.REMIND) == []


# --- permission prompts


def test_a_permission_prompt_is_shown_once_and_waited_for() -> None:
    decisions = play([Look(0, BUSY), *every(2, 100, ASKS)])
    assert times_of(decisions, Act.SHOW_PERMISSION) == [2]
    assert times_of(decisions, Act.GIVE_PERMISSION) == []
    assert {type(d) for at, d in decisions if at > 2} == {Wait}


def test_every_new_permission_prompt_is_shown() -> None:
    decisions = play([Look(2, ASKS), Look(2, ASKS), Look(2, BUSY), Look(2, ASKS), Look(2, ASKS)])
    assert times_of(decisions, Act.SHOW_PERMISSION) == [2, 8]


def test_a_permission_prompt_keeps_the_idle_clock_from_running() -> None:
    decisions = play([Look(0, BUSY), *every(5, 300, ASKS), *every(1, 29, IDLE)])
    assert times_of(decisions, Act.REMIND) == []


def test_a_file_does_not_end_a_turn_that_waits_for_a_person() -> None:
    decisions = play([Look(0, BUSY), *every(2, 100, ASKS, "f")])
    assert times_of(decisions, Act.ACCEPT) == []
    assert times_of(decisions, Act.SHOW_PERMISSION) == [2]


def test_a_person_s_answer_to_a_shown_prompt_is_given_once() -> None:
    yes, no = Look(2, ASKS, decided=True), Look(2, ASKS, decided=False)
    for answer, act in ((yes, Act.GRANT), (no, Act.DENY)):
        decisions = play([Look(0, BUSY), Look(2, ASKS), answer, Look(0.1, ASKS), Look(2, BUSY), Look(2, BUSY)])
        assert [decision for _, decision in decisions if isinstance(decision, Act)] == [Act.SHOW_PERMISSION, act]


def test_an_answer_before_the_prompt_was_shown_is_none() -> None:
    decisions = play([Look(0, BUSY), Look(2, ASKS, decided=True), Look(2, ASKS)])
    assert times_of(decisions, Act.GRANT) == []
    assert times_of(decisions, Act.SHOW_PERMISSION) == [2]


def test_a_prompt_that_is_there_after_the_answer_is_shown_again() -> None:
    """A second prompt may follow the first without a moment in which the agent is seen at work."""
    decisions = play([Look(2, ASKS), Look(2, ASKS, decided=True), *every(0.5, 10, ASKS)])
    assert times_of(decisions, Act.GRANT) == [4]
    assert times_of(decisions, Act.SHOW_PERMISSION) == [2, 6]


def test_permission_is_given_only_where_it_was_allowed_beforehand() -> None:
    decisions = play([Look(0, BUSY), Look(2, ASKS), Look(2, BUSY)], WaitRules(auto_accept=True))
    assert times_of(decisions, Act.GIVE_PERMISSION) == [2]
    assert times_of(decisions, Act.SHOW_PERMISSION) == []


def test_permission_is_not_given_again_within_a_poll_interval() -> None:
    decisions = play(every(0.25, 10, ASKS), WaitRules(auto_accept=True, poll_seconds=2))
    given_at = times_of(decisions, Act.GIVE_PERMISSION)
    assert given_at[:3] == [0.25, 2.25, 4.25]


def test_the_twenty_first_permission_prompt_of_a_turn_ends_it() -> None:
    decisions = play(every(3, 300, ASKS), WaitRules(auto_accept=True))
    assert len(times_of(decisions, Act.GIVE_PERMISSION)) == MAX_PERMISSIONS == 20
    end = end_of(decisions)
    assert isinstance(end, GiveUp)
    assert end.trouble is FailureKind.PERMISSION


def test_permissions_given_in_an_earlier_life_count() -> None:
    decisions = play(every(3, 300, ASKS), WaitRules(auto_accept=True), permissions=19)
    assert len(times_of(decisions, Act.GIVE_PERMISSION)) == 1


# --- provider complaints


def test_a_complaint_on_the_screen_of_an_agent_that_stopped_working_ends_the_turn() -> None:
    decisions = play([Look(0, BUSY), Look(4, BUSY), Look(1, IDLE, None, COMPLAINT)])
    at, end = decisions[-1]
    assert at == 5
    assert isinstance(end, GiveUp)
    assert end.detail == COMPLAINT


def test_a_complaint_left_by_an_earlier_turn_does_not_end_this_one_before_it_began() -> None:
    decisions = play([*every(0.5, 4, IDLE, None, COMPLAINT), Look(0.5, BUSY), Look(10, IDLE, "f", "fine")])
    assert {type(d) for _, d in decisions[:-1]} == {Wait}
    assert end_of(decisions) == Act.ACCEPT


def test_a_complaint_that_stays_on_an_idle_screen_is_believed_in_the_end() -> None:
    at, end = play(every(0.5, 20, IDLE, None, COMPLAINT))[-1]
    assert isinstance(end, GiveUp)
    assert end.detail == COMPLAINT
    assert at == COMPLAINT_GRACE_SECONDS


def test_a_complaint_does_not_end_a_turn_that_has_its_file() -> None:
    assert end_of(play([Look(0, BUSY), Look(9, IDLE, "f", COMPLAINT)])) == Act.ACCEPT


def test_a_complaint_does_not_end_a_turn_that_is_still_being_worked_on() -> None:
    assert {type(d) for _, d in play([Look(0, BUSY), *every(2, 100, BUSY, None, COMPLAINT)])} == {Wait}


# --- dead agents


@pytest.mark.parametrize("status", [IDLE, DONE, LOST, ASKS])
def test_a_shell_seen_twice_means_that_the_agent_died(status: Status) -> None:
    decisions = play([Look(0, BUSY), Look(2, status, None, SHELL), Look(2, status, None, SHELL)])
    assert not is_end(decisions[-2][1])
    assert end_of(decisions) == GiveUp(FailureKind.DIED)


def test_a_shell_seen_once_means_nothing() -> None:
    decisions = play([Look(0, BUSY), Look(2, IDLE, None, SHELL), Look(2, IDLE), Look(2, IDLE, None, SHELL)])
    assert {type(d) for _, d in decisions} == {Wait}


def test_the_response_of_an_agent_that_died_afterwards_is_taken() -> None:
    assert end_of(play([Look(0, BUSY), Look(2, IDLE, "f", SHELL)])) == Act.ACCEPT


def test_a_dead_agent_is_noticed_long_before_the_timeout_though_its_terminal_reports_work() -> None:
    at, decision = play([Look(0, BUSY), *every(2, TIMEOUT, BUSY, None, SHELL)])[-1]
    assert decision == GiveUp(FailureKind.DIED)
    assert at <= TIMEOUT / 2


# --- coming back to a turn that was asked before


LATER = UNKNOWN_GRACE_SECONDS


@pytest.mark.parametrize(
    ("first", "latest", "wait"),
    [
        (Look(0, IDLE), Look(1, IDLE, "f"), True),
        (Look(0, LOST, "f"), Look(0, LOST, "f"), True),
        (Look(0, BROKEN, "f"), Look(1, BROKEN, "f"), True),
        (Look(0, BUSY), Look(0, BUSY), True),
        (Look(0, ASKS), Look(0, ASKS), True),
        (Look(0, IDLE), Look(1, BUSY), True),
        (Look(0, LOST, None, "a"), Look(1, LOST, None, "b"), True),
        (Look(0, DONE, None, "a"), Look(1, DONE, None, "b"), True),
        (Look(0, IDLE), Look(LATER, IDLE), False),
        (Look(0, DONE), Look(LATER, DONE), False),
        (Look(0, LOST), Look(LATER, LOST), False),
        (Look(0, BUSY), Look(LATER, IDLE), False),
        (Look(0, IDLE), Look(0, IDLE), None),
        (Look(0, LOST), Look(LATER - 0.1, LOST), None),
    ],
)
def test_a_turn_in_hand_is_waited_for_while_there_is_a_sign_of_it(first: Look, latest: Look, wait: bool | None) -> None:
    before, now = (Observation(look.after, look.status, look.file, look.screen) for look in (first, latest))
    verdict = resume_decision(before, now, WaitRules())
    assert (verdict[0] if verdict is not None else None) is wait


# --- any sequence

looks = st.builds(
    Look,
    st.sampled_from([0.0, 0.1, 0.3, 1.0, 2.0, 5.0, 31.0]),
    st.sampled_from(list(Status)),
    st.sampled_from([None, None, "f", "g"]),
    st.sampled_from([None, "❯", "typing", SHELL, COMPLAINT]),
)
rules_of_any_kind = st.builds(
    WaitRules,
    poll_seconds=st.sampled_from([0.0, 0.5, 2.0]),
    idle_grace=st.sampled_from([0.0, 1.0, 30.0]),
    max_reminders=st.integers(0, 2),
    strict=st.booleans(),
    auto_accept=st.booleans(),
)


@examples()
@given(st.lists(looks, min_size=1, max_size=40), rules_of_any_kind, st.sampled_from([0.0, 3.0, 60.0]))
def test_every_wait_keeps_its_promises(played: list[Look], rules: WaitRules, timeout: float) -> None:
    decisions = play(played, rules, timeout)
    for (at, decision), look in zip(decisions, played, strict=False):
        if at >= timeout:
            assert is_end(decision), "the first look past the deadline ends the wait"
        match decision:
            case Act.ACCEPT:
                assert look.file is not None
                assert look.status is not BROKEN
                assert look.status is not ASKS or look.screen == SHELL
            case Act.REMIND:
                assert look.file is None
                assert look.status in (IDLE, DONE, LOST)
            case Act.FALL_BACK:
                assert not rules.strict
                assert look.file is None
                assert look.status in (IDLE, DONE, LOST)
            case Act.SHOW_PERMISSION:
                assert look.status is ASKS
                assert not rules.auto_accept
            case Act.GIVE_PERMISSION:
                assert look.status is ASKS
                assert rules.auto_accept
            case GiveUp(FailureKind.NO_FILE):
                assert look.file is None
                assert look.status in (IDLE, DONE, LOST)
            case GiveUp(FailureKind.ERROR):
                assert look.status is BROKEN
            case GiveUp(FailureKind.DIED):
                assert look.file is None
                assert look.screen == SHELL
            case GiveUp(FailureKind.TIMEOUT):
                assert at >= timeout
                assert look.status not in (IDLE, DONE)
            case Wait(seconds):
                assert seconds > 0
                assert at < timeout
            case GiveUp():
                pass
    assert len(times_of(decisions, Act.REMIND)) <= rules.max_reminders
    assert len(times_of(decisions, Act.GIVE_PERMISSION)) <= MAX_PERMISSIONS


@examples()
@given(st.lists(looks, max_size=20), rules_of_any_kind)
def test_a_wait_that_is_told_nothing_new_always_ends(played: list[Look], rules: WaitRules) -> None:
    """Whatever came before: a terminal that then stands still reaches an end, at the latest at the deadline."""
    for status in Status:
        still = every(2.0, 200.0, status)
        assert is_end(end_of(play([*played, *still], rules, timeout=60.0)))
