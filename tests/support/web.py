"""The page, served by a real server in a thread of this process; and browsers that have come in."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import httpx

from logos.web.access import Access
from logos.web.app import make_app
from logos.web.options import WebOptions
from logos.web.server import page_server
from tests.support.waiting import LAST_RESORT, wait_for


class Served:
    """One server on a free port of loopback."""

    def __init__(self, options: WebOptions | None = None) -> None:
        self.options = options or WebOptions()
        self.access = Access(self.options.token)
        self.app = make_app(self.options, self.access)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.host}"
        self._server = page_server(self.app)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        wait_for(lambda: self._server.started, "the server")
        return self

    def __exit__(self, *_: object) -> None:
        self._server.handle_exit(signal.SIGTERM, None)
        self._thread.join(LAST_RESORT)
        self._socket.close()

    def browser(self) -> Browser:
        """A browser of the person, with a session of its own."""
        return Browser(self)

    def raw(
        self, method: str, target: str, headers: Mapping[str, str] | list[tuple[str, str]], body: bytes = b""
    ) -> Raw:
        """A request exactly as it is given: no client corrects its path or headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LAST_RESORT)
        pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in [*pairs, *([("Content-Length", str(len(body)))] if body else [])]:
            connection.putheader(name, value)
        connection.endheaders(body or None)
        response = connection.getresponse()
        found = Raw(response.status, dict(response.getheaders()), response.read())
        connection.close()
        return found


class Raw:
    def __init__(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.text = content.decode("utf-8", "replace")


class Browser:
    def __init__(self, served: Served) -> None:
        self.served = served
        self.client = httpx.Client(base_url=served.url, timeout=LAST_RESORT)
        entered = self.client.post("/enter", json={"token": served.access.link()}, headers={"Origin": served.url})
        assert entered.status_code == 200, entered.text
        self.write_token: str = entered.json()["write_token"]
        ((_, self.cookie),) = self.client.cookies.items()

    @property
    def headers(self) -> dict[str, str]:
        """What a raw request needs to be one of this browser."""
        return {"Host": self.served.host, "Cookie": f"logos-{self.served.port}={self.cookie}"}

    @property
    def writing(self) -> dict[str, str]:
        return {"Origin": self.served.url, "X-Logos-Token": self.write_token, "Content-Type": "application/json"}

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.client.get(path, **more)

    def post(self, path: str, body: Any = None, **headers: str) -> httpx.Response:
        content = json.dumps({} if body is None else body)
        return self.client.post(path, content=content, headers={**self.writing, **headers})

    def json(self, path: str) -> Any:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    @contextmanager
    def stream(self, path: str, **headers: str) -> Iterator[Iterator[dict[str, str]]]:
        """The messages of a stream of events, as they come."""
        with self.client.stream("GET", path, headers=headers) as answer:
            assert answer.status_code == 200, answer.read()
            yield messages(answer.iter_lines())


def messages(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Server-sent events, without comments."""
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not line:
            if "data" in fields:
                yield fields
            fields = {}
        elif name and colon:
            fields[name] = value.removeprefix(" ")
