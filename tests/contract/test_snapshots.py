"""Snapshots with real git: every file comes back as it was, and neither agents nor accidents make them touch anything else."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from logos.adapters.git.command import repository_of
from logos.adapters.git.commits import LARGEST_FILE, MOST_BYTES, MOST_FILES
from logos.adapters.git.snapshots import GitSnapshots
from logos.domain.events import RunStarted, TurnAnswered
from logos.domain.turns import RunId, TurnId
from logos.engine.checkpoints import Checkpoints, work_tree
from logos.errors import HostError, UsageError
from logos.testing import MemoryLog
from tests.builders import a_plan, examples
from tests.support.repositories import make_repository
from tests.support.waiting import wait_for

RUN = RunId("r1")
FILES = {
    "cart.py": "def add(item):\n    return item\n",
    "docs/notes.md": "one\ntwo\n",
    "docs/deep/more.md": "more\n",
    ".gitignore": "build/\n*.log\n",
}
TRACKED = {path.encode() for path in FILES}
PERSONS = ("HEAD", "index", "config", "logs/HEAD", "logs/refs/stash", "MERGE_HEAD", "info/exclude", "packed-refs")

# What lies at a path: "link", "file" or "program", and its content.
Lying = dict[bytes, tuple[str, bytes]]
Change = Callable[[Path], None]
Settle = Callable[[str], None]


def git(wd: Path | str, *arguments: str) -> str:
    """Git as a person or an agent runs it."""
    done = subprocess.run(
        ["git", *arguments], cwd=wd, capture_output=True, text=True, errors="surrogateescape", check=False
    )
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return done.stdout


def write(folder: Path | str, path: str, content: str | bytes = "") -> Path:
    file = Path(folder) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def lying(wd: Path) -> Lying:
    """Every file and link below a folder, but for git's and ours."""
    found: Lying = {}
    top = os.fsencode(wd)
    for folder, below, files in os.walk(top):
        below[:] = [name for name in below if name != b".git" and os.path.join(folder, name) != top + b"/.telos"]
        for name in (*files, *(name for name in below if os.path.islink(os.path.join(folder, name)))):
            full = os.path.join(folder, name)
            mode = os.lstat(full).st_mode
            if stat.S_ISLNK(mode):
                found[os.path.relpath(full, top)] = "link", os.readlink(full)
            elif stat.S_ISREG(mode) and name != b".git":
                found[os.path.relpath(full, top)] = _kind(mode), Path(os.fsdecode(full)).read_bytes()
    return found


def _kind(mode: int) -> str:
    return "program" if mode & stat.S_IXUSR else "file"


_KINDS = {b"100644": "file", b"100755": "program", b"120000": "link"}


def kept(wd: Path, commit: str) -> Lying:
    """What a snapshot holds, with the paths as seen from the top; of repositories inside, nothing."""
    listed = subprocess.run(["git", "ls-tree", "-rz", "--full-tree", commit], cwd=wd, capture_output=True, check=True)
    entries = [entry.partition(b"\t") for entry in listed.stdout.split(b"\0") if entry.startswith((b"100", b"120"))]
    asked = b"".join(about.split()[2] + b"\n" for about, _, _ in entries)
    said = subprocess.run(["git", "cat-file", "--batch"], cwd=wd, input=asked, capture_output=True, check=True).stdout
    found: Lying = {}
    for about, _, path in entries:
        head, _, said = said.partition(b"\n")
        size = int(head.split()[-1])
        found[path] = _KINDS[about.split()[0]], said[:size]
        said = said[size + 1 :]
    return found


def seen(wd: Path) -> set[bytes]:
    """What the person's git does not ignore: tracked, or untracked."""
    flags = ("--cached", "--others", "--exclude-standard")
    done = subprocess.run(["git", "ls-files", "-z", *flags], cwd=wd, capture_output=True, check=True)
    return set(done.stdout.split(b"\0"))


def persons(wd: Path) -> dict[str, object]:
    """All that is the person's and that Logos must not touch."""
    home = next(path / ".git" for path in (wd, *wd.parents) if (path / ".git").exists())
    if home.is_file():
        home = Path(home.read_text().removeprefix("gitdir: ").strip())
    refs = git(wd, "for-each-ref", "--format=%(refname) %(objectname) %(symref)").splitlines()
    return {
        "refs": [ref for ref in refs if not ref.startswith("refs/logos/")],
        **{name: file.read_bytes() for name in PERSONS if (file := home / name).is_file()},
    }


@contextmanager
def left_alone(wd: Path) -> Iterator[None]:
    before = persons(wd)
    yield
    assert persons(wd) == before


def status(wd: Path) -> str:
    return git(wd, "--no-optional-locks", "status", "--porcelain")


@pytest.fixture(autouse=True, scope="module")
def own_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Git settings for all repositories, as a person has them, and nobody else's."""
    home = tmp_path_factory.mktemp("home")
    ours = write(home, ".gitconfig", "[user]\n\tname = A Person\n\temail = person@example.org\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", str(ours))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        patch.setenv("HOME", str(home))
        patch.delenv("XDG_CONFIG_HOME", raising=False)
        yield ours


@pytest.fixture
def globally(own_settings: Path) -> Iterator[Settle]:
    """Settings for all repositories that hold for one test."""
    before = own_settings.read_bytes()

    def add(text: str) -> None:
        with own_settings.open("a") as sink:
            sink.write(text)

    yield add
    own_settings.write_bytes(before)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wd = tmp_path_factory.mktemp("template") / "shop"
    wd.mkdir()
    git(wd, "init", "-q", "-b", "trunk", "--template=")
    for path, text in FILES.items():
        write(wd, path, text)
    git(wd, "add", "-A")
    git(wd, "commit", "-q", "-m", "start")
    git(wd, "branch", "feature")
    write(wd, "cart.py", "stashed\n")
    git(wd, "stash", "-q")
    return wd


@pytest.fixture
def wd(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "shop", symlinks=True))


@pytest.fixture
def dependencies(tmp_path: Path) -> Path:
    """A folder of the person's that is no part of the repository."""
    write(tmp_path / "outside", "cart.py", "nobody's business\n")
    return tmp_path / "outside"


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


class Trap:
    """A program that must never run, and shows when it did."""

    def __init__(self, folder: Path) -> None:
        self._mark = folder / "sprung"
        self.program = write(folder, "trap.sh", f'#!/bin/sh\necho "$0 $*" >> {self._mark}\nexit 1\n')
        self.program.chmod(0o755)

    @property
    def sprung(self) -> str:
        return self._mark.read_text() if self._mark.exists() else ""


def edit(wd: Path) -> None:
    """A bit of everything."""
    shutil.rmtree(wd / "docs/deep")
    write(wd, "docs/deep", "a file now\n")
    (wd / "docs/notes.md").rename(wd / "renamed.md")
    (wd / "cart.py").unlink()
    write(wd, "cart.py/part", b"\0binary\r\n\xff")
    write(wd, "new file", "new\n").chmod(0o755)
    write(wd, "empty")
    (wd / "link").symlink_to("new file")
    write(wd, "a.log", "ignored\n")


def restored(wd: Path, commit: str) -> None:
    """Restore as Logos does it: by a process of its own, with what lies there taken and kept before."""
    snapshots = GitSnapshots(wd)
    snapshots.keep(snapshots.take())
    snapshots.restore(commit)


def goes_there_and_back(wd: Path, change: Change = edit) -> None:
    """What lay there comes back exactly, then what lay there later; what is ignored stays, and nobody else notices."""
    snapshots = GitSnapshots(wd)
    before, persons_before = lying(wd), persons(wd)
    first = snapshots.take()
    change(wd)
    after, shown = lying(wd), status(wd)
    second = snapshots.take()
    snapshots.restore(first)
    assert {path: it for path, it in lying(wd).items() if path != b"a.log"} == before
    restored(wd, second)
    assert lying(wd) == after
    assert status(wd) == shown
    assert persons(wd) == persons_before


# -- what is kept, and under which name


