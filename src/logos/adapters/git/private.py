"""A separate GIT_DIR that shares the objects of the user's repository, but none of the files that agents can change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from logos.adapters.files import own_folder, private_folder
from logos.adapters.git.command import Git, Repository, Settings, without_drivers
from logos.adapters.git.worktrees import remove

# After a power cut, no ref may point to an object that was lost.
DURABLE: Settings = (("core.fsync", "committed,loose-object"), ("core.fsyncMethod", "batch"))
# Never descend into submodules, and write the index with a hash that shows damage.
_PLAIN: Settings = (("submodule.recurse", "false"), ("index.skipHash", "false"))

# Store bytes unchanged: no conversion of line ends, keywords or encodings.
_ATTRIBUTES = b"* -text -ident !eol !working-tree-encoding\n"
# The entries of our GIT_DIR, and whether each is a folder; any other file could make git read other settings.
_OURS = {"index": False, "HEAD": False, "config": False, "info": True, "objects": True, "refs": True}
# LFS restores what it stores, and without it files would be stored that are too large for a repository.
_TRUSTED_FILTERS = ("filter.lfs",)


class PrivateGit:
    def __init__(self, wd: Path, repository: Repository, home: Path | None) -> None:
        self._wd = wd
        self._repository = repository
        self.home = home or wd / ".telos" / "snapshots"
        self._git: Git | None = None
        self._known: dict[str, tuple[str, str]] = {}

    @property
    def index(self) -> Path:
        return self.home / "index"

    @property
    def git(self) -> Git:
        return self._git or self.prepare()

    def prepare(self) -> Git:
        """Git with this GIT_DIR, whose files are written again each time in case an agent changed them."""
        settings = self._known = self._known or {key: (scope, value) for scope, key, value in self._settings()}
        self._own(self.home)
        for entry in self.home.iterdir():
            if not _is_ours(entry):
                _clear(entry)
        for name, is_folder in _OURS.items():
            if is_folder:
                self._own(self.home / name)
        for name, content in self._files(settings):
            _put(self.home / name, content)
        variables = {
            "GIT_DIR": str(self.home),
            "GIT_WORK_TREE": str(self._repository.top),
            "GIT_OBJECT_DIRECTORY": str(self._repository.common / "objects"),
            "GIT_LITERAL_PATHSPECS": "1",
        }
        plain = Git(self._repository.top, variables)
        # A filter may remove content when a file is stored that it does not restore.
        filters = without_drivers((key for key in settings if key.startswith("filter.")), _TRUSTED_FILTERS)
        more = (*DURABLE, *_PLAIN, *self._ignoring(settings), *filters)
        self._git = replace(plain, settings=(*plain.settings, *more)).disarmed()
        return self._git

    def _own(self, folder: Path) -> None:
        """Create a folder. A symbolic link is replaced: it could point to the user's GIT_DIR."""
        if self.home.is_relative_to(self._wd):
            own_folder(self._wd / ".telos")
        if folder.is_symlink() or not folder.is_dir():
            _clear(folder)
        private_folder(folder)

    def _settings(self) -> Iterator[tuple[str, str, str]]:
        """Scope, key and value of every setting of the user's repository."""
        fields = os.fsdecode(Git(self._wd).ask("config", "--list", "-z", "--show-scope")).split("\0")
        for scope, setting in zip(fields[::2], fields[1::2], strict=False):
            key, _, value = setting.partition("\n")
            yield scope, key, value

    def _files(self, settings: dict[str, tuple[str, str]]) -> Iterator[tuple[str, bytes]]:
        names = settings.get("extensions.objectformat", ("", "sha1"))[1]
        version = 0 if names == "sha1" else 1
        more = "" if names == "sha1" else f"[extensions]\n\tobjectformat = {names}\n"
        core = f"[core]\n\trepositoryformatversion = {version}\n\tbare = false\n\tfilemode = true\n"
        yield "config", f"{core}{more}".encode()
        yield "HEAD", b"ref: refs/heads/none\n"
        yield "info/attributes", _ATTRIBUTES
        exclude = self._repository.common / "info" / "exclude"
        yield "info/exclude", exclude.read_bytes() if exclude.is_file() and os.access(exclude, os.R_OK) else b""

    def _ignoring(self, settings: dict[str, tuple[str, str]]) -> Settings:
        """The ignore file that the repository's own settings name, if any."""
        if not _is_local(settings, "core.excludesfile"):
            return ()
        path = Path(settings["core.excludesfile"][1]).expanduser()
        return (("core.excludesFile", str(self._repository.top / path)),)


def _is_ours(entry: Path) -> bool:
    if entry.name not in _OURS or entry.is_symlink():
        return False
    return entry.is_dir() if _OURS[entry.name] else entry.is_file()


def _put(path: Path, content: bytes) -> None:
    """Replace whatever is at the path with a new file; symbolic links are not followed."""
    new = path.with_name(f"{path.name}.new")
    for there in (new, path):
        if there.is_symlink() or not there.is_file():
            _clear(there)
    new.write_bytes(content)
    os.replace(new, path)


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove(path)
    else:
        path.unlink(missing_ok=True)


def _is_local(settings: dict[str, tuple[str, str]], key: str) -> bool:
    return key in settings and settings[key][0] in ("local", "worktree")
