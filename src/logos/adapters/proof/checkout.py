"""Fresh checkouts of snapshots: bytes as they are stored, no hooks, no filters, and every hash computed here.

Agents can write to the repository's objects: what git reads there counts only if it has the hash that was asked for.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from logos.adapters.files import private_folder, remove
from logos.adapters.git.command import Git, Settings, checked_commit, repository_of, text_of
from logos.adapters.git.commits import Extent
from logos.adapters.proof.rooms import Room
from logos.adapters.proof.trees import FILE, NESTED, Entries, FolderScan, TreeEntry, object_hash, put, tree_hash
from logos.errors import HostError

# Bytes as stored: no line ends, keywords, encodings or filters, whatever attributes the tree has.
AS_STORED = "* -text -ident -filter !eol !working-tree-encoding\n"
_NOBODYS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_NO_REPLACE_OBJECTS": "1"}
_PLAIN: Settings = (("core.symlinks", "true"), ("core.fileMode", "true"), ("core.autocrlf", "false"))
_DOT_GIT = b".git"
_MOST_NAMED = 5


class NotAsStored(HostError):
    """A snapshot cannot be read, or the repository holds something else under its hash."""


@dataclass(frozen=True, slots=True)
class SnapshotStore:
    """Where the snapshots of a work dir are: its objects, and the work tree that they are of.

    `prefix` is the work dir relative to the top, empty or with a slash at its end. `common` is the GIT_DIR of the
    person's repository; None where there is none.
    """

    work_dir: Path
    top: Path
    prefix: str
    objects: Path
    algorithm: str = "sha1"
    common: Path | None = None


def repository_store(work_dir: Path) -> SnapshotStore:
    """The store of a work dir whose snapshots are in its own repository."""
    found = repository_of(work_dir.resolve())
    algorithm = Git(work_dir).line("rev-parse", "--show-object-format")
    return SnapshotStore(work_dir.resolve(), found.top, found.prefix, found.common / "objects", algorithm, found.common)


@dataclass(frozen=True, slots=True)
class _Commit:
    """Tree and first parent of a commit, and what it is a snapshot of."""

    tree: str
    parent: str
    extent: Extent


class Checkouts:
    """Reads snapshots with a GIT_DIR of our own and puts their files into rooms."""

    def __init__(self, store: SnapshotStore, home: Path) -> None:
        self.store = store
        self._home = home
        self._entries: dict[str, Entries] = {}
        self._commits: dict[str, _Commit] = {}
        self._tags: Mapping[str, str] | None = None
        self._git = self._prepare()

    def _prepare(self) -> Git:
        bare_git_dir(self._home, self.store.algorithm)
        (self._home / "info" / "attributes").write_text(AS_STORED)
        variables = {"GIT_DIR": str(self._home), "GIT_OBJECT_DIRECTORY": str(self.store.objects), **_NOBODYS}
        return Git(self._home, variables, root=self.store.work_dir, is_disarmed=True).with_settings(_PLAIN)

    # -- reading

    def parent(self, commit: str) -> str:
        """The person's HEAD when a snapshot was taken; empty if there was none."""
        return self._commit(commit).parent

    def missing(self, commit: str) -> dict[bytes, str]:
        """The files that were there when a snapshot was taken, and could not be stored, with the reason."""
        return {os.fsencode(path): why for path, why in self._commit(commit).extent.missing}

    def entries(self, commit: str, around: str) -> Entries:
        """The files of a snapshot, and outside the work dir those that the commit `around` has, if any."""
        own = self._listed(commit)
        prefix = os.fsencode(self.store.prefix)
        # The commit of a build has the whole tree.
        is_whole = self._commit(commit).extent.whole or any(not path.startswith(prefix) for path in own)
        if not prefix or not around or is_whole:
            return own
        others = {path: it for path, it in self._listed(around).items() if not path.startswith(prefix)}
        return {**others, **own}

    def contents(self, entries: Iterable[TreeEntry], largest: int) -> dict[str, bytes]:
        """The contents of these files by their hash, without links, nested repositories and larger ones."""
        wanted = {entry.blob for entry in entries if entry.mode.startswith("100")}
        found = self._git.blobs(wanted, largest) if wanted else {}
        for blob, content in found.items():
            if object_hash("blob", content, self.store.algorithm) != blob:
                raise NotAsStored(f"the object {blob} of the repository has another content than its name says")
        return found

    def _listed(self, commit: str) -> Entries:
        if commit in self._entries:
            return self._entries[commit]
        tree = self._commit(commit).tree
        done = self._git.run("ls-tree", "-r", "-z", "--full-tree", tree)
        if done.returncode != 0:
            raise NotAsStored(f"the tree of the snapshot {commit[:12]} cannot be read from the repository")
        rows = (row.partition(b"\t") for row in done.stdout.split(b"\0") if row)
        found = {path: TreeEntry((about := head.decode().split())[0], about[2]) for head, _, path in rows}
        if tree_hash(found, self.store.algorithm) != tree:
            raise NotAsStored(f"the repository has another tree than that of the snapshot {commit[:12]}")
        self._entries[commit] = found
        return found

    def _commit(self, commit: str) -> "_Commit":
        if commit not in self._commits:
            done = self._git.run("cat-file", "commit", checked_commit(commit))
            if done.returncode != 0:
                raise NotAsStored(f"the snapshot {commit[:12]} is not in the repository")
            if object_hash("commit", done.stdout, self.store.algorithm) != commit:
                raise NotAsStored(f"the repository has another commit under the name of the snapshot {commit[:12]}")
            head, _, message = done.stdout.decode("utf-8", "replace").partition("\n\n")
            fields = [line.partition(" ") for line in head.splitlines()]
            found = {key: value for key, _, value in reversed(fields)}
            self._commits[commit] = _Commit(found["tree"], found.get("parent", ""), Extent.read(message))
        return self._commits[commit]

    # -- writing

    def fill(self, room: Room, entries: Entries, texts: Mapping[bytes, bytes], head: str, visible: Path) -> "RoomTree":
        """Put files into a room, with a repository of its own if the work tree has one.

        `texts` replace files, or are new ones. `head` is the commit that the room's repository is at, `visible` the
        path at which commands in the room find the objects of the person's repository.
        """
        index = room.folder / "index"
        if self.store.common is not None:
            index = room.tree / ".git" / "index"
            self._make_repository(room.tree / ".git", head, visible)
        git = self._git.using(GIT_WORK_TREE=str(room.tree), GIT_INDEX_FILE=str(index))
        rows = b"".join(b"%s %s\t%s\0" % (it.mode.encode(), it.blob.encode(), path) for path, it in entries.items())
        for words, stdin in ((("update-index", "-z", "--index-info"), rows), (("checkout-index", "-a", "-u"), b"")):
            done = git.run(*words, stdin=stdin)
            if done.returncode != 0:
                said = text_of(done.stderr).strip().splitlines()
                raise NotAsStored(f"git cannot check out the snapshot: {said[-1] if said else done.returncode}")
        wanted = dict(entries)
        for path, content in texts.items():
            _write(room.tree, path, content, wanted.get(path))
            mode = entry.mode if (entry := wanted.get(path)) and entry.mode.startswith("100") else FILE
            put(wanted, path, TreeEntry(mode, object_hash("blob", content, self.store.algorithm)))
        scan = FolderScan(os.fsencode(room.tree), self.store.algorithm)
        made = RoomTree(scan, wanted, tree_hash(wanted, self.store.algorithm))
        made.check(set())
        return made

    def _make_repository(self, folder: Path, head: str, visible: Path) -> None:
        """Nothing of the person's settings and hooks; tools find HEAD, tags and history."""
        bare_git_dir(folder, self.store.algorithm)
        private_folder(folder / "objects" / "info")
        (folder / "objects" / "info" / "alternates").write_bytes(os.fsencode(visible) + b"\n")
        if head:
            (folder / "HEAD").write_text(f"{head}\n")
        (folder / "packed-refs").write_text("".join(f"{commit} {ref}\n" for ref, commit in self._tag_refs().items()))

    def _tag_refs(self) -> Mapping[str, str]:
        if self._tags is None:
            self._tags = Git(self.store.work_dir, {"GIT_DIR": str(self.store.common)}).refs("refs/tags/")
        return dict(sorted(self._tags.items()))


