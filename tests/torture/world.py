"""The world of a walk, seen from outside: processes that are really killed, raw logs, git's own objects, agents' traces."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from urllib.parse import quote

from logos.adapters.hosts.processes import MARK
from tests.support.drivers import start_driver
from tests.support.waiting import LAST_RESORT
from tests.torture.files import Edit, Entry

# At the n-th call of a git that writes the caller dies, and maybe that git with it, when it has taken its locks.
GIT = """#!/bin/sh
case " worktree update-ref read-tree update-index write-tree commit-tree merge-tree clean checkout-index init " in *" $1 "*)
    echo >>"$WRITES"
    if [ "$(wc -l <"$WRITES")" -ge "$DIES_AT" ]; then
        kill -9 "$DRIVER"
        if [ "$GIT_DIES_TOO" ]; then
            case "$1" in
                update-ref) while read -r _ ref _; do mkdir -p "$GIT_DIR/${{ref%/*}}"; : >"$GIT_DIR/$ref.lock"; done ;;
                read-tree | update-index) : >"${{GIT_INDEX_FILE:-$GIT_DIR/index}}.lock" ;;
            esac
            exit 1
        fi
    fi
esac
exec {git} "$@"
"""


@dataclass(slots=True)
class Child:
    """A process of ours, and what it says."""

    process: BaseProcess
    log: Path
    out: Path

    def join(self, within: float | None = None) -> int | None:
        """Its exit code; of whoever was killed, when what it had started has ended, too: nobody comes back so fast."""
        self.process.join(within)
        until = time.monotonic() + LAST_RESORT
        while self.process.exitcode is not None and _is_alive(self.process.pid or 0) and time.monotonic() < until:
            time.sleep(0.005)
        return self.process.exitcode

    def end(self, by: signal.Signals) -> None:
        """Killed with everything it runs but the agents, who have sessions of their own; or told to go."""
        pid = self.process.pid or 0
        with suppress(ProcessLookupError):
            # Before it leads a group of its own there is nothing to take along.
            alone = by is not signal.SIGKILL or os.getpgid(pid) != pid
            os.kill(pid, by) if alone else os.killpg(pid, by)

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.out.read_text())


def _is_alive(group: int) -> bool:
    """Whether a process of the group still runs; one that ended and was not waited for does not."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, own, *_ = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(own) == group and state not in "ZX":
                return True
    return False


@dataclass(frozen=True, slots=True)
class Row:
    """An event as the database has it."""

    at: float
    body: bytes


@dataclass(slots=True)
class History:
    """A run as far as we have seen it; event n is `events[n - 1]`."""

    run: str
    folder: Path
    rows: list[Row] = field(default_factory=list[Row])
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def grow(self, rows: Sequence[Row]) -> None:
        self.rows += rows
        self.events += [json.loads(row.body) for row in rows]

    @property
    def last(self) -> int:
        return len(self.rows)

    @property
    def born(self) -> int:
        """The event at which it became a run of its own: its start, or the last fork."""
        return max(seq for seq, event in self.each() if event["kind"] in ("run_started", "run_forked"))

    @property
    def origin(self) -> tuple[str, int] | None:
        """The run and the event it was forked from."""
        event = self.events[self.born - 1]
        return (event["parent"], event["at"]) if event["kind"] == "run_forked" else None

    def each(self, *kinds: str, after: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
        for seq, event in enumerate(self.events[after:], after + 1):
            if not kinds or event["kind"] in kinds:
                yield seq, event

    @property
    def is_open(self) -> bool:
        return not any(True for _ in self.each("run_ended", "run_abandoned", after=self.born))

    def meant_by(self, seq: int) -> int:
        """The event that whoever goes back to this one comes to: nobody goes back to having given up."""
        given_up = [own for own, _ in self.each("run_abandoned", after=self.born) if own <= seq]
        return given_up[0] - 1 if given_up else seq

    @property
    def decided(self) -> int:
        """From this event on it may be refused to go on from here."""
        ends = [seq for seq, _ in self.each("run_ended", "run_abandoned")]
        if ends and self.events[ends[0] - 1]["kind"] == "run_abandoned":
            return ends[0]
        before = self.each("turn_answered", "check_ran", "work_gathered", "work_merged", "run_started", "run_forked")
        return max(seq for seq, _ in before if not ends or seq <= ends[0])


@dataclass(slots=True)
class Work:
    """What an agent really did in a turn, as it tells itself."""

    nonce: str
    terminal: Path
    story: str
    turn: str
    done: bool = False

    @property
    def folder(self) -> Path:
        """The work dir of the run: terminals are in .telos/scripted/."""
        return self.terminal.parents[2]


TELLS_TURN = """turn=$(sed -sn '1s/^Turn: //p' "$LOGOS_TERMINAL"/turn-*/prompt.md | tail -1)"""


def work(story: str, edits: Sequence[Edit]) -> str:
    """What an agent runs in a turn: it says so outside the repository, and puts a word of its own into its answer."""
    return "\n".join(
        [
            TELLS_TURN,
            "read -r nonce </proc/sys/kernel/random/uuid",
            f'printf "begin\\t$nonce\\t$LOGOS_TERMINAL\\t{story}\\t$turn\\n" >>"$HOME/journal"',
            *(edit.shell() for edit in edits),
            'printf "done\\t$nonce\\n" >>"$HOME/journal"',
            'echo "$nonce"',
        ]
    )


class World:
    def __init__(self, home: Path, standing: Mapping[str, str]) -> None:
        self.home = home
        self.standing = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TMPDIR": str(home / "tmp"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "POLL_SECONDS": "0.05",
            "IDLE_GRACE_SECONDS": "0.6",
            "TREES": str(home / "trees"),
            **standing,
        }
        for name in ("tmp", "bin", "logs", "stories"):
            (home / name).mkdir()
        wrapper = home / "bin" / "git"
        wrapper.write_text(GIT.format(git=shutil.which("git")))
        wrapper.chmod(0o755)
        (home / "journal").touch()
        (home / "trees").touch()
        self.works: dict[str, Work] = {}
        self._read = 0
        self._children: list[Child] = []

    # -- processes

    def start(self, folder: Path, arguments: list[str] | None, **environment: str) -> Child:
        name = self.next_life
        env = {**self.standing, "WD": str(folder), "LIFE": name, "WRITES": str(self.home / "logs" / f"{name}.writes")}
        if "DIES_AT" in environment:
            env["PATH"] = f"{self.home / 'bin'}:{env['PATH']}"
        log, out = self.home / "logs" / f"{name}.log", self.home / "logs" / f"{name}.out"
        process = start_driver({**env, **environment}, log, arguments, out)
        self._children.append(Child(process, log, out))
        return self._children[-1]

    def close(self) -> None:
        for child in self._children:
            if child.join(0) is None:
                child.end(signal.SIGKILL)
                child.join()

    @property
    def next_life(self) -> str:
        """What the next process is called."""
        return f"{len(self._children) + 1:03}"

    def agents_at_work(self, folder: Path | None = None) -> list[str]:
        """The processes that agents started, here or anywhere."""
        mark, found = f"{MARK}={folder or self.home}/".encode(), list[str]()
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                found += [environ.parent.name] if mark in environ.read_bytes() else []
        return found

    def new_works(self) -> list[tuple[str, Work]]:
        """What agents wrote into their journal since the last look: begun and done, in order."""
        with (self.home / "journal").open("rb") as source:
            source.seek(self._read)
            text = source.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        found: list[tuple[str, Work]] = []
        for line in whole.decode().splitlines():
            what, nonce, *rest = line.split("\t")
            if what == "begin":
                terminal, story, turn = rest
                self.works[nonce] = Work(nonce, Path(terminal), story, turn)
            else:
                self.works[nonce].done = True
            found.append((what, self.works[nonce]))
        return found

    # -- git, as a person calls it

    def git(self, folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
        done = self.try_git(folder, *arguments, stdin=stdin)
        assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stderr.decode()}"
        return done.stdout

    def try_git(self, folder: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        person = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "gc.auto=0")
        env = {**self.standing, "GIT_OPTIONAL_LOCKS": "0"}
        return subprocess.run(["git", *person, *arguments], cwd=folder, env=env, input=stdin, capture_output=True)

    def edit(self, folder: Path, edits: Sequence[Edit]) -> None:
        subprocess.run(["sh", "-c", "\n".join(edit.shell() for edit in edits)], cwd=folder, check=False)


