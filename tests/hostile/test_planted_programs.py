"""Nothing that an agent planted in a repository, on PATH or among the modules is started by Logos."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.plants import FILE, PLANTS, Plant, fire, marks, plant
from tests.support.repositories import FILES, git, make_repository
from tests.support.sandbox import PROMPT, Sandbox

PLANTED = {**FILES, FILE: "here\n", "nested/x": ""}
CHANGES = {"programmer": [{"edit": {"greet.py": "print('hello')\n"}, "say": "done"}]}


def hostile(tmp_path: Path) -> Sandbox:
    """A repository with the branches `one` and `two`, which conflict in the planted file."""
    wd = make_repository(tmp_path / "repo", PLANTED)
    for branch in ("one", "two"):
        git(wd, "checkout", "--quiet", "-b", branch, "main")
        (wd / FILE).write_text(f"{branch}\n")
        git(wd, "commit", "--quiet", "--all", "--message", branch)
    git(wd, "checkout", "--quiet", "main")
    return Sandbox(wd)


@pytest.mark.parametrize("it", PLANTS, ids=lambda it: it.name)
def test_each_plant_is_started_by_plain_git(tmp_path: Path, it: Plant):
    """Without this, the other tests could not fail."""
    shop = hostile(tmp_path)
    plant(shop.wd, tmp_path, (it,))
    if it.fires[0] == "diff":
        (shop.wd / FILE).write_text("changed\n")
    if it.fires[0] in ("add", "commit"):
        (shop.wd / "new.txt").write_text("new\n")
    fire(it, shop.wd, tmp_path)
    assert marks(tmp_path)


def test_no_command_starts_a_planted_program(tmp_path: Path):
    shop = hostile(tmp_path)
    plant(shop.wd, tmp_path, PLANTS)
    use_every_command(shop)
    assert marks(tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize("it", PLANTS, ids=lambda it: it.name)
def test_no_command_starts_a_plant_that_is_alone(tmp_path: Path, it: Plant):
    shop = hostile(tmp_path)
    plant(shop.wd, tmp_path, (it,))
    use_every_command(shop)
    assert marks(tmp_path) == []


# Of these, git runs no hook, whatever the settings say.
WITHOUT_HOOKS = {
    *("cat-file", "commit-tree", "config", "for-each-ref", "init", "ls-tree", "merge-base", "rev-list", "rev-parse"),
    *("version", "--version"),
}
# Tells which commands git was given, and which of them would run the hook that the repository's settings name.
TELLS = """#!/bin/sh
PATH={path}
echo "$1" >>{log}
if git config --get hook.evil.command >/dev/null && [ "$(git config --get hook.evil.enabled)" != false ]; then
    echo "$1" >>{log}.armed
