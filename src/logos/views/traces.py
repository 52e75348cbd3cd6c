"""The events of a run folded into spans: the run, its turns, and the checks and steps of proofs that follow them.

Names and attributes are those of OpenTelemetry's conventions for generative AI, in the version of SCHEMA; what they
have no word for begins with `logos.`. The ids are made of the run's id and the number of an event, so that the same log
always gives the same spans.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from logos.domain import events
from logos.domain.events import Noted, Recorded, Topic
from logos.domain.plans import Plan
from logos.domain.turns import AgentName, Outcome, RunId, TurnId
from logos.domain.usage import Spent, Usage
from logos.flows.levels.flow import ReadReport
from logos.flows.levels.turn_ids import GATHER
from logos.views.redact import redact
from logos.views.run import RunView
from logos.views.turns import verdict_of

SCHEMA = "https://opentelemetry.io/schemas/1.41.0"
# What the conventions call the makers of models; of other CLIs, who answers is not known.
_MAKERS = {"codex": "openai", "claude_code": "anthropic", "gemini": "gcp.gemini", "gemini_cli": "gcp.gemini"}

_FAILED = "attempt failed"

Value = str | int | float | bool
Attributes = Mapping[str, Value]


class SpanStatus(StrEnum):
    UNSET = "unset"
    OK = "ok"
    ERROR = "error"


_STATUSES: dict[Outcome | None, SpanStatus] = {Outcome.PASSED: SpanStatus.OK, Outcome.FAILED: SpanStatus.ERROR}


@dataclass(frozen=True, slots=True)
class SpanEvent:
    at: float
    name: str
    attributes: Attributes = field(default_factory=dict[str, Value])


@dataclass(frozen=True, slots=True)
class Span:
    """Part of a trace, named by the 32 or 16 hexadecimal digits of its ids. `linked`: trace and span of another run."""

    trace: str
    id: str
    parent: str
    name: str
    start: float
    end: float
    attributes: Attributes
    status: SpanStatus = SpanStatus.UNSET
    events: tuple[SpanEvent, ...] = ()
    linked: tuple[str, str] | None = None


def trace_id(run: RunId) -> str:
    return hashlib.sha256(f"logos run {run}".encode()).hexdigest()[:32]


def span_id(run: RunId, event: int) -> str:
    """Of what begins with an event; the run itself begins with event 1, also where that is another's."""
    return hashlib.sha256(f"logos run {run} event {event}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A turn that has not ended."""

    seq: int
    at: float
    agent: AgentName
    prompt: str
    spent: tuple[Usage | None, ...] = ()
    events: tuple[SpanEvent, ...] = ()


class TraceFold:
    """Gives the spans that end with each event of one run; all its events must be added, in order.

    `content`: with prompts, responses, commands and outputs.
    """

    def __init__(self, run: RunId, read_report: ReadReport, *, content: bool = False) -> None:
        self._run = run
        self._read_report = read_report
        self._content = content
        self._plan: Plan | None = None
        self._began = self._before = 0.0
        self._linked: tuple[str, str] | None = None
        self._events: tuple[SpanEvent, ...] = ()
        self._terminals: dict[AgentName, events.TerminalOpened] = {}
        self._asked: dict[TurnId, _Asked] = {}
        self._gates: dict[TurnId, Recorded] = {}
        # The span of every turn that has ended, and the last of them.
        self._ended: dict[TurnId, str] = {}
        self._last = ""
        self._spent = Spent()

    @property
    def _root(self) -> str:
        return span_id(self._run, 1)

    def add(self, record: Recorded) -> tuple[Span, ...]:
        spans = tuple(self._ends(record))
        self._before = record.at
        return spans

    def _ends(self, record: Recorded) -> Iterator[Span]:
        event, at = record.event, record.at
        match event:
            case events.RunStarted() | events.RunResumed() | events.RunForked():
                self._begins(record, event)
            case events.TerminalOpened():
                self._terminals[event.agent] = event
            case events.TurnAsked(turn, agent, prompt):
                self._asked.setdefault(turn, _Asked(record.seq, at, agent, prompt))
            case events.TurnFailed(turn, trouble, message, usage) if turn in self._asked:
                said = {"error.type": str(trouble), **self._told(exception_message=message)}
                self._noted(turn, SpanEvent(at, _FAILED, said), usage)
            case events.TurnAnswered(turn, text, _, usage):
                verdict = verdict_of(self._plan, turn, text, self._read_report)
                yield from self._answered(turn, at, text, verdict, usage)
            case events.AcceptanceWritten(turn, _, usage):
                yield from self._answered(turn, at, "", "refused" if event.problem else "", usage)
            case events.CheckRan() | events.ProofRan() | events.WorkCompared():
                yield self._step(record, event)
            case events.WorkGathered() | events.WorkMerged():
                yield self._step(record, event)
            case events.GateOpened(gate):
                self._gates[gate] = record
            case events.GateDecided(gate) if gate in self._gates:
                yield self._gate(self._gates.pop(gate), event, at)
            case Noted(topic, text, str(turn)) if turn in self._asked:
                self._noted(turn, SpanEvent(at, topic.value, self._told(logos_text=text)))
            case events.RunEnded() | events.RunAbandoned():
                yield self.whole(at, event)
            case _:
                self._happened(record)

    def _begins(self, record: Recorded, event: events.RunStarted | events.RunResumed | events.RunForked) -> None:
        self._plan = event.plan
        match event:
            case events.RunStarted():
                self._began = record.at
                for opened in event.opened:
                    self._terminals[opened.agent] = opened
            case events.RunResumed():
                self._events += (SpanEvent(record.at, event.kind),)
            case events.RunForked():
                # What was before is in the trace of the other run.
                self._began, self._spent, self._events, self._last = record.at, Spent(), (), ""
                self._asked, self._gates, self._ended = {}, {}, {}
                self._linked = (trace_id(event.parent), span_id(event.parent, 1))

    def _happened(self, record: Recorded) -> None:
        """Of the run as a whole: who drove it, and what a person did."""
        match record.event:
            case Noted(Topic.INTERRUPTED as topic, text) | Noted(Topic.FILES_CHANGED as topic, text):
                self._events += (SpanEvent(record.at, topic.value, self._told(logos_text=text)),)
            case events.QuestionResolved() | events.PermissionDecided() | events.PersonSaid():
                self._events += (SpanEvent(record.at, record.event.kind),)
            case events.RecordsTampered() | events.WorkUndone():
                self._events += (SpanEvent(record.at, record.event.kind),)
            case _:
                pass

    def _told(self, **texts: str) -> dict[str, Value]:
        """Texts of agents and persons, where they are to be in the spans."""
        return {name.replace("_", ".", 1): redact(text) for name, text in texts.items()} if self._content else {}

    def _noted(self, turn: TurnId, event: SpanEvent, *usage: Usage | None) -> None:
        asked = self._asked[turn]
        self._asked[turn] = replace(asked, events=(*asked.events, event), spent=(*asked.spent, *usage))

    def _answered(self, turn: TurnId, at: float, text: str, verdict: str, usage: Usage | None) -> Iterator[Span]:
        asked = self._asked.pop(turn, None)
        if asked is None:
            return
        spent = Spent().plus(*asked.spent, usage)
        self._spent = self._spent.plus(*asked.spent, usage)
        self._last = self._ended[turn] = span_id(self._run, asked.seq)
        attributes = {**self._of_turn(turn, asked), **_usage(spent.usage)}
        if verdict:
            attributes["logos.verdict"] = verdict
        if self._content:
            attributes["gen_ai.input.messages"] = _message("user", asked.prompt)
            attributes["gen_ai.output.messages"] = _message("assistant", text)
        name = f"invoke_agent {asked.agent}"
        yield self._span(self._last, self._root, name, asked.at, at, attributes, events=asked.events)

    def _of_turn(self, turn: TurnId, asked: _Asked) -> dict[str, Value]:
        opened = self._terminals.get(asked.agent)
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": asked.agent,
            "logos.turn.id": turn,
            "logos.attempts": 1 + sum(event.name == _FAILED for event in asked.events),
        }
        if opened is not None:
            attributes["gen_ai.provider.name"] = _MAKERS.get(opened.provider, opened.provider)
            attributes["gen_ai.conversation.id"] = opened.terminal
            attributes["logos.provider"] = opened.provider
        agents = self._plan.agents if self._plan is not None else ()
        model = next((agent.model for agent in agents if agent.name == asked.agent), "")
        return {**attributes, **({"gen_ai.request.model": model} if model else {})}

    def _step(
        self,
        record: Recorded,
        event: events.CheckRan | events.ProofRan | events.WorkCompared | events.WorkGathered | events.WorkMerged,
    ) -> Span:
        """A step of Logos itself: it belongs to the turn whose answer it looks at."""
        attributes: dict[str, Value] = {"logos.turn.id": event.turn}
        match event:
            case events.CheckRan():
                name, failed = "check", event.exit_code != 0
                attributes["process.exit.code"] = event.exit_code
                attributes |= self._told(process_command_line=event.command, logos_output=event.output)
            case events.ProofRan():
                # Planted and new tests are to fail: an exit code alone is no error.
                name, failed = f"proof {event.step}", bool(event.problem)
                attributes |= {"logos.proof.step": str(event.step), "process.exit.code": event.exit_code}
                attributes |= _counted(event)
                attributes |= self._told(process_command_line=event.command, logos_output=event.output)
            case events.WorkCompared():
                name, failed = "compare", False
                attributes |= {"logos.files": len(event.files)} if event.files is not None else {}
            case events.WorkGathered():
                name, failed = "gather", bool(event.problems)
                attributes["logos.files"] = len(event.touched)
            case events.WorkMerged():
                name, failed = "merge", bool(event.clashes)
                attributes["logos.conflicts"] = len(event.clashes)
        status = SpanStatus.ERROR if failed else SpanStatus.OK
        parent = self._ended.get(TurnId(event.turn.removesuffix(GATHER)), self._last) or self._root
        return self._span(span_id(self._run, record.seq), parent, name, self._before, record.at, attributes, status)

    def _gate(self, opened: Recorded, decided: events.GateDecided, at: float) -> Span:
        """The time that the run waited for a person."""
        words = self._told(logos_words=decided.words)
        attributes: dict[str, Value] = {"logos.turn.id": decided.gate, "logos.approved": decided.approved, **words}
        return self._span(span_id(self._run, opened.seq), self._root, "gate", opened.at, at, attributes)

    def unfinished(self, at: float) -> Iterator[Span]:
        """What has begun and not ended, as far as it has come."""
        for turn, asked in self._asked.items():
            attributes = {**self._of_turn(turn, asked), "logos.unfinished": True}
            failed = bool(asked.events) and asked.events[-1].name == _FAILED
            status = SpanStatus.ERROR if failed else SpanStatus.UNSET
            name = f"invoke_agent {asked.agent}"
            yield self._span(
                span_id(self._run, asked.seq), self._root, name, asked.at, at, attributes, status, asked.events
            )
        yield self.whole(at)

    def whole(self, at: float, end: events.Event | None = None) -> Span:
        """The span of the run itself; without an `end` as far as it has come."""
        match end:
            case events.RunEnded(outcome, verified):
                known: dict[str, Value] = {} if verified is None else {"logos.verified": verified}
            case events.RunAbandoned():
                outcome, known = Outcome.ABANDONED, {}
            case _:
                outcome, known = None, {}
        flow = self._plan.flow if self._plan is not None else ""
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": flow,
            "logos.run.id": self._run,
            "logos.outcome": str(outcome or "unfinished"),
            "logos.turns": self._spent.turns,
            **{name.replace("gen_ai.", "logos."): value for name, value in _usage(self._spent.usage).items()},
            **known,
        }
        if self._plan is not None:
            attributes |= self._told(logos_request=self._plan.request)
        status = _STATUSES.get(outcome, SpanStatus.UNSET)
        name = f"invoke_workflow {flow}"
        whole = self._span(self._root, "", name, self._began, at, attributes, status, self._events)
        return replace(whole, linked=self._linked)

    def _span(
        self,
        id: str,
        parent: str,
        name: str,
        start: float,
        end: float,
        attributes: Attributes,
        status: SpanStatus = SpanStatus.UNSET,
        events: tuple[SpanEvent, ...] = (),
    ) -> Span:
        # The clock may have been set back in between.
        return Span(trace_id(self._run), id, parent, name, start, max(start, end), attributes, status, events)