def read_log(folder: Path) -> dict[str, list[Row]]:
    """Every run of a work dir in the order they began, without writing to the log or repairing anything."""
    path = folder / ".telos" / "logos.db"
    if not path.exists():
        return {}
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables >= {"events", "runs"}:
            # A driver that died before it had made its tables.
            return {}
        runs = [run for (run,) in db.execute("SELECT run FROM runs ORDER BY number")]
        rows = db.execute("SELECT run, seq, at, CAST(body AS BLOB) FROM events ORDER BY run, seq").fetchall()
    found: dict[str, list[Row]] = {run: [] for run in runs}
    for run, seq, at, body in rows:
        found.setdefault(run, []).append(Row(at, body))
        assert len(found[run]) == seq, f"event {len(found[run])} of run {run} is missing in {folder}"
    return found


class Objects:
    """The commits of a repository as trees, straight from git's objects: no filter, no attribute, no index."""

    def __init__(self, world: World, folder: Path) -> None:
        self._world, self._folder = world, folder
        self._files: dict[str, dict[str, Entry]] = {}

    @cached_property
    def _git(self) -> subprocess.Popen[bytes]:
        command, env = ["git", "cat-file", "--batch"], self._world.standing
        return subprocess.Popen(command, cwd=self._folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self) -> None:
        """Until it is asked again: what git has packed meanwhile is found by another one."""
        if "_git" in self.__dict__:
            self._git.communicate()
            del self.__dict__["_git"]

    def read(self, name: str) -> bytes:
        assert self._git.stdin
        assert self._git.stdout
        self._git.stdin.write(name.encode() + b"\n")
        self._git.stdin.flush()
        head = self._git.stdout.readline().split()
        assert len(head) == 3, f"{name} is not in the repository: {head}"
        content = self._git.stdout.read(int(head[2]) + 1)
        return content[:-1]

    def parents(self, commit: str) -> list[str]:
        head = self.read(commit).partition(b"\n\n")[0].decode("utf-8", "replace")
        return [line.removeprefix("parent ") for line in head.splitlines() if line.startswith("parent ")]

    def tree(self, commit: str) -> dict[str, Entry]:
        """All files of a commit."""
        return dict(self._tree(self.read(commit).split(b"\n", 1)[0].removeprefix(b"tree ").decode()))

    def _tree(self, name: str) -> dict[str, Entry]:
        if name not in self._files:
            found: dict[str, Entry] = {}
            for mode, path, blob in _entries(self.read(name)):
                if mode == "40000":
                    found |= {f"{path}/{inner}": entry for inner, entry in self._tree(blob).items()}
                else:
                    found[path] = (mode, self.read(blob))
            self._files[name] = found
        return self._files[name]


def _entries(tree: bytes) -> Iterator[tuple[str, str, str]]:
    while tree:
        head, _, rest = tree.partition(b"\0")
        mode, _, path = head.partition(b" ")
        yield mode.decode(), os.fsdecode(path), rest[:20].hex()
        tree = rest[20:]
