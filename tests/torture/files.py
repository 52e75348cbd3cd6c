"""Files as the model knows them: what lies in a work dir, and the changes that agents and a person make to it."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

FILE, PROGRAM, LINK = "100644", "100755", "120000"
# Mode and content; the content of a link is where it leads.
Entry = tuple[str, bytes]
Tree = Mapping[str, Entry]

OURS = {".git", ".telos", ".tmp"}
IGNORE_RULES = "*.log\n!kept.log\nbuild/\n"
_IGNORED = re.compile(r"(?:.*/)?(?:build/.*|(?!kept\.log$)[^/]*\.log)", re.DOTALL)
NONCE = b"{nonce}"


def is_ignored(path: str) -> bool:
    return _IGNORED.fullmatch(path) is not None


def read_tree(top: Path) -> dict[str, Entry]:
    """Everything that lies in a work dir and is not ours. What vanishes while we look is not there."""
    found: dict[str, Entry] = {}
    for folder, folders, names in os.walk(top):
        if Path(folder) == top:
            folders[:] = [name for name in folders if name not in OURS]
            names = [name for name in names if name not in OURS]
        for name in (*names, *(own for own in folders if os.path.islink(os.path.join(folder, own)))):
            path = os.path.join(folder, name)
            with suppress(FileNotFoundError):
                found[os.path.relpath(path, top)] = _entry(path)
    return found


def _entry(path: str) -> Entry:
    if os.path.islink(path):
        return LINK, os.fsencode(os.readlink(path))
    with open(path, "rb") as source:
        return PROGRAM if os.fstat(source.fileno()).st_mode & 0o100 else FILE, source.read()


def visible(tree: Tree) -> dict[str, Entry]:
    """What a checkpoint keeps."""
    return {path: entry for path, entry in tree.items() if not is_ignored(path)}


def fingerprint(tree: Tree) -> str:
    """A name for what a checkpoint keeps of a tree; byte for byte the same tree has the same."""
    digest = hashlib.sha256()
    for path, (mode, content) in sorted(visible(tree).items()):
        digest.update(b"%s %s %d\0" % (os.fsencode(path), mode.encode(), len(content)))
        digest.update(content)
    return digest.hexdigest()[:24]


def different(a: Tree, b: Tree) -> set[str]:
    """The paths at which two trees differ."""
    return {path for path in {*a, *b} if a.get(path) != b.get(path)}


@dataclass(frozen=True, slots=True)
class Edit:
    """One change, as a shell makes it and as the model does. A `{nonce}` in the content becomes that of the work."""

    how: Literal["append", "write", "delete", "link", "mark"]
    path: str
    content: bytes = b""

    def shell(self) -> str:
        path, parent = (shlex.quote(f"./{own}") for own in (self.path, os.path.dirname(self.path) or "."))
        words, *more = _format(self.content), *['"$nonce"'] * self.content.count(NONCE)
        printed = " ".join([f"printf {shlex.quote(words)}", *more])
        # A file may have to give way to a folder, and a folder to a file.
        room = f"[ -d {parent} ] || {{ rm -f {parent}; mkdir -p {parent}; }}; [ -d {path} ] && rm -rf {path}; "
        match self.how:
            case "append":
                return room + f"{printed} >>{path}"
            case "write":
                return room + f"rm -f {path}; {printed} >{path}"
            case "link":
                return room + f"ln -sfn {shlex.quote(os.fsdecode(self.content))} {path}"
            case "delete":
                return f"rm -rf {path}"
            case "mark":
                return f"[ ! -f {path} ] || chmod +x {path}"

    def apply(self, tree: dict[str, Entry], nonce: str = "") -> None:
        content = self.content.replace(NONCE, nonce.encode())
        mode, before = tree.get(self.path, (FILE, b""))
        match self.how:
            case "append":
                self._make_room(tree)
                tree[self.path] = (mode, before + content)
            case "write" | "link":
                self._make_room(tree)
                tree[self.path] = (FILE if self.how == "write" else LINK, content)
            case "delete":
                for path in [own for own in tree if own == self.path or own.startswith(f"{self.path}/")]:
                    del tree[path]
            case "mark":
                if self.path in tree:
                    tree[self.path] = (PROGRAM, before)

    def _make_room(self, tree: dict[str, Entry]) -> None:
        parent = os.path.dirname(self.path)
        for path in [own for own in tree if own == parent or own.startswith(f"{self.path}/")]:
            del tree[path]

    def touches(self, tree: Tree) -> Iterator[str]:
        """The paths that may be another after it."""
        yield self.path
        yield os.path.dirname(self.path)
        yield from (own for own in tree if own.startswith(f"{self.path}/"))


def _format(content: bytes) -> str:
    """Any bytes as the first argument of `printf`."""
    parts = ("".join(f"\\{byte:03o}" if byte != 37 else "%%" for byte in part) for part in content.split(NONCE))
    return "%s".join(parts)
