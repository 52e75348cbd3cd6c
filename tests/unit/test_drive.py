"""The drive loop with performers of straw: what is durable when, what stops it, and in which order things may come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.domain.events import Event, RunEnded, RunResumed, TurnAnswered, TurnAsked, TurnFailed
from logos.domain.turns import Action, AgentName, Outcome, RunId, Turn, TurnId
from logos.engine.journal import Journal
from logos.engine.loop import Perform, Stopped, WorkerContext, drive
from logos.errors import BudgetReached, LogConflict
from logos.flows.cycle.flow import Cycle
from logos.flows.fold import RunFold
from logos.testing import MemoryLog, script
from tests.builders import a_failure, a_plan, a_quick_plan, examples
from tests.support.waiting import LAST_RESORT

RUN = RunId("run")
# Long enough that only something that never comes can take so long.
PATIENCE = LAST_RESORT


@dataclass(frozen=True)
class Chores:
    """A flow of errands that are all due at once, after each other's answers or not at all."""

    first: tuple[str, ...]
    then: tuple[str, ...] = ()

    def start(self) -> frozenset[str]:
        return frozenset()

    def due(self, state: frozenset[str]) -> tuple[Action, ...]:
        if "failed" in state:
            return ()
        open_now = [name for name in self.first if name not in state]
        if not open_now:
            open_now = [name for name in self.then if name not in state]
        return tuple(Turn(TurnId(name), AgentName(name), name, name, {}) for name in open_now)

    def apply(self, state: frozenset[str], event: Event) -> frozenset[str]:
        match event:
            case TurnAnswered(turn):
                return state | {turn}
            case TurnFailed():
                return state | {"failed"}
            case RunResumed():
                return state - {"failed"}
            case _:
                return state

    def outcome(self, state: frozenset[str]) -> Outcome | None:
        return Outcome.PASSED if state >= {*self.first, *self.then} else None


def a_journal(flow: Chores, log: MemoryLog | None = None) -> Journal[frozenset[str]]:
    log = log or MemoryLog()
    fold = RunFold(RUN, flow)
    for record in log.read(RUN):
        fold.add(record)
    return Journal(log, fold)


def events_of(log: MemoryLog) -> list[Event]:
    return [record.event for record in log.read(RUN)]


def answer_at_once(action: Action, context: WorkerContext) -> None:
    context.post(TurnAnswered(action.id, "done"))


@dataclass
class Aside:
    """Something done in another thread, whose end can be waited for."""

    job: Callable[[], object]
    result: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self.result.append(self.job())
        except Exception as error:  # noqa: BLE001 - looked at by the test
            self.result.append(error)

    def end(self, seconds: float = PATIENCE) -> object:
        self._thread.join(seconds)
        assert self.result, "it never ended"
        return self.result[0]


# --- durable first


def test_a_posted_event_is_in_the_log_before_the_performer_goes_on() -> None:
    log = MemoryLog()
    seen: list[bool] = []
    finished = threading.Event()

    def perform(action: Action, context: WorkerContext) -> None:
        for event in (TurnAsked(action.id, AgentName("a"), "prompt"), TurnAnswered(action.id, "done")):
            assert event not in events_of(log)
            context.post(event)
            seen.append(event in events_of(log))
        finished.set()

    assert drive(a_journal(Chores(("a",)), log), perform, threading.Event()) is Outcome.PASSED
    assert finished.wait(PATIENCE)
    assert seen == [True, True]


def test_what_must_follow_an_event_is_done_before_anything_new_is_started() -> None:
    cleared: list[str] = []

    def perform(action: Action, context: WorkerContext) -> None:
        if action.id == "second":
            assert cleared == ["first"]
        context.post(TurnAnswered(action.id, "done"), then=lambda: cleared.append(action.id))

    assert drive(a_journal(Chores(("first",), ("second",))), perform, threading.Event()) is Outcome.PASSED
    assert cleared == ["first", "second"]


def test_watchers_see_each_event_after_it_is_durable_and_with_the_state_it_made() -> None:
    log = MemoryLog()
    journal = a_journal(Chores(("a",)), log)
    seen: list[tuple[int, bool]] = []

    def watch(record, state, _ledger) -> None:
        assert events_of(log)[-1] == record.event
        seen.append((record.seq, "a" in state))

    journal.watch(watch)
    drive(journal, answer_at_once, threading.Event())
    assert seen == [(1, True), (2, True)]


def test_the_outcome_is_the_last_event_of_the_log() -> None:
    log = MemoryLog()
    assert drive(a_journal(Chores(("a",)), log), answer_at_once, threading.Event()) is Outcome.PASSED
    assert events_of(log) == [TurnAnswered(TurnId("a"), "done"), RunEnded(Outcome.PASSED)]


