"""Breaks the source on purpose, one clause of the spec at a time, and runs the tests that name the clause's scenario.

usage: python tools/mutants.py [SCENARIO ...]     such as CYC-04 or LOG; without, the whole table (tools/mutants.toml)

A breakage is killed when a test that is marked with its own scenario fails. One that no such test notices survives:
the test is too weak. Nothing is changed in the work tree: each worker breaks its own copy of source and tests.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue

import pytest

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tools" / "mutants.toml"
SOURCE = ROOT / "src" / "logos"
SCENARIOS = [
    f"{document}-{number:02}"
    for document, last in {"CYC": 28, "PRD": 30, "HND": 12, "RTY": 11, "LOG": 16}.items()
    for number in range(1, last + 1)
]
# Quick tests of real parts in this process: the others are slow, or need programs that are not always there.
CHOSEN = "not long and not live and not torture"
# The quickest first: most breakages are noticed by them, and the others are not even imported then.
FOLDERS = ("tests/unit", "tests/contract", "tests/acceptance")
# A broken program may wait for ever; its test then counts as failed.
LONGEST_TEST_SECONDS = 60
WORKERS = int(os.environ.get("WORKERS", "2"))


@dataclass(frozen=True)
class Mutant:
    """A text of a source file that is replaced by another, so that a clause of a scenario does not hold any more."""

    scenario: str
    clause: str
    file: str
    old: str
    new: str

    @property
    def problem(self) -> str:
        """Why it cannot be applied, if so."""
        path = SOURCE / self.file
        if not path.is_file():
            return f"there is no file {self.file}"
        found = path.read_text(encoding="utf-8").count(self.old)
        if found != 1:
            return f"{self.file} holds the old text {found} times, not once: {self.old!r}"
        return "the new text is the old one" if self.old == self.new else ""

    def __str__(self) -> str:
        return f"{self.scenario}  {self.clause}"


class Fate(StrEnum):
    KILLED = "killed"
    SURVIVED = "SURVIVED"
    # The tests could not run at all, which proves nothing.
    ERROR = "ERROR"


def read_table(path: Path = TABLE) -> list[Mutant]:
    rows = tomllib.loads(path.read_text(encoding="utf-8"))
    return [Mutant(scenario, **row) for scenario in rows for row in rows[scenario]]


@dataclass
class Marked:
    """A plugin that collects the tests of each scenario."""

    tests: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            for scenario in {str(mark.args[0]) for mark in item.iter_markers("scenario")}:
                self.tests.setdefault(scenario, []).append(item.nodeid)


def marked_tests() -> dict[str, list[str]]:
    """The tests of each scenario."""
    marked = Marked()
    with redirect_stdout(io.StringIO()):
        pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", "-m", CHOSEN, *FOLDERS], plugins=[marked])
    return marked.tests


def run_tests(root: Path, tests: Sequence[str], *flags: str) -> tuple[int, str]:
    """Run tests of a copy of the repository; the exit code of pytest, and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", "-m", CHOSEN, *flags, *tests],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


class Copies:
    """Copies of the repository's source and tests, one per worker: a person may go on working on their own."""

    def __init__(self, folder: Path, many: int) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        self._clock = int(time.time())
        for number in range(many):
            copy = folder / str(number)
            for part in ("src", "tests"):
                shutil.copytree(ROOT / part, copy / part)
            shutil.copy2(ROOT / "pyproject.toml", copy)
            self._free.put(copy)

    def judge(self, mutant: Mutant, tests: Sequence[str]) -> tuple[Fate, str]:
        copy = self._free.get()
        path = copy / "src" / "logos" / mutant.file
        text = path.read_text(encoding="utf-8")
        try:
            self._write(path, text.replace(mutant.old, mutant.new))
            return _fate(copy, tests)
        finally:
            self._write(path, text)
            self._free.put(copy)

    def _write(self, path: Path, text: str) -> None:
        """Python recognises a changed file by its time in seconds, so every version has a time of its own."""
        path.write_text(text, encoding="utf-8")
        self._clock += 1
        os.utime(path, (self._clock, self._clock))


def _fate(copy: Path, tests: Sequence[str]) -> tuple[Fate, str]:
    said = ""
    for folder in FOLDERS:
        chosen = [test for test in tests if test.startswith(folder)]
        code, said = run_tests(copy, chosen, "-x", f"--timeout={LONGEST_TEST_SECONDS}") if chosen else (0, "")
        if code != 0:
            return Fate.KILLED if code == pytest.ExitCode.TESTS_FAILED else Fate.ERROR, said
    return Fate.SURVIVED, said


def check(mutants: Iterable[Mutant], tests: dict[str, list[str]]) -> list[str]:
    """What is wrong with the table."""
    wrong = [f"{mutant}: {mutant.problem}" for mutant in mutants if mutant.problem]
    return wrong + [f"{scenario}: no test is marked with it" for scenario in SCENARIOS if not tests.get(scenario)]


def try_all(mutants: Sequence[Mutant], tests: dict[str, list[str]], tell: Callable[[str], None]) -> list[Fate]:
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(WORKERS) as pool:
        copies = Copies(Path(folder), WORKERS)
        fates: list[Fate] = []
        judged = pool.map(lambda mutant: copies.judge(mutant, tests[mutant.scenario]), mutants)
        for mutant, (fate, said) in zip(mutants, judged, strict=True):
            fates.append(fate)
            tell(f"{fate:8}  {mutant}")
            if fate is Fate.ERROR:
                tell(said[-2000:])
    return fates


def main(wanted: Sequence[str]) -> int:
    mutants = [row for row in read_table() if not wanted or row.scenario.startswith(tuple(wanted))]
    tests = marked_tests()
    wrong = check(mutants, tests)
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return 2
    print(f"{len(mutants)} breakages; first the tests with the source as it is", flush=True)
    whole = sorted({test for mutant in mutants for test in tests[mutant.scenario]})
    code, said = run_tests(ROOT, whole, "-n", str(WORKERS), "--maxfail=5")
    if code != 0:
        print(said, "these tests fail before anything is broken", sep="\n", file=sys.stderr)
        return 2
    fates = try_all(mutants, tests, lambda line: print(line, flush=True))
    killed, scenarios = fates.count(Fate.KILLED), {mutant.scenario for mutant in mutants}
    print(f"killed {killed} of {len(mutants)}, in {len(scenarios)} of {len(SCENARIOS)} scenarios")
    return 0 if killed == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
