"""What every bench needs: a line of the table, figures, and a run in a folder."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from logos.app.setting_sources import load_settings
from logos.app.settings import Settings
from logos.app.start import run_here
from logos.testing.cao_server import FakeCao

PROMPT = "*** ORIGINAL EXPLORE SUMMARY ***\nA greeting is missing.\n*** SCENARIO TEST ***\nRun it.\n"
NOWHERE = "http://127.0.0.1:9"
WHO = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")


def row(what: str, value: str, beside: str) -> None:
    print(f"{what:<58} {value:>22}   {beside}", flush=True)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def settings_for(wd: Path, api: str, **environment: str) -> Settings:
    return load_settings(None, {"WD": str(wd), "API": api, "PROMPT": PROMPT, **environment})


def run(cao: FakeCao, wd: Path, **environment: str) -> None:
    ended = run_here(settings_for(wd, cao.url, **environment), bare=True, tell=lambda _text: None)
    assert ended.exit_code == 0, ended


def begin_repository(wd: Path) -> None:
    for command in ("init -q", "add -A", "commit -q -m start"):
        subprocess.run(["git", *WHO, *command.split()], cwd=wd, check=True)


@dataclass(frozen=True, slots=True)
class Size:
    """What lies in a place: the bytes of its files, and of the blocks that they and their folders take."""

    apparent: float = 0
    on_disk: float = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.apparent + other.apparent, self.on_disk + other.on_disk)

    def __sub__(self, other: Size) -> Size:
        return Size(self.apparent - other.apparent, self.on_disk - other.on_disk)

    def __mul__(self, factor: float) -> Size:
        return Size(self.apparent * factor, self.on_disk * factor)

    def __str__(self) -> str:
        return f"{self.apparent / 1000:.0f} kB ({self.on_disk / 1000:.0f} on disk)"


def size_of(place: Path) -> Size:
    """The size of a file or of a folder with all that is below it; none where there is nothing."""
    below = (Path(folder) / name for folder, folders, files in os.walk(place) for name in (*folders, *files))
    return sum((_own_size(path) for path in (place, *below) if path.exists()), Size())


def _own_size(path: Path) -> Size:
    there = path.lstat()
    return Size(0 if path.is_dir() else there.st_size, there.st_blocks * 512)