# --- how it ends


def test_nothing_due_and_no_outcome_is_no_outcome() -> None:
    log = MemoryLog()

    def perform(action: Action, context: WorkerContext) -> None:
        context.post(a_failure(action.id))

    assert drive(a_journal(Chores(("a",)), log), perform, threading.Event()) is None
    assert events_of(log) == [a_failure("a")]


def test_a_run_that_stalled_goes_on_when_it_is_resumed() -> None:
    log = MemoryLog()
    journal = a_journal(Chores(("a",)), log)
    drive(journal, lambda action, context: context.post(a_failure(action.id)), threading.Event())
    again = a_journal(Chores(("a",)), log)
    again.record(RunResumed(a_plan()))
    assert drive(again, answer_at_once, threading.Event()) is Outcome.PASSED


class Broken(Exception):
    pass


def test_what_breaks_a_performer_breaks_the_caller() -> None:
    def perform(action: Action, _desk: WorkerContext) -> None:
        raise Broken(action.id)

    with pytest.raises(Broken, match="a"):
        drive(a_journal(Chores(("a",))), perform, threading.Event())


def test_a_performer_that_breaks_stops_the_others() -> None:
    log = MemoryLog()
    others: list[Exception] = []
    other_ended = threading.Event()

    def perform(action: Action, context: WorkerContext) -> None:
        if action.id == "a":
            raise Broken
        assert context.stop.wait(PATIENCE)
        try:
            context.post(TurnAnswered(action.id, "too late"))
        except Stopped as stopped:
            others.append(stopped)
            raise
        finally:
            other_ended.set()

    with pytest.raises(Broken):
        drive(a_journal(Chores(("a", "b")), log), perform, threading.Event())
    assert other_ended.wait(PATIENCE)
    assert len(others) == 1
    assert events_of(log) == []


def test_a_second_driver_on_the_same_log_is_turned_away() -> None:
    log = MemoryLog()
    flow = Chores(("a", "b"))
    mine, theirs = a_journal(flow, log), a_journal(flow, log)
    theirs.record(TurnAnswered(TurnId("a"), "by the other driver"))
    with pytest.raises(LogConflict):
        drive(mine, answer_at_once, threading.Event())
    assert events_of(log) == [TurnAnswered(TurnId("a"), "by the other driver")]


def test_of_two_drivers_at_once_one_finishes_and_the_other_is_turned_away() -> None:
    log = MemoryLog()
    flow = Chores(("a",), ("b",))
    both_there = threading.Barrier(2, timeout=PATIENCE)

    def perform(action: Action, context: WorkerContext) -> None:
        if action.id == "a":
            both_there.wait()
        context.post(TurnAnswered(action.id, "done"))

    drivers = [Aside(lambda: drive(a_journal(flow, log), perform, threading.Event())) for _ in range(2)]
    ends = [driver.end() for driver in drivers]
    assert sorted(type(end).__name__ for end in ends) == ["LogConflict", "Outcome"]
    assert events_of(log) == [
        TurnAnswered(TurnId("a"), "done"),
        TurnAnswered(TurnId("b"), "done"),
        RunEnded(Outcome.PASSED),
    ]


# --- stopping


def waiting_performer(began: threading.Event) -> Perform:
    def perform(action: Action, context: WorkerContext) -> None:
        context.post(TurnAsked(action.id, AgentName("a"), "prompt"))
        began.set()
        context.stop.wait(PATIENCE)
        context.check()
        context.post(TurnAnswered(action.id, "too late"))

    return perform


def test_a_driver_that_is_stopped_leaves_the_turn_in_hand() -> None:
    journal, began, stop = a_journal(Chores(("a",))), threading.Event(), threading.Event()
    driver = Aside(lambda: drive(journal, waiting_performer(began), stop))
    assert began.wait(PATIENCE)
    stop.set()
    driver.end(10)
    assert TurnId("a") in journal.ledger.in_flight
    assert journal.fold.outcome is None


def test_a_driver_that_is_interrupted_leaves_the_turn_in_hand() -> None:
    log = MemoryLog()
    journal = a_journal(Chores(("a",)), log)

    def interrupt(_record, _state, _ledger) -> None:
        raise Broken("as a signal would")

    journal.watch(interrupt)
    stop = threading.Event()
    with pytest.raises(Broken):
        drive(journal, waiting_performer(threading.Event()), stop)
    assert stop.is_set()
    assert TurnId("a") in journal.ledger.in_flight
    assert events_of(log) == [TurnAsked(TurnId("a"), AgentName("a"), "prompt")]


