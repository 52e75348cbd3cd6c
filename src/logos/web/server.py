"""The server process: listens, says where, and leaves in order."""

import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from logos.app.web_address import forget_address, publish_address
from logos.errors import UsageError
from logos.web.access import SHORTEST_TOKEN, Access
from logos.web.app import make_app
from logos.web.feeds import Feeds
from logos.web.options import WebOptions
from logos.web.security import ENTER

DEFAULT_PORT = 8765
LOOPBACK = ("127.0.0.1", "::1", "localhost")
# Open streams would keep a server that is to end for ever.
GOODBYE_SECONDS = 2
MOST_CONNECTIONS = 500


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that listens: its address, a link that opens one session, and the token of programs."""

    url: str
    link: str
    token: str
    port: int


class PageServer(uvicorn.Server):
    """To be asked to end is no error of a server; its streams end with it."""

    def __init__(self, config: uvicorn.Config, app: Starlette) -> None:
        super().__init__(config)
        self._feeds: Feeds = app.state.feeds

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn calls it
        self.force_exit = self.should_exit
        self.should_exit = True
        self._feeds.end()


def page_server(app: Starlette) -> PageServer:
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=GOODBYE_SECONDS,
    )
    return PageServer(config, app)


def check(options: WebOptions) -> None:
    """Refuse to be reached from elsewhere without a token that the person chose."""
    if options.host not in LOOPBACK and not options.token:
        raise UsageError(f"--host {options.host} can be reached by others: choose a token with --token")
    if options.token and (len(options.token) < SHORTEST_TOKEN or not options.token.isascii()):
        raise UsageError(f"--token: use at least {SHORTEST_TOKEN} ASCII characters")


def serve(
    options: WebOptions, port: int | None, started: Callable[[Serving], None], another: Callable[[str], None]
) -> None:
    """Serve until a signal; `started` is told where, and `another` a new link whenever Enter is pressed."""
    check(options)
    listening = _listen(options.host, port)
    own_port = listening.getsockname()[1]
    access = Access(options.token)
    url = f"http://{_name(options.host)}:{own_port}"
    app = make_app(options, access)
    publish_address(url)
    try:
        started(Serving(url, f"{url}{ENTER}#{access.link()}", access.token, own_port))
        if sys.stdin is not None and sys.stdin.isatty():
            threading.Thread(target=_offer_links, args=(url, access, another), daemon=True).start()
        threading.Thread(target=app.state.overviews.warm_up, daemon=True).start()
        page_server(app).run(sockets=[listening])
    finally:
        forget_address(url)
        listening.close()


def _name(host: str) -> str:
    """How a browser on this machine calls it."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _listen(host: str, port: int | None) -> socket.socket:
    """The port that was asked for; else the usual one, or any other if that is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    wanted, failed = (port,) if port is not None else (DEFAULT_PORT, 0), ""
    for number in wanted:
        try:
            return socket.create_server((host, number), family=family)
        except (OSError, OverflowError) as error:
            failed = getattr(error, "strerror", None) or str(error)
    raise UsageError(f"cannot listen on {host}, port {wanted[0]}: {failed}")


def _offer_links(url: str, access: Access, another: Callable[[str], None]) -> None:
    """A link works once; the next browser needs another."""
    for _ in sys.stdin:
        another(f"{url}{ENTER}#{access.link()}")


def open_browser(link: str) -> bool:
    """Open the link, where there is a screen; a browser in the terminal would only be in the way."""
    screen = sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")))
    return bool(screen) and webbrowser.open(link)
