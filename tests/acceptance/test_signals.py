"""Signals to real processes: every command stops in order, whatever signals its shell told it to ignore."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.old_runs import restore
from tests.unit.test_cli import LOGOS, PROMPT, clean_env

# Reached only if a signal is lost.
LAST_RESORT_SECONDS = 120
INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
NAMES = {INT: "SIGINT (Ctrl-C)", TERM: "SIGTERM", HUP: "SIGHUP"}


@contextmanager
def started(wd: Path, ignored: str, *arguments: str, until: str) -> Iterator[subprocess.Popen[str]]:
    """`logos` under a shell that ignores some signals, once it has said something."""
    shell = ["sh", "-c", f"trap '' {ignored}; exec \"$@\"" if ignored else 'exec "$@"', "sh"]
    env = clean_env(PROMPT=PROMPT, POLL_SECONDS="0.05")
    with subprocess.Popen(
        [*shell, LOGOS, *arguments], cwd=wd, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if until in line:
                    break
            yield process
        finally:
            process.kill()


def stopped_by(process: subprocess.Popen[str], signals: Sequence[signal.Signals]) -> tuple[int, str]:
    for signum in signals:
        process.send_signal(signum)
    _, err = process.communicate(timeout=LAST_RESORT_SECONDS)
    return process.returncode, err


@pytest.mark.scenario("CYC-21")
@pytest.mark.parametrize(
    ("ignored", "signals", "by"),
    [
        ("", [INT], INT),
        pytest.param("", [TERM], TERM, marks=pytest.mark.long),
        ("", [HUP], HUP),
        # A background job of a shell.
        ("INT QUIT", [INT], INT),
        pytest.param("INT QUIT", [TERM], TERM, marks=pytest.mark.long),
        # `nohup`: had the first signal not been ignored, the second would not be the one that is named.
        ("HUP", [HUP, TERM], TERM),
        pytest.param("HUP", [HUP, INT], INT, marks=pytest.mark.long),
    ],
)
def test_a_command_that_only_reads_stops_in_order(
    tmp_path: Path, ignored: str, signals: Sequence[signal.Signals], by: signal.Signals
) -> None:
    wd = restore("4d178cb", "cycle-unfinished", tmp_path / "repo")
    with started(wd, ignored, "log", "--follow", until="no driver is attached") as process:
        assert stopped_by(process, signals) == (128 + by, f"logos: stopped by {NAMES[by]}\n")


@pytest.mark.scenario("CYC-21")
@pytest.mark.parametrize(
    ("ignored", "signals", "by"), [("INT QUIT", [INT], INT), ("HUP", [HUP, TERM], TERM), ("", [HUP], HUP)]
)
def test_a_run_stops_in_order_and_can_be_resumed(
    tmp_path: Path, ignored: str, signals: Sequence[signal.Signals], by: signal.Signals
) -> None:
    (tmp_path / "script.yaml").write_text("agents: {analyst: [{fault: hang}]}")
    arguments = ("run", "--simulate", "script.yaml")
    with started(tmp_path, ignored, *arguments, until="r1.analyst.c1 prompt delivered") as process:
        code, err = stopped_by(process, signals)
    assert code == 128 + by, err
    assert f"logos: stopped by {NAMES[by]}" in err
    assert "can be resumed: logos run --simulate script.yaml --resume" in err
    assert "Traceback" not in err
