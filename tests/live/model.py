"""A scripted model behind the APIs that agent CLIs speak, on loopback and without a key.

`FakeModel` asks a `reply` function what to do with each conversation. The default, `Script`, does what a
well-behaved agent does with our prompts: it has the CLI's shell tool write the response file, or its file tool where
the shell refuses, then says so.
"""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.live.conversation import (
    FINISHED,
    INSTRUCTION,
    RESPONSE_PATH,
    ROLES,
    TURN,
    Conversation,
    Fault,
    Reply,
    Run,
    Save,
    Usage,
    Verdict,
)
from tests.live.wire import api_of
from tests.support.waiting import LAST_RESORT


class Script:
    """Role → what it writes at its 1st, 2nd … turn; the last one repeats. A level's role is L3.decompose, L2.cart.author.

    `delay` passes before the file is written, `linger` between the file and the final message. `faults` are
    answered first, one request each. `work` is a role's commands before it writes its file, `holds` what it waits
    for before any of it.
    """

    def __init__(
        self,
        roles: Mapping[str, Sequence[str]] | None = None,
        *,
        delay: float = 0,
        linger: float = 0,
        faults: Iterable[Fault] = (),
        work: Mapping[str, str] | None = None,
        holds: Mapping[str, threading.Event] | None = None,
    ) -> None:
        self.roles = roles or {}
        self.delay = delay
        self.linger = linger
        self.faults = iter(faults)
        self.work = work or {}
        self.holds = holds or {}
        self.closing = threading.Event()
        self._turns: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def __call__(self, conversation: Conversation) -> Reply:
        if not conversation.tools:
            return Verdict("A title")  # clients ask for one in a request without tools
        with self._lock:
            if fault := next(self.faults, None):
                return fault
        if not conversation.prompts:
            return Verdict("There is nothing to do.")
        prompt = conversation.prompts[-1].text
        if conversation.tool_answered and not conversation.saves_instead:
            self.closing.wait(self.linger)
            return Verdict(FINISHED)
        path, role, response = self._response_to(prompt)
        if not conversation.tool_answered:
            self._hold(role)
        if conversation.saves_instead:
            return Save(path, response)
        work = f"{self.work[role]}\n" if role in self.work else ""
        return Run(f"{work}cat >{shlex.quote(path)} <<'MODEL_END'\n{response.rstrip()}\nMODEL_END")

    def _hold(self, role: str) -> None:
        if role in self.holds:
            assert self.holds[role].wait(LAST_RESORT), f"nobody let {role} go on"
        self.closing.wait(self.delay)

    def _response_to(self, prompt: str) -> tuple[str, str, str]:
        """The file that a prompt asks for, in which role, and what goes into it."""
        path = RESPONSE_PATH.search(prompt, max(0, prompt.rfind(INSTRUCTION)))
        assert path is not None
        role = ROLES.get(path[1]) or path[1].removesuffix(".md").partition(".")[2]
        return path[0], role, self._response(role, prompt)

    def _response(self, role: str, prompt: str) -> str:
        # A turn that is sent again, by the client or by us, is the same turn.
        named = TURN.search(prompt)
        turn = named[1] if named else prompt
        with self._lock:
            turns = self._turns.setdefault(role, [])
            if turn not in turns:
                turns.append(turn)
            texts = self.roles.get(role) or [f"{role} is done"]
            return texts[min(turns.index(turn), len(texts) - 1)]


class FakeModel:
    """Use as a context manager.

    `requests` holds what clients sent, `bills` what each answered one cost, `outside` the hosts they tried to reach.
    """

    def __init__(self, reply: Callable[[Conversation], Reply] | None = None) -> None:
        self.reply = reply or Script()
        self.requests: list[Conversation] = []
        self.bills: list[tuple[Conversation, Usage]] = []
        self.dependencies: list[str] = []
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self.reply, Script):
            self.reply.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def billed(self) -> list[Usage]:
        return [usage for _, usage in self.bills]

    @property
    def work(self) -> list[Conversation]:
        """The requests that carry a prompt of ours."""
        return [request for request in self.requests if request.prompts and request.tools]

    def answer(self, conversation: Conversation) -> Reply:
        with self._changed:
            self.requests.append(conversation)
            self._changed.notify_all()
        reply = self.reply(conversation)
        if not isinstance(reply, Fault) and conversation.tools:
            self.bills.append((conversation, conversation.usage(reply)))
        return reply

    def wait_for_work(self, requests: int = 1) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.work) >= requests, LAST_RESORT), "the client sent nothing"


def _handler(fake: FakeModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            """A client with this server as its proxy wants to leave the machine."""
            fake.dependencies.append(self.path)
            self.send_error(403)

        def do_HEAD(self) -> None:
            self._send(200, b"")

        def do_GET(self) -> None:
            self._send_json(404, {"error": {"message": "no such page"}})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            path = urlsplit(self.path).path
            if path.endswith("/count_tokens"):
                self._send_json(200, {"input_tokens": len(json.dumps(body)) // 4})
                return
            api = api_of(path)
            if api is None:
                self._send_json(404, {"error": {"message": f"no such page: {path}"}})
                return
            conversation = Conversation(path, body.get("model", ""), tuple(api.messages(body)), tuple(api.tools(body)))
            reply = fake.answer(conversation)
            if isinstance(reply, Fault):
                self._send_json(reply.status, api.error(reply), reply.headers)
            else:
                events = "".join(f"{line}\n\n" for line in api.stream(conversation, reply))
                self._send(200, events.encode(), {"content-type": "text/event-stream"})

        def _send_json(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
            self._send(status, json.dumps(body).encode(), {"content-type": "application/json", **(headers or {})})

        def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
            try:
                self.send_response(status)
                for name, value in {"content-length": str(len(body)), **(headers or {})}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                pass  # the client was killed

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
