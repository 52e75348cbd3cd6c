"""How the processes of one test run share the reading of test files: each of them begins with another file.

pytest rewrites the assertions of a file it reads for the first time, which takes most of the reading, and keeps the
result. Processes that read in the same order at the same time would each rewrite every file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path


def test_files(folders: Iterable[Path]) -> list[Path]:
    """The files with tests, in the order in which their tests run."""
    return [path for folder in folders for path in sorted(folder.rglob("test_*.py"))]


def from_own_beginning(files: Sequence[Path], sizes: Sequence[int], worker: int, workers: int) -> list[Path]:
    """All files, beginning where the share of this worker does if each has the same amount of text."""
    before, whole = 0, sum(sizes)
    for number, size in enumerate(sizes):
        if before * workers >= whole * worker:
            return [*files[number:], *files[:number]]
        before += size
    return [*files]
