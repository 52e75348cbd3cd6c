"""Runs the steps of a proof that have blind acceptance tests, and tells of them only what agents may know."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from logos.adapters.commands import UNKNOWN
from logos.adapters.proof.prover import RoomProver
from logos.domain.events import ProofRan
from logos.domain.proof import AcceptanceTests
from logos.domain.turns import Prove
from logos.errors import HostError
from logos.flows.proof.acceptance import requirements_in, sealed


@dataclass(frozen=True, slots=True)
class WrittenTests:
    """The texts of acceptance tests: the response of their author, and the files by their paths in the project."""

    response: str
    files: Mapping[str, bytes]


# Finds the texts by their hashes; HostError where one was changed or is lost.
FindTests = Callable[[AcceptanceTests], WrittenTests]
# Keeps the output of a step for the person.
KeepOutput = Callable[[AcceptanceTests, str, str], None]


@dataclass(frozen=True, slots=True)
class SealingProver:
    """The port Prover."""

    rooms: RoomProver
    find: FindTests
    keep_output: KeepOutput = lambda _tests, _turn, _output: None

    def changed(self, base: str, result: str) -> tuple[str, ...]:
        return self.rooms.changed(base, result)

    def run(self, action: Prove, stop: threading.Event) -> ProofRan:
        if action.acceptance is None:
            return self.rooms.run(action, stop)
        try:
            written = self.find(action.acceptance)
        except HostError as error:
            commit, command = action.result or action.base, action.rules.command
            return ProofRan(action.id, action.step, commit, "", command, UNKNOWN, None, "", problem=str(error))
        ran = self.rooms.run(action, stop, written.files)
        self.keep_output(action.acceptance, action.id, ran.output)
        shows = ran.problem and (ran.output or any(path in ran.problem for path in written.files))
        told = replace(ran, problem="the room for the acceptance tests could not be made") if shows else ran
        return sealed(told, requirements_in(written.response))

    def close(self) -> None:
        self.rooms.close()
