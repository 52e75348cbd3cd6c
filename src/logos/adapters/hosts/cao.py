"""Agents on a CAO server, over its HTTP API; the peculiarities of the server are handled here only."""

import hashlib
import ipaddress
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Unpack, cast
from urllib.parse import quote, urlsplit

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from logos import errors
from logos.adapters.files import read_instruction, write_prompt
from logos.domain.turns import Agent
from logos.ports import TerminalOptions
from logos.waiting.screens import plain, whole

Json = dict[str, Any]

logger = logging.getLogger(__name__)

# The providers that CAO servers accept, used if the server cannot list them.
PROVIDERS = (
    "kiro_cli", "claude_code", "codex", "kimi_cli", "copilot_cli", "opencode_cli", "hermes", "cursor_cli",
    "antigravity_cli", "omp", "grok_cli", "mcode", "mock_cli", "q_cli",
)  # fmt: skip

# Those whose agents the server starts with the text of the profile. The others read copies that were made when the
# profile was installed, or get none.
READS_PROFILES = frozenset({"claude_code", "codex", "kimi_cli", "antigravity_cli", "omp", "grok_cli", "mcode"})

# The server refuses URLs longer than 65 535 bytes, including path and parameters.
MAX_MESSAGE_BYTES = 60_000
# If the agent's program is missing, the server answers after about two minutes.
CREATE_SECONDS = 240.0
REQUEST_SECONDS = 30.0
CONNECT_SECONDS = 5.0
# Some clients take this long to read a pasted line.
SETTLE_SECONDS = 1.5

# The server has not received the request: any request can be repeated.
_NOT_RECEIVED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
# A gateway's answers after which idempotent requests are repeated.
_UNAVAILABLE = (502, 503, 504)
_NOT_FOUND, _CONFLICT, _MALFORMED, _FAILED = 404, 409, 422, 500


