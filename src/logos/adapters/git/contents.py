"""Staging the files of a worktree exactly as they are, and the reasons to refuse them."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from logos.adapters.git.command import Git, PathChange, blobs, paths_in, provider_error, text_of
from logos.adapters.git.definitions import LARGEST, defined_in
from logos.domain.specs import TouchedFile

MOST_FILES = 5_000
LARGEST_FILE = 20_000_000
LONGEST_PATH = 4_096
# Prompts and responses, which are left out even if a project tracks a folder of that name.
OURS = (".tmp/agent-responses/", ".tmp/agent-prompts/")

_LINK = "120000"
_GITLINK = "160000"
# Git's message about a file name that it does not allow.
_REFUSED = b"Ignoring path "


@dataclass(frozen=True, slots=True)
class Problem:
    """Why work cannot be accepted; the path is empty if the reason is not about one file."""

    path: bytes
    message: str


@dataclass(frozen=True, slots=True)
class Staged:
    """The changed paths, by what to do with them."""

    add: list[bytes] = field(default_factory=list[bytes])
    remove: list[bytes] = field(default_factory=list[bytes])
    folders: list[bytes] = field(default_factory=list[bytes])
    problems: list[Problem] = field(default_factory=list[Problem])


def fresh_index(git: Git, index: Path, start: str, *flags: str) -> None:
    """Reset our index to the start commit; it keeps the time stamps of files that were checked already."""
    Path(f"{index}.lock").unlink(missing_ok=True)
    if git.run("read-tree", "--reset", *flags, start).returncode != 0:
        index.unlink(missing_ok=True)
        git.ask("read-tree", "--reset", *flags, start)


def stage(git: Git, folder: Path) -> list[Problem]:
    """Update the index from the start commit to the files in the folder; returns the problems."""
    paths = differing(git, OURS)
    if len(paths) > MOST_FILES:
        return [Problem(b"", f"{len(paths)} files changed, more than {MOST_FILES}; is a .gitignore missing?")]
    return take(git, folder, paths)


def differing(git: Git, unseen: Iterable[str], under: str = "") -> list[bytes]:
    """The paths under a folder that differ from the index; `unseen` and ignored ones only if the index has them."""
    flags = ("--modified", "--deleted", "--others", "--exclude-standard")
    patterns = (f"--exclude={pattern}" for pattern in unseen)
    return sorted(set(git.paths("ls-files", "-z", *flags, *patterns, "--", *([under] if under else []))))


def take(git: Git, folder: Path, paths: Iterable[bytes], largest: int = LARGEST_FILE) -> list[Problem]:
    """Update the index to the files at these paths; returns the problems.

    Not `git add`: it would run git inside nested repositories, with their settings.
    """
    staged = Staged()
    for path in paths:
        _sort_out(staged, os.fsencode(folder), path, largest)
    _sort_out_folders(git, staged)
    return staged.problems + _update(git, staged)


def _sort_out(staged: Staged, folder: bytes, path: bytes, largest: int) -> None:
    full = os.path.join(folder, path)
    try:
        there = os.lstat(full)
    except FileNotFoundError:
        # `update-index --remove` removes missing files in the same call that adds others.
        (staged.remove if _beyond_a_link(folder, path) else staged.add).append(path)
        return
    except NotADirectoryError:
        staged.remove.append(path)
        return
    except OSError as error:
        staged.problems.append(Problem(path, f"cannot be read: {error.strerror}"))
        return
    is_file = stat.S_ISREG(there.st_mode)
    if stat.S_ISDIR(there.st_mode):
        staged.folders.append(path)
    elif not (is_file or stat.S_ISLNK(there.st_mode)) or _beyond_a_link(folder, path):
        staged.remove.append(path)
    elif is_file and there.st_size > largest:
        staged.problems.append(Problem(path, f"is larger than {largest / 1e6:.0f} MB"))
    elif is_file and not os.access(full, os.R_OK):
        staged.problems.append(Problem(path, "cannot be read: Permission denied"))
    else:
        staged.add.append(path)


def _sort_out_folders(git: Git, staged: Staged) -> None:
    """A folder is a nested repository (a new one is listed with a slash), or it has replaced a file."""
    if not staged.folders:
        return
    entries = git.paths("ls-files", "-z", "--stage")
    gitlinks = {entry.partition(b"\t")[2] for entry in entries if entry.startswith(_GITLINK.encode())}
    for path in staged.folders:
        if path.endswith(b"/") or path in gitlinks:
            staged.problems.append(Problem(path, "is a nested repository; only plain files can be stored"))
        else:
            staged.remove.append(path)


def _beyond_a_link(folder: bytes, path: bytes) -> bool:
    parts = path.split(b"/")[:-1]
    return any(os.path.islink(os.path.join(folder, *parts[: depth + 1])) for depth in range(len(parts)))


def _update(git: Git, staged: Staged) -> list[Problem]:
    refused: list[bytes] = []
    for flags, paths in ((["--force-remove"], staged.remove), (["--add", "--replace", "--remove"], staged.add)):
        if not paths:
            continue
        done = git.run("update-index", *flags, "-z", "--stdin", stdin=b"".join(path + b"\0" for path in paths))
        if done.returncode != 0:
            return [Problem(b"", f"git cannot stage the files: {provider_error(done)}")]
        refused += [line.removeprefix(_REFUSED) for line in done.stderr.splitlines() if line.startswith(_REFUSED)]
    return [Problem(path, "has a name that git refuses") for path in refused]


def problems_in(git: Git, folder: Path, changed: list[PathChange]) -> list[Problem]:
    """Why staged files cannot be accepted."""
    links = [change for change in changed if change.mode == _LINK]
    targets = blobs(git, (link.blob for link in links), LONGEST_PATH) if links else {}
    leading_out = (link.path for link in links if _leads_out(folder, link.path, targets.get(link.blob, b"/")))
    unreadable = (change.path for change in changed if not _is_utf8(change.path))
    return [
        *(Problem(path, "is a symbolic link that leads out of the repository") for path in leading_out),
        *(Problem(path, "has a name that is not UTF-8") for path in unreadable),
        *_filtered(git, changed),
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


def _filtered(git: Git, changed: list[PathChange]) -> list[Problem]:
    """Files that a filter of the repository encrypts or converts: committing them unfiltered would publish them."""
    asked = b"".join(change.path + b"\0" for change in changed if change.blob)
    if not git.disarmed_filters or not asked:
        return []
    fields = git.ask("check-attr", "-z", "--stdin", "filter", stdin=asked).split(b"\0")
    return [
        Problem(path, f"needs the filter {text_of(name)} of this repository, which Logos does not run")
        for path, name in zip(fields[0::3], fields[2::3], strict=False)
        if text_of(name) in git.disarmed_filters
    ]


def missing_paths(git: Git, commit: str, paths: Iterable[str], changed: list[PathChange]) -> list[Problem]:
    """The declared paths that a commit neither has nor deletes."""
    wanted = [os.fsencode(path) for path in paths]
    there = {change.path for change in changed}
    if not there.issuperset(wanted):
        there |= paths_in(git, commit)
    return [Problem(path, "is declared, but does not exist") for path in wanted if path not in there]


def touched(git: Git, changed: list[PathChange], prefix: str) -> tuple[TouchedFile, ...]:
    """Each changed file with its blob and the names it newly defines; paths are relative to the work dir."""
    python = [change for change in changed if change.path.endswith(b".py") and change.mode.startswith("100")]
    hashes = [blob for it in python for blob in (it.blob, it.old_blob) if blob]
    texts = blobs(git, hashes, LARGEST) if hashes else {}
    return tuple(TouchedFile(seen_from(prefix, it.path), it.blob, _newly_defined(it, texts)) for it in changed)


def _newly_defined(change: PathChange, texts: dict[str, bytes]) -> tuple[str, ...]:
    def defined(blob: str) -> tuple[str, ...]:
        return defined_in(text_of(change.path), texts.get(blob, b"").decode("utf-8-sig", "replace"))

    before = defined(change.old_blob)
    return tuple(name for name in defined(change.blob) if name not in before)


def seen_from(prefix: str, path: bytes) -> str:
    """A path relative to the work dir; `prefix` is the work dir relative to the top of the repository."""
    return text_of(posixpath.relpath(path, os.fsencode(prefix)) if prefix else path)


def describe_problem(problem: Problem, prefix: str) -> str:
    """One line, also if the file name contains control characters."""
    path = seen_from(prefix, problem.path) if problem.path else ""
    return f"{path if path.isprintable() else ascii(path)} {problem.message}".strip()


def _is_utf8(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True
