"""The certificate of a run: showing it, exporting it with the files it is about, and repeating the proof."""

import io
import json
import platform
import tarfile
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from logos import __version__
from logos.adapters.acceptance.folder import find_tests, read_tests, texts_by_hash
from logos.adapters.files import MAX_BYTES, open_regular, refused, write_atomically
from logos.adapters.git.bundles import CommitSource, read_bundle, write_bundle
from logos.adapters.git.command import Git, checked_commit, repository_of, text_of
from logos.adapters.proof.checkout import SnapshotStore
from logos.adapters.proof.rooms import Rooms, rooms_folder
from logos.adapters.proof.sealing import WrittenTests
from logos.app.pins import pinned_by, pinned_settings
from logos.app.registry import place_of_run
from logos.app.rooms import open_prover, store_with
from logos.app.runs import reload_run
from logos.app.setting_sources import resumed_settings
from logos.app.settings import Settings
from logos.app.workdir import Tell, find_run, place_to_read, reading, say
from logos.domain.artifacts import SPECS
from logos.domain.events import ProofRan, Recorded
from logos.domain.proof import AcceptanceTests, ProofStep
from logos.domain.turns import Outcome, Prove, RunId, TurnId
from logos.errors import HostError, LogosError, UsageError
from logos.flows.fold import UNFINISHED
from logos.flows.proof.acceptance import requirements_in
from logos.flows.proof.declared import NamedTest, excused
from logos.flows.proof.verdict import ProofProgress, action_for, judged
from logos.ports import Prover
from logos.views.proof import AcceptanceTexts, Certificate, WrittenBy, certificate_of, step_record
from logos.views.proof_document import CertificateDocument
from logos.views.redact import redacted
from logos.views.repetition import Difference, Repetition, StoredProof, compared
from logos.views.run import RunView

CERTIFICATE, BUNDLE, ACCEPTANCE = "certificate.json", "proof.bundle", "acceptance.json"
_LARGEST_BUNDLE = 4_000_000_000
_MOST_PATCH = 200_000
_CHUNK = 1 << 20
_PROOF: TypeAdapter[StoredProof] = TypeAdapter(StoredProof)


@dataclass(frozen=True, slots=True)
class Exported:
    """A proof that was written to a file; `left_out` says what the file lacks."""

    run: str
    file: Path
    bytes: int
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProofFile:
    """An exported proof as it was read: the certificate, and the part of it that can be repeated."""

    file: Path
    document: Mapping[str, Any]
    proof: StoredProof
    # The texts of blind acceptance tests, by their hashes.
    texts: Mapping[str, bytes] = field(default_factory=dict[str, bytes])

    def find_tests(self, tests: AcceptanceTests) -> WrittenTests:
        def kept(name: str) -> bytes:
            if name not in self.texts:
                raise HostError(f"the acceptance tests of run {tests.run} are not in {self.file}")
            return self.texts[name]

        return read_tests(tests, kept)


def certificate(
    run: str | None = None, *, wd: Path | None = None, tell: Tell = say, known: RunView | None = None
) -> Certificate:
    """The certificate of the run whose id begins so, or of the newest; `known` is this run, loaded already."""
    return _load(place_of_run(run, wd), run, tell, known)


def export_proof(file: Path, run: str | None = None, *, wd: Path | None = None, tell: Tell = say) -> Exported:
    """Write the certificate of a run, and a git bundle of its files before and after, as one tar file."""
    place = place_of_run(run, wd)
    own = _load(place, run, tell)
    base, result = own.baseline, own.result
    if base is None or result is None:
        raise UsageError(f"run {own.run} has no proof to export: {own.not_proven}")
    store = store_with(place, result.commit)
    document = json.dumps(redacted(CertificateDocument.of(own)), indent=2).encode()
    with _private_folder() as folder:
        commits = {"base": base.commit, "result": result.commit}
        left_out = write_bundle(_source(store), commits, folder / BUNDLE, folder / "git")
        try:
            content = _tar({CERTIFICATE: document, BUNDLE: (folder / BUNDLE).read_bytes(), **_acceptance_member(own)})
        except OSError as error:
            raise refused(f"cannot read the bundle of run {own.run}", error) from error
    write_atomically(file.expanduser().absolute(), content)
    lent = sorted({lent.path for step in (base, *own.steps) for lent in step.room.lent})
    missing = f"dependencies ({', '.join(lent)}): whoever repeats the proof must have them" if lent else ""
    lost = own.acceptance is not None and own.acceptance_texts is None
    hidden = "blind acceptance tests: the run has not ended, or their texts are lost" if lost else ""
    return Exported(own.run, file, len(content), tuple(filter(None, (*left_out, missing, hidden))))


