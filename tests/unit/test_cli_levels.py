"""Looking at builds: the ladder, the lines of the log, status, runs, cost, show."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from logos.adapters.lock import driver_lock
from logos.adapters.reports import example, read_report
from logos.adapters.store.mirror import discard
from logos.adapters.store.sqlite import SqliteLog
from logos.app.runs import load_run
from logos.cli.output import console as show
from logos.cli.output.live import LiveView
from logos.domain.events import (
    Event,
    Noted,
    Recorded,
    RunEnded,
    RunStarted,
    TerminalOpened,
    Topic,
    TurnAnswered,
    TurnFailed,
)
from logos.domain.ledger import Ledger
from logos.domain.levels import Level
from logos.domain.reports import TurnKind
from logos.domain.specs import ContentConflict, TouchedFile
from logos.domain.turns import AgentName, FailureKind, Outcome, RunId, TerminalId, Turn, TurnId
from logos.domain.usage import Usage
from logos.flows.levels.flow import Levels
from logos.flows.levels.turn_ids import level_turn
from logos.testing import MemoryLog
from logos.views.document import RunDocument
from logos.views.events import EventFormatter
from logos.views.status import RunStatus
from tests.builders import a_quick_plan
from tests.levels_builders import World, a_levels_plan, answered_by_a_person, drive_levels
from tests.support.sandbox import Sandbox

RUN = RunId("k3build2")


@dataclass(frozen=True)
class Talk(World):
    """Agents that answer in JSON: the least that is a good report, with the changes of `replies`."""

    def answer(self, turn: Turn) -> str:
        reply = self.replies.get(turn.id, {})
        good = example(TurnKind(turn.document), Level[turn.agent_def])
        return reply if isinstance(reply, str) else json.dumps({**good, **dict(reply)})  # type: ignore[arg-type]


def a_build(*levels: Level, until: Callable[[Any], bool] = lambda _state: False, **world: Any) -> list[Event]:
    """The events of a build as these agents would have it, without those that `drive` adds."""
    return built(a_levels_plan(*levels), Talk(**world), until=until)


def built(plan: Any, world: Talk, **how: Any) -> list[Event]:
    done = drive_levels(Levels(plan, read_report), world, before=[RunStarted(plan)], **how)
    ended = [RunEnded(done.state.outcome)] if done.state.outcome is not None else []
    return [*done.events, *ended]


def divided(*components: Mapping[str, Any]) -> dict[str, Any]:
    good = {"purpose": "a part", "files": [], "provides": [], "depends_on": []}
    return {"components": [{**good, **component} for component in components]}


SHOP = {"s1.L3.decompose": divided({"name": "price"}, {"name": "cart"}, {"name": "tax", "depends_on": ["price"]})}
FAILS = {
    "verdict": "FAIL",
    "failures": [
        {"what": "checkout is slow", "expected": "2 s", "observed": "9 s", "conflicts_with": []},
        {"what": "no receipt", "expected": "", "observed": "", "conflicts_with": []},
    ],
}
AGAIN = {"proposal": {"summary": "cache it", "changes": [{"level": "L5", "change": "x"}], "rework": ["feature"]}}


def recorded(events: Iterable[Event], *, start: float = 1000.0) -> list[Recorded]:
    return [Recorded(RUN, number, start + number, event) for number, event in enumerate(events, 1)]


def lines(events: Iterable[Event]) -> list[str]:
    narrator = EventFormatter(read_report)
    return [line.text for record in recorded(events) for line in narrator.lines(record)]


def frames(events: Iterable[Event], width: int = 80, height: int = 24, every: int = 1) -> list[str]:
    """What the live view shows after every so many events."""
    view = LiveView(Console(file=io.StringIO(), width=width, height=height))
    shown: list[str] = []
    told = recorded(events, start=time.time() - 60)
    plan = told[0].event
    assert isinstance(plan, RunStarted)
    flow, ledger = Levels(plan.plan, read_report), Ledger()  # type: ignore[arg-type]
    state = flow.start()
    with view:
        for record in told:
            state, ledger = flow.apply(state, record.event), ledger.enter(record.event)
            view.watch(record, state, ledger)
            if record.seq % every == 0 or record is told[-1]:
                page = Console(file=io.StringIO(), width=width, height=height)
                page.print(view.frame())
                shown.append(page.file.getvalue())  # type: ignore[attr-defined]
    return shown


# --- turn ids


@pytest.mark.parametrize(
    ("turn", "who", "kind", "sweep", "before"),
    [
        ("s1.L9.decompose", "L9", TurnKind.DECOMPOSE, 1, ""),
        ("s1.L2.cart_2.author", "L2 cart_2", TurnKind.AUTHOR, 1, ""),
        ("s1.L2.author.author.v2.t3", "L2 author", TurnKind.AUTHOR, 1, "s1.L2.author.author.v2.t2"),
        ("s1.L8.decompose.t2", "L8", TurnKind.DECOMPOSE, 1, "s1.L8.decompose"),
        ("s12.q1.L5.agree.r2", "L5", TurnKind.AGREE, 12, ""),
    ],
)
def test_the_id_of_a_turn_tells_who_what_for_and_which_attempt(
    turn: str, who: str, kind: TurnKind, sweep: int, before: str
) -> None:
    found = level_turn(turn)
    assert found is not None
    assert (found.who, found.kind, found.sweep, found.before) == (who, kind, sweep, before)


# --- lines of the log


def test_the_log_tells_a_failed_validation_with_each_failure_and_the_reconciliation_it_opens() -> None:
    told = lines(a_build(replies={"s1.L5.validate": FAILS, "s1.q1.L5.propose.r1": AGAIN}))
    at = told.index("L5 FAILED: checkout is slow (expected: 2 s; observed: 9 s)")
    assert told[at - 1].startswith("s1.L5.validate answered FAIL, ")
    assert told[at + 1] == "L5 FAILED: no receipt"
    assert told[at + 2].startswith("reconciliation s1.q1 opens at L5 with L4 and L6 (failure): L5 does not find")
    assert (
        "reconciliation s1.q1 settled by the levels in 1 round: "
        "cache it (changes L5; works again on feature); sweep 2 begins" in told
    )
    assert told[-2].startswith("PASSED: every level finds its spec satisfied")
    assert told[-1] == f"build {RUN} ended: PASSED"


def test_the_log_tells_what_logos_does_itself() -> None:
    told = lines(a_build(replies=SHOP, problems={"s1.L2.cart.author.gather": ("src/cart.py is missing",)}))
    assert "s1.L2.price.author.gather: 1 file in commit work of" in told
    assert "s1.L2.cart.author.gather: not accepted: src/cart.py is missing" in told
    assert "s1.L2.cart.author is sent back, attempt 2 of 3: src/cart.py is missing" in told
    assert "s1.merge: merged, commit all of " in told
    assert "s1.L1.lint.gather: nothing was changed" in told
    assert "s1.L1.check.ruff Logos ran `ruff check` itself: exit 0" in told


def test_the_log_tells_how_the_output_of_a_failing_tool_ends() -> None:
    told = lines(a_build(exits={"s1.L2.check.pytest": 1}, until=_disputed))
    assert told[-3] == "s1.L2.check.pytest Logos ran `pytest -q` itself: exit 1"
    assert told[-2] == "L2 FAILED: `pytest -q` exits 1; its output ends: output of s1.L2.check.pytest"
    assert told[-1].startswith("reconciliation s1.q1 opens at L2 with L1 and L3 (failure): L2 fails: ")


def test_the_log_tells_conflicts_before_and_while_merging() -> None:
    both = (TouchedFile("a.py", "one"),)
    before = lines(
        a_build(replies=SHOP, touched={"cart": both, "price": (TouchedFile("a.py", "two"),)}, until=_disputed)
    )
    assert before[-1].startswith("reconciliation s1.q1 opens at L3 with L2 and L4 (conflict): components conflict: ")
    assert "same path: a.py (price and cart)" in before[-1]
    clash = ContentConflict("merge", ("cart", "price"), "a.py")
    merging = lines(a_build(replies=SHOP, clashes={"s1.merge": (clash,)}, until=_disputed))
    assert "s1.merge: nothing merged, 1 conflict: merge: a.py (cart and price)" in merging


def _disputed(state: Any) -> bool:
    return state.dispute is not None


def test_the_log_names_the_pattern_of_a_handoff_loop() -> None:
    back = {"next_recommended_action": {"action": "hand_back", "to": "L4", "why": "which currency?"}}
    turns = ("s1.L3.decompose", "s1.L3.decompose.v2", "s1.L3.decompose.v3")
    told = lines(a_build(replies=dict.fromkeys(turns, back), until=_disputed))
    assert sum("answered hands back to L4" in line for line in told) == 3
    assert told[-1].startswith("reconciliation s1.q1 opens at L4 with L3 (loop): handoff loop (L3→L4 3 times)")
    assert "which currency?" in told[-1]


def test_the_log_tells_of_a_constraint_and_of_a_report_that_is_none() -> None:
    late = {"constraint": {"statement": "no network here", "affects": ["L4"], "touches_journeys": True}}
    told = lines(a_build(replies={"s1.L8.decompose": "rubbish", "s1.L2.feature.author": late}, until=_disputed))
    assert any(line.startswith("s1.L8.decompose answered refused: there is no report") for line in told)
    assert any(line.startswith("s1.L8.decompose is sent back, attempt 2 of 3: there is no report") for line in told)
    assert any(line.startswith("s1.L2.feature.author answered constraint") for line in told)
    assert "(constraint): a constraint that the specs do not know: feature: no network here" in told[-1]


MISALIGNED = {"verdict": "MISALIGNED", "violation": "sells data", "alternatives": ["sell nothing", "ask first"]}


def test_the_log_tells_a_rejection_with_its_alternatives() -> None:
    told = lines(a_build(replies={"s1.L9.decompose": MISALIGNED}))
    assert told[-5].startswith("s1.L9.decompose answered MISALIGNED")
    assert told[-4:] == [
        "REJECTED: sells data",
        "instead: sell nothing",
        "instead: ask first",
        f"build {RUN} ended: REJECTED",
    ]


NEVER = {
    "s1.L5.validate": FAILS,
    "s1.q1.L5.propose.r1": AGAIN,
    "s1.q1.L4.agree.r1": {"verdict": "OBJECT", "objection": "too late"},
}


def test_the_log_tells_objections_the_question_and_what_a_person_decided() -> None:
    plan = a_levels_plan(max_rounds=1)
    blocked = built(plan, Talk(NEVER))
    told = lines(blocked)
    assert "L4 objects: too late" in told
    assert any(line.startswith("BLOCKED, a person must decide s1.q1: L5 does not find its spec") for line in told)
    assert "option 1: cache it (changes L5; works again on feature)" in told
    decided = answered_by_a_person(drive_levels(Levels(plan, read_report), Talk(NEVER)).state, "and keep it", 1)
    told = lines([*blocked, decided])
    assert told[-2] == "a person decided s1.q1: option 1, and keep it"
    assert told[-1].startswith("reconciliation s1.q1 settled by a person: cache it")


def test_a_long_quarrel_is_cut_in_the_log() -> None:
    shout = {**FAILS, "failures": [{**FAILS["failures"][0], "what": "x" * 5000} for _ in range(9)]}
    told = lines(a_build(replies={"s1.L5.validate": shout}, until=_disputed))
    assert max(map(len, told)) <= 600
    assert "L5 FAILED: 4 more failures" in told


def test_a_narrator_that_joins_in_the_middle_tells_changes_from_the_states_it_is_given() -> None:
    events = a_build(replies={"s1.L9.decompose": MISALIGNED})
    flow = Levels(a_levels_plan(), read_report)
    state, narrator = flow.start(), EventFormatter(read_report, a_levels_plan())
    told: list[str] = []
    for record in recorded(events):
        state = flow.apply(state, record.event)
        if record.seq > 2:
            told += [line.text for line in narrator.lines(record, state)]
    assert "REJECTED: sells data" in told


# --- the ladder


def level_def(frame: str, level: str) -> str:
    return next(line.strip("│ ").rstrip() for line in frame.splitlines() if line[3:7] == f" {level} ")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (60, 20)])
def test_every_frame_fits_its_terminal_and_shows_nine_rungs(width: int, height: int) -> None:
    plan = a_levels_plan(feature="greet everybody by name " * 20)
    events = built(plan, Talk({**SHOP, "s1.L5.validate": FAILS, "s1.L8.decompose": "no"}))
    for frame in frames(events, width, height, every=7):
        shown = frame.splitlines()
        assert len(shown) < height
        assert all(len(line) == width - 4 for line in shown)
        assert all(level_def(frame, f"L{level}") for level in range(1, 10))


def test_the_ladder_shows_what_each_level_is_doing_on_the_way_down() -> None:
    frame = frames(a_build(until=lambda state: state.level is Level.L7))[-1]
    assert "down: L7 writes its spec · sweep 1" in frame
    assert "greet by name" in frame
    assert level_def(frame, "L8") == "✓ L8 Market-Analyst          v1"
    assert level_def(frame, "L7") == "● L7 Insight-Synthesizer     decomposing, starting"
    assert level_def(frame, "L6") == "○ L6 UX-Simulator"


def test_the_ladder_shows_every_author_and_whom_it_waits_for() -> None:
    shown = "\n".join(frames(a_build(replies=SHOP)))
    assert "build: 2 authors at work, 0 done, 1 to come" in shown
    assert "tax ○ waits for price" in shown
    assert "price ✓, cart ✓" in shown
    assert "Logos merges 3 components" in shown
    assert "✓ L2 Function-Author         3 of 3 components · proven" in shown


def test_many_authors_stay_on_one_line() -> None:
    many = divided(*({"name": f"part{number}"} for number in range(50)))
    shown = frames(a_build(replies={"s1.L3.decompose": many}, until=lambda state: len(state.gathered) == 3))
    busy = next(level_def(frame, "L2") for frame in shown if "4 authors at work" in frame)
    assert busy.count("●") >= 3
    assert busy.endswith(" more")
    assert "… and 4" in busy


def test_the_ladder_shows_tools_judgements_and_a_reconciliation() -> None:
    shown = frames(a_build(replies={"s1.L5.validate": FAILS, "s1.q1.L5.propose.r1": AGAIN}), 100)
    text = "\n".join(shown)
    assert "up: Logos runs `pytest -q` itself · sweep 1" in text
    assert "✓ L4 Integration-Contractor  v1 · passed" in text
    opened = next(frame for frame in shown if "reconciliation s1.q1 at L5 (failure), round 1 of 3, positions" in frame)
    assert "L5 does not find its spec satisfied: checkout is slow" in opened
    assert level_def(opened, "L5") == "● L5 Journey-Validator       position, starting · v1 · failed"
    assert level_def(opened, "L9") == "○ L9 Telos-Guardian          v1"
    assert "votes on the proposal" in text
    assert "L9 checks alignment" in text
    assert "✓ L5 Journey-Validator       v2" in text
    assert "PASSED: every level finds its spec satisfied" in shown[-1]


def test_the_ladder_names_what_is_skipped_what_is_unproven_and_what_is_rejected() -> None:
    plan = a_levels_plan(Level.L9, Level.L3, Level.L2, Level.L1, tools=())
    passed = frames(built(plan, Talk()))[-1]
    assert level_def(passed, "L5") == "– L5 Journey-Validator       skipped"
    assert level_def(passed, "L1") == "○ L1 Syntax-Linter           unproven"
    assert level_def(passed, "L9") == "✓ L9 Telos-Guardian          v1 · passed"
    rejected = frames(a_build(replies={"s1.L9.decompose": MISALIGNED}))[-1]
    assert "REJECTED: sells data" in rejected
    assert level_def(rejected, "L9") == "✗ L9 Telos-Guardian          MISALIGNED"


def test_the_ladder_says_where_a_person_is_waited_for() -> None:
    stuck = {"next_recommended_action": {"action": "ask_person", "to": None, "why": "which currency?"}}
    frame = frames(a_build(replies={"s1.L4.decompose": stuck}))[-1]
    assert "BLOCKED: which currency?" in frame
    assert level_def(frame, "L4") == "● L4 Integration-Contractor  waits for you"


def test_alarms_of_many_authors_leave_room_for_the_rungs() -> None:
    many = divided(*({"name": f"part{number}"} for number in range(6)))
    events = a_build(replies={"s1.L3.decompose": many}, until=lambda state: len(state.held) == 4)
    waits = [
        Noted(Topic.PERMISSION_ASKED, f"rm -rf /part{number}? \x1b[31m[bold]", TurnId(f"s1.L2.part{number}.author"))
        for number in range(4)
    ]
    frame = frames([*events, *waits])[-1]
    assert len(frame.splitlines()) < 24
    assert "s1.L2.part0.author waits for you" in frame
    assert "rm -rf /part1? [bold]" in frame
    assert "… and 2 agents more" in frame
    assert "part3 ● waits for you" in frame or "more" in level_def(frame, "L2")
    assert "\x1b" not in frame


# --- commands


def keep(sandbox: Sandbox, events: Iterable[Event], run: str = RUN) -> None:
    log = SqliteLog(sandbox.wd / ".telos" / "logos.db")
    for seq, event in enumerate(events):
        log.append(RunId(run), event, seq)
    log.close()
    # Without its mirror the database is believed as it is.
    discard(sandbox.wd / ".telos" / "logos.db")


def here(sandbox: Sandbox, *levels: Level, **changes: Any) -> Any:
    return a_levels_plan(*levels, wd=str(sandbox.wd), **changes)


def test_status_of_a_build_under_way_names_level_direction_and_agents(sandbox: Sandbox) -> None:
    events = a_build()[:6]
    opened = TerminalOpened(AgentName("s1.L8.decompose"), TerminalId("t8"), "codex", "s")
    keep(sandbox, [*events[:-2], opened, *events[-2:]])
    done = sandbox("status")
    assert f"build {RUN}: STOPPED, sweep 1, down at L8" in done.out
    assert "1 sweep, 1 turn answered" in done.out
    assert "s1.L8.decompose is with L8 in terminal t8 (codex) since" in done.out
    assert "next: logos build --resume" in done.out
    document = sandbox("status", "--json").json
    assert (document["flow"], document["rounds"], document["phase"], document["role"]) == ("levels", 1, "down", "L8")
    assert document["in_flight"] == [
        document["in_flight"][0]
        | {"turn": "s1.L8.decompose", "agent": "L8", "level": "L8", "kind": "decompose", "terminal": "t8"}
    ]
    assert document["question"] is None
    with driver_lock(sandbox.wd / ".telos" / "driver.lock"):
        assert sandbox("status", "--json").json["next"] == "logos log --follow"


def test_status_of_a_blocked_build_asks_the_question_and_says_how_to_answer(sandbox: Sandbox) -> None:
    keep(sandbox, built(here(sandbox, max_rounds=1), Talk(NEVER)))
    done = sandbox("status")
    assert f"build {RUN}: BLOCKED, it is blocked on a question" in done.out
    assert "The question (s1.q1):\nL5 does not find its spec satisfied" in done.out
    assert "1. cache it" in done.out
    assert "  logos resolve 1    " in done.out
    assert 'logos resolve "…"' in done.out
    assert "next: logos resolve\n" in done.out
    question = sandbox("status", "--json").json["question"]
    assert (question["id"], question["options"][0]["number"]) == ("s1.q1", 1)
    assert question["options"][0]["rework"] == ["feature"]


@pytest.mark.parametrize(
    ("replies", "changes", "says"),
    [
        ({}, {}, f"git merge logos/{RUN}"),
        ({"s1.L9.decompose": MISALIGNED}, {}, f"logos show {RUN} s1.L9.decompose"),
        ({"s1.L5.validate": FAILS}, {"max_reconciliations": 0}, f"logos show {RUN} s1.L5.validate"),
    ],
)
def test_the_next_command_depends_on_how_a_build_ended(sandbox: Sandbox, replies: Any, changes: Any, says: str) -> None:
    keep(sandbox, built(here(sandbox, **changes), Talk(replies)))
    assert sandbox("status", "--json").json["next"] == says


def test_a_build_whose_agent_failed_can_be_resumed(sandbox: Sandbox) -> None:
    keep(sandbox, [*a_build()[:3], TurnFailed(TurnId("s1.L9.decompose"), FailureKind.DIED, "the agent died")])
    assert f"build {RUN}: STOPPED, the agent died" in sandbox("status").out
    assert "failed: the agent died" in sandbox("show", RUN).out


def test_runs_lists_builds_beside_cycles(sandbox: Sandbox) -> None:
    run, plan = "k3cycle2", a_quick_plan(wd=str(sandbox.wd))
    keep(sandbox, [RunStarted(plan), RunEnded(Outcome.PASSED)], run)
    keep(sandbox, built(here(sandbox), Talk({"s1.L5.validate": FAILS, "s1.q1.L5.propose.r1": AGAIN})))
    rows = {row["run"]: row for row in sandbox("runs", "--json").json["runs"]}
    assert (rows[run]["flow"], rows[RUN]["flow"]) == ("cycle", "levels")
    assert (rows[RUN]["rounds"], rows[RUN]["asked_for"], rows[RUN]["status"]) == (2, "greet by name", "PASSED")
    assert any(line.startswith(f"{RUN}  levels") for line in sandbox("runs").out.splitlines())


def test_the_turns_of_a_build_are_listed_with_level_component_and_verdict(sandbox: Sandbox) -> None:
    keep(sandbox, built(here(sandbox), Talk({**SHOP, "s1.L8.decompose": "no"}, clashes={})))
    table = {line.split()[0]: " ".join(line.split()[1:]) for line in sandbox("show", RUN).out.splitlines()}
    assert table["turn"] == "agent seconds characters verdict"
    assert table["s1.L9.decompose"].startswith("L9 ")
    assert table["s1.L9.decompose"].endswith(" ALIGNED")
    assert "refused: there is no report" in table["s1.L8.decompose"]
    assert table["s1.L2.cart.author"].startswith("L2 cart ")
    assert table["s1.L2.cart.author.gather"].endswith("gathered 1 file")
    assert table["s1.merge"].endswith("merged")
    assert table["s1.L2.check.pytest"].endswith("exit 0")
    assert table["s1.L4.validate"].endswith("PASS")


def test_a_report_that_lacked_something_was_sent_back_whatever_it_said(sandbox: Sandbox) -> None:
    wrong = {**FAILS, "next_recommended_action": {"action": "hand_back", "to": "L9", "why": "x"}}
    keep(sandbox, built(here(sandbox), Talk({"s1.L5.validate": wrong})))
    turns = {turn["turn"]: turn["verdict"] for turn in sandbox("show", RUN, "--json").json["timeline"]}
    assert (turns["s1.L5.validate"], turns["s1.L5.validate.t2"]) == ("sent back", "PASS")
    assert not any("L5 FAILED" in line for line in sandbox("log").out.splitlines())


@pytest.mark.parametrize(
    ("turn", "says"),
    [
        ("s1.L2.cart.author.gather", ["(logos", "gather the work in cart", "changed src/cart.py"]),
        ("s1.L2.check.pytest", ["pytest -q", "output of s1.L2.check.pytest", "verdict: exit 0"]),
        ("s1.merge", ["commit all of s1.merge", "verdict: merged"]),
        ("s1.L3.decompose", ["(L3, ", '"name": "price"']),
    ],
)
def test_one_turn_of_a_build_is_shown_whole(sandbox: Sandbox, turn: str, says: list[str]) -> None:
    keep(sandbox, built(here(sandbox), Talk(SHOP)))
    done = sandbox("show", RUN, turn)
    assert done.code == 0
    assert all(words in done.out for words in says), done.out


def test_the_cost_of_a_build_is_told_by_level_kind_and_sweep(sandbox: Sandbox) -> None:
    events = built(here(sandbox), Talk({"s1.L5.validate": FAILS, "s1.q1.L5.propose.r1": AGAIN}))
    billed = [
        TurnAnswered(event.turn, event.text, usage=Usage(100, 0, 10, 0.5)) if isinstance(event, TurnAnswered) else event
        for event in events
    ]
    keep(sandbox, billed)
    document = sandbox("cost", "--json").json
    by = document["usage_by"]
    assert by["levels"]["L5"]["turns"] == 6
    assert by["kinds"]["author"]["cost_usd"] == 1.0
    assert set(by["sweeps"]) == {"1", "2"}
    assert sum(bill["tokens"] for bill in by["levels"].values()) == document["usage"]["tokens"]
    assert "level L5" in sandbox("cost").out
    assert "kind validate" in sandbox("cost").out


def test_following_a_build_that_nobody_drives_says_how_to_go_on(sandbox: Sandbox) -> None:
    keep(sandbox, built(here(sandbox), Talk()))
    done = sandbox("log", "--follow")
    assert done.code == 0
    assert f"build {RUN} ended: PASSED" in done.out


# --- the end of a build


def summary(events: Iterable[Event]) -> tuple[str, dict[str, Any]]:
    log = MemoryLog()
    for seq, event in enumerate(events):
        log.append(RUN, event, seq)
    story = load_run(log, RUN)
    page = Console(file=io.StringIO(), width=200)
    show.put_summary(page, story)
    return page.file.getvalue(), dict(RunDocument.of(RunStatus(Path("/repo"), story, None)))  # type: ignore[attr-defined]


def test_a_passed_build_says_where_its_work_is_and_what_nothing_proves() -> None:
    text, document = summary(a_build(replies={"s1.L5.validate": FAILS, "s1.q1.L5.propose.r1": AGAIN}))
    assert "PASSED: every level finds its spec satisfied" in text
    assert f"build {RUN}: 2 sweeps, " in text
    assert ", 1 reconciliation, " in text
    assert f"what was built is on the branch logos/{RUN}" in text
    assert "unproven" not in text
    assert (document["branch"], document["reconciliations"], document["rounds"]) == (f"logos/{RUN}", 1, 2)
    unproven, document = summary(built(a_levels_plan(tools=()), Talk()))
    assert "unproven: L1, L2; telos.toml names no tool for it" in unproven
    assert document["unproven"] == ["L1", "L2"]


def test_a_rejected_build_shows_the_violation_and_what_could_be_built_instead() -> None:
    text, document = summary(a_build(replies={"s1.L9.decompose": MISALIGNED}))
    assert "REJECTED: sells data\n" in text
    assert "  instead: sell nothing\n  instead: ask first\n" in text
    assert (document["violation"], document["alternatives"]) == ("sells data", ["sell nothing", "ask first"])
    assert document["branch"] is None


def test_a_blocked_build_shows_the_question_whole_and_how_to_answer() -> None:
    text, document = summary(built(a_levels_plan(max_rounds=1), Talk(NEVER)))
    assert "BLOCKED: it is blocked on a question" in text
    assert "checkout is slow (expected: 2 s; observed: 9 s)" in text
    assert "logos resolve 1 --wd /repo" in text
    assert "logos build --resume --wd /repo" in text
    assert document["question"]["options"][0]["summary"] == "cache it"