def _usage(usage: Usage) -> dict[str, Value]:
    """What is not known is left out: it is not zero."""
    known = {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.cache_read.input_tokens": usage.cached,
        "gen_ai.usage.output_tokens": usage.output,
        "logos.cost_usd": usage.cost_usd,
        "logos.cost_estimated": usage.estimated or None,
    }
    return {name: value for name, value in known.items() if value is not None}


def _counted(ran: events.ProofRan) -> dict[str, Value]:
    tests = ran.tests
    return {} if tests is None else {"logos.tests.passed": len(tests.passed), "logos.tests.failed": len(tests.failed)}


def _message(role: str, text: str) -> str:
    """A message as the conventions have it: JSON, because attributes of spans have no structure."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": redact(text)}]}], ensure_ascii=False)


def spans_of(view: RunView, read_report: ReadReport, *, content: bool = False) -> list[Span]:
    """Every span of a run so far. One that was ended and continued has only the last of its ends."""
    fold = TraceFold(view.run, read_report, content=content)
    spans: dict[str, Span] = {}
    for record in view.records:
        spans |= {span.id: span for span in fold.add(record)}
        if isinstance(record.event, events.RunForked):
            # They are in the trace of the other run.
            spans.clear()
    if not view.fold.ended:
        spans |= {span.id: span for span in fold.unfinished(view.last)}
    return [*spans.values()]
