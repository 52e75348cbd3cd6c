"""Compiled Python modules that the baseline made, before any agent worked: later rooms need not compile them again.

Rooms do not read compiled modules of the system or of lent folders, because agents could have replaced them.
"""

import os
import subprocess
from pathlib import Path

from logos.adapters.files import remove
from logos.adapters.programs import find_program
from logos.adapters.proof.rooms import Room

_SECONDS = 120.0


def compiled_in(room: Room) -> Path:
    """Where Python puts compiled modules in a room, each below the path of its source."""
    return room.home / ".cache" / "python"


class CompiledModules:
    """Kept for the life of a prover. Python compares the time and the size of a source before it uses one."""

    def __init__(self, folder: Path, work_dir: Path) -> None:
        self._folder = folder
        self._work_dir = work_dir

    def keep(self, room: Room, top: Path, lent: list[Path]) -> None:
        """Keep what the baseline has compiled, without the modules of the project itself."""
        found = compiled_in(room)
        if self._folder.exists() or not found.is_dir():
            return
        aside = {folder: found / str(number) for number, folder in enumerate(lent) if _below(found, folder).is_dir()}
        for folder, place in aside.items():
            os.rename(_below(found, folder), place)
        remove(_below(found, top), found)
        for folder, place in aside.items():
            _below(found, folder).parent.mkdir(parents=True, exist_ok=True)
            os.rename(place, _below(found, folder))
        os.rename(found, self._folder)

    def lend(self, room: Room) -> None:
        """Give a room a copy of its own."""
        if not self._folder.is_dir():
            return
        compiled_in(room).parent.mkdir(parents=True, exist_ok=True)
        words = [find_program("cp", self._work_dir), "-R", "-p", str(self._folder), str(compiled_in(room))]
        done = subprocess.run(words, capture_output=True, timeout=_SECONDS, check=False)
        if done.returncode != 0:
            remove(compiled_in(room), room.folder)


def _below(folder: Path, path: Path) -> Path:
    return folder / path.relative_to("/")
