"""What a proof is made of: its rules, its steps, the tests that a step ran, and the room it ran in."""

from dataclasses import dataclass
from enum import StrEnum


class ProofStep(StrEnum):
    """Each step runs the test command once, in a clean room, on files that no agent can change meanwhile."""

    # The files before the run.
    BASELINE = "baseline"
    # The files after it, with their own tests.
    RESULT = "result"
    # The same with tests, and what steers them, as they were before the run.
    GUARDED = "guarded"
    # The result with planted tests that must fail.
    CANARY = "canary"
    # New and changed tests on the source as it was before the run: some must fail.
    RED = "red"
    # Acceptance tests of an agent that has not seen the implementation.
    BLIND = "blind"
    # The same on the files before the run, once they are written: some should fail.
    BLIND_BASE = "blind_base"


class Network(StrEnum):
    """Whether tests may use the network; AUTO: only if the tests before the run need it."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class ProofRules:
    """How a PASS is proven. Paths are patterns as in a .gitignore, relative to the work dir; tests are parts of ids."""

    command: str
    # Makes the dependencies in a clean room; empty: they are lent from the work dir.
    setup: str = ""
    # Seconds for one step.
    timeout: float = 1800.0
    # Further paths that steer tests.
    guarded: tuple[str, ...] = ()
    # Guarded paths that a person allows to change.
    may_change: tuple[str, ...] = ()
    # Tests whose failure before the run is unrelated to it.
    known_failing: tuple[str, ...] = ()
    # How often tests that fail are run again, to find out whether they are flaky.
    reruns: int = 1
    # Whether a change that no new or changed test notices fails.
    require_tests: bool = False
    network: Network = Network.AUTO
    # Names of environment variables that are passed on.
    env: tuple[str, ...] = ()
    # Whether scripts are planted where tests are not counted; runs of before this rule planted none.
    plants_scripts: bool = False
    # Whether an approved analysis may declare that failures of before the run are unrelated to it.
    unrelated_declared: bool = False
    # Whether an agent that does not see the implementation writes acceptance tests.
    blind: bool = False


@dataclass(frozen=True, slots=True)
class AcceptanceTests:
    """Acceptance tests by the hashes of their texts, which lie outside the work dir, in the folder of the run `run`.

    The manifest maps the path of each file in the project to its hash. `requirements` and `files_named` say how many
    requirements the response lists, and in how many files they are tested.
    """

    run: str
    response: str
    manifest: str
    files: tuple[str, ...]
    requirements: int
    files_named: int


@dataclass(frozen=True, slots=True)
class CountedTests:
    """The tests that a command ran, by id: `path::name`, or `::name` where the runner does not tell the file.

    `flaky` ones failed, and passed when they were run again.
    """

    runner: str
    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()

    @property
    def executed(self) -> frozenset[str]:
        return frozenset((*self.passed, *self.failed, *self.flaky))


@dataclass(frozen=True, slots=True)
class LentFolder:
    """A folder of dependencies that a room borrowed from the work dir; the digest is of its files' inodes and times."""

    path: str
    digest: str


@dataclass(frozen=True, slots=True)
class RoomReport:
    """The room of one step. `sandbox` is empty without one; `seconds` are those of the command alone."""

    sandbox: str = ""
    network: bool = True
    setup: str = ""
    setup_seconds: float = 0.0
    seconds: float = 0.0
    lent: tuple[LentFolder, ...] = ()
