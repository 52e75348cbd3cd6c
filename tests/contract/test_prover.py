"""The port Prover: each step runs on exactly its files, in a room that leaves nothing behind, with and without a sandbox."""

from __future__ import annotations

import itertools
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from logos.domain.proof import CountedTests, Network, ProofStep
from tests.support.proving import SANDBOXES, Project, contents, rooms_left
from tests.support.repositories import git, make_repository, write_files

PYTEST = f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -m pytest -q -p no:cacheprovider"
# It starts in a tenth of the time.
UNITTEST = f"{sys.executable} -m unittest discover -s tests -t ."
CASE = "import unittest\n\n\nclass Case(unittest.TestCase):\n    def test_{}(self):\n        {}\n"
PRICE = CASE.format("price", "self.assertEqual(__import__('shop').price(), 1)")
SHOP = {"shop.py": "def price():\n    return 1\n", "tests/__init__.py": "", "tests/test_shop.py": PRICE}
DEARER = {"shop.py": "def price():\n    return 2\n"}
WEAKENED = {"tests/test_shop.py": CASE.format("price", "pass")}
TESTED = "tests/test_shop.py::Case::test_price"
Make = Callable[..., Project]


# What is made of a project is the same with and without a sandbox: in `make test` once, in `make test-long` without, too.
once = pytest.mark.parametrize("make", ["bubblewrap", pytest.param("none", marks=pytest.mark.long)], indirect=True)


@pytest.fixture(params=SANDBOXES)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes projects; afterwards no room is left, and the person's repository is as it was."""
    made: list[Project] = []

    def project(files: dict[str, str] = SHOP, below: str = "") -> Project:
        made.append(Project.of(tmp_path / "repo", files, request.param, below))
        return made[-1]

    yield project
    for one in made:
        one.prover.close()
    assert rooms_left() == []


def test_the_baseline_runs_the_command_on_the_files_of_the_base(make: Make) -> None:
    shop = make(
        {**SHOP, "tests/test_shop.py": "from shop import price\n\n\ndef test_price():\n    assert price() == 1\n"}
    )
    ran = shop.baseline(PYTEST)
    assert (ran.exit_code, ran.problem) == (0, ""), ran
    assert ran.tests is not None
    assert ran.tests.passed == ("tests/test_shop.py::test_price",)
    assert ran.tree == git(shop.wd, "rev-parse", f"{ran.commit}^{{tree}}").strip()
    assert ran.room.seconds > 0
    assert ran.room.sandbox == ("bubblewrap" if shop.sandbox else "")


def test_uncommitted_work_is_part_of_the_base_and_ignored_files_are_not(make: Make) -> None:
    shop = make({**SHOP, ".gitignore": "secret.txt\n"})
    write_files(shop.wd, {"new.txt": "new", "secret.txt": "hidden", "shop.py": "edited"})
    ran = shop.baseline("cat shop.py new.txt; ls; pwd")
    assert ran.output.startswith("editednew")
    assert "secret.txt" not in ran.output


@once
def test_the_result_is_proven_with_its_own_tests(make: Make) -> None:
    shop = make()
    before = shop.baseline(UNITTEST)
    shop.write(DEARER)
    ran = shop.result(UNITTEST, before)
    assert ran.exit_code == 1
    assert ran.tests is not None
    assert ran.tests.failed == ("tests/test_shop.py::Case::test_price",)


@once
def test_the_guarded_step_puts_back_exactly_what_steers_the_tests(make: Make) -> None:
    shop = make({**SHOP, "tests/data.txt": "data", "pyproject.toml": '[project]\nname = "shop"\n'})
    base = shop.take()
    shop.write(
        {
            **DEARER,
            **WEAKENED,
            "pytest.ini": "[pytest]\naddopts = --co\n",
            "pyproject.toml": '[project]\nname = "shop2"\n[tool.pytest.ini_options]\naddopts = "--co"\n',
        }
    )
    result = shop.delete("tests/data.txt")
    ran = shop.prove(ProofStep.GUARDED, f"ls; cat pyproject.toml tests/data.txt; {UNITTEST}", base, result)
    assert ran.subject == ("pyproject.toml", "pytest.ini", "tests/data.txt", "tests/test_shop.py")
    assert "pytest.ini" not in ran.output
    assert 'name = "shop2"' in ran.output
    assert "addopts" not in ran.output
    assert ran.tests is not None
    assert ran.tests.failed == ("tests/test_shop.py::Case::test_price",)
    assert ran.tree != git(shop.wd, "rev-parse", f"{result}^{{tree}}").strip()


