"""What `logos web` was started with."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WebOptions:
    """`wds` limits the work dirs that are shown; none: every one that this user has. `token` is a person's own."""

    wds: tuple[Path, ...] = ()
    host: str = "127.0.0.1"
    token: str = ""
    read_only: bool = False
