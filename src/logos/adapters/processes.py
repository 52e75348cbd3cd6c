"""The processes that this one was started by, as far as the system tells: their environments."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from logos.adapters.supervisor import stat_of

# More than any chain of processes has; parents cannot form a circle, but pids are reused.
_MOST = 1000


def environments() -> Iterator[Mapping[str, str]]:
    """The environment of this process now, as it was when it started, and those of its ancestors.

    A process can change its own, and give another one to what it starts; it cannot change that of its ancestors. Only
    Linux tells; those of other users are left out.
    """
    yield os.environ
    pid = os.getpid()
    for _ in range(_MOST):
        with suppress(OSError):
            yield _parsed(Path(f"/proc/{pid}/environ").read_bytes())
        fields = stat_of(pid)
        pid = int(fields[1]) if len(fields) > 1 else 0
        if pid <= 0:
            return


def _parsed(data: bytes) -> dict[str, str]:
    variables = (os.fsdecode(variable).partition("=") for variable in data.split(b"\0") if b"=" in variable)
    return {name: value for name, _, value in variables}
