"""The documents of `logos proof`: the certificate of a run, and how a repeated proof compares with it."""

from logos.views.document import VERSION, Document, Instant, NonEmpty, Path, Seconds, shown

_VERSION_WORDS = "version of these documents; fields may be added without a new version"


class RulesDocument(Document):
    """How the result was proven, pinned when the run started."""

    command: str = shown("the test command")
    setup: str = shown("makes the dependencies in a clean room; empty: they are lent from the work dir")
    timeout: float = shown("seconds for one step")
    guarded: list[str] = shown("further paths that steer tests, as patterns")
    may_change: list[str] = shown("guarded paths that a person allows to change")
    known_failing: list[str] = shown("tests that may fail before and after the run")
    reruns: int = shown("how often failing tests are run again, to find flaky ones")
    require_tests: bool = shown("whether a change that no new or changed test notices fails")
    network: str = shown("auto, on or off")
    env: list[str] = shown("names of environment variables that tests get")
    plants_scripts: bool = shown("whether scripts are planted where tests are not counted")
    blind: bool = shown("whether an agent that does not see the implementation writes acceptance tests")
    unrelated_declared: bool = shown("whether an approved analysis may declare failures of before the run unrelated")


class CountedTestsDocument(Document):
    """The tests that a command ran, by id: `path::name`, or `::name` where the runner does not tell the file."""

    runner: str = shown("the program that ran them")
    passed: list[str] = shown("ids")
    failed: list[str] = shown("ids")
    skipped: list[str] = shown("ids")
    flaky: list[str] = shown("ids of tests that failed, and passed when they were run again")


class LentDocument(Document):
    """A folder of dependencies that a room borrowed from the work dir."""

    path: str = shown("relative to the work dir")
    digest: str = shown("of the inodes and times of its files")


class RoomDocument(Document):
    """The clean room of a step."""

    sandbox: NonEmpty = shown("what kept the command inside; null: nothing")
    network: bool = shown("whether the command could use the network")
    setup: NonEmpty = shown("the command that made the dependencies")
    setup_seconds: Seconds = shown("how long that took")
    seconds: Seconds = shown("how long the test command took")
    lent: list[LentDocument] = shown("folders that were lent from the work dir")


class StepDocument(Document):
    """One step of a proof: the test command on files that no agent could change meanwhile."""

    turn: str = shown("id of the step, for `logos show`")
    step: str = shown("baseline, result, guarded, canary, red or blind (also blind_base)")
    shows: str = shown("what it shows, in one sentence")
    supports: bool = shown("whether it supports a PASS")
    failure: NonEmpty = shown("why it does not, with the end of the output")
    problem: NonEmpty = shown("why the step proves nothing, whatever its exit code")
    at: Instant = shown("ISO 8601, UTC")
    commit: str = shown("snapshot whose files were checked out")
    tree: str = shown("git's hash of the files that the command saw")
    command: str = shown("the test command")
    exit_code: int = shown("of the command; negative for a signal")
    tests: CountedTestsDocument | None = shown("null where the runner is unknown and nothing was counted")
    subject: list[str] = shown(
        "paths put back, ids of planted tests, planted scripts, or files with new or changed tests"
    )
    room: RoomDocument = shown("where it ran")
    output: str = shown("the end of the output; secrets are redacted")


class SnapshotDocument(Document):
    """The files before or after a run."""

    commit: str = shown("commit")
    tree: str = shown("git's hash of its files")


class DeclaredDocument(Document):
    """Tests, or what steers them, that were declared to change."""

    path: str = shown("path or pattern")
    why: str = shown("the reason that was given")
    by: str = shown("who declared it")
    files: list[str] = shown("files that did change")


class DeclaredFailureDocument(Document):
    """A test that failed before the run, which was declared unrelated to it."""

    test: str = shown("id of the test, or its name or file")
    why: str = shown("the reason that was given")
    by: str = shown("who declared it")
    tests: list[str] = shown("ids of those that still failed in the end")


class AcceptanceDocument(Document):
    """Blind acceptance tests, by the hashes of their texts."""

    run: str = shown("id of the run in which they were written")
    response: str = shown("SHA-256 of the response of their author")
    manifest: str = shown("SHA-256 of the list of files")
    files: list[str] = shown("SHA-256 of each file")
    requirements: int = shown("how many requirements they check")
    files_named: int = shown("in how many files")


