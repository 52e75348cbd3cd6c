"""`logos web`: watch and steer every run in a browser."""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from logos.app.database import refuse_database
from logos.app.person import require_person
from logos.app.workdir import place_of
from logos.cli.options import AsJson, command, flag, value
from logos.cli.output import console as show
from logos.errors import UsageError
from logos.web.options import WebOptions

# What the extra [web] installs.
NEEDED = ("starlette", "uvicorn")
MISSING = (
    "logos web needs the extra [web]: `pipx inject logos-agents starlette uvicorn`, or install `logos-agents[web]`"
)
WORK_DIRS = "Show only this work dir; repeatable. Default: all of yours that have a run."
TOKEN = "A token of your own, at least 16 characters; - reads it from stdin, so that no process list shows it."
LOOPBACK_ONLY = "127.0.0.1"


@command(
    "logos web                                     # on this machine only; prints and opens a link that works once",
    "logos web --wd ~/shop --read-only             # one work dir, and nothing can be done",
    "ssh -L 8765:127.0.0.1:8765 server             # from another machine; then open the link that it printed",
    "logos web --host 0.0.0.0 --token - < token    # for others, behind a proxy with TLS",
)
def web(
    wd: Annotated[list[Path] | None, Option(metavar="DIR", help=WORK_DIRS)] = None,
    host: Annotated[str, value("ADDRESS", "Listen on another address than loopback; needs --token.")] = LOOPBACK_ONLY,
    port: Annotated[int | None, value("PORT", "Default: 8765, or another one if that is taken.")] = None,
    token: Annotated[str, value("TOKEN", TOKEN)] = "",
    read_only: Annotated[bool, flag("--read-only", "Show runs; refuse every verb.")] = False,
    no_open: Annotated[bool, flag("--no-open", "Print the link without opening it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Serve a page that shows every run, live or finished, and steers them; Ctrl-C ends it, runs go on.

    The page has all your rights on this machine: keep its links to yourself. docs/how-to/web.md has the details.
    """
    if any(find_spec(name) is None for name in NEEDED):
        raise UsageError(MISSING)
    refuse_database("logos web")
    places = tuple(place_of(folder) for folder in wd or ())
    require_person(places[0] if places else Path.cwd(), "serve the page")
    chosen = sys.stdin.readline().strip() if token == "-" else token
    options = WebOptions(places, host, chosen, read_only)
    # Imported only now: it needs the extra.
    server: Any = import_module("logos.web.server")

    def started(serving: Any) -> None:
        if as_json:
            document = {"url": serving.url, "link": serving.link, "token": serving.token, "port": serving.port}
            show.document({**document, "read_only": read_only})
        else:
            _put_start(serving.url, serving.link, options)
        if not no_open:
            server.open_browser(serving.link)

    server.serve(options, port, started, _put_link)


def _put_link(link: str) -> None:
    show.tell(f"another link, which works once: {link}")


def _put_start(url: str, link: str, options: WebOptions) -> None:
    target = show.console()
    show.put(target, f"the page is at {url}; this link opens it once:", "bold")
    show.put(target, link, whole=True)
    if sys.stdin.isatty():
        show.put(target, "Enter prints another link, Ctrl-C ends the page; runs go on", "dim")
    if options.host != LOOPBACK_ONLY:
        show.tell("warning: others can reach this address, and nothing is encrypted: put a proxy with TLS before it")