def _acceptance_member(own: Certificate) -> dict[str, bytes]:
    """The texts of blind acceptance tests, by their hashes; they are not redacted, so that the hashes hold."""
    if own.acceptance is None or own.acceptance_texts is None:
        return {}
    return {ACCEPTANCE: json.dumps(texts_by_hash(own.acceptance)).encode()}


def prove_again(
    run: str | None = None, *, wd: Path | None = None, tell: Tell = say, stop: threading.Event | None = None
) -> Repetition:
    """Repeat the proof of a run of this work dir, by the rules that the run has pinned, and compare."""
    place = place_of_run(run, wd)
    own = _load(place, run, tell)
    proof = _stored(CertificateDocument.of(own), f"run {own.run}", own.not_proven)
    store = store_with(place, proof.baseline.commit)
    with open_prover(store) as prover:
        return repeat(proof, prover, tell, stop or threading.Event())


def read_proof_file(file: Path) -> ProofFile:
    """Read an exported proof; nothing of it is executed."""
    try:
        with open_regular(file, follow=True) as source, tarfile.open(fileobj=source, mode="r:") as archive:
            content = _member(archive, CERTIFICATE, MAX_BYTES).read()
            _member(archive, BUNDLE, _LARGEST_BUNDLE)
            has_texts = ACCEPTANCE in archive.getnames()
            texts: Any = json.loads(_member(archive, ACCEPTANCE, MAX_BYTES).read()) if has_texts else {}
        document: Any = json.loads(content)
    except (OSError, tarfile.TarError, ValueError, KeyError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{file} is not an exported proof: {why}") from error
    by_hash = {str(name): str(text).encode("latin-1", "replace") for name, text in dict(texts).items()}
    return ProofFile(file, document, _stored(document, str(file), ""), by_hash)


def prove_file_again(
    exported: ProofFile, *, wd: Path | None = None, tell: Tell = say, stop: threading.Event | None = None
) -> Repetition:
    """Repeat an exported proof and compare. It executes the commands of the file: the caller must trust them.

    Dependencies are lent from the work dir, if it has any; no file is written there.
    """
    place, proof = place_to_read(wd).resolve(), exported.proof
    # The file must not choose which secrets of this machine its commands get.
    rules = replace(proof.rules, env=())
    commits = (proof.baseline.commit, *(step.commit for step in proof.steps))
    with _private_folder() as folder:
        _extract(exported.file, folder / BUNDLE)
        source = read_bundle(folder / BUNDLE, commits, folder / "git", place)
        top = _top(place)
        store = SnapshotStore(
            top / proof.prefix, top, proof.prefix, source.objects, source.algorithm, common=folder / "git"
        )
        with open_prover(store, exported.find_tests) as prover:
            return repeat(replace(proof, rules=rules), prover, tell, stop or threading.Event())


def repeat(proof: StoredProof, prover: Prover, tell: Tell, stop: threading.Event) -> Repetition:
    """Run the tests before the run and every step that the result needs, and compare with the certificate.

    The steps and the changed paths are found out anew: the certificate may have left some out.
    """
    rules, result = proof.rules, _result_of(proof)
    action = Prove(TurnId("baseline"), ProofStep.BASELINE, rules, proof.baseline.commit)
    baseline = _run(prover, action, tell, stop)
    steps, differences = [step_record(_now(baseline), baseline)], list[Difference]()
    changed = prover.changed(proof.baseline.commit, result)
    if proof.flow == "cycle":
        changed = tuple(path for path in changed if not path.startswith(SPECS))
    if proof.changed is None:
        progress = ProofProgress(result, None)
    else:
        progress = ProofProgress(result, changed)
        differences += _of_paths(proof.changed, changed)
    progress = replace(progress, declared=tuple(declared.path for declared in proof.declared))
    failed_before = baseline.tests.failed if baseline.tests is not None else ()
    named = (NamedTest(failure.test, failure.why) for failure in proof.unrelated)
    progress = replace(progress, unrelated=excused(failed_before, named), acceptance=proof.acceptance)
    while progress.step is not None:
        ran = _run(prover, action_for(progress, baseline, rules, "again"), tell, stop)
        judgement = judged(progress, ran, baseline, rules)
        steps.append(replace(step_record(_now(ran), ran), failure=judgement.failure))
        progress = replace(judgement.progress, step=None) if judgement.pause else judgement.progress
    differences += compared((proof.baseline, *proof.steps), steps)
    return Repetition(proof.run, tuple(steps), tuple(differences))


def _of_paths(then: tuple[str, ...], now: tuple[str, ...]) -> list[Difference]:
    gone, more = sorted({*then} - {*now}), sorted({*now} - {*then})
    if not gone and not more:
        return []
    return [Difference(ProofStep.RESULT, "changed paths", ", ".join(gone) or "fewer", ", ".join(more) or "fewer")]


def _run(prover: Prover, action: Prove, tell: Tell, stop: threading.Event) -> ProofRan:
    tell(f"{action.step}: running `{action.rules.command}` in a clean room")
    return prover.run(action, stop)


def _now(ran: ProofRan) -> Recorded:
    """A step that is in no log."""
    return Recorded(RunId(""), 0, 0.0, ran)


def _result_of(proof: StoredProof) -> str:
    found = next((step.commit for step in proof.steps if step.step is ProofStep.RESULT), None)
    if found is None:
        raise UsageError(f"the proof of run {proof.run} has not begun: there is nothing to repeat")
    return found


def missing_proof(settings: Settings, view: RunView) -> str:
    """Why a passed run is not verified, where its settings demand that (proof.required); else empty."""
    if view.outcome is not Outcome.PASSED or view.state.verified:
        return ""
    pinned = pinned_settings(pinned_by(view, reread=False), settings)
    own = resumed_settings(settings, view.ledger.given, view.plan, pinned)
    return certificate_of(view).not_proven if own.proof.required else ""


# -- reading


def _load(place: Path, run: str | None, tell: Tell, known: RunView | None = None) -> Certificate:
    with reading(place, tell) as log:
        view = reload_run(log, find_run(log, run), known)
        head = log.head(view.run)
    own = certificate_of(view, head=head, prefix=_prefix(place), written_by=_written_by(place))
    texts = _acceptance_texts(own.acceptance) if own.acceptance is not None and view.outcome not in UNFINISHED else None
    return replace(own, patch=_patch(place, own), acceptance_texts=texts)


def _acceptance_texts(tests: AcceptanceTests) -> AcceptanceTexts | None:
    """For people, once no agent of the run can read them any more; None where they are lost."""
    try:
        found = find_tests(tests)
    except HostError:
        return None
    files = {path: content.decode("utf-8", "replace") for path, content in found.files.items()}
    return AcceptanceTexts(found.response, files, requirements_in(found.response))


def _prefix(wd: Path) -> str:
    try:
        return repository_of(wd).prefix
    except (HostError, OSError):
        return ""


def _patch(wd: Path, own: Certificate) -> str:
    """The differences of the files that steer tests; empty where the snapshots are gone or there is no repository."""
    base, result = own.baseline, own.result
    files = [*own.guarded, *(file for declared in own.declared for file in declared.files)]
    if base is None or result is None or not files:
        return ""
    paths = [f":(top,literal){own.prefix}{file}" for file in dict.fromkeys(files)]
    try:
        commits = checked_commit(base.commit), checked_commit(result.commit)
        done = Git(wd).run("diff-tree", "-r", "-p", *commits, "--", *paths)
    except (HostError, OSError):
        return ""
    return text_of(done.stdout[:_MOST_PATCH]) if done.returncode == 0 else ""


def _written_by(place: Path) -> WrittenBy:
    try:
        git = Git(place).line("version").removeprefix("git version ")
    except (HostError, OSError):
        git = ""
    return WrittenBy(__version__, platform.python_version(), git, platform.platform())


def _stored(document: Any, name: str, why: str) -> StoredProof:
    known = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    if known and (known.get("rules") is None or known.get("result") is None):
        raise UsageError(f"{name} has no proof to repeat{f': {why}' if why else ''}")
    try:
        return _PROOF.validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{name} is not a certificate: {where}: {first['msg']}") from error


# -- files


@contextmanager
def _private_folder() -> Generator[Path]:
    """A folder outside every work dir; what a killed process leaves of it is removed with its rooms."""
    rooms = Rooms(rooms_folder())
    try:
        yield rooms.folder
    finally:
        rooms.close()


def _tar(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _member(archive: tarfile.TarFile, name: str, largest: int) -> Any:
    member = archive.getmember(name)
    content = archive.extractfile(member) if member.isreg() and member.size <= largest else None
    if content is None:
        raise ValueError(f"{name} is not a file of at most {largest} bytes")
    return content


def _extract(file: Path, to: Path) -> None:
    try:
        with open_regular(file, follow=True) as source, tarfile.open(fileobj=source, mode="r:") as archive:
            content = _member(archive, BUNDLE, _LARGEST_BUNDLE)
            with to.open("wb") as sink:
                while chunk := content.read(_CHUNK):
                    sink.write(chunk)
    except (OSError, tarfile.TarError, ValueError, KeyError) as error:
        raise LogosError(f"{file} cannot be read: {error}") from error


def _source(store: SnapshotStore) -> CommitSource:
    return CommitSource(store.objects, store.work_dir, store.algorithm, store.common)


def _top(place: Path) -> Path:
    """The top of the repository that a folder is in, whose dependencies can be lent; else the folder."""
    try:
        return repository_of(place).top
    except (HostError, OSError):
        return place
