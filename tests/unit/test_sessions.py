"""Sessions, bills and stories of runs that were paused, forked and given up: whose is what, and how long it took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate, pairwise, takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.app.runs import load_run, read_report
from logos.domain.events import (
    CheckRan,
    Event,
    GateDecided,
    GateOpened,
    Noted,
    PersonSaid,
    QuestionResolved,
    Recorded,
    RunAbandoned,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
    TerminalOpened,
    Topic,
    TurnAnswered,
    TurnAsked,
    TurnSent,
)
from logos.domain.gates import GateKind
from logos.domain.ledger import Ledger
from logos.domain.levels import Level
from logos.domain.turns import AgentName, Outcome, RunId, TerminalId, TurnId
from logos.domain.usage import Usage
from logos.engine.journal import Journal
from logos.testing import APPROVED, GOOD_ANALYSIS, MemoryLog
from logos.views.events import EventFormatter, Severity
from logos.views.run import RunView, TurnViewBuilder
from logos.views.sessions import Session, sessions_of
from logos.views.turns import LOGOS
from tests.builders import a_failure, a_plan, a_quick_plan, examples
from tests.levels_builders import a_levels_plan, answered_by_a_person
from tests.unit.test_cli_levels import Talk, built
from tests.unit.test_forks import Life, Play, cuts, plays

PARENT, FORK = RunId("parent"), RunId("fork")
STARTED, RESUMED = RunStarted(a_plan()), RunResumed(a_plan())
FORKED = RunForked(PARENT, 1, a_plan())
ENDED = RunEnded(Outcome.BLOCKED)
RESOLVED = QuestionResolved("q", 0, "so")


def answered(turn: str) -> TurnAnswered:
    return TurnAnswered(TurnId(turn), "text")


def checked(turn: str) -> CheckRan:
    return CheckRan(TurnId(turn), "make test", 0, "")


def left(why: str) -> Noted:
    return Noted(Topic.INTERRUPTED, why)


def recorded(*events: Event, at: Sequence[float] = (), run: RunId = PARENT) -> list[Recorded]:
    return [Recorded(run, seq, at[seq - 1] if at else float(seq), event) for seq, event in enumerate(events, 1)]


# --- sessions

happenings = st.sampled_from(
    [
        *(RESUMED, RESUMED, FORKED, FORKED, answered("r1.analyst.c1"), answered("r1.tester.c1"), checked("r1.verify")),
        *(left("SIGHUP"), left("SIGTERM"), RESOLVED, ENDED, RunAbandoned("enough"), Noted(Topic.WARNING, "hm")),
    ]
)
# Now and then a clock is set back.
clocks = st.lists(st.floats(-1e5, 1e6), min_size=31, max_size=31).map(lambda steps: [*accumulate(steps)])


@given(st.lists(happenings, max_size=30), clocks)
@examples(60)
def test_sessions_are_the_whole_log_in_order_and_each_holds_what_happened_in_it(
    events: list[Event], times: list[float]
) -> None:
    records = recorded(STARTED, *events, at=times)
    found = sessions_of(records)

    assert [own.number for own in found] == [*range(1, len(found) + 1)]
    assert [number for own in found for number in range(own.first, own.last + 1)] == [record.seq for record in records]
    for own in found:
        inside = records[own.first - 1 : own.last]
        assert isinstance(inside[0].event, RunStarted | RunResumed | RunForked)
        # A fork may wait for its first driver, and a person may answer days later.
        driven = [r for r in inside if isinstance(r.event, RunResumed)]
        begin = driven[0] if driven else inside[0]
        assert own.began == begin.at
        worked = [r for r in inside if r.seq >= begin.seq]
        until = takewhile(lambda r: not isinstance(r.event, QuestionResolved | RunAbandoned), worked)
        assert own.ended == max(r.at for r in until)
        assert own.seconds >= 0
        assert own.answered == tuple(r.event.turn for r in inside if isinstance(r.event, TurnAnswered))
        assert own.checked == tuple(r.event.turn for r in inside if isinstance(r.event, CheckRan))
        said = [r.event.text for r in inside if isinstance(r.event, Noted) and r.event.topic is Topic.INTERRUPTED]
        assert own.left == (said[-1] if said else "")
    last_fork = max((record.seq for record in records if isinstance(record.event, RunForked)), default=0)
    assert [own.inherited for own in found] == [own.first < last_fork for own in found]
    _one_driver_each(records, found)


def _one_driver_each(records: Sequence[Recorded], found: Iterable[Session]) -> None:
    """A session begins with every driver, but the first of a fork goes on with the one that making it began."""
    begins, undriven = {own.first for own in found}, False
    for before, record in pairwise(records):
        match record.event:
            case RunForked():
                assert record.seq in begins
                undriven = True
            case RunResumed():
                if not undriven or isinstance(before.event, RunForked):
                    assert (record.seq in begins) == (not undriven)
                undriven = False
            case _:
                assert record.seq not in begins


@given(st.lists(happenings, max_size=20), st.lists(happenings, max_size=20), st.integers(1, 21))
@examples(30)
def test_a_fork_has_the_sessions_of_its_parent_up_to_where_it_was_forked(
    events: list[Event], more: list[Event], at: int
) -> None:
    history = recorded(STARTED, *events)[:at]
    of_parent = sessions_of(history)
    of_fork = sessions_of(recorded(*(record.event for record in history), FORKED, *more))
    assert [replace(own, inherited=False) for own in of_fork[: len(of_parent)]] == [
        replace(own, inherited=False) for own in of_parent
    ]
    assert all(own.inherited for own in of_fork[: len(of_parent)])
    assert of_fork[len(of_parent)].first == len(history) + 1


def test_a_run_of_two_days_and_its_fork_have_a_session_for_every_driver() -> None:
    first = (STARTED, answered("r1.analyst.c1"), left("the terminal was closed"))
    second = (RESUMED, answered("r1.peer_analyst.c1"), checked("r1.verify"))
    third = (FORKED, RESUMED, answered("r1.programmer.c1"), RunAbandoned("enough"))
    assert sessions_of(recorded(*first, *second, *third)) == (
        Session(1, 1, 3, 1, 3, (TurnId("r1.analyst.c1"),), (), "the terminal was closed", inherited=True),
        Session(2, 4, 6, 4, 6, (TurnId("r1.peer_analyst.c1"),), (TurnId("r1.verify"),), inherited=True),
        Session(3, 7, 10, 8, 9, (TurnId("r1.programmer.c1"),), given_up="enough", forked=FORKED),
    )


def test_who_comes_back_to_a_fork_begins_a_session_and_who_first_drives_it_does_not() -> None:
    assert [own.first for own in sessions_of(recorded(STARTED, FORKED, RESUMED, RESUMED, FORKED))] == [1, 2, 4, 5]


def test_a_log_without_a_beginning_has_no_sessions() -> None:
    assert sessions_of([]) == ()
    assert sessions_of(recorded(answered("r1.analyst.c1"), ENDED)) == ()


@pytest.mark.parametrize("between", [RESOLVED, Noted(Topic.WARNING, "a worktree was made")])
def test_who_first_drives_a_fork_goes_on_with_its_session_also_when_a_person_answered_before(between: Event) -> None:
    assert [own.first for own in sessions_of(recorded(STARTED, ENDED, FORKED, between, RESUMED))] == [1, 3]


# --- the ledger and the journal


@given(plays, st.data())
@examples(20)
def test_the_ledger_of_a_fork_knows_nothing_of_the_run_it_was_forked_from(play: Play, data: st.DataObject) -> None:
    life, at = _forked(play, data)
    assert life.ledger == reduce(Ledger.enter, life.events[at + 1 :], Ledger())


@given(plays, st.data(), st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=50))
@examples(20)
def test_a_fork_was_driven_since_it_was_forked_and_not_between_two_drivers(
    play: Play, data: st.DataObject, steps: list[float]
) -> None:
    life, at = _forked(play, data)
    times = [*accumulate(steps[number % len(steps)] for number in range(len(life.events)))]
    log = MemoryLog(iter(times).__next__)
    for after, event in enumerate(life.events):
        log.append(FORK, event, after)

    journal = Journal(log, load_run(log, FORK).fold)

    own, waits = [*zip(life.events, times, strict=True)][at:], RunResumed | GateDecided
    took = [max(now - then, 0) for (_, then), (event, now) in pairwise(own) if not isinstance(event, waits)]
    assert journal.fold.driven_seconds == pytest.approx(sum(took))
    assert (journal.ledger, journal.state) == (life.ledger, life.state)
    assert journal.fold.ended == (journal.fold.outcome is not None)


def _forked(play: Play, data: st.DataObject) -> tuple[Life, int]:
    """A fork that was driven to its end, and the number of its parent's events."""
    whole = play.life().live()
    at = data.draw(st.sampled_from(cuts(whole)), label="at")
    return play.life(*whole.events[:at], RunForked(PARENT, at, play.plan), RunResumed(play.plan)).live(), at


