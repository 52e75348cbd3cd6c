"""Makes test runners report each test without a change of the project, and counts what they reported.

How the tests of a runner are known:

| runner | from |
| --- | --- |
| pytest, unittest | `sitecustomize` on PYTHONPATH: a plugin, and the result class of unittest |
| node --test, `node file` | `--require` in NODE_OPTIONS: node is started again with a second `--test-reporter` |
| mocha, jest, vitest | the same: events of mocha's runner, a reporter of jest and of vitest |
| cargo test, go test | their output, which a tested program can write to as well: its totals must agree |

Reporters run in the process of the tests, and so does the tested code, which can replace anything in it: planted tests
that must fail are for that. What is noticed here: a run that has no end, a report that was edited or shortened, and
lines written by something that does not know the token. Code that reads the token from its process and writes a whole
report of its own is not noticed.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from logos.adapters.files import bytes_of_file, text_of_file, write_atomically
from logos.adapters.proof.outputs import count_output
from logos.domain.proof import CountedTests
from logos.flows.proof.canary_commands import MARKS

_VARIABLE = "LOGOS_REPORT"
_EVENTS = "events"
_SETTINGS = "settings.json"
# Where the reporters lie in the folder, by their language.
_FOLDERS = {".py": "python", ".cjs": "node", ".mjs": "node", ".sh": "."}
# Programs that are started with the variables even where the command has replaced them: `PYTHONPATH=src python …`.
_PROGRAMS = ("python", "python3", "pytest", "py.test", "node", "nodejs")
_SCRIPTS = (".py", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
_HELPERS = ("conftest.py", "__init__.py")
# More tests than any project runs in one step.
_MAX_BYTES = 256_000_000
_MAX_FILES = 2_000
# What pytest returns where it found no test.
_NO_TESTS = 5
_WORST = ("failed", "rerun", "flaky", "passed", "skipped")


def instrument(
    folder: Path,
    only: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    root: Path | None = None,
    *,
    is_planted: bool = False,
    probe: str = "",
    watched: Sequence[str] = (),
) -> Mapping[str, str]:
    """Write reporters into `folder`, outside of every work tree, and return the variables that make runners use them.

    The same folder serves one command. `only` are test files, relative to the work dir: other files are not run where
    the runner can be told so, and never reported. `environment` is that of the command, whose PYTHONPATH, NODE_OPTIONS
    and PATH are extended; `root` is the work dir as the command sees it, by default the folder it starts in.
    `is_planted`: the functions of node:assert cannot be replaced; `process[probe]()` tells planted tests whether
    somebody tried to. `watched` are the tests and what belongs to them: what they work with must not be replaced.
    """
    given = environment or {}
    token = secrets.token_hex(16)
    hook = str(folder / "node" / "hook.cjs").replace("\\", "\\\\").replace('"', '\\"')
    options = f'--require="{hook}"'
    _write_reporters(folder)
    settings = {
        "root": str(root) if root else "",
        "only": sorted(_runnable(only)),
        "token": token,
        "planted": is_planted,
        "probe": probe,
        "watched": sorted(watched),
    }
    write_atomically(folder / _SETTINGS, json.dumps(settings), durable=False)
    path = {"PATH": os.pathsep.join([str(folder / "bin"), given["PATH"]])} if given.get("PATH") else {}
    return {
        _VARIABLE: str(folder),
        f"{_VARIABLE}_TOKEN": token,
        f"{_VARIABLE}_NODE_OPTIONS": options,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(folder / "python"), given.get("PYTHONPATH", "")])),
        "NODE_OPTIONS": " ".join(filter(None, [options, given.get("NODE_OPTIONS", "")])),
        # go prints the names of tests only with -v; flags that a command of go does not know are ignored.
        "GOFLAGS": " ".join(filter(None, [given.get("GOFLAGS", ""), "-v"])),
        **path,
    }


def _runnable(only: Sequence[str]) -> set[str]:
    """The files that a runner can be narrowed to; a change of data or of a helper alone may concern any test."""
    scripts = {path for path in only if Path(path).suffix in _SCRIPTS}
    return {path for path in scripts if Path(path).name not in _HELPERS}


def _write_reporters(folder: Path) -> None:
    for name in (_EVENTS, MARKS, "bin", *_FOLDERS.values()):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for source in files("logos.adapters.proof").joinpath("reporters").iterdir():
        kind = Path(source.name).suffix
        if kind in _FOLDERS:
            (folder / _FOLDERS[kind] / source.name).write_bytes(source.read_bytes())
    for name in _PROGRAMS:
        shim = folder / "bin" / name
        shim.write_bytes((folder / "shim.sh").read_bytes())
        shim.chmod(0o755)


def marks(folder: Path) -> frozenset[str]:
    """What planted scripts have left in the folder."""
    return frozenset(path.name for path in (folder / MARKS).iterdir())


def counted(folder: Path, command: str, output: str) -> CountedTests | None:
    """The tests that a command ran, after it has ended; None where its runner is unknown."""
    settings = _object(text_of_file(folder / _SETTINGS))
    reports = sorted((folder / _EVENTS).glob("*.jsonl"))[:_MAX_FILES]
    if not reports:
        return count_output(output) if command else None
    outcomes: dict[str, set[str]] = {}
    runners: dict[str, None] = {}
    for path in reports:
        runner = path.name.partition("-")[0]
        runners[runner] = None
        for test, outcome in _read(path, runner, settings):
            outcomes.setdefault(test, set()).add(outcome)
    return _counted(", ".join(runners), outcomes)


def _read(path: Path, runner: str, settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The outcomes in one report, and a failed one of its own where the report is not whole."""
    found: list[tuple[str, str]] = []
    started, status = 0, 0
    token, digest = str(settings.get("token", "")), ""
    try:
        # A name may contain other ends of lines.
        lines = bytes_of_file(path, limit=_MAX_BYTES).decode("utf-8", "replace").removesuffix("\n").split("\n")
    except OSError:
        lines = [""]
    for line in lines:
        stated, _, text = line.partition(" ")
        digest = hashlib.sha256((token + digest + text).encode()).hexdigest()
        event = _object(text)
        if stated != digest:
            return [*found, (f"::(the report of {runner} was changed)", "failed")]
        match event.get("event"):
            case "start":
                started += 1
            case "end":
                started -= 1
                status = status or int(event.get("status") or 0)
            case _:
                found.append((str(event.get("id")), str(event.get("outcome"))))
    if started:
        found.append((f"::({runner} did not finish)", "failed"))
    elif status not in (0, _NO_TESTS) and not settings.get("only") and all(outcome != "failed" for _, outcome in found):
        # In a narrowed run, a test that is not reported may have failed.
        found.append((f"::({runner} ended with status {status})", "failed"))
    return found


def _counted(runner: str, outcomes: Mapping[str, set[str]]) -> CountedTests:
    """A test that ran several times has its worst outcome; one that passed when its runner ran it again is flaky."""
    tests: dict[str, list[str]] = {"failed": [], "flaky": [], "passed": [], "skipped": []}
    for test, seen in outcomes.items():
        worst = next((outcome for outcome in _WORST if outcome in seen), "failed")
        if worst == "rerun":
            worst = "flaky" if "passed" in seen else "failed"
        tests[worst].append(test)
    kinds = {kind: tuple(sorted(found)) for kind, found in tests.items()}
    return CountedTests(runner, kinds["passed"], kinds["failed"], kinds["skipped"], kinds["flaky"])


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}
