"""The folders of clean rooms, below the user state folder; those that a killed driver has left are removed."""

import os
import uuid
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from logos.adapters.commands import end_left_over
from logos.adapters.files import private_folder, remove
from logos.adapters.lock import driver_lock
from logos.adapters.store.mirror import state_folder
from logos.errors import Busy, HostError, UsageError

_LOCK = "lock"
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Room:
    """The folders of one room. `commands` has the supervisors' notes; a command sees the others."""

    folder: Path

    @property
    def tree(self) -> Path:
        return self.folder / "tree"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def tmp(self) -> Path:
        return self.folder / "tmp"

    @property
    def report(self) -> Path:
        return self.folder / "report"

    @property
    def objects(self) -> Path:
        """Where a sandbox shows the objects of the person's repository."""
        return self.folder / "objects"

    @property
    def commands(self) -> Path:
        return self.folder / "commands"

    def make(self) -> None:
        for folder in (self.tree, self.home, self.tmp, self.report, self.objects, self.commands):
            private_folder(folder)


class Rooms:
    """The rooms of one prover: in a folder of its own, with a lock that tells others that the prover lives."""

    def __init__(self, root: Path) -> None:
        self._held = ExitStack()
        private_folder(root)
        remove_left_over(root)
        self.folder = self._take(root)

    def _take(self, root: Path) -> Path:
        for _ in range(_TRIES):
            folder = root / uuid.uuid4().hex[:12]
            # Another prover may take the new folder for one of a dead driver, before it is locked.
            if _lock(self._held, folder):
                return folder
        raise HostError(f"cannot create a folder in {root}")

    @contextmanager
    def open(self) -> Generator[Room]:
        room = Room(self.folder / uuid.uuid4().hex[:8])
        try:
            room.make()
            yield room
        finally:
            remove(room.folder, room.folder.parent)

    def close(self) -> None:
        for folder in self.folder.glob("*/"):
            end_left_over(folder / "commands", folder)
        remove(self.folder, self.folder.parent)
        self._held.close()


def rooms_folder() -> Path:
    try:
        return state_folder() / "rooms"
    except OSError as error:
        raise HostError(f"clean rooms need a user state folder: {error.strerror}") from error


def remove_left_over(root: Path) -> int:
    """End the commands and remove the rooms of provers that no longer live; returns how many there were."""
    found = 0
    for folder in [*root.glob("*/")]:
        with ExitStack() as held:
            if not _lock(held, folder):
                continue
            for room in [*folder.glob("*/")]:
                end_left_over(room / "commands", room)
            # A prover that makes a folder of this name meanwhile gets a new one.
            gone = folder.with_name(f"gone-{uuid.uuid4().hex[:12]}")
            os.rename(folder, gone)
            remove(gone, gone.parent)
            found += 1
    return found


def _lock(held: ExitStack, folder: Path) -> bool:
    """Lock the folder of a prover; False where another has it, or has taken it away meanwhile."""
    try:
        held.enter_context(driver_lock(folder / _LOCK))
    except Busy:
        return False
    except UsageError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return False
        raise
    # A lock that was taken away with its folder, before it was held, keeps nobody off.
    return (folder / _LOCK).exists()