def timed(*happened: tuple[float, Event]) -> MemoryLog:
    log = MemoryLog(iter([at for at, _ in happened]).__next__)
    for after, (_, event) in enumerate(happened):
        log.append(PARENT, event, after)
    return log


@pytest.mark.parametrize("later", [RESUMED, Noted(Topic.WARNING, "look"), a_failure("r1.analyst.c1")])
def test_a_run_that_was_given_up_has_ended_and_stays_so(later: Event) -> None:
    fold = load_run(timed((1, STARTED), (2, RunAbandoned("enough")), (3, later)), PARENT).fold
    assert (fold.outcome, fold.ended, fold.flow.due(fold.state)) == (Outcome.ABANDONED, True, ())


ASKS = {"next_recommended_action": {"action": "ask_person", "why": "which currency?"}}


def blocked_build() -> list[Event]:
    plan = a_levels_plan(Level.L3, Level.L2)
    return built(plan, Talk(replies={"s1.L3.decompose": ASKS}))


def test_a_fork_of_a_blocked_build_has_ended_until_a_person_answers() -> None:
    events, log = blocked_build(), MemoryLog()
    for after, event in enumerate(events):
        log.append(PARENT, event, after)
    assert events[-1] == ENDED
    log.fork(FORK, log.read(PARENT), RunForked(PARENT, len(events), a_levels_plan(Level.L3, Level.L2)))
    journal = Journal(log, load_run(log, FORK).fold)
    assert (journal.fold.outcome, journal.fold.ended) == (Outcome.BLOCKED, True)
    journal.record(answered_by_a_person(journal.state))
    assert (journal.fold.outcome, journal.fold.ended) == (None, False)
    assert [action.id for action in journal.fold.flow.due(journal.state)] == ["s1.L3.decompose.v2"]
    assert load_run(log, PARENT).outcome is Outcome.BLOCKED


