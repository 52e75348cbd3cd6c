"""Where the page of this user is served, for messages that point to it. The address has no token."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from logos.adapters.files import bytes_of_file, write_atomically
from logos.adapters.store.mirror import state_folder
from logos.adapters.supervisor import identity
from logos.errors import LogosError

FILE = "web.json"
_MAX_BYTES = 10_000


def _path() -> Path:
    return state_folder() / FILE


def publish_address(url: str) -> None:
    """Say where this process serves the page; the newest server counts."""
    own = os.getpid()
    with suppress(OSError, LogosError):
        write_atomically(_path(), json.dumps({"url": url, "pid": own, "process": identity(own)}) + "\n")


def forget_address(url: str) -> None:
    """Remove what this process has said, unless another server has replaced it."""
    with suppress(OSError, LogosError):
        known = _known()
        if known.get("pid") == os.getpid() and known.get("url") == url:
            _path().unlink()


def web_address() -> str:
    """The address of the page, if its server runs; empty otherwise."""
    try:
        known = _known()
        pid, process = known["pid"], tuple(known["process"])
        alive = isinstance(pid, int) and process == identity(pid)
        return str(known["url"]) if alive else ""
    except (OSError, LogosError, KeyError, TypeError):
        return ""


def _known() -> dict[str, Any]:
    try:
        data: Any = json.loads(bytes_of_file(_path(), limit=_MAX_BYTES))
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}
