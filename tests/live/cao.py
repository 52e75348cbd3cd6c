"""A real cao-server with a home, a tmux and a port of its own, whose agents are the scripted `mock_cli`."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import psutil

from logos import profiles
from tests.support.waiting import LAST_RESORT, wait_for

BIN = Path(sys.executable).parent
TRIES = 5


class CaoServer:
    """Use as a context manager. `kill` and `start` (together: `restart`) keep the terminals alive."""

    def __init__(self) -> None:
        # Not the tests' tmp_path: a tmux socket path must stay under 108 bytes.
        self.root = Path(tempfile.mkdtemp(prefix="logos-cao-"))
        self.home = self._folder("home")
        self.mock_dir = self._folder("mock")
        self.port = 0
        self.log = self.root / "server.log"
        self._server: subprocess.Popen[bytes] | None = None
        tmux = Path(shutil.which("tmux") or "/usr/bin/tmux").parent
        self.env = {
            "PATH": f"{BIN}:{tmux}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "TMUX_TMPDIR": str(self._folder("tmux")),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "SHELL": "/bin/bash",
            "CAO_MOCK_CLI_SCRIPTED_PROMPTS": "1",
        }
        # tmux opens a login shell, and /etc/profile resets PATH: only this file can set it.
        path = f"{Path(__file__).parent}:{BIN}"
        (self.home / ".bash_profile").write_text(
            f"export PATH={shlex.quote(path)}:$PATH\nexport MOCK_DIR={shlex.quote(str(self.mock_dir))}\n"
            "unset HISTFILE\n"  # a dying shell would write it while the folder is being removed
        )

    def __enter__(self) -> Self:
        try:
            self.start()
            self._install_profiles()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._server is not None, "the server is not running"
        return self._server.pid

    def start(self) -> None:
        """Start at the port it had before. For the first time, at another one if somebody else takes this one."""
        before = self.port
        for _ in range(TRIES):
            self.port = before or _free_port()
            if self._starts():
                return
            if before:
                break
        raise RuntimeError(f"cao-server did not start:\n{self.log.read_text()[-4000:]}")

    def _starts(self) -> bool:
        with self.log.open("ab") as log:
            server = self._server = subprocess.Popen(
                [BIN / "cao-server", "--host", "127.0.0.1", "--port", str(self.port)],
                env=self.env,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_for(lambda: server.poll() is not None or (self._listens(server.pid) and self._healthy()), "the server")
        return server.poll() is None

    def kill(self) -> None:
        """End the server as a crash would; tmux and the agents in it live on."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None

    def restart(self) -> None:
        self.kill()
        self.start()

    def stop(self) -> None:
        self.kill()
        self.tmux("kill-server")
        shutil.rmtree(self.root, ignore_errors=True)

    def agent_def(self, env: Mapping[str, str]) -> None:
        """Give this environment to the server at its next start and to every terminal; its PATH comes first."""
        self.env |= {**env, "PATH": f"{env['PATH']}:{self.env['PATH']}"}
        path = f"export PATH={shlex.quote(env['PATH'])}:$PATH\n"
        rest = (f"export {name}={shlex.quote(value)}\n" for name, value in env.items() if name != "PATH")
        with (self.home / ".bash_profile").open("a") as profile:
            profile.writelines([path, *rest])

    def install(self, profile: str, provider: str) -> None:
        """Install a profile from the store for a provider that keeps agents of its own."""
        command = [BIN / "cao", "install", profile, "--provider", provider]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=True)
        assert "installed successfully" in done.stdout, done.stderr  # it exits 0 either way

    def tmux(self, *arguments: str) -> str:
        socket_path = Path(self.env["TMUX_TMPDIR"]) / f"tmux-{os.getuid()}" / "default"
        done = subprocess.run(
            ["tmux", "-S", socket_path, *arguments], env=self.env, capture_output=True, text=True, check=False
        )
        return done.stdout

    def script(self, **roles: Sequence[Mapping[str, Any]]) -> None:
        """What each role does at its 1st, 2nd … message; starts the counting and the notes afresh."""
        for old in [path for pattern in ("count.*", "go.*", "*.jsonl") for path in self.mock_dir.glob(pattern)]:
            old.unlink()
        (self.mock_dir / "script.json").write_text(json.dumps(roles))

    def start_slowly(self, seconds: float) -> None:
        """Let every agent that is started from now on take so long until it listens."""
        (self.mock_dir / "start_seconds").write_text(str(seconds))

    def release(self, name: str) -> None:
        """Let one agent that holds for this go on, now or when it comes to it."""
        (self.mock_dir / f"go.{name}").touch()

    def pending_turns(self) -> list[dict[str, Any]]:
        """One entry per message an agent received: time, pid, role, turn, chars, cwd …"""
        return self._notes("asks.jsonl")

    def turns_asked(self) -> Counter[str]:
        """What the agents themselves say they were asked."""
        return Counter(ask["turn"] for ask in self.pending_turns() if ask["turn"])

    def windows(self, session: str) -> int:
        """The tmux windows of a session that still exist."""
        return self.tmux("list-windows", "-a", "-F", "#{session_name}").split().count(session)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=LAST_RESORT)

    def answers(self) -> list[dict[str, Any]]:
        """One entry per permission prompt that was answered: time, pid, role, answer."""
        return self._notes("answers.jsonl")

    def _notes(self, name: str) -> list[dict[str, Any]]:
        file = self.mock_dir / name
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def _folder(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(mode=0o700)
        return folder

    def _listens(self, pid: int) -> bool:
        """Whether it is this server that answers at the port, and not another one."""
        try:
            connections = psutil.Process(pid).net_connections("tcp")
        except psutil.Error:
            return False
        return any(one.status == psutil.CONN_LISTEN and one.laddr.port == self.port for one in connections)

    def _healthy(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", timeout=5).is_success
        except httpx.TransportError:
            return False

    def _install_profiles(self) -> None:
        for name in profiles.names():
            content = f"---\nname: {name}\ndescription: scripted {name}\n---\n\nFollow your script.\n"
            answer = httpx.post(
                f"{self.url}/agents/profiles", json={"name": name, "content": content}, timeout=LAST_RESORT
            )
            answer.raise_for_status()


def _free_port() -> int:
    """A port that no connection is given by chance, so that it is still free when a server is started there again."""
    given_by_chance = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(given_by_chance.read_text().split()[0]) if given_by_chance.exists() else 32_768
    while True:
        port = random.randrange(10_000, first)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
