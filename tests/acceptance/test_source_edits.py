"""What agents change that are to plan or to judge: it is said, whatever their clients allow them."""

from __future__ import annotations

from typing import Any

import pytest

from logos.domain.events import Noted, Topic, WorkUndone
from logos.testing import APPROVED
from tests.support.sandbox import PROMPT, Sandbox

QUICK = ("--set", "limits.poll_seconds=0.02", "--set", "limits.min_review_cycles_before_approval=1")


def run(place: Sandbox, **team: Any) -> str:
    done = place("run", "--simulate", str(place.script(team)), "--set", f"prompt={PROMPT}", *QUICK)
    assert done.code == 0, done.err
    return done.err


def warnings(place: Sandbox) -> list[str]:
    return [note.text for note in place.events(Noted) if note.topic is Topic.WARNING]


def test_source_that_the_analyst_changes_is_named_and_stays(repository: Sandbox) -> None:
    edits = {"main.py": "x = 1\n", "new ü.py": "", "openspec/changes/x/tasks.md": "- [ ] 1\n", ".logos/changes/y": "\n"}
    said = run(repository, analyst=[{"edit": edits}])
    assert warnings(repository) == ["analyst changed more than its artifacts: main.py, new ü.py"]
    assert "analyst changed more than its artifacts: main.py" in said
    assert "main.py" in repository("log").out
    assert (repository.wd / "main.py").read_text() == "x = 1\n"


def test_a_folder_of_the_repository_is_named_from_the_work_dir(repository: Sandbox) -> None:
    below = repository.at(repository.wd / "part")
    below.wd.mkdir()
    run(below, analyst=[{"edit": {"a.py": "\n", "openspec/changes/x/tasks.md": "\n"}}])
    assert warnings(below) == ["analyst changed more than its artifacts: a.py"]


def test_an_analyst_that_writes_artifacts_only_is_not_warned_of(repository: Sandbox) -> None:
    run(repository, analyst=[{"edit": {"openspec/changes/x/tasks.md": "\n"}}], programmer=[{"edit": {"a.py": "\n"}}])
    assert warnings(repository) == []


def test_many_files_are_counted(repository: Sandbox) -> None:
    run(repository, analyst=[{"edit": {f"n{number}.py": "\n" for number in range(20)}}])
    assert warnings(repository)[0].endswith(" and 12 more")


@pytest.mark.parametrize("role", ["peer_programmer", "tester"])
def test_new_files_of_a_judge_are_named_and_stay(repository: Sandbox, role: str) -> None:
    says = {} if role == "tester" else {"say": APPROVED}
    run(repository, **{role: [{"edit": {"report ü.txt": "all is well\n", "main.py": "x = 1\n"}, **says}]})
    assert warnings(repository) == [f"{role} left new files, which stay: main.py, report ü.txt"]
    assert (repository.wd / "report ü.txt").read_text() == "all is well\n"
    assert not repository.events(WorkUndone)


@pytest.mark.parametrize("role", ["peer_analyst", "peer_programmer", "tester"])
def test_source_that_a_judge_changes_is_named_and_put_back(repository: Sandbox, role: str) -> None:
    before = "main = 1\n"
    (repository.wd / "main.py").write_text(before)
    says = {} if role == "tester" else {"say": APPROVED}
    run(repository, **{role: [{"edit": {"main.py": "x = 1\n"}, **says}]})
    assert {event.files for event in repository.events(WorkUndone)} == {("main.py",)}
    assert (repository.wd / "main.py").read_text() == before
