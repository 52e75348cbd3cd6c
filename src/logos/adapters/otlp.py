"""Sends spans to a collector (OTLP over HTTP). OpenTelemetry is an extra: this module is imported when it is used."""

import logging
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from logos import __version__
from logos.views.redact import one_line
from logos.views.traces import SCHEMA, Span, SpanStatus

# Of one request with its repetitions.
TIMEOUT_SECONDS = 10.0
BATCH = 256
_CODES = {SpanStatus.UNSET: StatusCode.UNSET, SpanStatus.OK: StatusCode.OK, SpanStatus.ERROR: StatusCode.ERROR}
_SCOPE = InstrumentationScope("logos", __version__, SCHEMA)
_LOGGER = logging.getLogger("opentelemetry")


class _LastWords(logging.Handler):
    """Keeps the last message of the exporter, which tells nobody else why it has failed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


class OtlpSender:
    """`OTEL_EXPORTER_OTLP_HEADERS` and the other variables of OpenTelemetry hold, but for the address."""

    def __init__(self, address: str, timeout: float = TIMEOUT_SECONDS) -> None:
        self._said = _LastWords()
        _LOGGER.addHandler(self._said)
        self._exporter = OTLPSpanExporter(endpoint=address, timeout=timeout)
        own = Resource({"service.name": "logos", "service.version": __version__})
        self._resource = own.merge(OTELResourceDetector().detect())

    def send(self, spans: Sequence[Span]) -> str | None:
        """Send spans; returns what went wrong, or None."""
        for first in range(0, len(spans), BATCH):
            batch = [self._readable(span) for span in spans[first : first + BATCH]]
            if self._exporter.export(batch) is not SpanExportResult.SUCCESS:
                return one_line(self._said.text) or "the collector did not take them"
        return None

    def close(self) -> None:
        self._exporter.shutdown()
        _LOGGER.removeHandler(self._said)

    def _readable(self, span: Span) -> ReadableSpan:
        linked = [Link(_context(*span.linked))] if span.linked is not None else []
        return ReadableSpan(
            span.name,
            _context(span.trace, span.id),
            _context(span.trace, span.parent) if span.parent else None,
            self._resource,
            span.attributes,
            [Event(event.name, event.attributes, _nanoseconds(event.at)) for event in span.events],
            linked,
            SpanKind.INTERNAL,
            status=Status(_CODES[span.status]),
            start_time=_nanoseconds(span.start),
            end_time=_nanoseconds(span.end),
            instrumentation_scope=_SCOPE,
        )


def _context(trace: str, span: str) -> SpanContext:
    return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _nanoseconds(at: float) -> int:
    return int(at * 1_000_000) * 1000
