"""Calling git so that nothing an agent may have put into a repository is executed."""

from __future__ import annotations

import logging
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from logos.errors import HostError

logger = logging.getLogger(__name__)

Settings = tuple[tuple[str, str], ...]

# An agent can make git wait for ever, for example with a pipe where git expects a file.
LONGEST_SECONDS = 900.0

# These locate the user's settings; every other GIT_* variable could select another repository or index.
_KEPT = {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES", "GIT_EXEC_PATH"}
_STANDING = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_AUTHOR_NAME": "Logos",
    "GIT_AUTHOR_EMAIL": "logos@localhost",
    "GIT_COMMITTER_NAME": "Logos",
    "GIT_COMMITTER_EMAIL": "logos@localhost",
}
_SAFE: Settings = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.splitIndex", "false"),
    ("commit.gpgSign", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)
# Programs that file attributes can name, and their replacements: no filter, and git's own merge.
_DISARMED = {
    "filter": (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")),
    "merge": (("driver", "git merge-file -q %A %O %B"),),
}
_PLANTABLE = {"local", "worktree"}
_PROGRAMS = re.compile(rb"\[\s*(filter|merge|include)", re.IGNORECASE)
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def git(wd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["git", *arguments],
        cwd=wd,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        check=False,
    )
    logger.debug("git %s in %s: exit code %d", " ".join(arguments), wd, done.returncode)
    return done


def is_repository(wd: Path) -> bool:
    try:
        return Git(wd).run("rev-parse", "--is-inside-work-tree").stdout.strip() == b"true"
    except HostError:
        return False


@dataclass(frozen=True, slots=True)
class Git:
    """Git in a folder, with variables and settings that no repository can override."""

    cwd: Path
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    settings: Settings = _SAFE

    def run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        try:
            done = subprocess.run(
                ["git", *arguments],
                cwd=self.cwd,
                env=self._environment(),
                input=stdin,
                capture_output=True,
                check=False,
                timeout=LONGEST_SECONDS,
            )
            logger.debug("git %s in %s: exit code %d", " ".join(arguments), self.cwd, done.returncode)
            return done
        except subprocess.TimeoutExpired as error:
            raise HostError(f"git {arguments[0]} timed out after {LONGEST_SECONDS:.0f} s in {self.cwd}") from error
        except FileNotFoundError as error:
            gone = not self.cwd.is_dir()
            raise HostError(f"the folder {self.cwd} is gone" if gone else "git is not installed") from error

    def ask(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = self.run(*arguments, stdin=stdin)
        if done.returncode != 0:
            raise HostError(f"git {arguments[0]} failed: {provider_error(done)}")
        return done.stdout

    def line(self, *arguments: str, stdin: bytes = b"") -> str:
        return os.fsdecode(self.ask(*arguments, stdin=stdin)).removesuffix("\n")

    def paths(self, *arguments: str, stdin: bytes = b"") -> list[bytes]:
        """The entries of an output that NUL bytes separate."""
        return [path for path in self.ask(*arguments, stdin=stdin).split(b"\0") if path]

    def commit(self, name: str) -> str:
        """The commit that a name stands for; empty if there is none."""
        return self.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").stdout.decode().strip()

    def using(self, **variables: str) -> Git:
        return replace(self, variables={**self.variables, **variables})

    def disarmed(self) -> Git:
        """Without the filters and merge drivers of the repository's own settings, which agents can write.

        Those of the user's global settings stay.
        """
        if not self._names_programs():
            return self
        listed = self.ask("config", "--list", "-z", "--show-scope", "--name-only")
        fields = listed.decode("utf-8", "surrogateescape").split("\0")
        named = {key for scope, key in zip(fields[::2], fields[1::2], strict=False) if scope in _PLANTABLE}
        return replace(self, settings=(*self.settings, *without_drivers(named)))

    def _names_programs(self) -> bool:
        """Whether the repository's own settings may name programs. Most do not, which saves a call of git."""
        home = self.variables.get("GIT_DIR")
        if home is None:
            return True
        for name in ("config", "config.worktree"):
            with suppress(FileNotFoundError):
                if _PROGRAMS.search((Path(home) / name).read_bytes()):
                    return True
        return False

    @property
    def disarmed_filters(self) -> set[str]:
        keys = (key for key, _ in self.settings if key.startswith("filter."))
        return {key.split(".", 1)[1].rpartition(".")[0] for key in keys}

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT}
        numbered = {
            f"GIT_CONFIG_{part}_{number}": text
            for number, setting in enumerate(self.settings)
            for part, text in zip(("KEY", "VALUE"), setting, strict=True)
        }
        return {**kept, **_STANDING, **numbered, "GIT_CONFIG_COUNT": str(len(self.settings)), **self.variables}


def without_drivers(keys: Iterable[str], trusted: Iterable[str] = ()) -> Settings:
    """Settings that turn off the filters and merge drivers which these keys configure, except `trusted` ones."""
    # In `section.name.key` the name may contain dots; a key `section.key` has no name.
    drivers = {key.rpartition(".")[0] for key in keys} - {*trusted}
    split = (driver.partition(".") for driver in sorted(drivers))
    return tuple(
        (f"{section}.{name}.{key}", value)
        for section, _, name in split
        if name
        for key, value in _DISARMED.get(section, ())
    )


def provider_error(done: subprocess.CompletedProcess[bytes]) -> str:
    """Git's error message, in one line."""
    lines = [line.strip() for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("fatal:", "error:"))]
    message = next(iter(errors or lines), f"exit code {done.returncode}")
    return message.removeprefix("fatal:").removeprefix("error:").strip()


