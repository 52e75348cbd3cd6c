"""Projects whose steps of a proof run in clean rooms."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from logos.adapters.git.snapshots import GitSnapshots
from logos.adapters.proof.bubblewrap import Bubblewrap, working
from logos.adapters.proof.copies import TreeCopies
from logos.adapters.proof.prover import RoomProver
from logos.adapters.proof.rooms import rooms_folder
from logos.domain.events import ProofRan
from logos.domain.proof import CountedTests, LentFolder, ProofRules, ProofStep
from logos.domain.turns import Prove, TurnId
from tests.support.repositories import make_repository, write_files

SANDBOXES = ("bubblewrap", "none")


def sandbox_named(name: str, work_dir: Path) -> Bubblewrap | None:
    """What a room is made with. Where bubblewrap does not work, tests that need it are skipped, except in CI."""
    if name == "none":
        return None
    found = working(work_dir)
    if found is None and os.environ.get("CI") != "true":
        pytest.skip("bubblewrap does not work here")
    assert found is not None, "bubblewrap does not work here"
    return found


@dataclass
class Project:
    """A repository, and steps of a proof of it."""

    wd: Path
    sandbox: Bubblewrap | None
    snapshots: GitSnapshots | TreeCopies
    prover: RoomProver = field(init=False)

    def __post_init__(self) -> None:
        self.prover = RoomProver(self.wd, self.snapshots, lambda _: self.sandbox)

    @classmethod
    def of(cls, folder: Path, files: Mapping[str, str], sandbox: str, below: str = "") -> Project:
        make_repository(folder, files)
        return cls(folder / below, sandbox_named(sandbox, folder), GitSnapshots(folder / below))

    def take(self) -> str:
        return self.snapshots.take()

    def write(self, files: Mapping[str, str]) -> str:
        write_files(self.wd, files)
        return self.take()

    def delete(self, *paths: str) -> str:
        for path in paths:
            full = self.wd / path
            shutil.rmtree(full) if full.is_dir() else full.unlink()
        return self.take()

    def prove(
        self,
        step: ProofStep,
        command: str,
        base: str,
        result: str = "",
        *,
        declared: tuple[str, ...] = (),
        lent: tuple[LentFolder, ...] = (),
        needs_network: bool = True,
        before: CountedTests | None = None,
        passed: tuple[str, ...] = (),
        **rules: object,
    ) -> ProofRan:
        changed = self.prover.changed(base, result) if result else ()
        made = ProofRules(command, **rules)  # type: ignore[arg-type]
        action = Prove(TurnId("p"), step, made, base, result, changed, declared, needs_network, lent, before)
        action = replace(action, passed=passed)
        return self.prover.run(action, threading.Event())

    def baseline(self, command: str, **rules: object) -> ProofRan:
        return self.prove(ProofStep.BASELINE, command, self.take(), **rules)  # type: ignore[arg-type]

    def result(self, command: str, before: ProofRan, **rules: object) -> ProofRan:
        lent = before.room.lent
        return self.prove(ProofStep.RESULT, command, before.commit, self.take(), lent=lent, **rules)  # type: ignore[arg-type]


def rooms_left() -> list[str]:
    """What is in the folder of all rooms."""
    found = [*rooms_folder().rglob("*")] if rooms_folder().exists() else []
    return [str(path.relative_to(rooms_folder())) for path in found]


def contents(folder: Path) -> dict[str, bytes | str]:
    """Every file below a folder, also of its repository."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = os.readlink(path)
        elif path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found
