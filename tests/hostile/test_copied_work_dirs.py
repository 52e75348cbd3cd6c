"""A run whose work dir was copied or moved works in its new folder; the old one is not touched."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logos.domain.events import TerminalOpened, TurnAsked
from tests.support.sandbox import PROMPT, Sandbox, persons_things

HANGS = {"fault": "hang"}


def interrupted(tmp_path: Path, *words: str, agents: dict[str, list[object]], during: str) -> Sandbox:
    """A command that is killed while an agent works."""
    shop = Sandbox.of_repository(tmp_path / "original", PROMPT=PROMPT)
    driver = shop.start(*words, "--simulate", str(shop.script(agents)))
    shop.wait_for_event("turn_sent", during, process=driver)
    driver.kill()
    driver.wait()
    return shop


def resumed_in_a_copy(shop: Sandbox, *words: str, agents: dict[str, list[object]]) -> Sandbox:
    before = files(shop.wd)
    copy = shop.at(shop.wd.with_name("copy"))
    shutil.copytree(shop.wd, copy.wd, symlinks=True)
    known = len(copy.records())
    done = copy(*words, "--simulate", str(copy.script(agents)))
    assert done.code == 0, done.err
    assert f"its work dir was {shop.wd}: agents get new terminals and prompts for this folder" in done.err
    events = copy.all_events()[known:]
    prompts = [event.prompt for event in events if isinstance(event, TurnAsked)]
    assert prompts
    assert [prompt for prompt in prompts if str(shop.wd) in prompt] == []
    assert any(str(copy.wd) in prompt for prompt in prompts)
    assert files(shop.wd) == before
    old = {event.terminal for event in copy.all_events()[:known] if isinstance(event, TerminalOpened)}
    assert not old & {event.terminal for event in events if isinstance(event, TerminalOpened)}
    return copy


def files(wd: Path) -> object:
    ours = {str(path): path.stat().st_mtime_ns for path in (wd / ".telos").rglob("*.md")}
    return persons_things(wd), ours, sorted(map(str, (wd / ".git/worktrees").rglob("*")))


@pytest.fixture
def edits() -> dict[str, list[object]]:
    return {"programmer": [{"edit": {"greet.py": "print(1)\n"}, "say": "done"}]}


def test_a_copied_run_is_resumed_in_the_copy(tmp_path: Path, edits: dict[str, list[object]]):
    shop = interrupted(tmp_path, "run", agents={"programmer": [HANGS]}, during="programmer")
    try:
        copy = resumed_in_a_copy(shop, "run", agents=edits)
        assert (copy.wd / "greet.py").exists()
        # A third driver in the copy is at home there.
        assert "its work dir was" not in copy("log").err
    finally:
        shop("reset")


def test_a_copied_build_is_resumed_in_the_copy(tmp_path: Path):
    shop = interrupted(tmp_path, "build", "sell", "--levels", "5-1", agents={"L2": [HANGS]}, during="L2")
    try:
        copy = resumed_in_a_copy(shop, "build", "--resume", agents={})
        assert copy.refs("refs/heads/logos") == [f"refs/heads/{copy.result}"]
    finally:
        shop("reset")
