"""The proof of a PASS as a person meets it: its certificate, exported and repeated, and what it changes of a run."""

from __future__ import annotations

import io
import json
import os
import signal
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from logos.adapters.proof.rooms import rooms_folder
from logos.domain.events import Noted, ProofRan, RunEnded, Topic
from logos.domain.proof import ProofStep
from logos.domain.turns import Outcome
from tests.support.repositories import write_files
from tests.support.sandbox import Done, Sandbox
from tests.support.waiting import wait_for, wait_for_exit

HASTE = {"MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1", "POLL_SECONDS": "0.05", "EXPECT_CHANGE": ""}
TEST = "python3 -m unittest"
HELLO = "def hello(name):\n    return 'hello ' + name\n"
BYE = "def bye(name):\n    return 'bye ' + name\n"


def a_test(module: str, function: str, expected: str, more: str = "") -> str:
    return (
        f"import unittest\n\nfrom {module} import {function}\n{more}\n\n"
        f"class {function.title()}(unittest.TestCase):\n"
        f"    def test_{function}(self):\n        self.assertEqual({function}('Ada'), {expected!r})\n"
    )


SHOP = {"hello.py": HELLO, "test_hello.py": a_test("hello", "hello", "hello Ada"), ".gitignore": "__pycache__/\n"}
WORK = {"bye.py": BYE, "test_bye.py": a_test("bye", "bye", "bye Ada")}
# It breaks hello(), and the test that would notice.
CHEAT = {"hello.py": HELLO.replace("'hello '", "'hi '"), "test_hello.py": a_test("hello", "hello", "hi Ada")}


def a_shop(folder: Path, work: dict[str, str] | None = None) -> Sandbox:
    shop = Sandbox.of_repository(folder, SHOP, **HASTE)
    shop.script({"programmer": [{"edit": WORK if work is None else work}]})
    return shop


def run(shop: Sandbox, *arguments: str, test: str = TEST) -> Done:
    return shop("run", "say bye", "--test", test, *arguments, "--simulate", str(shop.script_path))


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Sandbox]:
    made = a_shop(tmp_path / "shop")
    yield made
    made.close()


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """A run with a proven PASS; tests only read it."""
    made = a_shop(tmp_path_factory.mktemp("passed") / "shop")
    done = run(made)
    assert done.code == 0, done.err
    return made


