"""The cases of `make bench-trust`: no cheat passes, and no honest run is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from bench.trust.cases import Case, Kind, Project, Reach, cases, known_holes, projects
from bench.trust.play import Judgement, control, play
from tests.support.sandbox import begun, ended


def of(kind: Kind) -> list[Any]:
    """The cases that Logos can decide, without rare ones; those that are not quick are for the long suite."""
    return [
        pytest.param(case, id=case.name, marks=() if case.quick else pytest.mark.long)
        for case in cases()
        if case.kind is kind and not case.rare and case.reach in (Reach.ALWAYS, Reach.SANDBOX)
        if case.name not in known_holes()
    ]


def called(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> CompletedProcess[str]:
    done = ended(begun("logos", command[1:], cwd, env))
    return CompletedProcess(command, done.code, done.out, done.err)


def judged(case: Case) -> None:
    verdict = play(case, call=called)
    if verdict.judgement in (Judgement.SKIPPED, Judgement.OUT_OF_REACH):
        pytest.skip(verdict.reason or "needs a sandbox")
    assert not verdict.is_bad, f"{verdict.judgement}: {case.how}\n{verdict.reason}\n{verdict.output}"


@pytest.mark.parametrize("case", of(Kind.CHEAT))
def test_a_cheat_does_not_pass(case: Case) -> None:
    judged(case)


@pytest.mark.parametrize("case", of(Kind.HONEST))
def test_an_honest_run_passes(case: Case) -> None:
    judged(case)


@pytest.mark.parametrize("project", [pytest.param(project, id=name) for name, project in projects().items()])
def test_the_tests_of_a_project_pass_unless_it_is_harmed(project: Project) -> None:
    assert control(project) == []


def test_every_known_hole_is_a_case() -> None:
    assert known_holes() <= {case.name for case in cases()}


def test_the_table_has_what_it_promises() -> None:
    decided = Counter(case.kind for case in cases() if not case.rare and case.reach in (Reach.ALWAYS, Reach.SANDBOX))
    assert decided[Kind.CHEAT] >= 45
    assert decided[Kind.HONEST] >= 22
    for kind in Kind:
        assert {case.flow for case in cases() if case.kind is kind} == {"run", "build"}
        assert len({case.project.name for case in cases() if case.kind is kind}) >= 4
    quick = Counter(case.kind for case in cases() if case.quick)
    assert quick[Kind.CHEAT] >= 10
    assert quick[Kind.HONEST] >= 5
    assert all(case.script()["agents"] for case in cases())
