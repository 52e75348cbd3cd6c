"""A limit that would count nothing is refused before anything is paid; prices turn tokens into an estimated cost."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from logos.testing import script
from logos.testing.cao_server import FakeCao
from tests.fake_cli import calls, install_fake_cli
from tests.support.sandbox import PROMPT, Sandbox

CODEX = {"codex": {"input": 1.25, "cached_input": 0.125, "output": 10.0}}
PRICES = ("--set", "prices.codex.input=100000", "--set", "prices.codex.output=100000")


@pytest.fixture
def person(repository: Sandbox) -> Sandbox:
    repository.set(PROMPT=PROMPT, MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1", LOGOS_HOST="local")
    return repository


@pytest.fixture
def server(sandbox: Sandbox) -> Iterator[FakeCao]:
    with FakeCao(sandbox.wd / ".tmp" / "agent-responses", script(), turn_seconds=0.05) as server:
        sandbox.set(API=server.url, PROMPT=PROMPT, POLL_SECONDS="0.05", MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1")
        yield server


def use(person: Sandbox, name: str) -> list[object]:
    """Make a client that answers at once the only one; returns how it was called so far."""
    folder = person.wd.parent / "bin"
    notes = install_fake_cli(folder, name, "0.1")
    person.set(PATH=f"{folder}:/usr/bin:/bin")
    return [*calls(notes)]


@pytest.mark.parametrize(
    ("client", "limit", "why"),
    [
        ("codex", "max_cost_usd=5", "codex reports tokens but no cost; set prices.codex.input, .cached_input and .output"),
        ("gemini", "max_cost_usd=5", "gemini reports tokens but no cost"),
        ("kimi", "max_cost_usd=5", "kimi_cli reports no tokens; use limits.max_minutes"),
        ("copilot", "max_tokens=500", "copilot_cli reports no tokens; use limits.max_minutes"),
    ],
)  # fmt: skip
def test_a_limit_that_would_count_nothing_is_refused_at_the_start(
    person: Sandbox, client: str, limit: str, why: str
) -> None:
    use(person, client)
    done = person("run", "--set", f"limits.{limit}")
    assert done.code == 1
    assert f"limits.{limit.replace('=', ' = ')} cannot be kept: {why}" in done.err
    assert f"`--set limits.{limit.partition('=')[0]}=` removes the limit" in done.err
    assert "no run was started" in person("status").out
    assert use(person, client) == []


def test_a_fallback_that_reports_no_cost_counts_too(person: Sandbox) -> None:
    use(person, "codex")
    use(person, "claude")
    agents = {"tester": {"provider": "claude", "providers": ["codex"]}}
    (person.wd / "logos.json").write_text(json.dumps({"provider": "claude", "agents": agents}))
    done = person("run", "--set", "limits.max_cost_usd=5", "--set", "handoff.on_limit=fallback")
    assert "codex reports tokens but no cost" in done.err
    assert person("run", "--set", "limits.max_cost_usd=5").code == 0


def test_with_prices_the_cost_is_estimated_and_stops_the_run(person: Sandbox) -> None:
    use(person, "codex")
    done = person("run", "--set", "limits.max_cost_usd=0.5", *PRICES)
    # Each conversation reports 5 tokens read and 1 written per turn, at $0.1 each.
    assert done.code == 4, done.err
    assert "limits.max_cost_usd reached: ~$0.60 of $0.50" in done.err
    cost = person("cost")
    assert "~$0.6000" in cost.out
    assert "~ estimated from tokens, with the setting `prices`" in cost.out
    usage = person("status", "--json").json["usage"]
    assert (usage["cost_usd"], usage["estimated"]) == (0.6, True)
    # The prices of an earlier command hold for a resume; so does the check.
    assert person("resume", "--set", "limits.max_cost_usd=100").code == 0
    assert person("cost", "--json").json["usage"]["cost_usd"] == pytest.approx(3.0)


def test_a_budget_that_a_resume_brings_is_checked(person: Sandbox) -> None:
    use(person, "codex")
    assert person("run", "--set", "limits.max_tokens=1").code == 4
    done = person("resume", "--set", "limits.max_tokens=", "--set", "limits.max_cost_usd=1")
    assert (done.code, "codex reports tokens but no cost" in done.err) == (1, True)
    assert person("resume", "--set", "limits.max_tokens=").code == 0


def test_prices_stand_in_the_file_under_a_programs_name(sandbox: Sandbox) -> None:
    config = {"prompt": PROMPT, "provider": "claude_code", "prices": {"claude": CODEX["codex"]}}
    config["limits"] = {"min_review_cycles_before_approval": 1}
    (sandbox.wd / "logos.json").write_text(json.dumps(config))
    step = {"usage": {"input": 1_000_000, "cached": 400_000, "output": 100_000}}
    path = sandbox.script({"analyst": [step], "programmer": [{"usage": {**step["usage"], "cost_usd": 3.0}}]})
    assert sandbox("run", "--simulate", str(path)).code == 0
    roles = sandbox("cost", "--json").json["usage_by"]["roles"]
    # 600,000 at 1.25, 400,000 at 0.125 and 100,000 at 10 dollars per million.
    assert (roles["analyst"]["cost_usd"], roles["analyst"]["estimated"]) == (1.8, True)
    assert (roles["programmer"]["cost_usd"], roles["programmer"]["estimated"]) == (3.0, False)
    assert (roles["tester"]["cost_usd"], roles["tester"]["estimated"]) == (None, False)
    # What is recorded is what was reported.
    assert sandbox("record").out.count("cost_usd") == 1


@pytest.mark.parametrize(
    ("prices", "says"),
    [
        ({"codx": {"input": 1, "output": 1}}, "prices.codx: unknown provider; known here: codex, claude_code"),
        ({"codex": {"input": 1}}, "prices.codex.output: is missing"),
        ({"codex": {"input": "1", "output": 1}}, 'prices.codex.input = "1": must be a number'),
        ({"codex": {"input": -1, "output": 1}}, "prices.codex.input = -1"),
        (
            {"codex": {"input": 1, "output": 1, "inputs": 1}},
            "prices.codex.inputs: unknown key; known here: input, output, cached_input",
        ),
    ],
)
def test_wrong_prices_are_one_line(sandbox: Sandbox, prices: object, says: str) -> None:
    (sandbox.wd / "logos.json").write_text(json.dumps({"prices": prices}))
    done = sandbox("run", "words", "--test", "true")
    assert (done.code, says in done.err) == (1, True), done.err


@pytest.mark.long
@pytest.mark.parametrize("limit", ["max_tokens", "max_cost_usd"])
def test_on_a_server_nothing_is_known_so_nothing_can_be_limited(sandbox: Sandbox, server: FakeCao, limit: str) -> None:
    done = sandbox("run", "--set", f"limits.{limit}=5")
    assert done.code == 1
    assert f"limits.{limit} = 5 cannot be kept: a CAO server reports neither tokens nor costs" in done.err
    assert [path for method, path, _ in server.requests if method == "POST"] == []
    assert sandbox("run", "--set", f"limits.{limit}=", "--set", "limits.max_minutes=60").code == 0


def test_turns_that_a_budget_does_not_count_are_told_once(sandbox: Sandbox) -> None:
    sandbox.set(PROMPT=PROMPT, MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1")
    limits = ("--set", "limits.max_tokens=10", "--set", "limits.max_cost_usd=1")
    assert sandbox("run", "--simulate", str(sandbox.script({})), *limits).code == 0
    text = "limits.max_tokens does not count the tokens and limits.max_cost_usd does not count the cost of turns"
    assert sandbox("log").out.count(text) == 1
