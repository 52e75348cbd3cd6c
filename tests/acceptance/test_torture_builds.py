"""A random walk over builds: driven, killed, forked, rolled back, reset, and edited by the person between."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.torture.builds import BUILDS
from tests.torture.walk import Walk

SEED = os.environ.get("TORTURE_SEED", "5")
STEPS = int(os.environ.get("TORTURE_STEPS") or 204) // 2


@pytest.mark.scenario("LOG-15")
@pytest.mark.timeout(120 + 3 * STEPS)
def test_nothing_is_lost_or_repeated_whatever_happens_to_builds(tmp_path: Path) -> None:
    with Walk(BUILDS, tmp_path, SEED) as walk:
        walk.go(STEPS)
