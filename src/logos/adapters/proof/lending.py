"""Folders of dependencies, lent from the work tree; one that has changed since the baseline proves nothing."""

import hashlib
import os
import stat
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from logos.adapters.files import bytes_of_file, remove, text_of_file
from logos.adapters.git.command import text_of
from logos.adapters.programs import find_program
from logos.adapters.proof.checkout import SnapshotStore
from logos.adapters.proof.trees import Entries
from logos.domain.proof import LentFolder
from logos.errors import HostError

# Dependency folders, and the files beside which they are looked for; all of them at the top and in the work dir.
# Not the output of builds, such as `target`: every test run changes it, and a room builds its own.
_FOLDERS = {
    b"package.json": ("node_modules",),
    b"pyproject.toml": (".venv", "venv"),
    b"setup.py": (".venv", "venv"),
    b"requirements.txt": (".venv", "venv"),
    b"composer.json": ("vendor",),
    b"Gemfile": ("vendor",),
    b"go.mod": ("vendor",),
    b"mix.exs": ("deps",),
    b"bower.json": ("bower_components",),
}
DEPENDENCIES = tuple(dict.fromkeys(name for names in _FOLDERS.values() for name in names))
# Caches that tools write inside such folders: not part of the digest, and empty in a room.
_CACHES = (".cache", ".vite", ".vite-temp", ".vitest")
# Python finds its own compiled modules elsewhere in a room (PYTHONPYCACHEPREFIX).
_COMPILED = "__pycache__"
_POINTERS = (".pth", ".egg-link", "direct_url.json")
_FINDER = "__editable__"
_LARGEST_POINTER = 1_000_000
# Mounting them takes 0.1 s; 1000 take 1.6 s, but vite ends with an error where it cannot make its cache.
_MOST_PARTS = 200
_MOST_PARTS_OF_VITE = 1_000
_COPY_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Borrowed:
    """A lent folder: its path relative to the top of the work tree, where it is, the caches in it, and its digest."""

    path: str
    source: Path
    caches: tuple[str, ...]
    digest: str
    # What is directly in it, without caches, where a room can have a folder of its own with these things in it.
    parts: tuple[str, ...] = ()
    # A file that leads out of the folder into the work tree; empty if there is none.
    pointer: str = ""

    @property
    def record(self) -> LentFolder:
        return LentFolder(self.path, self.digest)


@dataclass(slots=True)
class Lender:
    """Finds the folders and their digests. Contents of files with several names are read once."""

    store: SnapshotStore
    _read: dict[tuple[int, ...], str] = field(default_factory=dict[tuple[int, ...], str])

    def borrow(self, entries: Entries) -> tuple[Borrowed, ...]:
        """Every dependency folder that is in the work tree and not in a snapshot."""
        return tuple(self._borrowed(path) for path in sorted(self._found(entries)))

    def _found(self, entries: Entries) -> Iterator[str]:
        tracked = _folders_of(entries)
        beside = dict(_beside_manifests(entries))
        for folder in ("", os.fsdecode(self.store.prefix).rstrip("/")):
            beside[folder] = DEPENDENCIES
        for folder, names in beside.items():
            for name in names:
                path = os.path.join(folder, name)
                taken = os.fsencode(path) in tracked or os.fsencode(path) in entries
                if not taken and (self.store.top / path).is_dir():
                    yield path

    def _borrowed(self, path: str) -> Borrowed:
        source = (self.store.top / path).resolve()
        hashed, pointer = hashlib.sha256(), ""
        for name, about in sorted(_files(os.fsencode(source))):
            hashed.update(name + b"\0" + self._mark(os.path.join(os.fsencode(source), name), about) + b"\n")
            pointer = pointer or self._leads_back(source, name, about)
        caches = tuple(name for name in _CACHES if (source / name).is_dir())
        return Borrowed(path, source, caches, hashed.hexdigest(), _parts(source), pointer)

    def _mark(self, full: bytes, about: os.stat_result) -> bytes:
        """What changes when a file changes. A new hard link changes the time of a file: then its content counts."""
        if about.st_nlink == 1 or not stat.S_ISREG(about.st_mode):
            return b"%d %d %d %o" % (about.st_ino, about.st_ctime_ns, about.st_size, about.st_mode)
        key = (about.st_dev, about.st_ino, about.st_ctime_ns, about.st_mtime_ns, about.st_size)
        if key not in self._read:
            with open(full, "rb") as source:
                self._read[key] = hashlib.file_digest(source, "sha256").hexdigest()
        return b"%d %o %s" % (about.st_size, about.st_mode, self._read[key].encode())

    def _leads_back(self, source: Path, name: bytes, about: os.stat_result) -> str:
        """The name of a file that makes tools use the work tree itself."""
        full, text = source / os.fsdecode(name), os.fsdecode(name)
        tops = (os.fsencode(self.store.top), os.fsencode(os.path.realpath(self.store.top)))
        if stat.S_ISLNK(about.st_mode):
            target = os.fsencode(os.readlink(full))
            inside = target.startswith(os.fsencode(source) + b"/")
            return text if not inside and target.startswith(tuple(top + b"/" for top in tops)) else ""
        if not (text.endswith(_POINTERS) or _FINDER in os.path.basename(text)) or not stat.S_ISREG(about.st_mode):
            return ""
        try:
            content = bytes_of_file(full, limit=_LARGEST_POINTER)
        except OSError:
            return text
        return text if any(top in content for top in tops) else ""