@dataclass(frozen=True, slots=True)
class Repository:
    """The repository of a folder: the shared GIT_DIR, the top of the work tree, the path from there to the folder."""

    common: Path
    top: Path
    prefix: str


def repository_of(wd: Path) -> Repository:
    asked = ("--git-common-dir", "--show-toplevel", "--show-prefix")
    paths = Git(wd).line("rev-parse", "--path-format=absolute", *asked).split("\n")
    if len(paths) != len(asked):
        # The name of a folder contains a line break.
        paths = [Git(wd).line("rev-parse", "--path-format=absolute", one) for one in asked]
    common, top, prefix = paths
    if (Path(top) / prefix).resolve() != wd.resolve():
        raise HostError(f"the repository of {wd} has its work tree at {top}")
    return Repository(Path(common), Path(top), prefix)


def text_of(path: bytes) -> str:
    """A path as text that can be stored; bytes that are not UTF-8 are escaped."""
    return path.decode("utf-8", "backslashreplace")


def checked_commit(commit: str) -> str:
    if not _COMMIT.fullmatch(commit):
        raise HostError(f"{commit!r} is not a commit")
    return commit


def tree_of(git: Git, commit: str) -> str:
    done = git.run("rev-parse", "--verify", "--quiet", f"{checked_commit(commit)}^{{tree}}")
    if done.returncode != 0:
        raise HostError(f"commit {commit} is not in the repository")
    return done.stdout.decode().strip()


def commit_tree(git: Git, tree: str, parents: Iterable[str], message: str, at: int | None = None) -> str:
    """Create a commit of a tree, dated now or `at`."""
    if at is not None:
        git = git.using(GIT_AUTHOR_DATE=f"@{at} +0000", GIT_COMMITTER_DATE=f"@{at} +0000")
    heritage = [word for parent in parents for word in ("-p", parent)]
    return git.line("commit-tree", tree, *heritage, stdin=message.replace("\0", "").encode("utf-8", "replace"))


def point_refs(git: Git, common: Path, refs: Mapping[str, str | None]) -> None:
    """Set our refs to commits, or delete those whose commit is None; all of them or none.

    `--no-deref`: an agent could have made a symbolic ref to the user's branch.
    """
    for ref in refs:
        with suppress(OSError):  # left by a killed git
            (common / f"{ref}.lock").unlink()
    orders = (f"update {ref} {to}\n" if to else f"delete {ref}\n" for ref, to in refs.items())
    git.ask("update-ref", "--no-deref", "--stdin", stdin="".join(orders).encode())


def refs_under(git: Git, *folders: str) -> dict[str, str]:
    """The refs in these folders (without folders: all refs), and their objects."""
    lines = git.ask("for-each-ref", "--format=%(refname) %(objectname)", *folders).decode().splitlines()
    return dict(line.split() for line in lines)


@dataclass(frozen=True, slots=True)
class PathChange:
    """A path that differs between two commits. Mode and blob are empty on a side that does not have it."""

    path: bytes
    mode: str
    blob: str
    old_mode: str
    old_blob: str


_DIFF = ("-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none", "--full-index")


def changes(git: Git, old: str, new: str) -> list[PathChange]:
    fields = git.ask("diff-tree", *_DIFF, old, new, "--").split(b"\0")
    return sorted(map(_change, fields[0:-1:2], fields[1::2]), key=lambda change: change.path)


def changes_of_many(git: Git, old: str, commits: Iterable[str]) -> list[PathChange]:
    """The changes of each commit against the old one, in order, with a single git call."""
    asked = "".join(f"{checked_commit(commit)} {checked_commit(old)}\n" for commit in commits)
    fields = git.ask("diff-tree", "--stdin", "--no-commit-id", *_DIFF, stdin=asked.encode()).split(b"\0")
    return list(map(_change, fields[0:-1:2], fields[1::2]))


def _change(about: bytes, path: bytes) -> PathChange:
    old_mode, mode, old_blob, blob, _ = about.decode().lstrip(":").split()
    new = (mode, blob) if mode != "000000" else ("", "")
    old = (old_mode, old_blob) if old_mode != "000000" else ("", "")
    return PathChange(path, *new, *old)


def blobs(git: Git, hashes: Iterable[str], largest: int) -> dict[str, bytes]:
    """The contents of the blobs of at most `largest` bytes."""
    asked = "".join(f"{blob}\n" for blob in sorted(set(hashes))).encode()
    sizes = git.ask("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=asked).decode().splitlines()
    small = [blob for blob, size in (line.split() for line in sizes) if size.isdigit() and int(size) <= largest]
    output = git.ask("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in small).encode())
    contents: dict[str, bytes] = {}
    for blob in small:
        head, _, output = output.partition(b"\n")
        size = int(head.split()[-1])
        contents[blob], output = output[:size], output[size + 1 :]
    return contents


def paths_in(git: Git, commit: str) -> set[bytes]:
    """Every file and folder of a commit."""
    return set(git.paths("ls-tree", "-r", "-t", "-z", "--name-only", "--full-tree", commit))
