"""Blind acceptance tests: when they are due, what may be told of them, and what their author sees."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logos.adapters.acceptance.outlines import outline
from logos.adapters.acceptance.stripped import is_shown, stripped
from logos.adapters.hosts.cao import ApiClient
from logos.adapters.hosts.providers import Permission
from logos.app.acceptance import check_blind_host
from logos.app.hosts import local_host
from logos.app.setting_sources import load_settings
from logos.domain.events import (
    AcceptanceWritten,
    Event,
    Noted,
    ProofRan,
    RunResumed,
    Source,
    Topic,
    TurnAnswered,
    TurnFailed,
)
from logos.domain.plans import CyclePlan
from logos.domain.proof import AcceptanceTests, CountedTests, ProofRules, ProofStep
from logos.domain.roles import Role
from logos.domain.turns import FailureKind, Outcome, Prove, Turn, TurnId
from logos.engine import acceptance
from logos.errors import ConfigError
from logos.flows.cycle.flow import Cycle
from logos.flows.cycle.state import CycleState
from logos.flows.proof.acceptance import NOT_TOLD, failure_of_blind, problem_with, requirements_in, sealed
from logos.prompts import render
from logos.testing import FAIL
from tests.builders import BASELINE, Driven, a_quick_plan, drive_purely, proves
from tests.unit.test_cycle_flow import due_turn, says

RULES = ProofRules("pytest", blind=True)
TESTS = AcceptanceTests("k3xyz", "a1", "b2", ("c3",), 2, 1)
CHANGED = ("shop.py",)


def a_blind_plan(**changes: Any) -> CyclePlan:
    return a_quick_plan(proof=RULES, test_command="pytest", verify_pass=True, **changes)


def passes(action: Prove) -> ProofRan:
    """Blind tests fail before the run, and pass after it."""
    ran = proves(action)
    masks = ("blind-1::1", "blind-1::2")
    if action.step is ProofStep.BLIND_BASE:
        return replace(ran, tests=CountedTests("pytest", (), masks), exit_code=1)
    return replace(ran, tests=CountedTests("pytest", masks)) if action.step is ProofStep.BLIND else ran


def drive(
    plan: CyclePlan | None = None,
    prove: Callable[[Prove], ProofRan] = passes,
    problems: tuple[str, ...] = (),
    at_most: int = 60,
    **said: Any,
) -> Driven:
    """A run whose acceptance tester answers, each time with one of these problems while there are any."""
    flow, left = Cycle(plan or a_blind_plan()), list(problems)
    done = drive_purely(flow, says(**said), changed=lambda _: CHANGED, prove=prove, before=[BASELINE], until=is_asked)
    for _ in range(at_most):
        if not is_asked(done.state) or done.state.stalled is not None:
            return done
        turn = due_turn(flow, done.state)
        written = AcceptanceWritten(turn.id, TESTS, problem=left.pop(0) if left else "")
        again = [*done.events, written]
        done = drive_purely(
            flow, says(**said), changed=lambda _: CHANGED, prove=prove, before=again, until=lambda s: is_asked(s)
        )
    raise AssertionError("it does not end")


def is_asked(state: CycleState) -> bool:
    waits = state.blind is not None and state.blind.tests is None and state.outcome is None
    return waits or state.stalled is not None


def order(done: Driven) -> list[str]:
    ran = (AcceptanceWritten, TurnAnswered, ProofRan)
    return [str(event.turn) for event in done.events if isinstance(event, ran)][1:]


# --- when


def test_the_tests_are_written_between_analysis_and_program_and_run_at_the_end() -> None:
    done = drive()
    assert order(done)[:5] == [
        "r1.analyst.c1",
        "r1.peer_analyst.c1",
        "r1.acceptance_tester.c1",
        "r1.proof.blind_base",
        "r1.programmer.c1",
    ]
    assert order(done)[-1] == "r1.proof.blind"
    assert (done.state.outcome, done.state.verified) == (Outcome.PASSED, True)
    assert "acceptance tests that no author" in done.state.reason


def test_agents_on_a_server_are_refused_and_others_are_not() -> None:
    with closing(ApiClient("http://127.0.0.1:1", "/repo")) as server:
        with pytest.raises(ConfigError, match="need agents on this machine"):
            check_blind_host(a_blind_plan(), server)
        check_blind_host(a_quick_plan(proof=ProofRules("pytest")), server)


def test_the_acceptance_tester_may_edit_its_folder_and_run_nothing(tmp_path: Path) -> None:
    host: Any = local_host(load_settings(None, {}, [f"wd={tmp_path}"]), lambda _: None)
    assert host._permission_of("acceptance_tester") is Permission.EDIT
    host.close()


def test_a_later_round_does_not_repeat_them() -> None:
    done = drive(a_blind_plan(max_rounds=2), tester=[FAIL, "RESULT: PASS\nEVIDENCE: x"])
    assert [turn for turn in order(done) if "acceptance" in turn] == ["r1.acceptance_tester.c1"]
    assert order(done)[-1] == "r2.proof.blind"


@pytest.mark.parametrize("start", [Role.PROGRAMMER, Role.TESTER])
def test_a_run_that_starts_later_has_none(start: Role) -> None:
    done = drive(a_blind_plan(start=start))
    assert not [turn for turn in order(done) if "acceptance" in turn or "blind" in turn]


def test_unusable_tests_are_asked_for_once_more_with_the_reason_and_then_pause_the_run() -> None:
    assert "r1.acceptance_tester.c2" in order(drive(problems=("no lines",)))
    done = drive(problems=("no lines", "no lines"))
    assert "no lines" in str(done.state.stalled)
    flow = Cycle(a_blind_plan())
    third = flow.apply(done.state, RunResumed(flow.plan))
    assert due_turn(flow, third).id == "r1.acceptance_tester.c3"
    without = flow.apply(done.state, RunResumed(a_quick_plan(proof=replace(RULES, blind=False))))
    assert due_turn(flow, without).id == "r1.programmer.c1"


def test_tests_that_do_not_run_on_the_base_are_asked_for_once_more() -> None:
    def prove(action: Prove) -> ProofRan:
        ran = passes(action)
        return replace(ran, tests=CountedTests("pytest")) if action.step is ProofStep.BLIND_BASE else ran

    done = drive(prove=prove)
    assert "does not run them" in str(done.state.stalled)


def test_tests_that_are_lost_pause_the_run() -> None:
    def prove(action: Prove) -> ProofRan:
        return replace(passes(action), problem="lost" if action.step is ProofStep.BLIND else "")

    done = drive_purely(
        Cycle(a_blind_plan()),
        says(),
        changed=lambda _: CHANGED,
        prove=prove,
        before=[BASELINE],
        until=is_asked,
    )
    written = AcceptanceWritten(due_turn(Cycle(a_blind_plan()), done.state).id, TESTS)
    paused = drive_purely(
        Cycle(a_blind_plan()),
        says(),
        changed=lambda _: CHANGED,
        prove=prove,
        before=[*done.events, written],
        until=lambda state: state.stalled is not None,
    )
    assert "r1.proof.blind proves nothing: lost" in str(paused.state.stalled)
    assert paused.state.outcome is None


def test_the_programmer_is_told_the_requirement_only() -> None:
    def prove(action: Prove) -> ProofRan:
        ran = passes(action)
        if action.step is not ProofStep.BLIND or not action.id.startswith("r1."):
            return ran
        failed = CountedTests("pytest", ("blind-1::2",), ("blind-1::1",))
        return replace(ran, tests=failed, exit_code=1, output=NOT_TOLD, subject=("tax is a fifth",))

    done = drive(prove=prove)
    assert done.state.outcome is Outcome.PASSED
    (round_two,) = [event for event in done.events if isinstance(event, TurnAnswered) and event.turn == "r2.tester.c1"]
    assert round_two
    assert "Not met: tax is a fifth" in done.state.feedback
    assert [finding.text for finding in done.state.findings] == ["tax is a fifth"]


# --- what may be told

RESPONSE = """Acceptance tests:
- tests/test_b.py::Tax.test_one: tax is a fifth
- tests/test_b.py::test_two[1]: nothing costs nothing
"""
NAMED = requirements_in(RESPONSE)


def ran_with(tests: CountedTests | None, code: int = 1, step: ProofStep = ProofStep.BLIND) -> ProofRan:
    return ProofRan(TurnId("p"), step, "c", "t", "pytest", code, tests, "assert tax(735) == 147")


@pytest.mark.parametrize(
    ("failed", "passed", "masks", "told"),
    [
        (("tests/test_b.py::Tax::test_one",), ("tests/test_b.py::test_two[1]",), ("blind-1::1",), ("tax is a fifth",)),
        (("tests/test_b.py::test_three",), ("tests/test_b.py::test_two",), ("blind-1::0",), ()),
        (("::(pytest did not finish)",), ("tests/test_b.py::test_two",), ("blind-0::0",), ()),
        (("::shop/cart.(did not run)",), (), ("blind-0::0",), ()),
        (("conftest.py::(changed while the tests ran)",), (), ("blind-0::0",), ()),
        (("tests/test_old.py::test_old",), ("tests/test_b.py::test_two",), (), ()),
        (
            ("tests/test_b.py::(not collected)",),
            (),
            ("blind-1::1", "blind-1::2"),
            ("tax is a fifth", "nothing costs nothing"),
        ),
    ],
    ids=[
        "a test",
        "a test without a line",
        "the runner",
        "a package",
        "a changed file",
        "another test",
        "a whole file",
    ],
)
def test_the_log_has_numbers_for_tests_and_sentences_for_failures(
    failed: tuple[str, ...], passed: tuple[str, ...], masks: tuple[str, ...], told: tuple[str, ...]
) -> None:
    shown = sealed(ran_with(CountedTests("pytest", passed, failed)), NAMED)
    assert shown.tests is not None
    assert (shown.tests.failed, shown.subject, shown.output) == (masks, told, NOT_TOLD)
    assert "test_" not in str(shown.tests)


@pytest.mark.parametrize(
    ("tests", "code", "fails"),
    [
        (CountedTests("pytest", ("blind-1::1", "blind-1::2")), 0, False),
        # A test that nobody declared to fail before the run may fail besides.
        (CountedTests("pytest", ("blind-1::1",)), 1, False),
        (CountedTests("pytest", ("blind-1::2",), ("blind-1::1",)), 1, True),
        (CountedTests("pytest", ("blind-1::2",), (), ("blind-1::1",)), 0, True),
        (CountedTests("pytest", ("blind-1::2",), (), (), ("blind-1::1",)), 0, True),
        (CountedTests("pytest", ("blind-1::2",), ("blind-0::0",)), 0, True),
        (CountedTests("pytest"), 0, True),
        (None, 0, False),
        (None, 1, True),
    ],
)
def test_every_acceptance_test_must_pass(tests: CountedTests | None, code: int, fails: bool) -> None:
    assert bool(failure_of_blind(ran_with(tests, code), TESTS)) is fails


@pytest.mark.parametrize(
    ("tests", "response", "why"),
    [
        ({}, RESPONSE, "no file is in"),
        ({"tests/test_b.py": "", "tests/test_a.py": ""}, RESPONSE, "1 of 2 files have the path"),
        ({"tests/test_b.py": ""}, "They are written.", "has no line"),
        ({"tests/test_c.py": ""}, RESPONSE, "2 of 2 lines of the response begin with"),
        ({"tests/test_b.py": "735"}, RESPONSE.replace("a fifth", "147 of 735"), "1 of 2 lines show a value"),
        ({"tests/test_b.py": "'Ada'"}, RESPONSE.replace("a fifth", "told to 'Ada'"), "1 of 2 lines show a value"),
        ({"tests/test_b.py": "100"}, RESPONSE.replace("a fifth", "20 of 100"), ""),
        ({"tests/test_b.py": ""}, RESPONSE, ""),
    ],
)
def test_why_tests_cannot_be_used_names_no_test(tests: dict[str, str], response: str, why: str) -> None:
    problem = problem_with(tests, {"tests/test_a.py"}, response, "the tax of 100 is 20")
    assert why in problem if why else not problem
    assert "test_b" not in problem


class _Context:
    stop = threading.Event()

    def __init__(self) -> None:
        self.posted: list[Event] = []

    def post(self, event: Event, then: Callable[[], None] = lambda: None) -> None:
        del then
        self.posted.append(event)

    def check(self) -> None:
        pass


class _Work:
    def prepare(self, base: str) -> None:
        del base

    def collect(self, base: str, response: str, told: str) -> tuple[AcceptanceTests, str]:
        del base, response, told
        return TESTS, ""


def test_no_event_about_the_acceptance_tester_has_its_words() -> None:
    turn = Turn(TurnId("r1.acceptance_tester.c1"), None, "", "", {}, sealed=True)  # type: ignore[arg-type]
    none: Any = None
    tester = acceptance.AcceptanceTester(none, none, none, _Work(), none, none)
    told = [
        *(Noted(topic, "zanzibar", turn.id, "zanzibar") for topic in Topic),
        *(TurnFailed(turn.id, kind, "zanzibar") for kind in FailureKind),
        TurnAnswered(turn.id, "zanzibar", Source.SCREEN),
    ]
    events = [tester.sealed(turn, event) for event in told]
    assert "zanzibar" not in str(events)
    assert events[-1] == AcceptanceWritten(turn.id, TESTS)


# --- what its author sees

SOURCE = '''
"""A shop."""
import os
RATE = 0.2
LIMIT: int = 12


class Cart:
    """Holds prices."""

    size: int

    def total(self, tax: float = 0.1) -> int:
        """The sum."""
        return secret_way(self)


async def pay(cart: Cart): return secret_way(cart)


if True:
    secret_way(1)
'''


def test_an_outline_has_signatures_and_docstrings_and_no_bodies() -> None:
    shown = outline(SOURCE)
    for kept in ("A shop.", "import os", "class Cart:", "def total(self, tax: float=0.1) -> int:", "The sum."):
        assert kept in shown
    for gone in ("secret_way", "0.2", "12"):
        assert gone not in shown
    compile(shown, "shop.py", "exec")


def test_a_source_that_cannot_be_read_has_no_outline() -> None:
    assert outline("def (:") == ""
    assert outline("\0") == ""


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("README.md", True),
        ("pyproject.toml", True),
        ("tests/test_a.py", True),
        ("web/a.test.js", True),
        ("shop/cart.py", True),
        ("src/index.d.ts", True),
        ("src/index.js", False),
        ("main.go", False),
        ("data.bin", False),
        (".telos/x.md", False),
        ("../outside.md", False),
    ],
)
def test_of_a_project_documents_manifests_tests_and_interfaces_are_shown(path: str, shown: bool) -> None:
    assert is_shown(path) is shown


def test_python_source_is_outlined_and_tests_are_whole() -> None:
    body = b"def a():\n    return 1\n"
    shown = stripped({"a.py": body, "tests/test_a.py": body, "b.py": b"\xff"})
    assert shown == {"a.py": b"def a():\n    ...\n", "tests/test_a.py": body}


def test_the_prompt_names_neither_the_work_dir_nor_a_fact_too_many() -> None:
    plan = a_blind_plan(explore="change /repo/shop.py")
    done = drive_purely(Cycle(plan), says(), before=[BASELINE], until=is_asked)
    prompt = render("acceptance_tester", due_turn(Cycle(plan), done.state).facts)
    assert "/repo" not in prompt
    assert prompt.startswith("Turn: r1.acceptance_tester.c1")
    assert render("reminder", due_turn(Cycle(plan), done.state).facts).startswith("Turn: r1.acceptance_tester.c1")
