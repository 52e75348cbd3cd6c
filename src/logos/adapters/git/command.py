"""Calling git so that nothing an agent may have put into a repository is executed."""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from logos.adapters.files import text_of_file
from logos.adapters.programs import find_program, own_environment, safe_path, why_missing
from logos.errors import HostError, UsageError

logger = logging.getLogger(__name__)

Settings = tuple[tuple[str, str], ...]

LONGEST_SECONDS = 900.0
# How often git is looked at that takes long: an agent can make it wait for ever, with a pipe where it expects a file.
LOOK_SECONDS = 1.0
# What Linux says of a process that opens a pipe which nobody writes to.
_OPENS_PIPE = "wait_for_partner"
_RULES = frozenset((".gitignore", ".gitattributes"))

# These locate the user's settings; every other GIT_* variable could select another repository or index, or a program.
_KEPT = {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES"}
_AUTHORS = tuple(f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL", "DATE"))
_LOGOS = {name: "Logos" if name.endswith("NAME") else "logos@localhost" for name in _AUTHORS if "DATE" not in name}
# Variables win over settings of the same purpose. No protocol is allowed: Logos transfers nothing, and a repository
# that claims to be a partial clone would make git start any program to get an object.
_STANDING = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_SSH_COMMAND": "false",
    **dict.fromkeys(("GIT_EDITOR", "GIT_SEQUENCE_EDITOR"), ":"),
    "GIT_PAGER": "cat",
}
_OFF = (
    *("core.fsmonitor", "core.untrackedCache", "core.splitIndex", "maintenance.auto", "submodule.recurse"),
    *("color.ui", "color.diff", "color.status"),
    *("commit.gpgSign", "tag.gpgSign", "log.showSignature", "merge.verifySignatures"),
    # These name programs: `false` is one that does nothing.
    *("gpg.program", "gpg.openpgp.program", "gpg.x509.program", "gpg.ssh.program", "gpg.ssh.defaultKeyCommand"),
    *("core.alternateRefsCommand", "core.gitProxy", "interactive.diffFilter"),
)
_SAFE: Settings = (
    *(("core.hooksPath", "/dev/null"), ("gc.auto", "0"), ("credential.helper", "")),
    *((key, "false") for key in _OFF),
)
# Programs that settings with a name of their own can start, and their replacements: no filter, and git's own merge.
_DISARMED = {
    "filter": (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")),
    "merge": (("driver", "git merge-file -q %A %O %B"),),
    "credential": (("helper", ""),),
    # Since git 2.54, settings name hooks as well, which core.hooksPath does not turn off.
    "hook": (("enabled", "false"),),
}
# Commands that neither look at the attributes of a file nor run a hook, so that none of these programs can run.
_WITHOUT_PROGRAMS = frozenset(
    (
        *("cat-file", "commit-tree", "config", "for-each-ref", "init", "ls-tree"),
        *("merge-base", "rev-list", "rev-parse", "version"),
    )
)
# What keeps a command from starting the programs of settings and attributes, and git in nested repositories.
_NO_PROGRAMS = ("--no-ext-diff", "--no-textconv")
_NOT_NESTED = "--ignore-submodules=dirty"
_OPTIONS = {
    **dict.fromkeys(("diff", "diff-index", "diff-files"), (*_NO_PROGRAMS, _NOT_NESTED)),
    **dict.fromkeys(("diff-tree", "log", "show"), _NO_PROGRAMS),
    "status": (_NOT_NESTED,),
}
PLANTABLE = {"local", "worktree"}
_DIFF = ("-r", "-z", "--no-renames", "--ignore-submodules=none", "--full-index")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def is_repository(wd: Path) -> bool:
    """Whether a folder is in a work tree; UsageError if git cannot use that repository, or does not trust it."""
    if why_missing("git", wd):
        return False
    try:
        done = Git(wd).run("rev-parse", "--is-inside-work-tree")
    except HostError as error:
        raise UsageError(str(error)) from error
    if b"dubious ownership" in done.stderr:
        raise UsageError(dubious(wd))
    if done.returncode != 0 and b"not a git repository" not in done.stderr:
        # An agent may have broken its settings, so that no run has checkpoints.
        raise UsageError(f"git cannot use the repository of {wd}: {provider_error(done)}")
    return done.stdout.strip() == b"true"


def dubious(wd: Path) -> str:
    trust = f"git config --global --add safe.directory {shlex.quote(str(wd))}"
    return (
        f"the git repository at {wd} belongs to another user, so git does not use it (dubious ownership); if you trust "
        f"everybody who can write to it: `{trust}`, with the top folder of the repository"
    )


@dataclass(frozen=True, slots=True)
class PathChange:
    """A path that differs between two commits. Mode and blob are empty on a side that does not have it."""

    path: bytes
    mode: str
    blob: str
    old_mode: str
    old_blob: str


@dataclass(frozen=True, slots=True)
class Git:
    """Git in a folder, with variables and settings that no repository can override."""

    cwd: Path
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    settings: Settings = _SAFE
    # The work dir, where agents write; None: `cwd`.
    root: Path | None = None
    # Who commits: Logos, or (empty) whoever the settings name.
    author: Mapping[str, str] = field(default_factory=_LOGOS.copy)
    # Whether the settings already disarm those of the repository.
    is_disarmed: bool = False

    def run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        name, *rest = arguments
        if name not in _WITHOUT_PROGRAMS and not self.is_disarmed:
            return self.disarmed().run(*arguments, stdin=stdin)
        _refuse_pipes(self.root or self.cwd)
        program = find_program("git", self.root or self.cwd)
        command, env = [program, name, *_OPTIONS.get(name, ()), *rest], self._environment()
        try:
            done = _completed(command, self.cwd, env, stdin)
        except FileNotFoundError as error:
            gone = not self.cwd.is_dir()
            raise HostError(f"the folder {self.cwd} is gone" if gone else "git is not installed") from error
        logger.debug("git %s in %s: exit code %d", " ".join(arguments), self.cwd, done.returncode)
        return done

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

    def using(self, **variables: str) -> Git:
        return replace(self, variables={**self.variables, **variables})

    def with_settings(self, settings: Settings) -> Git:
        return replace(self, settings=(*self.settings, *settings))

    def as_user(self) -> Git:
        """With the name and address of the user's own settings and variables."""
        return replace(self, author={name: os.environ[name] for name in _AUTHORS if name in os.environ})

    def by(self, name: str, address: str) -> Git:
        """With this author and committer."""
        return replace(self, author={key: name if key.endswith("NAME") else address for key in _LOGOS})

    def disarmed(self) -> Git:
        """Without the filters, merge drivers and hooks of the repository's own settings now, which agents can write.

        The filters and drivers of the user's global settings stay. Hooks do not: they may run what the repository says.
        """
        if self.is_disarmed:
            return self
        listed = self.ask("config", "--list", "-z", "--show-scope", "--name-only")
        fields = listed.decode("utf-8", "surrogateescape").split("\0")
        pairs = zip(fields[::2], fields[1::2], strict=False)
        named = {key for scope, key in pairs if scope in PLANTABLE or key.startswith("hook.")}
        return replace(self.with_settings(without_drivers(named)), is_disarmed=True)

    @property
    def disarmed_filters(self) -> set[str]:
        keys = (key for key, _ in self.settings if key.startswith("filter."))
        return {key.split(".", 1)[1].rpartition(".")[0] for key in keys}

    def _environment(self) -> dict[str, str]:
        ours = own_environment()
        kept = {name: value for name, value in ours.items() if not name.startswith("GIT_") or name in _KEPT}
        keys = {f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in enumerate(self.settings)}
        values = {f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in enumerate(self.settings)}
        count = {"GIT_CONFIG_COUNT": str(len(self.settings))}
        path = {"PATH": safe_path(self.root or self.cwd)}
        return {**kept, **_STANDING, **self.author, **path, **count, **keys, **values, **self.variables}

    # -- objects and refs

    def commit(self, name: str) -> str:
        """The commit that a name stands for; empty if there is none."""
        return self.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").stdout.decode().strip()

    def tree_of(self, commit: str) -> str:
        done = self.run("rev-parse", "--verify", "--quiet", f"{checked_commit(commit)}^{{tree}}")
        if done.returncode != 0:
            raise HostError(f"commit {commit} is not in the repository")
        return done.stdout.decode().strip()

    def commit_tree(self, tree: str, parents: Iterable[str], message: str, at: int | None = None) -> str:
        """Create a commit of a tree, dated now or `at`."""
        git = self.using(GIT_AUTHOR_DATE=f"@{at} +0000", GIT_COMMITTER_DATE=f"@{at} +0000") if at is not None else self
        heritage = [word for parent in parents for word in ("-p", parent)]
        return git.line("commit-tree", tree, *heritage, stdin=message.replace("\0", "").encode("utf-8", "replace"))

    def refs(self, *folders: str) -> dict[str, str]:
        """The refs in these folders (without folders: all refs), and their objects."""
        lines = self.ask("for-each-ref", "--format=%(refname) %(objectname)", *folders).decode().splitlines()
        return dict(line.split() for line in lines)

    def point(self, refs: Mapping[str, str | None]) -> None:
        """Set our refs to commits, or delete those whose commit is None; all of them or none.

        `--no-deref`: an agent could have made a symbolic ref to the user's branch.
        """
        for ref in refs:
            with suppress(OSError):  # left by a killed git
                Path(self.variables["GIT_DIR"], f"{ref}.lock").unlink()
        orders = (f"update {ref} {to}\n" if to else f"delete {ref}\n" for ref, to in refs.items())
        self.ask("update-ref", "--no-deref", "--stdin", stdin="".join(orders).encode())

    def changes(self, old: str, *commits: str) -> list[PathChange]:
        """The changes of each of these commits against the old one, sorted by path."""
        asked = "".join(f"{checked_commit(commit)} {checked_commit(old)}\n" for commit in commits)
        fields = self.ask("diff-tree", "--stdin", "--no-commit-id", *_DIFF, stdin=asked.encode()).split(b"\0")
        found: list[PathChange] = []
        for about, path in zip(fields[0:-1:2], fields[1::2], strict=True):
            old_mode, mode, old_blob, blob, _ = about.decode().lstrip(":").split()
            now = (mode, blob) if mode != "000000" else ("", "")
            before = (old_mode, old_blob) if old_mode != "000000" else ("", "")
            found.append(PathChange(path, *now, *before))
        return sorted(found, key=lambda change: change.path)

    def blobs(self, hashes: Iterable[str], largest: int) -> dict[str, bytes]:
        """The contents of the blobs of at most `largest` bytes."""
        asked = "".join(f"{blob}\n" for blob in sorted(set(hashes))).encode()
        sizes = self.ask("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=asked).decode().splitlines()
        small = [blob for blob, size in (line.split() for line in sizes) if size.isdigit() and int(size) <= largest]
        output = self.ask("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in small).encode())
        contents: dict[str, bytes] = {}
        for blob in small:
            head, _, output = output.partition(b"\n")
            size = int(head.split()[-1])
            contents[blob], output = output[:size], output[size + 1 :]
        return contents


def without_drivers(keys: Iterable[str], trusted: Iterable[str] = ()) -> Settings:
    """Settings that turn off the filters, merge drivers and hooks that these keys configure, except `trusted` ones."""
    # In `section.name.key` the name may contain dots; a key `section.key` has no name.
    drivers = {key.rpartition(".")[0] for key in keys} - {*trusted}
    split = (driver.partition(".") for driver in sorted(drivers))
    disarmed = ((f"{section}.{name}", _DISARMED.get(section, ())) for section, _, name in split if name)
    return tuple((f"{driver}.{key}", value) for driver, settings in disarmed for key, value in settings)


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

    @property
    def git(self) -> Git:
        """Git on the shared GIT_DIR: it reads neither the user's index nor a worktree's .git file."""
        wd = self.top / self.prefix
        return Git(wd, {"GIT_DIR": str(self.common)}, root=wd)


def repository_of(wd: Path) -> Repository:
    asked = ("--git-common-dir", "--show-toplevel", "--show-prefix")
    told = Git(wd).line("rev-parse", "--path-format=absolute", *asked).split("\n")
    if len(told) != len(asked):
        # The name of a folder contains a line break: one call for each path.
        told = [Git(wd).line("rev-parse", "--path-format=absolute", one) for one in asked]
    common, top, prefix = told
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


def _refuse_pipes(folder: Path) -> None:
    """Git waits for ever for the rules in a pipe; the folders of Logos are those that it asks about most."""
    for place in (folder, folder / ".telos", folder / ".tmp"):
        if (rules := place / ".gitignore").is_fifo():
            raise HostError(_WAITS.format(rules))


_WAITS = "{} is a pipe, and git would wait for it for ever; remove it"


def _completed(
    command: list[str], cwd: Path, env: Mapping[str, str], stdin: bytes
) -> subprocess.CompletedProcess[bytes]:
    """Run git to its end, unless it waits for a pipe."""
    pipe, until, sent = subprocess.PIPE, time.monotonic() + LONGEST_SECONDS, stdin
    with subprocess.Popen(command, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            while True:
                try:
                    out, err = process.communicate(sent, LOOK_SECONDS)
                    return subprocess.CompletedProcess(command, process.returncode, out, err)
                except subprocess.TimeoutExpired as error:
                    sent = None
                    if text_of_file(Path(f"/proc/{process.pid}/wchan")) == _OPENS_PIPE:
                        raise HostError(_WAITS.format(_pipe_below(cwd) or "a file that git reads")) from error
                    if time.monotonic() >= until:
                        late = f"git {command[1]} timed out after {LONGEST_SECONDS:.0f} s in {cwd}"
                        raise HostError(late) from error
        except BaseException:
            # Git removes its locks at SIGTERM.
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_SECONDS)
            process.kill()
            raise


def _pipe_below(folder: Path) -> Path | None:
    """The pipe that git most likely waits for: rules in any folder, or a file of the repository itself."""
    for place, folders, names in os.walk(folder):
        inside = ".git" in Path(place).relative_to(folder).parts
        for name in names:
            if (inside or name in _RULES) and (path := Path(place, name)).is_fifo():
                return path
        folders[:] = [name for name in folders if not (inside and name == "objects")]
    return None
