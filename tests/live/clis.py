"""Real agent CLIs in clean homes that point them at the fake model, and the processes that they leave."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil
import pytest

from tests.live.clients import Client
from tests.live.model import FakeModel
from tests.support.waiting import LAST_RESORT, wait_for

ROOT = Path(__file__).parents[2]
BIN = ROOT / ".cache" / "agent-clis" / "bin"


@dataclass(frozen=True, slots=True)
class Home:
    """A home folder in which one client knows nothing but the fake model."""

    client: Client
    path: Path
    env: Mapping[str, str]

    def remembers(self, words: str) -> bool:
        return any(words.encode() in file.read_bytes() for file in self.path.glob(self.client.memory))


def make_home(client: Client, path: Path, model: FakeModel, agent_def: Path | None = None) -> Home:
    """With `agent_def`, a home in which the client's own screen comes up in that work dir."""
    if reason := _missing(client.name):
        skip_or_fail(reason)
    files = client.files(model.url) if agent_def is None else client.agent_def(model.url, agent_def)
    for name, content in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    temp = path / "tmp"
    temp.mkdir(parents=True)
    node = shutil.which("node")
    env = {
        "PATH": f"{BIN}:{Path(node).parent if node else '/usr/local/bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(path),
        "TMPDIR": str(temp),
        "LANG": "C.UTF-8",
        # Whoever wants to leave the machine asks the fake model, which says no and takes a note.
        "HTTPS_PROXY": model.url,
        "NO_PROXY": "127.0.0.1",
        **client.env(model.url),
    }
    return Home(client, path, env)


def processes(home: Home) -> list[psutil.Process]:
    """Everything that was started from this home, in whatever process group or session it is by now."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get("HOME") == str(home.path) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def all_gone(home: Home) -> bool:
    """Nothing is left; what was killed takes a moment to go."""
    return wait_for(lambda: not processes(home), lambda: f"the end of {processes(home)}")


def sweep(home: Home) -> None:
    """End what a killed CLI leaves: its shell commands run in sessions of their own."""
    for process in (left := processes(home)):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=LAST_RESORT)


@cache
def _missing(name: str) -> str:
    """Have a client installed; the reason if that cannot be done."""
    done = subprocess.run([sys.executable, ROOT / "tools" / "agent-clis", name], stderr=subprocess.PIPE, text=True)
    return done.stderr.strip() or "tools/agent-clis failed" if done.returncode else ""


def skip_or_fail(reason: str) -> None:
    """In CI a skip would look like a success."""
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
