"""One work dir for a test: commands in it, agents by script, and what its log, its files and its git say.

    def test_something(sandbox: Sandbox) -> None:                 # a plain folder; `repository` is one with git
        done = sandbox("run", "--simulate", str(sandbox.script({"tester": [{"say": "RESULT: PASS"}]})))
        assert done.code == 0, done.err
        assert sandbox.asked == ["r1.analyst.c1", ...]

- `sandbox(...)` is `logos` in this process; `sandbox.apart(...)` is a process of its own that is waited for, and
  `sandbox.start(...)` one that is not. `sandbox.set(NAME="value")` holds for all of them.
- `sandbox.run(NAME="value")` drives a cycle in this process with the agents of `sandbox.hire(tester=[FAIL, PASS])`.
- `sandbox.wait_for_event("turn_sent", "analyst", process=driver)` waits until the log has such an event.
- `Sandbox(folder)` and `Sandbox.of_repository(folder, files)` make more of them, also in module-scoped fixtures: no
  fixture of pytest's is needed. `close()` ends what was started; the fixtures call it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import psutil
import yaml

from logos.app.setting_sources import load_settings
from logos.app.start import build_here, run_here
from logos.cli import main
from logos.domain.events import Event, Recorded, TurnAnswered, TurnAsked, TurnSent
from logos.engine.runner import RunResult
from logos.ports import AgentHost
from logos.testing import ScriptedAgents, script
from tests.support.forked import Forked, can_be_forked
from tests.support.isolation import clean_env
from tests.support.logs import read_log
from tests.support.repositories import FILES, git, make_repository
from tests.support.waiting import LAST_RESORT, AnyProcess, wait_for

LOGOS = Path(sys.executable).with_name("logos")
PROMPT = "*** ORIGINAL EXPLORE SUMMARY ***\nA greeting is missing.\n*** SCENARIO TEST ***\nRun it: expect 2.\n"
# Agents of tests answer at once: how long is waited between two looks decides how long a test takes.
QUICK = {"POLL_SECONDS": "0.02", "IDLE_GRACE_SECONDS": "0.2"}
# Most scripted agents answer and change no file; a test of that promise sets EXPECT_CHANGE to "".
IDLE_HANDS = {"EXPECT_CHANGE": "0"}

Json = dict[str, Any]
Started = subprocess.Popen[str] | Forked
Kept = TypeVar("Kept", bound=Event)


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)


@dataclass
class Sandbox:
    wd: Path
    environment: dict[str, str] = field(default_factory=dict)
    # What a run in this process told its person.
    told: list[str] = field(default_factory=list)
    started: list[Started] = field(default_factory=list)
    # What was the person's when `remember` was called last.
    before: Json = field(default_factory=dict)
    _agents: ScriptedAgents | None = None

    @classmethod
    def of_repository(cls, folder: Path, files: Mapping[str, str] = FILES, /, **environment: str) -> Self:
        made = cls(make_repository(folder, files), environment)
        made.remember()
        return made

    def at(self, wd: Path | str) -> Self:
        """Another folder, with the same environment."""
        return type(self)(Path(wd), {**self.environment})

    # --- commands

    def set(self, **variables: str) -> None:
        self.environment.update(variables)

    def unset(self, *names: str) -> None:
        for name in names:
            self.environment.pop(name, None)

    def __call__(self, *arguments: str, stdin: str | None = None) -> Done:
        """`logos` in this process."""
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
        streams = redirect_stdout(out), redirect_stderr(err), stdin_of(stdin)
        with changed_environ(self._variables()), chdir(self.wd), streams[0], streams[1], streams[2]:
            code = main(arguments)
        return Done(code, *(_text(stream) for stream in (out, err)))

    def _variables(self, **more: str) -> dict[str, str]:
        """Those of a command; it tells of settings under common names, so the default has a name of our own."""
        given = {**self.environment, **more}
        return given if "EXPECT_CHANGE" in given else {"LOGOS_EXPECT_CHANGE": "0", **given}

    def start(self, *arguments: str, **env: str) -> Started:
        """`logos` as a process of its own, in a group of its own; it is ended with the sandbox."""
        return self.start_module("logos", *arguments, **self._variables(**env))

    def start_module(self, module: str, *arguments: str, **variables: str) -> Started:
        """`python -m MODULE` in the same way, with these variables and those of no person."""
        self.started.append(begun(module, arguments, self.wd, clean_env(**variables)))
        return self.started[-1]

    def apart(self, *arguments: str, **env: str) -> Done:
        """`logos` as a process of its own, to its end."""
        return ended(self.start(*arguments, **env))

    def build(self, *arguments: str, json_: bool = True) -> Done:
        """`logos build` with agents by script."""
        return self("build", *arguments, "--simulate", str(self.script_path), *(["--json"] if json_ else []))

    def close(self) -> None:
        """End what was started and still runs."""
        for process in self.started:
            with process:
                process.kill()
        self.started.clear()

    # --- agents

    @property
    def script_path(self) -> Path:
        """Beside the work dir, where it is no file of the person's repository."""
        return self.wd.parent / "script.yaml"

    def script(self, agents: Any = None, **more: Any) -> Path:
        """Write what agents do with `--simulate`."""
        told = {**more, **({"agents": agents} if agents else {})}
        self.script_path.write_text(yaml.safe_dump(told), encoding="utf-8")
        return self.script_path

    @property
    def agents(self) -> ScriptedAgents:
        return self._agents or self.hire()

    def hire(self, **said: Sequence[Any]) -> ScriptedAgents:
        """Agents in this process that answer at once: well, but for what is given here."""
        self._agents = ScriptedAgents(self.wd / ".tmp" / "agent-responses", script(**said))
        return self._agents

    def build_with(
        self,
        host: Any = None,
        feature: str = "sell things",
        *,
        watchers: Sequence[Any] = (),
        **environment: Any,
    ) -> RunResult[Any]:
        """A build in this process, with the hired agents or on another host."""
        env = {"WD": str(self.wd), **QUICK, **IDLE_HANDS, **self.environment, **environment}
        return build_here(
            load_settings(None, env),
            feature,
            make_host=lambda _settings, _tell: host or self.agents,
            change_signal_for=lambda _folder: self.agents.change_signal,
            watchers=watchers,
            tell=self.told.append,
        )

    def run(
        self,
        host: AgentHost | None = None,
        *,
        bare: bool = False,
        watchers: Sequence[Any] = (),
        prompt: str = PROMPT,
        from_state: bool = False,
        **environment: Any,
    ) -> RunResult[Any]:
        """A run of the cycle in this process, with the hired agents or on another host."""
        env = {"WD": str(self.wd), "PROMPT": prompt, **QUICK, **IDLE_HANDS, **self.environment, **environment}
        return run_here(
            load_settings(None, env),
            bare=bare,
            make_host=lambda _settings, _tell: host or self.agents,
            watchers=watchers,
            tell=self.told.append,
            from_state=from_state,
        )

    # --- what the log says

    def logs(self) -> dict[str, list[Recorded]]:
        """Every run, oldest first."""
        return read_log(self.wd)

    def records(self, run: int | str = -1) -> list[Recorded]:
        """One run's, by its number or its id."""
        logs = self.logs()
        return logs[run] if isinstance(run, str) else list(logs.values())[run]

    def all_events(self, run: int | str = -1) -> list[Event]:
        return [record.event for record in self.records(run)]

    def events(self, kind: type[Kept], run: int | str = -1) -> list[Kept]:
        return [event for event in self.all_events(run) if isinstance(event, kind)]

    @property
    def run_id(self) -> str:
        """The newest run's."""
        return list(self.logs())[-1]

    @property
    def asked(self) -> list[str]:
        return [event.turn for event in self.events(TurnAsked)]

    @property
    def prompts(self) -> dict[str, str]:
        return {event.turn: event.prompt for event in self.events(TurnAsked)}

    @property
    def answered(self) -> dict[str, str]:
        return {event.turn: event.text for event in self.events(TurnAnswered)}

    def seq(self, kind: type[Event], turn: str) -> int:
        """When something happened to a turn."""
        return next(r.seq for r in self.records() if isinstance(r.event, kind) and getattr(r.event, "turn", "") == turn)

    def has_event(self, kind: str, *about: str) -> bool:
        """Whether the newest run has, for each of `about`, an event of this kind whose turn contains it."""
        logs = self.logs()
        events = [record.event for record in [*logs.values()][-1]] if logs else []
        turns = [getattr(event, "turn", "") for event in events if event.kind == kind]
        return bool(turns) and all(any(part in turn for turn in turns) for part in about)

    def wait_for_event(self, kind: str, *about: str, process: AnyProcess | None = None) -> None:
        what = f"{kind} {' '.join(about)} in {self.wd}"
        wait_for(lambda: self.has_event(kind, *about), what, process=process)

    def sent(self, *turns: str) -> bool:
        """Whether these turns are in agents' hands, in whichever run."""
        events = [record.event for records in self.logs().values() for record in records]
        return {event.turn for event in events if isinstance(event, TurnSent)} >= {*turns}

    # --- what lies there

    @property
    def state_path(self) -> Path:
        return self.wd / ".tmp" / "agnostic-3agents-loop-state.json"

    @property
    def state(self) -> Json:
        """The state file of the cycle."""
        return json.loads(self.state_path.read_text(encoding="utf-8"))

    @property
    def build_state(self) -> Json:
        return json.loads((self.wd / ".telos" / "state.json").read_text(encoding="utf-8"))

    def edit_state(self, changes: Mapping[str, Any], *, mark: bool = False) -> None:
        """Write the state file as another tool would; the log's mark stays only if asked for."""
        state = {**self.state, **changes} if self.state_path.exists() else dict(changes)
        if not mark:
            state.pop("logos", None)
        self.state_path.parent.mkdir(parents=True, exist_ok=True)
        self.state_path.write_text(json.dumps(state))

    def git(self, *arguments: str) -> str:
        return git(self.wd, *arguments).strip()

    def set_telos(self, text: str) -> None:
        (self.wd / "telos.toml").write_text(text, encoding="utf-8")
        self.git("commit", "--quiet", "--all", "--message", "telos")
        self.remember()

    @property
    def worktrees(self) -> list[str]:
        """All but the person's own."""
        lines = self.git("worktree", "list", "--porcelain").splitlines()
        return [line.split(" ", 1)[1] for line in lines if line.startswith("worktree ")][1:]

    def refs(self, *under: str) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname)", *under).splitlines()

    @property
    def result(self) -> str:
        """The branch that the newest build left."""
        return f"logos/{self.run_id}"

    def built(self) -> dict[str, str]:
        """What differs between the person's commit and the result: whole files, by path."""
        changed = self.git("diff", "--name-only", "HEAD", self.result).splitlines()
        return {path: self.git("show", f"{self.result}:{path}") for path in changed}

    def remember(self) -> None:
        self.before = persons_things(self.wd)

    def assert_untouched(self) -> None:
        assert persons_things(self.wd) == self.before

    def assert_tidy(self, *branches: str) -> None:
        """No worktree and no branch is left but these, and the person's things are as they were."""
        assert self.worktrees == []
        assert not (self.wd / ".telos" / "worktrees").exists()
        assert self.refs("refs/heads/logos-work") == []
        assert self.refs("refs/heads/logos") == [f"refs/heads/{branch}" for branch in branches]
        self.assert_untouched()

    def left_behind(self) -> list[str]:
        """Processes that still have to do with the folder around the work dir: agents, also those of forks."""
        return processes_of(self.wd.parent)