@pytest.fixture(scope="module")
def exported(passed: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("exported") / "proof.tar"
    done = passed("proof", "--export", str(file))
    assert done.code == 0, done.err
    return file


def steps_of(shop: Sandbox) -> list[ProofStep]:
    return [event.step for event in shop.events(ProofRan)]


def schema_of(shop: Sandbox, command: str) -> Draft202012Validator:
    published = shop("schema", "--output").json
    for definition in published["$defs"].values():
        definition["additionalProperties"] = False
    (ref,) = (one["$ref"] for one in published["anyOf"] if one["title"] == command)
    return Draft202012Validator({"$ref": ref, "$defs": published["$defs"]})


def rooms_left() -> list[str]:
    return [str(path) for path in rooms_folder().glob("*")]


# --- the certificate


def test_the_certificate_of_a_pass_is_a_published_document(passed: Sandbox) -> None:
    document = passed("proof", "--json").json
    schema_of(passed, "logos proof").validate(document)
    assert (document["outcome"], document["proven"], document["not_proven"]) == ("PASSED", True, None)
    assert [step["step"] for step in document["steps"]] == ["result", "guarded", "canary", "red"]
    assert all(step["supports"] for step in document["steps"])
    assert document["base"]["tree"] == document["baseline"]["tree"]
    assert passed.git("rev-parse", f"{document['result']['commit']}^{{tree}}") == document["result"]["tree"]
    assert document["steps"][0]["tests"]["passed"] == ["test_bye.py::Bye::test_bye", "test_hello.py::Hello::test_hello"]
    assert document["guarded"] == ["test_bye.py"]
    assert "+        self.assertEqual(bye('Ada')" in document["patch"]
    assert [found["who"] for found in document["approvals"]] == ["peer analyst", "peer programmer"]
    assert document["written_by"]["logos"]
    assert len(document["head"]) == 64


@pytest.mark.long
def test_a_person_reads_it_at_eighty_columns(passed: Sandbox) -> None:
    done = passed("proof")
    assert done.code == 0
    assert done.out.startswith(f"PROVEN: run {passed.run_id}, PASSED\n")
    body = done.out.partition("Where to look next:")[0]
    assert [line for line in body.splitlines() if len(line) > 80 and " " in line.strip()] == []


@pytest.mark.long
def test_what_agents_wrote_is_shown_without_control_characters(tmp_path: Path) -> None:
    shop = a_shop(tmp_path / "shop")
    said = "\x1b[31m- test_bye.py: red \x07 letters\n"
    shop.script({"programmer": [{"edit": WORK}], "analyst": [{"say": f"Tests that must change:\n{said}"}]})
    assert run(shop).code == 0
    assert "\x1b" not in shop("proof").out


def test_show_and_report_have_a_row_for_every_step(passed: Sandbox) -> None:
    shown, report = passed("show", passed.run_id).out, passed("report").out
    for step in ("result", "guarded", "canary", "red"):
        assert f"r1.proof.{step}" in shown
        assert f"r1.proof.{step}" in report


@pytest.mark.long
def test_a_step_in_which_nothing_could_be_planted_claims_nothing(tmp_path: Path) -> None:
    shop = a_shop(tmp_path / "shop")
    # Its tests are made by a loop, and no others of the file are run.
    made = (
        "import unittest\nfrom hello import hello\nclass Hello(unittest.TestCase): pass\n"
        "for name in ('Ada', 'Bob'):\n"
        "    setattr(Hello, f'test_{name}', lambda self, name=name: self.assertEqual(hello(name), f'hello {name}'))\n"
        "def load_tests(loader, tests, pattern): return loader.loadTestsFromTestCase(Hello)\n"
    )
    (shop.wd / "test_hello.py").write_text(made)
    done = run(shop)
    assert done.code == 0, done.err
    assert "no test could be made to fail" in done.out
    assert "r1.proof.canary planted tests, which must fail: no test could be made to fail" in shop("log").out
    shown = shop("proof").out
    told = " ".join(shown.split())
    assert "No test could be made to fail, so it is not known whether failures are noticed." in told
    assert "nothing hides failures" not in told
    assert "no sandbox" not in told
    document = shop("proof", "--json").json
    (canary,) = (step for step in document["steps"] if step["step"] == "canary")
    assert canary["subject"] == []


def test_a_pass_that_nobody_verified_says_why_it_is_not_proven(shop: Sandbox) -> None:
    assert run(shop, "--set", "verify_pass=0").code == 0
    done = shop("proof")
    assert (done.code, done.out.splitlines()[0]) == (0, f"NOT PROVEN: run {shop.run_id}, PASSED, unverified")
    assert "verification was turned off (VERIFY_PASS=0)" in " ".join(done.out.split())
    assert shop("proof", "--again").code == 2
    assert shop("proof", "--export", "proof.tar").code == 2


def test_without_a_run_there_is_no_certificate(shop: Sandbox) -> None:
    assert shop("proof").code == 2


# --- repeated


def test_a_repeated_proof_agrees_and_leaves_nothing(passed: Sandbox) -> None:
    before = passed.git("status", "--porcelain")
    done = passed("proof", "--again", "--json")
    assert done.code == 0, done.out
    schema_of(passed, "logos proof --again").validate(done.json)
    assert (done.json["agrees"], done.json["differences"]) == (True, [])
    assert [step["step"] for step in done.json["steps"]] == ["baseline", "result", "guarded", "canary", "red"]
    assert rooms_left() == []
    assert passed.git("status", "--porcelain") == before


def test_an_exported_proof_agrees_in_an_empty_folder(exported: Path, tmp_path: Path) -> None:
    empty = Sandbox(tmp_path)
    done = empty("proof", "--again", str(exported), "--trust-command")
    assert done.code == 0, done.out + done.err
    assert "AGREES: 5 steps repeated" in done.out
    assert TEST in done.err
    assert [*tmp_path.iterdir()] == []
    assert rooms_left() == []


def test_nothing_of_a_file_is_executed_without_consent(exported: Path, tmp_path: Path) -> None:
    done = Sandbox(tmp_path)("proof", "--again", str(exported), stdin="")
    assert done.code == 2
    assert f"executes `{TEST}`" in done.err
    assert "nothing was executed" in done.err


def test_the_export_is_a_published_document(passed: Sandbox, tmp_path: Path) -> None:
    done = passed("proof", "--export", str(tmp_path / "p.tar"), "--json")
    schema_of(passed, "logos proof --export").validate(done.json)


def edited(exported: Path, to: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A copy of an exported proof with another certificate."""
    with tarfile.open(exported) as old, tarfile.open(to, "w:") as new:
        for member in old.getmembers():
            source = old.extractfile(member)
            assert source is not None
            content = source.read()
            if member.name == "certificate.json":
                document = json.loads(content)
                change(document)
                content = json.dumps(document).encode()
            member.size = len(content)
            new.addfile(member, io.BytesIO(content))
    return to


def _drop_guarded(document: dict[str, Any]) -> None:
    document["steps"] = [step for step in document["steps"] if step["step"] != "guarded"]


def _more_tests(document: dict[str, Any]) -> None:
    document["steps"][0]["tests"]["passed"].append("test_more.py::More::test_more")


def _other_command(document: dict[str, Any]) -> None:
    document["rules"]["command"] = "true"


def _other_result(document: dict[str, Any]) -> None:
    document["steps"][0]["commit"] = document["base"]["commit"]


def _green(document: dict[str, Any]) -> None:
    document["steps"][-1]["exit_code"] = 0


@pytest.mark.parametrize(
    "change",
    [
        _drop_guarded,
        *(
            pytest.param(change, marks=pytest.mark.long)
            for change in (_green, _more_tests, _other_command, _other_result)
        ),
    ],
)
def test_a_certificate_that_was_changed_disagrees(
    exported: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    forged = edited(exported, tmp_path / "forged.tar", change)
    done = Sandbox(tmp_path)("proof", "--again", str(forged), "--trust-command")
    assert done.code == 1, done.out
    assert "DISAGREES" in done.out


@pytest.mark.parametrize("flip", [False, True], ids=["other commits", "damaged"])
def test_a_bundle_that_was_changed_is_refused(exported: Path, tmp_path: Path, flip: bool) -> None:
    other = a_shop(tmp_path / "other")
    other.git("bundle", "create", "-q", str(tmp_path / "other.bundle"), "HEAD")
    forged = tmp_path / "forged.tar"
    with tarfile.open(exported) as old, tarfile.open(forged, "w:") as new:
        for member in old.getmembers():
            source = old.extractfile(member)
            assert source is not None
            content = source.read()
            if member.name == "proof.bundle":
                half = len(content) // 2
                damaged = content[:half] + bytes([content[half] ^ 255]) + content[half + 1 :]
                content = damaged if flip else (tmp_path / "other.bundle").read_bytes()
            member.size = len(content)
            new.addfile(member, io.BytesIO(content))
    (tmp_path / "empty").mkdir()
    done = Sandbox(tmp_path / "empty")("proof", "--again", str(forged), "--trust-command")
    assert done.code == 1
    assert "the git bundle" in done.err
    assert rooms_left() == []


def test_a_file_that_is_no_exported_proof_is_refused(tmp_path: Path) -> None:
    (tmp_path / "proof.tar").write_text("not a tar file")
    done = Sandbox(tmp_path)("proof", "--again", "proof.tar", "--trust-command")
    assert (done.code, done.err.startswith("logos: proof.tar is not an exported proof")) == (2, True)


# --- what may change, and what must be proven


def test_a_weakened_test_is_no_pass_unless_a_person_allows_it(tmp_path: Path) -> None:
    cheating = a_shop(tmp_path / "cheating", CHEAT)
    done = run(cheating, "--set", "limits.max_rounds=1")
    assert done.code == 1
    assert "the tester's PASS is not believed" in done.err
    assert "NOT PROVEN" in cheating("proof").out
    allowed = a_shop(tmp_path / "allowed", CHEAT)
    assert run(allowed, "--may-change", "test_hello.py", "--may-change", "other,file.py").code == 0
    document = allowed("proof", "--json").json
    assert document["rules"]["may_change"] == ["test_hello.py", "other,file.py"]
    assert document["declared"][0]["files"] == ["test_hello.py"]


@pytest.mark.long
def test_a_test_that_fails_before_the_run_may_go_on_failing_if_a_person_says_so(tmp_path: Path) -> None:
    broken = {"test_old.py": a_test("hello", "hello", "good day Ada")}
    for arguments, code in ((("--known-failing", "test_old.py"), 0), ((), 1)):
        shop = Sandbox.of_repository(tmp_path / f"shop{code}", {**SHOP, **broken}, **HASTE)
        shop.script({"programmer": [{"edit": WORK}]})
        assert run(shop, *arguments, "--set", "limits.max_rounds=1").code == code


def test_where_a_proof_is_required_an_unverified_pass_exits_one(shop: Sandbox) -> None:
    done = run(shop, "--set", "proof.required=1", "--set", "verify_pass=0")
    assert done.code == 1
    assert "proof.required is set, and the PASS is not verified: " in done.out
    assert shop.state["final_status"] == "PASS"


@pytest.mark.long
def test_where_a_proof_is_required_a_proven_pass_exits_zero(shop: Sandbox) -> None:
    assert run(shop, "--set", "proof.required=1").code == 0


# --- post-processing


@pytest.mark.long
def test_a_work_tree_that_changed_after_the_proof_is_not_committed(shop: Sandbox) -> None:
    def work(_prompt: str) -> str:
        write_files(shop.wd, WORK)
        return "PROGRAMMER_SUMMARY:\n- bye() says bye\n"

    def meddle(record: Any, state: Any, _ledger: Any) -> None:
        if isinstance(record.event, RunEnded) and state.outcome is Outcome.PASSED:
            (shop.wd / "bye.py").write_text("print('not what was proven')\n")

    shop.hire(programmer=[work])
    before = shop.git("rev-parse", "HEAD")
    ended = shop.run(watchers=[meddle], PROJECT_TEST_CMD=TEST, POST_GIT_COMMIT="1")
    assert ended.outcome is Outcome.PASSED
    assert shop.git("rev-parse", "HEAD") == before
    notes = [event.text for event in shop.events(Noted) if event.topic is Topic.AFTERWARDS]
    assert notes == ["the work tree has changed since it was proven (bye.py); nothing is archived or committed"]
    write_files(shop.wd, WORK)
    assert shop("resume", "--set", "post_processing.git_commit=1").code == 0
    assert shop.git("show", "--format=", "--name-only", "HEAD").splitlines() == ["bye.py", "test_bye.py"]


# --- killed inside a step

HOLD = """
import os, pathlib, time

files = {path.name for path in pathlib.Path().glob("*.py")}
steps = {
    (False, False): "baseline",
    (True, True): "result",
    (True, False): "guarded",
    (False, True): "red",
}
is_planted = "return" in pathlib.Path("test_hello.py").read_text()
step = "canary" if is_planted else steps["bye.py" in files, "test_bye.py" in files]
while os.environ.get("HOLD") == step:
    time.sleep(0.05)
"""
HELD = {"hold.py": HOLD, **SHOP, "test_hello.py": a_test("hello", "hello", "hello Ada", "import hold\n")}
HELD_WORK = {"bye.py": BYE, "test_bye.py": a_test("bye", "bye", "bye Ada", "import hold\n")}


@pytest.mark.long
def test_a_driver_killed_inside_each_step_repeats_no_step_and_leaves_nothing(tmp_path: Path) -> None:
    shop = Sandbox.of_repository(tmp_path / "shop", HELD, **HASTE, PROOF_ENV="HOLD")
    shop.script({"programmer": [{"edit": HELD_WORK}]})
    words = ["run", "say bye", "--test", TEST, "--simulate", str(shop.script_path)]

    def command_runs() -> bool:
        return any(rooms_folder().glob("*/*/commands/*"))

    for step in ProofStep:
        if step in (ProofStep.BLIND, ProofStep.BLIND_BASE):
            continue
        driver = shop.start(*words, HOLD=step)
        if step is not ProofStep.BASELINE:
            before = [*ProofStep][[*ProofStep].index(step) - 1]
            wait_for(lambda: before in steps_of(shop) if shop.logs() else False, before, process=driver)  # noqa: B023
        wait_for(command_runs, f"the command of {step}", process=driver)
        os.kill(driver.pid, signal.SIGKILL)
        assert wait_for_exit(driver) == -signal.SIGKILL
    done = shop.apart(*words, HOLD="")
    assert done.code == 0, done.err
    assert steps_of(shop) == [ProofStep.BASELINE, *(ProofStep(name) for name in ("result", "guarded", "canary", "red"))]
    assert rooms_left() == []
    wait_for(lambda: not shop.left_behind(), shop.left_behind)
    assert shop.git("status", "--porcelain").split() == ["??", "bye.py", "??", "test_bye.py"]
    assert shop.git("stash", "list") == ""
    assert shop.refs("refs/heads") == ["refs/heads/main"]
