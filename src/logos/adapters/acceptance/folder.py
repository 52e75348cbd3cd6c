"""The folder of a run's blind acceptance tests, in the user state folder: where their author works, and the texts.

Agents can read the work dir and the log, so neither has any of this. A text is found by its hash; one that was changed
or is gone is an error.
"""

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from logos.adapters.acceptance.stripped import is_shown, stripped
from logos.adapters.files import bytes_of_file, private_folder, write_atomically
from logos.adapters.proof.sealing import WrittenTests
from logos.adapters.store.mirror import is_run_id, state_folder
from logos.domain.proof import AcceptanceTests
from logos.errors import HostError, LogosError
from logos.flows.proof.acceptance import files_named, problem_with, requirements_in

_RECORD = "record.json"
_MOST_FILES = 200
_MOST_BYTES = 1_000_000
_MOST_SPECS = 500
_BY_PRODUCTS = ("__pycache__", ".pytest_cache", ".git")

# The files of a snapshot with wanted paths, and the paths of all.
Contents = Callable[[str, Callable[[str], bool]], Mapping[str, bytes]]
Paths = Callable[[str], frozenset[str]]


@dataclass(frozen=True, slots=True)
class AcceptanceFolder:
    """`work_dir` is the person's; the agent must not learn where it is. `run` is the name of the folder."""

    run: str
    work_dir: Path

    @property
    def folder(self) -> Path:
        return acceptance_folder() / self.run

    @property
    def room(self) -> Path:
        """Where the agent works."""
        return self.folder / "room"

    def make(self) -> None:
        """For its owner alone, with a record of whose it is."""
        for folder in (acceptance_folder(), self.folder, self.room, self.room / "tests", self.folder / "kept"):
            private_folder(folder)
        self.claim()

    def claim(self) -> None:
        """Record whose it is: the work dir may have been moved."""
        write_atomically(self.folder / _RECORD, json.dumps({"work_dir": str(self.work_dir)}))

    def fill(self, base: str, contents: Contents) -> None:
        """Put the stripped project there, and the specs as they are now, unless an earlier driver has."""
        done = self.folder / "filled"
        if done.exists():
            return
        shown = {**stripped(contents(base, is_shown)), **dict(_specs(self.work_dir))}
        for path, content in shown.items():
            write_atomically(self.room / "project" / path, content, durable=False)
        write_atomically(done, base)

    def collect(self, response: str, known: frozenset[str], told: str) -> tuple[AcceptanceTests, str]:
        """Keep what the agent wrote, and say what is wrong with it, if anything: `told` is what everybody knows."""
        files, problem = _tests_in(self.room / "tests")
        hashes = {path: self._keep(content) for path, content in files.items()}
        named, files_of_all = requirements_in(response), tuple(sorted(hashes.values()))
        manifest = self._keep(json.dumps(hashes, sort_keys=True).encode())
        kept = self._keep(response.encode())
        texts = {path: content.decode("utf-8", "replace") for path, content in files.items()}
        tests = AcceptanceTests(self.run, kept, manifest, files_of_all, len(named), len(files_named(named)))
        return tests, problem or problem_with(texts, known, response, told)

    def keep_output(self, turn: str, output: str) -> None:
        """What a step printed, for the person."""
        with suppress(LogosError):
            write_atomically(self.folder / "outputs" / f"{turn}.txt", output, durable=False)

    def _keep(self, content: bytes) -> str:
        name = hashlib.sha256(content).hexdigest()
        write_atomically(self.folder / "kept" / name, content)
        return name

    def kept(self, name: str) -> bytes:
        """A text by its hash; HostError where it is lost."""
        try:
            return bytes_of_file(self.folder / "kept" / name)
        except OSError as error:
            raise HostError(f"the acceptance tests of run {self.run} are lost: {error.strerror}") from error


def acceptance_folder() -> Path:
    try:
        return state_folder() / "acceptance"
    except OSError as error:
        raise HostError(f"blind acceptance tests need a user state folder: {error.strerror}") from error


def find_tests(tests: AcceptanceTests) -> WrittenTests:
    """The texts of acceptance tests; HostError where one is lost or was changed."""
    if not is_run_id(tests.run):
        raise HostError(f"{tests.run!r} is not a run")
    return read_tests(tests, AcceptanceFolder(tests.run, Path()).kept)


def read_tests(tests: AcceptanceTests, kept: Callable[[str], bytes]) -> WrittenTests:
    """The texts that `kept` gives for their hashes."""

    def checked(name: str) -> bytes:
        content = kept(name)
        if hashlib.sha256(content).hexdigest() != name:
            raise HostError(f"somebody has changed the acceptance tests of run {tests.run}")
        return content

    hashes = json.loads(checked(tests.manifest))
    if tuple(sorted(hashes.values())) != tests.files:
        raise HostError(f"the acceptance tests of run {tests.run} are not those that were written")
    return WrittenTests(checked(tests.response).decode(), {path: checked(name) for path, name in hashes.items()})


def texts_by_hash(tests: AcceptanceTests) -> dict[str, str]:
    """Every text of the tests for a JSON document, each byte as one character."""
    folder = AcceptanceFolder(tests.run, Path())
    names = (tests.manifest, tests.response, *tests.files)
    return {name: folder.kept(name).decode("latin-1") for name in names}


def keep_output(tests: AcceptanceTests, turn: str, output: str) -> None:
    AcceptanceFolder(tests.run, Path()).keep_output(turn, output)


def folder_name(run: str, moves: int) -> str:
    """The name of the folder of a run that was continued in so many other folders: a copy has its own."""
    return f"{run}-{moves}" if moves else run


def run_of(folder: Path) -> str:
    return folder.name.partition("-")[0]


def acceptance_folders() -> Iterator[tuple[Path, Path | None]]:
    """The folders of all runs with acceptance tests, each with its work dir where that is known."""
    with suppress(HostError):
        for folder in sorted(acceptance_folder().glob("*/")):
            known = None
            with suppress(OSError, ValueError, KeyError, TypeError):
                known = Path(json.loads(bytes_of_file(folder / _RECORD))["work_dir"])
            yield folder, known


def _tests_in(root: Path) -> tuple[dict[str, bytes], str]:
    """The files that the agent wrote, by their paths in the project; and why there are not more."""
    found: dict[str, bytes] = {}
    for here, inside, names in os.walk(root):
        inside[:] = sorted(name for name in inside if name not in _BY_PRODUCTS)
        for path in (Path(here, name) for name in sorted(names)):
            info = path.lstat()
            if not stat.S_ISREG(info.st_mode):
                return found, "something in `tests/` is not a regular file"
            if len(found) >= _MOST_FILES or info.st_size > _MOST_BYTES:
                return found, f"`tests/` has more than {_MOST_FILES} files, or one of more than {_MOST_BYTES} bytes"
            found[path.relative_to(root).as_posix()] = bytes_of_file(path)
    return found, ""


def _specs(work_dir: Path) -> Iterator[tuple[str, bytes]]:
    """The specs that the analyst has written into the work dir."""
    found = 0
    for here, inside, names in os.walk(work_dir / "openspec"):
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        for path in (Path(here, name) for name in sorted(names)):
            with suppress(OSError):
                content = bytes_of_file(path, limit=_MOST_BYTES)
                if (found := found + 1) > _MOST_SPECS:
                    return
                yield path.relative_to(work_dir).as_posix(), content
