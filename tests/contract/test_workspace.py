"""Worktrees with real git: hostile agents, killed drivers, and a person whose repository is left alone."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from logos.adapters.commands import SupervisedCommands
from logos.adapters.git.workspace import GitWorkspace, base_of, diff_stat
from logos.adapters.git.worktrees import Setup
from logos.domain.events import WorkGathered
from logos.domain.turns import Gather, Merge, RunId, TurnId, Worktree
from logos.errors import HostError, UsageError
from logos.ports import Workspace

RUN = RunId("r1")
TURN = TurnId("t1")
FILES = {
    "cart.py": "def add(item):\n    return item\n\n\ndef total():\n    return 0\n",
    "docs/notes.md": "one\ntwo\nthree\n",
    "docs/deep/more.md": "more\n",
    "telos.toml": "purpose = 'shop'\n",
    ".gitignore": "build/\n*.log\n",
}


def git(wd: Path | str, *arguments: str) -> str:
    """Git as a person or an agent runs it."""
    done = subprocess.run(["git", *arguments], cwd=wd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write(folder: Path | str, path: str, text: str) -> None:
    file = Path(folder) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@dataclass(frozen=True)
class Shop:
    """A person's repository, and the workspace of a run in it."""

    wd: Path
    base: str
    workspace: Workspace

    def place(self, name: str = "cart", *more: str) -> Worktree:
        return Worktree(name, (self.base, *more))

    def open(self, name: str = "cart", *more: str) -> Path:
        return Path(self.workspace.open(self.place(name, *more), anew=True))

    def gather(self, name: str = "cart", *declared: str, must_change: bool = True) -> WorkGathered:
        return self.workspace.gather(Gather(TURN, self.place(name), f"The {name}", declared, must_change))

    def contribution(self, name: str, path: str, text: str) -> tuple[str, str]:
        write(self.open(name), path, text)
        return name, self.gather(name).commit

    def restarted(self) -> Shop:
        return Shop(self.wd, self.base, GitWorkspace(self.wd, RUN))


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wd = tmp_path_factory.mktemp("template") / "shop"
    wd.mkdir()
    git(wd, "init", "-q", "-b", "trunk", "--template=")
    git(wd, "config", "user.name", "A Person")
    git(wd, "config", "user.email", "person@example.org")
    for path, text in FILES.items():
        write(wd, path, text)
    git(wd, "add", "-A")
    git(wd, "commit", "-q", "-m", "start")
    git(wd, "branch", "feature")
    return wd


@pytest.fixture
def wd(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "shop"))


@pytest.fixture
def shop(wd: Path) -> Shop:
    return Shop(wd, (wd / ".git/refs/heads/trunk").read_text().strip(), GitWorkspace(wd, RUN))