def processes_of(folder: Path) -> list[str]:
    """Processes whose command line or current folder is in there; those that only wait to be reaped have ended."""
    found: list[str] = []
    for process in psutil.process_iter(["cmdline", "cwd", "status"]):
        words = " ".join(process.info["cmdline"] or [])
        of_folder = str(folder) in words or str(folder) in (process.info["cwd"] or "")
        alive = process.info["status"] != psutil.STATUS_ZOMBIE and process.pid != os.getpid()
        found += [words] if alive and of_folder else []
    return found


def persons_things(wd: Path) -> Json:
    """Everything in a repository that is the person's: to the byte, the file system's idea of the index included."""
    home = Path(git(wd, "rev-parse", "--absolute-git-dir").strip())
    files = [path for path in _persons_files(wd) if path.is_file()]
    refs = git(wd, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags", "refs/stash")
    return {
        "files": {str(path.relative_to(wd)): digest(path) for path in files},
        "HEAD": (home / "HEAD").read_text(),
        "index": digest(home / "index") if (home / "index").exists() else "",
        "refs": [line for line in refs.splitlines() if not line.startswith("refs/heads/logos")],
        "status": git(wd, "status", "--porcelain", "--untracked-files=all"),
        "config": digest(home / "config"),
    }


def _persons_files(wd: Path) -> Iterator[Path]:
    """Without looking into folders that are not the person's: agents and git may be at work there."""
    for folder, folders, names in os.walk(wd):
        if Path(folder) == wd:
            folders[:] = [name for name in folders if name not in (".git", ".telos")]
            names = [name for name in names if name not in (".git", ".telos")]
        yield from (Path(folder, name) for name in names)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def begun(module: str, arguments: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Started:
    """A module of ours in a process of its own: forked, or started as a person does where that makes a difference."""
    if can_be_forked(env):
        return Forked(module, arguments, cwd, env)
    return subprocess.Popen(
        [*([LOGOS] if module == "logos" else [sys.executable, "-m", module]), *arguments],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def heard(process: Started, words: str) -> str:
    """The first line on a process's stderr that has these words; it must come before the process ends."""
    assert process.stderr is not None
    said = ""
    while words not in (line := process.stderr.readline()):
        assert line, f"it ended without {words!r}:\n{said}"
        said += line
    return line


def ended(process: Started) -> Done:
    """What a process said, once it has ended."""
    out, err = process.communicate(timeout=LAST_RESORT)
    return Done(process.wait(LAST_RESORT), out or "", err or "")


@contextmanager
def changed_environ(variables: Mapping[str, str]):
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)


@contextmanager
def stdin_of(text: str | None):
    """Give this process something to read; without it, the standard input stays as it is."""
    before = sys.stdin
    if text is not None:
        sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8")
    try:
        yield
    finally:
        sys.stdin = before


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode("utf-8", "replace")  # pyright: ignore[reportAttributeAccessIssue]
