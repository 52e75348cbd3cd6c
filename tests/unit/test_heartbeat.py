"""What a run says where nothing draws a frame: a line now and then that somebody is at work, each stop once."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator

import pytest
from rich.console import Console

from logos.cli.output.live import Frame, LiveView, View
from logos.domain.events import Event, Noted, Recorded, RunStarted, Topic, TurnAnswered, TurnAsked, TurnFailed, TurnSent
from logos.domain.plans import CyclePlan
from logos.domain.turns import AgentName, FailureKind, RunId, TurnId
from logos.domain.usage import Usage
from logos.flows.fold import RunFold, flow_for
from logos.views.text import stop_in_words
from tests.support.waiting import wait_for

TURN, RUN = TurnId("r1.analyst.c1"), RunId("k3abcdef")
PLAN = CyclePlan("p", "add a greeting", "run it", "/wd", "/wd/.tmp")
BEGUN = (RunStarted(PLAN), TurnAsked(TURN, AgentName("analyst"), "do it"), TurnSent(TURN))


class Watched:
    def __init__(self, heartbeat: float) -> None:
        self.page = io.StringIO()
        self.view = View(Console(file=self.page, soft_wrap=True), heartbeat)
        started = RunStarted(PLAN)
        self.fold = RunFold(RUN, flow_for(started, lambda *_: pytest.fail("no report is read")))

    def sees(self, *events: Event, at: float = 1000.0) -> None:
        for event in events:
            record = Recorded(RUN, self.fold.seq + 1, at, event)
            self.fold.add(record)
            self.view.watch(record, self.fold.state, self.fold.ledger)

    @property
    def said(self) -> str:
        return self.page.getvalue()


@pytest.fixture
def watched() -> Iterator[Watched]:
    watched = Watched(heartbeat=0.02)
    with watched.view:
        yield watched


def test_a_run_that_says_nothing_says_who_is_at_work_and_what_was_done_last(watched: Watched) -> None:
    watched.sees(*BEGUN)
    watched.view.show_step(TURN, "Bash pytest -q\x1b[2J")
    wait_for(lambda: "Bash pytest -q" in watched.said, lambda: f"a heartbeat in {watched.said!r}")
    assert "r1.analyst.c1: at work, for " in watched.said
    assert "\x1b" not in watched.said


def test_the_time_counts_from_the_prompt() -> None:
    watched = Watched(heartbeat=0)
    watched.sees(*BEGUN)
    assert watched.view.at_work(1000.0 + 185) == "r1.analyst.c1: at work, for 3:05"


def test_a_step_that_is_long_past_has_its_age() -> None:
    watched = Watched(heartbeat=0)
    watched.sees(*BEGUN)
    watched.view.show_step(TURN, "Bash pytest -q")
    now = time.time()
    assert watched.view.at_work(now).endswith(" · Bash pytest -q")
    assert " · (4:10 ago) Bash pytest -q" in watched.view.at_work(now + 250.9)


def test_nobody_at_work_is_no_heartbeat() -> None:
    watched = Watched(heartbeat=0)
    watched.sees(RunStarted(PLAN))
    assert watched.view.at_work(2000.0) == ""


def test_what_stops_a_run_is_left_to_the_last_lines_of_the_command() -> None:
    watched = Watched(heartbeat=0)
    why = "analyst (r1.analyst.c1): its provider's limit is reached"
    watched.sees(*BEGUN, TurnFailed(TURN, FailureKind.LIMIT, why), Noted(Topic.INTERRUPTED, why))
    assert "limit is reached" not in watched.said
    assert "driver left" not in watched.said


def test_the_live_view_shows_the_last_step_without_growing() -> None:
    view = LiveView(Console(file=io.StringIO(), width=80, height=24))
    watched = Watched(heartbeat=0)
    watched.view = view
    with view:
        watched.sees(*BEGUN)
        before = picture(view)
        view.show_step(TURN, "Bash pytest -q " + "x" * 200)
        after = picture(view)
    assert "now: Bash pytest -q" not in before
    assert "now: Bash pytest -q" in after
    assert len(before.splitlines()) == len(after.splitlines())
    assert {len(line) for line in after.splitlines()} == {76}


def test_the_live_view_cuts_no_warning_before_it_says_why() -> None:
    view = LiveView(Console(file=io.StringIO(), width=80, height=24))
    watched = Watched(heartbeat=0)
    watched.view = view
    why = "its client tries again: Reconnecting... 2/5 (unexpected status 429 Too Many Requests)"
    with view:
        watched.sees(*BEGUN, Noted(Topic.WARNING, "word " * 100, TURN), Noted(Topic.WARNING, f"{TURN}: {why}", TURN))
        shown = picture(view)
    words = " ".join(shown.replace("│", " ").split())
    assert words.count(why) == 1
    assert words.count("warning: word") == 1
    assert len(shown.splitlines()) <= 20
    assert {len(line) for line in shown.splitlines()} == {76}


def test_the_live_view_shows_what_a_run_costs_at_80_columns() -> None:
    view = LiveView(Console(file=io.StringIO(), width=80, height=24))
    watched = Watched(heartbeat=0)
    watched.view = view
    told = "REVIEW_RESULT: APPROVED\nReviewed openspec artifacts proposal, spec, tasks, file greet.py, risks, tests."
    with view:
        watched.sees(*BEGUN, TurnAnswered(TURN, "done", usage=Usage(90_000, 0, 5_094, 0.068)))
        reviewed = TurnId("r1.peer_analyst.c1")
        watched.sees(TurnAsked(reviewed, AgentName("peer_analyst"), "do it"), TurnSent(reviewed))
        watched.sees(TurnAnswered(reviewed, told, usage=Usage(1, 0, 1, 0.0)))
        shown = picture(view)
    assert "95,096 tokens, $0.0680 · last verdict APPROVED" in shown


def picture(view: LiveView) -> str:
    page = io.StringIO()
    Console(file=page, width=80, height=24).print(view.frame())
    return page.getvalue()


def test_a_narrower_terminal_gets_the_rows_of_the_broken_frame_erased() -> None:
    page = io.StringIO()
    console = Console(file=page, width=100, force_terminal=True)
    frame = Frame("x", console=console, auto_refresh=False)
    frame.has_drawn(10, 96)
    frame.refresh()
    assert "\x1b[1A" not in page.getvalue()
    console.width = 50
    frame.refresh()
    assert page.getvalue().count("\x1b[1A\x1b[2K") == 10
    frame.refresh()
    assert page.getvalue().count("\x1b[1A\x1b[2K") == 10


def test_the_number_of_a_signal_in_an_old_log_is_shown_as_its_name() -> None:
    assert stop_in_words("stopped by signal 15") == "stopped by SIGTERM"
    assert stop_in_words("stopped by signal 999") == "stopped by signal 999"
    assert stop_in_words("limits.max_tokens reached") == "limits.max_tokens reached"
