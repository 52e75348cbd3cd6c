"""Agents on a CAO server, over its HTTP API; the peculiarities of the server are handled here only."""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlsplit

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from logos import errors
from logos.adapters.hosts.prompt_files import read_instruction, write_prompt
from logos.domain.turns import Agent
from logos.waiting.screens import plain, whole

logger = logging.getLogger(__name__)

# The providers that CAO servers accept, used if the server cannot list them.
PROVIDERS = (
    "kiro_cli", "claude_code", "codex", "kimi_cli", "copilot_cli", "opencode_cli", "hermes", "cursor_cli",
    "antigravity_cli", "omp", "grok_cli", "mcode", "mock_cli", "q_cli",
)  # fmt: skip

# The server refuses URLs longer than 65 535 bytes, including path and parameters.
MAX_MESSAGE_BYTES = 60_000
# If the agent's program is missing, the server answers after about two minutes.
CREATE_SECONDS = 240.0
REQUEST_SECONDS = 30.0

# The server has not received the request: any request can be repeated.
_NOT_RECEIVED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
# Errors after which idempotent requests are repeated, and the same for status codes.
_TRANSPORT_ERRORS = (httpx.TransportError,)
_UNAVAILABLE = (502, 503, 504)
_NOT_FOUND, _CONFLICT, _MALFORMED = 404, 409, 422


class _TryAgain(httpx.TransportError):
    """A gateway answers that the server is temporarily unavailable."""