def test_the_time_in_which_a_build_waits_for_a_person_is_nobodys() -> None:
    *events, end = blocked_build()
    plan = a_levels_plan(Level.L3, Level.L2)
    question = load_run(timed(*enumerate(events, 1)), PARENT).question
    assert question is not None
    now = len(events) + 1
    night = [(now, end), (now + 9e4, QuestionResolved(question.id, 0, "cents")), (now + 9e4 + 5, RunResumed(plan))]
    assert load_run(timed(*enumerate(events, 1), *night), PARENT).fold.driven_seconds == now - 1


PLAN_GATE = TurnId("r1.gate.after_plan")
OPENED = GateOpened(PLAN_GATE, GateKind.AFTER_PLAN, "May the programmer begin?")
REACHED = (
    (0, RunStarted(a_quick_plan(gates=(GateKind.AFTER_PLAN,)))),
    (10, TurnAnswered(TurnId("r1.analyst.c1"), GOOD_ANALYSIS)),
    (20, TurnAnswered(TurnId("r1.peer_analyst.c1"), APPROVED)),
    (20, OPENED),
)
GATED = RunResumed(a_quick_plan(gates=(GateKind.AFTER_PLAN,)))


@pytest.mark.parametrize(
    ("happened", "driven"),
    [
        # A driver waits, and goes on after the decision.
        ([(1000, GateDecided(PLAN_GATE, True)), (1005, left("SIGTERM"))], 25),
        # The driver leaves; a decision comes while there is none.
        ([(21, left("waits")), (1000, GateDecided(PLAN_GATE, True)), (2000, GATED), (2005, left("SIGTERM"))], 25),
        # The next driver waits as well.
        ([(21, left("waits")), (500, GATED), (1000, GateDecided(PLAN_GATE, True)), (1005, left("SIGTERM"))], 25),
        # What a person says changes nothing about the time.
        ([(500, PersonSaid("hm")), (1000, GateDecided(PLAN_GATE, True)), (1005, left("SIGTERM"))], 25),
        # A gate is taken away.
        ([(21, left("waits")), (500, RESUMED), (507, left("SIGTERM"))], 27),
    ],
)
def test_the_time_in_which_an_open_gate_waits_is_nobodys(happened: list[tuple[float, Event]], driven: float) -> None:
    view = load_run(timed(*REACHED, *happened), PARENT)
    assert view.fold.driven_seconds == driven
    assert view.driven == driven