@once
def test_declared_changes_of_guarded_files_stay(make: Make) -> None:
    shop = make()
    base = shop.take()
    result = shop.write({**DEARER, **WEAKENED, "tests/test_more.py": CASE.format("more", "self.fail()")})
    ran = shop.prove(ProofStep.GUARDED, UNITTEST, base, result, declared=("tests/test_shop.py",))
    assert ran.subject == ("tests/test_more.py",)
    assert ran.exit_code == 0


@once
def test_a_result_without_guarded_changes_is_not_run_twice(make: Make) -> None:
    shop = make()
    base = shop.take()
    result = shop.write({**DEARER, **WEAKENED})
    steps = (ProofStep.GUARDED, ProofStep.RESULT, ProofStep.GUARDED)
    unknown, own, known = (shop.prove(step, UNITTEST, base, result, may_change=("tests/",)) for step in steps)
    assert (unknown.tree, unknown.exit_code, unknown.tests) == (own.tree, own.exit_code, own.tests)
    assert (known.subject, known.tree, known.exit_code, known.tests) == ((), own.tree, own.exit_code, own.tests)
    assert "not run again" in known.output


def test_a_link_in_place_of_the_tests_is_replaced_by_the_tests(make: Make, tmp_path: Path) -> None:
    shop = make()
    base = shop.take()
    (tmp_path / "elsewhere").mkdir()
    shop.delete("tests")
    (shop.wd / "tests").symlink_to(tmp_path / "elsewhere")
    ran = shop.prove(ProofStep.GUARDED, UNITTEST, base, shop.take())
    assert (ran.exit_code, ran.subject) == (0, ("tests/__init__.py", "tests/test_shop.py"))
    assert [*(tmp_path / "elsewhere").iterdir()] == []


@once
def test_planted_tests_fail_and_are_reported(make: Make) -> None:
    shop = make()
    base = shop.take()
    result = shop.write({"shop.py": "def price():\n    return 1 + 0\n", **WEAKENED})
    ran = shop.prove(ProofStep.CANARY, UNITTEST, base, result, passed=(TESTED,))
    assert ran.subject == (TESTED,)
    assert ran.tests is not None
    assert ran.tests.failed == ran.subject
    assert ran.exit_code != 0


@once
def test_a_planted_test_of_code_that_patches_assertions_does_not_fail(make: Make) -> None:
    shop = make()
    base = shop.take()
    patch = "import unittest\n\nunittest.TestCase.assertEqual = lambda *_: None\n"
    result = shop.write({"shop.py": patch + DEARER["shop.py"]})
    before = CountedTests("unittest", (TESTED,))
    ran = shop.prove(ProofStep.CANARY, UNITTEST, base, result, passed=(TESTED,), before=before)
    assert ran.subject == (TESTED,)
    assert ran.tests is not None
    assert ran.tests.failed == ("::(unittest.case.TestCase.assertEqual was replaced)",)


def test_what_was_replaced_before_the_run_as_well_is_not_held_against_it(make: Make) -> None:
    patch = "import json\n\njson.loads = lambda text: 1\n"
    shop = make({**SHOP, "shop.py": patch + SHOP["shop.py"]})
    base, before = shop.take(), CountedTests("unittest", (TESTED,))
    result = shop.write({"shop.py": patch + "def price():\n    return 1 + 0\n"})
    ran = shop.prove(ProofStep.CANARY, UNITTEST, base, result, passed=(TESTED,), before=before)
    assert (ran.subject, ran.tests and ran.tests.failed) == ((TESTED,), (TESTED,))


