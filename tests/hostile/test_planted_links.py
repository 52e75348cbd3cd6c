"""An agent replaces a folder of Logos by a symbolic link: Logos neither deletes nor writes where the link leads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logos.adapters.commands import end_left_over
from logos.adapters.files import remove
from logos.adapters.git.workspace import GitWorkspace
from logos.domain.turns import RunId, Worktree
from logos.errors import HostError, LogosError
from tests.support.sandbox import PROMPT, Sandbox

FOLDERS = (
    *(".telos", ".telos/checks", ".telos/trials", ".telos/worktrees", ".telos/scripted", ".telos/local"),
    *(".telos/snapshots", ".tmp", ".tmp/agent-responses", ".tmp/agent-prompts"),
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """What belongs to the person, outside the work dir."""
    for name in ("precious", "empty"):
        (tmp_path / "home" / name).mkdir(parents=True)
    (tmp_path / "home" / "precious" / "file").write_text("mine\n")
    return tmp_path / "home"


def content(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture
def shop(tmp_path: Path) -> Sandbox:
    return Sandbox.of_repository(tmp_path / "repo", PROMPT=PROMPT)


@pytest.mark.parametrize(
    "words", [("run",), ("build", "sell", "--allow-dirty", "--levels", "5-1")], ids=["run", "build"]
)
@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_is_done_where_a_planted_link_leads(
    shop: Sandbox, home: Path, folder: str, words: tuple[str, ...]
) -> None:
    before = content(home)
    (shop.wd / folder).parent.mkdir(exist_ok=True)
    (shop.wd / folder).symlink_to(home)
    done = shop(*words, "--simulate", str(shop.script()))
    assert content(home) == before
    assert done.code == 2, done.err
    assert f"{shop.wd / folder} is a symbolic link" in done.err


@pytest.mark.parametrize("folder", ["scripted", "worktrees", "snapshots", "checks"])
@pytest.mark.parametrize("words", [("reset",), ("rollback", "3"), ("gc", "--keep-days", "0", "--keep-runs", "0")])
def test_no_command_deletes_where_a_link_leads_that_was_planted_in_a_run(
    shop: Sandbox, home: Path, folder: str, words: tuple[str, ...]
) -> None:
    shop(
        "run",
        "--simulate",
        str(shop.script({"tester": [{"fault": "crash"}]})),
        "--set",
        "handoff.retry_back_off_seconds=0",
    )
    ours = shop.wd / ".telos" / folder
    if ours.exists():
        # The person's folder has the names of ours, as an agent can learn them.
        ours.rename(home / "ours")
        for entry in [*(home / "ours").iterdir()]:
            (home / entry.name).mkdir()
            (home / entry.name / "mine").touch()
    before = content(home)
    ours.symlink_to(home)
    shop(*words)
    assert content(home) == before


def test_a_response_is_not_looked_for_behind_a_link_of_a_worktree(shop: Sandbox, home: Path) -> None:
    """Also where the link is a file of the repository."""
    (shop.wd / ".tmp").symlink_to(home)
    shop.git("add", "--force", ".tmp")
    shop.git("commit", "--quiet", "--message", "link")
    before = content(home)
    assert shop("build", "sell", "--simulate", str(shop.script()), "--levels", "5-1").code == 2
    (shop.wd / ".tmp").unlink()
    done = shop("build", "sell", "--simulate", str(shop.script()), "--levels", "5-1", "--allow-dirty")
    assert content(home) == before, done.err


def test_a_worktree_behind_a_link_is_not_removed(shop: Sandbox, home: Path) -> None:
    workspace = GitWorkspace(shop.wd, RunId("r1"))
    worktree = Worktree("precious", (shop.git("rev-parse", "HEAD"),))
    workspace.open(worktree, anew=True)
    ours = shop.wd / ".telos" / "worktrees" / "r1"
    ours.rename(shop.wd / "elsewhere")
    ours.symlink_to(home)
    before = content(home)
    for action in (lambda: workspace.open(worktree, anew=True), lambda: workspace.close(None)):
        with pytest.raises(LogosError):
            action()
        assert content(home) == before


def test_locks_behind_a_link_of_the_repository_stay(shop: Sandbox, home: Path) -> None:
    (home / "Cargo.lock").touch()
    workspace = GitWorkspace(shop.wd, RunId("r1"))
    (shop.wd / ".git" / "refs" / "logos").mkdir()
    (shop.wd / ".git" / "refs" / "logos" / "r1").symlink_to(home)
    workspace.close(None)
    assert (home / "Cargo.lock").exists()


def test_checks_behind_a_link_are_not_cleared_away(tmp_path: Path, home: Path) -> None:
    before = content(home)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "checks").symlink_to(home)
    assert end_left_over(tmp_path / "work" / "checks", tmp_path / "work") == 0
    assert content(home) == before


def test_only_what_is_below_the_root_is_removed(tmp_path: Path, home: Path) -> None:
    (tmp_path / "root" / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "root" / "folder" / "link").symlink_to(home)
    (tmp_path / "root" / "link").symlink_to(home)
    before = content(home)
    with pytest.raises(HostError, match="symbolic link"):
        remove(tmp_path / "root" / "link" / "precious", tmp_path / "root")
    remove(tmp_path / "root" / "link", tmp_path / "root")
    os.chmod(tmp_path / "root" / "folder" / "deep", 0)
    os.chmod(tmp_path / "root" / "folder", 0o500)
    remove(tmp_path / "root" / "folder", tmp_path / "root")
    remove(tmp_path / "root" / "no" / "such", tmp_path / "root")
    assert [*(tmp_path / "root").iterdir()] == []
    assert content(home) == before
