"""Who may come in: links that work once, sessions of browsers, and a token for programs; all in memory only."""

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

# So many wrong tokens within these seconds, and further ones are not looked at.
MOST_FAILURES = 10
FAILURE_SECONDS = 60.0
# A person's own token protects an address that others can reach.
SHORTEST_TOKEN = 16


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A browser: `cookie` reads, and `write` is needed besides to act. Cookies are sent to every port of a host."""

    cookie: str
    write: str


class TooManyFailures(Exception):
    """Somebody tries tokens."""


class Access:
    def __init__(self, token: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # A person's own token stays when the others are replaced.
        self._chosen = token
        self._program = token or secrets.token_urlsafe(32)
        self._links: set[bytes] = set()
        self._sessions: dict[bytes, BrowserSession] = {}
        self._failures: list[float] = []

    @property
    def token(self) -> str:
        """What a program sends as `Authorization: Bearer`."""
        return self._program

    def link(self) -> str:
        """A token that opens one session."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._links.add(_digest(token))
        return token

    def enter(self, token: str) -> BrowserSession | None:
        """A session for a link's token, which is used up, or for the person's own token."""
        given = _digest(token)
        with self._lock:
            # Nobody guesses what is random; so wrong tokens of others keep no person out.
            if given in self._links:
                self._links.discard(given)
                return self._opened()
            self._refuse_guesses()
            if self._chosen and secrets.compare_digest(given, _digest(self._chosen)):
                return self._opened()
            self._failures.append(self._clock())
            return None

    def session(self, cookie: str) -> BrowserSession | None:
        return self._sessions.get(_digest(cookie))

    def is_open(self, session: BrowserSession) -> bool:
        """Whether the session has not ended meanwhile."""
        return self.session(session.cookie) is not None if session.cookie else self.same(session.write, self._program)

    def program(self, token: str) -> BrowserSession | None:
        """A program with the token may read and act."""
        with self._lock:
            if self._chosen:
                self._refuse_guesses()
            if secrets.compare_digest(_digest(token), _digest(self._program)):
                return BrowserSession("", self._program)
            self._failures.append(self._clock())
            return None

    @staticmethod
    def same(one: str, other: str) -> bool:
        return secrets.compare_digest(_digest(one), _digest(other))

    def leave(self, session: BrowserSession) -> None:
        with self._lock:
            self._sessions.pop(_digest(session.cookie), None)

    def rotate(self) -> BrowserSession:
        """End every session and every link, replace the token of programs, and open a new session."""
        with self._lock:
            self._sessions.clear()
            self._links.clear()
            self._program = self._chosen or secrets.token_urlsafe(32)
            return self._opened()

    def _opened(self) -> BrowserSession:
        session = BrowserSession(secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        self._sessions[_digest(session.cookie)] = session
        return session

    def _refuse_guesses(self) -> None:
        since = self._clock() - FAILURE_SECONDS
        self._failures = [at for at in self._failures if at > since]
        if len(self._failures) >= MOST_FAILURES:
            raise TooManyFailures


def _digest(token: str) -> bytes:
    """Tokens are found and compared by their hash: how long that takes tells nothing of them."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
