"""Which files each step of a proof sees: those of a snapshot, with files of the other one or of ours put over them."""

import os
import posixpath
import secrets
import string
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from logos.adapters.git.contents import seen_from
from logos.adapters.proof.checkout import Checkouts
from logos.adapters.proof.trees import Entries, Entry, put
from logos.domain.proof import ProofRules, ProofStep
from logos.domain.turns import Prove
from logos.flows.proof.canary import planted
from logos.flows.proof.commands import named_by
from logos.flows.proof.guarded import allowed, is_guarded, is_test, mixed, named_files, put_back

# A larger file is not text that somebody has written.
_LARGEST_TEXT = 1_000_000


@dataclass(frozen=True, slots=True)
class StepFiles:
    """The files of a step. `texts` replace files or are new; `only` are the test files that are to be run, if not all.

    `skipped` says why there is nothing to run.
    """

    commit: str
    entries: Entries
    texts: Mapping[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    subject: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    skipped: str = ""


def files_of(checkouts: Checkouts, action: Prove) -> StepFiles:
    return _STEPS[action.step](_Snapshots(checkouts, action))


class _Snapshots:
    """Both snapshots of a proof, and the paths that differ, relative to the work dir."""

    def __init__(self, checkouts: Checkouts, action: Prove) -> None:
        self.action = action
        self._checkouts = checkouts
        self._prefix = checkouts.store.prefix
        self._around = checkouts.parent(action.base)

    @property
    def base(self) -> Entries:
        return self._checkouts.entries(self.action.base, self._around)

    @property
    def result(self) -> Entries:
        return self._checkouts.entries(self.action.result, self._around)

    def differing(self) -> dict[str, bytes]:
        return differing(self._checkouts, self.action.base, self.action.result)

    def relative(self, path: bytes) -> str:
        return seen_from(self._prefix, path)

    def full(self, path: str) -> bytes:
        return os.fsencode(posixpath.normpath(posixpath.join(self._prefix, path)))

    def texts(self, entries: Entries, paths: Iterable[bytes]) -> dict[bytes, str]:
        """The texts of the files at these paths; without those that are none."""
        wanted = {path: entries[path] for path in paths if path in entries}
        contents = self._checkouts.contents(wanted.values(), _LARGEST_TEXT)
        read = {path: _decoded(contents.get(entry.blob)) for path, entry in wanted.items() if _is_file(entry)}
        return {path: text for path, text in read.items() if text is not None}


def differing(checkouts: Checkouts, base: str, result: str) -> dict[str, bytes]:
    """The paths that differ between two commits, relative to the work dir, and relative to the top."""
    around = checkouts.parent(base)
    before, after = (checkouts.entries(commit, around) for commit in (base, result))
    paths = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    return {seen_from(checkouts.store.prefix, path): path for path in paths}


def _decoded(content: bytes | None) -> str | None:
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return None


def _is_file(entry: Entry) -> bool:
    return entry.mode.startswith("100")


def _baseline(both: _Snapshots) -> StepFiles:
    return StepFiles(both.action.base, both.base)


def _result(both: _Snapshots) -> StepFiles:
    return StepFiles(both.action.result, both.result)


def _guarded(both: _Snapshots) -> StepFiles:
    """The result, with what steers the tests as in the base."""
    action, base = both.action, both.base
    rules = _with_named(both, action.rules)
    free = (*action.declared, *rules.may_change)
    # A file that only the command names, and that the base does not have, is what the run was to make.
    unnamed = replace(rules, command="")
    differing = {
        name: path for name, path in both.differing().items() if is_guarded(name, rules if path in base else unnamed)
    }
    steering = {name: path for name, path in differing.items() if not allowed(name, free)}
    parts = {name: path for name, path in steering.items() if mixed(name)}
    merged = _merged(both, parts)
    whole = {name: path for name, path in steering.items() if name not in merged}
    entries, texts = (
        dict(both.result),
        {parts[name]: text.encode() for name, text in merged.items() if text is not None},
    )
    # First what is not in the base: it may be in the way.
    for path in sorted(whole.values(), key=lambda path: path in base):
        put(entries, path, base.get(path))
    subject = tuple(sorted({*whole, *(name for name, text in merged.items() if text is not None)}))
    return StepFiles(action.result, entries, texts, subject)


def _merged(both: _Snapshots, parts: Mapping[str, bytes]) -> dict[str, str | None]:
    """Mixed files with the base's sections in the result's text; None where these did not change."""
    before, after = (both.texts(entries, parts.values()) for entries in (both.base, both.result))
    found: dict[str, str | None] = {}
    for name, path in parts.items():
        there = [entries[path] for entries in (both.base, both.result) if path in entries]
        if len(there) == (path in before) + (path in after):
            text = put_back(name, before.get(path), after.get(path))
            found[name] = text if text != after.get(path) else None
    return found


def _with_named(both: _Snapshots, rules: ProofRules) -> ProofRules:
    """Files that the command names steer the tests as well, and so do those that these files name."""
    return replace(rules, guarded=(*rules.guarded, *(f"/{path}" for path in _named(both))))


def _named(both: _Snapshots) -> tuple[str, ...]:
    """The files that the command names, and that these name in turn, as they were before the run."""

    def read(path: str) -> str | None:
        full = both.full(path)
        return both.texts(both.base, [full]).get(full)

    return named_files(both.action.rules.command, read)


def _canary(both: _Snapshots) -> StepFiles:
    """The result with tests that must fail."""
    action, result = both.action, both.result
    inside = {both.relative(path): path for path in result}
    ran = {*action.ran}
    tests = [path for name, path in inside.items() if (name in ran if ran else is_test(name))]
    texts = {both.relative(path): text for path, text in both.texts(result, tests).items()}
    in_place = named_by(action.rules.command) | {*_named(both)}
    plants = planted(texts, action.changed, random_word, in_place)
    files = {both.full(name): text.encode() for name, text in plants.files.items()}
    skipped = "" if files else "(not run: there is no test file of a known kind to plant a copy of)"
    return StepFiles(action.result, result, files, plants.ids, tuple(sorted(plants.files)), skipped)


def random_word(_about: str) -> str:
    """A word that nobody can guess, and that tells nothing."""
    return "".join(secrets.choice(string.ascii_lowercase) for _ in range(12))


def _red(both: _Snapshots) -> StepFiles:
    """The base with the tests that the result added or changed."""
    result, entries = both.result, dict(both.base)
    tests = {name: path for name, path in both.differing().items() if path in result and is_test(name)}
    for path in tests.values():
        put(entries, path, result[path])
    skipped = "" if tests else "(not run: no test is new or changed)"
    return StepFiles(both.action.base, entries, {}, tuple(tests), tuple(tests), skipped)


_STEPS: dict[ProofStep, Callable[[_Snapshots], StepFiles]] = {
    ProofStep.BASELINE: _baseline,
    ProofStep.RESULT: _result,
    ProofStep.GUARDED: _guarded,
    ProofStep.CANARY: _canary,
    ProofStep.RED: _red,
}
