"""Staging the files of a worktree exactly as they are, the reasons to refuse them, and the names that they define."""

import ast
import os
import posixpath
import stat
import sys
import threading
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from logos.adapters.git.command import Git, PathChange, provider_error, text_of
from logos.domain.specs import TouchedFile

MOST_FILES = 5_000
LARGEST_FILE = 20_000_000
LONGEST_PATH = 4_096
# Parsing needs a hundred times the file size in memory.
LARGEST_PARSED = 1_000_000
# Prompts and responses, which are left out even if a project tracks a folder of that name.
OURS = (".tmp/agent-responses/", ".tmp/agent-prompts/")

_LINK = "120000"
_GITLINK = b"160000"
_NESTED = "is a nested repository; only plain files can be stored"
# Git's message about a file name that it does not allow.
_REFUSED = b"Ignoring path "
# How to stage a path, as options of update-index. `--remove`: the call that adds files also removes missing ones.
_Flags = tuple[str, ...]
_ADD: _Flags = ("--add", "--replace", "--remove")
_REMOVE: _Flags = ("--force-remove",)
# Warning filters are global to the process.
_warnings = threading.Lock()


@dataclass(frozen=True, slots=True)
class FileProblem:
    """Why work cannot be accepted; the path is empty if the reason is not about one file."""

    path: bytes
    message: str

    def describe(self, prefix: str) -> str:
        """One line, also if the file name contains control characters."""
        path = seen_from(prefix, self.path) if self.path else ""
        return f"{path if path.isprintable() else ascii(path)} {self.message}".strip()


def fresh_index(git: Git, index: Path, start: str, *flags: str) -> None:
    """Reset our index to the start commit; it keeps the time stamps of files that were checked already."""
    Path(f"{index}.lock").unlink(missing_ok=True)
    if git.run("read-tree", "--reset", *flags, start).returncode != 0:
        index.unlink(missing_ok=True)
        git.ask("read-tree", "--reset", *flags, start)


def stage(git: Git, folder: Path) -> list[FileProblem]:
    """Update the index from the start commit to the files in the folder; returns the problems."""
    paths = differing(git, OURS)
    if len(paths) > MOST_FILES:
        return [FileProblem(b"", f"{len(paths)} files changed, more than {MOST_FILES}; is a .gitignore missing?")]
    return take(git, folder, paths)


def stage_as_user(git: Git, folder: Path, unseen: Iterable[str] = ()) -> list[FileProblem]:
    """Update the user's index, or a copy of it, to the files in the folder; returns the problems.

    Nested repositories stay as the index has them.
    """
    git = git.disarmed()
    paths = [path for path in differing(git, unseen) if not path.startswith(tuple(map(os.fsencode, unseen)))]
    problems = _filtered(git, paths) or take(git, folder, paths, sys.maxsize)
    return [problem for problem in problems if problem.message != _NESTED]


def differing(git: Git, unseen: Iterable[str], under: str = "") -> list[bytes]:
    """The paths under a folder that differ from the index; `unseen` and ignored ones only if the index has them."""
    flags = ("--modified", "--deleted", "--others", "--exclude-standard")
    patterns = (f"--exclude={pattern}" for pattern in unseen)
    return sorted(set(git.paths("ls-files", "-z", *flags, *patterns, "--", *([under] if under else []))))


def take(git: Git, folder: Path, paths: Iterable[bytes], largest: int = LARGEST_FILE) -> list[FileProblem]:
    """Update the index to the files at these paths; returns the problems.

    Not `git add`: it would run git inside nested repositories, with their settings.
    """
    found = {path: _what_to_do(git, os.fsencode(folder), path, largest) for path in paths}
    problems = [FileProblem(path, how) for path, how in found.items() if isinstance(how, str)]
    for flags in (_REMOVE, _ADD):
        these = b"".join(path + b"\0" for path, how in found.items() if how == flags)
        if not these:
            continue
        done = git.run("update-index", *flags, "-z", "--stdin", stdin=these)
        if done.returncode != 0:
            return [*problems, FileProblem(b"", f"git cannot stage the files: {provider_error(done)}")]
        refused = (line.removeprefix(_REFUSED) for line in done.stderr.splitlines() if line.startswith(_REFUSED))
        problems += [FileProblem(path, "has a name that git refuses") for path in refused]
    return problems


def _what_to_do(git: Git, folder: bytes, path: bytes, largest: int) -> _Flags | str:
    """How to stage a path: _ADD, _REMOVE, or the reason why that is impossible."""
    full = os.path.join(folder, path)
    parts = path.split(b"/")[:-1]
    beyond_a_link = any(os.path.islink(os.path.join(folder, *parts[: depth + 1])) for depth in range(len(parts)))
    try:
        there = os.lstat(full)
    except FileNotFoundError:
        return _REMOVE if beyond_a_link else _ADD
    except NotADirectoryError:
        return _REMOVE
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    is_file = stat.S_ISREG(there.st_mode)
    if stat.S_ISDIR(there.st_mode):
        # A nested repository (a new one is listed with a slash), or a folder that has replaced a file.
        git = git.using(GIT_LITERAL_PATHSPECS="1")
        nested = path.endswith(b"/") or git.ask("ls-files", "-s", "--", os.fsdecode(path)).startswith(_GITLINK)
        return _NESTED if nested else _REMOVE
    if not (is_file or stat.S_ISLNK(there.st_mode)) or beyond_a_link:
        return _REMOVE
    if is_file and there.st_size > largest:
        return f"is larger than {largest / 1e6:.0f} MB"
    return "cannot be read: Permission denied" if is_file and not os.access(full, os.R_OK) else _ADD