@once
def test_a_test_that_nobody_can_make_fail_is_left_out(make: Make) -> None:
    patient = "import functools\n\n\ndef patient(test):\n    @functools.wraps(test)\n    def run(self):\n"
    patient += (
        "        try:\n            test(self)\n        except AssertionError:\n            pass\n    return run\n"
    )
    test = CASE.format("odd", "self.assertTrue(1)").replace("    def", "    @__import__('patient').patient\n    def")
    shop = make({**SHOP, "patient.py": patient, "tests/test_odd.py": test})
    odd = "tests/test_odd.py::Case::test_odd"
    base = shop.take()
    result = shop.write({"shop.py": "def price():\n    return 1 + 0\n"})
    before = CountedTests("unittest", (odd, TESTED))
    ran = shop.prove(ProofStep.CANARY, UNITTEST, base, result, passed=(odd, TESTED), before=before)
    assert ran.subject == (TESTED,)


MADE = {
    **SHOP,
    "tests/test_shop.py": "import unittest\n\nimport shop\n\n\nclass Case(unittest.TestCase):\n    pass\n\n\n"
    "setattr(Case, 'test_price', lambda self: self.assertEqual(shop.price(), 1))\n",
}


@once
@pytest.mark.parametrize("reruns", [0, 1])
@pytest.mark.parametrize("is_patched", [False, True], ids=["honest", "cheat"])
def test_a_failing_test_stands_beside_those_that_cannot_be_planted(make: Make, reruns: int, is_patched: bool) -> None:
    shop = make(MADE)
    base, before = shop.take(), CountedTests("unittest", (TESTED,))
    patch = "import unittest\n\nunittest.TestCase.assertEqual = lambda *_: None\n"
    result = shop.write({"shop.py": patch + DEARER["shop.py"] if is_patched else "def price():\n    return 1 + 0\n"})
    ran = shop.prove(ProofStep.CANARY, UNITTEST, base, result, passed=(TESTED,), before=before, reruns=reruns)
    (added,) = ran.subject
    assert added.startswith("tests/test_shop.py::")
    assert added != TESTED
    assert ran.tests is not None
    assert (added in ran.tests.failed) != is_patched


@once
@pytest.mark.parametrize("reruns", [0, 1])
def test_a_test_beside_that_does_not_run_before_the_run_either_is_left_out(make: Make, reruns: int) -> None:
    shop = make(MADE)
    base, before = shop.take(), CountedTests("unittest", (TESTED,))
    result = shop.write({"shop.py": "def price():\n    return 1 + 0\n"})
    command = f"{UNITTEST} -k test_price"
    ran = shop.prove(ProofStep.CANARY, command, base, result, passed=(TESTED,), before=before, reruns=reruns)
    assert (ran.subject, ran.exit_code) == ((), 0)


@once
def test_no_test_stands_beside_in_a_file_that_was_not_there_before_the_run(make: Make) -> None:
    shop = make()
    base, before = shop.take(), CountedTests("unittest", (TESTED,))
    result = shop.write({"tests/test_more.py": MADE["tests/test_shop.py"]})
    passed = (TESTED, "tests/test_more.py::Case::test_price")
    ran = shop.prove(ProofStep.CANARY, UNITTEST, base, result, passed=passed, before=before, may_change=("tests/",))
    assert ran.subject == (TESTED,)


@once
def test_a_script_of_a_command_that_counts_no_tests_is_made_to_fail(make: Make) -> None:
    forges = "import atexit, os\natexit.register(os._exit, 0)\n"
    shop = make({"shop.py": "", "check.py": "import shop\n\nassert shop\n"})
    base = shop.take()
    honest, forged = (
        shop.prove(ProofStep.CANARY, f"{sys.executable} check.py", base, shop.write({"shop.py": text}))
        for text in ("x = 1\n", forges)
    )
    assert (honest.subject, forged.subject) == (("check.py",), ("check.py",))
    assert honest.exit_code != 0
    assert forged.exit_code == 0


