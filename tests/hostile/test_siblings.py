"""An author writes into the worktree of another author: nothing of it is taken as the other's work unseen."""

from __future__ import annotations

from typing import Any

from logos.adapters.hosts.script import read_script
from logos.app.hosts import scripted_host
from logos.app.setting_sources import load_settings
from logos.app.start import build_here
from logos.domain.events import TurnAnswered, WorkGathered
from tests.support.repositories import git
from tests.support.sandbox import QUICK, Sandbox
from tests.support.waiting import until_exists

COMPONENTS = [{"name": "good", "purpose": "works"}, {"name": "evil", "purpose": "attacks"}]
WORKED = {"good.py": "def good(): return 1\n"}
BUILD = ("build", "sell")


def script_of(good: list[dict[str, Any]], evil: dict[str, Any]) -> dict[str, Any]:
    return {"L3": [{"report": {"components": COMPONENTS}}], "L2.good": good, "L2.evil": [evil]}


def merged(repository: Sandbox) -> list[str]:
    return git(repository.wd, "ls-tree", "-r", "--name-only", str(repository.result)).split()


def test_a_file_that_another_author_left_is_not_gathered(repository: Sandbox) -> None:
    here = repository.wd.parent
    wait, ready = until_exists(str(here / "done")), f"touch {here / 'begun'}"
    good: list[dict[str, Any]] = [
        {"run": f"{ready}; {wait}", "edit": WORKED, "report": {"files": ["good.py"]}},
        # The author is told, and removes what is not its own.
        {"run": "rm stranger.py", "report": {"files": ["good.py"]}},
    ]
    attack = f"{until_exists(str(here / 'begun'))}; echo 'x = 1' >../good/stranger.py; touch {here / 'done'}"
    evil = {"run": attack, "edit": {"evil.py": "y = 1\n"}, "report": {"files": ["evil.py"]}}
    done = repository(*BUILD, "--simulate", str(repository.script(script_of(good, evil))))
    assert done.code == 0, done.err
    assert "stranger.py" not in merged(repository)
    assert {"good.py", "evil.py"} <= {*merged(repository)}
    (first,) = [it for it in repository.events(WorkGathered) if it.turn == "s1.L2.good.author.gather"]
    assert any("stranger.py was changed in your folder" in problem for problem in first.problems)
    assert "s1.L2.good.author.t2" in [it.turn for it in repository.events(TurnAnswered)]


def test_what_changes_after_an_author_has_ended_is_not_gathered(repository: Sandbox) -> None:
    def attack(record: Any, *_: object) -> None:
        if isinstance(record.event, TurnAnswered) and record.event.turn == "s1.L2.good.author":
            (worktree,) = repository.wd.glob(".telos/worktrees/*/good")
            (worktree / "good.py").write_text("def good(): return 'evil'\n")

    author = {"edit": WORKED, "report": {"files": ["good.py"]}}
    agents = script_of([author], {"edit": {"evil.py": "y = 1\n"}, "report": {"files": ["evil.py"]}})
    settings = load_settings(None, {"WD": str(repository.wd), **QUICK})
    host = scripted_host(read_script({"agents": agents}))
    ended = build_here(settings, "sell", make_host=host, watchers=[attack], tell=repository.told.append)
    assert ended.exit_code == 0, ended.reason
    (first, second) = [it for it in repository.events(WorkGathered) if it.place == "good"]
    assert first.problems == (
        "good.py was changed after you had ended, so not by you: look at it, and repair or remove it",
    )
    assert second.problems == ()
    assert git(repository.wd, "show", f"{repository.result}:good.py") == WORKED["good.py"]