def test_guidance_ends_no_session_and_takes_no_time() -> None:
    happened = [*REACHED[:2], (15, PersonSaid("hm")), (18, left("SIGTERM")), (900, PersonSaid("hm")), (990, GATED)]
    view = load_run(timed(*happened), PARENT)
    assert (view.fold.driven_seconds, view.driven) == (18, 18)
    assert len(view.sessions) == 2


# --- the story


@given(plays, st.data())
@examples(25)
def test_the_story_of_a_fork_tells_its_own_turns_and_bill_and_those_it_inherited(
    play: Play, data: st.DataObject
) -> None:
    life, at = _forked(play, data)
    log = MemoryLog()
    for after, event in enumerate(life.events[:at]):
        log.append(PARENT, event, after)
    before = load_run(log, PARENT)
    fork = log.fork(FORK, log.read(PARENT), RunForked(PARENT, at, play.plan))
    for after, event in enumerate(life.events[at + 1 :], at + 1):
        log.append(FORK, event, after)
    story, tail = load_run(log, FORK), TurnViewBuilder(read_report)
    for record in log.read(FORK, at + 1):
        tail.add(record)

    own, others = life.events[at + 1 :], life.events[:at]
    assert story.answered == sum(isinstance(event, TurnAnswered) for event in own)
    assert story.inherited == sum(isinstance(event, TurnAnswered) for event in others)
    assert story.characters == sum(len(event.prompt) for event in own if isinstance(event, TurnAsked))
    assert (story.started, story.forked) == (fork.at, fork)
    assert story.seconds == story.last - fork.at
    assert [told for told in story.turns if not told.inherited] == [*tail.turns]
    assert all(told.bills == () and told.ended is not None for told in story.turns if told.inherited)
    assert story.bill.usage.tokens == story.ledger.spent.usage.tokens
    assert story.left == ""
    again = load_run(log, PARENT)
    assert (again.records, again.states, again.turns) == (before.records, before.states, before.turns)


def test_a_turn_that_was_in_hand_at_the_fork_is_the_forks_own() -> None:
    turn = TurnId("r1.analyst.c1")
    asked, sent = TurnAsked(turn, AgentName("analyst"), "a prompt"), TurnSent(turn)
    cheap, dear = Usage(1, 0, 1), Usage(1000, 0, 1000)
    lost = replace(a_failure(turn), usage=dear)
    done = TurnAnswered(turn, GOOD_ANALYSIS, usage=cheap)
    story = told((1, STARTED), (2, asked), (3, sent), (4, lost), (50, FORKED), (51, asked), (52, sent), (60, done))
    (only,) = story.turns
    assert (only.asked, only.seconds, only.inherited, only.failure) == (51, 9, False, "")
    assert (story.answered, story.inherited, story.bill.usage) == (1, 0, cheap)
    assert story.characters == len("a prompt")


