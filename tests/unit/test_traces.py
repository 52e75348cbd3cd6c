"""A run as spans: a tree with ids that follow from the log, without content unless it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.adapters.reports import read_report
from logos.domain.events import (
    CheckRan,
    Event,
    GateDecided,
    GateOpened,
    Noted,
    Recorded,
    RunAbandoned,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
    TerminalOpened,
    Topic,
    TurnAnswered,
    TurnAsked,
    TurnFailed,
    TurnSent,
)
from logos.domain.gates import GateKind
from logos.domain.proof import ProofRules, ProofStep
from logos.domain.turns import AgentName, FailureKind, Outcome, Prove, RunId, TerminalId, TurnId
from logos.domain.usage import Usage
from logos.views.run import RunView, view_run
from logos.views.traces import Span, SpanStatus, TraceFold, span_id, spans_of, trace_id
from tests.builders import AGENTS, a_plan, examples, proves

RUN = RunId("k3ab")
PLAN = a_plan(agents=(replace(AGENTS[0], model="gpt-5"), *AGENTS[1:]))
ANALYST, TESTER = TurnId("r1.analyst.c1"), TurnId("r1.tester.c1")
RESULT = replace(
    proves(Prove(TurnId("r1.result"), ProofStep.RESULT, ProofRules("pytest"), "c0ffee0")), turn=TurnId("r1.result")
)
EVENTS: tuple[Event, ...] = (
    RunStarted(PLAN),
    TerminalOpened(AgentName("analyst"), TerminalId("t1"), "codex", "local"),
    TerminalOpened(AgentName("tester"), TerminalId("t2"), "opencode_cli", "local"),
    TurnAsked(ANALYST, AgentName("analyst"), "a secret prompt"),
    TurnSent(ANALYST),
    TurnFailed(ANALYST, FailureKind.TRANSIENT, "a secret hiccup", Usage(1, 0, 1, 0.5)),
    TurnSent(ANALYST),
    TurnAnswered(ANALYST, "a secret response", usage=Usage(100, 40, 10, 0.25)),
    GateOpened(TurnId("r1.gate.after_plan"), GateKind.AFTER_PLAN, "a secret question"),
    GateDecided(TurnId("r1.gate.after_plan"), approved=True, words="secret words"),
    TurnAsked(TESTER, AgentName("tester"), "a secret prompt"),
    TurnSent(TESTER),
    TurnAnswered(TESTER, "RESULT: PASS\na secret response"),
    CheckRan(TurnId("r1.check"), "make secret", 1, "a secret output"),
    replace(RESULT, command="make secret", output="a secret output"),
    Noted(Topic.INTERRUPTED, "a secret reason"),
    RunEnded(Outcome.PASSED, verified=True),
)


def recorded(*events: Event, run: RunId = RUN) -> list[Recorded]:
    return [Recorded(run, seq, 100.0 + seq, event) for seq, event in enumerate(events, 1)]


def view_of(*events: Event) -> RunView:
    return view_run(RUN, recorded(*events), read_report)


def traced(*events: Event, content: bool = False) -> dict[str, Span]:
    """The spans that end in a run with these events, by turn or name."""
    fold = TraceFold(RUN, read_report, content=content)
    return named(span for record in recorded(*events) for span in fold.add(record))


def named(spans: Iterable[Span]) -> dict[str, Span]:
    return {str(span.attributes.get("logos.turn.id", span.name)): span for span in spans}


ROOT = "invoke_workflow cycle"


def test_a_run_is_a_tree_of_turns_and_of_the_steps_that_follow_them() -> None:
    spans = traced(*EVENTS)
    root, check, proof = spans[ROOT], spans["r1.check"], spans["r1.result"]
    assert (root.parent, root.start, root.end, root.status) == ("", 101.0, 117.0, SpanStatus.OK)
    assert spans[ANALYST].parent == spans[TESTER].parent == spans["r1.gate.after_plan"].parent == root.id
    assert check.parent == proof.parent == spans[TESTER].id
    assert (spans[ANALYST].start, spans[ANALYST].end) == (104.0, 108.0)
    assert (check.start, check.end, check.status) == (113.0, 114.0, SpanStatus.ERROR)
    assert {span.trace for span in spans.values()} == {trace_id(RUN)}
    assert len({span.id for span in spans.values()}) == len(spans) == 6


def test_a_turn_has_the_attributes_of_the_conventions() -> None:
    turn = traced(*EVENTS)[ANALYST]
    assert turn.name == "invoke_agent analyst"
    assert turn.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "analyst",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.conversation.id": "t1",
        "gen_ai.usage.input_tokens": 101,
        "gen_ai.usage.cache_read.input_tokens": 40,
        "gen_ai.usage.output_tokens": 11,
        "logos.cost_usd": 0.75,
        "logos.provider": "codex",
        "logos.turn.id": ANALYST,
        "logos.attempts": 2,
    }
    (failed,) = turn.events
    assert (failed.name, failed.attributes) == ("attempt failed", {"error.type": "transient"})


def test_what_is_not_known_is_left_out() -> None:
    tester = traced(*EVENTS)[TESTER]
    assert not any("usage" in name or "cost" in name for name in tester.attributes)
    assert tester.attributes["gen_ai.provider.name"] == "opencode_cli"
    assert tester.attributes["logos.verdict"] == "PASS"


def test_the_run_has_the_sum_of_its_turns() -> None:
    attributes = traced(*EVENTS)[ROOT].attributes
    assert attributes["logos.usage.input_tokens"] == 101
    assert attributes["logos.cost_usd"] == 0.75
    assert (attributes["logos.turns"], attributes["logos.outcome"], attributes["logos.verified"]) == (2, "PASSED", True)


def test_content_is_in_the_spans_only_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "secret" not in repr(traced(*EVENTS))
    told = repr(traced(*EVENTS, content=True))
    for text in ("prompt", "hiccup", "response", "words", "output", "reason"):
        assert f"secret {text}" in told
    assert "make secret" in told
    assert "greet by name" in told
    monkeypatch.setenv("SHOP_TOKEN", "a secret prompt")
    assert "a secret prompt" not in repr(traced(*EVENTS, content=True))


def test_messages_are_structured_as_the_conventions_have_them() -> None:
    attributes = traced(*EVENTS, content=True)[ANALYST].attributes
    assert (
        attributes["gen_ai.input.messages"]
        == '[{"role": "user", "parts": [{"type": "text", "content": "a secret prompt"}]}]'
    )
    assert attributes["gen_ai.output.messages"] == (
        '[{"role": "assistant", "parts": [{"type": "text", "content": "a secret response"}]}]'
    )


def test_ids_follow_from_the_run_and_the_event() -> None:
    spans = traced(*EVENTS)
    assert (spans[ROOT].id, spans[ANALYST].id, spans["r1.check"].id) == (
        span_id(RUN, 1),
        span_id(RUN, 4),
        span_id(RUN, 14),
    )
    assert span_id(RUN, 4) != span_id(RunId("k3ac"), 4)
    assert (len(trace_id(RUN)), len(span_id(RUN, 1))) == (32, 16)


def test_an_unfinished_run_is_there_as_far_as_it_has_come() -> None:
    spans = named(spans_of(view_of(*EVENTS[:6]), read_report))
    assert (spans[ROOT].end, spans[ROOT].attributes["logos.outcome"]) == (106.0, "unfinished")
    assert (spans[ANALYST].status, spans[ANALYST].attributes["logos.unfinished"]) == (SpanStatus.ERROR, True)


def test_a_fork_has_a_trace_of_its_own_that_is_linked_with_the_other() -> None:
    parent = RunId("0ld")
    spans = spans_of(view_of(*EVENTS[:8], RunForked(parent, 8, PLAN), *EVENTS[10:]), read_report)
    assert {span.attributes.get("logos.turn.id") for span in spans} == {TESTER, "r1.check", "r1.result", None}
    (root,) = [span for span in spans if not span.parent]
    assert root.linked == (trace_id(parent), span_id(parent, 1))
    assert (root.start, root.attributes["logos.turns"]) == (109.0, 1)


def test_a_clock_that_was_set_back_makes_no_negative_span() -> None:
    records = [replace(record, at=200.0 - record.seq) for record in recorded(*EVENTS)]
    assert all(span.end >= span.start for span in spans_of(view_run(RUN, records, read_report), read_report))


@examples()
@given(st.lists(st.sampled_from([*EVENTS[1:], RunResumed(PLAN), RunAbandoned("no more")]), max_size=25))
def test_whatever_happens_the_spans_are_a_tree_and_always_the_same(events: list[Any]) -> None:
    records = recorded(EVENTS[0], *events)
    fold = TraceFold(RUN, read_report)
    live = [span for record in records for span in fold.add(record)]
    ids = {span.id for span in live} | {span_id(RUN, 1)}
    assert {span.parent for span in live} <= ids | {""}
    assert all(not span.parent for span in live if span.id == span_id(RUN, 1))
    again = TraceFold(RUN, read_report)
    assert [span for record in records for span in again.add(record)] == live
