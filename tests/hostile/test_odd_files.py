"""An agent puts a pipe, a device, a folder or garbage in the place of a file that Logos reads: no command waits for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from logos.domain.roles import RESPONSE_FILES
from tests.support.isolation import clean_env
from tests.support.sandbox import LOGOS, QUICK, Done, Sandbox

RESPONSE = RESPONSE_FILES["tester"]
# Below a terminal: the turn that is pending, and the next one.
TERMINAL = "TERMINAL"
PATHS = (
    ".tmp/agnostic-3agents-loop-state.json",
    f".tmp/agent-responses/{RESPONSE}",
    ".telos/.gitignore",
    ".telos/driver.lock",
    ".telos/logos.db",
    ".telos/rollback.json",
    ".telos/state.json",
    ".telos/profiles/tester.md",
    "logos.json",
    "telos.toml",
    f"{TERMINAL}/terminal.json",
    f"{TERMINAL}/turn-?/pid",
    f"{TERMINAL}/turn-?/exit",
    f"{TERMINAL}/turn-?/out",
    f"{TERMINAL}/turn-?/err",
    f"{TERMINAL}/turn-?/prompt.md",
)
# What an agent without a sandbox can reach, too: the user state folder.
STATE = "STATE"
MESSAGE = f"{STATE}/inbox/*/{'1' * 20}-{'0' * 8}"
OF_STATE = (
    f"{STATE}/mirrors/*/log.json",
    f"{STATE}/mirrors/*/{{run}}.jsonl",
    f"{STATE}/mirrors/*/{{run}}.tampered",
    f"{STATE}/mirrors/another/log.json",
    f"{MESSAGE}.json",
    f"{MESSAGE}.refused",
    f"{STATE}/notified/{{run}}",
    f"{STATE}/acceptance/{{run}}/record.json",
    f"{STATE}/web.json",
)
# Pipes whose other end somebody holds open: to open them takes no time, to read from them would.
_held: list[int] = []


def hold_pipe(path: Path) -> None:
    os.mkfifo(path)
    _held.append(os.open(path, os.O_RDWR))


KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": lambda path: (path / "in it").mkdir(parents=True),
    "garbage": lambda path: path.write_bytes(b"\xff\x00{[" * 1000),
}
COMMANDS = ("status", "resume", "rollback", "doctor")
# What else reads the folders of terminals.
LOOKS = ("transcript",)
# What reads the user state folder.
OF_PERSONS = ("resume", "tell", "all runs")
OF_TERMINALS = [path for path in PATHS if TERMINAL in path]
MATRIX = [
    *product(PATHS, KINDS, COMMANDS),
    *product(OF_TERMINALS, KINDS, LOOKS),
    *product(PATHS, ("held pipe",), COMMANDS[:2]),
    *product(OF_STATE, KINDS, OF_PERSONS),
    *product(OF_STATE, ("held pipe",), OF_PERSONS[:1]),
]
MAKE = {**KINDS, "held pipe": hold_pipe}


class Copies:
    """A work dir with a run whose tester crashed; it is restored before each command, with all its records."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.kept = folder / "now", folder / "kept"
        state = {"XDG_STATE_HOME": str(self.folder / "state"), **QUICK, "RETRY_BACK_OFF_SECONDS": "0"}
        self.box = Sandbox.of_repository(self.folder / "work", **state)
        crash = self.box.script({"tester": [{"fault": "crash"}]})
        done = self.box.apart("run", "add a greeting", "--test", "true", "--simulate", str(crash))
        assert "can be resumed" in done.err, done.err
        self.run = next(word for word in done.err.split("\n")[-2].split() if len(word) == 8)
        state_of_tester = self.box.state["terminals"]["tester"]
        self.terminal = self.box.wd / ".telos" / "scripted" / state_of_tester["id"]
        self.box.script({"tester": [{"say": "RESULT: PASS"}]})
        shutil.copytree(self.folder, self.kept, symlinks=True)

    def plant(self, path: str, kind: str) -> None:
        while _held:
            os.close(_held.pop())
        shutil.rmtree(self.folder)
        shutil.copytree(self.kept, self.folder, symlinks=True)
        for number in "12" if "?" in path else " ":
            target = self.box.wd / path.replace(TERMINAL, str(self.terminal)).replace("?", number)
            if path.startswith(STATE):
                target = self.in_state(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            MAKE[kind](target)

    def in_state(self, path: str) -> Path:
        """A path in the user state folder; `*` is the folder of the log of this work dir."""
        (mirror,) = (self.folder / "state" / "logos" / "mirrors").glob("*")
        below = path.format(run=self.run).removeprefix(f"{STATE}/").replace("*", mirror.name)
        return self.folder / "state" / "logos" / below

    def command(self, name: str) -> Done:
        resume = ("run", "--test", "true", "--simulate", str(self.box.script_path), "--resume")
        words = {
            "resume": resume,
            "rollback": ("rollback", f"{self.run}@3"),
            "transcript": ("show", "r1.tester.c1", "--transcript"),
            "tell": ("tell", self.run, "be careful"),
            "all runs": ("runs", "--all"),
        }
        return self.box.apart(*words.get(name, (name,)))


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory):
    made = Copies(tmp_path_factory.mktemp("odd"))
    yield made
    made.box.close()


