"""Cycles for live tests: what the agents answer, on a real server with scripted agents and with real agent CLIs."""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from logos.domain.events import TurnAnswered
from logos.testing import APPROVED, FAIL, GOOD_ANALYSIS, GOOD_PROGRAM, PASS
from tests.live.cao import CaoServer
from tests.live.clis import BIN, Home, all_gone
from tests.live.conversation import TURN
from tests.live.driven import NO_REMINDER, ROOT, DrivenSandbox
from tests.live.model import FakeModel
from tests.support.isolation import bare_env
from tests.support.sandbox import PROMPT

ROLES = ("analyst", "peer_analyst", "programmer", "peer_programmer", "tester")
# Two rounds: the first one fails.
ANSWERS = {
    "analyst": [GOOD_ANALYSIS],
    "peer_analyst": [APPROVED],
    "programmer": [GOOD_PROGRAM],
    "peer_programmer": [APPROVED],
    "tester": [FAIL, PASS],
}
# What each conversation holds whenever its agent is asked, in the order of asking.
CONVERSATIONS = [[f"r1.{role}.c1"] for role in ROLES] + [[f"r1.{role}.c1", f"r2.{role}.c1"] for role in ROLES[2:]]
TURNS = [turns[-1] for turns in CONVERSATIONS]

ActionKind = dict[str, Any]


def cao_sandbox(cao: CaoServer, wd: Path, **environment: str) -> DrivenSandbox:
    """Runs in this folder have their agents on the server."""
    wd.mkdir(exist_ok=True)
    env = {
        "API": cao.url,
        "PROVIDER": "mock_cli",
        "WD": str(wd),
        "PROMPT": PROMPT,
        "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1",
        **NO_REMINDER,
    }
    return DrivenSandbox(wd, bare_env(**{**env, **environment}))


def everybody_does_well(cao: CaoServer, **steps: list[ActionKind]) -> None:
    good = {role: [{"say": answers[-1]}] for role, answers in ANSWERS.items()}
    cao.script(**{**good, **steps})


@dataclass
class LocalSandbox(DrivenSandbox):
    """Logos runs a real agent CLI here itself, which knows nothing but a fake model."""

    home: Home = field(kw_only=True)


def local_sandbox(home: Home, wd: Path) -> LocalSandbox:
    wd.mkdir()
    provider = home.client.provider
    env = {
        **home.env,
        "PYTHONPATH": str(ROOT),
        "WD": str(wd),
        "PROMPT": PROMPT,
        "LOGOS_HOST": "local",
        "PROVIDER": provider,
        "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1",
        **NO_REMINDER,
    }
    if provider == "codex" and not sandbox_works():
        # Without user namespaces codex cannot keep its agents inside; then they must be let out.
        env["AUTO_ACCEPT_PERMISSIONS"] = "1"
    return LocalSandbox(wd, env, home=home)


@cache
def sandbox_works() -> bool:
    done = subprocess.run([BIN / "codex", "sandbox", "--", "true"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "bwrap: " in done.stderr, f"codex sandbox: exit {done.returncode}\n{done.stderr}"
    return done.returncode == 0


def prompts_seen(model: FakeModel) -> Counter[str]:
    """How often each turn's prompt came to the model as the newest one, before a tool had run for it."""
    newest = (request.prompts[-1].text for request in model.work if not request.tool_answered)
    return Counter(found[1] for text in newest if (found := TURN.search(text)))


def check_a_whole_cycle(local: LocalSandbox, model: FakeModel) -> None:
    """Two rounds, in conversations that go on, with every token counted."""
    assert local.drive() == 0
    assert local.turns_answered() == TURNS
    assert prompts_seen(model) == Counter(TURNS)
    second = next(request for request in model.work if "Turn: r2.programmer.c1" in request.prompts[-1].text)
    assert "r1.programmer.c1" in second.earlier
    # The profile comes once, before the first prompt of a conversation.
    assert second.prompts[0].text != second.prompts[-1].text
    used = [event.usage for event in local.events(TurnAnswered)]
    if local.home.client.counts_tokens:
        assert all(usage is not None for usage in used)
        assert sum(usage.input or 0 for usage in used if usage) == sum(bill.input for bill in model.billed)
        assert sum(usage.output or 0 for usage in used if usage) == sum(bill.output for bill in model.billed)
    assert all_gone(local.home)
    assert model.dependencies == []
