"""Trying the setup and the tools of telos.toml once, in a scratch worktree, before an agent is asked for anything."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from logos.adapters.commands import TIMED_OUT, ShellCommands, SupervisedCommands, end_left_over
from logos.adapters.git.workspace import GitWorkspace, base_of
from logos.adapters.git.worktrees import Setup, SetupFailed, link_ignored
from logos.adapters.lock import driver_lock
from logos.app.setting_sources import settings_of
from logos.app.telos_file import read_telos
from logos.app.workdir import Tell, WorkDir, say
from logos.domain.specs import Tool
from logos.domain.turns import RunId, Worktree
from logos.errors import UsageError
from logos.flows.cannot_run import why_it_cannot_run
from logos.flows.condense import tail

# The name of its branch and folder; the ids of runs are shorter.
_SCRATCH = RunId("scratch-worktree")
_OUTPUT_LINES = 15
_NAMES = 5
HINT = (
    "Install it, let `[worktree] setup` in telos.toml install it, or change or remove the tool there. A worktree has "
    "only the files of the commit: .venv, node_modules and other ignored files are in your work dir, $LOGOS_ROOT. "
    "`logos telos --check` tries setup and tools again without a build"
)


@dataclass(frozen=True, slots=True)
class Tried:
    """A command of telos.toml that was run once. `problem` is why it cannot run; empty where it ran, even if it failed.

    `level` is empty for the setup command.
    """

    level: str
    name: str
    command: str
    exit_code: int
    seconds: float
    output: str
    problem: str

    @property
    def runs(self) -> bool:
        return not self.problem

    @property
    def fails(self) -> bool:
        return self.runs and self.exit_code != 0


@dataclass(frozen=True, slots=True)
class Trial:
    """`setup` is None where telos.toml has none. Tools are not tried if it fails."""

    commit: str
    setup: Tried | None
    tools: tuple[Tried, ...]

    @property
    def problems(self) -> list[Tried]:
        return [tried for tried in (self.setup, *self.tools) if tried is not None and not tried.runs]


def check_telos(wd: Path, tell: Tell = say) -> Trial:
    """Try what telos.toml says on the last commit and the uncommitted changes, without a build."""
    telos, timeout = read_telos(wd), settings_of(wd).handoff.response_timeout
    return _try(wd, base_of(wd, allow_dirty=True), telos.setup, telos.tools, timeout, tell)


def require_tools(wd: Path, commit: str, setup: str, tools: Sequence[Tool], timeout: float, tell: Tell) -> None:
    """Try what a build will run; UsageError if the setup fails or a tool cannot run. A tool that fails is only told."""
    if not (setup or tools):
        remove_scratch(wd)
        return
    trial = _try(wd, commit, setup, tools, timeout, tell)
    for tried in trial.tools:
        if tried.fails:
            tell(f"{tried.level} {tried.name} fails now (exit {tried.exit_code}); a PASS needs it to pass")
            _tell_output(tried, tell)
    for tried in trial.problems:
        tell(f"`{tried.command}`: {tried.problem}")
        _tell_output(tried, tell)
    if trial.problems:
        what = "; ".join(f"{tried.name} (`{tried.command}`): {tried.problem}" for tried in trial.problems)
        error = UsageError(f"the tools of telos.toml cannot run: {what}; no agent was asked")
        error.add_note(HINT)
        raise error


def _tell_output(tried: Tried, tell: Tell) -> None:
    for line in tried.output.splitlines():
        tell(f"  {line}")


def remove_scratch(wd: Path) -> None:
    """Remove the scratch worktree that a killed process left."""
    if (WorkDir(wd).worktrees / _SCRATCH).exists():
        GitWorkspace(wd, _SCRATCH).close(None)


def _try(wd: Path, commit: str, setup: str, tools: Sequence[Tool], timeout: float, tell: Tell) -> Trial:
    supervised = Setup(setup, SupervisedCommands(WorkDir(wd).trials, wd))
    workspace, began = GitWorkspace(wd, _SCRATCH, supervised), time.monotonic()
    with driver_lock(WorkDir(wd).telos_dir / "scratch.lock"):
        end_left_over(WorkDir(wd).trials, wd)
        workspace.close(None)
        tell(f"trying {f'setup `{setup}`' if setup else 'the tools'} in a scratch worktree of {commit[:10]} …")
        try:
            folder = workspace.ready(Worktree("base", (commit,)))
            done = Tried("", "setup", setup, 0, time.monotonic() - began, "", "") if setup else None
            scratch = _Scratch(wd, folder, timeout, tell)
            return Trial(commit, done, tuple(scratch.with_ignored_files([scratch.run(tool) for tool in tools])))
        except SetupFailed as error:
            took, output = time.monotonic() - began, tail(error.output, _OUTPUT_LINES)
            problem = f"failed (exit code {error.ended_with})"
            failed = Tried("", "setup", setup, error.ended_with, took, output, problem)
            return Trial(commit, failed, ())
        finally:
            workspace.close(None)


@dataclass(frozen=True, slots=True)
class _Scratch:
    """The scratch worktree, in which tools are tried."""

    wd: Path
    folder: str
    timeout: float
    tell: Tell

    def run(self, tool: Tool) -> tuple[Tried, str]:
        """A tool tried once, and its whole output."""
        began = time.monotonic()
        self.tell(f"trying {tool.level.name} {tool.name}: `{tool.command}` …")
        exit_code, output = self._shell(tool.command)
        problem = why_it_cannot_run(tool.command, exit_code, output)
        if exit_code == TIMED_OUT and not problem:
            problem = f"it did not end within {self.timeout:.0f} s (handoff.response_timeout)"
        took, last = time.monotonic() - began, tail(output, _OUTPUT_LINES)
        return Tried(tool.level.name, tool.name, tool.command, exit_code, took, last, problem), output

    def with_ignored_files(self, tools: Sequence[tuple[Tried, str]]) -> Iterator[Tried]:
        """Try each tool that fails again, with the files that git ignores in the work dir.

        One that passes then would fail in every worktree of the build, whatever its agents do.
        """
        linked = link_ignored(self.wd, Path(self.folder)) if any(tried.fails for tried, _ in tools) else []
        for tried, output in tools:
            yield self._again(tried, output, linked) if tried.fails and linked else tried

    def _again(self, tried: Tried, output: str, linked: Sequence[str]) -> Tried:
        self.tell(f"trying {tried.level} {tried.name} again, with the files of the work dir that git ignores …")
        exit_code, _ = self._shell(tried.command)
        if exit_code != 0:
            return tried
        likely = sorted(linked, key=lambda path: Path(path).stem not in output)
        more = f" and {len(likely) - _NAMES} more" if len(likely) > _NAMES else ""
        problem = (
            f"it fails in a new worktree (exit {tried.exit_code}) and passes with files of your work dir that git "
            f"ignores: {', '.join(likely[:_NAMES])}{more}"
        )
        return replace(tried, problem=problem)

    def _shell(self, command: str) -> tuple[int, str]:
        commands = ShellCommands(WorkDir(self.wd).trials, self.wd)
        return commands.run(command, self.folder, self.timeout, threading.Event())