@pytest.mark.parametrize(
    ("path", "kind", "command"),
    # Every path, kind and command is in the quick sample.
    [pytest.param(*case, marks=[] if number % 13 == 0 else pytest.mark.long) for number, case in enumerate(MATRIX)],
)
def test_no_command_waits_for_an_odd_file_or_breaks(path: str, kind: str, command: str, copies: Copies) -> None:
    copies.plant(path, kind)
    done = copies.command(command)
    assert "Traceback" not in done.err, done.err
    assert done.code in (0, 1, 2, 3), done.err


PIPES = ("sub/.gitignore", "sub/.gitattributes", ".git/info/exclude", ".git/info/attributes", ".git/config")

# A run asks git nothing for which it reads this file: it neither waits nor has anything to name.
UNREAD = (".git/info/attributes",)

RUN = ("run", "add a greeting", "--test", "true")
BUILD = ("build", "sell", "--levels", "5-1", "--allow-dirty")


@pytest.mark.parametrize(("pipe", "command"), [*((pipe, RUN) for pipe in PIPES), (PIPES[0], BUILD), (PIPES[1], BUILD)])
def test_no_command_waits_for_git_that_waits_for_a_pipe(
    pipe: str, command: tuple[str, ...], repository: Sandbox
) -> None:
    path = repository.wd / pipe
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if ".git/" not in pipe:
        (path.parent / "a file").touch()
    os.mkfifo(path)
    done = repository.apart(*command, "--simulate", str(repository.script()))
    assert "Traceback" not in done.err, done.err
    if pipe in UNREAD:
        assert done.code == 0, done.err
    else:
        assert f"{path} is a pipe" in done.err


FLOOD = """
import sys
sys.stdin.read()
for _ in range(1024):
    sys.stdout.write("all work and no play makes a dull boy\\n" * 27594)
"""
# A process starts with the peak of the one it was forked from, so the driver is started by a small one, not by pytest.
MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.long
def test_an_agent_that_prints_a_gigabyte_costs_the_driver_no_memory(repository: Sandbox) -> None:
    flood = repository.wd.parent / "flood.py"
    flood.write_text(FLOOD)
    repository.set(**QUICK, PROVIDER="command", AGENT_COMMAND=f"{sys.executable} -IS {flood}", LOGOS_HOST="local")
    command = (LOGOS, "run", "add a greeting", "--test", "true")
    # The most that the driver, or a program that it waited for, has ever used, in kB.
    used = subprocess.run(
        [sys.executable, "-IS", "-c", MEASURE, *command],
        cwd=repository.wd,
        env=clean_env(**repository.environment, MAX_FILE_REMINDERS="0"),
        capture_output=True,
        text=True,
        check=True,
    )
    (printed,) = repository.wd.glob(".telos/local/*/turn-1/out")
    assert printed.stat().st_size > 10**9
    assert int(used.stdout) < 150_000
