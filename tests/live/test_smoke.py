"""The live part of the quick suite: one cycle on a real server, and one with a real agent CLI."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

from logos.adapters.hosts.cao import ApiClient
from tests.live.cao import CaoServer
from tests.live.clients import CODEX
from tests.live.clis import make_home, sweep
from tests.live.cycles import (
    ANSWERS,
    ROLES,
    cao_sandbox,
    check_a_whole_cycle,
    everybody_does_well,
    local_sandbox,
)
from tests.live.model import FakeModel, Script
from tests.support.waiting import wait_for


def test_a_run_passes_at_once_and_cleans_up_after_itself(cao: CaoServer, tmp_path: Path):
    everybody_does_well(cao)
    shop = cao_sandbox(cao, tmp_path / "work")
    try:
        assert shop.drive(CLEANUP_ON_EXIT="1") == 0
    finally:
        shop.close()
    assert shop.state["final_status"] == "PASS"
    assert shop.turns_answered() == [f"r1.{role}.c1" for role in ROLES]
    assert cao.turns_asked() == Counter(shop.turns_answered())
    wait_for(lambda: cao.windows(shop.state["session_name"]) == 0, "the end of every window")
    with closing(ApiClient(cao.url, str(tmp_path))) as client:
        assert "Follow your script." in client.profile_text("tester", "codex")
        assert client.profile_text("nobody", "codex") == ""


def test_a_whole_cycle_is_run_by_a_real_agent_cli(tmp_path: Path):
    with FakeModel(Script(ANSWERS)) as model:
        home = make_home(CODEX, tmp_path / "home", model)
        local = local_sandbox(home, tmp_path / "work")
        try:
            check_a_whole_cycle(local, model)
        finally:
            local.close()
            sweep(home)
