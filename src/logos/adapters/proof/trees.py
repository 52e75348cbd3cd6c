"""Trees as git hashes them, computed here: no object and no index that an agent can write to is believed."""

import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

FILE, EXECUTABLE, LINK, NESTED = "100644", "100755", "120000", "160000"
_FOLDER = b"40000"
_CHUNK = 1 << 20

Entries = Mapping[bytes, "TreeEntry"]


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file of a tree: git's mode and the hash of its content."""

    mode: str
    blob: str


def object_hash(kind: str, content: bytes, algorithm: str) -> str:
    return hashlib.new(algorithm, b"%s %d\0" % (kind.encode(), len(content)) + content).hexdigest()


def tree_hash(entries: Entries, algorithm: str) -> str:
    """The hash of the tree with these files."""
    folders: dict[bytes, dict[bytes, tuple[bytes, str]]] = {b"": {}}
    for path, entry in entries.items():
        folder, _, name = path.rpartition(b"/")
        for above in _with_parents(folder, folders):
            folders[above] = {}
        # Git sorts a folder as if its name ended with a slash.
        folders[folder][name] = (b"%s %s\0" % (entry.mode.encode(), name), entry.blob)
    for folder in sorted(filter(None, folders), key=lambda folder: folder.count(b"/"), reverse=True):
        above, _, name = folder.rpartition(b"/")
        folders[above][name + b"/"] = (b"%s %s\0" % (_FOLDER, name), _hash_of(folders[folder], algorithm))
    return _hash_of(folders[b""], algorithm)


def _with_parents(folder: bytes, known: Mapping[bytes, object]) -> Iterator[bytes]:
    while folder not in known:
        yield folder
        folder = folder.rpartition(b"/")[0]


def _hash_of(listed: Mapping[bytes, tuple[bytes, str]], algorithm: str) -> str:
    rows = (head + bytes.fromhex(name) for _, (head, name) in sorted(listed.items()))
    return object_hash("tree", b"".join(rows), algorithm)


def put(entries: dict[bytes, TreeEntry], path: bytes, entry: TreeEntry | None) -> None:
    """Put a file at a path, or nothing. A file in place of one of its folders goes, and a folder of its name, too."""
    parts = path.split(b"/")
    for depth in range(1, len(parts)):
        if entry is not None:
            entries.pop(b"/".join(parts[:depth]), None)
    entries.pop(path, None)
    if entry is not None:
        for below in [other for other in entries if other.startswith(path + b"/")]:
            del entries[below]
        entries[path] = entry


@dataclass(slots=True)
class FolderScan:
    """Hashes the files of a folder as they are now; one that has not changed since the last look is not read again."""

    folder: bytes
    algorithm: str
    _known: dict[bytes, tuple[tuple[int, ...], TreeEntry]] = field(
        default_factory=dict[bytes, tuple[tuple[int, ...], TreeEntry]]
    )

    def entries(self, skipped: Collection[bytes] = ()) -> dict[bytes, TreeEntry]:
        """Every file and link below the folder, without these paths; links are not followed."""
        return {path: self._entry(path, about) for path, about in self._files(frozenset(skipped))}

    def entry(self, path: bytes) -> TreeEntry | None:
        try:
            about = os.lstat(os.path.join(self.folder, path))
        except OSError:
            return None
        return None if stat.S_ISDIR(about.st_mode) else self._entry(path, about)

    def files_in(self, folder: bytes) -> list[bytes]:
        """The files and links directly in a folder below this one, if there is one that is no link."""
        full = os.path.join(self.folder, folder)
        if os.path.realpath(full) != os.path.join(os.path.realpath(self.folder), folder).rstrip(b"/"):
            return []
        try:
            with os.scandir(full) as found:
                names = [item.name for item in found if not item.is_dir(follow_symlinks=False)]
        except OSError:
            return []
        return [os.path.join(folder, name) for name in names]

    def _files(self, skipped: frozenset[bytes]) -> Iterator[tuple[bytes, os.stat_result]]:
        pending = [b""]
        while pending:
            below = pending.pop()
            with os.scandir(os.path.join(self.folder, below)) as found:
                for item in found:
                    path = os.path.join(below, item.name)
                    if path in skipped:
                        continue
                    if item.is_dir(follow_symlinks=False):
                        pending.append(path)
                    else:
                        yield path, item.stat(follow_symlinks=False)

    def _entry(self, path: bytes, about: os.stat_result) -> TreeEntry:
        mark = (about.st_ino, about.st_ctime_ns, about.st_mtime_ns, about.st_size, about.st_mode)
        known = self._known.get(path)
        if known is not None and known[0] == mark:
            return known[1]
        entry = self._read(os.path.join(self.folder, path), about)
        self._known[path] = (mark, entry)
        return entry

    def _read(self, full: bytes, about: os.stat_result) -> TreeEntry:
        if stat.S_ISLNK(about.st_mode):
            return TreeEntry(LINK, object_hash("blob", os.readlink(full), self.algorithm))
        if not stat.S_ISREG(about.st_mode):
            # A pipe or a device, which no tree has.
            return TreeEntry("", "")
        hashed = hashlib.new(self.algorithm, b"blob %d\0" % about.st_size)
        with open(os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb", 0) as source:
            while chunk := source.read(_CHUNK):
                hashed.update(chunk)
        return TreeEntry(EXECUTABLE if about.st_mode & stat.S_IXUSR else FILE, hashed.hexdigest())
