"""Servers on this machine that take what Logos sends: messages to a person, and spans (an OTLP collector)."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """Takes every POST, and answers with `status` once `answers` is set."""

    port: int = 0
    status: int = 200
    requests: list[Request] = field(default_factory=list)
    answers: threading.Event = field(default_factory=threading.Event)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def spans(self) -> list[Any]:
        """Every span that was sent, in order, as the protocol has it."""
        found: list[Any] = []
        for request in self.requests:
            sent = ExportTraceServiceRequest.FromString(request.body)
            found += [span for part in sent.resource_spans for scope in part.scope_spans for span in scope.spans]
        return found


@contextmanager
def receiving(status: int = 200, *, answering: bool = True) -> Iterator[Receiver]:
    receiver = Receiver(status=status)
    if answering:
        receiver.answers.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.requests.append(Request(self.path, dict(self.headers), body))
            receiver.answers.wait()
            # Who asked may have gone.
            try:
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()
            except OSError:
                pass

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.port = server.server_port
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield receiver
        finally:
            receiver.answers.set()
            server.shutdown()
