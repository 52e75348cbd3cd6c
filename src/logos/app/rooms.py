"""Clean rooms for a work dir: where its snapshots are, and a prover that checks them out."""

from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from logos.adapters.acceptance.folder import find_tests
from logos.adapters.git.command import Git, checked_commit, is_repository
from logos.adapters.proof.checkout import SnapshotStore, repository_store
from logos.adapters.proof.copies import TreeCopies
from logos.adapters.proof.prover import RoomProver
from logos.adapters.proof.sealing import FindTests, SealingProver


def store_with(work_dir: Path, commit: str) -> SnapshotStore:
    """The store that has a snapshot of a work dir: its repository, or copies in the user state folder."""
    if is_repository(work_dir) and Git(work_dir).commit(checked_commit(commit)):
        return repository_store(work_dir)
    return TreeCopies(work_dir).store


@contextmanager
def open_prover(store: SnapshotStore, find: FindTests = find_tests) -> Generator[SealingProver]:
    """`find` tells the texts of blind acceptance tests."""
    with closing(RoomProver(store.work_dir, store)) as rooms:
        yield SealingProver(rooms, find)
