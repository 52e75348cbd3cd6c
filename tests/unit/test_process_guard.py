"""Unit tests cannot start processes, also where the code under test swallows the error."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

WAYS = {
    "subprocess": lambda: subprocess.run(["true"], check=False),
    "a shell": lambda: os.system("true"),
    "a fork": os.fork,
    "posix_spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
}


@pytest.mark.parametrize("start", WAYS.values(), ids=WAYS)
def test_a_unit_test_cannot_start_a_process(start: Callable[[], object], no_processes: Any) -> None:
    with pytest.raises(RuntimeError, match="a unit test starts a process"):
        start()
    with suppress(RuntimeError):
        start()
    assert len(no_processes.refused) == 2
    # Otherwise this test would fail at its end.
    no_processes.refused.clear()