fi
exec git "$@"
"""


def test_git_is_told_to_run_no_hook_of_the_settings(tmp_path: Path):
    """Git before 2.54 knows no such hooks, and has no other way to turn them off."""
    shop = hostile(tmp_path)
    git(shop.wd, "config", "hook.evil.event", "reference-transaction")
    git(shop.wd, "config", "hook.evil.command", f"touch {tmp_path}/ran-it")
    program, log = tmp_path / "bin" / "git", tmp_path / "asked"
    program.parent.mkdir()
    program.write_text(TELLS.format(path=os.environ["PATH"], log=log))
    program.chmod(0o755)
    shop.set(PATH=f"{program.parent}:{os.environ['PATH']}")
    use_every_command(shop)
    asked, armed = ({*path.read_text().splitlines()} for path in (log, log.with_name("asked.armed")))
    assert {"update-ref", "update-index", "commit", "worktree"} <= asked
    assert armed <= WITHOUT_HOOKS


def use_every_command(shop: Sandbox) -> None:
    """A run that commits, what can be done with it afterwards, and a build."""
    shop.set(PROMPT=PROMPT, POST_GIT_COMMIT="1")
    (shop.wd / ".gitignore").write_text("logos.json\n")
    done = shop("run", "--simulate", str(shop.script(CHANGES)))
    assert done.code == 0, done.err
    assert "committed:" in done.err
    assert "greet.py" in shop.git("-c", "core.fsmonitor=false", "show", "--name-only", "--no-ext-diff", "--format=")
    assert shop.git("log", "-1", "--format=%an") == "Ada"
    for words in (("status",), ("diff", "1"), ("log",), ("gc",), ("doctor",), ("fork", "--at", "3"), ("report",)):
        assert shop(*words).code in (0, 1), words
    (shop.wd / "dirty.py").write_text("x = 1\n")
    assert shop("rollback", "3").code == 0
    assert shop("reset").code == 0
    built = shop("build", "sell", "--simulate", str(shop.script()), "--allow-dirty", "--levels", "5-1")
    assert built.code == 0, built.err


def test_a_nested_repository_is_not_asked_with_its_own_settings(tmp_path: Path):
    """Git itself starts git in nested repositories, where the settings of the outer one do not hold."""
    shop = hostile(tmp_path)
    git(shop.wd / "nested", "init", "--quiet")
    git(shop.wd / "nested", "add", "x")
    git(shop.wd / "nested", "commit", "--quiet", "--message", "x")
    git(shop.wd, "rm", "--quiet", "--cached", "nested/x")
    git(shop.wd, "add", "nested")
    git(shop.wd, "commit", "--quiet", "--message", "nested")
    plant(shop.wd, tmp_path, ())
    git(tmp_path, "config", "--file", str(shop.wd / "nested/.git/config"), "core.fsmonitor", f"touch {tmp_path}/ran-it")
    use_every_command(shop)
    assert marks(tmp_path) == []
    git(shop.wd, "status")
    assert marks(tmp_path) == ["ran-it"]


def test_a_commit_says_which_hooks_it_did_not_run(tmp_path: Path):
    shop = hostile(tmp_path)
    plant(shop.wd, tmp_path, tuple(it for it in PLANTS if it.name in ("hook pre-commit", "hook commit-msg")))
    done = shop(
        "run",
        "--simulate",
        str(shop.script(CHANGES)),
        "--set",
        f"prompt={PROMPT}",
        "--set",
        "post_processing.git_commit=1",
    )
    assert "hooks that were not run: pre-commit, commit-msg" in done.err


def test_a_file_that_a_planted_filter_would_change_is_not_committed(tmp_path: Path):
    """Unfiltered, a file that is to be encrypted would be committed as it is."""
    shop = hostile(tmp_path)
    plant(shop.wd, tmp_path, tuple(it for it in PLANTS if it.name == "filter.a.clean"))
    edits = {"programmer": [{"edit": {FILE: "secret\n"}, "say": "done"}]}
    before = shop.git("rev-parse", "HEAD")
    done = shop(
        "run",
        "--simulate",
        str(shop.script(edits)),
        "--set",
        f"prompt={PROMPT}",
        "--set",
        "post_processing.git_commit=1",
    )
    assert "git commit failed: planted.txt needs the filter a of this repository, which Logos does not run" in done.err
    assert shop.git("rev-parse", "HEAD") == before


@pytest.mark.parametrize("entry", ["{wd}/.venv/bin", ".venv/bin", "{linked}"])
def test_a_program_below_the_work_dir_is_passed_over(tmp_path: Path, entry: str):
    shop = hostile(tmp_path)
    folder = shop.wd / ".venv" / "bin"
    folder.mkdir(parents=True)
    (tmp_path / "linked").symlink_to(folder)
    for name in ("git", "codex"):
        (folder / name).write_text(f"#!/bin/sh\necho >>'{tmp_path}/ran-{name}'\n")
        (folder / name).chmod(0o755)
    shop.set(PATH=f"{entry.format(wd=shop.wd, linked=tmp_path / 'linked')}:{os.environ['PATH']}")
    (shop.wd / ".gitignore").write_text(".venv\n")
    use_every_command(shop)
    assert marks(tmp_path) == []
    refused = shop("run", "say hello", "--test", "true", "--fresh", "--provider", "codex")
    assert refused.code == 1
    assert "`codex` is only at" in refused.err
    assert "where agents can replace it: it is not started" in refused.err
    assert marks(tmp_path) == []


def test_without_a_program_elsewhere_the_error_says_so(tmp_path: Path):
    shop = hostile(tmp_path)
    (shop.wd / "git").write_text("#!/bin/sh\n")
    (shop.wd / "git").chmod(0o755)
    shop.set(PATH=str(shop.wd))
    done = shop("build", "sell", "--simulate", str(shop.script()))
    assert f"`git` is only at {shop.wd}/git, below the work dir" in done.err


MODULES = (
    "jinja2",
    "pydantic",
    "yaml",
    "typer",
    "rich",
    "httpx",
    "watchdog",
    "typing",
    "json",
    "sqlite3",
    "__future__",
)


@pytest.mark.parametrize("module", ["logos", "logos.cycle", "logos.compat.run_orchestrator_loop"])
def test_no_module_is_imported_from_the_work_dir(tmp_path: Path, module: str):
    shop = hostile(tmp_path)
    for name in MODULES:
        (shop.wd / f"{name}.py").write_text(f"open({str(tmp_path / f'ran-{name}')!r}, 'w')\nraise SystemExit(9)\n")
    words = ["no-such.json"] if module != "logos" else ["status"]
    done = subprocess.run([sys.executable, "-m", module, *words], cwd=shop.wd, capture_output=True, text=True)
    assert marks(tmp_path) == []
    assert done.returncode in (0, 1, 2), done.stderr
    subprocess.run([sys.executable, "-m", "jinja2"], cwd=shop.wd)
    assert marks(tmp_path) == ["ran-jinja2"]