class _TryAgain(httpx.TransportError):
    """The server, or a gateway, answers that it failed this time."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__(f"the server answers {answer.status_code}")
        self.answer = answer


class ApiClient:
    """An AgentHost. `patience` is how many seconds an unreachable server is retried."""

    def __init__(
        self,
        base_url: str,
        working_directory: str | None = None,
        *,
        patience: float = 30.0,
        settle_seconds: float = SETTLE_SECONDS,
        token: str = "",
        transport: httpx.BaseTransport | None = None,
        tell: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.working_directory = working_directory or str(Path.cwd())
        self.patience = patience
        self.settle_seconds = settle_seconds
        self._tell = tell
        self._folders: dict[str, Path] = {}
        try:
            self._client = httpx.Client(
                base_url=self.base_url,
                timeout=httpx.Timeout(REQUEST_SECONDS, connect=CONNECT_SECONDS),
                headers={"Authorization": f"Bearer {token}"} if token else None,
                transport=transport,
                # No proxy for a server on this machine.
                trust_env=not _is_loopback(self.base_url),
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise errors.ConfigError(f"api = {base_url!r}: not a URL ({error})") from error

    def create_session(self, agent_profile: str, **options: Unpack[TerminalOptions]) -> Mapping[str, str]:
        return self._create("/sessions", agent_profile, options)

    def create_terminal(
        self, session_name: str, agent_profile: str, **options: Unpack[TerminalOptions]
    ) -> Mapping[str, str]:
        return self._create(f"/sessions/{quote(session_name, safe='')}/terminals", agent_profile, options)

    def send_input(self, terminal_id: str, message: str) -> None:
        # An escape sequence in the text could end the bracketed paste and press keys.
        message = plain(message)
        if len(quote(message, safe="")) > MAX_MESSAGE_BYTES:
            name = f"{hashlib.sha256(message.encode()).hexdigest()[:16]}.md"
            message = read_instruction(write_prompt(self._folder_of(terminal_id), name, message))
        path, params = f"{_terminal(terminal_id)}/input", {"message": message}
        answer = self._request("POST", path, params, once=f"a prompt for {terminal_id}")
        if answer.status_code == _CONFLICT:
            raise errors.InputRefused(f"terminal {terminal_id} takes no input: {_detail(answer)}")
        if answer.status_code == _FAILED:
            self.check_window(terminal_id)
            raise errors.DeliveryUnknown(f"the CAO server failed while sending a prompt ({_detail(answer)})")
        self._expect(answer, terminal_id)

    def get_status(self, terminal_id: str) -> str:
        return str(self._about(terminal_id).get("status", "unknown"))

    def check_window(self, terminal_id: str) -> None:
        """Without its tmux window, a terminal keeps its last status and screen; only its folder is unknown."""
        answer = self._request("GET", f"{_terminal(terminal_id)}/working-directory")
        if answer.is_success and _fields(answer).get("working_directory", "") is None:
            raise errors.TerminalGone(f"terminal {terminal_id} has no window any more (was tmux ended?)")

    def get_last_output(self, terminal_id: str) -> str:
        return whole(str(self._about(terminal_id, "/output", {"mode": "last"}).get("output") or ""))

    def get_screen(self, terminal_id: str) -> str:
        return whole(str(self._about(terminal_id, "/output", {"mode": "full"}).get("output") or ""))

    def press_key(self, terminal_id: str, key: str) -> None:
        answer = self._request("POST", f"{_terminal(terminal_id)}/key", {"key": key}, once=f"a key for {terminal_id}")
        self._expect(answer, terminal_id)

    def exit_terminal(self, terminal_id: str) -> None:
        """End the agent, then remove its window: `exit` alone leaves a shell behind."""
        for method, path in (("POST", f"{_terminal(terminal_id)}/exit"), ("DELETE", _terminal(terminal_id))):
            answer = self._request(method, path, patience=min(self.patience, 5.0))
            # Not found, or being removed already.
            if answer.status_code not in (_NOT_FOUND, _CONFLICT):
                self._expect(answer, terminal_id)
        self._folders.pop(terminal_id, None)

    def close(self) -> None:
        self._client.close()

    def preflight(self, agents: Iterable[Agent], patience: float = 2.0) -> list[str]:
        """Raise an error if the agents cannot start; returns warnings."""
        try:
            self._request("GET", "/health", patience=patience)
        except errors.HostUnreachable as error:
            why = f"no CAO server answers at {self.base_url} ({_name(error.__cause__)})"
            raise errors.HostUnreachable(f"{why}; start one with `cao-server`, or set API") from error
        known, profiles, missing = self.providers(), self.profiles(), dict[str, None]()
        for agent in agents:
            check_provider(agent.name, agent.provider, set(known))
            self._check_wishes(agent)
            if profiles is not None and agent.profile not in profiles:
                hint = f"`logos profiles install` installs ours (provider {agent.provider})"
                raise errors.ConfigError(f"{agent.name}: the CAO server has no profile {agent.profile!r}; {hint}")
            if known.get(agent.provider) is False:
                missing[agent.provider] = None
        return [f"the CAO server does not find the program of {provider} on its own PATH" for provider in missing]

    def _check_wishes(self, agent: Agent) -> None:
        if agent.args:
            raise errors.ConfigError(
                f"agents.{agent.name}.args: a CAO server passes no arguments on; put what you need into the profile "
                f"{agent.profile!r} on the server, or set host = local"
            )
        if agent.model and not self._takes_models():
            raise errors.ConfigError(
                f"agents.{agent.name}.model: the CAO server at {self.base_url} does not say that it takes a model; "
                "put the model into the profile on the server, or set host = local"
            )

    def _takes_models(self) -> bool:
        """Whether the server's own description has a model per terminal; other servers ignore it without a word."""
        answer = self._request("GET", "/openapi.json")
        paths = _object(_object(_fields(answer).get("paths")).get("/sessions/{session_name}/terminals"))
        rows = _object(paths.get("post")).get("parameters")
        return (
            answer.is_success
            and isinstance(rows, list)
            and any(_object(row).get("name") == "model" for row in cast("list[object]", rows))
        )

    def providers(self) -> dict[str, bool | None]:
        """The providers that the server accepts, and whether their programs are installed (None: unknown)."""
        known: dict[str, bool | None] = dict.fromkeys(PROVIDERS, None)
        for row in self._list("/agents/providers") or []:
            known[str(row.get("name"))] = bool(row.get("installed"))
        return known

    def profiles(self) -> set[str] | None:
        """The installed profiles, or None where the server cannot list them."""
        rows = self._list("/agents/profiles")
        return None if rows is None else {str(row.get("name")) for row in rows}

    def profile_text(self, profile: str, provider: str) -> str:
        """A profile as the server has it; empty where the server cannot tell, or gives the agent something else."""
        if provider not in READS_PROFILES:
            return ""
        answer = self._request("GET", f"/agents/profiles/{quote(profile, safe='')}/source")
        found = _json(answer) if answer.is_success else None
        return str(cast(Json, found).get("content", "")) if isinstance(found, dict) else ""

    def install_profile(self, name: str, content: str, *, replace: bool = False) -> bool:
        """Install a profile on the server, or replace it; False if the name of a new one is taken."""
        new = "POST", "/agents/profiles", {"name": name, "content": content}
        again = "PUT", f"/agents/profiles/{quote(name, safe='')}", {"content": content}
        method, path, body = again if replace else new
        try:
            answer = self._client.request(method, path, json=body)
        except httpx.TransportError as error:
            raise self._away(error) from error
        taken = answer.status_code == _CONFLICT and not replace
        if not taken:
            self._expect(answer, f"profile {name}")
        return not taken

    def _create(self, path: str, profile: str, options: TerminalOptions) -> Mapping[str, str]:
        provider, key = options["provider"], options.get("idempotency_key", "")
        folder = options.get("working_directory") or self.working_directory
        wanted = {"provider": provider, "agent_profile": profile, "working_directory": folder}
        wanted |= {"idempotency_key": key} if key else {}
        wanted |= {"model": model} if (model := options.get("model")) else {}
        # Without a key, repeating an interrupted request could start a second agent.
        once, who = "" if key else f"a request for {profile}", f"{profile} ({provider})"
        try:
            answer = self._request("POST", path, wanted, once=once, seconds=CREATE_SECONDS)
        except (errors.HostUnreachable, errors.DeliveryUnknown) as error:
            raise errors.TerminalNotCreated(f"{who}: the connection broke ({_name(error.__cause__)})") from error
        if answer.is_error:
            why = f"{_detail(answer)}{self._hint(profile, provider)}"
            raise errors.TerminalNotCreated(f"{who} did not start: {why}")
        made = _body(answer)
        if not made.get("id") or not made.get("session_name"):
            raise errors.TerminalNotCreated(f"{who}: {self.base_url} answers, but not as a CAO server does")
        self._folders[str(made["id"])] = Path(folder)
        return {"id": str(made["id"]), "session_name": str(made["session_name"])}

    def _hint(self, profile: str, provider: str) -> str:
        profiles = self.profiles()
        if profiles is not None and profile not in profiles:
            return f"; the server has no profile {profile!r}, `logos profiles install` installs ours"
        if self.providers().get(provider) is not True:
            return f"; is the program of {provider} installed and on the PATH of a login shell?"
        return ""

    def _folder_of(self, terminal_id: str) -> Path:
        """The folder in which an agent works; for an agent of another driver, the worktree that the server reports."""
        if terminal_id not in self._folders:
            wd = Path(self.working_directory).resolve()
            answer = self._request("GET", f"{_terminal(terminal_id)}/working-directory")
            # Not every server reports it.
            reported = str(_fields(answer).get("working_directory") or "") if answer.is_success else ""
            current = wd if not reported or "\0" in reported else Path(os.path.realpath(reported))
            # An agent may change to any folder; prompts are written only below the work dir, at the top of a worktree.
            inside = (folder for folder in (current, *current.parents) if folder.is_relative_to(wd))
            trees = (folder for folder in inside if os.path.exists(folder / ".git"))
            self._folders[terminal_id] = next(trees, Path(self.working_directory))
        return self._folders[terminal_id]

    def _about(self, terminal_id: str, path: str = "", params: dict[str, str] | None = None) -> Json:
        answer = self._request("GET", f"{_terminal(terminal_id)}{path}", params)
        self._expect(answer, terminal_id)
        return _body(answer)

    def _list(self, path: str) -> list[Json] | None:
        """The rows of a listing; None if the server does not support it."""
        answer = self._request("GET", path)
        rows = _json(answer) if answer.is_success else None
        if not isinstance(rows, list):
            return None
        return [cast(Json, row) for row in cast("list[object]", rows) if isinstance(row, dict)]

    def _away(self, error: Exception) -> errors.HostUnreachable:
        return errors.HostUnreachable(f"the CAO server at {self.base_url} is not reachable ({_name(error)})")

    def _request(
        self,
        method: str,
        path: str,
        params: dict[str, str] | None = None,
        *,
        once: str = "",
        patience: float | None = None,
        seconds: float = REQUEST_SECONDS,
    ) -> httpx.Response:
        """Send a request; `once` names one that is repeated only if the server has not received it."""

        def attempt() -> httpx.Response:
            limits = httpx.Timeout(seconds, connect=CONNECT_SECONDS)
            answer = self._client.request(method, path, params=params, timeout=limits)
            logger.debug("%s %s%s: %d", method, self.base_url, path, answer.status_code)
            # After a 500, only what reads is repeated; for a screen that cannot be read, 500 is the answer.
            failed = answer.status_code == _FAILED and method == "GET" and not path.endswith("/output")
            if failed or (answer.status_code in _UNAVAILABLE and not once):
                raise _TryAgain(answer)
            return answer

        retrying = Retrying(
            retry=retry_if_exception_type(_NOT_RECEIVED if once else httpx.TransportError),
            stop=stop_after_delay(self.patience if patience is None else patience),
            wait=wait_exponential(multiplier=0.1, max=5),
            before_sleep=self._report_retry,
            reraise=True,
        )
        try:
            return retrying(attempt)
        except httpx.TransportError as error:
            if isinstance(error, _TryAgain) and error.answer.status_code == _FAILED:
                return error.answer
            if once and not isinstance(error, _NOT_RECEIVED):
                raise errors.DeliveryUnknown(f"the connection broke while sending {once} ({_name(error)})") from error
            raise self._away(error) from error

    def _report_retry(self, call: RetryCallState) -> None:
        error = call.outcome.exception() if call.outcome is not None else None
        attempt, delay = call.attempt_number, call.upcoming_sleep
        logger.info("%s: attempt %d failed (%r); retrying in %.1f s", self.base_url, attempt, error, delay)
        if call.attempt_number == 3:
            self._tell(f"the CAO server at {self.base_url} does not answer; trying again")

    def _expect(self, answer: httpx.Response, what: str) -> None:
        if answer.is_redirect:
            raise errors.HostError(f"{self.base_url} answers, but not as a CAO server does ({answer.status_code})")
        if answer.status_code in (_NOT_FOUND, _MALFORMED):
            raise errors.TerminalGone(f"the CAO server does not know {what}: {_detail(answer)}")
        if answer.is_error:
            raise errors.HostError(f"the CAO server answers {answer.status_code} for {what}: {_detail(answer)}")


def check_provider(agent: str, provider: str, known: set[str]) -> None:
    if provider not in known:
        raise errors.ConfigError(f"{agent}: unknown provider {provider!r}; known: {', '.join(sorted(known))}")


def _terminal(terminal_id: str) -> str:
    return f"/terminals/{quote(terminal_id, safe='')}"


def _json(answer: httpx.Response) -> object:
    try:
        return answer.json()
    except ValueError:
        return None


def _fields(answer: httpx.Response) -> Json:
    return _object(_json(answer))


def _object(value: object) -> Json:
    return cast(Json, value) if isinstance(value, dict) else {}


def _body(answer: httpx.Response) -> Json:
    if _json(answer) is None:
        raise errors.HostError("the answer is not JSON; is this a CAO server?")
    return _fields(answer)


def _detail(answer: httpx.Response) -> str:
    """What the server says about an error, in one short line."""
    body = _json(answer)
    detail = _fields(answer).get("detail", "") if isinstance(body, dict) else body or answer.text
    return " ".join(str(detail).split())[:400]


def _name(error: BaseException | None) -> str:
    return str(error) or type(error).__name__


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
