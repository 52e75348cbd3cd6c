"""Blind acceptance tests as a person meets them: what they catch, that nobody sees them, and what becomes of them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from logos.adapters.acceptance.folder import acceptance_folder
from logos.adapters.proof.rooms import rooms_folder
from logos.adapters.store.mirror import mirrors_folder
from logos.domain.events import AcceptanceWritten, ProofRan, TurnAsked
from logos.domain.proof import ProofStep
from tests.support.proving import contents, rooms_left
from tests.support.sandbox import Done, Sandbox
from tests.support.waiting import wait_for, wait_for_exit

HASTE = {"MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1", "POLL_SECONDS": "0.05", "EXPECT_CHANGE": ""}
TEST = "python3 -m unittest"
SHOP = {
    "cart.py": "def total(prices):\n    return sum(prices)\n",
    "test_cart.py": "import unittest\n\nfrom cart import total\n\n\nclass Cart(unittest.TestCase):\n"
    "    def test_total(self):\n        self.assertEqual(total([1, 2]), 3)\n",
    ".gitignore": "__pycache__/\n",
}
KNOWN = {
    "test_tax.py": "import unittest\n\nfrom tax import tax\n\n\nclass Tax(unittest.TestCase):\n"
    "    def test_tax(self):\n        self.assertEqual(tax(100), 20)\n"
}
HONEST = {"tax.py": "def tax(price):\n    return price // 5\n", **KNOWN}
HARD_CODED = {"tax.py": "def tax(price):\n    return {100: 20}.get(price)\n", **KNOWN}
# Nobody but its author may see this word and these numbers. Shorter ones could be the length of a prompt.
SECRET, PRICE, TAX = "zanzibar", "73512905", "14702581"
BLIND = (
    "import unittest\n\nfrom tax import tax\n\n\nclass Acceptance(unittest.TestCase):\n"
    f"    def test_{SECRET}(self):\n        self.assertEqual(tax({PRICE}), {TAX}, '{SECRET}')\n"
)
SENTENCE = "tax is a fifth of any price"
SAID = f"Acceptance tests:\n- test_blind.py::Acceptance.test_{SECRET}: {SENTENCE}\n"
TESTER = {"say": SAID, "edit": {"tests/test_blind.py": BLIND}}


def a_shop(folder: Path, work: dict[str, str], *tester: dict[str, object]) -> Sandbox:
    shop = Sandbox.of_repository(folder, SHOP, **HASTE)
    shop.script({"programmer": [{"edit": work}], "acceptance_tester": [*(tester or (TESTER,))]})
    return shop


def run(shop: Sandbox, *arguments: str) -> Done:
    given = ("--test", TEST, "--set", "limits.max_rounds=1", *arguments)
    return shop("run", "add tax", *given, "--simulate", str(shop.script_path))


@pytest.fixture
def cheat(tmp_path: Path) -> Iterator[Sandbox]:
    made = a_shop(tmp_path / "shop", HARD_CODED)
    yield made
    made.close()


@pytest.fixture
def honest(tmp_path: Path) -> Iterator[Sandbox]:
    made = a_shop(tmp_path / "shop", HONEST)
    yield made
    made.close()


def everything_in(shop: Sandbox) -> bytes:
    """Every byte that an agent could read in the work dir, its repository and the mirror of its log."""
    objects = subprocess.run(
        ["git", "cat-file", "--batch-all-objects", "--batch", "--buffer"],
        cwd=shop.wd,
        capture_output=True,
        check=True,
    ).stdout
    files = {**contents(shop.wd), **contents(mirrors_folder())}
    names = "\n".join(files).encode()
    return b"\n".join([objects, names, *(it if isinstance(it, bytes) else it.encode() for it in files.values())])


def proof_steps(shop: Sandbox) -> list[ProofStep]:
    return [event.step for event in shop.events(ProofRan)]


@pytest.mark.long
def test_a_program_that_knows_the_tested_values_passes_without_blind_tests(cheat: Sandbox) -> None:
    done = run(cheat)
    assert done.code == 0, done.err
    assert ProofStep.BLIND not in proof_steps(cheat)


def test_a_program_that_knows_the_tested_values_fails_blind_tests(cheat: Sandbox) -> None:
    done = run(cheat, "--blind")
    assert done.code == 1
    assert f"Not met: {SENTENCE}" in done.err
    assert proof_steps(cheat)[-1] is ProofStep.BLIND
    for secret in (SECRET, PRICE, TAX):
        assert secret not in done.err + done.out


def test_nobody_is_shown_the_tests(cheat: Sandbox) -> None:
    run(cheat, "--blind")
    run_id = cheat.run_id
    shown = [cheat(*words) for words in (["log"], ["log", "--json"], ["report"], ["status", "--json"])]
    shown += [cheat("show", run_id, turn) for turn in ("r1.acceptance_tester.c1", "r1.proof.blind")]
    assert all(done.code == 0 for done in shown), [done.err for done in shown]
    assert SECRET not in "".join(done.out + done.err for done in shown)
    assert SECRET.encode() not in everything_in(cheat)
    (asked,) = (event for event in cheat.events(TurnAsked) if event.agent == "acceptance_tester")
    assert str(cheat.wd) not in asked.prompt
    state = cheat.state
    assert "acceptance_tester" not in state["terminals"]


def test_an_honest_program_passes_and_the_certificate_has_the_tests(honest: Sandbox) -> None:
    done = run(honest, "--blind")
    assert done.code == 0, done.err
    own = honest("proof", "--json").json
    assert own["proven"]
    assert own["steps"][-1]["step"] == "blind"
    assert own["acceptance_texts"]["files"] == {"test_blind.py": BLIND}
    assert own["acceptance_texts"]["requirements"][0]["requirement"] == SENTENCE
    assert "blind" in honest("proof").out
    again = honest("proof", "--again")
    assert again.code == 0, again.out


@pytest.mark.long
def test_an_exported_proof_has_the_tests(honest: Sandbox, tmp_path: Path) -> None:
    run(honest, "--blind")
    file = tmp_path / "proof.tar"
    assert honest("proof", "--export", str(file)).code == 0
    os.rename(acceptance_folder() / honest.run_id, tmp_path / "elsewhere")
    empty = tmp_path / "empty"
    empty.mkdir()
    again = honest.at(empty)("proof", "--again", str(file), "--trust-command")
    assert again.code == 0, again.out
    lost = honest("proof", "--again")
    assert lost.code == 1
    assert "lost" in lost.out


@pytest.mark.long
def test_tests_that_were_changed_prove_nothing(honest: Sandbox) -> None:
    tampering = f"for f in {acceptance_folder()}/*/kept/*; do echo '# more' >> $f; done"
    honest.script(
        {
            "programmer": [{"edit": HONEST}],
            "acceptance_tester": [TESTER],
            "tester": [{"run": tampering, "say": "RESULT: PASS\nEVIDENCE:\n- all passes\n"}],
        }
    )
    done = run(honest, "--blind")
    assert done.code not in (0, None)
    assert "somebody has changed the acceptance tests" in done.err


ELSEWHERE = {"say": SAID.replace("test_blind", "odd/blind"), "edit": {"tests/odd/blind.py": BLIND}}
WITHOUT_LINES = {"say": "They are written.", "edit": {"tests/test_blind.py": BLIND}}


@pytest.mark.long
def test_tests_that_the_command_does_not_run_are_sent_back_once(tmp_path: Path) -> None:
    second = {"say": SAID, "edit": {"tests/odd/blind.py": None, "tests/test_blind.py": BLIND}}
    shop = a_shop(tmp_path / "shop", HONEST, ELSEWHERE, second)
    done = run(shop, "--blind")
    assert done.code == 0, done.err
    again = next(event for event in shop.events(TurnAsked) if event.turn == "r1.acceptance_tester.c2")
    assert "does not run them where they are" in again.prompt
    assert SECRET.encode() not in everything_in(shop)


@pytest.mark.long
def test_without_usable_tests_the_run_pauses_before_the_programmer(tmp_path: Path) -> None:
    shop = a_shop(tmp_path / "shop", HONEST, WITHOUT_LINES)
    done = run(shop, "--blind")
    assert done.code == 1
    assert "the acceptance tests cannot be used" in done.err
    assert "r1.programmer.c1" not in shop.asked
    more = ("--resume", "--set", "proof.blind=0")
    done = shop("run", *more, "--simulate", str(shop.script_path))
    assert done.code == 0, done.err
    assert ProofStep.BLIND not in proof_steps(shop)


@pytest.mark.parametrize("start", ["programmer", "tester"])
def test_a_run_that_starts_after_the_analysis_has_no_blind_tests(honest: Sandbox, start: str) -> None:
    done = run(honest, "--blind", "--set", f"start_agent={start}")
    assert done.code == 1
    assert f"a run that starts at the {start} has none" in done.err
    assert not honest.logs()


def test_without_a_proof_there_are_no_blind_tests(honest: Sandbox) -> None:
    done = run(honest, "--blind", "--set", "verify_pass=0")
    assert done.code == 1
    assert "need a proof" in done.err


@pytest.mark.long
def test_garbage_collection_removes_the_tests_with_their_run(honest: Sandbox) -> None:
    run(honest, "--blind")
    folder = acceptance_folder() / honest.run_id
    assert folder.stat().st_mode & 0o077 == 0
    assert honest("gc").code == 0
    assert folder.exists()
    done = honest("gc", "--keep-days", "0", "--keep-runs", "0")
    assert done.code == 0, done.err
    assert not folder.exists()


HOLD = "import os, time\nwhile os.environ.get('HOLD') and os.path.exists('test_blind.py'):\n    time.sleep(0.05)\n"


@pytest.mark.long
@pytest.mark.parametrize("step", [ProofStep.BLIND_BASE, ProofStep.BLIND])
def test_a_driver_killed_while_blind_tests_run_leaves_nothing(tmp_path: Path, step: ProofStep) -> None:
    files = {**SHOP, "hold.py": HOLD, "test_cart.py": f"import hold\n{SHOP['test_cart.py']}"}
    shop = Sandbox.of_repository(tmp_path / "shop", files, **HASTE, PROOF_ENV="HOLD")
    tester = {**TESTER, "edit": {"tests/test_blind.py": f"import hold\n{BLIND}"}}
    shop.script({"programmer": [{"edit": HONEST}], "acceptance_tester": [tester]})
    words = ["run", "add tax", "--test", TEST, "--blind", "--simulate", str(shop.script_path)]
    before = {ProofStep.BLIND_BASE: AcceptanceWritten, ProofStep.BLIND: ProofRan}[step]

    def is_due() -> bool:
        events = shop.events(before) if shop.logs() else []
        return bool(events) and (step is ProofStep.BLIND_BASE or events[-1].step is ProofStep.RED)

    driver = shop.start(*words, HOLD="1" if step is ProofStep.BLIND_BASE else "")
    if step is ProofStep.BLIND:
        wait_for(lambda: shop.logs() and ProofStep.BLIND_BASE in proof_steps(shop), "the base", process=driver)
        os.kill(driver.pid, signal.SIGKILL)
        wait_for_exit(driver)
        driver = shop.start(*words, HOLD="1")
    wait_for(is_due, step, process=driver)
    wait_for(lambda: any(rooms_folder().glob("*/*/commands/*")), "the command", process=driver)
    os.kill(driver.pid, signal.SIGKILL)
    assert wait_for_exit(driver) == -signal.SIGKILL
    assert SECRET.encode() not in everything_in(shop)
    done = shop.apart(*words, HOLD="")
    assert done.code == 0, done.err
    assert len(shop.events(AcceptanceWritten)) == 1
    assert proof_steps(shop).count(step) == 1
    assert rooms_left() == []
    wait_for(lambda: not shop.left_behind(), shop.left_behind)
    assert SECRET.encode() not in everything_in(shop)
    assert shop.git("stash", "list") == ""
    assert shop.refs("refs/heads") == ["refs/heads/main"]
    shop.close()