def problems_in(git: Git, folder: Path, changed: list[PathChange]) -> list[FileProblem]:
    links = [change for change in changed if change.mode == _LINK]
    targets = git.blobs((link.blob for link in links), LONGEST_PATH) if links else {}
    leading_out = (link.path for link in links if _leads_out(folder, link.path, targets.get(link.blob, b"/")))
    unreadable = (it.path for it in changed if it.path != it.path.decode("utf-8", "replace").encode())
    return [
        *(FileProblem(path, "is a symbolic link that leads out of the repository") for path in leading_out),
        *(FileProblem(path, "has a name that is not UTF-8") for path in unreadable),
        *_filtered(git, [change.path for change in changed if change.blob]),
    ]


def _leads_out(folder: Path, path: bytes, target: bytes) -> bool:
    if target.startswith(b"/"):
        return True
    parts = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)).split(b"/")
    if parts[0] == b".." or b".git" in (part.lower() for part in parts):
        return True
    # The target of a link may itself be a link that points outside.
    root = os.path.realpath(os.fsencode(folder))
    return os.path.commonpath([root, os.path.realpath(os.path.join(root, path))]) != root


def _filtered(git: Git, paths: Iterable[bytes]) -> list[FileProblem]:
    """Files that a filter of the repository encrypts or converts: committing them unfiltered would publish them."""
    asked = b"".join(path + b"\0" for path in paths)
    if not git.disarmed_filters or not asked:
        return []
    fields = git.ask("check-attr", "-z", "--stdin", "filter", stdin=asked).split(b"\0")
    return [
        FileProblem(path, f"needs the filter {text_of(name)} of this repository, which Logos does not run")
        for path, name in zip(fields[0::3], fields[2::3], strict=False)
        if text_of(name) in git.disarmed_filters
    ]


def missing_paths(git: Git, commit: str, paths: Iterable[str], changed: list[PathChange]) -> list[FileProblem]:
    """The declared paths that a commit neither has nor deletes."""
    wanted = [os.fsencode(path) for path in paths]
    there = {change.path for change in changed}
    if not there.issuperset(wanted):
        there |= {*git.paths("ls-tree", "-r", "-t", "-z", "--name-only", "--full-tree", commit)}
    return [FileProblem(path, "is declared, but does not exist") for path in wanted if path not in there]


def undeclared(changed: Iterable[PathChange], declared: Iterable[str]) -> list[FileProblem]:
    """Changes that a report does not name: another author that works at the same time could have made them."""
    named = tuple(map(os.fsencode, declared))
    inside = tuple(path.rstrip(b"/") + b"/" for path in named)
    strange = (it.path for it in changed if it.path not in named and not it.path.startswith(inside))
    what = (
        "was changed in your folder, but `files` does not name it: name it if it is your work, or else undo the change"
    )
    return [FileProblem(path, what) for path in strange]


def changed_after(folder: Path, changed: Iterable[PathChange], ended_at: int) -> list[FileProblem]:
    """Files that somebody changed after their author's process had ended (a time in ns; 0 if unknown).

    Unlike st_mtime, a process cannot set st_ctime. The folder of a deleted file tells when it was deleted.
    """
    what = "was changed after you had ended, so not by you: look at it, and repair or remove it"
    late = (it.path for it in changed if ended_at and _ctime(os.path.join(os.fsencode(folder), it.path)) > ended_at)
    return [FileProblem(path, what) for path in late]


def _ctime(path: bytes) -> int:
    """When a file or, where it is gone, the nearest folder above it was changed."""
    try:
        return os.lstat(path).st_ctime_ns
    except (FileNotFoundError, NotADirectoryError):
        return _ctime(os.path.dirname(path)) if path not in (b"", b"/") else 0
    except OSError:
        return 0


def touched(git: Git, changed: list[PathChange], prefix: str) -> tuple[TouchedFile, ...]:
    """Each changed file with its blob and the names it newly defines; paths are relative to the work dir."""
    python = [change for change in changed if change.path.endswith(b".py") and change.mode.startswith("100")]
    hashes = [blob for it in python for blob in (it.blob, it.old_blob) if blob]
    texts = git.blobs(hashes, LARGEST_PARSED) if hashes else {}

    def newly_defined(it: PathChange) -> tuple[str, ...]:
        before, now = (texts.get(blob, b"").decode("utf-8-sig", "replace") for blob in (it.old_blob, it.blob))
        known = defined_in(text_of(it.path), before)
        return tuple(name for name in defined_in(text_of(it.path), now) if name not in known)

    return tuple(TouchedFile(seen_from(prefix, it.path), it.blob, newly_defined(it)) for it in changed)


def defined_in(path: str, text: str) -> tuple[str, ...]:
    """Public functions and classes at the top level of a Python file; empty for tests and other files."""
    file = PurePosixPath(path)
    is_test = file.name.startswith("test_") or file.stem.endswith("_test") or file.name == "conftest.py"
    if not path.endswith(".py") or is_test or "tests" in file.parent.parts or len(text) > LARGEST_PARSED:
        return ()
    try:
        with _warnings, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    nodes = (node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef))
    return tuple(dict.fromkeys(node.name for node in nodes if not node.name.startswith("_") and node.name != "main"))


def seen_from(prefix: str, path: bytes) -> str:
    """A path relative to the work dir; `prefix` is the work dir relative to the top of the repository."""
    return text_of(posixpath.relpath(path, os.fsencode(prefix)) if prefix else path)