def test_a_turn_that_was_inherited_twice_is_inherited() -> None:
    turn = TurnId("r1.analyst.c1")
    asked = TurnAsked(turn, AgentName("analyst"), "a prompt")
    done = TurnAnswered(turn, GOOD_ANALYSIS, usage=Usage(1, 0, 1))
    story = told((1, STARTED), (2, asked), (3, done), (4, FORKED), (5, FORKED), (9, left("SIGTERM")))
    assert (story.answered, story.inherited, story.bill.turns, story.started) == (0, 1, 0, 5)
    assert story.left == "SIGTERM"
    assert [own.inherited for own in story.sessions] == [True, True, False]


def test_an_attempt_of_the_parent_that_was_sent_back_is_told_as_that() -> None:
    plan = a_levels_plan(Level.L3, Level.L2)
    world = Talk(problems={"s1.L2.feature.author.gather": ("nothing was changed",)})
    events = built(plan, world, until=lambda state: any(ask.attempt == 2 for ask in state.pending_turns))
    again = TurnAsked(TurnId("s1.L2.feature.author.t2"), AgentName("s1.L2.feature.author"), "prompt")
    fork = RunForked(PARENT, len(events), plan)
    story = told(*enumerate([*events, fork, again], 1))
    verdicts = {own.turn: (own.verdict, own.inherited) for own in story.turns}
    assert verdicts["s1.L2.feature.author"] == ("sent back", True)
    assert verdicts["s1.L2.feature.author.gather"] == ("refused: nothing was changed", True)
    assert verdicts["s1.L2.feature.author.t2"] == ("", False)
    authored = sum(own.agent != LOGOS for own in story.turns if own.inherited)
    assert (story.answered, story.inherited) == (0, authored)


def told(*happened: tuple[float, Event]) -> RunView:
    return load_run(timed(*happened), PARENT)


def test_a_run_that_was_given_up_says_why() -> None:
    story = told((1, STARTED), (2, RunAbandoned("another way is better")))
    assert (story.outcome, story.reason) == (Outcome.ABANDONED, "another way is better")


# --- in words


def lines(*happened: tuple[float, Event], run: RunId = FORK) -> list[tuple[str, Severity]]:
    narrator = EventFormatter(read_report)
    records = (Recorded(run, seq, at, event) for seq, (at, event) in enumerate(happened, 1))
    return [(line.text, line.severity) for record in records for line in narrator.lines(record)]


@pytest.mark.parametrize(
    ("plan", "way", "said"),
    [
        (a_plan(), "fork", "run fork forked from event 7 of parent"),
        (a_plan(), "rollback", "run fork goes back to event 7 of parent"),
        (a_levels_plan(Level.L2), "fork", "build fork forked from event 7 of parent"),
        (a_levels_plan(Level.L2), "rollback", "build fork goes back to event 7 of parent"),
    ],
)
def test_a_fork_is_told_in_a_line_with_where_it_comes_from(plan: Any, way: Any, said: str) -> None:
    assert lines((1, RunStarted(plan)), (2, RunForked(PARENT, 7, plan, way)))[1:] == [(said, Severity.NORMAL)]


@pytest.mark.parametrize(("plan", "what"), [(a_plan(), "run"), (a_levels_plan(Level.L2), "build")])
def test_giving_up_is_told_with_its_reason(plan: Any, what: str) -> None:
    first, *_ = lines((1, RunStarted(plan)), (2, RunAbandoned("enough")))[1:]
    assert first == (f"{what} fork abandoned: enough", Severity.WARNING)


def test_how_long_a_turn_of_a_fork_took_is_told_from_when_the_fork_asked_it() -> None:
    turn = TurnId("r1.analyst.c1")
    asked = TurnAsked(turn, AgentName("analyst"), "a prompt")
    opened = TerminalOpened(AgentName("analyst"), TerminalId("t1"), "codex", "s")
    done = TurnAnswered(turn, "text")
    *_, (last, _) = lines((0, STARTED), (1, opened), (2, asked), (3600, FORKED), (3602, asked), (3607, done))
    assert "after 5.0 s" in last
