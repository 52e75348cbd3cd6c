"""The command line as a whole: help, errors in one line, JSON on stdout and nothing else."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from logos.adapters.hosts.providers import BY_PROGRAM
from logos.app.setting_sources import load_settings
from logos.app.start import run_here
from logos.cli import main
from logos.cli.output import console as show
from logos.engine.runner import RunResult
from logos.testing import ScriptedAgents, script
from tests.support.isolation import OURS, clean_env
from tests.support.sandbox import LOGOS, PROMPT, Done, Sandbox

COMMANDS = (
    *("run", "status", "log", "show", "runs", "cost", "record"),
    *("init", "validate", "doctor", "demo", "schema", "profiles"),
)

__all__ = ["LOGOS", "PROMPT", "Cli", "Done", "clean_env"]


@dataclass
class Cli:
    """`logos` in this process, in a work dir of its own, with nothing in the environment."""

    wd: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __post_init__(self) -> None:
        for name in OURS:
            self.monkeypatch.delenv(name, raising=False)
        self.monkeypatch.chdir(self.wd)

    def __call__(self, *arguments: str) -> Done:
        self.capsys.readouterr()
        code = main(arguments)
        said = self.capsys.readouterr()
        return Done(code, said.out, said.err)

    def env(self, **variables: str) -> None:
        for name, value in variables.items():
            self.monkeypatch.setenv(name, value)

    def run(
        self, *, watchers: Sequence[Any] = (), prompt: str = PROMPT, env: dict[str, str] | None = None, **said: Any
    ) -> RunResult:
        """A whole run in the work dir, by agents that answer at once."""
        given = {"PROMPT": prompt, "POLL_SECONDS": "0.02", "IDLE_GRACE_SECONDS": "0.2", **(env or {})}
        settings = load_settings(None, {"WD": str(self.wd), **given})
        agents = ScriptedAgents(settings.response_dir, script(**said))
        return run_here(
            settings,
            make_host=lambda _settings, _tell: agents,
            watchers=watchers,
            tell=lambda _text: None,
        )


def test_help_names_every_command(sandbox: Sandbox) -> None:
    done = sandbox("--help")
    assert done.code == 0
    for command in COMMANDS:
        assert f"\n  {command} " in done.out


def test_without_arguments_the_help_is_shown(sandbox: Sandbox) -> None:
    assert sandbox() == sandbox("--help")
    assert sandbox("profiles") == sandbox("profiles", "--help")


@pytest.mark.parametrize("command", ["run", "show", "tell", "compare"])
def test_the_help_has_no_type_of_python(sandbox: Sandbox, command: str) -> None:
    told = sandbox(command, "--help").out
    assert "\nArguments:\n" in told
    assert "\nOptions:\n" in told
    assert not re.search(r"<\w+(\[\w+\])?>", told)


@pytest.mark.parametrize("command", [*((name,) for name in COMMANDS), ("profiles", "list"), ("profiles", "install")])
def test_every_command_has_help_with_an_example(sandbox: Sandbox, command: tuple[str, ...]) -> None:
    done = sandbox(*command, "--help")
    assert done.code == 0
    assert "Examples:\n" in done.out
    assert f"\n    logos {command[0]}" in done.out


@pytest.mark.parametrize("command", ["run", "build"])
def test_the_help_names_every_agent_cli(sandbox: Sandbox, command: str) -> None:
    told = " ".join(sandbox(command, "--help").out.split())
    assert f"--provider NAME The agents' CLI: {', '.join(BY_PROGRAM)}, or `command`." in told


def test_the_version_is_shown(sandbox: Sandbox) -> None:
    from logos import __version__

    assert sandbox("--version").out == f"logos {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("bogus",), "No such command 'bogus'"),
        (("run", "--bogus"), "No such option: --bogus"),
        (("compare",), "Missing argument"),
        (("log", "--wd", "/nowhere/at/all"), "there is no such directory"),
        (("log",), "no run was started"),
        (("show", "nowhere", "y"), "no run was started"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(sandbox: Sandbox, arguments: tuple[str, ...], says: str) -> None:
    done = sandbox(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("logos: ")
    assert done.err.count("\n") == 1
    assert says in done.err


def test_a_usage_error_names_the_help_of_its_command(sandbox: Sandbox) -> None:
    assert "(see `logos run --help`)" in sandbox("run", "--bogus").err


def test_errors_are_json_too_when_json_is_asked_for(sandbox: Sandbox) -> None:
    for arguments in (
        ("bogus", "--json"),
        ("log", "--json"),
        ("run", "--json"),
        ("validate", "x.json", "--bad", "--json"),
    ):
        done = sandbox(*arguments)
        assert done.code != 0
        assert done.json["exit_code"] == done.code
        assert done.json["error"] in done.err


def test_json_after_two_dashes_is_a_word_like_any_other(sandbox: Sandbox) -> None:
    done = sandbox("run", "--", "explain", "--json")
    assert (done.code, done.out) == (1, "")


def on_screen(width: int, draw: Callable[[Console], None]) -> list[str]:
    target = Console(file=io.StringIO(), force_terminal=True, width=width, soft_wrap=True, color_system=None)
    draw(target)
    return target.file.getvalue().splitlines()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_how_a_run_ended_is_folded_at_words(width: int) -> None:
    reason = "the tester reported PASS; so do the tests of before the run (test_greet.py put back), and planted ones"
    lines = on_screen(width, lambda target: show.put_head(target, "PASSED", "bold", f": {reason}"))
    shown = [re.sub(r"\x1b\[\d*m", "", line) for line in lines]
    assert all(len(line) <= width for line in shown)
    assert " ".join(shown) == f"PASSED: {reason}"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_what_commands_are_for_stands_in_one_column(width: int) -> None:
    commands = (
        ("logos diff k3ab", "the changes as a patch"),
        ("git add greet.py greetings.py test_greet.py && git commit", "take them over"),
        ("logos rollback k3ab@1", "undo them: the files as they were when the run started"),
    )
    lines = on_screen(width, lambda target: show.put_next(target, commands))
    shown = [re.sub(r"\x1b\[\d*m", "", line).rstrip() for line in lines][2:]
    words = " ".join(" ".join(shown).split())
    assert all(command in words and why in words for command, why in commands)
    assert all(len(line) <= width for line in shown if "git" not in line)
    at = {line.index(start) for line in shown for start in ("the changes", "take them", "undo them") if start in line}
    assert len(at) == 1, shown