def persons(wd: Path) -> dict[str, object]:
    """All that is the person's and that Logos must not touch."""
    refs = git(wd, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    files = ("HEAD", "index", "config", "logs/HEAD", "logs/refs/stash")
    return {
        "status": git(wd, "--no-optional-locks", "status", "--porcelain"),
        "refs": [ref for ref in refs if not ref.startswith(("refs/heads/logos", "refs/logos/"))],
        **{name: file.read_bytes() for name in files if (file := wd / ".git" / name).exists()},
    }


@contextmanager
def left_alone(wd: Path) -> Iterator[None]:
    before = persons(wd)
    yield
    assert persons(wd) == before


def in_commit(wd: Path, commit: str) -> list[str]:
    return git(wd, "ls-tree", "-r", "-z", "--name-only", commit).rstrip("\0").split("\0")


def leftovers(wd: Path) -> list[str]:
    """What a closed run has left in the repository, but for the commits that its log names."""
    refs = git(wd, "for-each-ref", "--format=%(refname)").split()
    folders = [str(path) for path in (wd / ".telos/worktrees", wd / ".git/worktrees") if path.exists()]
    return [ref for ref in refs if ref.startswith("refs/heads/logos")] + folders


# -- from opening to closing


def test_a_place_holds_what_its_commit_says_on_a_branch_of_its_own(shop: Shop) -> None:
    folder = shop.open()
    assert folder == shop.wd / ".telos/worktrees/r1/cart"
    assert (folder / "cart.py").read_text() == FILES["cart.py"]
    assert git(folder, "status", "--porcelain", "--branch") == "## logos-work/r1/cart\n"
    assert git(shop.open("main"), "branch", "--show-current") == "logos/r1\n"


@pytest.mark.scenario("LOG-13")
def test_agents_in_parallel_places_see_nothing_of_each_other_and_all_their_work_is_merged(shop: Shop) -> None:
    names = ["search", "login", "pay"]
    with left_alone(shop.wd), ThreadPoolExecutor(3) as threads:
        for name, folder in zip(names, threads.map(shop.open, names), strict=True):
            write(folder, f"{name}.py", f"def {name}(): ...\n")
        gathered = list(threads.map(shop.gather, names))
        merged = shop.workspace.merge(Merge(TURN, shop.base, tuple((it.place, it.commit) for it in gathered)))
        ready = Path(shop.workspace.ready(Worktree("main", (merged.commit,))))
        assert [[it.path for it in contribution.touched] for contribution in gathered] == [
            ["search.py"],
            ["login.py"],
            ["pay.py"],
        ]
        assert merged.clashes == ()
        assert {path.name for path in ready.glob("*.py")} == {"cart.py", "search.py", "login.py", "pay.py"}
        told = git(shop.wd, "log", "--first-parent", "--format=%s", f"{shop.base}..{merged.commit}")
        assert told == "Merge search, login, pay\n"
        assert git(shop.wd, "rev-parse", f"{merged.commit}^@").split() == [shop.base, *(it.commit for it in gathered)]
        shop.workspace.close(merged.commit)
    assert git(shop.wd, "rev-parse", "logos/r1").strip() == merged.commit
    assert leftovers(shop.wd) == ["refs/heads/logos/r1"]
    # Whoever goes back in the run needs what was there then.
    kept = git(shop.wd, "for-each-ref", "--format=%(objectname)", "refs/logos/r1").split()
    assert sorted(kept) == sorted([merged.commit, *(it.commit for it in gathered)])


def test_closing_without_a_result_leaves_nothing_and_can_be_repeated(shop: Shop) -> None:
    with left_alone(shop.wd):
        shop.contribution("cart", "a.py", "")
        shop.open("main")
        for _ in range(2):
            shop.workspace.close(None)
            assert leftovers(shop.wd) == []


def test_closing_leaves_other_runs_and_other_worktrees_alone(shop: Shop, tmp_path: Path) -> None:
    git(shop.wd, "worktree", "add", "-q", str(tmp_path / "cart"), "feature")
    other = GitWorkspace(shop.wd, RunId("r10"))
    theirs = Path(other.open(shop.place(), anew=True))
    write(theirs, "a.py", "")
    kept = other.gather(Gather(TURN, shop.place(), "The cart")).commit
    shop.open()
    shop.workspace.close(None)
    assert git(theirs, "rev-parse", "HEAD").strip() == kept
    assert git(tmp_path / "cart", "branch", "--show-current") == "feature\n"
    assert git(shop.wd, "for-each-ref", "--format=%(refname)", "refs/logos").split() == [f"refs/logos/r10/{kept}"]


def test_a_place_that_is_there_is_kept_unless_it_is_wanted_anew(shop: Shop) -> None:
    folder = shop.open()
    write(folder, "half.py", "")
    assert shop.restarted().workspace.open(shop.place(), anew=False) == str(folder)
    assert (folder / "half.py").exists()
    shop.open()
    assert not (folder / "half.py").exists()


def test_a_place_of_several_commits_has_the_work_of_all_and_only_new_work_is_touched(shop: Shop) -> None:
    contributions = [shop.contribution("one", "one.py", ""), shop.contribution("two", "two.py", "")]
    place = shop.place("three", *(commit for _, commit in contributions))
    folder = Path(shop.workspace.open(place, anew=True))
    assert (folder / "one.py").exists()
    assert (folder / "two.py").exists()
    write(folder, "three.py", "")
    gathered = shop.restarted().workspace.gather(Gather(TURN, place, "The three"))
    assert [it.path for it in gathered.touched] == ["three.py"]


def test_a_place_whose_commits_conflict_is_not_opened_and_the_error_names_them(shop: Shop) -> None:
    (_, one), (_, two) = (
        shop.contribution("one", "docs/notes.md", "1\n"),
        shop.contribution("two", "docs/notes.md", "2\n"),
    )
    with pytest.raises(HostError, match=rf"{two}.*docs/notes\.md"):
        shop.open("three", one, two)


def test_many_threads_open_many_places_at_once(shop: Shop) -> None:
    names = [f"c{number}" for number in range(24)]
    with ThreadPoolExecutor(8) as threads:
        folders = list(threads.map(shop.open, names))
    assert [git(folder, "branch", "--show-current").strip() for folder in folders] == [
        f"logos-work/r1/{it}" for it in names
    ]


def test_a_name_that_is_no_slug_is_refused(shop: Shop) -> None:
    for name in ["", "..", "a/b", "a..b", "A", "-x", ".a", "a.", "a.lock", "a b", "a\n", "1a", "é"]:
        with pytest.raises(HostError, match="is not a valid worktree name"):
            shop.open(name)


def test_a_commit_that_is_none_is_refused(shop: Shop) -> None:
    for commit in ["", "HEAD", "--help", "f" * 40]:
        with pytest.raises(HostError, match=r"is not a commit|is not in the repository"):
            shop.workspace.open(Worktree("cart", (commit,)), anew=True)
        with pytest.raises(HostError, match=r"is not a commit|is not in the repository"):
            shop.workspace.merge(Merge(TURN, shop.base, (("cart", commit),)))


# -- gathering


def test_what_lies_there_is_taken_as_it_lies_there(shop: Shop) -> None:
    folder = shop.open()
    write(folder, "cart.py", FILES["cart.py"] + "\n\ndef drop(item): ...\n\n\nclass Cart: ...\n")
    write(folder, "empty.txt", "")
    write(folder, 'odd "name"\n\tß🙂.txt', "x")
    write(folder, "build/out.o", "ignored")
    write(folder, "a.log", "ignored")
    (folder / "docs/notes.md").unlink()
    (folder / "docs/deep/more.md").chmod(0o755)
    with left_alone(shop.wd):
        gathered = shop.gather()
    assert [(it.path, it.defines) for it in gathered.touched] == [
        ("cart.py", ("drop", "Cart")),
        ("docs/deep/more.md", ()),
        ("docs/notes.md", ()),
        ("empty.txt", ()),
        ('odd "name"\n\tß🙂.txt', ()),
    ]
    assert [it.path for it in gathered.touched if not it.blob] == ["docs/notes.md"]
    assert gathered.problems == ()
    assert git(shop.wd, "rev-parse", "logos-work/r1/cart").strip() == gathered.commit
    assert git(shop.wd, "show", "-s", "--format=%P %an <%ae> %cn %s", gathered.commit) == (
        f"{shop.base} Logos <logos@localhost> Logos The cart\n"
    )
    assert git(folder, "status", "--porcelain") == ""


def test_work_can_be_gathered_again_and_always_starts_where_the_place_started(shop: Shop) -> None:
    folder = shop.open()
    write(folder, "a.py", "def a(): ...\n")
    first = shop.gather()
    write(folder, "b.py", "def b(): ...\n")
    second = shop.restarted().gather()
    assert [it.path for it in second.touched] == ["a.py", "b.py"]
    assert git(shop.wd, "rev-parse", f"{second.commit}^").strip() == shop.base
    (folder / "a.py").unlink()
    (folder / "b.py").unlink()
    assert shop.gather().commit == shop.base
    assert git(shop.wd, "cat-file", "-t", first.commit) == "commit\n"


def test_nothing_changed_is_a_problem_only_where_something_must(shop: Shop) -> None:
    shop.open()
    assert shop.gather().problems == ("nothing was changed",)
    unchanged = shop.gather(must_change=False)
    assert (unchanged.commit, unchanged.touched, unchanged.problems) == (shop.base, (), ())


def test_a_change_that_keeps_size_and_time_is_seen(shop: Shop) -> None:
    folder = shop.open()
    shop.gather()
    before = (folder / "docs/notes.md").stat()
    (folder / "docs/notes.md").write_text("ONE\ntwo\nthree\n")
    os.utime(folder / "docs/notes.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [it.path for it in shop.gather().touched] == ["docs/notes.md"]


def test_a_declared_file_must_be_there(shop: Shop) -> None:
    write(shop.open(), "src/a.py", "")
    gathered = shop.gather("cart", "src/a.py", "./cart.py", "src", "b.py", "../out.py", "*.py")
    assert gathered.problems == tuple(
        f"{path} is declared, but does not exist" for path in ("b.py", "../out.py", "*.py")
    )


def test_a_file_replaced_by_a_folder_and_the_other_way_round(shop: Shop) -> None:
    folder = shop.open()
    (folder / "cart.py").unlink()
    write(folder, "cart.py/inside.txt", "x")
    shutil.rmtree(folder / "docs")
    write(folder, "docs", "a file now")
    gathered = shop.gather()
    assert in_commit(shop.wd, gathered.commit) == [".gitignore", "cart.py/inside.txt", "docs", "telos.toml"]
    assert gathered.problems == ()


def test_a_link_that_leads_out_is_a_problem(shop: Shop) -> None:
    folder = shop.open()
    (folder / "docs/up").symlink_to("../docs/..")
    out = {"a": "/etc/passwd", "b": ".git/config", "c": "docs/up/../secret", "docs/d": "../../secret"}
    for link, target in out.items():
        (folder / link).symlink_to(target)
    assert shop.gather().problems == tuple(
        f"{link} is a symbolic link that leads out of the repository" for link in out
    )


def test_a_link_that_stays_inside_is_none(shop: Shop) -> None:
    folder = shop.open()
    (folder / "docs/l").symlink_to("../cart.py")
    (folder / "nowhere").symlink_to("not/yet/there")
    assert shop.gather().problems == ()


def test_a_folder_replaced_by_a_link_to_elsewhere_takes_nothing_from_there(shop: Shop, tmp_path: Path) -> None:
    folder = shop.open()
    shutil.copytree(folder / "docs", tmp_path / "docs")
    write(tmp_path / "docs", "secret.md", "secret")
    shutil.rmtree(folder / "docs")
    (folder / "docs").symlink_to(tmp_path / "docs")
    gathered = shop.gather()
    assert in_commit(shop.wd, gathered.commit) == [".gitignore", "cart.py", "docs", "telos.toml"]
    assert gathered.problems == ("docs is a symbolic link that leads out of the repository",)


def test_the_purpose_belongs_to_the_person(shop: Shop) -> None:
    write(shop.open(), "telos.toml", "purpose = 'mine'\n")
    assert shop.gather().problems == ("telos.toml belongs to the user and was restored",)


def test_pipes_are_passed_over_even_where_a_file_was(shop: Shop) -> None:
    folder = shop.open()
    (folder / "cart.py").unlink()
    os.mkfifo(folder / "cart.py")
    os.mkfifo(folder / "new")
    gathered = shop.gather()
    assert [(it.path, it.blob) for it in gathered.touched] == [("cart.py", "")]


def test_a_repository_inside_is_a_problem_and_its_settings_run_nothing(shop: Shop, tmp_path: Path) -> None:
    folder = shop.open()
    write(folder, "sub/a.py", "")
    git(folder / "sub", "init", "-q")
    git(folder / "sub", "config", "core.fsmonitor", f"touch {tmp_path}/ran")
    git(folder / "sub", "-c", "core.fsmonitor=false", "add", "-A")
    git(folder / "sub", "-c", "core.fsmonitor=false", "-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x")
    (tmp_path / "ran").unlink(missing_ok=True)
    assert shop.gather(must_change=False).problems == ("sub/ is a nested repository; only plain files can be stored",)
    assert not (tmp_path / "ran").exists()


def test_a_file_that_is_too_large_is_a_problem_and_is_not_stored(shop: Shop) -> None:
    folder = shop.open()
    with (folder / "huge.bin").open("wb") as sink:
        sink.truncate(20_000_001)
    write(folder, "a.py", "")
    gathered = shop.gather()
    assert gathered.problems == ("huge.bin is larger than 20 MB",)
    assert [it.path for it in gathered.touched] == ["a.py"]


@pytest.mark.long
def test_too_many_files_are_a_problem_and_are_not_stored(shop: Shop) -> None:
    folder = shop.open()
    (folder / "many").mkdir()
    for number in range(5_001):
        os.close(os.open(folder / f"many/{number}", os.O_CREAT))
    gathered = shop.gather(must_change=False)
    assert gathered.problems == ("5001 files changed, more than 5000; is a .gitignore missing?",)
    assert gathered.commit == shop.base


def test_a_name_that_is_no_text_is_a_problem_in_one_line(shop: Shop) -> None:
    folder = shop.open()
    (Path(os.fsdecode(os.fsencode(folder) + b"/\xff\n"))).write_text("x")
    gathered = shop.gather()
    assert gathered.problems == ("'\\\\xff\\n' has a name that is not UTF-8",)
    assert gathered.touched[0].path.encode()


# -- hostile agents


def agent_commits(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "mine")


def agent_goes_elsewhere(folder: Path) -> None:
    git(folder, "checkout", "-q", "feature")


def agent_resets_softly(folder: Path) -> None:
    agent_commits(folder)
    git(folder, "checkout", "-q", "--orphan", "other")


def agent_stages_half(folder: Path) -> None:
    git(folder, "rm", "-q", "--cached", "cart.py")
    git(folder, "update-index", "--assume-unchanged", "docs/notes.md")


def agent_breaks_the_index(folder: Path) -> None:
    Path(git(folder, "rev-parse", "--git-path", "index").strip()).write_bytes(b"broken")


def agent_removes_git(folder: Path) -> None:
    (folder / ".git").unlink()


def agent_makes_git_its_own(folder: Path) -> None:
    (folder / ".git").unlink()
    git(folder, "init", "-q")


def agent_forgets_the_worktree(folder: Path) -> None:
    (folder / ".git").unlink()
    git(folder.parents[3], "worktree", "prune")


def agent_deletes_its_branch(folder: Path) -> None:
    git(folder, "checkout", "-q", "--detach")
    git(folder, "branch", "-q", "-D", "logos-work/r1/cart")


HOSTILE = [
    agent_commits,
    agent_goes_elsewhere,
    agent_resets_softly,
    agent_stages_half,
    agent_breaks_the_index,
    agent_removes_git,
    agent_makes_git_its_own,
    agent_forgets_the_worktree,
    agent_deletes_its_branch,
]


@pytest.mark.parametrize("agent", HOSTILE, ids=lambda agent: agent.__name__)
def test_whatever_an_agent_does_with_git_its_files_are_taken(shop: Shop, agent: Callable[[Path], None]) -> None:
    folder = shop.open()
    write(folder, "a.py", "def a(): ...\n")
    write(folder, "docs/notes.md", "changed\n")
    agent(folder)
    with left_alone(shop.wd):
        gathered = shop.gather()
    assert [it.path for it in gathered.touched] == ["a.py", "docs/notes.md"]
    assert git(shop.wd, "rev-parse", f"{gathered.commit}^").strip() == shop.base


def test_an_agent_that_throws_all_away_changed_nothing(shop: Shop) -> None:
    folder = shop.open()
    write(folder, "cart.py", "")
    git(folder, "reset", "-q", "--hard")
    assert shop.gather().problems == ("nothing was changed",)


def test_a_folder_that_is_gone_is_a_problem_and_can_be_made_again(shop: Shop) -> None:
    shutil.rmtree(shop.open())
    gathered = shop.gather()
    assert (gathered.commit, gathered.problems) == (shop.base, ("the worktree was deleted",))
    assert (shop.open() / "cart.py").exists()


def test_a_folder_replaced_by_a_link_to_the_persons_work_is_not_followed(shop: Shop) -> None:
    folder = shop.open()
    shutil.rmtree(folder)
    folder.symlink_to(shop.wd)
    with left_alone(shop.wd):
        assert shop.gather().problems == ("the worktree was deleted",)
        assert (shop.open() / "cart.py").exists()
        shop.workspace.close(None)


def test_a_git_file_that_points_to_the_agents_own_settings_runs_nothing(shop: Shop, tmp_path: Path) -> None:
    folder = shop.open()
    (folder / ".git").unlink()
    git(folder, "init", "-q", "--separate-git-dir", str(folder / "evil"))
    git(folder, "config", "core.fsmonitor", f"touch {tmp_path}/ran")
    git(folder, "config", "filter.x.clean", f"touch {tmp_path}/ran; cat")
    write(folder, ".gitattributes", "* filter=x\n")
    shop.gather()
    shop.workspace.ready(shop.place())
    assert not (tmp_path / "ran").exists()


def test_programs_in_the_repositorys_settings_are_not_run(shop: Shop, tmp_path: Path) -> None:
    runs = f"touch {tmp_path}/ran; cat"
    hook = tmp_path / "hooks/post-checkout"
    write(tmp_path, "hooks/post-checkout", f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    for name in ("reference-transaction", "post-index-change", "pre-commit"):
        shutil.copy2(hook, tmp_path / "hooks" / name)
    _, other = shop.contribution("other", "docs/notes.md", "zero\none\ntwo\nthree\n")
    folder = shop.open()
    write(folder, "docs/notes.md", "one\ntwo\nthree\nfour\n")
    write(folder, ".gitattributes", "*.md filter=a=b merge=x.y diff=z\n")
    for key, value in {
        "filter.a=b.clean": runs,
        "filter.a=b.smudge": runs,
        "filter.a=b.required": "true",
        "merge.x.y.driver": f"touch {tmp_path}/ran",
        "diff.z.textconv": runs,
        "diff.external": runs,
        "core.fsmonitor": runs,
        "core.hooksPath": str(hook.parent),
        "commit.gpgSign": "true",
        "gpg.program": runs,
    }.items():
        git(folder, "config", key, value)
    gathered = shop.gather()
    merged = shop.workspace.merge(Merge(TURN, gathered.commit, (("other", other),)))
    ready = Path(shop.workspace.ready(Worktree("main", (merged.commit,))))
    assert "notes.md" in "".join(diff_stat(shop.wd, shop.base, merged.commit))
    assert (ready / "docs/notes.md").read_text() == "zero\none\ntwo\nthree\nfour\n"
    shop.workspace.close(None)
    assert not (tmp_path / "ran").exists()
    assert gathered.problems == ("docs/notes.md needs the filter a=b of this repository, which Logos does not run",)


def test_a_branch_that_an_agent_tied_to_the_persons_does_not_move_it(shop: Shop) -> None:
    folder = shop.open()
    git(folder, "checkout", "-q", "--detach")
    git(folder, "symbolic-ref", "refs/heads/logos-work/r1/cart", "refs/heads/trunk")
    write(folder, "a.py", "")
    with left_alone(shop.wd):
        gathered = shop.gather()
        git(folder, "symbolic-ref", "refs/heads/logos-work/r1/cart", "refs/heads/trunk")
        shop.open()
        git(folder, "symbolic-ref", "refs/heads/logos-work/r1/cart", "refs/heads/trunk")
        shop.workspace.close(gathered.commit)
    assert leftovers(shop.wd) == ["refs/heads/logos/r1"]


def test_folders_an_agent_locked_are_removed_all_the_same(shop: Shop) -> None:
    folder = shop.open()
    write(folder, "cache/deep/x", "")
    (folder / "cache/deep").chmod(0)
    (folder / "cache").chmod(0o500)
    shop.workspace.close(None)
    assert leftovers(shop.wd) == []


# -- merging


@pytest.mark.scenario("LOG-14")
def test_pieces_that_change_the_same_lines_clash_and_nothing_is_merged(shop: Shop) -> None:
    contributions = (
        shop.contribution("free", "free.py", "free\n"),
        shop.contribution("one", "docs/notes.md", "1\ntwo\nthree\n"),
        shop.contribution("two", "docs/notes.md", "2\ntwo\nthree\n"),
        shop.contribution("three", "free.py", "other\n"),
    )
    with left_alone(shop.wd):
        merged = shop.workspace.merge(Merge(TURN, shop.base, contributions))
    assert merged.commit == shop.base
    assert [(it.kind, it.components, it.where) for it in merged.clashes] == [
        ("merge", ("two", "one"), "docs/notes.md"),
        ("merge", ("three", "free"), "free.py"),
    ]
    assert all("conflict" in it.detail.lower() and "\n" not in it.detail for it in merged.clashes)


def test_a_file_deleted_by_one_and_changed_by_another_is_a_clash(shop: Shop) -> None:
    (shop.open("one") / "docs/notes.md").unlink()
    one = ("one", shop.gather("one").commit)
    two = shop.contribution("two", "docs/notes.md", FILES["docs/notes.md"] + "four\n")
    (clash,) = shop.workspace.merge(Merge(TURN, shop.base, (one, two))).clashes
    assert (clash.components, clash.where) == (("two", "one"), "docs/notes.md")


def test_a_clash_with_what_was_there_before_names_the_one_component(shop: Shop) -> None:
    _, before = shop.contribution("before", "docs/notes.md", "0\n")
    cart = shop.contribution("cart", "docs/notes.md", "1\n")
    (clash,) = shop.workspace.merge(Merge(TURN, before, (cart,))).clashes
    assert clash.components == ("cart",)


def test_a_merge_repeated_gives_the_same_commit(shop: Shop) -> None:
    contributions = (shop.contribution("one", "one.py", ""), shop.contribution("two", "two.py", ""))
    merge = Merge(TURN, shop.base, contributions)
    assert shop.workspace.merge(merge) == shop.restarted().workspace.merge(merge)


def test_a_piece_that_is_in_already_is_not_merged_again(shop: Shop) -> None:
    contribution = shop.contribution("one", "one.py", "")
    merged = shop.workspace.merge(Merge(TURN, shop.base, (("none", shop.base), contribution, contribution)))
    assert git(shop.wd, "log", "--format=%s", f"{shop.base}..{merged.commit}").split("\n") == [
        "Merge one",
        "The one",
        "",
    ]
    assert shop.workspace.merge(Merge(TURN, shop.base, ())).commit == shop.base


def test_work_of_a_run_outlives_the_cleaning_of_the_repository(shop: Shop) -> None:
    contributions = (shop.contribution("one", "one.py", ""), shop.contribution("two", "two.py", ""))
    merged = shop.workspace.merge(Merge(TURN, shop.base, contributions))
    shop.open("one")
    shop.open("two")
    git(shop.wd, "-c", "gc.reflogExpireUnreachable=now", "gc", "-q", "--prune=now")
    assert (Path(shop.workspace.ready(Worktree("main", (merged.commit,)))) / "two.py").exists()


# -- ready


def test_a_ready_place_has_nothing_that_was_left_lying_but_what_git_ignores(shop: Shop) -> None:
    _, commit = shop.contribution("cart", "new.py", "")
    folder = Path(shop.workspace.ready(shop.place("main")))
    write(folder, "cart.py", "changed")
    write(folder, "untracked/x.py", "")
    write(folder, "new.py/in/the/way", "")
    write(folder, "build/kept.o", "")
    (folder / "telos.toml").unlink()
    git(folder / "untracked", "init", "-q")
    assert shop.workspace.ready(Worktree("main", (commit,))) == str(folder)
    assert (folder / "new.py").read_text() == ""
    assert (folder / "cart.py").read_text() == FILES["cart.py"]
    assert (folder / "build/kept.o").exists()
    assert not (folder / "untracked").exists()
    assert git(folder, "status", "--porcelain", "--branch") == "## logos/r1\n"
    assert git(shop.wd, "rev-parse", "logos/r1").strip() == commit
    assert not (Path(shop.workspace.ready(shop.place("main"))) / "new.py").exists()


@pytest.mark.parametrize(
    "agent",
    [agent_goes_elsewhere, agent_makes_git_its_own, agent_forgets_the_worktree],
    ids=lambda agent: agent.__name__,
)
def test_a_place_an_agent_broke_is_kept_until_it_is_made_ready_again(shop: Shop, agent: Callable[[Path], None]) -> None:
    folder = shop.open()
    write(folder, "a.py", "")
    agent(folder)
    with left_alone(shop.wd):
        assert shop.restarted().workspace.open(shop.place(), anew=False) == str(folder)
        assert (folder / "a.py").exists()
        shop.workspace.ready(shop.place())
        assert not (folder / "a.py").exists()
        assert git(folder, "status", "--porcelain", "--branch") == "## logos-work/r1/cart\n"
        shop.workspace.close(None)
    assert leftovers(shop.wd) == []


# -- killed in the middle


def half_registered(wd: Path) -> None:
    write(wd, ".git/worktrees/r1.cart/locked", "initializing")


def half_made(wd: Path) -> None:
    write(wd, ".git/worktrees/r1.cart/locked", "initializing")
    write(wd, ".git/worktrees/r1.cart/gitdir", f"{wd}/.telos/worktrees/r1/cart/.git\n")
    write(wd, ".telos/worktrees/r1/cart/.git", f"gitdir: {wd}/.git/worktrees/r1.cart\n")


def half_filled(wd: Path) -> None:
    folder = GitWorkspace(wd, RUN).open(Worktree("cart", (git(wd, "rev-parse", "HEAD").strip(),)), anew=True)
    (Path(folder) / "cart.py").unlink()
    (wd / ".telos/worktrees/r1/.cart.made").unlink()
    write(wd, ".git/worktrees/r1.cart/index.lock", "")
    write(wd, ".telos/worktrees/r1/.cart.index.lock", "")
    git(wd, "worktree", "lock", folder)


def only_the_branch(wd: Path) -> None:
    git(wd, "branch", "logos-work/r1/cart")
    write(wd, ".git/refs/heads/logos-work/r1/cart.lock", "")


def only_the_folder(wd: Path) -> None:
    write(wd, ".telos/worktrees/r1/cart/old.txt", "")


def only_the_registration(wd: Path) -> None:
    half_filled(wd)
    shutil.rmtree(wd / ".telos")


KILLED = [half_registered, half_made, half_filled, only_the_branch, only_the_folder, only_the_registration]


@pytest.mark.parametrize("killed", KILLED, ids=lambda killed: killed.__name__)
def test_a_place_left_half_made_is_made_whole(shop: Shop, killed: Callable[[Path], None]) -> None:
    killed(shop.wd)
    folder = Path(shop.workspace.open(shop.place(), anew=False))
    assert git(folder, "status", "--porcelain", "--branch") == "## logos-work/r1/cart\n"
    assert sorted(os.listdir(folder)) == [".git", ".gitignore", "cart.py", "docs", "telos.toml"]
    write(folder, "a.py", "")
    git(folder, "add", "-A")
    assert shop.gather().problems == ()
    shop.workspace.close(None)
    assert leftovers(shop.wd) == []


@pytest.mark.parametrize("killed", [half_made, half_filled, only_the_branch, only_the_registration])
def test_a_place_left_half_made_is_closed_without_a_trace(shop: Shop, killed: Callable[[Path], None]) -> None:
    killed(shop.wd)
    shop.workspace.close(None)
    assert leftovers(shop.wd) == []


def test_an_index_of_ours_that_is_broken_is_made_again(shop: Shop) -> None:
    write(shop.open(), "a.py", "")
    write(shop.wd, ".telos/worktrees/r1/.cart.index", "broken")
    assert [it.path for it in shop.gather().touched] == ["a.py"]


# -- where the work dir is, and what is set up in it


def test_a_work_dir_below_the_top_is_the_same_folder_in_its_places(shop: Shop) -> None:
    sub = Shop(shop.wd / "docs", shop.base, GitWorkspace(shop.wd / "docs", RUN))
    with left_alone(shop.wd):
        folder = sub.open()
        assert folder == shop.wd / "docs/.telos/worktrees/r1/cart/docs"
        write(folder, "new.md", "")
        write(folder, "telos.toml", "")
        write(folder, "../cart.py", "")
        gathered = sub.gather("cart", "new.md", "deep/more.md", "cart.py")
        assert [it.path for it in gathered.touched] == ["../cart.py", "new.md", "telos.toml"]
        assert gathered.problems == (
            "cart.py is declared, but does not exist",
            "telos.toml belongs to the user and was restored",
        )
        sub.workspace.close(None)
    assert not (shop.wd / "docs/.telos/worktrees").exists()


def test_a_work_dir_that_no_commit_has_is_there_in_its_places(shop: Shop) -> None:
    (shop.wd / "build").mkdir()
    assert Path(GitWorkspace(shop.wd / "build", RUN).open(shop.place(), anew=True)).is_dir()


def test_a_work_dir_replaced_by_a_link_is_not_worked_in(shop: Shop, tmp_path: Path) -> None:
    workspace = GitWorkspace(shop.wd / "docs", RUN)
    folder = Path(workspace.open(shop.place(), anew=True))
    shutil.rmtree(folder)
    folder.symlink_to(tmp_path)
    with pytest.raises(HostError, match="is outside the worktree"):
        workspace.open(shop.place(), anew=False)


def test_it_works_in_a_linked_worktree_of_a_bare_repository(shop: Shop, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(shop.wd), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "tree ß"), "feature")
    there = Shop(
        tmp_path / "tree ß", base_of(tmp_path / "tree ß", allow_dirty=False), GitWorkspace(tmp_path / "tree ß", RUN)
    )
    assert [it.path for it in (write(there.open(), "a.py", ""), there.gather())[1].touched] == ["a.py"]
    there.workspace.close(None)
    assert git(there.wd, "status", "--porcelain") == ""


def test_the_callers_git_variables_lead_nowhere(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as hook:
        for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
            hook.setenv(name, str(tmp_path / "elsewhere"))
        hook.setenv("GIT_AUTHOR_NAME", "Somebody")
        assert base_of(shop.wd, allow_dirty=False) == shop.base
        workspace = with_setup(shop, "git rev-parse --show-toplevel > top.txt")
        folder = Path(workspace.open(shop.place(), anew=True))
        commit = workspace.gather(Gather(TURN, shop.place(), "The cart")).commit
    assert (folder / "top.txt").read_text() == f"{folder}\n"
    assert git(shop.wd, "show", "-s", "--format=%an", commit) == "Logos\n"
    assert not (tmp_path / "elsewhere").exists()


def with_setup(shop: Shop, command: str) -> GitWorkspace:
    return GitWorkspace(shop.wd, RUN, Setup(command, SupervisedCommands(shop.wd / ".telos" / "checks", shop.wd)))


def test_the_setup_runs_once_in_a_new_place_and_knows_the_work_dir(shop: Shop) -> None:
    workspace = with_setup(shop, 'mkdir -p build && echo "$LOGOS_ROOT" >> build/root')
    for anew in (True, False):
        folder = Path(workspace.open(shop.place(), anew=anew))
    workspace.ready(shop.place())
    assert (folder / "build/root").read_text() == f"{shop.wd}\n"


def test_a_setup_that_fails_says_why_and_is_run_again(shop: Shop) -> None:
    workspace = with_setup(shop, "touch build.log; echo no such package; test -e $LOGOS_ROOT/ok.log")
    with pytest.raises(HostError, match="no such package"):
        workspace.open(shop.place(), anew=False)
    write(shop.wd, "ok.log", "")
    assert Path(workspace.open(shop.place(), anew=False), "build.log").exists()


# -- what a build starts from


def test_a_clean_repository_is_built_on_its_head(shop: Shop) -> None:
    write(shop.wd, "build/ignored.o", "")
    assert base_of(shop.wd, allow_dirty=False) == base_of(shop.wd / "docs", allow_dirty=True) == shop.base


def test_a_dirty_repository_is_not_built_on_unless_a_snapshot_is_allowed(shop: Shop) -> None:
    write(shop.wd, "cart.py", "x\n")
    git(shop.wd, "stash", "-q")
    for path in ("untracked.py", "cart.py"):
        write(shop.wd, path, "x\n")
        write(shop.wd, "a.log", "ignored")
        with left_alone(shop.wd):
            with pytest.raises(UsageError, match=r"commit or stash.*--allow-dirty"):
                base_of(shop.wd / "docs", allow_dirty=False)
            snapshot = base_of(shop.wd / "docs", allow_dirty=True)
        assert (shop.wd / path).read_text() == "x\n"
        assert git(shop.wd, "rev-parse", f"{snapshot}^").strip() == shop.base
        assert path in git(shop.wd, "diff", "--name-only", shop.base, snapshot).split()
        assert snapshot in git(shop.wd, "for-each-ref", "--format=%(objectname)", "refs/logos/snapshots").split()


def test_a_repository_without_a_commit_needs_one_or_a_snapshot(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, "a.py", "")
    with pytest.raises(UsageError, match=r"no commit yet.*git commit"):
        base_of(tmp_path, allow_dirty=False)
    snapshot = base_of(tmp_path, allow_dirty=True)
    assert in_commit(tmp_path, snapshot) == ["a.py"]
    assert git(tmp_path, "status", "--porcelain") == "?? a.py\n"
    assert not (tmp_path / ".git/index").exists()


def test_a_folder_that_is_no_repository_is_told_how_to_become_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"not a git repository.*git init && git add -A && git commit -m start"):
        base_of(tmp_path, allow_dirty=True)


def test_a_bare_repository_cannot_be_built_in(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare")
    with pytest.raises(UsageError, match="bare"):
        base_of(tmp_path, allow_dirty=True)


def test_what_is_under_way_must_be_finished_first(shop: Shop) -> None:
    for path, what in (("CHERRY_PICK_HEAD", "cherry-pick"), ("rebase-merge", "rebase"), ("MERGE_HEAD", "merge")):
        write(shop.wd, f".git/{path}", shop.base)
        with pytest.raises(UsageError, match=f"a {what} is in progress"):
            base_of(shop.wd, allow_dirty=True)


@pytest.mark.parametrize(("says", "why"), [("git version 2.37.9", "2.38 or newer"), ("", "not on PATH")])
def test_git_must_be_there_and_new_enough(
    wd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, why: str
) -> None:
    (tmp_path / "bin").mkdir()
    if says:
        write(tmp_path, "bin/git", f"#!/bin/sh\necho {says}\n")
        (tmp_path / "bin/git").chmod(stat.S_IRWXU)
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("PATH", str(tmp_path / "bin"))
        with pytest.raises(UsageError, match=why):
            base_of(wd, allow_dirty=False)


def test_what_two_commits_differ_in_can_be_shown(shop: Shop) -> None:
    _, commit = shop.contribution("cart", "docs/notes.md", "one\nand a half ß\ntwo\nthree\n")
    assert diff_stat(shop.wd, shop.base, commit) == [
        " docs/notes.md | 1 +",
        " 1 file changed, 1 insertion(+)",
    ]
    assert diff_stat(shop.wd, shop.base, shop.base) == []
    with pytest.raises(HostError, match="is not a commit"):
        diff_stat(shop.wd, "--output=x", commit)


@pytest.mark.scenario("LOG-14")
def test_work_that_goes_on_from_earlier_work_is_compared_with_what_both_began_at(shop: Shop) -> None:
    _, first = shop.contribution("cart", "cart.py", FILES["cart.py"] + "\n\ndef empty():\n    return True\n")
    later = Worktree("cart", (first,))
    folder = Path(shop.workspace.open(later, anew=True))
    write(folder, "extra.py", "def extra():\n    return 1\n")
    delta = shop.workspace.gather(Gather(TURN, later, "more"))
    whole = shop.workspace.gather(Gather(TURN, later, "more", since=(shop.base,)))
    assert [touched.path for touched in delta.touched] == ["extra.py"]
    assert {touched.path: touched.defines for touched in whole.touched} == {
        "cart.py": ("empty",),
        "extra.py": ("extra",),
    }
    trees = [git(shop.wd, "rev-parse", f"{one.commit}^{{tree}}") for one in (delta, whole)]
    assert (trees[0], whole.problems) == (trees[1], ())


def test_many_agents_are_sent_to_the_same_place_at_once(shop: Shop) -> None:
    with ThreadPoolExecutor(6) as threads:
        folders = set(threads.map(lambda _: shop.workspace.ready(shop.place("main")), range(18)))
    assert len(folders) == 1
    assert git(folders.pop(), "status", "--porcelain") == ""


def test_what_init_has_just_written_does_not_count_as_uncommitted(shop: Shop) -> None:
    for name in ("logos.json", "prompt.md"):
        write(shop.wd, name, "new")
    assert base_of(shop.wd, allow_dirty=False) == shop.base
    write(shop.wd, "docs/prompt.md", "somebody's own")
    with pytest.raises(UsageError, match="uncommitted changes"):
        base_of(shop.wd, allow_dirty=False)


def test_a_file_that_was_declared_and_deleted_is_delivered(shop: Shop) -> None:
    (shop.open() / "docs/notes.md").unlink()
    assert shop.gather("cart", "docs/notes.md", "cart.py").problems == ()
    assert shop.gather("cart", "docs/never.md").problems == ("docs/never.md is declared, but does not exist",)


def test_work_that_was_refused_can_be_mended_and_the_telos_is_back(shop: Shop) -> None:
    folder = shop.open()
    write(folder, "telos.toml", "purpose = 'ads'\n")
    write(folder, "cart.py", "def mine():\n    return 1\n")
    assert shop.gather().problems != ()
    assert (folder / "telos.toml").read_text() == FILES["telos.toml"]
    assert git(folder, "status", "--porcelain") == " M cart.py\n"
    again = shop.gather()
    assert ([touched.path for touched in again.touched], again.problems) == (["cart.py"], ())


def test_work_that_is_given_up_is_kept_as_commits_and_nothing_else(shop: Shop) -> None:
    _, gathered = shop.contribution("price", "price.py", "x = 1\n")
    write(shop.open("cart"), "half.py", "half = 'done'\n")
    with left_alone(shop.wd):
        shop.workspace.give_up(None)
    assert git(shop.wd, "worktree", "list").count("\n") == 1
    assert git(shop.wd, "branch", "--list", "logos*") == ""
    kept = git(shop.wd, "for-each-ref", "--format=%(objectname)", f"refs/logos/{RUN}/").split()
    assert gathered in kept
    assert any("half.py" in git(shop.wd, "ls-tree", "--name-only", commit) for commit in kept)


def test_a_folder_of_that_name_in_the_project_does_not_bring_responses_into_the_work(shop: Shop) -> None:
    write(shop.wd, ".tmp/theirs.md", "in git")
    git(shop.wd, "add", "-f", ".tmp/theirs.md")
    git(shop.wd, "commit", "-q", "-m", "a folder called .tmp")
    place = Worktree("cart", (git(shop.wd, "rev-parse", "HEAD").strip(),))
    folder = shop.workspace.open(place, anew=True)
    write(folder, ".tmp/agent-responses/s1.L2.cart.author.md", "a response")
    write(folder, ".tmp/own.md", "work")
    gathered = shop.workspace.gather(Gather(TURN, place, "The cart"))
    assert [touched.path for touched in gathered.touched] == [".tmp/own.md"]


@pytest.mark.scenario("LOG-14")
def test_pieces_that_change_different_lines_of_a_file_are_merged_by_git(shop: Shop) -> None:
    first = shop.contribution("one", "cart.py", FILES["cart.py"].replace("return item", "return [item]"))
    second = shop.contribution("two", "cart.py", FILES["cart.py"].replace("return 0", "return 1"))
    merged = shop.workspace.merge(Merge(TURN, shop.base, (first, second)))
    assert merged.clashes == ()
    assert git(shop.wd, "show", f"{merged.commit}:cart.py") == (
        FILES["cart.py"].replace("return item", "return [item]").replace("return 0", "return 1")
    )


def test_many_pieces_with_new_changed_and_deleted_files_are_collected_exactly(shop: Shop) -> None:
    def work(name: str, change: Callable[[Path], None]) -> tuple[str, str]:
        change(shop.open(name))
        return name, shop.gather(name).commit

    def link(folder: Path) -> None:
        (folder / "run").symlink_to("cart.py")

    def executable(folder: Path) -> None:
        (folder / "tool.sh").write_text("#!/bin/sh\n")
        (folder / "tool.sh").chmod(0o755)

    merged = shop.workspace.merge(
        Merge(
            TURN,
            shop.base,
            (
                work("gone", lambda folder: (folder / "docs/notes.md").unlink()),
                work("new", lambda folder: write(folder, "docs/ü\nñ.md", "odd name")),
                work("link", link),
                work("tool", executable),
            ),
        )
    )
    rows = [row.partition("\t") for row in git(shop.wd, "ls-tree", "-r", "-z", merged.commit).split("\0")[:-1]]
    modes = {path: about.split()[0] for about, _, path in rows}
    assert (modes["run"], modes["tool.sh"], modes["docs/ü\nñ.md"]) == ("120000", "100755", "100644")
    assert "docs/notes.md" not in modes
    assert len(git(shop.wd, "rev-parse", f"{merged.commit}^@").split()) == 5
