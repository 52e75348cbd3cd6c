"""Files that a person asks a command to write."""

from __future__ import annotations

from pathlib import Path

from logos.adapters.files import write_atomically
from logos.errors import UsageError


def write_output(path: Path, text: str, *, force: bool) -> None:
    """Write a file as a whole or not at all."""
    if path.exists() and not force:
        raise UsageError(f"{path} exists, not overwritten (use --force)")
    write_atomically(path.expanduser().absolute(), text)