class ApiClient:
    """An AgentHost. `patience` is how many seconds an unreachable server is retried."""

    def __init__(
        self,
        base_url: str,
        working_directory: str | None = None,
        *,
        patience: float = 30.0,
        token: str = "",
        transport: httpx.BaseTransport | None = None,
        tell: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.working_directory = working_directory or str(Path.cwd())
        self.patience = patience
        self._tell = tell
        self._folders: dict[str, Path] = {}
        try:
            self._client = httpx.Client(
                base_url=self.base_url,
                timeout=httpx.Timeout(REQUEST_SECONDS, connect=5.0),
                headers={"Authorization": f"Bearer {token}"} if token else None,
                transport=transport,
                # No proxy for a server on this machine.
                trust_env=not _is_loopback(self.base_url),
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise errors.ConfigError(f"api = {base_url!r}: not a URL ({error})") from error

    def create_session(
        self, agent_profile: str, *, provider: str, idempotency_key: str = "", working_directory: str = ""
    ) -> Mapping[str, str]:
        return self._create("/sessions", agent_profile, provider, idempotency_key, working_directory)

    def create_terminal(
        self,
        session_name: str,
        agent_profile: str,
        *,
        provider: str,
        idempotency_key: str = "",
        working_directory: str = "",
    ) -> Mapping[str, str]:
        path = f"/sessions/{quote(session_name, safe='')}/terminals"
        return self._create(path, agent_profile, provider, idempotency_key, working_directory)

    def send_input(self, terminal_id: str, message: str) -> None:
        # An escape sequence in the text could end the bracketed paste and press keys.
        message = plain(message)
        if len(quote(message, safe="")) > MAX_MESSAGE_BYTES:
            name = f"{hashlib.sha256(message.encode()).hexdigest()[:16]}.md"
            message = read_instruction(write_prompt(self._folder_of(terminal_id), name, message))
        answer = self._post(f"{_terminal(terminal_id)}/input", {"message": message}, f"a prompt for {terminal_id}")
        if answer.status_code == _CONFLICT:
            raise errors.InputRefused(f"terminal {terminal_id} takes no input: {_detail(answer)}")
        self._expect(answer, terminal_id)

    def get_status(self, terminal_id: str) -> str:
        answer = self._get(_terminal(terminal_id))
        self._expect(answer, terminal_id)
        return str(_body(answer).get("status", "unknown"))

    def get_last_output(self, terminal_id: str) -> str:
        return self._output(terminal_id, "last")

    def get_screen(self, terminal_id: str) -> str:
        return self._output(terminal_id, "full")

    def press_key(self, terminal_id: str, key: str) -> None:
        answer = self._post(f"{_terminal(terminal_id)}/key", {"key": key}, f"a key for {terminal_id}")
        self._expect(answer, terminal_id)

    def exit_terminal(self, terminal_id: str) -> None:
        """End the agent, then remove its window: `exit` alone leaves a shell behind."""
        for method, path in (("POST", f"{_terminal(terminal_id)}/exit"), ("DELETE", _terminal(terminal_id))):
            try:
                answer = self._request(method, path, again=_TRANSPORT_ERRORS, patience=min(self.patience, 5.0))
            except httpx.TransportError as error:
                raise self._away(error) from error
            # Not found, or being removed already.
            if answer.status_code not in (_NOT_FOUND, _CONFLICT):
                self._expect(answer, terminal_id)
        self._folders.pop(terminal_id, None)

    def close(self) -> None:
        self._client.close()

    def preflight(self, agents: Iterable[Agent], patience: float = 2.0) -> list[str]:
        """Raise an error if the agents cannot start; returns warnings."""
        try:
            self._request("GET", "/health", again=_TRANSPORT_ERRORS, patience=patience)
        except httpx.TransportError as error:
            raise errors.HostUnreachable(
                f"no CAO server answers at {self.base_url} ({_name(error)}); start one with `cao-server`, or set API"
            ) from error
        known = self.providers()
        profiles = self.profiles()
        warnings: list[str] = []
        for agent in agents:
            check_provider(agent.name, agent.provider, set(known))
            if profiles is not None and agent.profile not in profiles:
                raise errors.ConfigError(
                    f"{agent.name}: the CAO server has no profile {agent.profile!r}; "
                    f"`logos profiles install` installs ours (provider {agent.provider})"
                )
            if known.get(agent.provider) is False:
                warnings.append(f"the CAO server does not find the program of {agent.provider} on its own PATH")
        return list(dict.fromkeys(warnings))

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

    def install_profile(self, name: str, content: str) -> bool:
        """Install a profile on the server; False if the name is taken."""
        answer = self._store("POST", "/agents/profiles", {"name": name, "content": content})
        if answer.status_code == _CONFLICT:
            return False
        self._expect(answer, f"profile {name}")
        return True

    def replace_profile(self, name: str, content: str) -> None:
        answer = self._store("PUT", f"/agents/profiles/{quote(name, safe='')}", {"content": content})
        self._expect(answer, f"profile {name}")

    def _store(self, method: str, path: str, body: dict[str, str]) -> httpx.Response:
        try:
            return self._client.request(method, path, json=body)
        except httpx.TransportError as error:
            raise self._away(error) from error

    def _create(self, path: str, profile: str, provider: str, key: str, folder: str) -> Mapping[str, str]:
        folder = folder or self.working_directory
        wanted = {"provider": provider, "agent_profile": profile, "working_directory": folder}
        if key:
            wanted["idempotency_key"] = key
        try:
            # Without a key, repeating an interrupted request could start a second agent.
            answer = self._request(
                "POST", path, wanted, again=_TRANSPORT_ERRORS if key else _NOT_RECEIVED, timeout=CREATE_SECONDS
            )
        except httpx.TransportError as error:
            raise errors.TerminalNotCreated(f"{profile} ({provider}): the connection broke ({_name(error)})") from error
        if answer.is_error:
            raise errors.TerminalNotCreated(
                f"{profile} ({provider}) did not start: {_detail(answer)}{self._hint(profile, provider)}"
            )
        made = _body(answer)
        if not made.get("id") or not made.get("session_name"):
            raise errors.TerminalNotCreated(
                f"{profile} ({provider}): {self.base_url} answers, but not as a CAO server does"
            )
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
        """The folder in which an agent works; a driver that did not start the agent asks the server."""
        if terminal_id not in self._folders:
            self._folders[terminal_id] = self._reported_folder(terminal_id)
        return self._folders[terminal_id]

    def _reported_folder(self, terminal_id: str) -> Path:
        """The worktree of the agent's current folder, or the work dir."""
        wd = Path(self.working_directory).resolve()
        answer = self._get(f"{_terminal(terminal_id)}/working-directory")
        current = Path(os.path.realpath(_optional_text(answer, "working_directory") or wd))
        # An agent may change to any folder; prompts are written only below the work dir, at the top of a worktree.
        inside = (folder for folder in (current, *current.parents) if folder.is_relative_to(wd))
        return next((folder for folder in inside if os.path.exists(folder / ".git")), Path(self.working_directory))

    def _output(self, terminal_id: str, mode: str) -> str:
        answer = self._get(f"{_terminal(terminal_id)}/output", {"mode": mode})
        self._expect(answer, terminal_id)
        return whole(str(_body(answer).get("output") or ""))

    def _list(self, path: str) -> list[dict[str, Any]] | None:
        """The rows of a listing; None if the server does not support it."""
        answer = self._get(path)
        try:
            rows: object = answer.json() if answer.is_success else None
        except ValueError:
            return None
        if not isinstance(rows, list):
            return None
        return [cast("dict[str, Any]", row) for row in cast("list[object]", rows) if isinstance(row, dict)]

    def _get(self, path: str, params: dict[str, str] | None = None) -> httpx.Response:
        try:
            return self._request("GET", path, params, again=_TRANSPORT_ERRORS)
        except httpx.TransportError as error:
            raise self._away(error) from error

    def _post(self, path: str, params: dict[str, str], what: str) -> httpx.Response:
        """Send a request that must not be sent twice; it is repeated only if the server has not received it."""
        try:
            return self._request("POST", path, params, again=_NOT_RECEIVED)
        except _NOT_RECEIVED as error:
            raise self._away(error) from error
        except httpx.TransportError as error:
            raise errors.DeliveryUnknown(f"the connection broke while sending {what} ({_name(error)})") from error

    def _away(self, error: Exception) -> errors.HostUnreachable:
        return errors.HostUnreachable(f"the CAO server at {self.base_url} is not reachable ({_name(error)})")

    def _request(
        self,
        method: str,
        path: str,
        params: dict[str, str] | None = None,
        *,
        again: tuple[type[httpx.TransportError], ...],
        patience: float | None = None,
        timeout: float | None = None,
    ) -> httpx.Response:
        limits = httpx.Timeout(timeout, connect=5.0) if timeout else httpx.USE_CLIENT_DEFAULT

        def attempt() -> httpx.Response:
            answer = self._client.request(method, path, params=params, timeout=limits)
            logger.debug("%s %s%s: %d", method, self.base_url, path, answer.status_code)
            if answer.status_code in _UNAVAILABLE and again is _TRANSPORT_ERRORS:
                raise _TryAgain(f"the server answers {answer.status_code}")
            return answer

        retrying = Retrying(
            retry=retry_if_exception_type(again),
            stop=stop_after_delay(self.patience if patience is None else patience),
            wait=wait_exponential(multiplier=0.1, max=5),
            before_sleep=self._report_retry,
            reraise=True,
        )
        return retrying(attempt)

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


def _body(answer: httpx.Response) -> dict[str, Any]:
    try:
        body: object = answer.json()
    except ValueError as error:
        raise errors.HostError("the answer is not JSON; is this a CAO server?") from error
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}


def _optional_text(answer: httpx.Response, key: str) -> str:
    """A text that not every server reports; empty if it is missing."""
    try:
        text = str(_body(answer).get(key) or "") if answer.is_success else ""
    except errors.HostError:
        return ""
    return "" if "\0" in text else text


def _detail(answer: httpx.Response) -> str:
    """What the server says about an error, in one short line."""
    try:
        body: object = answer.json()
    except ValueError:
        body = answer.text
    detail: object = cast("dict[str, object]", body).get("detail", "") if isinstance(body, dict) else body
    return " ".join(str(detail).split())[:400]


def _name(error: Exception) -> str:
    return str(error) or type(error).__name__


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