def test_a_snapshot_has_what_lies_there_and_nothing_that_is_ignored(wd: Path) -> None:
    edit(wd)
    write(wd, "build/out", "ignored\n")
    with left_alone(wd):
        commit = GitSnapshots(wd).take()
    assert kept(wd, commit) == {p: it for p, it in lying(wd).items() if p not in (b"a.log", b"build/out")}
    assert git(wd, "log", "-1", "--format=%P", commit) == git(wd, "rev-parse", "HEAD")
    assert not (wd / ".telos").stat().st_mode & 0o077


def test_the_same_tree_on_the_same_head_is_the_same_commit(wd: Path) -> None:
    snapshots = GitSnapshots(wd)
    first = snapshots.take()
    assert snapshots.take() == first
    write(wd, "new", "new\n")
    second = snapshots.take()
    (wd / "new").unlink()
    assert snapshots.take() == first != second
    git(wd, "commit", "-q", "--allow-empty", "-m", "on")
    third = snapshots.take()
    assert third != first
    assert git(wd, "rev-parse", f"{third}^{{tree}}", f"{third}^") == git(wd, "rev-parse", f"{first}^{{tree}}", "HEAD")


def test_a_later_process_uses_the_commits_it_is_told_to_remember(wd: Path) -> None:
    first = GitSnapshots(wd).take()
    second = GitSnapshots(wd)
    second.remember([])
    second.remember([first, first])
    assert second.take() == first


def test_events_lead_to_commits_in_their_order_and_each_run_has_its_own(wd: Path) -> None:
    snapshots = GitSnapshots(wd)
    first = snapshots.take()
    write(wd, "new", "new\n")
    second = snapshots.take()
    snapshots.point(RUN, {9: first, 10: second, 100: first})
    snapshots.point(RunId("r10"), {1: second})
    snapshots.point(RUN, {10: first})
    snapshots.point(RUN, {second: second})
    assert list(GitSnapshots(wd).of(RUN).items()) == [(9, first), (10, first), (100, first)]
    assert snapshots.of(RunId("r10")) == {1: second}
    assert snapshots.of(RunId("r")) == {}


def test_the_files_that_differ_between_two_snapshots_are_named(wd: Path) -> None:
    snapshots = GitSnapshots(wd)
    before = snapshots.take()
    assert snapshots.changed(before, before) == []
    write(wd, "cart.py", "changed\n")
    write(wd, "new/ünicode.py")
    (wd / "docs/notes.md").rename(wd / "moved.md")
    write(wd, "some.log", "ignored")
    assert sorted(snapshots.changed(before, snapshots.take())) == [
        "cart.py",
        "docs/notes.md",
        "moved.md",
        "new/ünicode.py",
    ]


def test_the_digest_of_what_differs_stands_for_paths_and_contents_outside_a_folder(wd: Path) -> None:
    snapshots = GitSnapshots(wd)
    base = snapshots.take()

    def digest() -> str:
        return snapshots.digest(base, snapshots.take(), ["openspec/"])

    unchanged = digest()
    write(wd, "openspec/changes/x/tasks.md", "- [x] done")
    assert digest() == unchanged
    write(wd, "cart.py", "def add(item): ...")
    changed = digest()
    assert changed != unchanged
    write(wd, "cart.py", "def add(item): return 1")
    assert digest() not in (unchanged, changed)
    write(wd, "cart.py", "def add(item): ...")
    assert digest() == changed
    (wd / "cart.py").rename(wd / "basket.py")
    assert digest() != changed


def test_the_digest_leaves_out_a_folder_of_the_work_dir_also_below_the_top(wd: Path) -> None:
    snapshots = GitSnapshots(wd / "docs")
    base = snapshots.take()
    unchanged = snapshots.digest(base, base, ["openspec/"])
    write(wd, "docs/openspec/tasks.md", "- [x] done")
    assert snapshots.digest(base, snapshots.take(), ["openspec/"]) == unchanged


def test_snapshots_outlive_the_cleaning_of_the_repository(wd: Path) -> None:
    snapshots, commits = GitSnapshots(wd), list[str]()
    for name in ("pointed", "held", "kept"):
        write(wd, name, name)
        commits.append(snapshots.take())
    snapshots.point(RUN, {1: commits[0]})
    snapshots.point(RUN, {commits[1]: commits[1]})
    snapshots.keep(commits[2])
    git(wd, "gc", "-q", "--prune=now")
    for commit, names in zip(commits, (1, 2, 3), strict=True):
        restored(wd, commit)
        assert sum((wd / name).exists() for name in ("pointed", "held", "kept")) == names


@pytest.mark.parametrize("same", [False, True], ids=["another process", "the same process"])
def test_what_no_ref_leads_to_may_be_cleaned_away_and_snapshots_go_on(wd: Path, same: bool) -> None:
    write(wd, "new", "new\n")
    snapshots = GitSnapshots(wd)
    snapshots.take()
    git(wd, "prune", "--expire=now")
    commit = (snapshots if same else GitSnapshots(wd)).take()
    snapshots.point(RUN, {1: commit})
    assert kept(wd, commit) == lying(wd)


def test_a_commit_that_is_none_changes_nothing(wd: Path) -> None:
    snapshots = GitSnapshots(wd)
    write(wd, "new", "new\n")
    before = lying(wd)
    for name in ("", "--help", "HEAD:docs", "12" * 20, "no such"):
        with left_alone(wd), pytest.raises((HostError, UsageError)):
            snapshots.restore(name)
        with pytest.raises(HostError):
            snapshots.point(RUN, {1: name})
    assert lying(wd) == before
    assert snapshots.of(RUN) == {}


# -- whatever is done to files


PLAIN = [b"a", b"A", b"b c", b"x.log", b".gitignore", b".gitattributes", b"-rf", b"end ", b"n" * 255]
ODD = [b":(top)a", b":(glob)a", b":!a", b"new\nline", b'"it\'s"', b"a\\b", b"[a]*", b"#a", b"!a", b"\xff\xfe"]
NAMES = [*PLAIN, *ODD]
TEXTS = [b"", b"one\n", b"two\n", b"crlf\r\n", b"\r\n\n\r", b"$Id$\n", b"$Id: 12 $\n", b"\xef\xbb\xbfbom"]
CONTENTS = [*TEXTS, b"\0\xff", "ü\n".encode("utf-16")]
IGNORES = [b"", b"*.log\n", b"a\n", b"a/\n", b"/b c\n", b"*\n", b"*\n!*/\n!.gitignore\n", b"!a\n", b"[[]a]*\n"]
ATTRIBUTES = [
    b"",
    b"* text=auto eol=crlf\n",
    b"* text eol=lf\n",
    b"* ident\n",
    b"* text working-tree-encoding=UTF-16\n",
    b"* filter=trap\n",
    b"[attr]m ident text eol=crlf filter=trap\n* m\n",
]
SPECIAL = {b".gitignore": IGNORES, b".gitattributes": ATTRIBUTES}

Edit = tuple[str, bytes, bytes]


@st.composite
def an_edit(draw: st.DrawFn) -> Edit:
    path = b"/".join(draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2)))
    # Git waits for whoever writes into a pipe that has the name of one of its files; see below.
    whats = ["write", "write", "write", "program", "delete", "rename", "link", "folder", "pipe"]
    what = draw(st.sampled_from(whats[:-1] if b".git" in path else whats))
    others: dict[str, list[bytes]] = {"rename": NAMES, "link": NAMES, "delete": [b""], "folder": [b""], "pipe": [b""]}
    return what, path, draw(st.sampled_from(others.get(what) or SPECIAL.get(path.rpartition(b"/")[2]) or CONTENTS))


def make(wd: Path, change: Edit) -> None:
    """Whatever is in the way gives way, as it does for an agent that insists."""
    what, path, other = change
    full = os.path.join(os.fsencode(wd), path)
    if what == "rename":
        if b".git" in other and os.path.lexists(full) and stat.S_ISFIFO(os.lstat(full).st_mode):
            return
        _clear(os.path.join(os.fsencode(wd), other), but=full)
        with suppress(OSError):
            os.rename(full, os.path.join(os.fsencode(wd), other))
        return
    _clear(full)
    if what == "delete":
        return
    if not os.path.isdir(os.path.dirname(full)) or os.path.islink(os.path.dirname(full)):
        _clear(os.path.dirname(full))
    os.makedirs(full if what == "folder" else os.path.dirname(full), exist_ok=True)
    match what:
        case "link":
            os.symlink(other, full)
        case "pipe":
            os.mkfifo(full)
        case "write" | "program":
            with open(full, "wb") as sink:
                sink.write(other)
            os.chmod(full, 0o755 if what == "program" else 0o644)


