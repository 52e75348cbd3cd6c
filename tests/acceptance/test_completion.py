"""Shell completion of runs, turns, checkpoints and settings."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from logos.testing import FAIL, PASS
from tests.support.isolation import clean_env
from tests.support.sandbox import LOGOS, Sandbox
from tests.support.terminals import on_a_terminal


def complete(place: Sandbox, line: str) -> list[str]:
    """What a shell offers at the end of a line."""
    words = line.split(" ")
    done = place.apart(_LOGOS_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    assert (done.code, done.err) == (0, "")
    return done.out.split()


@pytest.fixture
def ran(sandbox: Sandbox) -> tuple[Sandbox, str]:
    sandbox.hire(tester=[FAIL, PASS])
    return sandbox, sandbox.run(MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1").run


def test_turns_of_a_run(ran: tuple[Sandbox, str]) -> None:
    place, run = ran
    turns = complete(place, f"logos show {run[:3]} ")
    assert turns[0] == "r1.analyst.c1"
    assert "r2.tester.c1" in turns
    assert complete(place, f"logos show {run} r2.t") == ["r2.tester.c1"]


@pytest.mark.parametrize("command", ["rollback", "diff", "diff 1", "fork --at"])
def test_checkpoints(ran: tuple[Sandbox, str], command: str) -> None:
    place, run = ran
    assert "r1.tester.c1" in complete(place, f"logos {command} ")
    assert complete(place, f"logos {command} r2.p")[-1] == "r2.programmer.c1"
    numbers = complete(place, f"logos {command} 1")
    assert numbers
    assert all(number.startswith("1") for number in numbers)
    if command != "fork --at":
        assert f"{run}@r1.tester.c1" in complete(place, f"logos {command} {run}@r1.t")
        assert run in complete(place, f"logos {command} {run[:2]}")


def test_settings(sandbox: Sandbox) -> None:
    assert complete(sandbox, "logos run --set limits.max_r") == ["limits.max_rounds=", "limits.max_review_cycles="]
    assert "agents." in complete(sandbox, "logos build x --set ")
    assert complete(sandbox, "logos run --set agents.tester.m") == ["agents.tester.model=", "agents.tester.model=VALUE"]
    assert "level_agents.L2.args=" in complete(sandbox, "logos run --set level_agents.L2.")
    assert "prices.codex.input=" in complete(sandbox, "logos run --set prices.codex.")


@pytest.mark.long
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "typed_after", "words"),
    [
        ("logos rollback {run}@r1.te", "", ["rollback", "{run}@r1.tester.c1"]),
        ("logos rollback {run}@", "1.te\t", ["rollback", "{run}@r1.tester.c1"]),
        ("logos diff {run}@r1.tester.c1 {run}@r2.te", "", ["diff", "{run}@r1.tester.c1", "{run}@r2.tester.c1"]),
        ("logos show {short} r2.te", "", ["show", "{short}", "r2.tester.c1"]),
        ("logos run --set limits.max_rou", "7", ["run", "--set", "limits.max_rounds=7"]),
        (
            "logos run --set a=b --set agents.tester.mod",
            "small",
            ["run", "--set", "a=b", "--set", "agents.tester.model=small"],
        ),
        ("logos run --set=limits.max_rou", "7", ["run", "--set=limits.max_rounds=7"]),
    ],
)
def test_a_real_bash_completes_words_that_it_takes_apart(
    ran: tuple[Sandbox, str], line: str, typed_after: str, words: list[str]
) -> None:
    """Bash ends a word at `@` and `=`, and gives a completed word a blank."""
    place, run = ran
    names = {"run": run, "short": run[:3]}
    script = place.apart("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1").out
    (place.wd / "rc").write_text(f"PATH={LOGOS.parent}:$PATH\nPS1='$ '\n{script}\n")
    # The line is completed, then printed instead of run.
    typed = f"{line.format(**names)}\t{typed_after}\x01printf '<%s>' \nexit\n"
    env = {**clean_env(), "TERM": "dumb", "WD": str(place.wd)}
    shown, _ = on_a_terminal(["bash", "--rcfile", place.wd / "rc", "-i"], place.wd, env, typed=typed)
    assert "".join(f"<{word.format(**names)}>" for word in ["logos", *words]) in shown


def test_where_there_is_nothing_or_damage_nothing_is_completed_or_printed(ran: tuple[Sandbox, str]) -> None:
    place, _ = ran
    assert complete(place, "logos show nothing ") == []
    assert complete(place, "logos rollback 99@") == []
    (place.wd / ".telos" / "logos.db").write_bytes(b"damaged" * 1000)
    complete(place, "logos rollback ")
    (place.wd / "logos.json").write_text("{")
    complete(place, "logos show r ")
    empty = place.at(place.wd / "empty")
    empty.wd.mkdir()
    assert complete(empty, "logos rollback ") == []


def cpu_of(command: list[str], cwd: Path, **env: str) -> float:
    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    spent = []
    for _ in range(3):
        before = used()
        subprocess.run(command, cwd=cwd, env=clean_env(**env), check=False, capture_output=True)
        spent.append(used() - before)
    return min(spent)


def test_it_takes_little_more_than_starting_python_with_our_libraries(ran: tuple[Sandbox, str]) -> None:
    place, run = ran
    line = f"logos show {run} "
    completing = {"_LOGOS_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": "3"}
    libraries = cpu_of([sys.executable, "-c", "import typer.main, rich.console, pydantic, sqlite3, httpx"], place.wd)
    assert cpu_of([str(LOGOS)], place.wd, **completing) < 3 * libraries
