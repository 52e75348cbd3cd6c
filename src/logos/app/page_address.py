"""Where the page of this machine is, if `logos web` runs."""

import json
import os
import re
from contextlib import suppress
from typing import Any

from logos.adapters.files import bytes_of_file
from logos.adapters.store.mirror import state_folder

# The server writes it into the user state folder: its address without a token, and its process.
WEB = "web.json"
_ADDRESS = re.compile(r"https?://[^\s/]+")
_MAX_BYTES = 10_000


def page_address(run: str) -> str:
    """The address of a run's page, without a token: who opens it must have been let in before. Empty without a page."""
    with suppress(OSError, ValueError, RecursionError, TypeError, OverflowError, KeyError):
        found: Any = json.loads(bytes_of_file(state_folder() / WEB, limit=_MAX_BYTES))
        address = str(found["address"]).rstrip("/")
        if _ADDRESS.fullmatch(address) and _lives(int(found["pid"])):
            return f"{address}/runs/{run}"
    return ""


def _lives(pid: int) -> bool:
    # ProcessLookupError is an OSError: whoever asks takes it as no page.
    with suppress(PermissionError):
        os.kill(pid, 0)
    return True
