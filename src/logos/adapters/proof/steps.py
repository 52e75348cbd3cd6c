"""Which files each step of a proof sees: those of a snapshot, with files of the other one or of ours put over them."""

import os
import posixpath
import secrets
import string
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from logos.adapters.git.contents import seen_from
from logos.adapters.proof.checkout import Checkouts
from logos.adapters.proof.trees import Entries, TreeEntry, put
from logos.domain.proof import ProofRules, ProofStep
from logos.domain.turns import Prove
from logos.flows.proof.canary import planted
from logos.flows.proof.canary_commands import planted_scripts
from logos.flows.proof.canary_rust import RUST
from logos.flows.proof.commands import implied_by, named_by, named_modules
from logos.flows.proof.guarded import is_test, mixed, put_back
from logos.flows.proof.steering import Steering, helps_tests
from logos.flows.proof.test_ids import file_of, function_of

# A larger file is not text that somebody has written.
LARGEST_TEXT = 1_000_000


@dataclass(frozen=True, slots=True)
class StepFiles:
    """The files of a step. `texts` replace files or are new; `only` are the test files that are to be run, if not all.

    `skipped` says why there is nothing to run. `also` are files with which the tests must pass as well. `marks` are
    what planted scripts leave behind when they run. `added` are planted tests that are none of the project's; `probe`
    is the name of what they ask whether assertions were replaced. `watched` are the tests and what belongs to them, by
    their paths relative to the work dir: what they work with must not be replaced.
    """

    commit: str
    entries: Entries
    texts: Mapping[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    subject: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    skipped: str = ""
    also: "StepFiles | None" = None
    marks: Mapping[str, str] = field(default_factory=dict[str, str])
    is_planted: bool = False
    added: frozenset[str] = field(default_factory=frozenset[str])
    probe: str = ""
    watched: tuple[str, ...] = ()
    # What is planted, by its path relative to the work dir, and the path and text it has there otherwise.
    unplanted: Mapping[str, tuple[bytes, bytes]] = field(default_factory=dict[str, tuple[bytes, bytes]])

    def with_planted(self, names: Collection[str]) -> "StepFiles":
        """The same with no other files of Rust planted: cargo ends with the first file that has a failing test."""
        others = {
            path: text for name, (path, text) in self.unplanted.items() if name.endswith(RUST) and name not in names
        }
        return replace(self, texts={**self.texts, **others})


def files_of(checkouts: Checkouts, action: Prove, planted: Mapping[str, bytes] | None = None) -> StepFiles:
    """`planted` are blind acceptance tests, by their paths relative to the work dir."""
    both = _Snapshots(checkouts, action)
    return _blind(both, planted) if planted else _STEPS[action.step](both)


class _Snapshots:
    """Both snapshots of a proof, and the paths that differ, relative to the work dir."""

    def __init__(self, checkouts: Checkouts, action: Prove) -> None:
        self.action = action
        self.checkouts = checkouts
        self._prefix = checkouts.store.prefix
        self._around = checkouts.parent(action.base)

    @property
    def base(self) -> Entries:
        return self.checkouts.entries(self.action.base, self._around)

    @property
    def result(self) -> Entries:
        return self.checkouts.entries(self.action.result, self._around)

    def differing(self) -> dict[str, bytes]:
        return differing(self.checkouts, self.action.base, self.action.result)

    def relative(self, path: bytes) -> str:
        return seen_from(self._prefix, path)

    def full(self, path: str) -> bytes:
        return os.fsencode(posixpath.normpath(posixpath.join(self._prefix, path)))

    def texts(self, entries: Entries, paths: Iterable[bytes]) -> dict[bytes, str]:
        return _texts(self.checkouts, entries, paths)


def _texts(checkouts: Checkouts, entries: Entries, paths: Iterable[bytes]) -> dict[bytes, str]:
    """The texts of the files at these paths; without those that are none."""
    wanted = {path: entries[path] for path in paths if path in entries}
    contents = checkouts.contents(wanted.values(), LARGEST_TEXT)
    read = {path: _decoded(contents.get(entry.blob)) for path, entry in wanted.items() if _is_file(entry)}
    return {path: text for path, text in read.items() if text is not None}


def steering_of(checkouts: Checkouts, base: str, rules: ProofRules) -> Steering:
    """What steers the tests of a base."""
    entries, prefix = checkouts.entries(base, checkouts.parent(base)), checkouts.store.prefix
    by_name = {seen_from(prefix, path): path for path in entries}

    def read(names: Iterable[str]) -> Mapping[str, str]:
        paths = {by_name[name]: name for name in names if name in by_name}
        return {paths[path]: text for path, text in _texts(checkouts, entries, paths).items()}

    return Steering(rules, by_name.keys(), read)


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


def _is_file(entry: TreeEntry) -> bool:
    return entry.mode.startswith("100")


def _baseline(both: _Snapshots) -> StepFiles:
    return StepFiles(both.action.base, both.base)


def _result(both: _Snapshots) -> StepFiles:
    return StepFiles(both.action.result, both.result)


def _guarded(both: _Snapshots) -> StepFiles:
    """The result, with what steers the tests as in the base."""
    action = both.action
    changed = both.differing()
    after = {both.relative(path) for path in both.result}
    free = (*action.declared, *action.rules.may_change)
    decided = steering_of(both.checkouts, action.base, action.rules).put_back(changed, free, action.before, after)
    certain = {name: changed[name] for name in decided.certain}
    parts = {
        name: changed[name] for name in (*decided.certain, *decided.examples) if mixed(name) or name not in certain
    }
    merged = _merged(both, parts)
    whole = {name: path for name, path in {**certain, **parts}.items() if name not in merged}
    texts = {parts[name]: text.encode() for name, text in merged.items() if text is not None}
    entries = _put_back(both, both.result, whole.values())
    subject = tuple(sorted({*whole, *(name for name, text in merged.items() if text is not None)}))
    helpers = [changed[name] for name in decided.helpers]
    also = None
    if helpers:
        left = {path: text for path, text in texts.items() if path not in helpers}
        also = StepFiles(action.result, _put_back(both, entries, helpers), left, decided.helpers, decided.concerned)
    return StepFiles(action.result, entries, texts, subject, also=also)


def _put_back(both: _Snapshots, entries: Entries, paths: Iterable[bytes]) -> Entries:
    """These files with those of the base at some paths."""
    base, found = both.base, dict(entries)
    # First what is not in the base: it may be in the way.
    for path in sorted(paths, key=lambda path: path in base):
        put(found, path, base.get(path))
    return found


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


def _canary(both: _Snapshots) -> StepFiles:
    """The files of the guarded step with tests that must fail; those of the result if there were no tests before."""
    action = both.action
    ran = {both.full(file_of(test)) for test in action.passed}
    files = _guarded(both) if not ran or ran & both.base.keys() else _result(both)
    files = replace(files, subject=(), also=None, is_planted=True)
    if not ran:
        return _with_scripts(both, files)
    helpers = {path for path in files.entries if path.endswith(b".py") and is_test(both.relative(path))}
    if action.share < 1.0 and any(path.endswith(RUST.encode()) for path in ran):
        return replace(files, skipped="(not run: the command takes long, and nothing can be left out of it)")
    read = both.texts(files.entries, ran | helpers)
    texts = {both.relative(path): text for path, text in read.items()}
    same = {both.relative(path) for path in ran if path in both.base and both.base[path] == files.entries.get(path)}
    plants = planted(texts, action.passed, action.changed, random_word, action.share, same)
    own = {both.full(name): text.encode() for name, text in plants.files.items()}
    skipped = "" if own else "(not run: there is no test of a known kind that can be made to fail)"
    only = tuple(sorted(plants.files))
    files = replace(files, texts={**files.texts, **own}, subject=plants.ids, only=only, skipped=skipped)
    names = {both.relative(path) for path in files.entries}
    watched = tuple(sorted(name for name in names if helps_tests(name) or both.full(name) in ran))
    before = {name: (both.full(name), texts[name].encode()) for name in plants.files}
    return replace(files, added=plants.added, probe=plants.probe, watched=watched, unplanted=before)


def _with_scripts(both: _Snapshots, files: StepFiles) -> StepFiles:
    """Tests are not counted: the scripts that the command starts must fail."""
    action, command = both.action, both.action.rules.command
    if action.share < 1.0:
        return replace(files, skipped="(not run: the command takes long, and nothing can be left out of it)")
    steering = steering_of(both.checkouts, action.base, action.rules)
    paths = {both.full(path) for path in (*steering.named, *implied_by(command))}
    texts = {both.relative(path): text for path, text in both.texts(files.entries, paths).items()}
    plants = planted_scripts(command, named_by(command) | named_modules(command), texts, random_word)
    own = {both.full(path): text.encode() for path, (_, text) in plants.items()}
    marks = {mark: path for path, (mark, _) in plants.items()}
    why = "(not run: the tests are not counted, and the command names no script that can be made to fail)"
    skipped = "" if own else why
    return replace(files, texts={**files.texts, **own}, subject=tuple(plants), marks=marks, skipped=skipped)


def planted_on_base(
    checkouts: Checkouts, action: Prove, files: StepFiles, silent: Iterable[str], suspect: Iterable[str] = ()
) -> StepFiles:
    """The files of the base with these planted tests; `subject` has those that passed there, in the same files.

    Of those that were added nobody knows yet whether they can fail. `suspect` are test files that are run as well.
    """
    both = _Snapshots(checkouts, action)
    passed = files.added | {*map(function_of, action.before.passed if action.before else ())}
    known = {test: both.full(file_of(test)) for test in silent if test in passed}
    same = {test: path for test, path in known.items() if both.base.get(path) == files.entries.get(path)}
    also = {name: path for name in suspect if (path := both.full(name)) in both.base}
    texts = {path: files.texts[path] for path in (*same.values(), *also.values()) if path in files.texts}
    only = tuple(sorted({*map(file_of, same), *also}))
    before = StepFiles(action.base, both.base, texts, tuple(same), only, is_planted=True)
    return replace(before, added=files.added, probe=files.probe, watched=files.watched)


def random_word() -> str:
    """A word that nobody can guess, and that tells nothing."""
    return "".join(secrets.choice(string.ascii_lowercase) for _ in range(12))


def _red(both: _Snapshots) -> StepFiles:
    """The base with the tests that the result added or changed."""
    result, entries = both.result, dict(both.base)
    steering = steering_of(both.checkouts, both.action.base, both.action.rules)
    tests = {name: path for name, path in both.differing().items() if path in result and steering.is_test(name)}
    for path in tests.values():
        put(entries, path, result[path])
    skipped = "" if tests else "(not run: no test is new or changed)"
    return StepFiles(both.action.base, entries, {}, tuple(tests), tuple(tests), skipped)


def _blind(both: _Snapshots, planted: Mapping[str, bytes]) -> StepFiles:
    """The base, or the result with what steers the tests as in the base, with acceptance tests over it."""
    action, had_tests = both.action, both.action.before is None or bool(both.action.before.executed)
    after = ProofStep.GUARDED if had_tests else ProofStep.RESULT
    files = _STEPS[ProofStep.BASELINE if action.step is ProofStep.BLIND_BASE else after](both)
    texts = {**files.texts, **{both.full(path): content for path, content in planted.items()}}
    return StepFiles(files.commit, files.entries, texts, only=tuple(sorted(planted)))


_STEPS: dict[ProofStep, Callable[[_Snapshots], StepFiles]] = {
    ProofStep.BASELINE: _baseline,
    ProofStep.RESULT: _result,
    ProofStep.GUARDED: _guarded,
    ProofStep.CANARY: _canary,
    ProofStep.RED: _red,
}
