"""What a run costs on a real CAO server with scripted agents: prompt characters, and the time to the first prompt."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx
from measure import row, settings_for

from logos.app.start import run_here
from logos.testing import APPROVED, FAIL, GOOD_ANALYSIS, GOOD_PROGRAM, PASS

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.live.cao import BIN, CaoServer  # noqa: E402 - tests are no package that is installed

# What the loop script sends that the specification describes, with the same agents, and what is allowed.
SCRIPT_CHARACTERS = {"PASS": 22_200, "FAIL-PASS": 32_900}
TARGET_CHARACTERS = {"PASS": 17_700, "FAIL-PASS": 26_200}
VERDICTS = {"PASS": [PASS], "FAIL-PASS": [FAIL, PASS]}

# How long an agent takes to start, how often the time is measured, and how much longer than the bare client is allowed.
START_SECONDS = 3.8
REPETITIONS = 3
ALLOWED = 1.15


def real_server() -> None:
    missing = [program for program in ("tmux", str(BIN / "cao-server")) if shutil.which(program) is None]
    if missing:
        row("a real CAO server", "SKIPPED", f"NOT MEASURED: {', '.join(missing)} is missing (make venv-dev, apt tmux)")
        return
    with CaoServer() as cao, tempfile.TemporaryDirectory(prefix="logos-bench-") as folder:
        for name in VERDICTS:
            _characters(cao, Path(folder), name)
        _first_prompt(cao, Path(folder))


def _characters(cao: CaoServer, folder: Path, name: str) -> None:
    _script(cao, VERDICTS[name])
    _run(cao, _work_dir(folder))
    asked = [ask["chars"] for ask in cao.pending_turns() if ask["turn"]]
    target = TARGET_CHARACTERS[name]
    met = "met" if sum(asked) <= target else "missed"
    row(
        f"prompt characters of a {name} run",
        f"{sum(asked):,}",
        f"{len(asked)} turns, the script {SCRIPT_CHARACTERS[name]:,}, target ≤ {target:,}: {met}",
    )


def _first_prompt(cao: CaoServer, folder: Path) -> None:
    cao.start_slowly(START_SECONDS)
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(REPETITIONS):
        bare.append(_first_prompt_of_bare_client(cao, _work_dir(folder)))
        _script(cao, [PASS])
        began = time.time()
        _run(cao, _work_dir(folder), MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1")
        ours.append(cao.pending_turns()[0]["time"] - began)
    ratio = statistics.median(ours) / statistics.median(bare)
    row(
        f"first prompt, five agents that take {START_SECONDS} s to start",
        f"{statistics.median(ours):.1f} s = {ratio:.2f} x bare",
        f"bare client with one agent {statistics.median(bare):.1f} s, n={REPETITIONS}, target ≤ {ALLOWED}: "
        f"{'met' if ratio <= ALLOWED else 'missed'}",
    )


def _first_prompt_of_bare_client(cao: CaoServer, wd: Path) -> float:
    """A client that does nothing else: one terminal, one prompt."""
    _script(cao, [PASS])
    began = time.time()
    with httpx.Client(base_url=cao.url, timeout=60) as client:
        wanted = {"provider": "mock_cli", "agent_profile": "system_analyst", "working_directory": str(wd)}
        terminal = client.post("/sessions", params=wanted).raise_for_status().json()["id"]
        while client.get(f"/terminals/{terminal}").json()["status"] not in ("idle", "completed"):
            time.sleep(0.05)
        prompt = {"message": f"RESPONSE FILE INSTRUCTION\n{wd}/analyst_summary.md"}
        client.post(f"/terminals/{terminal}/input", params=prompt).raise_for_status()
        while not cao.pending_turns():
            time.sleep(0.05)
        client.delete(f"/terminals/{terminal}").raise_for_status()
    return cao.pending_turns()[0]["time"] - began


def _script(cao: CaoServer, verdicts: list[str]) -> None:
    said = {"analyst": [GOOD_ANALYSIS], "programmer": [GOOD_PROGRAM], "tester": verdicts}
    said |= {"peer_analyst": [APPROVED], "peer_programmer": [APPROVED]}
    cao.script(**{role: [{"say": text} for text in texts] for role, texts in said.items()})


def _run(cao: CaoServer, wd: Path, **environment: str) -> None:
    """A whole run in this process: what its interpreter takes to start is measured elsewhere (`start_up`)."""
    given = {"PROVIDER": "mock_cli", "CLEANUP_ON_EXIT": "1", **environment}
    ended = run_here(settings_for(wd, cao.url, **given), bare=True, tell=lambda _text: None)
    assert ended.exit_code == 0, ended


def _work_dir(folder: Path) -> Path:
    """A short path: it is in every prompt."""
    wd = folder / f"w{len(os.listdir(folder))}"
    wd.mkdir()
    return wd
