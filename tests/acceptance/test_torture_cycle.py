"""A random walk over runs of the cycle: driven, killed, forked, rolled back, reset, and edited by the person between."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.torture.cycle import CYCLE
from tests.torture.walk import Walk

SEED = os.environ.get("TORTURE_SEED", "5")
STEPS = int(os.environ.get("TORTURE_STEPS") or 204) // 2


@pytest.mark.scenario("LOG-15")
@pytest.mark.timeout(120 + 3 * STEPS)
def test_nothing_is_lost_or_repeated_whatever_happens_to_runs_of_the_cycle(tmp_path: Path) -> None:
    with Walk(CYCLE, tmp_path, SEED) as walk:
        walk.go(STEPS)
