"""Bubblewrap, where it works: the room's tree at the path of the work tree, and a system that cannot be written to."""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from logos.adapters.commands import MARK
from logos.adapters.programs import find_program
from logos.adapters.proof.rooms import Room
from logos.errors import HostError

NAME = "bubblewrap"
_PROBE_SECONDS = 30.0
_FOR_EVERYBODY = ("/tmp", "/var/tmp")
# The mark of our processes is not shown to tests: product code could behave differently where it finds it.
_ALONE = ("--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc", "--unsetenv", MARK)
# What root may still do in a room: nothing that changes mounts, devices, or processes outside.
_OF_ROOT = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID", "SETPCAP")


@dataclass(frozen=True, slots=True)
class Lent:
    """A folder outside the room that commands see at another path.

    With `parts`, these are read-only in a folder of the room, where tools can make caches. Without, all of it is
    read-only, and the folders `hidden` are empty.
    """

    source: Path
    path: Path
    parts: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SandboxView:
    """What a command sees: the room's tree at `top`, and nothing of `state` but the room.

    `objects` are those of the person's repository, if there is one. `kept` are folders that must stay visible also
    below a folder for temporary files.
    """

    room: Room
    top: Path
    cwd: Path
    state: Path
    objects: Path | None = None
    lent: tuple[Lent, ...] = ()
    kept: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A bubblewrap that works here. Some machines do not let it make a network without connections."""

    program: str
    cuts_network: bool = True

    def words(self, view: SandboxView, command: Sequence[str], *, network: bool) -> list[str]:
        return [
            *(self.program, *_ALONE, *(() if network or not self.cuts_network else ("--unshare-net",))),
            *(_capabilities() if os.geteuid() == 0 else ()),
            *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
            *_temporary(view),
            *("--bind", str(view.room.tree), str(view.top)),
            *_shown(view),
            *("--tmpfs", str(view.state)),
            *_own(view.room),
            *(("--ro-bind", str(view.objects), str(view.room.objects)) if view.objects else ()),
            *("--chdir", str(view.cwd), "--", *command),
        ]


def _capabilities() -> list[str]:
    return ["--cap-drop", "ALL", *(word for name in _OF_ROOT for word in ("--cap-add", f"CAP_{name}"))]


def _temporary(view: SandboxView) -> list[str]:
    """Folders for temporary files of its own, in which what must stay visible still is."""
    words: list[str] = []
    for number, folder in enumerate(
        path for path in _FOR_EVERYBODY if os.path.isdir(path) and not os.path.islink(path)
    ):
        own = view.room.tmp / str(number)
        own.mkdir(mode=0o700, exist_ok=True)
        words += ["--bind", str(own), folder]
        below = {path for path in view.kept if path.is_relative_to(folder) and path != Path(folder)}
        for path in sorted(path for path in below if path.exists()):
            words += ["--ro-bind", str(path), str(path)]
    return words


def _shown(view: SandboxView) -> list[str]:
    words: list[str] = []
    for folder in view.lent:
        if folder.parts:
            words += _in_own_folder(folder, view.room.tree / folder.path.relative_to(view.top))
        else:
            words += ["--ro-bind", str(folder.source), str(folder.path)]
            words += [word for name in folder.hidden for word in ("--tmpfs", str(folder.path / name))]
    return words


def _in_own_folder(folder: Lent, own: Path) -> list[str]:
    own.mkdir(parents=True, exist_ok=True)
    words: list[str] = []
    for name in folder.parts:
        source = folder.source / name
        if not source.is_symlink():
            words += ["--ro-bind", str(source), str(folder.path / name)]
        elif not os.path.lexists(own / name):
            # A mount would follow it.
            os.symlink(os.readlink(source), own / name)
    return words


def _own(room: Room) -> list[str]:
    return [word for folder in (room.home, room.report) for word in ("--bind", str(folder), str(folder))]


@lru_cache(maxsize=8)
def working(work_dir: Path) -> Bubblewrap | None:
    """The bubblewrap of this machine; None if there is none, or if the system does not let it work."""
    try:
        program = find_program("bwrap", work_dir)
    except HostError:
        return None
    return next((found for cuts in (True, False) if _works(found := Bubblewrap(program, cuts))), None)


def _works(found: Bubblewrap) -> bool:
    """Try it with the arguments that it will get: being installed says nothing."""
    with tempfile.TemporaryDirectory(prefix="logos-") as folder:
        room, top, state = Room(Path(folder, "state", "room")), Path(folder, "top"), Path(folder, "state")
        top.mkdir()
        room.make()
        view = SandboxView(room, top, top, state, kept=(top,))
        try:
            words = found.words(view, ["/bin/sh", "-c", "echo >made"], network=False)
            done = subprocess.run(words, capture_output=True, timeout=_PROBE_SECONDS, check=False, cwd="/")
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0 and (room.tree / "made").exists() and not (top / "made").exists()
