"""Traces reach a real collector: after a run, while it goes on, of old runs, and never at a run's cost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from logos.domain.events import TurnAnswered
from logos.domain.turns import Outcome
from logos.errors import RunPaused
from logos.views.traces import SCHEMA
from tests import old_runs
from tests.support.receivers import Receiver, receiving
from tests.support.sandbox import Sandbox


@pytest.fixture
def collector() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def by_id(spans: list[Any]) -> dict[bytes, Any]:
    return {span.span_id: span for span in spans}


def attributes_of(span: Any) -> dict[str, Any]:
    return {it.key: getattr(it.value, it.value.WhichOneof("value")) for it in span.attributes}


def test_a_run_arrives_as_a_tree(sandbox: Sandbox, collector: Receiver) -> None:
    run = sandbox.run(PROJECT_TEST_CMD="true", VERIFY_PASS="1").run
    done = sandbox("export", "--otlp", f"http://{collector.address}", "--json")
    assert done.code == 0, done.err
    assert done.json == {
        "run": run,
        "trace": collector.spans[0].trace_id.hex(),
        "address": f"http://{collector.address}/v1/traces",
        "spans": len(collector.spans),
        "finished": True,
    }
    spans = by_id(collector.spans)
    (root,) = [span for span in spans.values() if not span.parent_span_id]
    assert attributes_of(root)["logos.run.id"] == run
    turns = [span for span in spans.values() if span.name.startswith("invoke_agent ")]
    assert len(turns) == len(sandbox.events(TurnAnswered))
    assert {span.parent_span_id for span in turns} == {root.span_id}
    steps = {span.name: spans[span.parent_span_id].name for span in spans.values() if span.name.startswith("proof ")}
    assert steps.pop("proof baseline") == root.name
    assert set(steps.values()) == {"invoke_agent tester"}
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in spans.values())


def test_the_resource_and_the_version_of_the_conventions_are_named(sandbox: Sandbox, collector: Receiver) -> None:
    sandbox.run()
    sandbox("export", "--otlp", f"http://{collector.address}")
    sent = ExportTraceServiceRequest.FromString(collector.requests[0].body)
    (part,) = sent.resource_spans
    assert {it.key: it.value.string_value for it in part.resource.attributes}["service.name"] == "logos"
    assert {scope.schema_url for scope in part.scope_spans} == {SCHEMA}
    assert collector.requests[0].path == "/v1/traces"


def test_exporting_twice_sends_the_same_spans(sandbox: Sandbox, collector: Receiver) -> None:
    sandbox.run()
    for _ in range(2):
        assert sandbox("export", "--otlp", f"http://{collector.address}").code == 0
    first, second = collector.requests
    assert first.body == second.body


def test_content_stays_here_unless_it_is_asked_for(sandbox: Sandbox, collector: Receiver) -> None:
    sandbox.run(prompt="*** ORIGINAL EXPLORE SUMMARY ***\nwombats\n*** SCENARIO TEST ***\nwombats\n")
    sandbox("export", "--otlp", f"http://{collector.address}")
    assert b"wombats" not in collector.requests[0].body
    assert b"every criterion observed" not in collector.requests[0].body
    sandbox("export", "--otlp", f"http://{collector.address}", "--content")
    assert b"wombats" in collector.requests[1].body
    assert b"every criterion observed" in collector.requests[1].body


def test_a_run_that_is_traced_while_it_goes_on_has_the_same_spans(sandbox: Sandbox, collector: Receiver) -> None:
    sandbox.run(TRACES_OTLP=f"http://{collector.address}")
    live = by_id(collector.spans)
    collector.requests.clear()
    sandbox("export", "--otlp", f"http://{collector.address}")
    assert live == by_id(collector.spans)


def test_a_resumed_run_continues_its_trace(sandbox: Sandbox, collector: Receiver) -> None:
    with pytest.raises(RunPaused):
        sandbox.run(TRACES_OTLP=f"http://{collector.address}", MAX_MINUTES="0.0000001")
    first = [span.span_id for span in collector.spans]
    assert sandbox.run(MAX_MINUTES="100", RESUME="1").outcome is Outcome.PASSED
    sent = [span.span_id for span in collector.spans]
    assert sent[: len(first)] == first
    assert len(sent) == len(set(sent))
    collector.requests.clear()
    sandbox("export", "--otlp", f"http://{collector.address}")
    assert {span.span_id for span in collector.spans} == set(sent)


def test_without_a_collector_a_run_passes_and_says_so_once(sandbox: Sandbox) -> None:
    with receiving(status=400) as collector:
        done = sandbox.run(TRACES_OTLP=f"http://{collector.address}")
    assert done.outcome is Outcome.PASSED
    (warning,) = [text for text in sandbox.told if "spans were not sent" in text]
    assert f"to http://{collector.address}/v1/traces" in warning
    assert "`logos export --otlp` sends all" in warning


def test_an_export_that_fails_says_where_and_why(sandbox: Sandbox) -> None:
    sandbox.run()
    with receiving(status=400) as collector:
        done = sandbox("export", "--otlp", f"http://{collector.address}/own/path")
    assert done.code == 1
    assert f"was not sent to http://{collector.address}/own/path: " in done.err
    assert "400" in done.err
    assert "Traceback" not in done.err


def test_the_address_is_the_settings_or_that_of_opentelemetry(
    sandbox: Sandbox, collector: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.run()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{collector.address}/otel")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=letmein")
    assert sandbox("export", "--otlp").code == 0
    sandbox.set(TRACES_OTLP=f"http://{collector.address}/set")
    assert sandbox("export", "--otlp").code == 0
    assert [request.path for request in collector.requests] == ["/otel/v1/traces", "/set"]
    assert {name.lower(): value for name, value in collector.requests[0].headers.items()}["x-key"] == "letmein"


@pytest.mark.parametrize("words", [("--otlp", "ftp://x"), ("--otlp", "http://"), (), ("a", "b", "--otlp")])
def test_what_cannot_be_meant_is_a_usage_error(sandbox: Sandbox, words: tuple[str, ...]) -> None:
    sandbox.run()
    done = sandbox("export", *words)
    assert done.code == 2
    assert len(done.err.strip().splitlines()) == 1


@pytest.mark.parametrize("name", sorted(path.stem for path in (old_runs.FIXTURES / "4d178cb").glob("*.json")))
def test_old_runs_have_a_trace_too(tmp_path: Path, collector: Receiver, name: str) -> None:
    sandbox = Sandbox(old_runs.restore("4d178cb", name, tmp_path / "repo"))
    done = sandbox("export", "--otlp", f"http://{collector.address}", "--json")
    assert done.code == 0, done.err
    spans = by_id(collector.spans)
    assert len(spans) == done.json["spans"] > 1
    assert {span.parent_span_id for span in spans.values()} - {b""} <= set(spans)


def test_without_the_extra_one_line_says_how_to_get_it(sandbox: Sandbox) -> None:
    sandbox.run()
    code = "import sys; sys.modules['opentelemetry'] = None; from logos.cli import main; main(sys.argv[1:])"
    commands = (["export", "--otlp"], ["run", "x", "--simulate", str(sandbox.script()), "--fresh", "--test", "true"])
    for words in (commands[0], [*commands[1], "--set", "traces.otlp=http://localhost"]):
        ran = subprocess.run(
            [sys.executable, "-c", f"{code}", *words], cwd=sandbox.wd, capture_output=True, text=True, check=False
        )
        assert "pipx inject logos-agents 'logos-agents[otel]'" in ran.stderr
        assert "Traceback" not in ran.stderr
    assert len(sandbox.logs()) == 1