@once
def test_new_tests_run_on_the_old_source(make: Make) -> None:
    shop = make()
    base = shop.take()
    new = {"tests/test_shop.py": PRICE.replace("1", "2"), "tests/test_new.py": CASE.format("new", "pass")}
    ran = shop.prove(ProofStep.RED, UNITTEST, base, shop.write({**DEARER, **new}))
    assert ran.subject == ("tests/test_new.py", "tests/test_shop.py")
    assert ran.commit == base
    assert ran.tests is not None
    assert ran.tests.failed == ("tests/test_shop.py::Case::test_price",)
    assert ran.tests.passed == ("tests/test_new.py::Case::test_new",)


def test_without_new_tests_nothing_is_run_on_the_old_source(make: Make) -> None:
    shop = make()
    ran = shop.prove(ProofStep.RED, "exit 3", shop.take(), shop.write({"shop.py": "x = 1\n"}))
    assert (ran.exit_code, ran.subject, ran.tests) == (0, (), None)


@once
def test_a_test_that_fails_once_is_flaky(make: Make) -> None:
    with counting_server() as port:
        ask = f"self.assertNotEqual(__import__('socket').create_connection(('127.0.0.1', {port})).recv(9), b'1')"
        odd = CASE.format("odd", ask) + "\n    def test_bad(self):\n        self.fail()\n"
        ran = make({**SHOP, "tests/test_odd.py": odd}).baseline(UNITTEST, network=Network.ON)
    assert ran.tests is not None, ran
    assert ran.tests.flaky == ("tests/test_odd.py::Case::test_odd",)
    assert ran.tests.failed == ("tests/test_odd.py::Case::test_bad",)
    assert ran.tests.passed == ("tests/test_shop.py::Case::test_price",)
    assert ran.exit_code == 1


