"""A small project in which a command is run as in a clean room."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from logos.adapters.proof.runners import counted, instrument
from logos.domain.proof import CountedTests
from logos.flows.proof.canary import Planted, planted
from logos.flows.proof.test_ids import file_of


@dataclass(frozen=True)
class CommandRan:
    exit_code: int
    tests: CountedTests | None
    output: str

    @property
    def counts(self) -> CountedTests:
        assert self.tests is not None, self.output
        return self.tests


class RunnerProject:
    """A project in which a command is run as in a clean room."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "a project"
        self.reports = folder / "the reports"

    def write(self, files: dict[str, str]) -> RunnerProject:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return self

    def run(self, command: str, only: Sequence[str] = (), **variables: str) -> CommandRan:
        return self._run(command, only, variables)

    def run_watched(self, command: str, *watched: str) -> CommandRan:
        """As where tests are planted, with nothing planted: what these files work with must not be replaced."""
        return self._run(command, (), {}, Planted({}, ()), watched)

    def _run(
        self,
        command: str,
        only: Sequence[str],
        variables: Mapping[str, str],
        plants: Planted | None = None,
        watched: Sequence[str] = (),
    ) -> CommandRan:
        reports = self.reports / secrets.token_hex(4)
        reports.mkdir(parents=True)
        bins = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        # Plugins of the test environment take seconds to load.
        env = {"PATH": bins, "HOME": str(self.reports), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **variables}
        env["PYTEST_ADDOPTS"] = "-p no:cacheprovider" + (" -p xdist" if " -n " in command else "")
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        probe = plants.probe if plants else ""
        env |= instrument(reports, only, env, self.folder, is_planted=plants is not None, probe=probe, watched=watched)
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=500,
        )
        return CommandRan(done.returncode, counted(reports, command, done.stdout), done.stdout)

    def run_planted(self, command: str, passed: Sequence[str]) -> tuple[tuple[str, ...], CommandRan]:
        """The ids of tests that must fail, planted in their files, and what the command then gives."""
        texts = {name: (self.folder / name).read_text() for name in {*map(file_of, passed)}}
        found = planted(texts, passed, (), lambda: "k" + secrets.token_hex(5), same=texts)
        self.write(dict(found.files))
        assert found.ids
        return found.ids, self._run(command, sorted(found.files), {}, found)
