"""What every request must fulfil before a route sees it, as a table of checks; and what every answer carries.

The page acts with all rights of the person, so it is closed to other sites in the same browser, to other users of the
machine, and to servers on other ports, which get the cookies of this one.
"""

import ipaddress
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from logos.web.access import Access, BrowserSession, TooManyFailures
from logos.web.options import WebOptions

LARGEST_BODY = 1_000_000
TOKEN_HEADER = "x-logos-token"
ENTER = "/enter"
# What a browser needs before it has a session.
PUBLIC = (ENTER, "/static/enter.js", "/static/page.css", "/static/icon.svg")
# A server that others can only look at still lets a browser in and out.
OF_SESSIONS = (ENTER, "/api/logout", "/api/rotate")
# Several of one of these could be read differently by us and by others.
SINGLE = ("host", "origin", "cookie", "authorization", "content-type", "content-length", "sec-fetch-site", TOKEN_HEADER)
READS, WRITES = ("GET", "HEAD"), ("POST",)
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?")
_PATH = re.compile(rb"/|(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~@+=,:-]+)+")

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _CSP,
    "X-Content-Type-Options": "nosniff",
    # No other site is told an address of ours; with no-referrer, browsers would send `Origin: null` to ourselves.
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as far as it is known without its body."""

    method: str
    raw_path: bytes
    query: str
    headers: Headers
    hosts: "Hosts"
    read_only: bool

    @property
    def path(self) -> str:
        return self.raw_path.decode("latin-1")

    @property
    def host(self) -> str:
        return self.headers.get("host", "")

    @property
    def is_write(self) -> bool:
        return self.method not in READS

    @property
    def is_page(self) -> bool:
        """Whether a browser opens it as a document of its own."""
        api = self.path.startswith(("/api/", "/static/"))
        return self.method == "GET" and not api and self.headers.get("sec-fetch-dest", "document") == "document"


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    why: str


class Hosts:
    """The names that the server answers to. A foreign name that leads here is an attack by DNS."""

    def __init__(self, host: str) -> None:
        wildcard = host in ("0.0.0.0", "::")
        own = {host, f"[{host}]"} if not wildcard else {socket.gethostname(), socket.getfqdn()}
        self._names = {name.lower() for name in (*_LOOPBACK, *own)}
        self._addresses = wildcard

    def knows(self, header: str) -> bool:
        found = _HOST.fullmatch(header)
        if found is None:
            return False
        name = found[1].lower()
        # No DNS leads from an address to another one.
        return name in self._names or (self._addresses and _is_address(name.strip("[]")))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


Check = Callable[[Asked], Refusal | None]


def single_headers(asked: Asked) -> Refusal | None:
    twice = [name for name in SINGLE if len(asked.headers.getlist(name)) > 1]
    return Refusal(400, f"the header {twice[0]} is there twice") if twice else None


def known_host(asked: Asked) -> Refusal | None:
    known = asked.hosts.knows(asked.host)
    return None if known else Refusal(421, "this server does not answer to that Host; see --host")


def plain_path(asked: Asked) -> Refusal | None:
    return None if _PATH.fullmatch(asked.raw_path) else Refusal(400, "the path is not one of this server")


def known_method(asked: Asked) -> Refusal | None:
    return None if asked.method in (*READS, *WRITES) else Refusal(405, "use GET or POST")


def own_origin(asked: Asked) -> Refusal | None:
    """A browser says where a request comes from; programs must say it of writes as well."""
    origin = asked.headers.get("origin")
    if origin is None:
        return Refusal(403, "a write needs the header Origin") if asked.is_write else None
    own = origin.lower() in (f"http://{asked.host}".lower(), f"https://{asked.host}".lower())
    return None if own else Refusal(403, "requests from other origins are refused")


def own_site(asked: Asked) -> Refusal | None:
    """Another port of this machine is the same site; a page that is opened from elsewhere is looked at later."""
    site = asked.headers.get("sec-fetch-site", "same-origin")
    typed = site == "none" and not asked.is_write
    ours = site == "same-origin" or typed or asked.is_page
    return None if ours else Refusal(403, "requests from other sites are refused")


def no_frame(asked: Asked) -> Refusal | None:
    framed = asked.headers.get("sec-fetch-dest") in ("iframe", "frame", "embed", "object")
    return Refusal(403, "the page is not shown inside of others") if framed else None


def json_body(asked: Asked) -> Refusal | None:
    """Forms of other sites can send neither this type nor the header with the token."""
    kind = asked.headers.get("content-type", "").partition(";")[0].strip().lower()
    right = not asked.is_write or kind == "application/json"
    return None if right else Refusal(415, "a write needs Content-Type: application/json")


def small_body(asked: Asked) -> Refusal | None:
    length = asked.headers.get("content-length", "0")
    fits = length.isascii() and length.isdigit() and int(length[:12]) <= LARGEST_BODY
    return None if fits else Refusal(413, f"a request has at most {LARGEST_BODY} bytes")


def writable(asked: Asked) -> Refusal | None:
    refused = asked.read_only and asked.is_write and asked.path not in OF_SESSIONS
    return Refusal(403, "this server was started with --read-only") if refused else None


CHECKS: tuple[Check, ...] = (
    *(single_headers, known_host, plain_path, known_method, own_origin, own_site, no_frame),
    *(json_body, small_body, writable),
)


def refusal_of(asked: Asked) -> Refusal | None:
    return next((refusal for check in CHECKS if (refusal := check(asked)) is not None), None)


def comes_from_elsewhere(asked: Asked) -> bool:
    """A link in a mail or on another site: its request has no cookie, or must not use it."""
    return asked.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")


def session_in(asked: Asked, access: Access, cookie_name: str) -> BrowserSession | Refusal | None:
    """The session of a request; None without one."""
    bearer, cookies = asked.headers.get("authorization", ""), _cookies(asked.headers.get("cookie", ""), cookie_name)
    if len(cookies) + bool(bearer) > 1:
        return Refusal(400, "there are two tokens in the request")
    try:
        if bearer:
            scheme, _, token = bearer.partition(" ")
            return (scheme.lower() == "bearer" and access.program(token.strip())) or None
    except TooManyFailures:
        return Refusal(429, "too many wrong tokens: wait a minute")
    return access.session(cookies[0]) if cookies else None


def _cookies(header: str, name: str) -> list[str]:
    parts = (part.strip().partition("=") for part in header.split(";"))
    return [value for key, _, value in parts if key == name]


def may_write(asked: Asked, session: BrowserSession) -> bool:
    """Whoever has only the cookie cannot act."""
    given = asked.headers.get(TOKEN_HEADER, "") or asked.headers.get("authorization", "")[len("Bearer ") :]
    return Access.same(given, session.write)


def cookie_of(port: int) -> str:
    """Servers on other ports of this host have cookies of their own names."""
    return f"logos-{port}"


class Answers(Protocol):
    """What is answered instead of what was asked for."""

    def refused(self, refusal: Refusal) -> ASGIApp: ...
    def landing(self, asked: Asked) -> ASGIApp: ...
    def stranger(self, asked: Asked) -> ASGIApp: ...


class Guard:
    """The middleware around all routes: checks, sessions, and the headers of every answer."""

    def __init__(self, app: ASGIApp, options: WebOptions, access: Access, answers: Answers) -> None:
        self._app = app
        self._options = options
        self._access = access
        self._hosts = Hosts(options.host)
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        app = self._admitted(scope)
        await app(scope, _limited(receive), _with_headers(send))

    def _admitted(self, scope: Scope) -> ASGIApp:
        """The application, or an answer in its place."""
        raw = scope.get("raw_path") or scope["path"].encode("latin-1", "replace")
        query = scope.get("query_string", b"").decode("latin-1")
        asked = Asked(scope["method"], raw, query, Headers(scope=scope), self._hosts, self._options.read_only)
        if (refusal := refusal_of(asked)) is not None:
            return self._answers.refused(refusal)
        if asked.path in PUBLIC:
            return self._app
        # Before anything looks at the cookie.
        if comes_from_elsewhere(asked):
            return self._answers.landing(asked)
        session = session_in(asked, self._access, cookie_of(_port_of(scope)))
        if isinstance(session, Refusal):
            return self._answers.refused(session)
        if session is None:
            return self._answers.stranger(asked)
        if asked.is_write and not may_write(asked, session):
            return self._answers.refused(Refusal(403, f"a write needs the header {TOKEN_HEADER}"))
        scope.setdefault("state", {})["session"] = session
        return self._app


def _port_of(scope: Scope) -> int:
    server = scope.get("server") or ("", 0)
    return int(server[1] or 0)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sending


class BodyTooLarge(Exception):
    """A body without a length turned out to be longer than allowed."""


def _limited(receive: Receive) -> Receive:
    seen = 0

    async def receiving() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > LARGEST_BODY:
            raise BodyTooLarge
        return message

    return receiving
