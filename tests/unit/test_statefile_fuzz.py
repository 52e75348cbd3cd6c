"""State files: what was written comes back, and whatever else is there is read as far as it goes or named."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logos.adapters.state_files import read_cycle_state as read
from logos.adapters.state_files import write_cycle_state as write
from logos.adapters.store.codec import decode, encode
from logos.domain.events import RunStarted, TerminalOpened
from logos.domain.ledger import Ledger
from logos.domain.plans import CycleSeed
from logos.domain.roles import ANSWERS, Phase, Role
from logos.domain.turns import AgentName, Outcome, RunId, Terminal, TerminalId
from logos.errors import StateError
from logos.flows.cycle.flow import Cycle, CycleState
from logos.views.cycle_state import FINAL, RUNNING, Saved, StateDamaged, parse, project
from tests.builders import a_plan, examples

texts = st.text(max_size=30)
names = st.text(min_size=1, max_size=12)
states = st.builds(
    CycleState,
    st.builds(lambda prompt: a_plan(prompt=prompt), texts),
    round=st.integers(1, 10**6),
    phase=st.sampled_from(Phase),
    role=st.sampled_from(Role),
    cycle=st.integers(1, 9),
    outputs=st.fixed_dictionaries(dict.fromkeys(ANSWERS, texts)).map(MappingProxyType),
    feedback=texts,
    analyst_feedback=texts,
    programmer_feedback=texts,
    retry_context=texts,
    outcome=st.none() | st.sampled_from(Outcome),
)
ledgers = st.builds(
    Ledger,
    session=texts,
    terminals=st.dictionaries(
        st.sampled_from([AgentName(role) for role in Role]), st.builds(Terminal, names.map(TerminalId), names)
    ).map(MappingProxyType),
)


@contextmanager
def a_place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / ".tmp" / "state.json"


def seed_of(state: CycleState) -> CycleSeed:
    return CycleSeed(
        state.round,
        state.phase,
        state.feedback,
        state.analyst_feedback,
        state.programmer_feedback,
        state.retry_context,
        tuple((answer, state.outputs[answer]) for answer in ANSWERS),
    )


# --- round trips


@pytest.mark.scenario("CYC-14")
@pytest.mark.scenario("PRD-27")
@examples(30)
@given(states, ledgers, names, st.integers(1, 10**9))
def test_a_state_comes_back_from_its_file_as_it_was(state: CycleState, ledger: Ledger, run: str, seq: int) -> None:
    projection = project(state, ledger, RunId(run), seq, "http://localhost:9889", "codex")
    with a_place() as path:
        write(path, projection, 0.0)
        for saved in (parse(projection, "kiro_cli"), read(path, "kiro_cli")):
            assert saved is not None
            assert saved.seed == seed_of(state)
            assert saved.prompt == state.plan.prompt
            assert saved.final_status == FINAL[state.outcome]
            assert saved.session == ledger.session
            assert dict(saved.terminals) == dict(ledger.terminals)
            assert (saved.run, saved.seq) == (run, seq)
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_has_the_fields_the_spec_names() -> None:
    state, ledger = Cycle(a_plan()).start(), Ledger()
    with a_place() as path:
        write(path, project(state, ledger, RunId("r"), 1, "http://x", "codex"), 0.0)
        data = json.loads(path.read_text())
    assert data["version"] == 1
    assert data["updated_at"] == "1970-01-01T00:00:00Z"
    assert data["final_status"] == RUNNING
    assert set(data) >= {
        *("version", "updated_at", "api", "provider", "wd", "prompt", "current_round", "current_phase", "final_status"),
        *("session_name", "terminals", "feedback", "analyst_feedback", "programmer_feedback", "outputs"),
        "programmer_context_for_retry",
    }
    assert set(data["terminals"]) == {role.value for role in Role}
    assert set(data["outputs"]) == set(ANSWERS)


@pytest.mark.scenario("RTY-04")
def test_the_retry_context_comes_back() -> None:
    context = "- Files changed: foo.py\n- Behavior implemented: bar"
    state = CycleState(a_plan(), retry_context=context)
    with a_place() as path:
        write(path, project(state, Ledger(), RunId("r"), 1, "", ""), 0.0)
        saved = read(path, "codex")
    assert saved is not None
    assert saved.seed.retry_context == context


def test_a_lone_surrogate_in_an_agents_text_does_not_lose_the_state() -> None:
    state = CycleState(a_plan(), feedback="before \ud800 after")
    with a_place() as path:
        write(path, project(state, Ledger(), RunId("r"), 1, "", ""), 0.0)
        saved = read(path, "codex")
    assert saved is not None
    assert saved.seed.feedback.startswith("before ")
    assert saved.seed.feedback.endswith(" after")


# --- files of others, and edited by hand


@pytest.mark.scenario("RTY-05")
def test_an_older_file_without_retry_context_has_an_empty_one() -> None:
    assert parse({"version": 1, "current_round": 2}, "codex").seed.retry_context == ""


@pytest.mark.scenario("CYC-15")
@pytest.mark.scenario("PRD-29")
@pytest.mark.parametrize("value", [None, "", "two", "1.5", 1.5, 0, -3, True, [], {}, "0", "-1", "²", "1" * 40])
def test_a_round_that_is_no_number_is_round_one(value: object) -> None:
    assert parse({"current_round": value}, "codex").seed.round == 1


@pytest.mark.parametrize(("value", "expected"), [(1, 1), (7, 7), ("7", 7), (" 7 ", 7), ("٣", 3)])
def test_a_round_may_be_written_as_text(value: object, expected: int) -> None:
    assert parse({"current_round": value}, "codex").seed.round == expected


@pytest.mark.scenario("CYC-16")
@pytest.mark.scenario("PRD-30")
@pytest.mark.parametrize("value", [None, "", "Analyst", "peer_analyst", "testing", 1, [], {}, True, ["tester"]])
def test_a_phase_that_is_none_is_the_analysts(value: object) -> None:
    assert parse({"current_phase": value}, "codex").seed.phase is Phase.ANALYST


@pytest.mark.parametrize("phase", list(Phase))
def test_a_phase_is_read_as_it_is_written(phase: Phase) -> None:
    assert parse({"current_phase": phase.value}, "codex").seed.phase is phase


@pytest.mark.scenario("PRD-28")
def test_a_terminal_written_as_plain_text_has_the_files_provider() -> None:
    terminals = {"analyst": "da33cf00", "tester": {"id": "fae0481d", "provider": "claude_code"}}
    saved = parse({"provider": "kimi_cli", "terminals": terminals}, "codex")
    assert saved.terminals[AgentName("analyst")] == Terminal(TerminalId("da33cf00"), "kimi_cli")
    assert saved.terminals[AgentName("tester")] == Terminal(TerminalId("fae0481d"), "claude_code")
    assert parse({"terminals": terminals}, "codex").terminals[AgentName("analyst")].provider == "codex"


@pytest.mark.parametrize("entry", [None, "", 5, [], {}, {"id": ""}, {"id": 5}, {"provider": "codex"}])
def test_a_terminal_without_an_id_is_none(entry: object) -> None:
    assert dict(parse({"terminals": {"analyst": entry}}, "codex").terminals) == {}


def test_no_file_is_no_state() -> None:
    with a_place() as path:
        assert read(path, "codex") is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"version": 1, "cur',
        b"[]",
        b"null",
        b'"text"',
        b"5",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"1" * 5000,
    ],
    ids=[
        "empty",
        "brace",
        "torn",
        "list",
        "null",
        "text",
        "number",
        "not UTF-8",
        "deep list",
        "deep object",
        "huge number",
    ],
)
def test_a_file_that_is_no_json_object_is_damaged_and_named(content: bytes) -> None:
    with a_place() as path:
        path.parent.mkdir()
        path.write_bytes(content)
        with pytest.raises(StateDamaged, match=r"state\.json"):
            read(path, "codex")
        assert path.read_bytes() == content


def test_a_folder_in_the_place_of_the_file_is_a_state_error() -> None:
    with a_place() as path:
        path.mkdir(parents=True)
        with pytest.raises(StateError, match=r"state\.json"):
            read(path, "codex")


# --- anything

KEYS = [
    *("version", "updated_at", "api", "provider", "wd", "prompt", "current_round", "current_phase", "final_status"),
    *("session_name", "terminals", "feedback", "analyst_feedback", "programmer_feedback", "outputs", "logos", "seq"),
    *("programmer_context_for_retry", "run", "id", *ANSWERS, *Role),
]
any_text = st.text(max_size=10) | st.text(st.characters(categories=["Cs", "Cc", "L"]), max_size=4)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    any_text,
    st.sampled_from(["RUNNING", "PASS", "tester", "done", "9" * 8, 10**4000]),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | any_text, inner, max_size=5),
)
documents = st.dictionaries(st.sampled_from(KEYS), values, max_size=8)


def goes_on_from(saved: Saved) -> None:
    """Whatever was read can begin a run: it has an errand, and its first event can be written down."""
    flow = Cycle(a_plan(), saved.seed)
    assert len(flow.due(flow.start())) == 1
    opened = tuple(TerminalOpened(name, t.id, t.provider, saved.session) for name, t in saved.terminals.items())
    assert isinstance(decode(encode(RunStarted(a_plan(), saved.seed, opened))), RunStarted)


@examples(40)
@given(documents)
@example({"feedback": "\ud800"})
@example({"current_round": 10**4000, "outputs": {"analyst": "a"}})
def test_any_json_object_is_a_state_a_run_can_go_on_from(document: dict[str, Any]) -> None:
    goes_on_from(parse(document, "codex"))


@examples(40)
@given(st.binary(max_size=60) | values.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_state_or_a_state_error(content: bytes) -> None:
    with a_place() as path:
        path.parent.mkdir()
        path.write_bytes(content)
        try:
            saved = read(path, "codex")
        except StateError:
            return
        assert saved is not None
        goes_on_from(saved)


@examples(30)
@given(states, st.data())
def test_a_truncated_state_is_damaged(state: CycleState, data: st.DataObject) -> None:
    with a_place() as path:
        write(path, project(state, Ledger(), RunId("r"), 1, "", ""), 0.0)
        content = path.read_bytes()
        # The last two bytes are the closing brace and the newline behind it.
        path.write_bytes(content[: data.draw(st.integers(0, len(content) - 2))])
        with pytest.raises(StateDamaged):
            read(path, "codex")
