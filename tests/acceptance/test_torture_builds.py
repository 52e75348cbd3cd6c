"""A random walk over builds: driven, killed, forked, rolled back, reset, and edited by the person between."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.builds import BUILDS
from tests.torture.seeds import SEEDS, STEPS
from tests.torture.walk import Walk


@pytest.mark.scenario("LOG-15")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("seed", "steps"),
    [pytest.param(seed, STEPS, marks=[pytest.mark.long, pytest.mark.torture]) for seed in SEEDS],
)
def test_nothing_is_lost_or_repeated_whatever_happens_to_builds(seed: str, steps: int, tmp_path: Path) -> None:
    with Walk(BUILDS, tmp_path, seed) as walk:
        walk.go(steps)
