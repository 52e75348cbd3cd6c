"""What happens around a build: hosts that fail, terminals that are gone, budgets that end, spares that take over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from logos.adapters.hosts.script import read_script
from logos.app.hosts import scripted_host
from logos.app.setting_sources import load_settings
from logos.app.start import build_here
from logos.domain.events import TerminalOpened, TurnFailed
from logos.errors import BudgetReached, HostUnreachable, RunPaused, TerminalNotCreated
from logos.testing import ScriptedAgents
from tests.support.sandbox import Sandbox

PARTS = {"components": [{"name": name, "purpose": name} for name in ("cart", "price", "tax")]}


@pytest.fixture
def works(tmp_path: Path) -> Sandbox:
    """A repository in which builds are driven, with agents that answer at once."""
    works = Sandbox.of_repository(tmp_path / "shop", {"telos.toml": 'purpose = "a shop"\n'}, LEVELS="3,2")
    works.hire(**{"L3.decompose": [PARTS]})
    return works


@dataclass
class Troubled:
    """The agents of a host on which some calls fail."""

    agents: ScriptedAgents
    fails: Callable[[str, tuple[Any, ...], Mapping[str, Any]], Exception | None]

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.agents, name)

        def call(*values: Any, **named: Any) -> Any:
            error = self.fails(name, values, named)
            if error is not None:
                raise error
            return real(*values, **named)

        return call


@pytest.mark.scenario("LOG-13")
def test_an_author_that_cannot_be_started_does_not_stop_those_at_work(works: Sandbox) -> None:
    def fails(name: str, _values: tuple[Any, ...], named: Mapping[str, Any]) -> Exception | None:
        at_price = name == "create_session" and "price" in named["idempotency_key"]
        return TerminalNotCreated("no such program") if at_price else None

    with pytest.raises(RunPaused, match=r"s1\.L2\.price\.author: no such program"):
        works.build_with(host=Troubled(works.agents, fails))
    assert {"s1.L2.cart.author", "s1.L2.tax.author"} <= set(works.asked)

    ended = works.build_with()
    assert ended.outcome == "PASSED"
    assert sorted(works.asked) == sorted(set(works.asked))
    assert len(works.events(TurnFailed)) == 1


def test_a_terminal_that_is_gone_at_a_resume_is_replaced_by_a_fresh_one(works: Sandbox) -> None:
    def fails(name: str, values: tuple[Any, ...], _named: Mapping[str, Any]) -> Exception | None:
        sent = name == "send_input" and "Turn: s1.L3.validate" in values[1]
        return HostUnreachable("the server went away") if sent else None

    with pytest.raises(RunPaused, match="went away"):
        works.build_with(host=Troubled(works.agents, fails))
    opened = works.events(TerminalOpened)
    assert opened[-1].agent == "s1.L3.validate"
    works.agents.exit_terminal(opened[-1].terminal)

    assert works.build_with().outcome == "PASSED"
    again = works.events(TerminalOpened)[len(opened) :]
    assert [event.agent for event in again] == ["s1.L3.validate"]
    assert again[0].terminal != opened[-1].terminal
    assert works.asked.count("s1.L3.decompose") == 1


def test_a_budget_stops_a_build_between_turns_and_it_can_be_resumed(works: Sandbox) -> None:
    with pytest.raises(BudgetReached, match=r"limits\.max_minutes"):
        works.build_with(MAX_MINUTES="0.0000001")
    with pytest.raises(BudgetReached, match=r"--set limits\.max_minutes"):
        works.build_with(MAX_MINUTES="")
    assert works.build_with(MAX_MINUTES="60").outcome == "PASSED"


@pytest.mark.long
def test_a_spare_provider_takes_over_in_the_same_worktree(works: Sandbox) -> None:
    config = works.wd.parent / "logos.json"
    config.write_text('{"level_agents": {"L2": {"provider": "first", "providers": ["second"]}}, "levels": "2"}')
    settings = load_settings(config, {"WD": str(works.wd), "ON_LIMIT": "fallback"})
    script = read_script({"agents": {"L2.author": [{"fault": "usage_limit", "times": 1}]}})

    ended = build_here(settings, "sell things", make_host=scripted_host(script), tell=works.told.append)

    assert ended.outcome == "PASSED"
    assert [event.provider for event in works.events(TerminalOpened)] == ["first", "second"]
    assert works.asked == ["s1.L2.feature.author"] * 2
