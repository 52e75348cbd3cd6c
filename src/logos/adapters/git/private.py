"""A separate GIT_DIR that shares the objects of the user's repository, but none of the files that agents can change."""

from __future__ import annotations

import os
from pathlib import Path

from logos.adapters.files import own_folder, private_folder
from logos.adapters.git.command import PLANTABLE, Git, Repository, Settings, without_drivers
from logos.adapters.git.worktrees import remove

# After a power cut, no ref may point to an object that was lost.
DURABLE: Settings = (("core.fsync", "committed,loose-object"), ("core.fsyncMethod", "batch"))
# Never descend into submodules, and write the index with a hash that shows damage.
_PLAIN: Settings = (("submodule.recurse", "false"), ("index.skipHash", "false"))

# Store bytes unchanged: no conversion of line ends, keywords or encodings.
_ATTRIBUTES = b"* -text -ident !eol !working-tree-encoding\n"
# LFS restores what it stores, and without it files would be stored that are too large for a repository.
_TRUSTED_FILTERS = ("filter.lfs",)


class PrivateGit:
    def __init__(self, wd: Path, repository: Repository, home: Path | None) -> None:
        self._wd = wd
        self._repository = repository
        self.home = home or wd / ".telos" / "snapshots"
        self.index = self.home / "index"
        self._git: Git | None = None
        self._settings: dict[str, tuple[str, str]] = {}

    @property
    def git(self) -> Git:
        return self._git or self.prepare()

    def prepare(self) -> Git:
        """Git with this GIT_DIR. All its files but the index are new each time: an agent may have changed them."""
        self._settings = self._settings or self._read_settings()
        if self.home.is_relative_to(self._wd):
            own_folder(self._wd / ".telos")
        # Symbolic links are removed, too: they could lead to the user's GIT_DIR.
        if self.home.is_symlink() or not self.home.is_dir():
            remove(self.home)
        private_folder(self.home)
        for entry in self.home.iterdir():
            if entry != self.index or entry.is_symlink() or not entry.is_file():
                remove(entry)
        for name in ("info", "objects", "refs"):
            private_folder(self.home / name)
        for name, content in self._files().items():
            (self.home / name).write_bytes(content)
        variables = {"GIT_DIR": str(self.home), "GIT_WORK_TREE": str(self._repository.top)}
        variables |= {"GIT_OBJECT_DIRECTORY": str(self._repository.common / "objects"), "GIT_LITERAL_PATHSPECS": "1"}
        # A filter may remove content when a file is stored that it does not restore.
        filters = without_drivers((key for key in self._settings if key.startswith("filter.")), _TRUSTED_FILTERS)
        # The ignore file that the repository's own settings name, if any.
        scope, path = self._settings.get("core.excludesfile", ("", ""))
        named = (("core.excludesFile", str(self._repository.top / Path(path).expanduser())),)
        ignored = named if scope in PLANTABLE else ()
        self._git = Git(self._repository.top, variables).with_settings((*DURABLE, *_PLAIN, *ignored, *filters))
        return self._git

    def _read_settings(self) -> dict[str, tuple[str, str]]:
        """Scope and value of every setting of the user's repository, by key."""
        fields = os.fsdecode(Git(self._wd).ask("config", "--list", "-z", "--show-scope")).split("\0")
        split = ((scope, *setting.partition("\n")) for scope, setting in zip(fields[::2], fields[1::2], strict=False))
        return {key: (scope, value) for scope, key, _, value in split}

    def _files(self) -> dict[str, bytes]:
        _, names = self._settings.get("extensions.objectformat", ("", "sha1"))
        version, more = (0, "") if names == "sha1" else (1, f"[extensions]\n\tobjectformat = {names}\n")
        core = f"[core]\n\trepositoryformatversion = {version}\n\tbare = false\n\tfilemode = true\n"
        exclude = self._repository.common / "info" / "exclude"
        return {
            "config": f"{core}{more}".encode(),
            "HEAD": b"ref: refs/heads/none\n",
            "info/attributes": _ATTRIBUTES,
            "info/exclude": exclude.read_bytes() if exclude.is_file() and os.access(exclude, os.R_OK) else b"",
        }