def _clear(full: bytes, but: bytes = b"") -> None:
    if but.startswith(full) or os.path.islink(os.path.dirname(full)):
        return
    if os.path.isdir(full) and not os.path.islink(full):
        shutil.rmtree(full)
    else:
        with suppress(OSError):
            os.unlink(full)


@pytest.mark.long
@given(first=st.lists(an_edit(), max_size=5), second=st.lists(an_edit(), min_size=1, max_size=8))
# Without looking for a smaller example when one fails: that would take minutes.
@settings(examples(10), phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_whatever_is_edited_comes_back_byte_for_byte(template: Path, first: list[Edit], second: list[Edit]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        wd = Path(shutil.copytree(template, f"{folder}/shop", symlinks=True))
        for change in first:
            make(wd, change)
        snapshots = GitSnapshots(wd)
        with left_alone(wd):
            one = snapshots.take()
            _is_whole(wd, one)
        for change in second:
            make(wd, change)
        with left_alone(wd):
            two, there = snapshots.take(), lying(wd)
            _is_whole(wd, two)
            shown = status(wd)
            try:
                before = snapshots.restore(one)
            except UsageError:
                assert lying(wd) == there
                return
            _is_restored(wd, one, before, there)
            snapshots.restore(before)
            assert lying(wd).items() >= there.items()
            assert not seen(wd) & (lying(wd).keys() - there.keys())
            assert status(wd) == shown


def _is_whole(wd: Path, commit: str) -> None:
    """A snapshot has everything that is not ignored, and nothing that is not there."""
    holds, there = kept(wd, commit), lying(wd)
    assert holds.items() <= there.items()
    assert {path for path in seen(wd) if path in there} <= holds.keys()


def _is_restored(wd: Path, wanted: str, before: str, there: Lying) -> None:
    """All that was wanted lies there, and of the rest what is ignored; whatever is not as it was is in `before`."""
    now, there_now, holds = lying(wd), kept(wd, wanted), kept(wd, before)
    assert now.items() >= there_now.items()
    more = {path: it for path, it in now.items() if path not in there_now}
    assert more.items() <= there.items()
    assert not seen(wd) & more.keys() & holds.keys()
    assert there.items() <= {**now, **holds}.items()
    assert {path: it for path, it in there.items() if path not in holds}.items() <= now.items()


def test_going_back_touches_only_what_differs(wd: Path) -> None:
    snapshots = GitSnapshots(wd)
    first = snapshots.take()
    before = (wd / "cart.py").stat()
    write(wd, "docs/notes.md", "changed\n")
    assert snapshots.restore(first) != first
    assert snapshots.restore(first) == first
    assert (wd / "cart.py").stat() == before


def test_an_edit_in_the_same_moment_that_keeps_size_and_time_is_seen(wd: Path) -> None:
    snapshots = GitSnapshots(wd)
    file = write(wd, "same", "aaaa")
    then = file.stat()
    for text in ("bbbb", "cccc"):
        before, commit = lying(wd), snapshots.take()
        file.write_text(text)
        os.utime(file, ns=(then.st_atime_ns, then.st_mtime_ns))
        assert kept(wd, snapshots.take()) == lying(wd)
        snapshots.restore(commit)
        assert lying(wd) == before
        file.write_text(text)


# -- ignored files


def test_what_became_ignored_is_not_lost_by_going_back(wd: Path) -> None:
    first = write(wd, "data", "old\n") and GitSnapshots(wd).take()
    (wd / "data").unlink()
    write(wd, ".gitignore", "data\n")
    GitSnapshots(wd).take()
    write(wd, "data", "precious\n")
    is_not_lost(wd, first, b"data")


def test_an_ignored_folder_is_not_lost_by_going_back_to_a_file(wd: Path) -> None:
    first = write(wd, "data", "old\n") and GitSnapshots(wd).take()
    (wd / "data").unlink()
    write(wd, ".gitignore", "data/\n")
    write(wd, "data/rows", "precious\n")
    is_not_lost(wd, first, b"data/rows")


def test_an_ignored_file_is_not_lost_by_going_back_to_a_folder(wd: Path) -> None:
    first = write(wd, "data/rows", "old\n") and GitSnapshots(wd).take()
    shutil.rmtree(wd / "data")
    GitSnapshots(wd).take()
    write(wd, ".gitignore", "data\n")
    write(wd, "data", "precious\n")
    is_not_lost(wd, first, b"data")


def is_not_lost(wd: Path, commit: str, path: bytes) -> None:
    """Refused and all is as it was, or the file is still there, or in a snapshot that is kept."""
    before = lying(wd)
    try:
        restored(wd, commit)
    except UsageError:
        assert lying(wd) == before
        return
    commits = git(wd, "for-each-ref", "--format=%(objectname)", "refs/logos/").split()
    assert before[path] in [lying(wd).get(path), *(kept(wd, commit).get(path) for commit in commits)]


def test_what_is_ignored_again_after_going_back_stays(wd: Path) -> None:
    write(wd, "a.log", "log\n")
    write(wd, ":(top)b.log", "log\n")
    first = GitSnapshots(wd).take()
    write(wd, ".gitignore", "")
    before = lying(wd)
    restored(wd, first)
    assert lying(wd) == {**before, b".gitignore": ("file", FILES[".gitignore"].encode())}


@pytest.mark.parametrize("name", [":(glob)x", ":!x", "linked/x"])
def test_a_name_that_git_takes_for_a_pattern_costs_no_ignored_file(wd: Path, name: str) -> None:
    (wd / "linked").symlink_to("docs")
    first = GitSnapshots(wd).take()
    write(wd, ".gitignore", "")
    (wd / "linked").unlink()
    write(wd, name, "x\n")
    write(wd, "z.log", "log\n")
    restored(wd, first)
    assert (wd / "z.log").read_text() == "log\n"


@pytest.mark.parametrize(("before", "after"), [("x.log/rows", "x.log"), ("folder", "folder/x.log")])
def test_what_is_ignored_again_does_not_take_the_place_of_what_comes_back(wd: Path, before: str, after: str) -> None:
    write(wd, before, "tracked\n")
    git(wd, "add", "-f", before)
    git(wd, "commit", "-q", "-m", "tracked although ignored")
    first = GitSnapshots(wd).take()
    write(wd, ".gitignore", "")
    top = wd / before.partition("/")[0]
    shutil.rmtree(top) if top.is_dir() else top.unlink()
    write(wd, after, "ignored again\n")
    restored(wd, first)
    assert (wd / before).read_text() == "tracked\n"


def test_what_a_commit_tracks_is_taken_even_where_it_is_ignored(wd: Path) -> None:
    snapshots = GitSnapshots(wd)
    snapshots.take()
    write(wd, "build/out", "one\n")
    git(wd, "add", "-f", "build/out")
    git(wd, "commit", "-q", "-m", "tracked although ignored")
    first = snapshots.take()
    write(wd, "build/out", "two\n")
    assert status(wd) == " M build/out\n"
    restored(wd, first)
    assert (wd / "build/out").read_text() == "one\n"


def test_what_the_persons_settings_ignore_is_ignored(wd: Path, globally: Settle, tmp_path: Path) -> None:
    globally(f"[core]\n\texcludesFile = {write(tmp_path, 'everywhere', '*.everywhere')}\n")
    write(wd, ".git/info/exclude", "*.here")
    for name in ("a.everywhere", "b.here", "c.there"):
        write(wd, name, "x")
    assert kept(wd, GitSnapshots(wd).take()).keys() == seen(wd) & lying(wd).keys() == {*TRACKED, b"c.there"}
    git(wd, "config", "core.excludesFile", str(write(tmp_path, "local", "*.there")))
    snapshots = GitSnapshots(wd, home=tmp_path / "elsewhere")
    assert kept(wd, snapshots.take()).keys() == seen(wd) & lying(wd).keys() == {*TRACKED, b"a.everywhere"}


def test_what_the_person_ignores_without_a_setting_is_ignored(
    wd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "git/ignore", "*.mine\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    write(wd, "a.mine", "x")
    assert kept(wd, GitSnapshots(wd).take()).keys() == seen(wd) & lying(wd).keys() == TRACKED


def test_the_repositorys_own_exclusions_go_before_the_persons(wd: Path, tmp_path: Path) -> None:
    git(wd, "config", "core.excludesFile", str(write(tmp_path, "all", "*.cfg\n")))
    write(wd, ".git/info/exclude", "!mine.cfg\n")
    write(wd, "mine.cfg", "mine\n")
    assert b"mine.cfg" in seen(wd)
    assert b"mine.cfg" in kept(wd, GitSnapshots(wd).take())


def test_exclusions_named_by_a_path_from_the_top_are_found(wd: Path) -> None:
    git(wd, "config", "core.excludesFile", "docs/ignored.txt")
    write(wd, "docs/ignored.txt", "*.secret\n")
    write(wd, "a.secret", "secret\n")
    assert b"a.secret" not in seen(wd)
    assert b"a.secret" not in kept(wd, GitSnapshots(wd).take())


def test_our_own_files_are_in_no_snapshot(wd: Path) -> None:
    state = write(wd, ".tmp/st[a]te.json", "{}")
    write(wd, ".tmp/agent-responses/analyst_summary.md", "response")
    write(wd, ".tmp/stae.json", "not ours")
    commit = GitSnapshots(wd, [state, Path("/elsewhere/state.json")]).take()
    assert kept(wd, commit).keys() == {*TRACKED, b".tmp/stae.json"}


@pytest.mark.parametrize("how", ["the agent removed it", "the person made the folder"])
def test_the_log_is_in_no_snapshot_whatever_became_of_our_gitignore(wd: Path, how: str) -> None:
    if how == "the agent removed it":
        GitSnapshots(wd).take()
        (wd / ".telos/.gitignore").unlink()
    write(wd, ".telos/profiles/analyst.md", "the person's own\n")
    write(wd, ".telos/logos.db", "the log")
    first = GitSnapshots(wd).take()
    write(wd, ".telos/logos.db", "the log, later")
    restored(wd, first)
    assert (wd / ".telos/logos.db").read_text() == "the log, later"
    assert not [path for path in kept(wd, first) if path.startswith((b".telos/logos.db", b".telos/snapshots"))]


def test_responses_are_in_no_snapshot_of_a_work_dir_below_the_top(wd: Path) -> None:
    write(wd, "docs/.tmp/agent-responses/analyst_summary.md", "response")
    assert not [path for path in kept(wd, GitSnapshots(wd / "docs").take()) if b".tmp" in path]


def test_responses_are_in_no_snapshot_even_where_the_project_has_such_files(wd: Path) -> None:
    write(wd, ".tmp/agent-responses/analyst_summary.md", "committed by mistake\n")
    git(wd, "add", "-A")
    git(wd, "commit", "-q", "-m", "with responses")
    first = GitSnapshots(wd).take()
    write(wd, ".tmp/agent-responses/analyst_summary.md", "a response\n")
    restored(wd, first)
    assert (wd / ".tmp/agent-responses/analyst_summary.md").read_text() == "a response\n"


# -- wherever the work dir is


def unborn(wd: Path) -> Path:
    shutil.rmtree(wd / ".git")
    git(wd, "init", "-q", "-b", "trunk", "--template=")
    write(wd, "staged", "staged\n")
    git(wd, "add", "staged", "cart.py")
    return wd


def detached_and_told_not_to_look(wd: Path) -> Path:
    git(wd, "checkout", "-q", "--detach")
    git(wd, "config", "core.fileMode", "false")
    git(wd, "update-index", "--skip-worktree", "cart.py")
    git(wd, "update-index", "--assume-unchanged", "docs/notes.md")
    write(wd, "cart.py", "changed, and git is told not to look\n").chmod(0o755)
    return wd


def linked(wd: Path) -> Path:
    git(wd, "worktree", "add", "-q", "-b", "side", str(wd.parent / "linked"))
    return wd.parent / "linked"


def linked_to_a_bare_one(wd: Path) -> Path:
    git(wd.parent, "clone", "-q", "--bare", str(wd), "bare.git")
    git(wd.parent / "bare.git", "worktree", "add", "-q", "-b", "side", str(wd.parent / "linked"))
    return wd.parent / "linked"


def below_the_top(wd: Path) -> Path:
    write(wd, "more/odd [name] ü/keep", "kept\n")
    for path, text in FILES.items():
        write(wd / "more/odd [name] ü", path, text)
    write(wd, "more/odd", "outside\n")
    git(wd, "add", "more")
    git(wd, "commit", "-q", "-m", "more")
    write(wd, "more/odd", "outside and dirty\n")
    write(wd, "untracked", "outside and untracked\n")
    return wd / "more/odd [name] ü"


def below_the_top_and_in_no_commit(wd: Path) -> Path:
    for path, text in FILES.items():
        write(wd / "new", path, text)
    return wd / "new"


def with_sha256(wd: Path) -> Path:
    shutil.rmtree(wd / ".git")
    git(wd, "init", "-q", "-b", "trunk", "--template=", "--object-format=sha256")
    git(wd, "add", "-A")
    git(wd, "commit", "-q", "-m", "start")
    return wd


def shallow(wd: Path) -> Path:
    git(wd, "commit", "-q", "--allow-empty", "-m", "on")
    git(wd.parent, "clone", "-q", "--depth=1", f"file://{wd}", "shallow")
    return wd.parent / "shallow"


def sparse(wd: Path) -> Path:
    write(wd, "big/one", "1\n")
    git(wd, "add", "-A")
    git(wd, "commit", "-q", "-m", "big")
    git(wd, "sparse-checkout", "set", "docs", "docs/deep")
    assert not (wd / "big").exists()
    return wd


def in_conflict(wd: Path) -> Path:
    for branch, text in (("feature", "theirs\n"), ("trunk", "ours\n")):
        git(wd, "checkout", "-q", branch)
        write(wd, "cart.py", text)
        git(wd, "commit", "-q", "-am", text)
    subprocess.run(["git", "merge", "-q", "feature"], cwd=wd, capture_output=True, check=False)
    assert status(wd).startswith("UU cart.py")
    return wd


def with_a_submodule(wd: Path) -> Path:
    git(wd.parent, "clone", "-q", str(wd), "library")
    git(wd, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(wd.parent / "library"), "lib")
    git(wd, "commit", "-q", "-m", "a submodule")
    return wd


def with_a_repository_inside(wd: Path) -> Path:
    for name in ("vendor/lib", "vendor/unborn"):
        git(wd, "init", "-q", "--template=", name)
        write(wd / name, "file", "theirs\n")
    git(wd / "vendor/lib", "add", "-A")
    git(wd / "vendor/lib", "commit", "-q", "-m", "theirs")
    return wd


PLACES = [
    *(unborn, detached_and_told_not_to_look, linked_to_a_bare_one, below_the_top, below_the_top_and_in_no_commit),
    *(with_sha256, shallow, sparse, in_conflict, with_a_submodule, with_a_repository_inside),
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_snapshots_are_exact_in_every_kind_of_repository(wd: Path, place: Callable[[Path], Path]) -> None:
    goes_there_and_back(place(wd))


def test_a_work_dir_below_the_top_leaves_all_else_as_it_is(wd: Path) -> None:
    place = below_the_top(wd)
    elsewhere = {path: it for path, it in lying(wd).items() if b"odd [name]" not in path}
    goes_there_and_back(place)
    assert {path: it for path, it in lying(wd).items() if b"odd [name]" not in path} == elsewhere


def test_a_commit_of_the_whole_repository_changes_nothing_outside_the_work_dir(wd: Path) -> None:
    whole = GitSnapshots(wd).take()
    write(wd, "cart.py", "precious\n")
    write(wd, "docs/notes.md", "changed\n")
    snapshots = GitSnapshots(wd / "docs")
    snapshots.keep(snapshots.take())
    for commit in (whole, git(wd, "rev-parse", "HEAD").strip()):
        with suppress(UsageError, HostError):
            snapshots.restore(commit)
        assert (wd / "cart.py").read_text() == "precious\n"


def test_a_folder_whose_name_has_two_lines_can_be_a_work_dir(wd: Path) -> None:
    goes_there_and_back(wd.rename(wd.parent / "two\nlines"))


def test_a_bare_repository_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    with pytest.raises(HostError, match="work tree"):
        GitSnapshots(tmp_path / "bare.git").take()


def test_the_callers_git_variables_lead_nowhere(wd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q", "other")
    before = persons(tmp_path / "other")
    for name, value in (
        ("GIT_DIR", str(tmp_path / "other/.git")),
        ("GIT_WORK_TREE", str(tmp_path / "other")),
        ("GIT_INDEX_FILE", str(wd / ".git/index")),
        ("GIT_OBJECT_DIRECTORY", str(tmp_path / "objects")),
        ("GIT_LITERAL_PATHSPECS", "1"),
        ("GIT_CONFIG_PARAMETERS", "'core.excludesfile=/dev/null'"),
    ):
        monkeypatch.setenv(name, value)
    index = (wd / ".git/index").read_bytes()
    snapshots, then = GitSnapshots(wd), lying(wd)
    first = snapshots.take()
    edit(wd)
    snapshots.restore(first)
    assert {**lying(wd), **then} == {**then, b"a.log": ("file", b"ignored\n")}
    assert (wd / ".git/index").read_bytes() == index
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_CONFIG_PARAMETERS"):
        monkeypatch.delenv(name)
    assert persons(tmp_path / "other") == before
    assert not (tmp_path / "objects").exists()


def test_line_ends_and_expansions_the_person_likes_change_no_byte(wd: Path, globally: Settle, tmp_path: Path) -> None:
    everywhere = write(tmp_path, "attributes", "* ident\n*.txt text eol=crlf\n")
    globally(f"[core]\n\tautocrlf = true\n\tsafecrlf = true\n\tfileMode = false\n\tattributesFile = {everywhere}\n")
    write(wd, "unix.txt", "$Id$\nline\n")
    write(wd, "dos.txt", "$Id: x $\r\nline\r\n")

    def change(wd: Path) -> None:
        write(wd, "unix.txt", "line\r\nline\n")
        write(wd, "cart.py", "line\r\n").chmod(0o755)
        (wd / "dos.txt").unlink()

    goes_there_and_back(wd, change)


def test_a_filter_of_the_persons_own_changes_no_byte(wd: Path, globally: Settle) -> None:
    globally('[filter "shout"]\n\tclean = tr a-z A-Z\n\tsmudge = cat\n')
    write(wd, ".gitattributes", "*.py filter=shout\n")
    write(wd, "cart.py", "quiet\n")
    goes_there_and_back(wd)


def test_two_cameras_with_homes_of_their_own_do_not_disturb_each_other(wd: Path, tmp_path: Path) -> None:
    one, two = GitSnapshots(wd), GitSnapshots(wd, home=tmp_path / "home")

    def take_some(snapshots: GitSnapshots, name: str) -> list[str]:
        return [snapshots.take() for number in range(4) if write(wd, name, f"{name} {number}")]

    with left_alone(wd), ThreadPoolExecutor() as pool:
        taken = list(pool.map(take_some, (one, two), ("one", "two")))
    assert [len(set(commits)) for commits in taken] == [4, 4]
    assert kept(wd, one.take()) == kept(wd, two.take()) == lying(wd)
    assert not (tmp_path / "home").stat().st_mode & 0o077


# -- what cannot be taken


def grow(wd: Path, path: str) -> None:
    """More than a snapshot takes; most of it is a hole."""
    with write(wd, path, "precious\n").open("r+b") as file:
        file.truncate(LARGEST_FILE + 1)


def test_a_file_that_is_too_large_is_left_out_and_said_once(wd: Path) -> None:
    told: list[str] = []
    snapshots = GitSnapshots(wd, tell=told.append)
    first = snapshots.take()
    grow(wd, "big")
    write(wd, "new", "new\n")
    assert kept(wd, snapshots.take()).keys() == {*TRACKED, b"new"}
    snapshots.take()
    assert told == ["warning: not in the checkpoints: big is larger than 100 MB"]
    snapshots.restore(first)
    assert (wd / "big").stat().st_size == LARGEST_FILE + 1
    assert not (wd / "new").exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("big", "big"),
        ("", "big"),
        ("big", "big/file"),
        ("big/file", "big"),
    ],
)
def test_a_file_that_is_too_large_is_never_lost(wd: Path, before: str, after: str) -> None:
    if before:
        write(wd, before, "small\n")
    first = GitSnapshots(wd).take()
    shutil.rmtree(wd / "big", ignore_errors=True)
    (wd / "big").unlink(missing_ok=True)
    write(wd, after, "small\n")
    GitSnapshots(wd).take()
    grow(wd, after)
    before_restore = {path.name for path in wd.iterdir()}
    with suppress(UsageError):
        GitSnapshots(wd).restore(first)
        assert before == ""
    assert (wd / after).is_file()
    assert (wd / after).stat().st_size == LARGEST_FILE + 1
    assert {path.name for path in wd.iterdir()} == before_restore


def test_more_than_a_snapshot_takes_is_refused_before_any_of_it_is_read(wd: Path) -> None:
    snapshots = GitSnapshots(wd)
    first = snapshots.take()
    for number in range(MOST_BYTES // LARGEST_FILE + 1):
        grow(wd, f"big{number}")
        os.truncate(wd / f"big{number}", LARGEST_FILE)
    with left_alone(wd), pytest.raises(HostError, match=r"more than a checkpoint can hold .* \.gitignore"):
        snapshots.take()
    with pytest.raises(HostError, match="more than a checkpoint can hold"):
        snapshots.restore(first)
    write(wd, ".gitignore", "big*\n")
    assert kept(wd, snapshots.take()) == {path: it for path, it in lying_small(wd).items() if path in TRACKED}


def lying_small(wd: Path) -> Lying:
    for big in wd.glob("big*"):
        big.unlink()
    return lying(wd)


@pytest.mark.long
def test_files_that_are_not_checked_out_are_not_too_many(wd: Path) -> None:
    blob = git(wd, "rev-parse", "HEAD:cart.py").strip()
    entries = "".join(f"100644 blob {blob}\tmany{number}\n" for number in range(MOST_FILES + 1))
    made = subprocess.run(["git", "mktree"], cwd=wd, input=entries, capture_output=True, text=True, check=True)
    git(wd, "update-ref", "HEAD", git(wd, "commit-tree", "-m", "many", made.stdout.strip()).strip())
    assert kept(wd, GitSnapshots(wd).take()) == lying(wd)


@pytest.mark.parametrize("name", ["git~1", ".GIT/config", "x\\.git"])
def test_a_name_that_git_refuses_is_said_and_keeps_nothing_else_out(wd: Path, name: str) -> None:
    told: list[str] = []
    snapshots = GitSnapshots(wd, tell=told.append)
    first = snapshots.take()
    write(wd, name, "odd\n")
    write(wd, "new", "new\n")
    assert kept(wd, snapshots.take()).get(b"new") == ("file", b"new\n")
    assert [line.partition(": ")[2].partition(": ")[2].split(" ")[0] for line in told] == [name]
    snapshots.restore(first)
    assert (wd / name).read_text() == "odd\n"
    assert not (wd / "new").exists()


@contextmanager
def nobodys(template: Path) -> Iterator[Path]:
    """A work dir of somebody who is not root, whom modes keep from nothing."""
    folder = Path(tempfile.mkdtemp())
    try:
        wd = Path(shutil.copytree(template, folder / "shop", symlinks=True))
        for path in (folder, *folder.rglob("*")):
            os.lchown(path, _nobody(), -1)
        yield wd
    finally:
        shutil.rmtree(folder)


def _nobody() -> int:
    return os.getuid() or 65534


def as_nobody(action: Callable[[], object]) -> None:
    """Do something in a process that is not root's."""
    if os.getuid():
        action()
        return
    child = os.fork()
    if child == 0:
        failed = 1
        try:
            os.setuid(_nobody())
            os.environ["GIT_CONFIG_GLOBAL"] = "/dev/null"
            action()
            failed = 0
        finally:
            traceback.print_exc()
            os._exit(failed)
    assert os.waitpid(child, 0)[1] == 0


def test_a_file_that_cannot_be_read_is_said_and_never_lost(template: Path) -> None:
    with nobodys(template) as wd:

        def look() -> None:
            told: list[str] = []
            snapshots = GitSnapshots(wd, tell=told.append)
            first = snapshots.take()
            write(wd, "later", "later\n")
            write(wd, "new", "new\n")
            second = snapshots.take()
            for name in ("cart.py", "later"):
                write(wd, name, "precious\n").chmod(0o200)
            assert kept(wd, snapshots.take()) == kept(wd, second)
            assert len(told) == 2
            assert all("cannot be read: Permission denied" in line for line in told)
            with pytest.raises(UsageError, match=r"cart\.py cannot be read.*move it away first"):
                snapshots.restore(first)
            (wd / "cart.py").chmod(0o600)
            with suppress(UsageError):
                snapshots.restore(first)
            assert (wd / "later").stat().st_size == len("precious\n")

        as_nobody(look)


def test_what_cannot_be_put_back_is_said(template: Path) -> None:
    with nobodys(template) as wd:

        def look() -> None:
            snapshots = GitSnapshots(wd)
            first = snapshots.take()
            write(wd, "docs/deep/new", "new\n")
            (wd / "docs/deep").chmod(0o500)
            with pytest.raises((HostError, UsageError)):
                snapshots.restore(first)
            (wd / "docs/deep").chmod(0o700)
            snapshots.restore(first)
            assert not (wd / "docs/deep/new").exists()

        as_nobody(look)


def test_pipes_are_passed_over_even_where_a_file_was(wd: Path) -> None:
    snapshots = GitSnapshots(wd)
    first = snapshots.take()
    (wd / "cart.py").unlink()
    os.mkfifo(wd / "cart.py")
    os.mkfifo(wd / "pipe")
    assert kept(wd, snapshots.take()) == lying(wd)
    snapshots.restore(first)
    assert kept(wd, first) == lying(wd)


# -- hostile agents


def settings_of(trap: Trap) -> str:
    """Whatever git can be told to run."""
    program = trap.program
    return (
        f"[core]\n\tfsmonitor = {program}\n\thooksPath = {program.parent}/hooks\n\tpager = {program}\n"
        f"\tsshCommand = {program}\n\teditor = {program}\n\taskPass = {program}\n"
        f'[filter "trap"]\n\tclean = {program}\n\tsmudge = {program}\n\tprocess = {program}\n\trequired\n'
        f'[diff]\n\texternal = {program}\n[diff "trap"]\n\ttextconv = {program}\n\tcommand = {program}\n'
        f"[gpg]\n\tprogram = {program}\n[log]\n\tshowSignature = true\n[commit]\n\tgpgSign = true\n"
        + "".join(f"[alias]\n\t{name} = !{program}\n" for name in ("ls-files", "read-tree", "log", "worktree"))
    )


HOOKS = ("post-checkout", "post-index-change", "reference-transaction", "post-commit", "pre-commit")


def set_hooks(folder: Path, trap: Trap) -> None:
    for name in HOOKS:
        shutil.copy(trap.program, write(folder, name))


@pytest.fixture
def armed(wd: Path, trap: Trap) -> Trap:
    """A repository in which everything that can be armed is."""
    with (wd / ".git/config").open("a") as sink:
        sink.write(settings_of(trap))
        sink.write(f"[include]\n\tpath = {write(trap.program.parent, 'included', settings_of(trap))}\n")
    set_hooks(wd / ".git/hooks", trap)
    set_hooks(trap.program.parent / "hooks", trap)
    write(wd, ".gitattributes", "* filter=trap diff=trap merge=trap\n")
    git(wd, "init", "-q", "--template=", "nested")
    write(wd, "nested/file", "theirs\n")
    with (wd / "nested/.git/config").open("a") as sink:
        sink.write(settings_of(trap))
    return trap


def test_nothing_that_the_repository_brings_along_is_run(wd: Path, armed: Trap, tmp_path: Path) -> None:
    snapshots = GitSnapshots(wd)
    first = snapshots.take()
    (wd / "cart.py").unlink()
    write(wd, "x.log", "ignored\n")
    write(wd, ".gitignore", "")
    second = snapshots.take()
    snapshots.keep(second)
    snapshots.point(RUN, {1: first})
    GitSnapshots(wd).remember([first, second])
    snapshots.restore(first)
    assert (wd / "cart.py").read_text() == FILES["cart.py"]
    assert (wd / "x.log").exists()
    snapshots.unfold(second, tmp_path / "fork", "fork")
    assert (tmp_path / "fork/x.log").exists()
    assert armed.sprung == ""


def test_objects_that_are_missing_are_not_fetched_by_a_program_of_the_repositorys(wd: Path, trap: Trap) -> None:
    snapshots = GitSnapshots(wd)
    write(wd, "new", "new\n")
    first = snapshots.take()
    snapshots.keep(first)
    with (wd / ".git/config").open("a") as sink:
        sink.write("[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tpartialClone = evil\n")
        sink.write(f'[remote "evil"]\n\turl = {wd}\n\tpromisor = true\n\tuploadpack = {trap.program}\n')
    write(wd, ".git/refs/heads/trunk", "12" * 20 + "\n")
    for action in (snapshots.take, lambda: snapshots.remember(["34" * 20]), lambda: snapshots.restore("56" * 20)):
        with suppress(HostError, UsageError):
            action()
    assert trap.sprung == ""


@dataclass(frozen=True)
class Scene:
    """Where an agent puts what it has in mind for us: our folder, and a folder of the person's elsewhere."""

    wd: Path
    dependencies: Path
    trap: Trap

    @property
    def home(self) -> Path:
        return self.wd / ".telos/snapshots"

    def settings(self, text: str = "") -> None:
        with (self.home / "config").open("a") as sink:
            sink.write(text or settings_of(self.trap))

    def hooks(self) -> None:
        self.settings()
        set_hooks(self.home / "hooks", self.trap)

    def settings_elsewhere(self) -> None:
        write(self.dependencies, "common/config", f"[core]\n\trepositoryFormatVersion = 0\n{settings_of(self.trap)}")
        for folder in ("refs", "objects"):
            (self.dependencies / "common" / folder).mkdir()
        write(self.home, "commondir", f"{self.dependencies}/common\n")

    def link(self, name: str, target: str) -> None:
        """At a path in our folder, a link to one beside the work dir."""
        self._clear(name)
        (self.home / name).symlink_to(self.wd.parent / target)

    def garble(self, *names: str) -> None:
        for name in names:
            self._clear(name)
            write(self.home, name, "DIRC garbage")

    def empty(self, name: str) -> None:
        self._clear(name)
        write(self.home, name)

    def folder(self, name: str) -> None:
        self._clear(name)
        write(self.home, f"{name}/inner", "x")

    def look_away(self) -> None:
        for flag, path in (("--assume-unchanged", "cart.py"), ("--skip-worktree", "docs/notes.md")):
            git(self.wd, f"--git-dir={self.home}", "--work-tree=.", "update-index", flag, path)

    def _clear(self, name: str) -> None:
        path = self.home / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


@pytest.fixture
def scene(wd: Path, dependencies: Path, trap: Trap) -> Scene:
    return Scene(wd, dependencies, trap)


Plant = Callable[[Scene], object]

PLANTS: dict[str, Plant] = {
    "settings and hooks": Scene.hooks,
    "settings elsewhere": Scene.settings_elsewhere,
    "home a link to git's": lambda it: it.link("", "shop/.git"),
    "home a link to elsewhere": lambda it: it.link("", "outside"),
    "index a link": lambda it: it.link("index", "shop/.git/index"),
    "second index a link": lambda it: it.link("index.ignored", "shop/.git/index"),
    "attributes a link": lambda it: it.link("info/attributes", "outside/cart.py"),
    "exclude a link": lambda it: it.link("info/exclude", "outside/cart.py"),
    "info a link": lambda it: it.link("info", "outside"),
    "index garbled": lambda it: it.garble("index"),
    "index empty": lambda it: it.empty("index"),
    "index a folder": lambda it: it.folder("index"),
    "config a folder": lambda it: it.folder("config"),
    "HEAD garbled": lambda it: it.garble("HEAD"),
    "locks left": lambda it: it.garble("index.lock", "index.ignored.lock", "config.lock", "HEAD.lock"),
    "index told not to look": Scene.look_away,
}


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS.keys())
def test_what_an_agent_put_into_our_folder_does_not_count(scene: Scene, plant: Plant) -> None:
    wd = scene.wd
    write(wd, ".gitattributes", "* filter=trap\n")
    before = lying(wd)
    first = GitSnapshots(wd).take()
    plant(scene)
    elsewhere = lying(scene.dependencies)
    with left_alone(wd):
        write(wd, "cart.py", "changed\n")
        write(wd, "docs/notes.md", "changed\n")
        write(wd, "x.log", "ignored\n")
        write(wd, ".gitignore", "")
        snapshots = GitSnapshots(wd)
        assert kept(wd, snapshots.take()) == lying(wd)
        snapshots.restore(first)
        assert lying(wd) == {**before, b"x.log": ("file", b"ignored\n")}
    assert scene.trap.sprung == ""
    assert lying(scene.dependencies) == elsewhere


MEANWHILE: dict[str, Plant] = {
    "filters": Scene.settings,
    "filters by a detour": lambda it: it.settings(
        f"[include]\n\tpath = {write(it.dependencies, 'included', settings_of(it.trap))}\n"
    ),
    "filters elsewhere": Scene.settings_elsewhere,
    "exclusions": lambda it: it.settings(f"[core]\n\texcludesFile = {write(it.dependencies, 'all', '*')}\n"),
    "more exclusions": lambda it: write(it.home, "info/exclude", "*\n"),
    "line ends": lambda it: write(it.home, "info/attributes", "* text eol=crlf\n"),
    "no modes": lambda it: it.settings("[core]\n\tfileMode = false\n"),
}


@pytest.mark.parametrize("plant", MEANWHILE.values(), ids=MEANWHILE.keys())
def test_what_an_agent_puts_into_our_folder_during_a_run_does_not_count(scene: Scene, plant: Plant) -> None:
    wd = scene.wd
    write(wd, ".gitattributes", "* filter=trap\n")
    snapshots = GitSnapshots(wd)
    before, first = lying(wd), snapshots.take()
    plant(scene)
    write(wd, "new", "new\r\n")
    (wd / "cart.py").chmod(0o755)
    after, second = lying(wd), snapshots.take()
    assert kept(wd, second) == after
    snapshots.restore(first)
    assert lying(wd) == before
    assert scene.trap.sprung == ""


@pytest.mark.parametrize("top", ["../..", "../../outside"])
def test_a_repository_that_says_its_work_tree_is_elsewhere_gets_nothing_there(
    wd: Path, dependencies: Path, top: str
) -> None:
    first = GitSnapshots(wd).take()
    git(wd, "config", "core.worktree", top)
    write(wd, "cart.py", "changed\n")
    elsewhere = lying(dependencies), sorted(wd.parent.iterdir())
    with suppress(HostError, UsageError):
        restored(wd, first)
    assert (lying(dependencies), sorted(wd.parent.iterdir())) == elsewhere


def test_a_ref_that_an_agent_tied_to_the_persons_branch_does_not_move_it(wd: Path) -> None:
    snapshots = GitSnapshots(wd)
    write(wd, "new", "new\n")
    commit = snapshots.take()
    for ref in ("refs/logos/r1/1", f"refs/logos/snapshots/{commit[:12]}", f"refs/logos/r1/{commit}"):
        git(wd, "symbolic-ref", ref, "refs/heads/trunk")
    with left_alone(wd):
        snapshots.point(RUN, {1: commit})
        snapshots.keep(commit)
        snapshots.point(RUN, {commit: commit})
    assert snapshots.of(RUN) == {1: commit}


def test_a_commit_that_an_agent_replaced_is_still_what_was_taken(wd: Path) -> None:
    snapshots = GitSnapshots(wd)
    first = snapshots.take()
    write(wd, "cart.py", "other\n")
    other = git(wd, "commit-tree", "-p", "HEAD", "-m", "other", f"{snapshots.take()}^{{tree}}").strip()
    git(wd, "replace", first, other)
    later = GitSnapshots(wd)
    later.remember([first])
    assert later.take() != first


def test_links_that_lead_out_are_kept_as_links_and_nothing_beyond_is_touched(wd: Path, dependencies: Path) -> None:
    write(dependencies, "more.md", "nobody's business\n")
    before = lying(dependencies)

    def change(wd: Path) -> None:
        shutil.rmtree(wd / "docs/deep")
        (wd / "docs/deep").symlink_to(dependencies)
        (wd / "cart.py").unlink()
        (wd / "cart.py").symlink_to(dependencies / "cart.py")

    goes_there_and_back(wd, change)
    assert lying(dependencies) == before


def test_a_work_dir_replaced_by_a_link_is_not_restored_beyond_it(wd: Path, dependencies: Path, tmp_path: Path) -> None:
    snapshots = GitSnapshots(wd / "docs", home=tmp_path / "home")
    first = snapshots.take()
    (wd / "docs").rename(tmp_path / "moved")
    (wd / "docs").symlink_to(dependencies)
    before = lying(dependencies)
    with suppress(HostError, UsageError):
        snapshots.restore(first)
    assert lying(dependencies) == before


@pytest.mark.parametrize("path", [".gitignore", ".git/info/exclude", ".telos/snapshots/index"])
def test_a_pipe_in_place_of_a_file_that_is_read_makes_nobody_wait(wd: Path, path: str) -> None:
    # fails at docs/.gitignore: git waits for somebody to write into it, for ever, and we for git
    GitSnapshots(wd).take()
    (wd / path).unlink(missing_ok=True)
    write(wd, path).unlink()
    os.mkfifo(wd / path)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        with suppress(HostError, UsageError):
            GitSnapshots(wd).take()
        os._exit(0)
    ended = (0, 0)
    try:
        ended = wait_for(lambda: any(now := os.waitpid(child, os.WNOHANG)) and now, "the end of a snapshot")
    finally:
        if ended == (0, 0):
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert ended == (child, 0)


def test_a_repository_that_took_the_place_of_a_file_is_not_removed(wd: Path) -> None:
    first = GitSnapshots(wd).take()
    (wd / "cart.py").unlink()
    git(wd, "init", "-q", "cart.py")
    write(wd, "cart.py/precious", "precious\n")
    with suppress(UsageError):
        restored(wd, first)
    assert (wd / "cart.py/precious").read_text() == "precious\n"
    assert (wd / "cart.py/.git/HEAD").exists()


def test_a_repository_that_took_the_place_of_a_folder_keeps_its_files(wd: Path) -> None:
    first = GitSnapshots(wd).take()
    shutil.rmtree(wd / "docs/deep")
    GitSnapshots(wd).take()
    git(wd, "init", "-q", "docs/deep")
    git(wd / "docs/deep", "commit", "-q", "--allow-empty", "-m", "theirs")
    write(wd, "docs/deep/more.md", "precious\n")
    is_not_lost(wd, first, b"docs/deep/more.md")


def test_a_submodule_that_moved_on_does_not_stand_in_the_way(wd: Path) -> None:
    with_a_submodule(wd)
    first = GitSnapshots(wd).take()
    git(wd / "lib", "commit", "-q", "--allow-empty", "-m", "on")
    moved = git(wd / "lib", "rev-parse", "HEAD")
    write(wd, "new", "new\n")
    restored(wd, first)
    assert not (wd / "new").exists()
    assert git(wd / "lib", "rev-parse", "HEAD") == moved


def test_a_submodule_is_never_worked_in_whatever_the_person_likes(wd: Path, trap: Trap, globally: Settle) -> None:
    with_a_submodule(wd)
    head = (wd / "lib/.git").read_text()
    first = GitSnapshots(wd).take()
    write(wd, "lib/cart.py", "precious\n")
    write(wd, "new", "new\n")
    with (wd / ".git/modules/lib/config").open("a") as sink:
        sink.write(settings_of(trap))
    globally("[submodule]\n\trecurse = true\n\tactive = .\n")
    restored(wd, first)
    assert (wd / "lib/cart.py").read_text() == "precious\n"
    assert (wd / "lib/.git").read_text() == head
    assert trap.sprung == ""


# -- killed in the middle


@pytest.fixture
def deadly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A git that dies in the middle of one of its commands, and takes along whoever called it."""
    real = shutil.which("git")
    script = f"""#!/bin/sh
        [ "$1" = "$DEADLY" ] || exec {real} "$@"
        [ "$1" = read-tree ] && timeout -s KILL 0.004 {real} "$@"
        [ "$1" = update-ref ] || : > "${{GIT_INDEX_FILE:-$GIT_DIR/index}}.lock"
        kill -9 $PPID
    """
    write(tmp_path, "bin/git", script).chmod(0o755)
    path = os.environ["PATH"]

    def at(command: str) -> None:
        monkeypatch.setenv("DEADLY", command)
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{path}" if command else path)

    return at


COMMANDS = ["update-index", "commit-tree", "update-ref", "read-tree", "checkout-index"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_kill_in_the_middle_loses_nothing_and_can_be_gone_on_from(
    wd: Path, deadly: Callable[[str], None], command: str
) -> None:
    write(wd, "x.log", "ignored\n")
    for number in range(40):
        write(wd, f"many/{number}", f"{number}\n")
    before, first = lying(wd), GitSnapshots(wd).take()
    edit(wd)
    shutil.rmtree(wd / "many")
    write(wd, ".gitignore", "")
    after = lying(wd)
    with left_alone(wd):
        deadly(command)
        assert _in_a_child(lambda: restored(wd, first)) == signal.SIGKILL
        deadly("")
        commits = git(wd, "for-each-ref", "--format=%(objectname)", "refs/logos/").split()
        assert lying(wd) == after or after in [kept(wd, commit) for commit in commits]
        restored(wd, first)
        assert lying(wd).items() >= before.items() - {(b"x.log", before[b"x.log"])}
        assert lying(wd).keys() - before.keys() <= {b"a.log"}


def _in_a_child(action: Callable[[], None]) -> int:
    """How a process ended that did something; a signal, or 0."""
    child = os.fork()
    if child == 0:
        action()
        os._exit(0)
    return os.waitpid(child, 0)[1]


# -- forks


def test_a_fork_has_what_was_there_where_head_was_and_is_as_dirty(wd: Path, tmp_path: Path) -> None:
    git(wd, "commit", "-q", "--allow-empty", "-m", "on")
    edit(wd)
    git(wd, "add", "renamed.md")
    snapshots = GitSnapshots(wd)
    commit, there = snapshots.take(), lying(wd)
    head = git(wd, "rev-parse", "HEAD")
    git(wd, "commit", "-q", "-am", "later")
    before, fork = persons(wd), tmp_path / "a fork"
    snapshots.unfold(commit, fork, "logos-fork/r2")
    assert {**lying(fork), b"a.log": there[b"a.log"]} == there
    assert git(fork, "rev-parse", "HEAD") == head
    assert git(fork, "branch", "--show-current") == "logos-fork/r2\n"
    assert "?? renamed.md" in status(fork)
    assert " D docs/notes.md" in status(fork)
    assert persons(wd) == {**before, "refs": persons(wd)["refs"]}
    assert not [ref for ref in before["refs"] if ref not in persons(wd)["refs"]]  # type: ignore[union-attr]


def test_a_fork_goes_on_with_the_same_commits(wd: Path, tmp_path: Path) -> None:
    edit(wd)
    snapshots = GitSnapshots(wd)
    commit = snapshots.take()
    snapshots.unfold(commit, tmp_path / "fork", "fork")
    there = GitSnapshots(tmp_path / "fork")
    there.remember([commit])
    assert there.take() == commit
    write(wd, "both", "the same\n")
    write(tmp_path / "fork", "both", "the same\n")
    second = snapshots.take()
    there.remember([second])
    assert there.take() == second
    there.point(RUN, {7: second})
    assert snapshots.of(RUN) == {7: second}


@pytest.mark.parametrize("place", [unborn, below_the_top, linked, in_conflict], ids=lambda p: p.__name__)
def test_every_kind_of_repository_can_be_forked(wd: Path, tmp_path: Path, place: Callable[[Path], Path]) -> None:
    there = place(wd)
    write(there, "new", "new\n")
    snapshots = GitSnapshots(there)
    snapshots.unfold(snapshots.take(), tmp_path / "fork", "fork")
    assert lying(tmp_path / "fork" / snapshots.prefix) == lying(there)


def test_line_ends_the_person_likes_change_no_byte_of_a_fork(wd: Path, tmp_path: Path, globally: Settle) -> None:
    globally("[core]\n\tautocrlf = true\n")
    write(wd, "dos.txt", "a\r\nb\r\n")
    snapshots = GitSnapshots(wd)
    snapshots.unfold(snapshots.take(), tmp_path / "fork", "fork")
    assert lying(tmp_path / "fork") == lying(wd)


@pytest.mark.parametrize("taken", ["folder", "file", "branch", "name"])
def test_a_fork_takes_the_place_of_nothing(wd: Path, tmp_path: Path, taken: str) -> None:
    match taken:
        case "folder":
            write(tmp_path, "fork/precious", "precious\n")
        case "file":
            write(tmp_path, "fork", "precious\n")
        case "branch":
            git(wd, "branch", "fork")
        case _:
            git(wd, "branch", "fork/below")
    snapshots = GitSnapshots(wd)
    commit, before = snapshots.take(), lying(tmp_path)
    with left_alone(wd), pytest.raises(UsageError, match=f"cannot create the worktree {tmp_path}/fork: .*exist"):
        snapshots.unfold(commit, tmp_path / "fork", "fork")
    assert lying(tmp_path) == before
    assert git(wd, "worktree", "list", "--porcelain").count("worktree ") == 1


def test_many_events_without_a_checkpoint_cost_as_many_calls_of_git_as_few(
    wd: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def calls_after(turns: int) -> int:
        log, snapshots, run = MemoryLog(), GitSnapshots(wd), RunId(f"after{turns}")
        turn = TurnId("r1.programmer.c1")
        # A run that was made without checkpoints, and a driver that has them.
        for seq, event in enumerate([RunStarted(a_plan()), *[TurnAnswered(turn, "done")] * turns]):
            log.append(run, event, after=seq)
        caplog.clear()
        with caplog.at_level("DEBUG", "logos.adapters.git"):
            Checkpoints(snapshots, log, work_tree, print).catch_up(run)
        assert [*snapshots.of(run)] == [*range(1, turns + 2)]
        assert len({*snapshots.of(run).values()}) == 1
        return sum(record.name.startswith("logos.adapters.git") for record in caplog.records)

    # The first look makes the index.
    calls_after(1)
    assert calls_after(200) == calls_after(2)


@pytest.mark.parametrize("name", ["plain", "with a line\nbreak"])
@pytest.mark.parametrize("below", ["", "sub", "a line\nbreak"])
def test_a_repository_is_found_whatever_its_folders_are_called(tmp_path: Path, name: str, below: str) -> None:
    wd = make_repository(tmp_path / name) / below
    wd.mkdir(exist_ok=True)
    found = repository_of(wd)
    assert (found.common, found.top) == (tmp_path / name / ".git", tmp_path / name)
    assert found.prefix == (f"{below}/" if below else "")