@dataclass(frozen=True, slots=True)
class RoomTree:
    """The files of a room as they must be, and the hash of their tree."""

    _scan: FolderScan
    entries: Entries
    hash: str

    def altered(self) -> list[bytes]:
        """The files that are no longer as they were checked out."""
        wanted = ((path, entry) for path, entry in self.entries.items() if entry.mode != NESTED)
        return [path for path, entry in wanted if self._scan.entry(path) != entry]

    def added(self, folders: Iterable[bytes]) -> list[bytes]:
        """The files directly in these folders that were not checked out."""
        return [path for folder in folders for path in self._scan.files_in(folder) if path not in self.entries]

    def check(self, lent: set[bytes], *, others: bool = False) -> None:
        """NotAsStored unless the files on the disk are these; `others` may be there as well."""
        wanted = {path: entry for path, entry in self.entries.items() if entry.mode != NESTED}
        if others:
            found = {path: entry for path in wanted if (entry := self._scan.entry(path)) is not None}
        else:
            found = self._scan.entries({_DOT_GIT, *lent})
        if found != wanted:
            wrong = sorted(path for path in {*found, *wanted} if found.get(path) != wanted.get(path))
            named = ", ".join(text_of(path) for path in wrong[:_MOST_NAMED])
            more = f" and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
            raise NotAsStored(f"{named}{more}: not as in the snapshot")


def bare_git_dir(folder: Path, algorithm: str) -> None:
    for name in ("info", "objects", "refs"):
        private_folder(folder / name)
    version, more = (0, "") if algorithm == "sha1" else (1, f"[extensions]\n\tobjectformat = {algorithm}\n")
    core = f"[core]\n\trepositoryformatversion = {version}\n\tbare = false\n\tfilemode = true\n"
    (folder / "config").write_text(core + more)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")


def _write(tree: Path, path: bytes, content: bytes, before: TreeEntry | None) -> None:
    """Write a file of ours without following links: what is in its way is removed."""
    root, parts = os.fsencode(tree), path.split(b"/")
    for depth in range(1, len(parts)):
        above = os.path.join(root, *parts[:depth])
        if os.path.lexists(above) and not stat.S_ISDIR(os.lstat(above).st_mode):
            os.unlink(above)
        if not os.path.lexists(above):
            os.mkdir(above)
    full = os.path.join(root, path)
    mode = 0o777 if before and before.mode == "100755" else 0o666
    if os.path.lexists(full):
        remove(Path(os.fsdecode(full)), tree)
    with open(os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as sink:
        sink.write(content)
