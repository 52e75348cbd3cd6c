"""Each process of a test run begins to read elsewhere, and reads everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.collecting import from_own_beginning

FILES = [Path(name) for name in "abcdef"]


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("sizes", [[1] * 6, [50, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 50]])
def test_every_worker_reads_every_file_and_one_begins_at_the_first(workers: int, sizes: list[int]) -> None:
    found = [from_own_beginning(FILES, sizes, worker, workers) for worker in range(workers)]
    assert found[0] == FILES
    assert all(sorted(files) == FILES for files in found)


def test_workers_begin_where_the_text_is_shared_out_evenly() -> None:
    begun = [from_own_beginning(FILES, [10, 10, 1, 1, 1, 17], worker, 2)[0] for worker in range(2)]
    assert begun == [Path("a"), Path("c")]