class RequirementDocument(Document):
    """What a blind acceptance test checks."""

    test: str = shown("id of the test")
    requirement: str = shown("the requirement that it checks", "why")


class AcceptanceTextsDocument(Document):
    """The texts of blind acceptance tests."""

    response: str = shown("what their author answered")
    files: dict[str, str] = shown("the text of each file, by its path in the project")
    requirements: list[RequirementDocument] = shown("what each test checks")


class ApprovalDocument(Document):
    """A verdict that counted: of an agent, or of a person at a gate."""

    turn: str = shown("id of the turn, or of the gate")
    who: str = shown("role or level; `a person`")
    what: str = shown("what it approved")
    at: Instant = shown("ISO 8601, UTC")


class WrittenByDocument(Document):
    """The programs that wrote the certificate."""

    logos: str = shown("version of Logos")
    python: str = shown("version of Python")
    git: str = shown("version of git")
    system: str = shown("operating system")


class CertificateDocument(Document):
    """`logos proof`, and certificate.json of an exported proof."""

    version: int = shown(_VERSION_WORDS, default=VERSION)
    run: str = shown("id of the run")
    flow: str = shown("cycle (`logos run`) or levels (`logos build`)")
    request: str = shown("what was asked for")
    outcome: str | None = shown("PASSED, FAILED, REJECTED, BLOCKED or ABANDONED; null while it can continue")
    verified: bool = shown("whether Logos ran the tests itself before it accepted the PASS")
    reason: str = shown("why the run has this outcome")
    proven: bool = shown("whether the PASS is proven in clean rooms", "is_proven")
    not_proven: NonEmpty = shown("why it is not")
    base: SnapshotDocument | None = shown("the files before the run", "baseline")
    result: SnapshotDocument | None = shown("the files that were proven")
    prefix: str = shown("the work dir in its repository; empty, or it ends with a slash")
    rules: RulesDocument | None = shown("how the result was proven; null where it was not to be")
    baseline: StepDocument | None = shown("the tests before the run")
    steps: list[StepDocument] = shown("of the newest proof, in order")
    changed: list[str] | None = shown("paths that differ between base and result; null: too many to name")
    declared: list[DeclaredDocument] = shown("tests that may change, who said so and why")
    unrelated: list[DeclaredFailureDocument] = shown("failures of before the run that were declared unrelated to it")
    acceptance: AcceptanceDocument | None = shown("blind acceptance tests that the result had to pass; null: none")
    acceptance_texts: AcceptanceTextsDocument | None = shown("their texts; null until the run has ended, or lost")
    guarded: list[str] = shown("changed paths that steer tests and that nobody declared; the proof put them back")
    patch: str = shown("the differences of declared and guarded files")
    approvals: list[ApprovalDocument] = shown("reviews, validations and decisions of a person that counted")
    started_at: Instant = shown("ISO 8601, UTC", "started")
    last_event_at: Instant = shown("ISO 8601, UTC", "last")
    last_event: int = shown("number of the last event", "events")
    fold_rules: int = shown("number of the rules by which the log is read")
    head: str = shown("hash that stands for every event of the run")
    written_by: WrittenByDocument = shown("the programs that wrote this document")


class DifferenceDocument(Document):
    """What a repeated step shows that the certificate does not."""

    step: str = shown("the step")
    what: str = shown("what differs")
    then: str = shown("in the certificate")
    now: str = shown("in the repetition")


class RepeatedDocument(Document):
    """`logos proof --again`."""

    version: int = shown(_VERSION_WORDS, default=VERSION)
    run: str = shown("id of the run")
    agrees: bool = shown("whether every verdict and every test is as in the certificate")
    differences: list[DifferenceDocument] = shown("empty if it agrees")
    steps: list[StepDocument] = shown("as they ran now, the tests before the run first")
    exit_code: int = shown("exit code of the command: 0 if it agrees, else 1")


class ExportedDocument(Document):
    """`logos proof --export FILE`."""

    version: int = shown(_VERSION_WORDS, default=VERSION)
    run: str = shown("id of the run")
    file: Path = shown("the file that was written")
    bytes: int = shown("its size")
    left_out: list[str] = shown("what is not in it")