@contextmanager
def counting_server() -> Iterator[int]:
    """A server that tells each client how many there were."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                for number in itertools.count(1):
                    with server.accept()[0] as client:
                        client.sendall(str(number).encode())

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_in_a_monorepo_the_command_runs_in_its_folder_and_sees_the_others(make: Make) -> None:
    files = {f"packages/shop/{name}": text for name, text in SHOP.items()}
    shop = make({**files, "packages/lib/lib.txt": "library", "top.txt": "top"}, "packages/shop")
    before = shop.baseline(f"cat ../lib/lib.txt ../../top.txt && {UNITTEST}")
    assert (before.exit_code, before.problem) == (0, "")
    assert before.output.startswith("librarytop")
    assert before.tests is not None
    assert before.tests.passed == ("tests/test_shop.py::Case::test_price",)
    result = shop.write({**DEARER, **WEAKENED})
    assert shop.prover.changed(before.commit, result) == ("shop.py", "tests/test_shop.py")
    guarded = shop.prove(ProofStep.GUARDED, UNITTEST, before.commit, result)
    assert guarded.subject == ("tests/test_shop.py",)
    assert guarded.exit_code == 1
    red = shop.prove(ProofStep.RED, UNITTEST, before.commit, result)
    assert red.exit_code == 0


def test_the_room_has_a_repository_at_the_persons_head_with_tags(make: Make) -> None:
    shop = make()
    git(shop.wd, "tag", "v1.2")
    git(shop.wd, "config", "alias.hi", "!echo hi")
    ran = shop.baseline(
        "git describe --tags --dirty; git log --oneline | wc -l; git status --short; git config --get alias.hi"
    )
    assert ran.output.split() == ["v1.2", "1"]
    shop.write({"shop.py": "x = 1\n"})
    assert "v1.2-dirty" in shop.baseline("git describe --tags --dirty").output


def test_modes_links_and_bytes_are_as_stored(make: Make) -> None:
    shop = make({**SHOP, ".gitattributes": "*.crlf text eol=crlf\n*.id ident\n"})
    (shop.wd / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (shop.wd / "run.sh").chmod(0o755)
    (shop.wd / "a.crlf").write_bytes(b"one\ntwo\r\n")
    (shop.wd / "a.id").write_bytes(b"$Id$\n")
    (shop.wd / "link").symlink_to("run.sh")
    ran = shop.baseline("./run.sh; ./link; readlink link; od -c a.crlf | head -1; cat a.id")
    assert ran.problem == ""
    assert ran.output.split("\n")[:3] == ["ran", "ran", "run.sh"]
    assert r"o   n   e  \n   t   w   o  \r  \n" in ran.output
    assert "$Id$" in ran.output


def test_a_command_that_takes_too_long_is_ended(make: Make) -> None:
    ran = make().baseline("echo begun; sleep 600", timeout=0.5, network=Network.ON)
    assert ran.exit_code == 124
    assert "begun" in ran.output


def test_a_setup_makes_the_dependencies_in_the_room(make: Make) -> None:
    shop = make({**SHOP, ".gitignore": "deps/\n"})
    write_files(shop.wd, {"deps/x": "mine"})
    ran = shop.baseline("cat deps/x", setup="mkdir deps && echo made >deps/x && echo noise")
    assert (ran.exit_code, ran.output, ran.problem) == (0, "made\n", "")
    assert ran.room.setup.startswith("mkdir")
    assert ran.room.setup_seconds > 0
    assert ran.room.lent == ()


def test_a_setup_that_fails_is_a_problem_with_the_end_of_its_output(make: Make) -> None:
    ran = make().baseline("true", setup="echo it broke; exit 4")
    assert "exit code 4" in ran.problem
    assert "it broke" in ran.problem


def test_a_setup_that_changes_files_of_the_snapshot_is_a_problem(make: Make) -> None:
    ran = make().baseline("echo ran", setup="echo '# more' >>shop.py")
    assert "after the setup" in ran.problem
    assert "shop.py" in ran.problem
    assert "ran" not in ran.output


def test_only_variables_that_are_listed_reach_the_room(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example")
    monkeypatch.setenv("TOKEN", "secret")
    monkeypatch.setenv("PYTHONPATH", "/planted")
    monkeypatch.setenv("GIVEN", "given")
    monkeypatch.setenv("LC_TIME", "C")
    shop = make()
    ran = shop.baseline("env; pwd", setup="env >env.txt; cat env.txt; exit 1")
    assert "PIP_INDEX_URL=https://index.example" in ran.output
    assert "HTTPS_PROXY=http://proxy.example" in ran.output
    ran = shop.baseline("env", env=("GIVEN",))
    for absent in ("PIP_INDEX_URL", "HTTPS_PROXY", "TOKEN=secret", "/planted"):
        assert absent not in ran.output
    lines = ran.output.splitlines()
    assert {"GIVEN=given", "LC_TIME=C"} <= {*lines}
    home = next(line for line in lines if line.startswith("HOME="))
    assert home != f"HOME={os.environ['HOME']}"


def test_dependency_folders_are_lent_and_may_not_change(make: Make) -> None:
    shop = make({**SHOP, ".gitignore": "node_modules/\n", "package.json": "{}"})
    write_files(shop.wd, {"node_modules/dep/index.js": "1", "node_modules/.cache/x": "cached"})
    (shop.wd / "node_modules" / "link").symlink_to("dep")
    (shop.wd / "node_modules" / "file").write_text("2")
    look = "cat node_modules/dep/index.js node_modules/link/index.js node_modules/file; ls -A node_modules/.cache"
    before = shop.baseline(f"{look}; mkdir node_modules/.vite && echo made; echo 3 >node_modules/dep/index.js")
    assert [folder.path for folder in before.room.lent] == ["node_modules"]
    assert before.output.startswith("112")
    assert "made" in before.output
    assert "x" not in before.output.split()
    assert (shop.wd / "node_modules" / "dep" / "index.js").read_text() == "1"
    assert not (shop.wd / "node_modules" / ".vite").exists()
    write_files(shop.wd, {"node_modules/.cache/y": "cached", "shop.py": "x = 1\n"})
    assert shop.result("true", before).problem == ""
    write_files(shop.wd, {"node_modules/dep/index.js": "2"})
    ran = shop.result("echo ran", before)
    assert "node_modules changed since the run started" in ran.problem
    assert "proof.setup" in ran.problem
    assert "ran" not in ran.output
    assert shop.result("echo ran", before, setup="true").problem == ""


def test_a_large_lent_folder_is_lent_as_a_whole(make: Make) -> None:
    shop = make({**SHOP, ".gitignore": "node_modules/\n"})
    packages = {f"node_modules/dep{number}/index.js": "1" for number in range(201)}
    write_files(shop.wd, {**packages, "node_modules/.cache/x": "cached"})
    ran = shop.baseline("cat node_modules/dep200/index.js; echo; ls node_modules | wc -l; ls -A node_modules/.cache")
    assert ran.output.split()[:2] == ["1", "201"]
    assert "x" not in ran.output.split()


def test_a_lent_folder_that_is_new_or_gone_has_changed(make: Make) -> None:
    shop = make({**SHOP, ".gitignore": "node_modules/\nvendor/\n"})
    before = shop.baseline("true")
    assert before.room.lent == ()
    write_files(shop.wd, {"vendor/x.py": "planted"})
    assert "vendor changed" in shop.result("true", before).problem


def test_nothing_that_tests_write_reaches_the_work_tree(make: Make) -> None:
    shop = make({**SHOP, ".gitignore": "node_modules/\n"})
    write_files(shop.wd, {"node_modules/dep.js": "1"})
    shop.take()
    was = contents(shop.wd)
    writes = "echo x >new; echo x >shop.py; echo x >.git/hooks-x; git commit -qam x; rm -rf tests; echo x >node_modules/dep.js; mkdir -p ro/d; chmod 500 ro ro/d"
    ran = shop.baseline(writes)
    assert ran.problem == ""
    assert contents(shop.wd) == was


def test_files_that_snapshots_do_not_have_are_named_at_the_baseline(make: Make, tmp_path: Path) -> None:
    inner = make_repository(tmp_path / "inner", {"a": "a"})
    shop = make({**SHOP, ".gitattributes": "*.bin filter=lfs\n"})
    write_files(shop.wd, {"big.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"})
    git(shop.wd, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    git(shop.wd, "commit", "--quiet", "--all", "--message", "submodule")
    with (shop.wd / "huge").open("wb") as sink:
        sink.truncate(100_000_001)
    ran = shop.baseline("ls -d sub")
    assert (ran.exit_code, ran.problem) == (0, "")
    assert "the content of the submodules sub" in ran.output
    assert "the content of the Git LFS files big.bin" in ran.output
    assert "the files over 100 MB huge" in ran.output


def test_a_snapshot_that_does_not_exist_is_a_problem(make: Make) -> None:
    ran = make().prove(ProofStep.BASELINE, "echo ran", "1" * 40)
    assert "not in the repository" in ran.problem
    assert ran.exit_code != 0


def test_editable_installs_use_the_room(make: Make) -> None:
    shop = make({**SHOP, ".gitignore": ".venv/\n"})
    site = shop.wd / ".venv" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (site / "shop.pth").write_text(f"{shop.wd}\n")
    ran = shop.baseline(f"cat {shop.wd}/shop.py" if shop.sandbox else "true")
    if shop.sandbox:
        assert ran.output == SHOP["shop.py"]
    else:
        assert "shop.pth leads into the work tree" in ran.problem
        assert "proof.setup" in ran.problem
        assert shop.baseline("true", setup="true").problem == ""
        assert "names the work tree" in shop.baseline(f"cat {shop.wd}/shop.py", setup="true").problem


def test_the_network_is_off_unless_the_baseline_needs_it(make: Make) -> None:
    with counting_server() as port:
        ask = CASE.format("net", f"__import__('socket').create_connection(('127.0.0.1', {port})).recv(9)")
        shop = make({**SHOP, "tests/test_net.py": ask})
        needing = shop.baseline(UNITTEST)
        assert (needing.exit_code, needing.room.network) == (0, True)
        assert shop.result(UNITTEST, needing, needs_network=True).exit_code == 0
        cut = shop.result(UNITTEST, needing, needs_network=False)
        never = shop.baseline(UNITTEST, network=Network.OFF)
    for ran in (cut, never):
        assert (ran.exit_code, ran.room.network) == ((1, False) if shop.sandbox else (0, True))
    assert shop.baseline("true").room.network is (shop.sandbox is None)
    assert shop.baseline("false").room.network is (shop.sandbox is None)
    assert shop.baseline("true", network=Network.ON).room.network
