"""The traces of runs: sent to a collector afterwards, or while the run goes on."""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol, cast
from urllib.parse import urlsplit

from logos.app.checkpoints import locate, match, run_name
from logos.app.runs import read_report
from logos.app.setting_sources import settings_of
from logos.app.settings import Settings
from logos.app.workdir import place_to_read, reading
from logos.domain.events import Recorded
from logos.domain.ledger import Ledger
from logos.domain.turns import RunId
from logos.errors import LogosError, UsageError
from logos.flows.fold import RunState
from logos.views.run import RunView
from logos.views.traces import Span, TraceFold, spans_of, trace_id

Tell = Callable[[str], object]
DEFAULT_ADDRESS = "http://localhost:4318"
PATH = "/v1/traces"
# How long a driver that ends waits until its last spans are sent.
CLOSE_SECONDS = 15.0


class Sender(Protocol):
    def send(self, spans: Sequence[Span]) -> str | None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ExportedTrace:
    """The spans of a run that were sent, and where to."""

    run: RunId
    trace: str
    address: str
    spans: tuple[Span, ...]
    finished: bool


def export_trace(
    run: str | None = None, address: str = "", *, content: bool = False, wd: Path | None = None
) -> ExportedTrace:
    """Send the trace of a run, by default of the newest, to a collector.

    Without an address: to `traces.otlp`, or where the variables of OpenTelemetry say.
    """
    require_extra()
    name = locate(place_to_read(wd), run_name(run))
    with reading(name.place) as log:
        view, _ = match(log, name)
    target = address_of(address or settings_of(name.place).traces.otlp)
    spans = spans_of(view, read_report, content=content)
    sender = _sender(target)
    try:
        if problem := sender.send(spans):
            raise LogosError(f"the trace of run {view.run} was not sent to {target}: {problem}")
    finally:
        sender.close()
    return ExportedTrace(view.run, trace_id(view.run), target, tuple(spans), view.fold.ended)


def require_extra() -> None:
    """OpenTelemetry is installed only where it was asked for."""
    try:
        found = find_spec("opentelemetry.sdk") and find_spec("opentelemetry.exporter.otlp.proto.http")
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise UsageError(
            "traces need OpenTelemetry, which is not installed: "
            "`pipx inject logos-agents 'logos-agents[otel]'`, or `pip install 'logos-agents[otel]'`"
        )


def address_of(chosen: str) -> str:
    """The address to post to. One without a path is that of a collector, whose path is the usual one."""
    own = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
    address = chosen or own or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "") or DEFAULT_ADDRESS
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{address!r} is no address of a collector: it looks like {DEFAULT_ADDRESS}")
    base = not chosen and not own
    return address.rstrip("/") + PATH if base or parts.path in ("", "/") else address


def _sender(address: str) -> Sender:
    make = cast("Callable[[str], Sender]", import_module("logos.adapters.otlp").OtlpSender)
    return make(address)


class LiveExporter:
    """A watcher that sends each span when it ends. What cannot be sent is said once; the log still has everything."""

    def __init__(self, address: str, fold: TraceFold, tell: Tell) -> None:
        self._address = address
        self._fold = fold
        self._tell = tell
        self._failed = False
        self._ended: SimpleQueue[tuple[Span, ...] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="traces", daemon=True)
        self._thread.start()

    def watch(self, record: Recorded, state: RunState, ledger: Ledger) -> None:  # noqa: ARG002
        if spans := self._fold.add(record):
            self._ended.put(spans)

    def close(self) -> None:
        self._ended.put(None)
        self._thread.join(CLOSE_SECONDS)

    def _work(self) -> None:
        sender = _sender(self._address)
        try:
            while (spans := self._ended.get()) is not None:
                more, last = self._waiting()
                self._send(sender, (*spans, *more))
                if last:
                    return
        finally:
            sender.close()

    def _waiting(self) -> tuple[list[Span], bool]:
        """What has ended meanwhile, and whether nothing more will."""
        found: list[Span] = []
        try:
            while (spans := self._ended.get_nowait()) is not None:
                found += spans
        except Empty:
            return found, False
        return found, True

    def _send(self, sender: Sender, spans: Sequence[Span]) -> None:
        problem = sender.send(spans)
        if problem and not self._failed:
            self._tell(f"warning: spans were not sent to {self._address}: {problem}; `logos export --otlp` sends all")
        self._failed = bool(problem)


class NoExporter:
    """Of a run without `traces.otlp`."""

    def watch(self, record: Recorded, state: RunState, ledger: Ledger) -> None:
        pass

    def close(self) -> None:
        pass


def live_exporter(settings: Settings, run: RunId, tell: Tell, earlier: RunView | None) -> LiveExporter | NoExporter:
    """`earlier` is the run as an earlier driver left it, who has sent what had ended."""
    own = settings.traces
    if not own.otlp:
        return NoExporter()
    require_extra()
    fold = TraceFold(run, read_report, content=own.content)
    for record in earlier.records if earlier is not None else ():
        fold.add(record)
    return LiveExporter(address_of(own.otlp), fold, tell)
