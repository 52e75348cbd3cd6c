"""The command line as processes: what is loaded, pipes, encodings, completion, tracebacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.sandbox import LOGOS, Sandbox


def test_help_loads_nothing_that_takes_long(tmp_path: Path) -> None:
    code = (
        "import sys; from logos.cli import main; main(['--help'])\n"
        "slow = {'pydantic', 'httpx', 'rich', 'jinja2', 'sqlite3', 'tenacity', 'watchdog'} & set(sys.modules)\n"
        "print('loaded:', sorted(slow))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("loaded: []\n")


def test_looking_at_a_work_dir_leaves_no_trace(sandbox: Sandbox) -> None:
    for command in ("status", "runs", "log", "doctor"):
        sandbox(command)
    assert list(sandbox.wd.iterdir()) == []


def test_a_bug_keeps_its_traceback(tmp_path: Path) -> None:
    code = (
        "from logos.cli import main\n"
        "def broken(run, wd): raise ZeroDivisionError('ours')\n"
        "import logos.cli.status; logos.cli.status.place_of_run = broken\n"
        "main(['status'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "ZeroDivisionError: ours" in done.stderr


def test_a_reader_that_leaves_early_is_no_error(sandbox: Sandbox) -> None:
    sandbox.run()
    done = subprocess.run(
        f"{LOGOS} log --json | head -1", shell=True, cwd=sandbox.wd, capture_output=True, text=True, check=True
    )
    assert done.stdout == "{\n"
    assert "Traceback" not in done.stderr


def test_a_terminal_without_unicode_shows_question_marks(sandbox: Sandbox) -> None:
    sandbox.hire(analyst=["ANALYST_SUMMARY: grün → 木\n"])
    run = sandbox.run().run
    done = sandbox.apart("show", run, "r1.analyst.c1", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.code == 0
    assert "gr?n" in done.out


def test_completion_scripts_are_offered(sandbox: Sandbox) -> None:
    assert "_LOGOS_COMPLETE" in sandbox.apart(_LOGOS_COMPLETE="source_bash").out


def test_run_ids_are_completed(sandbox: Sandbox) -> None:
    run = sandbox.run().run
    done = sandbox.apart(_LOGOS_COMPLETE="complete_bash", COMP_WORDS="logos log ", COMP_CWORD="2")
    assert run in done.out
