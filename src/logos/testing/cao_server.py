"""A CAO server in this process, without tmux: the calls and answers of the real one, agents from a script."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from logos.domain.levels import LEVELS
from logos.domain.roles import ROLE_DEFS
from logos.testing import ScriptedAgents, ScriptedTerminal

MAX_URL = 65_535


@dataclass(slots=True)
class FakeCao(ScriptedAgents):
    """`with FakeCao(folder, script) as cao:` then talk to `cao.url`."""

    create_seconds: float = 0.0
    turn_seconds: float = 0.0
    refuse_profiles: frozenset[str] = frozenset()
    # Whether its description of itself has a model per terminal.
    takes_models: bool = False
    # The texts of profiles, by name; a server without them cannot tell what its agents are told.
    profile_texts: Mapping[str, str] = field(default_factory=dict[str, str])
    # Answer this many requests with 500, by the end of their path; `status` is that of a terminal.
    failing: dict[str, int] = field(default_factory=dict[str, int])
    windowless: set[str] = field(default_factory=set[str])
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list[tuple[str, str, dict[str, str]]])
    taken: list[float] = field(default_factory=list[float])
    ready: list[float] = field(default_factory=list[float])
    _server: ThreadingHTTPServer | None = None
    _port: int = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        server = ThreadingHTTPServer(("127.0.0.1", self._port), self._handler())
        server.daemon_threads = True
        self._server, self._port = server, server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def restart(self) -> None:
        """As a real restart leaves it: terminals live on, their status is unknown for good."""
        self.stop()
        for agent in self.agents.values():
            agent.status = "unknown"
        self.start()

    def kill_tmux(self) -> None:
        """As a tmux that ended leaves it: terminals keep status and screen, and do nothing more."""
        self.windowless.update(self.agents)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        cao = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Write each answer in one packet: two would be delayed by Nagle's algorithm.
            wbufsize = 65_536
            disable_nagle_algorithm = True

            def _serve(self) -> None:
                if cao._server is not self.server:
                    # A stopped server does not answer on open connections either.
                    self.close_connection = True
                    return
                parts = urlsplit(self.path)
                query = dict(parse_qsl(parts.query, keep_blank_values=True))
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if len(self.path) > MAX_URL:
                    status, body = 400, {"detail": "URL too long"}
                else:
                    cao.requests.append((self.command, parts.path, query))
                    status, body = cao.answer(self.command, unquote(parts.path).strip("/").split("/"), query)
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = _serve  # noqa: N815 - names of the base class

            def log_message(self, format: str, *args: object) -> None:
                del format, args

        return Handler

    def answer(self, method: str, path: list[str], query: dict[str, str]) -> tuple[int, Any]:
        what = "status" if method == "GET" and path[:-1] == ["terminals"] else path[-1]
        if self.failing.get(what, 0) > 0:
            self.failing[what] -= 1
            return 500, {"detail": "Internal Server Error"}
        match method, path:
            case "GET", ["health"]:
                return 200, {"status": "ok"}
            case "GET", ["openapi.json"] if self.takes_models:
                post = {"parameters": [{"name": "model", "in": "query"}]}
                return 200, {"paths": {"/sessions/{session_name}/terminals": {"post": post}}}
            case "GET", ["agents", "profiles"]:
                return 200, [{"name": row.profile} for row in (*ROLE_DEFS.values(), *LEVELS.values())]
            case "GET", ["agents", "profiles", name, "source"] if name in self.profile_texts:
                return 200, {"name": name, "content": self.profile_texts[name]}
            case "GET", ["agents", "providers"]:
                return 200, [{"name": "codex", "binary": "codex", "installed": True}]
            case "POST", ["sessions"]:
                return self._create("cao-fake", query)
            case "POST", ["sessions", session, "terminals"] if self.exited and not self.agents:
                return 404, {"detail": f"Session '{session}' not found"}
            case "POST", ["sessions", session, "terminals"]:
                return self._create(session, query)
            case _, ["terminals", terminal, *rest]:
                return self._terminal(method, terminal, rest, query)
            case _:
                return 404, {"detail": "Not Found"}

    def _create(self, session: str, query: dict[str, str]) -> tuple[int, Any]:
        time.sleep(self.create_seconds)
        profile, provider = query.get("agent_profile", ""), query.get("provider", "")
        if profile in self.refuse_profiles:
            return 500, {"detail": "Failed to create session: the agent did not start"}
        key, folder = query.get("idempotency_key", ""), query.get("working_directory", "")
        made = self.create_terminal(session, profile, provider=provider, idempotency_key=key, working_directory=folder)
        return 201, {**made, "provider": provider, "status": "idle"}

    def _terminal(self, method: str, terminal: str, rest: list[str], query: dict[str, str]) -> tuple[int, Any]:
        agent = self.agents.get(terminal)
        if agent is None:
            return 404, {"detail": f"Terminal '{terminal}' not found"}
        match method, rest:
            case "GET", []:
                return 200, {"id": terminal, "status": agent.status}
            case "GET", ["working-directory"]:
                return 200, {"working_directory": None if terminal in self.windowless else agent.cwd}
            case "GET", ["output"]:
                return 200, {"output": agent.output if query.get("mode") == "last" else agent.screen}
            case "POST", ["input"] if terminal in self.windowless:
                return 500, {"detail": "no window"}
            case "POST", ["input"]:
                if agent.status == "error":
                    return 409, {"detail": "terminal is in error"}
                self.send_input(terminal, query["message"])
                return 200, {"success": True}
            case "DELETE", []:
                self.exit_terminal(terminal)
                return 200, {"success": True}
            case _:
                return 200, {"success": True}

    def send_input(self, terminal_id: str, message: str) -> None:
        unknown = self.agents[terminal_id].status == "unknown"
        agent, work = self.take(terminal_id, message)
        if work is not None:
            self.taken.append(time.monotonic())
            end = "unknown" if unknown else "completed"
            threading.Thread(target=self._work, args=(agent, work, end), daemon=True).start()

    def _work(self, agent: ScriptedTerminal, work: Callable[[], str], end: str) -> None:
        time.sleep(self.turn_seconds)
        if any(self.agents.get(terminal) is agent for terminal in self.windowless):
            return
        agent.output = work()
        agent.screen = f"{agent.output}\n❯ "
        self.ready.append(time.monotonic())
        agent.status = end