def _folders_of(entries: Entries) -> set[bytes]:
    found: set[bytes] = set()
    for path in entries:
        folder = path.rpartition(b"/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition(b"/")[0]
    return found


def _beside_manifests(entries: Entries) -> Iterator[tuple[str, tuple[str, ...]]]:
    found: dict[bytes, tuple[str, ...]] = {}
    for path in entries:
        folder, _, name = path.rpartition(b"/")
        if name in _FOLDERS:
            found[folder] = (*found.get(folder, ()), *_FOLDERS[name])
    for folder, names in found.items():
        yield os.fsdecode(folder), tuple(dict.fromkeys(names))


def _parts(source: Path) -> tuple[str, ...]:
    """Empty where there are too many to mount each of them."""
    names = tuple(sorted(name for name in os.listdir(source) if name not in _CACHES))
    most = _MOST_PARTS_OF_VITE if "vite" in names else _MOST_PARTS
    return names if len(names) <= most else ()


def _files(source: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """Every file and link below a folder with its state, without caches."""
    pending, caches = [b""], {os.fsencode(name) for name in _CACHES}
    while pending:
        below = pending.pop()
        try:
            with os.scandir(os.path.join(source, below)) as found:
                for item in found:
                    if item.name == _COMPILED.encode() or (not below and item.name in caches):
                        continue
                    path = os.path.join(below, item.name)
                    if item.is_dir(follow_symlinks=False):
                        pending.append(path)
                    else:
                        yield path, item.stat(follow_symlinks=False)
        except OSError as error:
            raise HostError(f"cannot read {text_of(os.path.join(source, below))}: {error.strerror}") from error


def changed(now: Iterable[LentFolder], before: Iterable[LentFolder]) -> tuple[str, ...]:
    """The lent folders that are not as they were at the baseline."""
    new, old = ({folder.path: folder.digest for folder in some} for some in (now, before))
    return tuple(sorted(path for path in {*new, *old} if new.get(path) != old.get(path)))


def collides(borrowed: Borrowed, entries: Entries) -> bool:
    """Whether a tree has files of its own at the place of a lent folder."""
    path = os.fsencode(borrowed.path)
    return any(other == path or other.startswith(path + b"/") for other in entries)


def pointers_outside(store: SnapshotStore, installations: Iterable[Path]) -> list[str]:
    """Files of Python environments outside the work tree that lead into it, as `pip install --editable` makes them."""
    top = os.fsencode(store.top)
    found: list[str] = []
    for folder in installations:
        for site in (*folder.glob("lib/python3*/*-packages"), *folder.glob("versions/*/lib/python3*/*-packages")):
            names = (*site.glob("*.pth"), *site.glob("*.egg-link"), *site.glob(f"{_FINDER}*"))
            found += [str(name) for name in names if top in _content(name)]
    return found


def interpreters(borrowed: Iterable[Borrowed]) -> list[Path]:
    """The installations of Python that lent environments were made from."""
    found: list[Path] = []
    for folder in borrowed:
        for line in text_of_file(folder.source / "pyvenv.cfg").splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "home" and os.path.isabs(value.strip()):
                found.append(Path(value.strip()).parent)
    return found


def _content(file: Path) -> bytes:
    try:
        return bytes_of_file(file, limit=_LARGEST_POINTER, follow=True)
    except OSError:
        return b""


def copy(borrowed: Borrowed, tree: Path, work_dir: Path) -> None:
    """Copy a lent folder into a tree, sharing its blocks where the file system can."""
    target = tree / borrowed.path
    target.parent.mkdir(parents=True, exist_ok=True)
    program = find_program("cp", work_dir)
    for words in (["-a", "--reflink=auto"], ["-R", "-p"]):
        done = subprocess.run(
            [program, *words, f"{borrowed.source}/", str(target)],
            capture_output=True,
            timeout=_COPY_SECONDS,
            check=False,
        )
        if done.returncode == 0:
            for name in borrowed.caches:
                remove(target / name, target)
            return
    raise HostError(f"cannot copy {borrowed.source}: {text_of(done.stderr).strip()}")
