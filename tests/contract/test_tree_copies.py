"""Snapshots without the person's repository: copies in the user state folder, which a proof can use like others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from logos.adapters.proof.copies import TreeCopies
from logos.domain.proof import ProofStep
from logos.domain.turns import RunId
from logos.errors import HostError
from tests.support.proving import SANDBOXES, Project, contents, rooms_left, sandbox_named
from tests.support.repositories import git, make_repository, write_files

FILES = {"shop.py": "x = 1\n", "tests/test_shop.py": "y = 1\n", ".gitignore": "secret\n"}
RUN = RunId("r-1")


@pytest.fixture(params=["folder", "repository", "part of a repository"])
def wd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    if request.param == "folder":
        write_files(folder, FILES)
        return folder
    below = "packages/shop/" if request.param.startswith("part") else ""
    make_repository(folder, {"top.txt": "top", **{f"{below}{name}": text for name, text in FILES.items()}})
    return folder / below


@pytest.fixture
def copies(wd: Path) -> TreeCopies:
    return TreeCopies(wd)


def test_the_same_files_give_the_same_commit_and_others_another_one(copies: TreeCopies, wd: Path) -> None:
    first = copies.take()
    assert copies.take() == first == TreeCopies(wd).take()
    write_files(wd, {"new.py": "z = 1\n", "shop.py": "x = 2\n"})
    (wd / "tests" / "test_shop.py").unlink()
    second = copies.take()
    changed = ["new.py", "shop.py", "tests/test_shop.py"]
    assert copies.changed(first, second) == [f"{copies.prefix}{name}" for name in changed]
    assert copies.altered(first, second) == [f"{copies.prefix}{name}" for name in changed[1:]]
    (wd / "new.py").unlink()
    write_files(wd, FILES)
    assert copies.take() == first


def test_ignored_files_dependencies_and_our_own_files_are_not_copied(copies: TreeCopies, wd: Path) -> None:
    first = copies.take()
    write_files(wd, {"secret": "s", ".telos/logos.db": "log", ".tmp/agent-responses/a.md": "RESULT: PASS"})
    if not copies.store.common:
        write_files(wd, {"node_modules/a/index.js": "1", ".venv/bin/python": "x", "__pycache__/a.pyc": "y"})
    assert copies.changed(first, copies.take()) == []


def test_nothing_is_written_into_the_work_tree_or_its_repository(copies: TreeCopies, wd: Path) -> None:
    write_files(wd, {"new.py": "z = 1\n"})
    was = contents(copies.store.top)
    copies.point(RUN, {3: copies.take(), 12: copies.take()})
    copies.point(RUN, {"base": copies.take()})
    copies.keep(copies.take())
    assert contents(copies.store.top) == was
    assert [*copies.of(RUN)] == [3, 12]
    assert TreeCopies(wd).of(RUN) == copies.of(RUN)
    assert copies.of(RunId("r-2")) == {}


def test_files_can_be_put_back(copies: TreeCopies, wd: Path) -> None:
    first = copies.take()
    write_files(wd, {"shop.py": "x = 2\n", "new.py": "z = 1\n"})
    (wd / "tests" / "test_shop.py").unlink()
    copies.put_back(first, [f"{copies.prefix}shop.py", f"{copies.prefix}tests/test_shop.py"])
    assert (wd / "shop.py").read_text() == "x = 1\n"
    assert (wd / "tests" / "test_shop.py").read_text() == "y = 1\n"
    assert (wd / "new.py").exists()


def test_files_that_were_committed_meanwhile_are_still_the_same_files(tmp_path: Path) -> None:
    wd = make_repository(tmp_path / "repo", FILES)
    copies = TreeCopies(wd)
    first = copies.take()
    git(wd, "commit", "--quiet", "--allow-empty", "--message", "more")
    assert copies.take() != first
    assert copies.changed(first, copies.take()) == []


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path / "work", FILES)
    monkeypatch.setattr("logos.adapters.git.commits.MOST_FILES", 2)
    with pytest.raises(HostError, match="more than a copy can hold"):
        TreeCopies(tmp_path / "work").take()


@pytest.fixture(params=SANDBOXES)
def project(request: pytest.FixtureRequest, copies: TreeCopies, wd: Path) -> Iterator[Project]:
    made = Project(wd, sandbox_named(request.param, wd), copies)
    yield made
    made.prover.close()
    assert rooms_left() == []


def test_every_step_works_on_copies(project: Project, wd: Path) -> None:
    before = project.baseline("cat shop.py; ls -A")
    assert (before.exit_code, before.problem) == (0, "")
    assert before.output.startswith("x = 1")
    write_files(wd, {"shop.py": "x = 2\n", "tests/test_shop.py": "y = 2\n", "conftest.py": "planted"})
    result = project.take()
    assert project.prover.changed(before.commit, result) == ("conftest.py", "shop.py", "tests/test_shop.py")
    guarded = project.prove(ProofStep.GUARDED, "cat shop.py tests/test_shop.py; ls", before.commit, result)
    assert guarded.output.startswith("x = 2\ny = 1\n")
    assert "conftest.py" not in guarded.output
    red = project.prove(ProofStep.RED, "cat shop.py tests/test_shop.py", before.commit, result)
    assert red.output == "x = 1\ny = 2\n"


def test_dependencies_of_a_folder_without_git_are_lent(tmp_path: Path) -> None:
    wd = tmp_path / "work"
    write_files(wd, {**FILES, "node_modules/a.js": "1"})
    project = Project(wd, None, TreeCopies(wd))
    before = project.baseline("cat node_modules/a.js; ls -d .git")
    project.prover.close()
    assert [folder.path for folder in before.room.lent] == ["node_modules"]
    assert before.output.startswith("1")
    assert "\n.git" not in before.output
