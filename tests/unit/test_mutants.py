"""The table of deliberate breakages (`make mutants`) fits the source, and leaves out no scenario of the spec."""

from __future__ import annotations

import dataclasses

import pytest

from tools.mutants import SCENARIOS, Mutant, read_table

TABLE = read_table()


@pytest.mark.parametrize("mutant", TABLE, ids=str)
def test_a_breakage_can_be_applied(mutant: Mutant) -> None:
    assert mutant.problem == "", "change `old` and `new` in tools/mutants.toml with the source"


def test_every_scenario_has_a_breakage() -> None:
    assert len(SCENARIOS) == 97
    assert {mutant.scenario for mutant in TABLE} == set(SCENARIOS)


def test_no_breakage_is_listed_twice() -> None:
    same = [(mutant.scenario, mutant.file, mutant.old, mutant.new) for mutant in TABLE]
    assert len(set(same)) == len(same)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"file": "no/such.py"}, "there is no file no/such.py"),
        ({"old": "no such text"}, "errors.py holds the old text 0 times, not once: 'no such text'"),
        ({"old": "exit_code = 1"}, "times, not once: 'exit_code = 1'"),
        ({"new": "self.exit_code = 128 + signum"}, "the new text is the old one"),
    ],
)
def test_a_breakage_that_cannot_be_applied_says_why(change: dict[str, str], problem: str) -> None:
    good = Mutant("CYC-21", "the exit code is 130", "errors.py", "self.exit_code = 128 + signum", "self.exit_code = 1")
    assert good.problem == ""
    assert problem in dataclasses.replace(good, **change).problem
