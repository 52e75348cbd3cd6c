"""The command line as a whole: help, errors in one line, JSON on stdout and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from logos.app.settings import LEAVES, load_settings
from logos.app.wiring import run_here
from logos.cli import main
from logos.engine.runner import RunResult
from logos.testing import ScriptedAgents, script

LOGOS = Path(sys.executable).with_name("logos")
PROMPT = "*** ORIGINAL EXPLORE SUMMARY ***\nA greeting is missing.\n*** SCENARIO TEST ***\nRun it: expect 2.\n"
COMMANDS = (
    *("run", "status", "log", "show", "runs", "cost", "record"),
    *("init", "validate", "doctor", "demo", "schema", "profiles"),
)
OURS = {leaf.env for leaf in LEAVES} | {"NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"}


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)


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
            strict_prompt=True,
            make_host=lambda _settings, _tell: agents,
            watchers=watchers,
            tell=lambda _text: None,
        )


def clean_env(**more: str) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if name not in OURS}, **more}


def logos(
    *arguments: str, cwd: Path, stdin: str = "", timeout: float = 60, **env: str
) -> subprocess.CompletedProcess[str]:
    """`logos` as a process of its own."""
    return subprocess.run(
        [LOGOS, *arguments],
        cwd=cwd,
        env=clean_env(**env),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(tmp_path, monkeypatch, capsys)


def test_help_names_every_command(cli: Cli) -> None:
    done = cli("--help")
    assert done.code == 0
    for command in COMMANDS:
        assert f"\n  {command} " in done.out


def test_without_arguments_the_help_is_shown(cli: Cli) -> None:
    assert cli() == cli("--help")


@pytest.mark.parametrize("command", [*((name,) for name in COMMANDS), ("profiles", "list"), ("profiles", "install")])
def test_every_command_has_help_with_an_example(cli: Cli, command: tuple[str, ...]) -> None:
    done = cli(*command, "--help")
    assert done.code == 0
    assert "Examples:\n" in done.out
    assert f"\n    logos {command[0]}" in done.out


def test_the_version_is_shown(cli: Cli) -> None:
    from logos import __version__

    assert cli("--version").out == f"logos {__version__}\n"


def test_help_loads_nothing_that_takes_long(tmp_path: Path) -> None:
    code = (
        "import sys; from logos.cli import main; main(['--help'])\n"
        "slow = {'pydantic', 'httpx', 'rich', 'jinja2', 'sqlite3', 'tenacity', 'watchdog'} & set(sys.modules)\n"
        "print('loaded:', sorted(slow))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("loaded: []\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("bogus",), "No such command 'bogus'"),
        (("run", "--bogus"), "No such option: --bogus"),
        (("show",), "Missing argument"),
        (("log", "--wd", "/nowhere/at/all"), "there is no such directory"),
        (("log",), "no run was started"),
        (("show", "x", "y"), "no run was started"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(cli: Cli, arguments: tuple[str, ...], says: str) -> None:
    done = cli(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("logos: ")
    assert done.err.count("\n") == 1
    assert says in done.err


def test_a_usage_error_names_the_help_of_its_command(cli: Cli) -> None:
    assert "(see `logos run --help`)" in cli("run", "--bogus").err


def test_errors_are_json_too_when_json_is_asked_for(cli: Cli) -> None:
    for arguments in (
        ("bogus", "--json"),
        ("log", "--json"),
        ("run", "--json"),
        ("validate", "x.json", "--bad", "--json"),
    ):
        done = cli(*arguments)
        assert done.code != 0
        assert done.json["exit_code"] == done.code
        assert done.json["error"] in done.err


def test_json_after_two_dashes_is_a_word_like_any_other(cli: Cli) -> None:
    done = cli("run", "--", "explain", "--json")
    assert (done.code, done.out) == (1, "")


def test_looking_at_a_work_dir_leaves_no_trace(cli: Cli) -> None:
    for command in ("status", "runs", "log", "doctor"):
        cli(command)
    assert list(cli.wd.iterdir()) == []


def test_a_bug_keeps_its_traceback(tmp_path: Path) -> None:
    code = (
        "from logos.cli import main, place\n"
        "def broken(wd): raise ZeroDivisionError('ours')\n"
        "place.place_of = broken\n"
        "import logos.cli.status; logos.cli.status.place_of = broken\n"
        "main(['status'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "ZeroDivisionError: ours" in done.stderr


def test_a_reader_that_leaves_early_is_no_error(cli: Cli) -> None:
    cli.run()
    done = subprocess.run(
        f"{LOGOS} log --json | head -1", shell=True, cwd=cli.wd, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[\n"
    assert "Traceback" not in done.stderr


def test_a_terminal_without_unicode_shows_question_marks(cli: Cli) -> None:
    cli.run(analyst=["ANALYST_SUMMARY: grün → 木\n"])
    done = logos(
        "show",
        cli("runs", "--json").json[0]["run"],
        "r1.analyst.c1",
        cwd=cli.wd,
        PYTHONIOENCODING="ascii",
        PYTHONUTF8="0",
    )
    assert done.returncode == 0
    assert "gr?n" in done.stdout


def test_completion_scripts_are_offered(tmp_path: Path) -> None:
    done = logos(cwd=tmp_path, _LOGOS_COMPLETE="source_bash")
    assert "_LOGOS_COMPLETE" in done.stdout


def test_run_ids_are_completed(cli: Cli) -> None:
    run = cli.run().run
    done = logos(cwd=cli.wd, _LOGOS_COMPLETE="complete_bash", COMP_WORDS="logos log ", COMP_CWORD="2")
    assert run in done.stdout
