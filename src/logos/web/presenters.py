"""What templates show of runs: values ready to print."""

from collections.abc import Callable
from typing import Any

# Filters of templates, by name.
FILTERS: dict[str, Callable[..., Any]] = {}
