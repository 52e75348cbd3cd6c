"""A run that makes no progress ends, and what was found in it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logos.app.report import report_on
from logos.cli.output.report import as_markdown, as_page
from logos.domain.events import WorkCompared
from logos.domain.turns import Outcome
from logos.testing import APPROVED, FAIL, PASS
from tests.support.sandbox import Sandbox

HASTE = {"MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1", "POLL_SECONDS": "0.05", "VERIFY_PASS": "0"}
RED = {"say": "RESULT: FAIL\nEVIDENCE:\n- FAILED tests/test_bye.py::test_bye in 0.1s\n"}
EDIT = {"edit": {"bye.py": "def bye(): ...\n"}}
HOSTILE = "REVIEW_RESULT: REVISE\nREVIEW_NOTES:\n1. <script>alert(1)</script> [x](y) \x1b[31m{{ 7 * 7 }}\n"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Sandbox]:
    sandbox = Sandbox.of_repository(tmp_path / "shop", {"hello.py": "def hello(): ...\n"}, **HASTE)
    yield sandbox
    sandbox.close()


def run(shop: Sandbox, script: dict[str, Any], *arguments: str) -> Any:
    shop.script(script)
    return shop("run", "add bye()", "--test", "true", *arguments, "--simulate", str(shop.script_path))


def test_a_run_whose_rounds_all_end_the_same_is_blocked_with_the_evidence(shop: Sandbox) -> None:
    done = run(shop, {"programmer": [EDIT], "tester": [RED]})
    assert done.code == 3
    assert "round 3 ended with the same files and the same findings as rounds 1, 2: tests/test_bye.py::test_bye" in (
        done.out
    )
    assert "No progress: round 2 ended" in shop.prompts["r3.programmer.c1"]
    assert "No progress" not in shop.prompts["r2.programmer.c1"]
    assert "r4.programmer.c1" not in shop.prompts


@pytest.mark.long
def test_ticking_tasks_in_the_specs_is_no_progress_and_work_is(shop: Sandbox) -> None:
    ticks = [{"edit": {**EDIT["edit"], "openspec/changes/bye/tasks.md": "- [x]\n" * n}} for n in range(1, 4)]
    assert run(shop, {"programmer": ticks, "tester": [RED]}).code == 3
    shop("reset")
    work = [{"edit": {"bye.py": f"def bye(): return {n}\n"}} for n in range(1, 5)]
    assert run(shop, {"programmer": work, "tester": [RED]}, "--set", "limits.max_rounds=4").code == 1


@pytest.mark.long
def test_a_person_may_let_it_go_on(shop: Sandbox) -> None:
    limits = ("--set", "limits.on_no_progress=go_on", "--set", "limits.max_rounds=4")
    assert run(shop, {"programmer": [EDIT], "tester": [RED]}, *limits).code == 1
    assert "No progress: round 3 ended" in shop.prompts["r4.programmer.c1"]


@pytest.mark.long
def test_a_blocked_run_goes_on_where_a_person_says_so(shop: Sandbox) -> None:
    assert run(shop, {"programmer": [EDIT], "tester": [RED, RED, RED, {"say": PASS}]}).code == 3
    resumed = ("resume", "--simulate", str(shop.script_path), "--set", "limits.on_no_progress=go_on")
    done = shop(*resumed)
    assert done.code == 0, done.err
    assert "r4.tester.c1" in shop.prompts


def test_the_bare_form_only_says_it(shop: Sandbox) -> None:
    agents = shop.hire(tester=[FAIL])
    ended = shop.run(bare=True, MAX_ROUNDS="4")
    assert (ended.outcome, ended.reason) == (Outcome.FAILED, "no PASS in 4 rounds")
    assert "No progress: round 3 ended" in agents.prompts("programmer")[-1]


def test_without_snapshots_nothing_is_judged(tmp_path: Path) -> None:
    folder = Sandbox(tmp_path, {**HASTE})
    folder.script({"tester": [RED]})
    limits = ("--set", "limits.max_rounds=4", "--simulate", str(folder.script_path))
    assert folder("run", "add bye()", "--test", "true", *limits).code == 1
    assert folder.events(WorkCompared) == []
    assert "No progress" not in folder.prompts["r4.programmer.c1"]


# --- what was found


def test_findings_are_in_status_report_and_the_document_of_a_run(shop: Sandbox) -> None:
    done = run(shop, {"programmer": [EDIT], "tester": [RED, {"say": FAIL}, {"say": PASS}]}, "--json")
    states = {finding["text"]: finding["state"] for finding in done.json["findings"]}
    assert states == {"tests/test_bye.py::test_bye": "settled", "expected 2, observed 3": "settled"}
    first = done.json["findings"][0]
    assert (first["raised_by"], first["first_turn"], first["last_turn"]) == ("tester", "r1.tester.c1", "r1.tester.c1")
    assert first["first_at"] == first["last_at"] is not None
    assert "findings: 2 settled" in shop("status").out
    for form in ("md", "html"):
        assert "tests/test" in shop("report", "--format", form).out


@pytest.mark.long
def test_findings_that_stand_are_listed(shop: Sandbox) -> None:
    run(shop, {"programmer": [EDIT], "tester": [RED]})
    told = shop("status").out
    assert "findings: 1 open" in told
    assert "open, tester: tests/test_bye.py::test_bye" in told
    assert "✗ progress, round 3: no progress: round 3 ended" in shop("report").out


def test_a_run_without_findings_shows_none(shop: Sandbox) -> None:
    run(shop, {"programmer": [EDIT]})
    assert "finding" not in shop("status").out
    assert "Findings" not in shop("report").out


def test_what_agents_found_is_escaped(shop: Sandbox) -> None:
    run(shop, {"programmer": [EDIT], "peer_programmer": [{"say": HOSTILE}, {"say": APPROVED}]})
    report = report_on(shop.wd, None, "last")
    page = as_page(report)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "\x1b" not in as_markdown(report) + shop("status").out
    assert "{{ 7 * 7 }}" in shop.prompts["r1.peer_programmer.c2"]
