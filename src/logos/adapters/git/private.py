"""A GIT_DIR of our own beside a person's: with their objects, and nothing else of theirs or that agents put there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from logos.adapters.files import own_folder, private_folder
from logos.adapters.git.command import Git, Repository, Settings
from logos.adapters.git.worktrees import remove

# A ref that outlives a power cut must not lead to an object that did not.
DURABLE: Settings = (("core.fsync", "committed,loose-object"), ("core.fsyncMethod", "batch"))
# Never into other repositories; and an index whose hash tells whether it is whole.
_PLAIN: Settings = (("submodule.recurse", "false"), ("index.skipHash", "false"))

# Bytes are kept as they lie there: no line ends are converted, nothing is expanded or recoded.
_ATTRIBUTES = b"* -text -ident !eol !working-tree-encoding\n"
# What may lie in our folder, and whether it is a folder: another file could lead git to settings elsewhere.
_OURS = {"index": False, "HEAD": False, "config": False, "info": True, "objects": True, "refs": True}
# Its halves undo each other, and without it files would be taken that are too large for a repository.
_TRUSTED_FILTERS = {"lfs"}


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
        """Git with this GIT_DIR, written anew every time: what an agent may have put there does not count."""
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
        more = (
            *DURABLE,
            ("submodule.recurse", "false"),
            ("index.skipHash", "false"),
            *self._ignoring(settings),
            *_without_filters(settings),
        )
        self._git = replace(plain, settings=(*plain.settings, *more)).disarmed()
        return self._git

    def _own(self, folder: Path) -> None:
        """Never through a link: it could lead to the person's own GIT_DIR."""
        if self.home.is_relative_to(self._wd):
            own_folder(self._wd / ".telos")
        if folder.is_symlink() or not folder.is_dir():
            _clear(folder)
        private_folder(folder)

    def _settings(self) -> Iterator[tuple[str, str, str]]:
        """Scope, key and value of all that holds in the person's repository."""
        said = os.fsdecode(Git(self._wd).ask("config", "--list", "-z", "--show-scope")).split("\0")
        for scope, setting in zip(said[::2], said[1::2], strict=False):
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
        yield "info/exclude", self._excluded()

    def _excluded(self) -> bytes:
        path = self._repository.common / "info" / "exclude"
        try:
            return path.read_bytes() if path.is_file() else b""
        except OSError:
            return b""

    def _ignoring(self, settings: dict[str, tuple[str, str]]) -> Settings:
        """The repository's own list of what to ignore, where it names one."""
        if not _is_local(settings, "core.excludesfile"):
            return ()
        path = Path(settings["core.excludesfile"][1]).expanduser()
        return (("core.excludesFile", str(self._repository.top / path)),)


def _is_ours(entry: Path) -> bool:
    if entry.name not in _OURS or entry.is_symlink():
        return False
    return entry.is_dir() if _OURS[entry.name] else entry.is_file()


def _put(path: Path, content: bytes) -> None:
    """A new file in the place of whatever is there: never through a link."""
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


def _without_filters(settings: dict[str, tuple[str, str]]) -> Settings:
    """What a filter takes away when a file is taken need not come back when it is put back."""
    drivers = {key.split(".", 1)[1].rpartition(".")[0] for key in settings if key.startswith("filter.")}
    off = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    return tuple(
        (f"filter.{name}.{key}", value) for name in sorted(drivers - _TRUSTED_FILTERS - {""}) for key, value in off
    )
