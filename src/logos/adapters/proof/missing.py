"""What a work dir has that no snapshot has: submodules, contents of Git LFS, and files that are too large."""

import os

from logos.adapters.git.command import Git, text_of
from logos.adapters.git.commits import LARGEST_FILE
from logos.adapters.proof.checkout import Checkouts, SnapshotStore
from logos.adapters.proof.trees import NESTED, Entries

_POINTER = b"version https://git-lfs.github.com/spec/"
_LARGEST_POINTER = 1_024
_MOST_NAMED = 5


def not_in_rooms(checkouts: Checkouts, entries: Entries) -> str:
    """In words; empty if nothing is missing."""
    nested = [path for path, entry in entries.items() if entry.mode == NESTED]
    kinds = (
        ("the content of the submodules", nested),
        ("the content of the Git LFS files", _pointers(checkouts, entries)),
        (f"the files over {LARGEST_FILE // 10**6} MB", _too_large(checkouts.store, entries)),
    )
    return "; ".join(f"{what} {_named(paths)}" for what, paths in kinds if paths)


def _pointers(checkouts: Checkouts, entries: Entries) -> list[bytes]:
    rules = [entry for path, entry in entries.items() if path.rpartition(b"/")[2] == b".gitattributes"]
    if not any(b"filter=lfs" in text for text in checkouts.contents(rules, 1_000_000).values()):
        return []
    small = checkouts.contents(entries.values(), _LARGEST_POINTER)
    return [path for path, entry in entries.items() if small.get(entry.blob, b"").startswith(_POINTER)]


def _too_large(store: SnapshotStore, entries: Entries) -> list[bytes]:
    """Files that git knows or would add, and that no snapshot has because of their size."""
    if store.common is None:
        return []
    listed = Git(store.work_dir).run("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--full-name")
    missing = {path for path in listed.stdout.split(b"\0") if path} - entries.keys()
    return sorted(path for path in missing if _size(os.path.join(os.fsencode(store.top), path)) > LARGEST_FILE)


def _size(path: bytes) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _named(paths: list[bytes]) -> str:
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return ", ".join(text_of(path) for path in sorted(paths)[:_MOST_NAMED]) + more