def test_a_stopped_desk_takes_no_more_work() -> None:
    journal, desks = a_journal(Chores(("a",))), []

    def perform(action: Action, context: WorkerContext) -> None:
        desks.append(context)
        context.post(TurnAnswered(action.id, "done"))

    drive(journal, perform, threading.Event())
    with pytest.raises(Stopped):
        desks[0].check()


# --- many errands


def test_what_is_due_at_once_is_in_hands_at_once() -> None:
    names = ("a", "b", "c", "d")
    all_there = threading.Barrier(len(names), timeout=PATIENCE)

    def perform(action: Action, context: WorkerContext) -> None:
        all_there.wait()
        context.post(TurnAnswered(action.id, "done"))

    assert drive(a_journal(Chores(names)), perform, threading.Event()) is Outcome.PASSED


@examples(25)
@given(st.permutations(["a", "b", "c", "d"]))
def test_errands_may_be_answered_in_any_order(order: list[str]) -> None:
    log = MemoryLog()
    gates = {name: threading.Event() for name in order}
    started: list[str] = []

    def perform(action: Action, context: WorkerContext) -> None:
        started.append(action.id)
        if action.id in gates:
            assert gates[action.id].wait(PATIENCE)
        context.post(TurnAnswered(action.id, "done"), then=open_next(action.id))

    def open_next(name: str) -> Callable[[], None]:
        after = dict(pairwise(order)).get(name)
        return gates[after].set if after else lambda: None

    gates[order[0]].set()
    flow = Chores(tuple(sorted(order)), ("last",))
    assert drive(a_journal(flow, log), perform, threading.Event()) is Outcome.PASSED
    assert [event.turn for event in events_of(log) if isinstance(event, TurnAnswered)] == [*order, "last"]
    assert sorted(started) == ["a", "b", "c", "d", "last"]


def test_an_errand_that_is_still_due_while_it_is_worked_on_is_not_started_twice() -> None:
    started: list[str] = []

    def perform(action: Action, context: WorkerContext) -> None:
        started.append(action.id)
        for _ in range(5):
            context.post(TurnAsked(action.id, AgentName("a"), "prompt"))
        context.post(TurnAnswered(action.id, "done"))

    drive(a_journal(Chores(("a", "b"))), perform, threading.Event())
    assert sorted(started) == ["a", "b"]


# --- the brake


@dataclass(frozen=True)
class InTurn(Chores):
    """As many at once as there are in `first`; each answer makes one of `then` due."""

    def due(self, state: frozenset[str]) -> tuple[Action, ...]:
        left = [name for name in (*self.first, *self.then) if name not in state]
        return tuple(Turn(TurnId(name), AgentName(name), name, name, {}) for name in left[: len(self.first)])


def test_a_brake_lets_whoever_is_at_work_finish_and_starts_nobody_else() -> None:
    log, began, go_on = MemoryLog(), list[str](), threading.Event()
    spent = iter((None, BudgetReached("limits.max_tokens reached", "limits.max_tokens", 1), None))

    def brake() -> None:
        if error := next(spent):
            go_on.set()
            raise error

    def perform(action: Action, context: WorkerContext) -> None:
        began.append(action.id)
        if action.id == "b":
            # The brake is asked when `a` has answered and `c` could start.
            assert go_on.wait(PATIENCE)
        answer_at_once(action, context)

    with pytest.raises(BudgetReached):
        drive(a_journal(InTurn(("a", "b"), ("c",)), log), perform, threading.Event(), brake)
    assert sorted(began) == ["a", "b"]
    assert [event.turn for event in events_of(log) if isinstance(event, TurnAnswered)] == ["a", "b"]


# --- the cycle on it


def scripted(**said) -> Perform:
    answers = {name: iter_last(texts) for name, texts in script(**said).items()}

    def perform(action: Action, context: WorkerContext) -> None:
        assert isinstance(action, Turn)
        context.post(TurnAsked(action.id, action.agent, f"prompt of {action.id}"))
        context.post(TurnAnswered(action.id, next(answers[action.answer])))

    return perform


def iter_last(texts) -> Iterator[str]:
    yield from texts
    while True:
        yield texts[-1]


def test_the_cycle_is_driven_to_its_outcome_and_its_log_replays_to_the_same_state() -> None:
    log, flow = MemoryLog(), Cycle(a_quick_plan())
    journal = Journal(log, RunFold(RUN, flow))
    assert drive(journal, scripted(), threading.Event()) is Outcome.PASSED
    again = RunFold(RUN, flow)
    for record in log.read(RUN):
        again.add(record)
    assert (again.state, again.ledger, again.seq) == (journal.state, journal.ledger, journal.fold.seq)
