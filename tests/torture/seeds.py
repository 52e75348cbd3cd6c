"""The seeds of the walks that every long run takes; one that `make fuzz` found to fail is added here.

A walk whose seed ends in `-timed` also kills at moments by the clock, so that no two walks are the same.
"""

from __future__ import annotations

import os

SEEDS = (os.environ["TORTURE_SEED"],) if "TORTURE_SEED" in os.environ else ("5",)
STEPS = int(os.environ.get("TORTURE_STEPS") or 100)
